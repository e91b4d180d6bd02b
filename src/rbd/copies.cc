#include "rbd/copies.h"

#include <errno.h>
#include <rbd/features.h>
#include <rbd/librbd.h>

#include <algorithm>

#include "base/log.h"
#include "rbd/image.h"
#include "rbd/lock.h"
#include "rbd/rbd_error.h"

namespace berth::rbd {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;

constexpr uint64_t kFeatures = RBD_FEATURE_LAYERING | RBD_FEATURE_EXCLUSIVE_LOCK |
                               RBD_FEATURE_OBJECT_MAP | RBD_FEATURE_FAST_DIFF;

// The snapshot of librbd at the origin, from which the copy is cloned.
std::string PointName(const NewCopy& copy) { return "berth." + copy.name; }

std::string Context(const NewCopy& copy, std::string_view step) {
  return fmt::format("copy image {} to {}: {}", Quote(copy.origin), Quote(copy.name), step);
}

base::Status PrepareOrigin(const Image& origin, const NewCopy& copy) {
  if (copy.in_use) {
    RETURN_IF_ERROR_WITH(PrepareSnapshot(origin), Context(copy, "have its user make a snapshot"));
    return base::OkStatus();
  }
  RETURN_IF_ERROR_WITH(AcquireLock(origin), Context(copy, "keep others from writing"));
  return base::OkStatus();
}

base::Status RemovePoint(const Image& origin, const NewCopy& copy) {
  const int result = rbd_snap_remove(origin.handle(), PointName(copy).c_str());
  if (result >= 0 || result == -ENOENT) return base::OkStatus();
  return RbdError(result, Context(copy, "remove the snapshot in between"));
}

base::Status GrowCopy(const Cluster& cluster, const NewCopy& copy) {
  ASSIGN_OR_RETURN(const auto made, Image::Open(cluster, copy.made_as, {.node = copy.node}));
  const int result = rbd_resize2(made->handle(), static_cast<uint64_t>(copy.size_bytes),
                                 /*allow_shrink=*/false, nullptr, nullptr);
  if (result < 0) return RbdError(result, Context(copy, "grow it"));
  return base::OkStatus();
}

}  // namespace

ImageOptions::ImageOptions(Of of) {
  rbd_image_options_create(&options_);
  rbd_image_options_set_uint64(options_, RBD_IMAGE_OPTION_FORMAT, 2);
  rbd_image_options_set_uint64(options_, RBD_IMAGE_OPTION_FEATURES, kFeatures);
  // librbd refuses this one for a new image.
  if (of == kClone) rbd_image_options_set_uint64(options_, RBD_IMAGE_OPTION_CLONE_FORMAT, 2);
}

ImageOptions::~ImageOptions() { rbd_image_options_destroy(options_); }

base::StatusOr<int64_t> MakeCopy(const Cluster& cluster, const NewCopy& copy) {
  int64_t size = 0;
  {
    ASSIGN_OR_RETURN(const auto origin, Image::Open(cluster, copy.origin, {.node = copy.node}));
    ASSIGN_OR_RETURN(size, origin->ReadSize());
    if (copy.size_bytes != 0 && size > copy.size_bytes) {
      return Error(StatusCode::kOutOfRange, "image {} has {} bytes, more than the {} of its copy",
                   Quote(copy.origin), size, copy.size_bytes);
    }
    RETURN_IF_ERROR(PrepareOrigin(*origin, copy));
    RETURN_IF_ERROR(RemovePoint(*origin, copy));
    const std::string point = PointName(copy);
    int result = rbd_snap_create2(origin->handle(), point.c_str(), RBD_SNAP_CREATE_SKIP_QUIESCE,
                                  nullptr, nullptr);
    if (result < 0) return RbdError(result, Context(copy, "make a snapshot"));
    const ImageOptions options(ImageOptions::kClone);
    result = rbd_clone3(cluster.io(), copy.origin.c_str(), point.c_str(), cluster.io(),
                        copy.made_as.c_str(), options.get());
    if (result < 0) {
      // The first failure is the one to report; the next try removes the snapshot, too.
      const base::Status removed = RemovePoint(*origin, copy);
      if (!removed.ok()) LOG_WARNING("{}", base::Message(removed));
      return RbdError(result, Context(copy, "clone the snapshot"));
    }
    RETURN_IF_ERROR(RemovePoint(*origin, copy));
  }
  if (copy.size_bytes > size) RETURN_IF_ERROR(GrowCopy(cluster, copy));
  return std::max(size, copy.size_bytes);
}

base::Status RemoveCopyPoint(const Cluster& cluster, const NewCopy& copy) {
  const auto origin = Image::Open(cluster, copy.origin, {.node = copy.node});
  if (origin.status().code() == StatusCode::kNotFound) return base::OkStatus();
  RETURN_IF_ERROR(origin);
  ASSIGN_OR_RETURN(const auto points, (*origin)->ListSnapshots());
  if (std::find(points.begin(), points.end(), PointName(copy)) == points.end()) {
    return base::OkStatus();
  }
  RETURN_IF_ERROR(PrepareOrigin(**origin, copy));
  return RemovePoint(**origin, copy);
}

}  // namespace berth::rbd
