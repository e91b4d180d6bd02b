// A folder of volumes and snapshots as image files (layout: pool_paths.h; records: record.h).
//
// Thin: an image takes the room of what was written to it. What is promised in all is bounded by
// the over-commit ratio, and nothing new is made once the pool's file system is nearly full.
//
// Thread-safe. One process has a pool open at a time. A change of a volume or snapshot, and a
// creation under a name, excludes every other of the same: ABORTED, at once, for the second.
//
// Failures: a call that fails leaves nothing half-made that a later open or call would not clear.
// DATA_LOSS: an image is missing or is another file than recorded; it is never touched then.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/key_locks.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "block/images/image.h"
#include "block/pools/pool_paths.h"
#include "block/record.h"
#include "block/sizes.h"
#include "platform/devices/loop_device.h"
#include "platform/mounts/mounter.h"

namespace berth::block {

struct PoolOptions {
  // How much may be promised to volumes, as a multiple of the size of the pool's file system.
  double overcommit = 2.0;
  // How long a mounted file system may stay frozen while it is copied.
  std::chrono::milliseconds freeze_limit{std::chrono::seconds(30)};
  // How long copying an image that is not in use may take.
  std::chrono::milliseconds copy_limit{std::chrono::hours(1)};
};

struct NewVolume {
  std::string name;
  SizeRange size;
  AccessType access = AccessType::kMount;
  std::string fs_type;             // empty: that of the source; or raw block
  Source source;                   // id empty: none
  std::string inline_target = "";  // see Record
};

struct Capacity {
  int64_t available_bytes = 0;   // for new volumes
  int64_t promisable_bytes = 0;  // to all volumes together
};

class Pool {
 public:
  // Opens the pool in `folder`, which is made if missing, and finishes what a crash left: half-made
  // images are removed, deletions and growths completed, file systems that were frozen for a copy
  // thawed. FAILED_PRECONDITION: another process has it open. `mounter` and `clock` are borrowed.
  static base::StatusOr<std::unique_ptr<Pool>> Open(const std::string& folder,
                                                    const PoolOptions& options,
                                                    platform::Mounter& mounter,
                                                    const base::Clock& clock);
  ~Pool() = default;

  // The volume of that name: made now, or made before and satisfying what is asked. ALREADY_EXISTS:
  // it does not satisfy. NOT_FOUND: no such source. INVALID_ARGUMENT: the source is of another
  // kind. OUT_OF_RANGE: a size that this pool never has. RESOURCE_EXHAUSTED: no room at present.
  base::StatusOr<Record> CreateVolume(const NewVolume& wanted);

  // The volume of that name, if it is ready.
  std::optional<Record> FindVolume(const std::string& name) const;

  // OK also for one that does not exist. FAILED_PRECONDITION: it is mapped to a device.
  base::Status DeleteVolume(const std::string& id);

  // Makes the volume at least `range.required` bytes; its device and file system follow by the
  // node. A size that it has already is OK.
  base::StatusOr<Record> GrowVolume(const std::string& id, const SizeRange& range);

  // The snapshot of that name: cut now, or before. ALREADY_EXISTS: it shows another volume.
  // FAILED_PRECONDITION: the volume is in use in a way in which no consistent copy can be had.
  base::StatusOr<Record> CreateSnapshot(const std::string& volume_id, const std::string& name);
  base::Status DeleteSnapshot(const std::string& id);

  // NOT_FOUND; DATA_LOSS where the record cannot be read.
  base::StatusOr<Record> Get(Kind kind, const std::string& id) const;
  // All that are ready, ordered by id.
  std::vector<Record> List(Kind kind) const;
  // Whether the image of `record` is there and is the recorded file: OK, or DATA_LOSS with the
  // reason.
  base::Status CheckImage(const Record& record) const;

  base::StatusOr<Capacity> GetCapacity() const;

  // --- For the node, which works on one volume under its lock ---

  base::StatusOr<base::KeyLocks::Hold> Lock(const std::string& volume_id);

  // Writes changed members of a volume's record; the caller holds its lock.
  base::Status Update(const Record& record);

