#include "rbd/image_calls.h"

#include <errno.h>
#include <rbd/librbd.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/log.h"
#include "rbd/copies.h"
#include "rbd/deletion.h"
#include "rbd/image.h"
#include "rbd/lock.h"
#include "rbd/omap.h"
#include "rbd/rbd_error.h"
#include "rbd/records.h"

namespace berth::rbd {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;

constexpr int64_t kBlockBytes = 4096;
constexpr int64_t kLargestBytes = int64_t{1} << 60;
// librbd keeps an image's metadata under this prefix in the header.
constexpr char kFormattingKey[] = "metadata_berth.formatting";

base::StatusOr<int64_t> RoundedSize(int64_t bytes) {
  if (bytes <= 0 || bytes > kLargestBytes) {
    return Error(StatusCode::kInvalidArgument, "the size of an image is 1 to {} bytes, not {}",
                 kLargestBytes, bytes);
  }
  return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

ImageInfo ToInfo(const std::string& name, const ImageRecord& record) {
  return {.name = name, .size_bytes = record.size_bytes, .snapshot_of = record.snapshot_of};
}

base::Status NotByBerth(const Cluster& cluster, const std::string& name) {
  return Error(StatusCode::kAlreadyExists,
               "pool {} has an image {} that was not made by Berth: give it another name",
               Quote(cluster.pool()), Quote(name));
}

// The record of the image if it is complete. What a creation or deletion that was interrupted left
// is removed before. ALREADY_EXISTS: there is an image of this name that Berth did not make.
base::StatusOr<std::optional<ImageRecord>> SettleImage(const Cluster& cluster,
                                                       const std::string& name,
                                                       const api::NodeName& node) {
  ASSIGN_OR_RETURN(auto record, ReadImageRecord(cluster, name));
  if (record.has_value() && record->state == ImageState::kMaking) {
    RETURN_IF_ERROR(RemoveUnfinished(cluster, name, *record, node));
    LOG_INFO("image {}: what an interrupted call left is removed", Quote(name));
    record.reset();
  }
  ASSIGN_OR_RETURN(const auto id, FindImageId(cluster, name));
  if (record.has_value() && record->state == ImageState::kMade && id == record->id) return record;
  if (record.has_value() && (!id.has_value() || id == record->id)) {
    RETURN_IF_ERROR(DeleteImage(cluster, name, node, [](double) {}));
    return std::optional<ImageRecord>();
  }
  if (id.has_value()) return NotByBerth(cluster, name);
  return std::optional<ImageRecord>();
}

// Makes what `record` says under a name that only this call uses, and then gives it its name.
// `record` is kept as it is in the pool.
base::Status MakeImage(const Cluster& cluster, const std::string& name, ImageRecord& record,
                       const api::NodeName& node) {
  ImageRecord next = record;
  if (!record.source.empty()) {
    ASSIGN_OR_RETURN(const auto source, ReadImageRecord(cluster, record.source));
    if (source.has_value() && source->state != ImageState::kMade) {
      return Error(StatusCode::kNotFound, "image {} is not complete", Quote(record.source));
    }
    ASSIGN_OR_RETURN(next.size_bytes, MakeCopy(cluster, {.origin = record.source,
                                                         .name = name,
                                                         .made_as = record.made_as,
                                                         .size_bytes = record.size_bytes,
                                                         .node = node,
                                                         .in_use = !record.snapshot_of.empty()}));
  } else {
    const ImageOptions options(ImageOptions::kNewImage);
    const int result = rbd_create4(cluster.io(), record.made_as.c_str(),
                                   static_cast<uint64_t>(record.size_bytes), options.get());
    if (result < 0) return RbdError(result, fmt::format("create image {}", Quote(name)));
  }
  ASSIGN_OR_RETURN(const auto id, FindImageId(cluster, record.made_as));
  if (!id.has_value()) {
    return Error(StatusCode::kAborted, "image {} was deleted while it was made", Quote(name));
  }
  next.id = *id;
  RETURN_IF_ERROR(ReplaceImageRecord(cluster, name, record, next));
  record = next;
  const int result = rbd_rename(cluster.io(), record.made_as.c_str(), name.c_str());
  if (result == -EEXIST) return NotByBerth(cluster, name);
  if (result < 0) return RbdError(result, fmt::format("name image {}", Quote(name)));
  next.state = ImageState::kMade;
  next.made_as.clear();
  RETURN_IF_ERROR(ReplaceImageRecord(cluster, name, record, next));
  record = next;
  return base::OkStatus();
}

// RESOURCE_EXHAUSTED: the cluster is full or the quota of the pool is used up. Changes of objects
// that exist pass then, so only a new object tells.
base::Status CheckSpace(const Cluster& cluster) {
  const std::string probe = fmt::format("berth_probe_{}", cluster.client_id());
  const int result = rados_write_full(cluster.io(), probe.c_str(), "x", 1);
  if (result == -ENOSPC || result == -EDQUOT) return RbdError(result, "make an object");
  rados_remove(cluster.io(), probe.c_str());
  return base::OkStatus();
}

base::StatusOr<ImageInfo> MakeRecordedImage(const Cluster& cluster, const std::string& name,
                                            ImageRecord record, const api::NodeName& node) {
  // No later client of the cluster gets this number. No volume has a name with '_'.
  record.made_as = fmt::format("berth_making_{}", cluster.client_id());
  RETURN_IF_ERROR(ReplaceImageRecord(cluster, name, std::nullopt, record));
  const base::Status made = MakeImage(cluster, name, record, node);
  if (!made.ok()) {
    // A call whose outcome is not known leaves the record, by which the next one cleans up.
    if (made.code() != StatusCode::kDeadlineExceeded) {
      const base::Status cleaned = RemoveUnfinished(cluster, name, record, node);
      if (!cleaned.ok()) LOG_WARNING("{}", base::Message(cleaned));
    }
    // In a full cluster librbd does not find what it could not make of a copy.
    if (made.code() == StatusCode::kNotFound) {
      RETURN_IF_ERROR_WITH(CheckSpace(cluster), fmt::format("make image {}", Quote(name)));
    }
    return made;
  }
  LOG_INFO("image {} of {} bytes is made{}{}", Quote(name), record.size_bytes,
           record.source.empty() ? "" : " from ", record.source);
  return ToInfo(name, record);
}

}  // namespace

base::StatusOr<ImageInfo> CreateImage(const Cluster& cluster, const NewImage& wanted) {
  ASSIGN_OR_RETURN(const int64_t size, RoundedSize(wanted.size_bytes));
  ASSIGN_OR_RETURN(const auto before, SettleImage(cluster, wanted.name, wanted.node));
  if (before.has_value()) {
    if (before->made_bytes == size && before->source == wanted.source &&
        before->snapshot_of.empty()) {
      return ToInfo(wanted.name, *before);
    }
    return Error(StatusCode::kAlreadyExists,
                 "image {} was made with {} bytes{}{}, but {} bytes{}{} are wanted",
                 Quote(wanted.name), before->made_bytes, before->source.empty() ? "" : " from ",
                 before->source, size, wanted.source.empty() ? "" : " from ", wanted.source);
  }
  RETURN_IF_ERROR(PurgeTrash(cluster, Purge::kQuick, [](double) {}));
  return MakeRecordedImage(cluster, wanted.name,
                           {.size_bytes = size, .made_bytes = size, .source = wanted.source},
                           wanted.node);
}

base::StatusOr<ImageInfo> CreateSnapshot(const Cluster& cluster, const NewSnapshot& wanted) {
  ASSIGN_OR_RETURN(const auto before, SettleImage(cluster, wanted.name, wanted.node));
  if (before.has_value()) {
    if (before->snapshot_of == wanted.image) return ToInfo(wanted.name, *before);
    return Error(StatusCode::kAlreadyExists, "{} exists and is not a snapshot of image {}",
                 Quote(wanted.name), Quote(wanted.image));
  }
  return MakeRecordedImage(cluster, wanted.name,
                           {.source = wanted.image, .snapshot_of = wanted.image}, wanted.node);
}

base::StatusOr<ImageInfo> GrowImage(const Cluster& cluster, const std::string& image,
                                    int64_t size_bytes, const api::NodeName& node) {
  ASSIGN_OR_RETURN(const int64_t wanted, RoundedSize(size_bytes));
  ASSIGN_OR_RETURN(const auto record, ReadImageRecord(cluster, image));
  if (record.has_value() && record->state != ImageState::kMade) {
    return Error(StatusCode::kNotFound, "image {} is not complete", Quote(image));
  }
  if (record.has_value() && !record->snapshot_of.empty()) {
    return Error(StatusCode::kFailedPrecondition, "{} is a snapshot, which never changes",
                 Quote(image));
  }
  ASSIGN_OR_RETURN(const auto opened, Image::Open(cluster, image, {.node = node}));
  ASSIGN_OR_RETURN(int64_t size, opened->ReadSize());
  if (size < wanted) {
    RETURN_IF_ERROR(PrepareGrowth(*opened));
    const int result = rbd_resize2(opened->handle(), static_cast<uint64_t>(wanted),
                                   /*allow_shrink=*/false, nullptr, nullptr);
    if (result < 0) return RbdError(result, fmt::format("grow image {}", Quote(image)));
    ASSIGN_OR_RETURN(size, opened->ReadSize());
    LOG_INFO("image {} has grown to {} bytes", Quote(image), size);
  }
  if (record.has_value() && record->size_bytes != size) {
    ImageRecord grown = *record;
    grown.size_bytes = size;
    RETURN_IF_ERROR(ReplaceImageRecord(cluster, image, record, grown));
  }
  return ImageInfo{.name = image, .size_bytes = size};
}

base::StatusOr<std::vector<ImageInfo>> ListImages(const Cluster& cluster) {
  ASSIGN_OR_RETURN(const auto records, ListImageRecords(cluster));
  // librbd's directory of the pool tells which of them an administrator has removed: the value of
  // "name_NAME" is the id as a string with its length before it, in four bytes.
  ASSIGN_OR_RETURN(const OmapValues directory, ListOmap(cluster, "rbd_directory", "name_"));
  std::vector<ImageInfo> images;
  for (const auto& [name, record] : records) {
    const auto entry = directory.find("name_" + name);
    if (record.state != ImageState::kMade || entry == directory.end()) continue;
    if (entry->second.size() <= 4 || entry->second.substr(4) != record.id) continue;
    images.push_back(ToInfo(name, record));
  }
  return images;
}

base::StatusOr<ImageDetails> DescribeImage(const Cluster& cluster, const std::string& image,
                                           const api::NodeName& node) {
  ASSIGN_OR_RETURN(const auto record, ReadImageRecord(cluster, image));
  if (record.has_value() && record->state != ImageState::kMade) {
    return Error(StatusCode::kNotFound, "image {} is not complete", Quote(image));
  }
  ASSIGN_OR_RETURN(const auto opened,
                   Image::Open(cluster, image, {.node = node, .read_only = true}));
  ImageDetails details{.info = {.name = image}};
  ASSIGN_OR_RETURN(details.info.size_bytes, opened->ReadSize());
  if (record.has_value()) details.info.snapshot_of = record->snapshot_of;
  uint64_t features = 0;
  int result = rbd_get_features(opened->handle(), &features);
  char text[512];
  size_t size = sizeof(text);
  if (result >= 0) result = rbd_features_to_string(features, text, &size);
  if (result < 0) return RbdError(result, fmt::format("read the features of {}", Quote(image)));
  details.features.assign(text, strnlen(text, sizeof(text)));
  return details;
}

base::Status NoteFormatting(const Cluster& cluster, const std::string& image,
                            const std::string& uuid) {
  ASSIGN_OR_RETURN(const auto id, FindImageId(cluster, image));
  if (!id.has_value()) return Error(StatusCode::kNotFound, "there is no image {}", Quote(image));
  // Not by rbd_metadata_set, which needs the lock of the image.
  if (uuid.empty()) return RemoveOmap(cluster, HeaderOf(*id), {kFormattingKey});
  return SetInExisting(cluster, HeaderOf(*id), kFormattingKey, uuid);
}

base::StatusOr<std::string> ReadFormatting(const Cluster& cluster, const std::string& image) {
  ASSIGN_OR_RETURN(const auto id, FindImageId(cluster, image));
  if (!id.has_value()) return Error(StatusCode::kNotFound, "there is no image {}", Quote(image));
  ASSIGN_OR_RETURN(const auto uuid, ReadOmap(cluster, HeaderOf(*id), kFormattingKey));
  return uuid.value_or("");
}

}  // namespace berth::rbd
