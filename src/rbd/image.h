// An image of a pool, opened by this client, and what can be learned of it without opening it.
//
// Before it opens an image, a client records itself (records.h), so that a fence and the next user
// know on which node each client is. The record is removed when the image is closed.
#pragma once

#include <rbd/librbd.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/kinds/object_ids.h"
#include "base/status.h"
#include "rbd/cluster.h"
#include "rbd/records.h"

namespace berth::rbd {

// Who has the exclusive lock of an image.
struct Locker {
  uint64_t client_id = 0;
  std::string client;  // "client.4242"
  std::string cookie;
  std::string address;
};

struct Watcher {
  uint64_t client_id = 0;
  std::string address;
};

// librbd's id of the image, by which its objects are called; nullopt: there is no such image.
base::StatusOr<std::optional<std::string>> FindImageId(const Cluster& cluster,
                                                       const std::string& name);
// The object that has an image's properties, lock and watchers.
std::string HeaderOf(const std::string& image_id);
// At most one, unless something else than librbd took a shared lock. NOT_FOUND: the image is gone.
base::StatusOr<std::vector<Locker>> ListLockers(const Cluster& cluster,
                                                const std::string& image_id);
// Breaks exactly that lock; OK also if it is not held any more. Its owner is fenced before.
base::Status BreakLock(const Cluster& cluster, const std::string& image_id, const Locker& locker);

struct OpenOptions {
  api::NodeName node;
  Program program = Program::kCall;
  bool read_only = false;
};

class Image {
 public:
  // Borrows `cluster`. NOT_FOUND: there is no such image.
  static base::StatusOr<std::unique_ptr<Image>> Open(const Cluster& cluster,
                                                     const std::string& name,
                                                     const OpenOptions& options);
  // Closes the image, which releases its lock if this client has it, and removes the record of the
  // client.
  ~Image();
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  // Leaves the record of this client to the caller.
  void KeepRecord() { recorded_ = false; }

  rbd_image_t handle() const { return image_; }
  const Cluster& cluster() const { return cluster_; }
  const std::string& name() const { return name_; }
  const std::string& id() const { return id_; }

  base::StatusOr<int64_t> ReadSize() const;
  base::StatusOr<std::vector<Watcher>> ListWatchers() const;
  // The numbers of the clients that watch the image and answer within `time`. The cluster lists one
  // that died as a watcher for half a minute.
  base::StatusOr<std::set<uint64_t>> ListAnswering(std::chrono::milliseconds time) const;
  // Names of the image's snapshots of librbd, also of those in its trash.
  base::StatusOr<std::vector<std::string>> ListSnapshots() const;

 private:
  Image(const Cluster& cluster, std::string name, ClientRecord record)
      : cluster_(cluster), name_(std::move(name)), record_(std::move(record)) {}

  const Cluster& cluster_;
  const std::string name_;
  const ClientRecord record_;
  std::string id_;
  bool recorded_ = false;
  rbd_image_t image_ = nullptr;
};

}  // namespace berth::rbd
