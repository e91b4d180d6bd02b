// An RBD image as the store of a volume (blockexport/block_store.h).
//
// A store that was opened for writing has the exclusive lock of the image as long as it lives. It
// ends for good, and from then on answers ESHUTDOWN to everything, reads included, if
//   - the cluster answers that this client is on the blocklist, because the node was fenced, or
//   - the lock is gone, which only a fence can bring about.
// It logs why, and never makes a new client, because that would undo the fence.
//
// Time: no request gets an error because the cluster is slow. A request that has no answer after
// kRequestLimit ends the process, since only then no later write of this client can follow one that
// its user believes has failed; the next process of this node puts this one on the blocklist first.
// A pool that is full answers ENOSPC at once.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "api/kinds/object_ids.h"
#include "blockexport/block_store.h"
#include "rbd/cluster.h"
#include "rbd/image.h"
#include "rbd/watchdog.h"

namespace berth::rbd {

inline constexpr std::chrono::minutes kRequestLimit(10);

struct StoreOptions {
  std::string image;
  api::NodeName node;
  bool read_only = false;
};

class RbdStore : public blockexport::BlockStore {
 public:
  // Opens the image and takes its lock. A process of this node that served the image before is
  // fenced first, since its requests may still be under way. NOT_FOUND: there is no such image.
  // FAILED_PRECONDITION: another client has the lock, or it is a snapshot and to be written to.
  static base::StatusOr<std::unique_ptr<RbdStore>> Open(std::unique_ptr<Cluster> cluster,
                                                        const StoreOptions& options);
  ~RbdStore() override;

  int64_t size_bytes() const override { return size_bytes_; }
  bool read_only() const override { return read_only_; }
  int Read(int64_t offset, std::span<char> into) override;
  int Write(int64_t offset, std::span<const char> from) override;
  int Flush() override;
  int WriteZeroes(int64_t offset, int64_t length) override;
  base::Status Refresh() override;

 private:
  RbdStore(std::unique_ptr<Cluster> cluster, std::unique_ptr<Image> image, bool read_only);
  // The errno for what librbd returned, given that it should have been `whole` or, if that is 0,
  // not negative. Ends the store if the cluster refuses it.
  int CheckResult(ssize_t result, size_t whole);

  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<Image> image_;
  const bool read_only_;
  std::atomic<int64_t> size_bytes_{0};
  std::atomic<bool> ended_{false};
  std::atomic<bool> full_told_{false};
  Watchdog watchdog_;
};

}  // namespace berth::rbd
