#include "block/images/image_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/fault.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/text.h"
#include "block/progress.h"
#include "block/sizes.h"
#include "platform/errno.h"
#include "platform/file_systems/reflink.h"
#include "platform/files/durable_file.h"
#include "platform/files/record_files.h"
#include "platform/processes/child.h"

namespace berth::block {

using base::Error;
using base::Quote;
using base::StatusCode;
using std::chrono::steady_clock;

namespace {

constexpr std::chrono::hours kCopyTime{1};
constexpr size_t kLongestStem = 200;  // with a suffix it fits the 255 bytes of a file name
constexpr std::chrono::minutes kTornAge{10};
constexpr std::string_view kRecordSuffix = ".json";

bool IsFile(const std::string& path, const ImageIdentity& identity) {
  struct stat st;
  return lstat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) && st.st_ino == identity.inode;
}

base::StatusOr<int64_t> RoundedSize(int64_t size) {
  if (size <= 0 || size > INT64_MAX - kSizeStep) {
    return Error(StatusCode::kInvalidArgument, "{} bytes is not a valid size of an image", size);
  }
  return (size + kSizeStep - 1) / kSizeStep * kSizeStep;
}

}  // namespace

std::string ImageFolder::SidePathOf(const std::string& image, std::string_view suffix) const {
  const std::string stem = image.size() <= kLongestStem
                               ? image
                               : image.substr(0, kLongestStem - 64) + base::Sha256Hex(image);
  return fmt::format("{}/.berth/{}{}", folder_, stem, suffix);
}

// Asks in a child process, because a file system that no longer answers would block a thread for
// ever. NFS may answer stat from its cache, but statfs always asks the server.
base::StatusOr<PoolPlace> ImageFolder::FindPlace() const {
  const std::string context = fmt::format("look at the folder of images {}", Quote(folder_));
  ASSIGN_OR_RETURN(
      const struct stat st,
      platform::AskChild<struct stat>(context, kAnswerTime, [folder = folder_](struct stat& st) {
        struct statfs fs = {};
        if (statfs(folder.c_str(), &fs) != 0 || stat(folder.c_str(), &st) != 0) return errno;
        return S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
      }));
  ASSIGN_OR_RETURN(std::string boot_id, platform::ReadBootId());
  return PoolPlace{.device = st.st_dev, .boot_id = std::move(boot_id)};
}

base::StatusOr<std::optional<ImageRecord>> ImageFolder::ReadRecord(const std::string& image) const {
  const auto text = platform::ReadFile(SidePathOf(image, kRecordSuffix));
  if (text.status().code() == StatusCode::kNotFound) return std::optional<ImageRecord>();
  RETURN_IF_ERROR(text);
  auto record = DecodeImageRecord(*text);
  if (record.ok() && record->name == image) return std::optional(*std::move(record));
  return Error(StatusCode::kDataLoss, "record {}: {}", Quote(SidePathOf(image, kRecordSuffix)),
               record.ok() ? "it is another image's" : base::Message(record.status()));
}

base::Status ImageFolder::WriteRecord(const ImageRecord& record) {
  return platform::WriteDurably<"block.image_record">(SidePathOf(record.name, kRecordSuffix),
                                                      Encode(record));
}

base::StatusOr<ImageRecord> ImageFolder::ReadReady(const std::string& image) const {
  RETURN_IF_ERROR(CheckImageName(image));
  ASSIGN_OR_RETURN(std::optional<ImageRecord> record, ReadRecord(image));
  if (!record.has_value() || record->state != ImageState::kReady) return NoImageError(image);
  return *std::move(record);
}

base::StatusOr<ChangeLock> ImageFolder::LockForChange(const std::string& image) const {
  RETURN_IF_ERROR(platform::MakeFolders(folder_ + "/.berth", 0700));
  return ChangeLock::TakeLock(
      {.lock = SidePathOf(image, ".lock"), .record = SidePathOf(image, kRecordSuffix)}, image);
}

