// A folder of image files. Several operators and agents may work in it at once, also from several
// nodes if these share its file system.
//
//   FOLDER/NAME                  an image, a sparse file of exactly its size
//   FOLDER/.berth/NAME.json      its record (image_record.h), written before each step
//   FOLDER/.berth/NAME.new       the image while it is made; an NBD server that serves FOLDER never
//                                shows it
//   FOLDER/.berth/NAME.lock      held by a process that makes, deletes or resizes the image
//                                (change_lock.h)
//   FOLDER/.berth/NAME.holder    the node that mapped it last, for people
//   FOLDER/.berth/nodes          by which nodes see each other's locks (lock_handshake.h)
//
// In .berth a long name is cut, and its digest is appended.
//
// If a crash interrupted a change of an image, the next call that changes the image finishes or
// undoes it; so does List. image_lock.h says how images are locked. The folder's file system must
// pass open file description locks between nodes (folder_locks.h) and must keep inode numbers.
//
// Thread-safe. Before a call touches the folder, a child process checks that the folder answers.
// DEADLINE_EXCEEDED: it does not answer.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "block/backend.h"
#include "block/images/change_lock.h"
#include "block/images/image_adoption.h"
#include "block/images/image_lock.h"
#include "block/images/image_record.h"
#include "platform/devices/loop_device.h"

namespace berth::block {

class ImageFolder {
 public:
  explicit ImageFolder(std::string folder) : folder_(std::move(folder)) {}

  // These do what the members of Backend with the same names do.
  base::StatusOr<ImageInfo> Create(const NewImage& wanted);
  base::Status Delete(const std::string& image);
  base::StatusOr<ImageInfo> CreateSnapshot(const std::string& image, const std::string& snapshot);
  base::StatusOr<ImageInfo> Grow(const std::string& image, int64_t size_bytes);
  base::StatusOr<std::vector<ImageInfo>> List();
  base::StatusOr<bool> HasLock(const std::string& image) const;
  base::Status NoteFormatting(const std::string& image, const std::string& uuid);
  // This call does not check that the folder answers, because the caller mapped or locked the image
  // just now.
  base::StatusOr<std::string> ReadFormatting(const std::string& image) const;

  // Compares the records with the images, after the folder was copied or restored, and changes
  // nothing (image_adoption.h). The size is compared, and the file system's UUID if it is recorded.
  // The records of the steps have the image's name as their id. NOT_FOUND: there are no records.
  base::StatusOr<std::vector<AdoptionStep>> PlanAdoption() const;
  // As PlanAdoption, and takes the steps of kAdopt, except that an image which another holder has
  // locked is refused. After an error a repeated call goes on.
  base::StatusOr<std::vector<AdoptionStep>> AdoptImages();

  struct Located {
    ImageInfo info;
    std::string path;
    platform::FileIdentity identity;
    int64_t least_bytes = 0;  // a shorter file has lost data
  };
  // Finds a ready image. NOT_FOUND: there is none. DATA_LOSS: the file is not the recorded one.
  base::StatusOr<Located> Locate(const std::string& image) const;
  // As Locate, by the image's record alone, for a caller that opens the image next. `device` is the
  // one of the folder, which the caller has just found to answer.
  base::StatusOr<Located> FindRecorded(const std::string& image, dev_t device) const;

  // Opens a located image with `flags`. NOT_FOUND: it was deleted. DATA_LOSS: it became another
  // file, or a shorter one.
  base::StatusOr<base::UniqueFd> Open(const Located& image, int flags) const;
  // As Open, and takes the image's lock, which lasts as long as the open file. FAILED_PRECONDITION:
  // a lock of another holder conflicts with it; the message names the holder if it is known.
  base::StatusOr<base::UniqueFd> OpenLocked(const Located& image, int flags, ImageLock lock) const;

  // While the lock lives, no other caller can create, delete or resize the image. ABORTED: another
  // caller is doing that now.
  base::StatusOr<ChangeLock> LockForChange(const std::string& image) const;

  // Notes the node that has the image mapped, because OpenLocked names the holder in its error
  // message. A failed write is ignored, because only that message needs the note.
  void NoteHolder(const std::string& image, const std::string& holder);
  // Reads the last note of NoteHolder; empty: there is none, or it cannot be read.
  std::string ReadHolder(const std::string& image) const;

  const std::string& folder() const { return folder_; }
  std::string PathOf(const std::string& image) const { return folder_ + "/" + image; }

 private:
  static constexpr std::chrono::seconds kAnswerTime{10};  // of the folder's file system

  base::Status NoImageError(const std::string& image) const;
  base::StatusOr<base::UniqueFd> OpenImageFile(const Located& image, int flags,
                                               std::optional<ImageLock> lock) const;
  base::StatusOr<PoolPlace> FindPlace() const;
  // The path of a file in .berth that belongs to the image, such as its record.
  std::string SidePathOf(const std::string& image, std::string_view suffix) const;
  // nullopt: there is no record. DATA_LOSS: it is damaged.
  base::StatusOr<std::optional<ImageRecord>> ReadRecord(const std::string& image) const;
  base::Status WriteRecord(const ImageRecord& record);
  // Reads the record of a ready image. NOT_FOUND: there is none.
  base::StatusOr<ImageRecord> ReadReady(const std::string& image) const;
  // Finishes or undoes a change that a crash interrupted, and gives the record if the image is
  // ready then. The caller holds the ChangeLock; the functions below need it, too.
  base::StatusOr<std::optional<ImageRecord>> SettleImage(const std::string& image,
                                                         const PoolPlace& place);
  base::StatusOr<ImageInfo> CreateFromRecord(ImageRecord record, const PoolPlace& place);
  base::Status FillImage(const base::UniqueFd& image, ImageRecord& record);
  base::StatusOr<ImageRecord> PlaceImage(ImageRecord record, const PoolPlace& place);
  base::Status RemoveImageAndRecord(ImageRecord record, const PoolPlace& place);
  base::Status RemoveTornRecords(const std::string& image);
  base::StatusOr<ImageRecord> CompleteGrowth(ImageRecord record, const PoolPlace& place);
  Located ToLocated(const ImageRecord& record, dev_t device) const;
  std::string DescribeHolders(const Located& image) const;
  // What people can do if an image is another file than the recorded one.
  std::string AdviseOnCopies() const;
  base::StatusOr<AdoptionStep> PlanStep(const std::string& image, const PoolPlace& place) const;
  // The caller holds the ChangeLock.
  base::Status AdoptImage(const std::string& image, const PoolPlace& place);

  const std::string folder_;
};

}  // namespace berth::block
