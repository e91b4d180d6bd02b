#include "rbd/deletion.h"

#include <endian.h>
#include <errno.h>
#include <rbd/librbd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <random>
#include <utility>
#include <vector>

#include "base/log.h"
#include "rbd/copies.h"
#include "rbd/dead_client.h"
#include "rbd/image.h"
#include "rbd/kernel_clients.h"
#include "rbd/lock.h"
#include "rbd/omap.h"
#include "rbd/rbd_error.h"
#include "rbd/records.h"

namespace berth::rbd {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;

using Clock = std::chrono::steady_clock;

// librbd's directory of the images of a pool, and its trash.
constexpr char kDirectory[] = "rbd_directory";
constexpr char kTrash[] = "rbd_trash";
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

struct PurgeLimits {
  size_t images;
  std::chrono::seconds time;
  bool only_small;
};

PurgeLimits LimitsOf(Purge how) {
  if (how == Purge::kQuick) {
    return {.images = 4, .time = std::chrono::seconds(2), .only_small = true};
  }
  return {.images = kMostKeys, .time = std::chrono::minutes(10), .only_small = false};
}

struct PurgeRun {
  const Progress& progress;
  const Clock::time_point deadline;

  bool IsLate() const { return Clock::now() >= deadline; }
};

// librbd gives up the removal of an image if this returns an error.
int ReportPurge(uint64_t offset, uint64_t total, void* data) {
  const auto& run = *static_cast<const PurgeRun*>(data);
  if (total > 0) run.progress(static_cast<double>(offset) / static_cast<double>(total));
  return run.IsLate() ? -ECANCELED : 0;
}

// The id of the image that has this name in librbd's directory; "": none has it.
base::StatusOr<std::string> FindInDirectory(const Cluster& cluster, const std::string& name) {
  ASSIGN_OR_RETURN(const auto entry, ReadOmap(cluster, kDirectory, "name_" + name));
  // A string with its length before it, in four bytes.
  return entry.has_value() && entry->size() > 4 ? entry->substr(4) : std::string();
}

// Whether there is no image of this id any more, neither with a name nor in the trash.
base::StatusOr<bool> IsGone(const Cluster& cluster, const std::string& id) {
  // In this order, because an image is added to the trash before it leaves the directory.
  ASSIGN_OR_RETURN(const auto name, ReadOmap(cluster, kDirectory, "id_" + id));
  if (name.has_value()) return false;
  ASSIGN_OR_RETURN(const auto entry, ReadOmap(cluster, kTrash, "id_" + id));
  return !entry.has_value();
}

// Removes the image from the trash if it can be removed now, and then its record. Returns whether
// it is gone.
base::StatusOr<bool> PurgeImage(const Cluster& cluster, const std::string& id,
                                const std::string& name, const PurgeRun& run) {
  const int result = rbd_trash_remove_with_progress(cluster.io(), id.c_str(), /*force=*/true,
                                                    ReportPurge, const_cast<PurgeRun*>(&run));
  if (result < 0 && result != -ENOENT && result != -ENOTEMPTY && result != -EBUSY &&
      result != -ECANCELED) {
    LOG_WARNING("{}", base::Message(RbdError(
                          result, fmt::format("remove image {} from the trash", Quote(name)))));
  }
  // Not by the result: the record of an image that is about to get into the trash has to stay, and
  // another call may be removing this one.
  ASSIGN_OR_RETURN(const bool gone, IsGone(cluster, id));
  if (gone) RETURN_IF_ERROR(RemoveTrashRecord(cluster, id));
  return gone;
}

// What is known of an image before it is removed from the trash.
struct TrashState {
  bool small = true;
  bool in_use = false;
};

TrashState InspectTrash(const Cluster& cluster, const std::string& id) {
  TrashState state;
  rbd_image_t image = nullptr;
  if (rbd_open_by_id_read_only(cluster.io(), id.c_str(), &image, nullptr) < 0) {
    return state;  // what is left of it is little
  }
  uint64_t size = 0;
  state.small = rbd_get_size(image, &size) >= 0 && size <= kSmallBytes;
  rbd_image_watcher_t watchers[16];
  size_t count = std::size(watchers);
  const int result = rbd_watchers_list(image, watchers, &count);
  if (result >= 0) rbd_watchers_list_cleanup(watchers, count);
  // A client that watches it, as a call that was removing it when it died half a minute ago or
  // less. librbd would wait for its lock.
  state.in_use = result < 0 || count > 0;
  rbd_close(image);
  return state;
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

base::Status RemoveIdObject(const Cluster& cluster, const std::string& name) {
  const std::string object = "rbd_id." + name;
  const int result = rados_remove(cluster.io(), object.c_str());
  if (result >= 0 || result == -ENOENT) return base::OkStatus();
  return RbdError(result, fmt::format("remove {}", Quote(object)));
}

// Removes the entry of an image whose other objects are gone, or which is in the trash: a removal
// or a move to the trash that was interrupted leaves it. OK if there is none.
base::Status RemoveDirectoryEntry(const Cluster& cluster, const std::string& name,
                                  const std::string& id) {
  ASSIGN_OR_RETURN(const std::string entry, FindInDirectory(cluster, name));
  if (entry != id) return base::OkStatus();
  std::string input;
  for (const std::string& text : {name, id}) {
    const auto length = htole32(static_cast<uint32_t>(text.size()));
    input.append(reinterpret_cast<const char*>(&length), sizeof(length));
    input += text;
  }
  char output[1];
  const int result = rados_exec(cluster.io(), kDirectory, "rbd", "dir_remove_image", input.data(),
                                input.size(), output, sizeof(output));
  if (result >= 0 || result == -ENOENT) return base::OkStatus();
  return RbdError(result, fmt::format("remove {} from the directory of the pool", Quote(name)));
}

// Ends a move to the trash that was interrupted: librbd removes nothing from the trash that is
// still marked as being moved, and goes on with the move if it is asked again.
base::Status EndMove(const Cluster& cluster, const std::string& name, const std::string& id) {
  ASSIGN_OR_RETURN(const auto entry, ReadOmap(cluster, kTrash, "id_" + id));
  if (!entry.has_value()) return base::OkStatus();
  ASSIGN_OR_RETURN(const std::string named, FindInDirectory(cluster, name));
  if (!named.empty() && named != id) return base::OkStatus();
  const int result = rbd_trash_move(cluster.io(), name.c_str(), 0);
  if (result >= 0 || result == -ENOENT) return base::OkStatus();
  return RbdError(result, fmt::format("move image {} to the trash", Quote(name)));
}

base::Status ForgetClients(const Cluster& cluster, const std::string& name) {
  ASSIGN_OR_RETURN(const auto clients, ListClients(cluster, name));
  return RemoveClients(cluster, name, clients);
}

// What opening an image that is to be deleted shows. FAILED_PRECONDITION: somebody has its lock.
base::StatusOr<bool> HasCopies(const Cluster& cluster, const std::string& name,
                               const api::NodeName& node) {
  const auto image = Image::Open(cluster, name, {.node = node, .read_only = true});
  // The last deletion or creation was interrupted: there is no header any more, or not yet.
  if (image.status().code() == StatusCode::kNotFound) return false;
  RETURN_IF_ERROR(image);
  RETURN_IF_ERROR(EnsureUnlocked(**image));
  ASSIGN_OR_RETURN(const auto snapshots, (*image)->ListSnapshots());
  return !snapshots.empty();
}

// Frees what an attempt left from the clients that died, of which all were calls, because nobody
// else uses an image that is not complete. FAILED_PRECONDITION: another client uses it, for which
// librbd would wait.
base::Status EndAttempt(const Cluster& cluster, const std::string& name,
                        const api::NodeName& node) {
  const auto image = Image::Open(cluster, name, {.node = node, .read_only = true});
  if (image.status().code() == StatusCode::kNotFound) return base::OkStatus();
  RETURN_IF_ERROR(image);
  RETURN_IF_ERROR(EndDeadCalls(**image, Unrecorded::kCall));
  ASSIGN_OR_RETURN(const auto lockers, ListLockers(cluster, (*image)->id()));
  ASSIGN_OR_RETURN(const auto watchers, (*image)->ListWatchers());
  for (const Seen& client : Merge(lockers, watchers)) {
    if (client.client_id == cluster.client_id()) continue;
    return Error(StatusCode::kFailedPrecondition,
                 "image {} is in use by {}, which makes or removes it", Quote(name),
                 Quote(client.address));
  }
  return base::OkStatus();
}

// Deletes an image that has its name, or moves it to the trash.
base::Status DeleteRecorded(const Cluster& cluster, const std::string& name, ImageRecord& record,
                            const api::NodeName& node, const Progress& progress) {
  ASSIGN_OR_RETURN(const bool has_copies, HasCopies(cluster, name, node));
  // A move to the trash that was interrupted has to go on, or its entry there stays for ever.
  ASSIGN_OR_RETURN(const auto in_trash, ReadOmap(cluster, kTrash, "id_" + record.id));
  RETURN_IF_ERROR(SetOmap(cluster, kTrashRecords, record.id, name));
  const ImageRecord before = record;
  record.state = ImageState::kDeleting;
  RETURN_IF_ERROR(ReplaceImageRecord(cluster, name, before, record));
  // librbd takes the lock of the image. By this record the next call knows whose it is if this one
  // dies.
  const ClientRecord client{
      .client_id = cluster.client_id(), .address = cluster.address(), .node = node};
  RETURN_IF_ERROR(WriteClient(cluster, name, client));
  base::Status removed = RemoveOrMove(cluster, name, has_copies || in_trash.has_value(), progress);
  if (removed.code() == StatusCode::kFailedPrecondition) {
    RETURN_IF_ERROR(RemoveClients(cluster, name, {client}));
  }
  if (removed.code() == StatusCode::kFailedPrecondition && before.state == ImageState::kMade) {
    // It is in use after all, so that it goes on to exist. An earlier deletion that was interrupted
    // may have removed a part of it, and then it never exists again.
    RETURN_IF_ERROR(ReplaceImageRecord(cluster, name, record, before));
    RETURN_IF_ERROR(RemoveTrashRecord(cluster, record.id));
  }
  return removed;
}

}  // namespace

base::Status DeleteImage(const Cluster& cluster, const std::string& name, const api::NodeName& node,
                         const Progress& progress) {
  ASSIGN_OR_RETURN(auto record, ReadImageRecord(cluster, name));
  ASSIGN_OR_RETURN(const auto id, FindImageId(cluster, name));
  if (!record.has_value()) {
    if (!id.has_value()) return PurgeTrash(cluster, Purge::kThorough, progress);
    return Error(StatusCode::kFailedPrecondition,
                 "image {} of pool {} was not made by Berth: delete it with `rbd rm`", Quote(name),
                 Quote(cluster.pool()));
  }
  if (record->state == ImageState::kMaking) {
    RETURN_IF_ERROR(RemoveUnfinished(cluster, name, *record, node));
    LOG_INFO("image {}: what an interrupted call left is removed", Quote(name));
    return PurgeTrash(cluster, Purge::kThorough, progress);
  }
  if (id.has_value() && *id != record->id) {
    LOG_WARNING("image {}: another image has its name by now, which stays", Quote(name));
  } else if (id.has_value()) {
    RETURN_IF_ERROR(DeleteRecorded(cluster, name, *record, node, progress));
  } else {
    RETURN_IF_ERROR(EndMove(cluster, name, record->id));
    RETURN_IF_ERROR(RemoveDirectoryEntry(cluster, name, record->id));
  }
  RETURN_IF_ERROR(ForgetClients(cluster, name));
  RETURN_IF_ERROR(ReplaceImageRecord(cluster, name, record, std::nullopt));
  LOG_INFO("image {} is deleted", Quote(name));
  return PurgeTrash(cluster, Purge::kThorough, progress);
}

base::Status RemoveUnfinished(const Cluster& cluster, const std::string& name,
                              const ImageRecord& record, const api::NodeName& node) {
  RETURN_IF_ERROR(EndAttempt(cluster, record.made_as, node));
  if (!record.id.empty()) {
    // It was complete, and may have begun to get its name: the object rbd_id.NAME comes first, then
    // the entry of the directory changes, then the object of the old name goes.
    ASSIGN_OR_RETURN(const std::string in_directory, FindInDirectory(cluster, name));
    ASSIGN_OR_RETURN(const auto by_object, FindImageId(cluster, name));
    if (in_directory == record.id) {
      RETURN_IF_ERROR(RemoveIdObject(cluster, record.made_as));
      if (by_object == record.id) {
        RETURN_IF_ERROR(EndAttempt(cluster, name, node));
        RETURN_IF_ERROR(RemoveOrMove(cluster, name, /*has_copies=*/false, [](double) {}));
      }
      RETURN_IF_ERROR(RemoveDirectoryEntry(cluster, name, record.id));
    } else if (by_object == record.id) {
      RETURN_IF_ERROR(RemoveIdObject(cluster, name));
    }
  }
  if (!record.made_as.empty()) {
    RETURN_IF_ERROR(RemoveOrMove(cluster, record.made_as, /*has_copies=*/false, [](double) {}));
    // librbd makes this object first, and does not remove it if the name is not in its directory.
    ASSIGN_OR_RETURN(const std::string entry, FindInDirectory(cluster, record.made_as));
    RETURN_IF_ERROR(entry.empty() ? RemoveIdObject(cluster, record.made_as)
                                  : RemoveDirectoryEntry(cluster, record.made_as, entry));
    RETURN_IF_ERROR(ForgetClients(cluster, record.made_as));
  }
  if (!record.source.empty()) {
    RETURN_IF_ERROR(RemoveCopyPoint(cluster, {.origin = record.source,
                                              .name = name,
                                              .node = node,
                                              .in_use = !record.snapshot_of.empty()}));
  }
  base::Status removed = ReplaceImageRecord(cluster, name, record, std::nullopt);
  // Another call has begun to make the image, so that the record is its own now.
  if (removed.code() == StatusCode::kAborted) return base::OkStatus();
  return removed;
}

base::Status PurgeTrash(const Cluster& cluster, Purge how, const Progress& progress) {
  const PurgeLimits limits = LimitsOf(how);
  const PurgeRun run{.progress = progress, .deadline = Clock::now() + limits.time};
  std::mt19937 random{std::random_device()()};
  size_t tried = 0;
  // An image that is removed may be the last copy of another one, so that this one can go next.
  for (bool removed = true; removed;) {
    removed = false;
    ASSIGN_OR_RETURN(const OmapValues trash, ListOmap(cluster, kTrashRecords));
    // In any order, so that images that have copies are not always the ones that are tried.
    std::vector<std::pair<std::string, std::string>> images(trash.begin(), trash.end());
    std::shuffle(images.begin(), images.end(), random);
    for (const auto& [id, name] : images) {
      if (tried == limits.images || run.IsLate()) return base::OkStatus();
      ++tried;
      const TrashState state = InspectTrash(cluster, id);
      if (state.in_use || (limits.only_small && !state.small)) continue;
      ASSIGN_OR_RETURN(const bool gone, PurgeImage(cluster, id, name, run));
      removed = removed || gone;
    }
  }
  return base::OkStatus();
}

}  // namespace berth::rbd