base::StatusOr<std::optional<ImageRecord>> ImageFolder::SettleImage(const std::string& image,
                                                                    const PoolPlace& place) {
  ASSIGN_OR_RETURN(std::optional<ImageRecord> record, ReadRecord(image));
  if (!record.has_value()) return record;
  const bool complete = IsFile(SidePathOf(image, ".new"), record->identity) ||
                        IsFile(PathOf(image), record->identity);
  switch (record->state) {
    case ImageState::kReady:
      if (record->growing_from == 0) return record;
      {
        ASSIGN_OR_RETURN(ImageRecord grown, CompleteGrowth(*std::move(record), place));
        return std::optional(std::move(grown));
      }
    case ImageState::kPlacing:
      if (complete) {
        ASSIGN_OR_RETURN(ImageRecord ready, PlaceImage(*std::move(record), place));
        return std::optional(std::move(ready));
      }
      break;
    case ImageState::kCreating:
    case ImageState::kDeleting:
      break;
  }
  LOG_INFO("image {} in {}: a creation or deletion that a crash interrupted is cleaned up",
           Quote(image), Quote(folder_));
  RETURN_IF_ERROR(RemoveImageAndRecord(*std::move(record), place));
  return std::optional<ImageRecord>();
}

base::StatusOr<ImageInfo> ImageFolder::Create(const NewImage& wanted) {
  RETURN_IF_ERROR(CheckImageName(wanted.name));
  if (!wanted.source.empty()) RETURN_IF_ERROR(CheckImageName(wanted.source));
  ASSIGN_OR_RETURN(const int64_t size, RoundedSize(wanted.size_bytes));
  ASSIGN_OR_RETURN(const PoolPlace place, FindPlace());
  ASSIGN_OR_RETURN(const ChangeLock change, LockForChange(wanted.name));
  ASSIGN_OR_RETURN(const std::optional<ImageRecord> before, SettleImage(wanted.name, place));
  if (before.has_value()) {
    if (before->made_bytes == size && before->source == wanted.source &&
        before->snapshot_of.empty()) {
      return before->ToInfo();
    }
    return Error(StatusCode::kAlreadyExists,
                 "image {} was made with {} bytes{}{}, but {} bytes{}{} are wanted",
                 Quote(wanted.name), before->made_bytes, before->source.empty() ? "" : " from ",
                 before->source, size, wanted.source.empty() ? "" : " from ", wanted.source);
  }
  ImageRecord record{.name = wanted.name,
                     .size_bytes = size,
                     .made_bytes = size,
                     .source = wanted.source,
                     .created = base::SystemClock().Now()};
  return CreateFromRecord(std::move(record), place);
}

base::StatusOr<ImageInfo> ImageFolder::CreateSnapshot(const std::string& image,
                                                      const std::string& snapshot) {
  RETURN_IF_ERROR(CheckImageName(snapshot));
  ASSIGN_OR_RETURN(const PoolPlace place, FindPlace());
  ASSIGN_OR_RETURN(const ChangeLock change, LockForChange(snapshot));
  ASSIGN_OR_RETURN(const std::optional<ImageRecord> before, SettleImage(snapshot, place));
  if (before.has_value()) {
    if (before->snapshot_of == image) return before->ToInfo();
    return Error(StatusCode::kAlreadyExists, "{} exists and is not a snapshot of image {}",
                 Quote(snapshot), Quote(image));
  }
  ASSIGN_OR_RETURN(const ImageRecord source, ReadReady(image));
  ImageRecord record{.name = snapshot,
                     .size_bytes = source.size_bytes,
                     .made_bytes = source.size_bytes,
                     .source = image,
                     .snapshot_of = image,
                     .created = base::SystemClock().Now()};
  return CreateFromRecord(std::move(record), place);
}

