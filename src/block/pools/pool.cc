#include "block/pools/pool.h"

#include <fcntl.h>

#include "base/fault.h"
#include "base/ids.h"
#include "base/log.h"
#include "block/space.h"
#include "platform/files/durable_file.h"

namespace berth::block {
namespace {

using base::Error;
using base::StatusCode;

int64_t PromisableBytes(const Space& space, double overcommit) {
  return static_cast<int64_t>(static_cast<double>(space.total) * overcommit);
}

// The content of the copy of an image whose content is `source`.
Content ContentOfCopy(Content source) {
  switch (source) {
    case Content::kRaw:
      return Content::kRaw;
    case Content::kBlank:
    case Content::kFormatting:
      return Content::kBlank;
    case Content::kCopied:
    case Content::kFormatted:
      return Content::kCopied;
  }
  return Content::kRaw;
}

// Whether the content of `source` is copied to make `record`.
bool CopiesContent(const Record& record, const std::optional<Record>& source) {
  return source.has_value() && record.content != Content::kBlank;
}

base::Status CheckExisting(const Record& existing, const NewVolume& wanted) {
  std::string_view differs;
  if (!Satisfies(existing.size_bytes, wanted.size)) differs = "size";
  if (existing.access != wanted.access) differs = "access type";
  if (!wanted.fs_type.empty() && wanted.fs_type != existing.fs_type) differs = "file system";
  if (existing.source != wanted.source) differs = "content source";
  if (existing.inline_target != wanted.inline_target) differs = "place in a pod";
  if (differs.empty()) return base::OkStatus();
  return Error(StatusCode::kAlreadyExists, "volume {} exists with another {}",
               base::Quote(wanted.name), differs);
}

base::Status NotFoundError(Kind kind, std::string_view id) {
  return Error(StatusCode::kNotFound, "{} {} does not exist", NameOf(kind), base::Quote(id));
}

}  // namespace

std::string Pool::LockKey(Kind kind, std::string_view id) {
  return fmt::format("{} {}", NameOf(kind), id);
}

std::string Pool::NameKey(Kind kind, std::string_view name) {
  return fmt::format("{} name {}", NameOf(kind), name);
}

void Pool::RememberRecord(const Record& record) {
  shelf(record.kind).records[record.id] = record;
  shelf(record.kind).ids[record.name] = record.id;
}

std::optional<Record> Pool::FindByName(Kind kind, const std::string& name) const {
  base::MutexLock lock(mutex_);
  const auto id = shelf(kind).ids.find(name);
  if (id == shelf(kind).ids.end()) return std::nullopt;
  return shelf(kind).records.at(id->second);
}

std::optional<Record> Pool::FindVolume(const std::string& name) const {
  std::optional<Record> found = FindByName(Kind::kVolume, name);
  if (found.has_value() && found->state != State::kReady) return std::nullopt;
  return found;
}

base::StatusOr<Record> Pool::Get(Kind kind, const std::string& id) const {
  base::MutexLock lock(mutex_);
  if (const auto why = shelf(kind).unreadable.find(id); why != shelf(kind).unreadable.end()) {
    return Error(StatusCode::kDataLoss, "the record of {} {} cannot be read: {}", NameOf(kind),
                 base::Quote(id), why->second);
  }
  const auto it = shelf(kind).records.find(id);
  if (it == shelf(kind).records.end() || it->second.state != State::kReady)
    return NotFoundError(kind, id);
  return it->second;
}

std::vector<Record> Pool::List(Kind kind) const {
  base::MutexLock lock(mutex_);
  std::vector<Record> ready;
  for (const auto& [id, record] : shelf(kind).records) {
    if (record.state == State::kReady) ready.push_back(record);
  }
  return ready;
}

base::StatusOr<base::UniqueFd> Pool::OpenChecked(const Record& record, int flags) const {
  return OpenImage(
      paths_.Image(record.kind, record.id), record, place_, flags,
      fmt::format("put the original file back, or, if the pool was copied or restored, "
                  "stop its driver and look at 'berth pool adopt --pool {}'",
                  paths_.folder()));
}

base::Status Pool::CheckImage(const Record& record) const {
  return OpenChecked(record, O_RDONLY).status();
}

base::StatusOr<base::KeyLocks::Hold> Pool::LockVolume(const std::string& volume_id) {
  return locks_.LockExclusive(LockKey(Kind::kVolume, volume_id));
}

base::StatusOr<base::KeyLocks::Hold> Pool::LockSource(const Source& source) {
  const std::string key = LockKey(source.kind, source.id);
  return source.kind == Kind::kSnapshot ? locks_.LockShared(key) : locks_.LockExclusive(key);
}

int64_t Pool::CommittedBytes() const {
  int64_t sum = 0;
  for (const auto& [id, record] : shelf(Kind::kVolume).records) sum += record.size_bytes;
  // A snapshot never grows, so only the space that it occupies counts.
  for (const auto& [id, record] : shelf(Kind::kSnapshot).records) {
    sum += ReadAllocatedBytes(paths_.Image(Kind::kSnapshot, id));
  }
  return sum;
}

base::StatusOr<Capacity> Pool::GetCapacity() const {
  ASSIGN_OR_RETURN(const Space space, ReadSpace(paths_.folder(), options_.keep_free));
  Capacity capacity;
  capacity.promisable_bytes = PromisableBytes(space, options_.overcommit) / kSizeStep * kSizeStep;
  if (space.free < space.kept) return capacity;
  base::MutexLock lock(mutex_);
  capacity.available_bytes =
      std::max<int64_t>(0, capacity.promisable_bytes - CommittedBytes()) / kSizeStep * kSizeStep;
  return capacity;
}

// Enters `record`, with its size, into the shelf if the pool may promise that much space.
base::Status Pool::ReserveSpace(const Record& record) {
  ASSIGN_OR_RETURN(const Space space, ReadSpace(paths_.folder(), options_.keep_free));
  const int64_t promisable = PromisableBytes(space, options_.overcommit);
  if (record.kind == Kind::kVolume && record.size_bytes > promisable) {
    return Error(StatusCode::kOutOfRange,
                 "{} bytes are more than pool {} can ever hold: {} bytes, over-commit {}",
                 record.size_bytes, base::Quote(paths_.folder()), promisable, options_.overcommit);
  }
  if (space.free < space.kept) {
    return Error(StatusCode::kResourceExhausted,
                 "the file system of pool {} is full: {} bytes are free, and {} are reserved",
                 base::Quote(paths_.folder()), space.free, space.kept);
  }
  base::MutexLock lock(mutex_);
  int64_t committed = CommittedBytes();
  if (record.kind == Kind::kVolume) {
    const auto now = shelf(Kind::kVolume).records.find(record.id);
    const int64_t held = now == shelf(Kind::kVolume).records.end() ? 0 : now->second.size_bytes;
    committed += record.size_bytes - held;
  }
  if (committed > promisable) {
    return Error(
        StatusCode::kResourceExhausted,
        "pool {} has no room: {} bytes would be promised, but only {} may be (over-commit {})",
        base::Quote(paths_.folder()), committed, promisable, options_.overcommit);
  }
  RETURN_IF_ERROR(CheckInlineShare(record, promisable));
  RememberRecord(record);
  return base::OkStatus();
}

base::Status Pool::CheckInlineShare(const Record& record, int64_t promisable) const {
  if (record.inline_target.empty()) return base::OkStatus();
  int64_t held = record.size_bytes;
  for (const auto& [id, other] : shelf(Kind::kVolume).records) {
    if (id != record.id && !other.inline_target.empty()) held += other.size_bytes;
  }
  const auto most = static_cast<int64_t>(static_cast<double>(promisable) * options_.inline_share);
  if (held <= most) return base::OkStatus();
  return Error(StatusCode::kResourceExhausted,
               "pool {} has no room: inline volumes would hold {} bytes, but only {} may be theirs",
               base::Quote(paths_.folder()), held, most);
}

base::Status Pool::WriteRecord(const Record& record) {
  return base::Annotate(
      platform::WriteDurably<"block.record">(paths_.Record(record.kind, record.id), Encode(record)),
      fmt::format("write the record of {} {}", NameOf(record.kind), base::Quote(record.id)));
}

base::Status Pool::UpdateRecord(const Record& record) {
  RETURN_IF_ERROR(WriteRecord(record));
  base::MutexLock lock(mutex_);
  RememberRecord(record);
  return base::OkStatus();
}

base::StatusOr<Record> Pool::PlanVolume(const NewVolume& wanted,
                                        const std::optional<Record>& source) {
  Record record{.kind = Kind::kVolume, .id = base::NewUuid(), .name = wanted.name};
  record.access = wanted.access;
  record.fs_type = wanted.fs_type;
  record.content = wanted.access == AccessType::kBlock ? Content::kRaw : Content::kBlank;
  record.source = wanted.source;
  record.inline_target = wanted.inline_target;
  record.pods_identity = wanted.pods_identity;
  SizeRange range = wanted.size;
  int64_t minimum = MinimumSize(wanted.fs_type);
  if (source.has_value()) {
    if (source->access != wanted.access) {
      return Error(StatusCode::kInvalidArgument,
                   "{} {} is a {} volume and cannot become a {} volume", NameOf(source->kind),
                   base::Quote(source->id), NameOf(source->access), NameOf(wanted.access));
    }
    if (!wanted.fs_type.empty() && wanted.fs_type != source->fs_type) {
      return Error(StatusCode::kInvalidArgument, "{} {} holds {} and cannot become {}",
                   NameOf(source->kind), base::Quote(source->id), source->fs_type, wanted.fs_type);
    }
    record.fs_type = source->fs_type;
    record.sector_size = source->sector_size;
    record.content = ContentOfCopy(source->content);
    minimum = std::max(MinimumSize(record.fs_type), source->size_bytes);
    if (range.required == 0) range.required = source->size_bytes;
    if (range.limit > 0 && range.limit < source->size_bytes) {
      return Error(StatusCode::kOutOfRange, "{} {} has {} bytes, above the limit of {}",
                   NameOf(source->kind), base::Quote(source->id), source->size_bytes, range.limit);
    }
  }
  if (record.access == AccessType::kMount) record.fs_uuid = base::NewUuid();
  ASSIGN_OR_RETURN(record.size_bytes, ChooseSize(range, minimum));
  record.grow_file_system = record.content == Content::kCopied &&
                            (source->grow_file_system || record.size_bytes > source->size_bytes);
  return record;
}

base::StatusOr<Record> Pool::CreateVolume(const NewVolume& wanted) {
  ASSIGN_OR_RETURN(const auto name_hold, locks_.LockExclusive(NameKey(Kind::kVolume, wanted.name)));
  if (const auto existing = FindByName(Kind::kVolume, wanted.name)) {
    if (existing->state == State::kReady) {
      RETURN_IF_ERROR(CheckExisting(*existing, wanted));
      return *existing;
    }
    RETURN_IF_ERROR(DeleteRecorded(Kind::kVolume, existing->id));
  }
  std::optional<Record> source;
  base::KeyLocks::Hold source_hold;
  if (!wanted.source.id.empty()) {
    ASSIGN_OR_RETURN(source_hold, LockSource(wanted.source));
    ASSIGN_OR_RETURN(source, Get(wanted.source.kind, wanted.source.id));
  }
  ASSIGN_OR_RETURN(Record record, PlanVolume(wanted, source));
  return CreateFromRecord(std::move(record), source);
}

base::StatusOr<Record> Pool::CreateSnapshot(const std::string& volume_id, const std::string& name) {
  ASSIGN_OR_RETURN(const auto name_hold, locks_.LockExclusive(NameKey(Kind::kSnapshot, name)));
  if (const auto existing = FindByName(Kind::kSnapshot, name)) {
    if (existing->state == State::kReady) {
      if (existing->source.id == volume_id) return *existing;
      return Error(StatusCode::kAlreadyExists, "snapshot {} exists and is of another volume",
                   base::Quote(name));
    }
    RETURN_IF_ERROR(DeleteRecorded(Kind::kSnapshot, existing->id));
  }
  ASSIGN_OR_RETURN(const auto volume_hold, LockVolume(volume_id));
  ASSIGN_OR_RETURN(const Record volume, Get(Kind::kVolume, volume_id));
  return CreateFromRecord(SnapshotOf(volume, name), volume);
}

Record Pool::SnapshotOf(const Record& volume, const std::string& name) {
  Record record = volume;
  record.kind = Kind::kSnapshot;
  record.id = base::NewUuid();
  record.name = name;
  record.state = State::kCreating;
  record.content = ContentOfCopy(volume.content);
  record.source = {Kind::kVolume, volume.id};
  record.inline_target.clear();
  record.pods_identity.clear();
  record.image = {};
  return record;
}

base::StatusOr<Record> Pool::CreateFromRecord(Record record, const std::optional<Record>& source) {
  record.state = State::kCreating;
  record.created = clock_.Now();
  base::Semaphore::Permit permit;
  if (CopiesContent(record, source)) {
    ASSIGN_OR_RETURN(permit, PermitCopy(record));
  }
  RETURN_IF_ERROR(ReserveSpace(record));
  const base::Status made = RunCreateSteps(record, source);
  if (made.ok()) {
    LOG_INFO("{} {} is made with the name {} and {} bytes", NameOf(record.kind),
             base::Quote(record.id), base::Quote(record.name), record.size_bytes);
    return record;
  }
  if (const base::Status removed = RemoveImageAndRecord(record); !removed.ok()) {
    LOG_ERROR("a {} that could not be made is not removed yet: {}", NameOf(record.kind),
              base::ToString(removed));
  }
  return base::Annotate(made,
                        fmt::format("make {} {}", NameOf(record.kind), base::Quote(record.name)));
}

base::Status Pool::RunCreateSteps(Record& record, const std::optional<Record>& source) {
  ASSIGN_OR_RETURN(const base::UniqueFd image, BeginImage(record));
  if (CopiesContent(record, source)) {
    ASSIGN_OR_RETURN(PendingCopy copy, PrepareCopy(image, *source));
    RETURN_IF_ERROR(CopyTogether({&copy, 1}));
    RETURN_IF_ERROR(base::FaultPoint<"block.image.create.copied">());
  }
  RETURN_IF_ERROR(CompleteImage(record, image));
  base::MutexLock lock(mutex_);
  RememberRecord(record);
  return base::OkStatus();
}

base::StatusOr<base::UniqueFd> Pool::BeginImage(const Record& record) {
  RETURN_IF_ERROR(base::FaultPoint<"block.image.create.before">());
  RETURN_IF_ERROR(WriteRecord(record));
  RETURN_IF_ERROR(base::FaultPoint<"block.image.create.recorded">());
  ASSIGN_OR_RETURN(base::UniqueFd image, MakeImage(paths_.Image(record.kind, record.id)));
  RETURN_IF_ERROR(base::FaultPoint<"block.image.create.made">());
  return image;
}

base::Status Pool::CompleteImage(Record& record, const base::UniqueFd& image) {
  RETURN_IF_ERROR(ExtendImage(image, record.size_bytes));
  ASSIGN_OR_RETURN(record.image,
                   FinishImage(image, paths_.Image(record.kind, record.id), place_.boot_id));
  RETURN_IF_ERROR(base::FaultPoint<"block.image.create.synced">());
  record.state = State::kReady;
  RETURN_IF_ERROR(WriteRecord(record));
  return base::FaultPoint<"block.image.create.after">();
}

// Removes a volume or snapshot in any state. It first writes the state `deleting` to the record. It
// leaves the state `creating`, because Open removes what is in either state.
base::Status Pool::RemoveImageAndRecord(Record record) {
  if (record.state == State::kReady) {
    RETURN_IF_ERROR(base::FaultPoint<"block.image.delete.before">());
    record.state = State::kDeleting;
    const base::Status written = WriteRecord(record);
    // On a full disk the image is removed even if this write failed, because otherwise the pool
    // could never be emptied. If a crash follows, the record still says `ready` and has no image;
    // the repeated call then removes the record.
    if (!written.ok() && written.code() != StatusCode::kResourceExhausted) return written;
    RETURN_IF_ERROR(base::FaultPoint<"block.image.delete.recorded">());
  }
  {
    base::MutexLock lock(mutex_);
    RememberRecord(record);
  }
  RETURN_IF_ERROR(RemoveImage(paths_.Image(record.kind, record.id), record, place_));
  RETURN_IF_ERROR(base::FaultPoint<"block.image.delete.unlinked">());
  RETURN_IF_ERROR(platform::RemoveDurably<"block.record">(paths_.Record(record.kind, record.id)));
  LOG_INFO("{} {} with the name {} is deleted", NameOf(record.kind), base::Quote(record.id),
           base::Quote(record.name));
  RETURN_IF_ERROR(base::FaultPoint<"block.image.delete.after">());
  base::MutexLock lock(mutex_);
  shelf(record.kind).records.erase(record.id);
  shelf(record.kind).ids.erase(record.name);
  return base::OkStatus();
}

base::Status Pool::DeleteRecorded(Kind kind, const std::string& id) {
  ASSIGN_OR_RETURN(const auto hold, locks_.LockExclusive(LockKey(kind, id)));
  Record record;
  {
    base::MutexLock lock(mutex_);
    if (const auto why = shelf(kind).unreadable.find(id); why != shelf(kind).unreadable.end()) {
      return Error(StatusCode::kDataLoss,
                   "the record of {} {} cannot be read, so its image is not removed: {}",
                   NameOf(kind), base::Quote(id), why->second);
    }
    const auto it = shelf(kind).records.find(id);
    if (it == shelf(kind).records.end()) return base::OkStatus();
    record = it->second;
  }
  if (kind == Kind::kVolume) {
    ASSIGN_OR_RETURN(const std::optional<platform::LoopDevice> device, FindDevice(id));
    if (device.has_value()) {
      return Error(StatusCode::kFailedPrecondition, "volume {} is in use as {}", base::Quote(id),
                   device->path);
    }
  }
  return base::Annotate(RemoveImageAndRecord(record),
                        fmt::format("remove {} {}", NameOf(kind), base::Quote(id)));
}

base::Status Pool::DeleteVolume(const std::string& id) { return DeleteRecorded(Kind::kVolume, id); }
base::Status Pool::DeleteSnapshot(const std::string& id) {
  RETURN_IF_ERROR(CheckDeletedAlone(id));
  return DeleteRecorded(Kind::kSnapshot, id);
}

}  // namespace berth::block
