#include "rbd/deletion.h"

#include <errno.h>
#include <rbd/librbd.h>

#include "base/log.h"
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

// librbd's directory of the images of a pool.
constexpr char kDirectory[] = "rbd_directory";
// An image up to this size is removed within seconds.
constexpr uint64_t kSmallBytes = uint64_t{4} << 30;

int ReportProgress(uint64_t offset, uint64_t total, void* data) {
  const auto& progress = *static_cast<const Progress*>(data);
  if (total > 0) progress(static_cast<double>(offset) / static_cast<double>(total));
  return 0;
}

void* AsData(const Progress& progress) { return const_cast<Progress*>(&progress); }

base::Status RemoveTrashRecord(const Cluster& cluster, const std::string& id) {
  return RemoveOmap(cluster, kTrashRecords, {id});
}

// Removes the image `id` from the trash. The result is librbd's: -ENOENT if it is not there.
int RemoveFromTrash(const Cluster& cluster, const std::string& id, const Progress& progress) {
  return rbd_trash_remove_with_progress(cluster.io(), id.c_str(), /*force=*/true, ReportProgress,
                                        AsData(progress));
}

bool IsSmall(const Cluster& cluster, const std::string& id) {
  rbd_image_t image = nullptr;
  if (rbd_open_by_id_read_only(cluster.io(), id.c_str(), &image, nullptr) < 0) {
    return true;  // what is left of it is little
  }
  uint64_t size = 0;
  const int result = rbd_get_size(image, &size);
  rbd_close(image);
  return result >= 0 && size <= kSmallBytes;
}

// Deletes the image, or moves it to the trash if there are copies of it.
base::Status RemoveOrMove(const Cluster& cluster, const std::string& name, bool has_copies,
                          const Progress& progress) {
  const int result = has_copies ? rbd_trash_move(cluster.io(), name.c_str(), 0)
                                : rbd_remove_with_progress(cluster.io(), name.c_str(),
                                                           ReportProgress, AsData(progress));
  if (result >= 0 || result == -ENOENT) return base::OkStatus();
  return RbdError(result, fmt::format("delete image {}", Quote(name)));
}

// What opening an image that is to be deleted shows. FAILED_PRECONDITION: somebody has its lock.
base::StatusOr<bool> HasCopies(const Cluster& cluster, const std::string& name,
                               const std::string& node) {
  const auto image = Image::Open(cluster, name, {.node = node, .read_only = true});
  // The last deletion or creation was interrupted: there is no header any more, or not yet.
  if (image.status().code() == StatusCode::kNotFound) return false;
  RETURN_IF_ERROR(image);
  RETURN_IF_ERROR(CheckUnlocked(**image));
  ASSIGN_OR_RETURN(const auto snapshots, (*image)->ListSnapshots());
  return !snapshots.empty();
}

}  // namespace

base::Status DeleteImage(const Cluster& cluster, const std::string& name, const std::string& node,
                         const Progress& progress) {
  ASSIGN_OR_RETURN(auto record, ReadImageRecord(cluster, name));
  ASSIGN_OR_RETURN(const auto id, FindImageId(cluster, name));
  if (!record.has_value()) {
    if (!id.has_value()) return PurgeTrash(cluster, Purge::kAll, progress);
    return Error(StatusCode::kFailedPrecondition,
                 "image {} of pool {} was not made by Berth: delete it with `rbd rm`", Quote(name),
                 Quote(cluster.pool()));
  }
  if (record->state == ImageState::kMaking) {
    RETURN_IF_ERROR(RemoveUnfinished(cluster, name));
  } else if (id.has_value() && *id != record->id) {
    LOG_WARNING("image {}: another image has its name by now, which stays", Quote(name));
  } else if (id.has_value()) {
    ASSIGN_OR_RETURN(const bool has_copies, HasCopies(cluster, name, node));
    RETURN_IF_ERROR(SetOmap(cluster, kTrashRecords, record->id, name));
    record->state = ImageState::kDeleting;
    RETURN_IF_ERROR(WriteImageRecord(cluster, name, *record));
    const base::Status removed = RemoveOrMove(cluster, name, has_copies, progress);
    if (removed.code() == StatusCode::kFailedPrecondition) {
      // It is in use after all, so that it goes on to exist.
      record->state = ImageState::kMade;
      RETURN_IF_ERROR(WriteImageRecord(cluster, name, *record));
      RETURN_IF_ERROR(RemoveTrashRecord(cluster, record->id));
    }
    RETURN_IF_ERROR(removed);
  }
  ASSIGN_OR_RETURN(const auto clients, ListClients(cluster, name));
  RETURN_IF_ERROR(RemoveClients(cluster, name, clients));
  RETURN_IF_ERROR(RemoveImageRecord(cluster, name));
  LOG_INFO("image {} is deleted", Quote(name));
  return PurgeTrash(cluster, Purge::kAll, progress);
}

base::Status RemoveUnfinished(const Cluster& cluster, const std::string& name) {
  RETURN_IF_ERROR(RemoveOrMove(cluster, name, /*has_copies=*/false, [](double) {}));
  // librbd makes this object first, and does not remove it if the name is not in its directory yet.
  const std::string object = "rbd_id." + name;
  ASSIGN_OR_RETURN(const auto entry, ReadOmap(cluster, kDirectory, "name_" + name));
  if (entry.has_value()) return base::OkStatus();
  const int result = rados_remove(cluster.io(), object.c_str());
  if (result >= 0 || result == -ENOENT) return base::OkStatus();
  return RbdError(result, fmt::format("remove {}", Quote(object)));
}

base::Status PurgeTrash(const Cluster& cluster, Purge which, const Progress& progress) {
  // An image that is removed may be the last copy of another one, so that this one can go next.
  for (bool removed = true; removed;) {
    removed = false;
    ASSIGN_OR_RETURN(const OmapValues trash, ListOmap(cluster, kTrashRecords));
    for (const auto& [id, name] : trash) {
      if (which == Purge::kSmall && !IsSmall(cluster, id)) continue;
      const int result = RemoveFromTrash(cluster, id, progress);
      if (result >= 0 || result == -ENOENT) {
        RETURN_IF_ERROR(RemoveTrashRecord(cluster, id));
        removed = true;
      } else if (result != -ENOTEMPTY && result != -EBUSY) {
        LOG_WARNING("{}", base::Message(RbdError(
                              result, fmt::format("remove image {} from the trash", Quote(name)))));
      }
    }
  }
  return base::OkStatus();
}

}  // namespace berth::rbd
