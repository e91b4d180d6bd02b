// A folder of volumes and snapshots as image files (layout: pool_paths.h; records: record.h).
//
// Images are thin: an image takes only the space that was written to it. The over-commit ratio
// bounds the sum of all promised sizes, and the pool makes no new image once its file system is
// nearly full.
//
// Thread-safe. One process has a pool open at a time. Two changes of one volume or snapshot, or two
// creations under one name, exclude each other: the second gets ABORTED at once.
//
// If a call fails and leaves a volume or snapshot half-made, a later open or call removes it.
// DATA_LOSS: an image is missing, or is another file than the recorded one, or a record cannot be
// read; the pool never touches such a file.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/key_locks.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "base/workers/semaphore.h"
#include "block/images/image.h"
#include "block/pools/group_record.h"
#include "block/pools/pool_paths.h"
#include "block/record.h"
#include "block/sizes.h"
#include "platform/devices/loop_device.h"
#include "platform/mounts/freeze.h"
#include "platform/mounts/mounter.h"

namespace berth::block {

struct PoolOptions {
  // The most that may be promised to all volumes, as a multiple of the size of the pool's file
  // system.
  double overcommit = 2.0;
  // The most that inline volumes may hold together, as a part of what may be promised. No quota of
  // a namespace counts them.
  double inline_share = 0.25;
  // Bytes of the pool's file system that new images may not take; nullopt: as ReadSpace has it.
  std::optional<int64_t> keep_free = std::nullopt;
  // How long a mounted file system may stay frozen while it is copied.
  std::chrono::milliseconds freeze_limit{std::chrono::seconds(30)};
  // Copies that run at once; more get UNAVAILABLE, so that workers are left to other calls.
  size_t max_copies = 4;
  // How long copying an image that is not in use may take.
  std::chrono::milliseconds copy_limit{std::chrono::hours(1)};
};

struct NewVolume {
  std::string name;
  SizeRange size;
  AccessType access = AccessType::kMount;
  std::string fs_type;             // empty: the source's, or a raw block volume
  Source source;                   // id empty: none
  std::string inline_target = "";  // see Record
  std::string pods_identity = "";  // see Record
};

// Whether a container runtime has the device of a volume.
enum class Deferral {
  kNo,
  kYes,
  kUnknown,  // the record that says it is missing or damaged
};

struct Capacity {
  int64_t available_bytes = 0;   // for new volumes
  int64_t promisable_bytes = 0;  // for all volumes together
};

class Pool {
 public:
  // Opens the pool in `folder`, and makes the folder if it is missing. Finishes or undoes the
  // changes that a crash interrupted: removes half-made images, completes deletions and growths,
  // and thaws file systems that were frozen for a copy. FAILED_PRECONDITION: another process has it
  // open. `mounter` and `clock` are borrowed.
  static base::StatusOr<std::unique_ptr<Pool>> Open(const std::string& folder,
                                                    const PoolOptions& options,
                                                    platform::Mounter& mounter,
                                                    const base::Clock& clock);
  ~Pool() = default;

  // Makes the volume, or gives the volume of that name that was made before. ALREADY_EXISTS: that
  // volume does not fit the request. NOT_FOUND: there is no such source. INVALID_ARGUMENT: the
  // size range is not valid, or the source has another access type or file system. OUT_OF_RANGE: no
  // size fits the range, or the pool can never hold it. RESOURCE_EXHAUSTED: the pool has no room
  // now. FAILED_PRECONDITION: the source is in use in a way that allows no consistent copy.
  // UNAVAILABLE: too many copies run now.
  base::StatusOr<Record> CreateVolume(const NewVolume& wanted);

  // The volume of that name, if it is ready.
  std::optional<Record> FindVolume(const std::string& name) const;

  // OK also if the volume does not exist. FAILED_PRECONDITION: it is mapped to a device, or another
  // file than the recorded one has its image's path.
  base::Status DeleteVolume(const std::string& id);

  // Grows the volume to at least `range.required` bytes. The node then grows the device and the
  // file system. OK if the volume has that size already. NOT_FOUND; OUT_OF_RANGE and
  // RESOURCE_EXHAUSTED as in CreateVolume.
  base::StatusOr<Record> GrowVolume(const std::string& id, const SizeRange& range);

