// Fills an image with the content of another: by reflink if the pool's file system supports it,
// else byte by byte. The copy is consistent also while the source is in use.
//
//   source                     reflink pool                    other pool
//   snapshot, idle volume      clone                           sparse copy
//   mounted file system        freeze, clone, thaw             freeze, sparse copy, thaw; within
//                                                              the limit
//   mounted out of sight       refused                         refused
//   deferred                   flush, clone (as after a crash) refused
//   raw block, mapped          flush, clone (as after a crash) refused
//
// Copies that belong together are made while all their file systems are frozen, one after the
// other, within the limit for one.
//
// If it is not known whether a volume is deferred, it counts as deferred unless this host has its
// file system mounted, because never two kernels have it mounted.
//
// A deferred volume has its file system mounted by a container runtime, in a kernel that cannot
// be asked to freeze it. A clone then has what the device had at one moment: the file system
// replays its journal at the first mount, and data that programs had not synced is missing.
#include <fcntl.h>

#include <algorithm>

#include "base/log.h"
#include "block/device.h"
#include "block/mounts.h"
#include "block/pools/pool.h"
#include "block/space.h"
#include "platform/file_systems/reflink.h"

namespace berth::block {
namespace {

using base::Error;
using base::StatusCode;
using std::chrono::steady_clock;

base::Status CopyUntil(const base::UniqueFd& from, const base::UniqueFd& to,
                       steady_clock::time_point deadline) {
  return base::Annotate(platform::CopyImage(from.get(), to.get(), {.deadline = deadline}).status(),
                        "copy the image");
}

// Copies by reflink take some milliseconds. The wait is short, because it holds a worker.
constexpr std::chrono::milliseconds kPatience{100};

}  // namespace

base::StatusOr<base::Semaphore::Permit> Pool::PermitCopy(const Record& copy) {
  base::Semaphore::Permit permit = copies_.Acquire(kPatience);
  if (permit != nullptr) return permit;
  return Error(StatusCode::kUnavailable,
               "{} {} has to wait, because pool {} already makes {} copies, which is the most at "
               "once: try again later",
               NameOf(copy.kind), base::Quote(copy.name), base::Quote(paths_.folder()),
               options_.max_copies);
}

// "" if this mount namespace has no mount of the device.
base::StatusOr<std::string> Pool::MountPointOf(const platform::LoopDevice& device) const {
  ASSIGN_OR_RETURN(const std::vector<platform::MountEntry> table, mounter_.List());
  for (const platform::MountEntry& entry : table) {
    if (ShowsFileSystemOf(entry, device)) return entry.mount_point;
  }
  return std::string();
}

// A byte-by-byte copy is not begun if it could fill the pool to its last block, because then the
// writes of every other volume would fail. The result holds its room as long as the copy runs; what
// is written already counts twice until then.
base::StatusOr<std::shared_ptr<void>> Pool::ReserveRoomFor(const Record& source) {
  if (reflink_) return std::shared_ptr<void>();
  const int64_t wanted = ReadAllocatedBytes(paths_.Image(source.kind, source.id));
  int64_t others = 0;
  {
    base::MutexLock lock(mutex_);
    others = copying_bytes_;
    copying_bytes_ += wanted;
  }
  std::shared_ptr<void> room(nullptr, [this, wanted](void*) {
    base::MutexLock lock(mutex_);
    copying_bytes_ -= wanted;
  });
  // The free space is read after the other copies were counted, so that one that ends meanwhile
  // counts at least once.
  ASSIGN_OR_RETURN(const Space space, ReadSpace(paths_.folder(), options_.keep_free));
  if (wanted + others <= space.free - space.kept) return room;
  return Error(StatusCode::kResourceExhausted,
               "pool {} has no room for a copy: it takes {} bytes, other copies take {}, {} are "
               "free, and {} are reserved",
               base::Quote(paths_.folder()), wanted, others, space.free, space.kept);
}

base::StatusOr<Pool::PendingCopy> Pool::PrepareCopy(const base::UniqueFd& image,
                                                    const Record& source) {
  PendingCopy copy{.to = &image};
  ASSIGN_OR_RETURN(copy.room, ReserveRoomFor(source));
  ASSIGN_OR_RETURN(copy.from, OpenChecked(source, O_RDONLY));
  if (source.kind == Kind::kVolume) {
    ASSIGN_OR_RETURN(copy.device, FindDevice(source.id));
  }
  if (copy.device.has_value()) RETURN_IF_ERROR(DecideUse(source, copy));
  return copy;
}

base::Status Pool::DecideUse(const Record& source, PendingCopy& copy) const {
  const platform::LoopDevice& device = *copy.device;
  const Deferral deferral = deferred_check_ ? deferred_check_(source.id) : Deferral::kNo;
  ASSIGN_OR_RETURN(copy.mount_point, MountPointOf(device));
  const bool deferred =
      deferral == Deferral::kYes || (deferral == Deferral::kUnknown && copy.mount_point.empty());
  if (source.access == AccessType::kBlock || deferred) {
    if (!reflink_) {
      const std::string use =
          source.access == AccessType::kBlock
              ? fmt::format("raw block volume {} is in use", base::Quote(source.id))
          : deferral == Deferral::kYes
              ? fmt::format("deferred volume {} is in use", base::Quote(source.id))
              : fmt::format("no record says who uses volume {}, so a container runtime may have it",
                            base::Quote(source.id));
      return Error(StatusCode::kFailedPrecondition,
                   "{} as {}, and pool {} is on a file system without reflinks: copy it while no "
                   "pod uses it",
                   use, device.path, base::Quote(paths_.folder()));
    }
    if (deferred) {
      LOG_INFO(
          "volume {} is copied without a freeze, as after a crash, because a container runtime {} "
          "its file system mounted",
          base::Quote(source.id), deferral == Deferral::kYes ? "has" : "may have");
    }
    return base::OkStatus();
  }
  copy.freeze = !copy.mount_point.empty();
  copy.exclusive_flush = !copy.freeze;
  return base::OkStatus();
}

base::Status Pool::CopyTogether(std::span<PendingCopy> copies) {
  // One such volume is copied at one moment, by a reflink, while the others are frozen. A second
  // one would be copied at another moment, while programs write to both.
  std::vector<std::string> moving;
  for (const PendingCopy& copy : copies) {
    if (copy.CanChange()) moving.push_back(copy.device->path);
  }
  if (moving.size() > 1) {
    return Error(StatusCode::kFailedPrecondition,
                 "{} are in use and cannot be held still together, because they are raw block "
                 "volumes or mounted in another kernel: take their snapshots while no pod uses "
                 "them, or without a group",
                 fmt::join(moving, ", "));
  }
  const bool freezes = std::ranges::any_of(copies, &PendingCopy::freeze);
  const auto begin = steady_clock::now();
  const auto deadline = begin + (freezes ? options_.freeze_limit : options_.copy_limit);
  base::Status copied;
  for (PendingCopy& copy : copies) {
    if (!copy.freeze) continue;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
    auto frozen =
        platform::FreezeFileSystem(copy.mount_point, std::max(left, std::chrono::milliseconds(1)));
    // Those that are frozen already are thawed at the end of this function's caller.
    RETURN_IF_ERROR(frozen.status());
    copy.frozen = *std::move(frozen);
  }
  for (const PendingCopy& copy : copies) {
    if (copy.freeze || !copy.device.has_value() || !copied.ok()) continue;
    copied = FlushDevice(*copy.device, copy.exclusive_flush);
  }
  for (const PendingCopy& copy : copies) {
    if (copied.ok()) copied = CopyUntil(copy.from, *copy.to, deadline);
  }
  base::Status thawed;
  for (PendingCopy& copy : copies) {
    if (copy.frozen == nullptr) continue;
    const base::Status one = copy.frozen->Thaw();
    if (thawed.ok()) thawed = one;
  }
  if (freezes && (copied.code() == StatusCode::kDeadlineExceeded ||
                  thawed.code() == StatusCode::kDeadlineExceeded)) {
    return Error(
        StatusCode::kFailedPrecondition,
        "copying the volume takes longer than its file system may stay frozen, {} s: copy it "
        "while no pod uses it",
        std::chrono::duration_cast<std::chrono::seconds>(options_.freeze_limit).count());
  }
  RETURN_IF_ERROR(copied);
  return thawed;
}

// Thaws the file system of the record's source. FreezeFileSystem freezes in a child process, which
// thaws when this process dies; this function is for the case that both processes died.
void Pool::ThawSource(const Record& record) {
  if (record.source.id.empty() || record.source.kind != Kind::kVolume) return;
  const auto device = FindDevice(record.source.id);
  if (!device.ok() || !device->has_value()) return;
  const base::StatusOr<std::string> mount_point = MountPointOf(**device);
  if (!mount_point.ok() || mount_point->empty()) return;
  if (const base::Status thawed = platform::ThawFileSystem(*mount_point); !thawed.ok()) {
    LOG_ERROR("volume {} may still be frozen: {}", base::Quote(record.source.id),
              base::ToString(thawed));
  }
}

}  // namespace berth::block