base::StatusOr<ImageInfo> ImageFolder::CreateFromRecord(ImageRecord record,
                                                        const PoolPlace& place) {
  struct stat st;
  if (lstat(PathOf(record.name).c_str(), &st) == 0) {
    return Error(StatusCode::kAlreadyExists,
                 "{} exists and has no record: move it away, or give the image another name",
                 Quote(PathOf(record.name)));
  }
  RETURN_IF_ERROR(WriteRecord(record));
  const base::Status filled = [&]() -> base::Status {
    const std::string path = SidePathOf(record.name, ".new");
    if (unlink(path.c_str()) != 0 && errno != ENOENT) {
      return platform::ErrnoError(errno, "remove " + Quote(path));
    }
    ASSIGN_OR_RETURN(const base::UniqueFd image, MakeImage(path));
    RETURN_IF_ERROR(base::FaultPoint<"block.image_fill.before">());
    RETURN_IF_ERROR(FillImage(image, record));
    if (!record.snapshot_of.empty() && fchmod(image.get(), 0400) != 0) {
      return platform::ErrnoError(errno, "make read-only " + Quote(path));
    }
    ASSIGN_OR_RETURN(record.identity, FinishImage(image, path, place.boot_id));
    return base::FaultPoint<"block.image_fill.after">();
  }();
  if (!filled.ok()) {
    if (const base::Status undone = RemoveImageAndRecord(record, place); !undone.ok()) {
      LOG_WARNING("undo the creation of image {}: {}", Quote(record.name), base::ToString(undone));
    }
    return base::Annotate(filled, fmt::format("make image {}", Quote(record.name)));
  }
  record.state = ImageState::kPlacing;
  RETURN_IF_ERROR(WriteRecord(record));
  ASSIGN_OR_RETURN(record, PlaceImage(std::move(record), place));
  return record.ToInfo();
}

base::Status ImageFolder::FillImage(const base::UniqueFd& image, ImageRecord& record) {
  if (!record.source.empty()) {
    ASSIGN_OR_RETURN(const Located source, Locate(record.source));
    if (source.info.size_bytes > record.size_bytes) {
      return Error(StatusCode::kOutOfRange, "its source {} has {} bytes, more than {}",
                   Quote(record.source), source.info.size_bytes, record.size_bytes);
    }
    const bool frozen = !source.info.snapshot_of.empty();
    // O_RDWR is needed because an exclusive lock needs a writable descriptor. Nothing is written
    // here.
    ASSIGN_OR_RETURN(const base::UniqueFd from,
                     OpenLocked(source, frozen ? O_RDONLY : O_RDWR,
                                frozen ? ImageLock::kReader : ImageLock::kCopy));
    // The source is locked, so no mkfs runs on it now. An interrupted mkfs is not copied, because
    // the copy would lack the note that allows to run mkfs again.
    ASSIGN_OR_RETURN(const ImageRecord noted, ReadReady(record.source));
    if (noted.formatting.empty()) {
      record.fs_uuid = noted.fs_uuid;
      RETURN_IF_ERROR(platform::CopyImage(
          from.get(), image.get(),
          {.deadline = steady_clock::now() + kCopyTime, .report = ProgressReport()}));
    }
  }
  return ExtendImage(image, record.size_bytes);
}

// From `placing` to `ready`: gives the complete image its name. It uses link(2), because a rename
// would replace a file that got that name meanwhile.
base::StatusOr<ImageRecord> ImageFolder::PlaceImage(ImageRecord record, const PoolPlace& place) {
  const std::string made = SidePathOf(record.name, ".new");
  const std::string path = PathOf(record.name);
  if (!IsFile(path, record.identity)) {
    RETURN_IF_ERROR(base::FaultPoint<"block.image_place.before">());
    if (link(made.c_str(), path.c_str()) != 0) {
      return platform::ErrnoError(errno, "place image " + Quote(path));
    }
    RETURN_IF_ERROR(base::FaultPoint<"block.image_place.linked">());
  }
  {
    ASSIGN_OR_RETURN(const base::UniqueFd image,
                     OpenImage(path, record.AsPoolRecord(), place, O_RDONLY));
    RETURN_IF_ERROR(FinishImage(image, path, place.boot_id));
  }
  RETURN_IF_ERROR(platform::RemoveDurably<"block.image_new">(made));
  record.state = ImageState::kReady;
  RETURN_IF_ERROR(WriteRecord(record));
  return record;
}