  // Makes the snapshot, or gives the snapshot of that name that was made before. ALREADY_EXISTS:
  // that snapshot is of another volume. NOT_FOUND: there is no such volume. RESOURCE_EXHAUSTED: the
  // pool has no room now. FAILED_PRECONDITION: the volume is in use in a way that allows no
  // consistent copy. UNAVAILABLE: too many copies run now.
  base::StatusOr<Record> CreateSnapshot(const std::string& volume_id, const std::string& name);
  // OK also if the snapshot does not exist. INVALID_ARGUMENT: it belongs to a group, with which
  // alone it is deleted.
  base::Status DeleteSnapshot(const std::string& id);

  // Makes a snapshot of each volume, all at one moment: no file system is thawed before all are
  // copied. Gives the group of that name that was made before, if it is of these volumes. The
  // members are snapshots like others, whose record names the group. ALREADY_EXISTS: that group is
  // of other volumes. INVALID_ARGUMENT: there are no volumes, more than kMaxGroupMembers, or one of
  // them twice. Other errors as in CreateSnapshot; then there is no snapshot of any volume.
  base::StatusOr<GroupRecord> CreateGroup(const std::string& name,
                                          const std::vector<std::string>& volume_ids);
  // NOT_FOUND; DATA_LOSS: the record cannot be read.
  base::StatusOr<GroupRecord> GetGroup(const std::string& id) const;
  // Deletes the group with its snapshots; OK also if it does not exist. ABORTED: a volume is just
  // made from one of them.
  base::Status DeleteGroup(const std::string& id);

  // NOT_FOUND; DATA_LOSS: the record cannot be read.
  base::StatusOr<Record> Get(Kind kind, const std::string& id) const;
  // All volumes or snapshots that are ready, ordered by id.
  std::vector<Record> List(Kind kind) const;
  // Checks that the image of `record` exists and is the recorded file. DATA_LOSS: it is not; the
  // message says why.
  base::Status CheckImage(const Record& record) const;

  base::StatusOr<Capacity> GetCapacity() const;

  // --- For the node, which works on one volume under its lock ---

  // ABORTED: another call has the volume locked.
  base::StatusOr<base::KeyLocks::Hold> LockVolume(const std::string& volume_id);

  // Writes a volume's record whose members the caller changed; the caller holds the volume's lock.
  base::Status UpdateRecord(const Record& record);

  // Gives the loop device that shows the volume's image, and makes one if there is none: with
  // direct I/O, and as large as the volume. The image's device and inode numbers identify it.
  base::StatusOr<platform::LoopDevice> Map(const std::string& volume_id);
  // Drops all content of a volume whose mkfs began and did not finish, and maps the volume again.
  // INTERNAL: the content of the volume is not kFormatting.
  base::StatusOr<platform::LoopDevice> MapEmptied(const std::string& volume_id);
  // Detaches the device; OK if there is none. Tries again for `patience` while something has the
  // device open, because the kernel sends no event when it is closed. FAILED_PRECONDITION: it was
  // open for all that time. A mount namespace that was copied while the volume was mounted keeps
  // the device open until the copy is unmounted; this happens whenever a runtime starts a
  // container.
  base::Status Unmap(const std::string& volume_id,
                     std::chrono::milliseconds patience = std::chrono::milliseconds(0));
  // `check` tells whether the volume's device was given to a container runtime, because another
  // kernel may then have the file system mounted without this host's knowledge. The pool calls it
  // under the volume's lock, when it copies a volume that has a device. Set it before more than one
  // thread uses the pool; if it is not set, no volume counts as deferred. Its captures must outlive
  // the pool's last CreateVolume and CreateSnapshot.
  void SetDeferredCheck(std::function<Deferral(const std::string& volume_id)> check) {
    deferred_check_ = std::move(check);
  }

  // The device, if there is one. The caller needs no lock, but without the volume's lock the answer
  // may be out of date. FAILED_PRECONDITION: the image is attached twice.
  base::StatusOr<std::optional<platform::LoopDevice>> FindDevice(
      const std::string& volume_id) const;

  const PoolPaths& paths() const { return paths_; }

 private:
  // The volumes or the snapshots, as they are on disk.
  struct Shelf {
    std::map<std::string, Record> records;
    std::map<std::string, std::string> ids;         // by name
    std::map<std::string, std::string> unreadable;  // id to reason

    bool Contains(const std::string& id) const {
      return records.contains(id) || unreadable.contains(id);
    }
  };

  Pool(const std::string& folder, const PoolOptions& options, platform::Mounter& mounter,
       const base::Clock& clock)
      : paths_(folder), options_(options), mounter_(mounter), clock_(clock) {}

