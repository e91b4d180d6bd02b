#include "block/images/image_adoption.h"

#include <fcntl.h>

#include <cerrno>

#include "base/log.h"
#include "base/text.h"
#include "block/images/image.h"
#include "block/images/image_folder.h"
#include "platform/devices/loop_device.h"
#include "platform/errno.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/files/record_files.h"

namespace berth::block {

using base::Error;
using base::Quote;
using base::StatusCode;

namespace {

constexpr std::string_view kImageRecordSuffix = ".json";

// Fails if a loop device shows the file; `what` names it in the message.
base::Status CheckNotAttached(const platform::FileIdentity& file, const std::string& path,
                              std::string_view what) {
  ASSIGN_OR_RETURN(const auto loops, platform::FindLoops(file, base::FileNameOf(path)));
  if (loops.empty()) return base::OkStatus();
  return Error(StatusCode::kFailedPrecondition, "{} is in use as {}", what, loops[0].path);
}

Record ToStepRecord(const ImageRecord& image) {
  Record record = image.AsPoolRecord();
  record.kind = image.snapshot_of.empty() ? Kind::kVolume : Kind::kSnapshot;
  record.id = image.name;
  record.name.clear();
  return record;
}

// Compares the content of an image, which is what a probe found, with its record.
// FAILED_PRECONDITION says what is wrong. The result says what was compared.
base::StatusOr<std::string> CompareContent(const ImageRecord& record,
                                           const std::optional<platform::Signature>& found) {
  const std::string holds =
      found.has_value() ? fmt::format("it holds {} with UUID '{}'", found->type, found->uuid)
                        : std::string("no file system is found on it");
  if (!record.formatting.empty()) {
    // The next use of the image would run mkfs. That is right only if the image is as old as the
    // record, and an image that was restored may be newer and hold data.
    if (!found.has_value()) return fmt::format("{} bytes, not formatted yet", record.size_bytes);
    return Error(StatusCode::kFailedPrecondition,
                 "its record is of the moment when it was being formatted, and {}", holds);
  }
  // A record names no file system if the image is used through an NBD server, or if an older
  // version formatted it.
  if (record.fs_uuid.empty()) {
    return fmt::format(
        "{} bytes, of which only the size is compared, because its record names no "
        "file system; {}",
        record.size_bytes, holds);
  }
  if (found.has_value() && found->uuid == record.fs_uuid) {
    return fmt::format("{} bytes, {} with UUID {}", record.size_bytes, found->type, found->uuid);
  }
  return Error(StatusCode::kFailedPrecondition, "it should hold the file system {}, and {}",
               record.fs_uuid, holds);
}

}  // namespace

AdoptionStep RefuseAdoption(const Record& record, std::string why) {
  return {.kind = AdoptionStep::Kind::kRefuse, .record = record, .detail = std::move(why)};
}

base::StatusOr<struct stat> CheckAdoptable(const std::string& path, const Record& record,
                                           const PoolPlace& place) {
  struct stat st;
  if (lstat(path.c_str(), &st) != 0) {
    if (errno != ENOENT) return platform::ErrnoError(errno, "stat " + Quote(path));
    return Error(StatusCode::kFailedPrecondition, "its image is missing");
  }
  if (!S_ISREG(st.st_mode)) {
    return Error(StatusCode::kFailedPrecondition, "its image is not a regular file");
  }
  const int64_t least = LeastBytes(record);
  if (st.st_size < least || st.st_size > record.size_bytes) {
    return Error(StatusCode::kFailedPrecondition, "its image has {} bytes instead of {}",
                 st.st_size, least);
  }
  RETURN_IF_ERROR(CheckNotAttached({.dev = st.st_dev, .ino = st.st_ino}, path, "its image"));
  // If the recorded file, wherever it is now, still is in use, two files would be the volume.
  if (platform::IsThisBoot(record.image.boot_id, place.boot_id)) {
    RETURN_IF_ERROR(CheckNotAttached({.dev = static_cast<dev_t>(record.image.device),
                                      .ino = static_cast<ino_t>(record.image.inode)},
                                     path, "the recorded file"));
  }
  return st;
}

std::string ImageFolder::AdviseOnCopies() const {
  return fmt::format(
      "put the original file back, or, if the folder was copied or restored, look at "
      "'berth pool adopt --images {}'",
      folder_);
}

base::StatusOr<AdoptionStep> ImageFolder::PlanStep(const std::string& image,
                                                   const PoolPlace& place) const {
  const auto read = ReadRecord(image);
  if (!read.ok() || !read->has_value()) {
    return RefuseAdoption({.id = image}, read.ok() ? "its record is gone"
                                                   : std::string(base::Message(read.status())));
  }
  const ImageRecord& found = **read;
  const Record record = ToStepRecord(found);
  if (found.state != ImageState::kReady) {
    return RefuseAdoption(record,
                          "it is being made or deleted: remove the image and its record by hand if "
                          "it may go");
  }
  const std::string path = PathOf(image);
  const base::Status recorded = OpenImage(path, record, place, O_RDONLY).status();
  if (!recorded.ok() && recorded.code() != StatusCode::kDataLoss) return recorded;
  if (recorded.ok()) {
    return AdoptionStep{.record = record, .detail = fmt::format("{} bytes", found.size_bytes)};
  }
  const auto compared = [&]() -> base::StatusOr<std::string> {
    ASSIGN_OR_RETURN(const struct stat st, CheckAdoptable(path, record, place));
    ASSIGN_OR_RETURN(const auto signature, platform::ProbeSignature(path));
    ASSIGN_OR_RETURN(const std::string content, CompareContent(found, signature));
    return fmt::format("{}; inode {}, was {}", content, st.st_ino, record.image.inode);
  }();
  if (compared.status().code() == StatusCode::kFailedPrecondition) {
    return RefuseAdoption(record, std::string(base::Message(compared.status())));
  }
  RETURN_IF_ERROR(compared);
  return AdoptionStep{.kind = AdoptionStep::Kind::kAdopt, .record = record, .detail = *compared};
}

base::StatusOr<std::vector<AdoptionStep>> ImageFolder::PlanAdoption() const {
  ASSIGN_OR_RETURN(const PoolPlace place, FindPlace());
  const auto names = platform::ListFolder(folder_ + "/.berth");
  RETURN_IF_ERROR_WITH(names, fmt::format("find images in {}", Quote(folder_)));
  std::vector<AdoptionStep> steps;
  for (const std::string& name : *names) {
    if (!name.ends_with(kImageRecordSuffix) || platform::IsTornWrite(name)) continue;
    const auto text = platform::ReadFile(folder_ + "/.berth/" + name);
    if (text.status().code() == StatusCode::kNotFound) continue;  // deleted meanwhile
    const auto record = text.ok() ? DecodeImageRecord(*text) : text.status();
    if (!record.ok()) {
      steps.push_back(RefuseAdoption({.id = name}, "its record cannot be read"));
      continue;
    }
    ASSIGN_OR_RETURN(AdoptionStep step, PlanStep(record->name, place));
    steps.push_back(std::move(step));
  }
  return steps;
}

base::Status ImageFolder::AdoptImage(const std::string& image, const PoolPlace& place) {
  ASSIGN_OR_RETURN(std::optional<ImageRecord> record, ReadRecord(image));
  if (!record.has_value()) {
    return Error(StatusCode::kFailedPrecondition, "its record is gone");
  }
  const std::string path = PathOf(image);
  const base::UniqueFd file(open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!file.valid()) return platform::ErrnoError(errno, "open image " + Quote(path));
  // No process on any node may have the file, such as an NBD server that locks what it serves.
  if (const int error = LockImage(file.get(), ImageLock::kWriter); error == EAGAIN) {
    return Error(StatusCode::kFailedPrecondition, "its image is locked by another holder");
  } else if (error != 0) {
    return platform::ErrnoError(error, "lock image " + Quote(path));
  }
  // FinishImage syncs the file, because a restore may have written it without a sync.
  ASSIGN_OR_RETURN(record->identity, FinishImage(file, path, place.boot_id));
  RETURN_IF_ERROR(WriteRecord(*record));
  LOG_INFO("image {} in {}: the file with inode {} is the image from now on", Quote(image),
           Quote(folder_), record->identity.inode);
  return base::OkStatus();
}

base::StatusOr<std::vector<AdoptionStep>> ImageFolder::AdoptImages() {
  ASSIGN_OR_RETURN(const PoolPlace place, FindPlace());
  ASSIGN_OR_RETURN(std::vector<AdoptionStep> steps, PlanAdoption());
  for (AdoptionStep& step : steps) {
    if (step.kind != AdoptionStep::Kind::kAdopt) continue;
    const std::string image = step.record.id;
    ASSIGN_OR_RETURN(const ChangeLock change, LockForChange(image));
    // Another process may have changed the image before it was locked.
    ASSIGN_OR_RETURN(step, PlanStep(image, place));
    if (step.kind != AdoptionStep::Kind::kAdopt) continue;
    const base::Status adopted = AdoptImage(image, place);
    if (adopted.code() == StatusCode::kFailedPrecondition) {
      step = RefuseAdoption(step.record, std::string(base::Message(adopted)));
    } else {
      RETURN_IF_ERROR_WITH(adopted, fmt::format("adopt image {}", Quote(image)));
    }
  }
  return steps;
}

}  // namespace berth::block