base::Status ImageFolder::RemoveImageAndRecord(ImageRecord record, const PoolPlace& place) {
  if (record.state == ImageState::kReady) {
    record.state = ImageState::kDeleting;
    const base::Status written = WriteRecord(record);
    // On a full file system the image is removed even if this write failed, because else no space
    // could ever be freed there. The record then still says `ready` and lacks its image, and the
    // repeated call removes it.
    if (!written.ok() && written.code() != StatusCode::kResourceExhausted) return written;
  }
  // Before the image was placed, a file under its name is not the image.
  if (record.identity.inode != 0) {
    RETURN_IF_ERROR(RemoveImage(PathOf(record.name), record.AsPoolRecord(), place));
  }
  RETURN_IF_ERROR(platform::RemoveDurably<"block.image_new">(SidePathOf(record.name, ".new")));
  unlink(SidePathOf(record.name, ".holder").c_str());
  return platform::RemoveDurably<"block.image_record">(SidePathOf(record.name, kRecordSuffix));
}

// Removes the temporary files of the image's record that a crash left. This is safe, because only
// the holder of the lock writes such files.
base::Status ImageFolder::RemoveTornRecords(const std::string& image) {
  const std::string record = SidePathOf(image, kRecordSuffix);
  const std::string prefix = fmt::format(".{}.", base::FileNameOf(record));
  const std::string folder = folder_ + "/.berth/";
  ASSIGN_OR_RETURN(const std::vector<std::string> names, platform::ListFolder(folder));
  for (const std::string& name : names) {
    if (!name.starts_with(prefix) || !platform::IsTornWrite(name)) continue;
    if (unlink((folder + name).c_str()) != 0 && errno != ENOENT) {
      return platform::ErrnoError(errno, fmt::format("remove {}", Quote(folder + name)));
    }
  }
  return base::OkStatus();
}

base::Status ImageFolder::Delete(const std::string& image) {
  RETURN_IF_ERROR(CheckImageName(image));
  ASSIGN_OR_RETURN(const PoolPlace place, FindPlace());
  ASSIGN_OR_RETURN(const ChangeLock change, LockForChange(image));
  RETURN_IF_ERROR(RemoveTornRecords(image));
  ASSIGN_OR_RETURN(const std::optional<ImageRecord> record, SettleImage(image, place));
  if (!record.has_value()) return base::OkStatus();
  struct stat st;
  if (lstat(PathOf(image).c_str(), &st) != 0 && errno == ENOENT)
    return RemoveImageAndRecord(*record, place);
  // The lock is held until the image is gone, so that no node maps it meanwhile. It is a writer's
  // lock for a snapshot, too, because a mapped snapshot has a reader's.
  ASSIGN_OR_RETURN(const Located located, Locate(image));
  auto held = OpenLocked(located, O_RDWR, ImageLock::kWriter);
  // A snapshot is read-only, which root passes over, but not on a share that squashes root.
  if (held.status().code() == StatusCode::kPermissionDenied && !record->snapshot_of.empty() &&
      chmod(located.path.c_str(), 0600) == 0) {
    held = OpenLocked(located, O_RDWR, ImageLock::kWriter);
    if (!held.ok()) chmod(located.path.c_str(), 0400);
  }
  RETURN_IF_ERROR(held);
  return RemoveImageAndRecord(*record, place);
}

base::StatusOr<ImageInfo> ImageFolder::Grow(const std::string& image, int64_t size_bytes) {
  ASSIGN_OR_RETURN(const int64_t size, RoundedSize(size_bytes));
  ASSIGN_OR_RETURN(const PoolPlace place, FindPlace());
  RETURN_IF_ERROR(CheckImageName(image));
  ASSIGN_OR_RETURN(const ChangeLock change, LockForChange(image));
  ASSIGN_OR_RETURN(std::optional<ImageRecord> record, SettleImage(image, place));
  if (!record.has_value()) return NoImageError(image);
  if (!record->snapshot_of.empty()) {
    return Error(StatusCode::kFailedPrecondition, "{} is a snapshot, which never changes",
                 Quote(image));
  }
  if (record->size_bytes >= size) return record->ToInfo();
  record->growing_from = record->size_bytes;
  record->size_bytes = size;
  RETURN_IF_ERROR(WriteRecord(*record));
  ASSIGN_OR_RETURN(const ImageRecord grown, CompleteGrowth(*std::move(record), place));
  return grown.ToInfo();
}