  // pool_recovery.cc
  base::Status Recover();
  base::Status LoadRecords(Kind kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  base::Status WarnOfForeignFiles(Kind kind) const;
  // Finishes or undoes the change that a crash interrupted.
  base::Status FinishChange(const Record& record);
  void ThawSource(const Record& record);

  // An image that is to become a copy of `source`'s, and what keeps the source still meanwhile.
  struct PendingCopy {
    const base::UniqueFd* to = nullptr;
    base::UniqueFd from;
    std::shared_ptr<void> room;  // see ReserveRoomFor
    std::optional<platform::LoopDevice> device;
    bool freeze = false;           // the file system at `mount_point` is frozen
    bool exclusive_flush = false;  // the device is mounted nowhere
    std::string mount_point;
    std::unique_ptr<platform::FrozenFileSystem> frozen;

    // Whether a program may write to the volume while it is copied.
    bool CanChange() const { return device.has_value() && !freeze && !exclusive_flush; }
  };
  struct GroupMember {
    Record snapshot;
    Record volume;  // its source
    base::UniqueFd image;
  };

  // pool.cc
  static std::string LockKey(Kind kind, std::string_view id);
  static std::string NameKey(Kind kind, std::string_view name);
  std::optional<Record> FindByName(Kind kind, const std::string& name) const;
  base::StatusOr<Record> CreateFromRecord(Record record, const std::optional<Record>& source);
  // The record of a new snapshot of `volume`.
  static Record SnapshotOf(const Record& volume, const std::string& name);
  base::Status RunCreateSteps(Record& record, const std::optional<Record>& source);
  // Records the image as being made, and makes it, empty.
  base::StatusOr<base::UniqueFd> BeginImage(const Record& record);
  // Makes the filled image durable, and then records it as ready, on disk alone.
  base::Status CompleteImage(Record& record, const base::UniqueFd& image);
  base::Status WriteRecord(const Record& record);
  base::Status RemoveImageAndRecord(Record record);
  base::Status DeleteRecorded(Kind kind, const std::string& id);
  base::Status ReserveSpace(const Record& record) ABSL_LOCKS_EXCLUDED(mutex_);
  base::Status CheckInlineShare(const Record& record, int64_t promisable) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  base::StatusOr<Record> PlanVolume(const NewVolume& wanted, const std::optional<Record>& source);
  base::StatusOr<base::UniqueFd> OpenChecked(const Record& record, int flags) const;
  void RememberRecord(const Record& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  base::StatusOr<base::KeyLocks::Hold> LockSource(const Source& source);
  int64_t CommittedBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // pool_copy.cc
  // `image` is borrowed, and outlives the copy.
  base::StatusOr<PendingCopy> PrepareCopy(const base::UniqueFd& image, const Record& source);
  base::Status DecideUse(const Record& source, PendingCopy& copy) const;
  // Copies all, so that they show one moment.
  base::Status CopyTogether(std::span<PendingCopy> copies);
  base::StatusOr<base::Semaphore::Permit> PermitCopy(const Record& copy);
  base::StatusOr<std::shared_ptr<void>> ReserveRoomFor(const Record& source)
      ABSL_LOCKS_EXCLUDED(mutex_);
  base::StatusOr<std::string> MountPointOf(const platform::LoopDevice& device) const;

  // pool_groups.cc
  base::Status RunGroupSteps(GroupRecord& group, std::vector<GroupMember>& members);
  base::Status WriteGroup(const GroupRecord& group) ABSL_LOCKS_EXCLUDED(mutex_);
  base::Status RemoveGroup(GroupRecord group) ABSL_LOCKS_EXCLUDED(mutex_);
  // DATA_LOSS: the record of a member cannot be read.
  base::Status CheckMembersReadable(const GroupRecord& group) const ABSL_LOCKS_EXCLUDED(mutex_);
  base::Status CheckDeletedAlone(const std::string& snapshot_id) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes the groups that a crash left half-made or half-deleted.
  void FinishGroups() ABSL_LOCKS_EXCLUDED(mutex_);

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
  std::function<Deferral(const std::string&)> deferred_check_;
  base::UniqueFd lock_;
  base::KeyLocks locks_;
  base::Semaphore copies_{options_.max_copies};

  mutable base::Mutex mutex_;
  std::array<Shelf, 2> shelves_ ABSL_GUARDED_BY(mutex_);
  GroupRecords groups_ ABSL_GUARDED_BY(mutex_);
  int64_t copying_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // by the copies that run, byte by byte
};

}  // namespace berth::block