  // The loop device that shows the volume's image, made if there is none: with direct I/O, and as
  // large as the volume. Recognised by the image's device and inode number.
  base::StatusOr<platform::LoopDevice> Map(const std::string& volume_id);
  // Takes all content away from a volume whose format was begun and never finished, and maps it
  // anew.
  base::StatusOr<platform::LoopDevice> MapEmptied(const std::string& volume_id);
  // Removes the device; OK if there is none. FAILED_PRECONDITION: something has it open, also after
  // `patience`. A mount namespace that was copied while the volume was mounted holds on to it until
  // it has let go of the copy, as every container does that a runtime is about to start: the kernel
  // tells of that by no event, so it is tried again.
  base::Status Unmap(const std::string& volume_id,
                     std::chrono::milliseconds patience = std::chrono::milliseconds(0));
  // `deferred` tells, asked under a volume's lock, whether its device was given to a container
  // runtime, whose kernel may have the file system mounted where this host's does not know of it.
  // Before the pool is used by more than one thread; without it no volume is. It outlives all
  // copies.
  void AskWhetherDeferred(std::function<bool(const std::string& volume_id)> deferred) {
    is_deferred_ = std::move(deferred);
  }

  // The device, if there is one. Needs no lock, and tells then what was.
  base::StatusOr<std::optional<platform::LoopDevice>> FindDevice(
      const std::string& volume_id) const;

  const PoolPaths& paths() const { return paths_; }

 private:
  struct Shelf {
    std::map<std::string, Record> records;
    std::map<std::string, std::string> ids;         // by name
    std::map<std::string, std::string> unreadable;  // id to reason
  };

  Pool(const std::string& folder, const PoolOptions& options, platform::Mounter& mounter,
       const base::Clock& clock)
      : paths_(folder), options_(options), mounter_(mounter), clock_(clock) {}

  // pool_recovery.cc
  base::Status Recover();
  base::Status Load(Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LoadRecord(Kind kind, const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  base::Status Resume(const Record& record);
  void ThawSource(const Record& record);

  // pool.cc
  static std::string LockKey(Kind kind, std::string_view id);
  static std::string NameKey(Kind kind, std::string_view name);
  std::optional<Record> FindByName(Kind kind, const std::string& name) const;
  base::StatusOr<Record> Make(Record record, const std::optional<Record>& source);
  base::Status MakeSteps(Record& record, const std::optional<Record>& source);
  base::Status WriteRecord(const Record& record);
  base::Status Remove(Record record);
  base::Status Delete(Kind kind, const std::string& id);
  base::Status Reserve(const Record& record) ABSL_LOCKS_EXCLUDED(mutex_);
  base::StatusOr<Record> PlanVolume(const NewVolume& wanted, const std::optional<Record>& source);
  base::StatusOr<base::UniqueFd> OpenChecked(const Record& record, int flags) const;
  void Remember(const Record& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  base::StatusOr<base::KeyLocks::Hold> LockSource(const Source& source);
  int64_t CommittedBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // pool_copy.cc
  base::Status Fill(const base::UniqueFd& image, const Record& record, const Record& source);
  base::Status CopyInUse(const base::UniqueFd& from, const base::UniqueFd& to, const Record& source,
                         const platform::LoopDevice& device);
  base::Status CopyFrozen(const base::UniqueFd& from, const base::UniqueFd& to,
                          const std::string& mount_point);
  base::Status CheckRoomFor(const Record& source) const;
  base::StatusOr<std::string> MountPointOf(const platform::LoopDevice& device) const;

  // pool_device.cc
  base::Status CompleteGrowth(Record record);

  Shelf& shelf(Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return shelves_[static_cast<size_t>(kind)];
  }
  const Shelf& shelf(Kind kind) const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return shelves_[static_cast<size_t>(kind)];
  }

  const PoolPaths paths_;
  const PoolOptions options_;
  platform::Mounter& mounter_;
  const base::Clock& clock_;
  PoolPlace place_;       // set at open
  bool reflink_ = false;  // set at open: images can share extents
  std::function<bool(const std::string&)> is_deferred_;
  base::UniqueFd lock_;
  base::KeyLocks locks_;

  mutable base::Mutex mutex_;
  std::array<Shelf, 2> shelves_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::block
