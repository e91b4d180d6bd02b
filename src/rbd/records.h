// What Berth records in a pool beside the images, so that a crash at any moment leaves nothing half
// made, nothing of others is deleted, and a fence knows which client of the cluster is on which
// node. Each record is one key of a RADOS object:
//
//   object          key                  written                     read by
//   berth.images    NAME                 before and after a change   create, snapshot, delete, list
//   berth.clients   IMAGE/CLIENT         before a client opens it,   fence, holders
//                                        or the kernel maps it
//   berth.fenced    NODE/ADDRESS         before the blocklist entry  unfence, fenced
//   berth.trash     IMAGE ID             before an image leaves its  delete, which purges
//                                        name
//
// Berth did not make an image that has no record: it neither deletes that image nor gives it to a
// volume. If the record of a client is lost, a fence leaves that client alone; it never fences a
// client that it should not.
//
//          create, snapshot              delete
//   (none) ───────▶ making ───▶ made ───▶ deleting ───▶ (none)
//             a crash: the next create or delete removes what is half made, and begins anew
//
// While an image is being made, it has a temporary name that no other attempt uses, and the record
// contains that name. The image gets its own name only when it is complete. So Berth can tell which
// half-made image belongs to a record, and remove it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/kinds/object_ids.h"
#include "base/json.h"
#include "base/status.h"
#include "rbd/cluster.h"

namespace berth::rbd {

inline constexpr char kImageRecords[] = "berth.images";
inline constexpr char kClientRecords[] = "berth.clients";
inline constexpr char kFencedRecords[] = "berth.fenced";
inline constexpr char kTrashRecords[] = "berth.trash";

enum class ImageState { kMaking, kMade, kDeleting };

struct ImageRecord {
  ImageState state = ImageState::kMaking;
  std::string id;           // librbd's id of the image; "" until it is complete
  std::string made_as;      // its temporary name while it is being made
  int64_t size_bytes = 0;   // its size now
  int64_t made_bytes = 0;   // the size with which it was made
  std::string source;       // the image or snapshot that it was copied from
  std::string snapshot_of;  // the image of which this is a snapshot; "": it is a volume

  base::Json ToJson() const;
  // DATA_LOSS: the text is no such record.
  static base::StatusOr<ImageRecord> Parse(const std::string& text);
};

base::StatusOr<std::optional<ImageRecord>> ReadImageRecord(const Cluster& cluster,
                                                           const std::string& name);
base::StatusOr<std::map<std::string, ImageRecord>> ListImageRecords(const Cluster& cluster);
// Replaces the record `before` by `after`; nullopt means that there is no record. ABORTED: another
// call has changed the record meanwhile.
base::Status ReplaceImageRecord(const Cluster& cluster, const std::string& name,
                                const std::optional<ImageRecord>& before,
                                const std::optional<ImageRecord>& after);

// What a client is: a call, a process that serves a volume, or the kernel's driver.
enum class Program { kCall, kServe, kKernel };

// A client of the cluster that opened, or is about to open, an image. A record with the program
// kKernel and without an address is an intent: the node's kernel is about to map the image
// (kernel_clients.h).
struct ClientRecord {
  // The number that the cluster gave to the client. 0: only the address is known, as for clients of
  // the kernel. In an intent it is the number of the call that wrote the intent.
  uint64_t client_id = 0;
  std::string address;
  api::NodeName node;
  Program program = Program::kCall;
  bool read_only = false;
  // Only in an intent: the node's address in the cluster's network.
  std::string host;

  // Whether the cluster knows this client by the number `id` and the address `its_address`.
  bool IsClient(uint64_t id, const std::string& its_address) const {
    return client_id != 0 ? client_id == id : address == its_address;
  }
};

base::StatusOr<std::vector<ClientRecord>> ListClients(const Cluster& cluster,
                                                      const std::string& image);
base::Status WriteClient(const Cluster& cluster, const std::string& image,
                         const ClientRecord& record);
// Replaces the records `before`, which are not empty, by the one record `after`. ABORTED: another
// call changed the first of them meanwhile, and nothing is changed.
base::Status ReplaceClients(const Cluster& cluster, const std::string& image,
                            const std::vector<ClientRecord>& before, const ClientRecord& after);
base::Status RemoveClients(const Cluster& cluster, const std::string& image,
                           const std::vector<ClientRecord>& clients);

// An address that a fence put, or was about to put, on the blocklist.
struct FencedRecord {
  api::NodeName node;
  std::string address;
  std::string image;
};

// Lists the records of `node`; "": of all nodes.
base::StatusOr<std::vector<FencedRecord>> ListFenced(const Cluster& cluster,
                                                     const api::NodeName& node);
base::Status WriteFenced(const Cluster& cluster, const FencedRecord& record);
base::Status RemoveFenced(const Cluster& cluster, const FencedRecord& record);

}  // namespace berth::rbd
