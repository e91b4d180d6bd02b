// A folder of image files, in which several operators and agents work at once, on several nodes
// where its file system is shared by them.
//
//   FOLDER/NAME                  an image, a sparse file of exactly its size
//   FOLDER/.berth/NAME.json      its record (image_record.h), written before each step
//   FOLDER/.berth/NAME.new       the image while it is made; an NBD server that serves FOLDER never
//                                shows it
//   FOLDER/.berth/NAME.lock      held by whoever changes the image's existence or size at present
//                                (change_lock.h)
//   FOLDER/.berth/NAME.holder    who mapped it last, for people
//
// A long name is cut in .berth and has its digest behind it.
//
// What a crash left is finished or undone by whoever works on that name next, and by List. Images
// are locked as image_lock.h says. The file system of the folder has to carry open file description
// locks from node to node (NFS 4 does) and to keep inode numbers.
//
// Thread-safe. Before a call touches the folder it asks in a child whether it answers at all:
// DEADLINE_EXCEEDED.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "block/backend.h"
#include "block/images/change_lock.h"
#include "block/images/image_lock.h"
#include "block/images/image_record.h"
#include "platform/devices/loop_device.h"

namespace berth::block {

class ImageFolder {
 public:
  explicit ImageFolder(std::string folder) : folder_(std::move(folder)) {}

  // As the members of Backend of the same name.
  base::StatusOr<ImageInfo> Create(const NewImage& wanted);
  base::Status Delete(const std::string& image);
  base::StatusOr<ImageInfo> CreateSnapshot(const std::string& image, const std::string& snapshot);
  base::StatusOr<ImageInfo> Grow(const std::string& image, int64_t size_bytes);
  base::StatusOr<std::vector<ImageInfo>> List();
  base::StatusOr<bool> HasLock(const std::string& image) const;
  base::Status NoteFormatting(const std::string& image, const std::string& uuid);
  // Of an image that was mapped just now, so that the folder answers: it is not asked once more.
  base::StatusOr<std::string> Formatting(const std::string& image) const;

  struct Located {
    ImageInfo info;
    std::string path;
    platform::FileIdentity identity;
  };
  // Where a ready image is. NOT_FOUND; DATA_LOSS: it is not the recorded file.
  base::StatusOr<Located> Locate(const std::string& image) const;

  base::StatusOr<base::UniqueFd> Open(const Located& image, int flags) const;
  // Opens a located image by `flags` and takes its lock. FAILED_PRECONDITION: another's stands
  // against it; the message tells whose as far as is known.
  base::StatusOr<base::UniqueFd> OpenLocked(const Located& image, int flags, ImageLock lock) const;

  // Keeps others from changing the image's existence or size while the lock lives. ABORTED:
  // another does at present.
  base::StatusOr<ChangeLock> LockForChange(const std::string& image) const;

  // For the message that others get: who has the image mapped, as far as is known. Whether it could
  // be written is nobody's concern.
  void NoteHolder(const std::string& image, const std::string& who);

  const std::string& folder() const { return folder_; }
  std::string PathOf(const std::string& image) const { return folder_ + "/" + image; }

 private:
  base::StatusOr<base::UniqueFd> OpenBy(const Located& image, int flags,
                                        std::optional<ImageLock> lock) const;
  base::StatusOr<PoolPlace> Place() const;
  std::string Beside(const std::string& image, std::string_view suffix) const;
  base::StatusOr<std::optional<ImageRecord>> Read(const std::string& image) const;
  base::Status Write(const ImageRecord& record);
  // The record of a ready image. NOT_FOUND.
  base::StatusOr<ImageRecord> ReadReady(const std::string& image) const;
  // Finishes or undoes what a crash left; the record of a ready image, if there is one then. The
  // caller holds the lock for changes, as for all below.
  base::StatusOr<std::optional<ImageRecord>> Settle(const std::string& image,
                                                    const PoolPlace& place);
  base::StatusOr<ImageInfo> Make(ImageRecord record, const PoolPlace& place);
  base::Status Fill(const base::UniqueFd& image, const ImageRecord& record);
  base::StatusOr<ImageRecord> Finish(ImageRecord record, const PoolPlace& place);
  base::Status Remove(ImageRecord record, const PoolPlace& place);
  base::Status RemoveTornRecords(const std::string& image);
  base::StatusOr<ImageRecord> CompleteGrowth(ImageRecord record, const PoolPlace& place);
  std::string Holders(const Located& image) const;

  const std::string folder_;
};

}  // namespace berth::block
