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
// An image without a record was not made by Berth, and Berth neither deletes it nor gives it for
// one of its own. A lost record of a client makes a fence do less, never more.
//
//          create, snapshot              delete
//   (none) ───────▶ making ───▶ made ───▶ deleting ───▶ (none)
//             a crash: the next create or delete removes what is half made, and begins anew
//
// While it is being made, an image has a name that no other attempt uses, and its record says
// which. Only when it is complete it gets its own name. So what is half made can be removed without
// a doubt about whose it is.
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
  std::string made_as;      // its name while it is being made
  int64_t size_bytes = 0;   // now
  int64_t made_bytes = 0;   // as it was made
  std::string source;       // the image or snapshot that it was copied from
  std::string snapshot_of;  // of a snapshot: the image

  base::Json ToJson() const;
  // DATA_LOSS: the text is no such record.
  static base::StatusOr<ImageRecord> Parse(const std::string& text);
};

base::StatusOr<std::optional<ImageRecord>> ReadImageRecord(const Cluster& cluster,
                                                           const std::string& name);
base::StatusOr<std::map<std::string, ImageRecord>> ListImageRecords(const Cluster& cluster);
// Puts `after` in the place of the record `before`; nullopt: none. ABORTED: another call has
// changed the record meanwhile.
base::Status ReplaceImageRecord(const Cluster& cluster, const std::string& name,
                                const std::optional<ImageRecord>& before,
                                const std::optional<ImageRecord>& after);

// What a client is: a call, a process that serves a volume, or the kernel's driver.
enum class Program { kCall, kServe, kKernel };

// A client of the cluster that opened, or is about to open, an image.
struct ClientRecord {
  // 0: only its address is known, which is so for the kernel's. Of an intent: of the call that
  // wrote it.
  uint64_t client_id = 0;
  std::string address;
  api::NodeName node;
  Program program = Program::kCall;
  bool read_only = false;
  // Of an intent to map the image by the kernel (kernel_clients.h), which has no address: where the
  // node is in the cluster's network.
  std::string host;

  // Whether this is the client that the cluster names so.
  bool Is(uint64_t id, const std::string& its_address) const {
    return client_id != 0 ? client_id == id : address == its_address;
  }
};

base::StatusOr<std::vector<ClientRecord>> ListClients(const Cluster& cluster,
                                                      const std::string& image);
base::Status WriteClient(const Cluster& cluster, const std::string& image,
                         const ClientRecord& record);
// Puts one record in the place of others of the image. ABORTED: another call changed the first of
// them meanwhile, and nothing is changed.
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

// Those of `node`; "": all.
base::StatusOr<std::vector<FencedRecord>> ListFenced(const Cluster& cluster,
                                                     const api::NodeName& node);
base::Status WriteFenced(const Cluster& cluster, const FencedRecord& record);
base::Status RemoveFenced(const Cluster& cluster, const FencedRecord& record);

}  // namespace berth::rbd