base::StatusOr<ImageRecord> ImageFolder::CompleteGrowth(ImageRecord record,
                                                        const PoolPlace& place) {
  ASSIGN_OR_RETURN(const base::UniqueFd image,
                   OpenImage(PathOf(record.name), record.AsPoolRecord(), place, O_RDWR));
  RETURN_IF_ERROR(ExtendImage(image, record.size_bytes));
  RETURN_IF_ERROR(base::FaultPoint<"block.image_grow.extended">());
  record.growing_from = 0;
  RETURN_IF_ERROR(WriteRecord(record));
  return record;
}

base::Status ImageFolder::NoteFormatting(const std::string& image, const std::string& uuid) {
  RETURN_IF_ERROR(CheckImageName(image));
  if (!uuid.empty() && !IsId(uuid)) {
    return Error(StatusCode::kInvalidArgument, "{} is not the UUID of a file system", Quote(uuid));
  }
  ASSIGN_OR_RETURN(const PoolPlace place, FindPlace());
  ASSIGN_OR_RETURN(const ChangeLock change, LockForChange(image));
  ASSIGN_OR_RETURN(std::optional<ImageRecord> record, SettleImage(image, place));
  if (!record.has_value()) return NoImageError(image);
  if (record->formatting == uuid) return base::OkStatus();
  if (uuid.empty()) record->fs_uuid = record->formatting;
  record->formatting = uuid;
  return WriteRecord(*record);
}

base::StatusOr<std::string> ImageFolder::ReadFormatting(const std::string& image) const {
  ASSIGN_OR_RETURN(ImageRecord record, ReadReady(image));
  return std::move(record.formatting);
}

base::StatusOr<std::vector<ImageInfo>> ImageFolder::List() {
  ASSIGN_OR_RETURN(const PoolPlace place, FindPlace());
  const auto names = platform::ListFolder(folder_ + "/.berth");
  if (names.status().code() == StatusCode::kNotFound) return std::vector<ImageInfo>();
  RETURN_IF_ERROR(names);
  std::vector<ImageInfo> images;
  for (const std::string& name : *names) {
    const std::string path = folder_ + "/.berth/" + name;
    if (platform::IsTornWrite(name)) {
      // Another process may still be writing this file, so only old ones are removed.
      struct stat st;
      if (lstat(path.c_str(), &st) == 0 &&
          base::SystemClock().Now() - std::chrono::system_clock::from_time_t(st.st_mtime) >
              kTornAge) {
        unlink(path.c_str());
      }
      continue;
    }
    if (!name.ends_with(kRecordSuffix)) continue;
    const auto text = platform::ReadFile(path);
    if (text.status().code() == StatusCode::kNotFound) continue;  // deleted meanwhile
    RETURN_IF_ERROR(text);
    auto record = DecodeImageRecord(*text);
    if (!record.ok()) {
      LOG_WARNING("record {}: {}", Quote(path), base::ToString(record.status()));
      continue;
    }
    if (record->state != ImageState::kReady) {
      const auto change = LockForChange(record->name);
      if (!change.ok()) continue;  // it is being made at this moment
      const auto settled = SettleImage(record->name, place);
      RETURN_IF_ERROR(settled);
      if (!settled->has_value()) continue;
      *record = **settled;
    }
    images.push_back(record->ToInfo());
  }
  std::sort(images.begin(), images.end(),
            [](const ImageInfo& a, const ImageInfo& b) { return a.name < b.name; });
  return images;
}

}  // namespace berth::block
