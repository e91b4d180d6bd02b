#include "rbd/rbd_store.h"

#include <errno.h>
#include <rbd/librbd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "rbd/fence.h"
#include "rbd/lock.h"
#include "rbd/rbd_error.h"
#include "rbd/records.h"

namespace berth::rbd {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;

// librbd takes lengths of less than 2 GiB.
constexpr int64_t kMostZeroes = int64_t{512} << 20;
constexpr int kExitLate = 3;

base::Status CheckWritable(const Cluster& cluster, const std::string& image) {
  ASSIGN_OR_RETURN(const auto record, ReadImageRecord(cluster, image));
  if (record.has_value() && !record->snapshot_of.empty()) {
    return Error(StatusCode::kFailedPrecondition, "{} is a snapshot, which is only read",
                 Quote(image));
  }
  return base::OkStatus();
}

}  // namespace

base::StatusOr<std::unique_ptr<RbdStore>> RbdStore::Open(std::unique_ptr<Cluster> cluster,
                                                         const StoreOptions& options) {
  ASSIGN_OR_RETURN(const auto record, ReadImageRecord(*cluster, options.image));
  if (record.has_value() && record->state != ImageState::kMade) {
    return Error(StatusCode::kNotFound, "image {} is not complete", Quote(options.image));
  }
  if (!options.read_only) {
    RETURN_IF_ERROR(CheckWritable(*cluster, options.image));
    const auto fenced =
        FenceNode(*cluster, options.image, options.node, {.which = FenceOf::kServers});
    RETURN_IF_ERROR_WITH(fenced, "fence an earlier process of this node");
  }
  ASSIGN_OR_RETURN(auto image, Image::Open(*cluster, options.image,
                                           {.node = options.node,
                                            .program = Program::kServe,
                                            .read_only = options.read_only}));
  // A reader takes no lock, because readers do not disturb each other; but it must not begin while
  // there is a writer, whose changes it would see in parts.
  RETURN_IF_ERROR(options.read_only ? EnsureUnlocked(*image) : AcquireLock(*image));
  std::unique_ptr<RbdStore> made(
      new RbdStore(std::move(cluster), std::move(image), options.read_only));
  RETURN_IF_ERROR(made->Refresh());
  return made;
}

RbdStore::RbdStore(std::unique_ptr<Cluster> cluster, std::unique_ptr<Image> image, bool read_only)
    : cluster_(std::move(cluster)),
      image_(std::move(image)),
      read_only_(read_only),
      watchdog_(kRequestLimit, [name = image_->name()] {
        LOG_ERROR("image {}: a request had no answer for {} min, so this process ends", Quote(name),
                  kRequestLimit.count());
        _exit(kExitLate);
      }) {}

RbdStore::~RbdStore() {
  // Closing gives the lock back. A cluster that is away must not keep the process from ending.
  Watchdog closing(std::chrono::seconds(10), [] {
    LOG_WARNING("the cluster does not answer, so the image is left without being closed");
    _exit(kExitLate);
  });
  const Watchdog::Watch watch(closing);
  image_.reset();
  cluster_.reset();
}

int RbdStore::CheckResult(ssize_t result, size_t whole) {
  if (result >= 0) {
    return whole == 0 || static_cast<size_t>(result) == whole ? 0 : EIO;
  }
  const int error = static_cast<int>(-result);
  const bool lost_lock = error == EROFS && !read_only_;
  if (error == ESHUTDOWN || lost_lock) {
    if (!ended_.exchange(true)) {
      LOG_ERROR(
          "image {}: {}: node and volume are fenced, and this process neither reads nor writes any "
          "more",
          Quote(image_->name()),
          lost_lock ? "the lock is gone" : "the cluster has this client on its blocklist");
    }
    return ESHUTDOWN;
  }
  if (error == ENOSPC || error == EDQUOT) {
    if (!full_told_.exchange(true)) {
      LOG_ERROR("{}", base::Message(RbdError(
                          -error, fmt::format("write to image {}", Quote(image_->name())))));
    }
    return ENOSPC;
  }
  LOG_WARNING("{}",
              base::Message(RbdError(-error, fmt::format("use image {}", Quote(image_->name())))));
  return EIO;
}

int RbdStore::Read(int64_t offset, std::span<char> into) {
  if (ended_) return ESHUTDOWN;
  if (into.empty()) return 0;
  const Watchdog::Watch watch(watchdog_);
  return CheckResult(
      rbd_read(image_->handle(), static_cast<uint64_t>(offset), into.size(), into.data()),
      into.size());
}

int RbdStore::Write(int64_t offset, std::span<const char> from) {
  if (ended_) return ESHUTDOWN;
  if (read_only_) return EROFS;
  if (from.empty()) return 0;
  const Watchdog::Watch watch(watchdog_);
  return CheckResult(
      rbd_write(image_->handle(), static_cast<uint64_t>(offset), from.size(), from.data()),
      from.size());
}

int RbdStore::Flush() {
  if (ended_) return ESHUTDOWN;
  if (read_only_) return 0;
  const Watchdog::Watch watch(watchdog_);
  return CheckResult(rbd_flush(image_->handle()), 0);
}

int RbdStore::WriteZeroes(int64_t offset, int64_t length) {
  if (read_only_) return EROFS;
  while (length > 0) {
    if (ended_) return ESHUTDOWN;
    const int64_t part = std::min(length, kMostZeroes);
    const Watchdog::Watch watch(watchdog_);
    const int error = CheckResult(rbd_write_zeroes(image_->handle(), static_cast<uint64_t>(offset),
                                                   static_cast<size_t>(part), 0, 0),
                                  static_cast<size_t>(part));
    if (error != 0) return error;
    offset += part;
    length -= part;
  }
  return 0;
}

base::Status RbdStore::Refresh() {
  ASSIGN_OR_RETURN(const int64_t size, image_->ReadSize());
  size_bytes_ = size;
  return base::OkStatus();
}

}  // namespace berth::rbd
