#include "block/images/images_backend.h"

#include <fcntl.h>

#include "base/fault.h"
#include "base/key_locks.h"
#include "base/log.h"
#include "block/images/folder_locks.h"
#include "block/images/image_folder.h"
#include "block/images/loop_mappings.h"
#include "block/images/proxy_mappings.h"

namespace berth::block {

using base::Error;
using base::Quote;
using base::StatusCode;

namespace {

// How the note of a reader ends.
constexpr std::string_view kForReading = " for reading";

ImageLock LockOf(const MapOptions& options) {
  if (options.read_only) return ImageLock::kReader;
  return options.shared_writers ? ImageLock::kSharedWriter : ImageLock::kWriter;
}

// The operations on image files, which are the same for both kinds of access.
class Images : public Backend {
 public:
  Images(const std::string& folder, const BackendParts& parts)
      : folder_(folder), node_(parts.node), locks_(folder, parts.node, parts.mounter) {}

  // Whatever relies on a lock is refused where other nodes do not see it. The rest, such as Unmap
  // and Refresh, goes on, because it serves volumes that are in use.
  base::StatusOr<ImageInfo> Create(const NewImage& wanted) override {
    RETURN_IF_ERROR(locks_.CheckMount());
    return folder_.Create(wanted);
  }
  base::Status Delete(const std::string& image) override {
    RETURN_IF_ERROR(locks_.CheckMount());
    return folder_.Delete(image);
  }
  base::StatusOr<ImageInfo> CreateSnapshot(const std::string& image,
                                           const std::string& snapshot) override {
    RETURN_IF_ERROR(locks_.CheckMount());
    return folder_.CreateSnapshot(image, snapshot);
  }
  base::StatusOr<ImageInfo> Grow(const std::string& image, int64_t size_bytes) override {
    RETURN_IF_ERROR(locks_.CheckMount());
    return folder_.Grow(image, size_bytes);
  }
  base::StatusOr<std::vector<ImageInfo>> List() override {
    RETURN_IF_ERROR(locks_.CheckMount());
    return folder_.List();
  }
  base::StatusOr<bool> HasLock(const std::string& image) override { return folder_.HasLock(image); }
  base::StatusOr<bool> HoldsLock(const Mapping& mapping) override {
    if (const base::Status sound = Check(mapping); !sound.ok()) {
      if (sound.code() == StatusCode::kDataLoss) return false;
      return sound;
    }
    ASSIGN_OR_RETURN(const bool locked, folder_.HasLock(mapping.image));
    if (!locked) return false;
    // If this node had lost its lock and another had it now, the other node would be noted. The
    // note may be missing, and each reader overwrites it.
    const std::string holder = folder_.ReadHolder(mapping.image);
    if (holder.starts_with(fmt::format("node {} as ", Quote(node_)))) return true;
    if (!holder.empty() && !holder.ends_with(kForReading)) return false;
    return Error(StatusCode::kUnavailable, "no note says which node has the lock of image {}",
                 Quote(mapping.image));
  }
  base::Status ExchangeLocks(const std::string& life) override {
    return locks_.ExchangeLocks(life);
  }
  void LeaveLocks(const std::string& life) override { locks_.LeaveLocks(life); }
  base::Status ProveLocks(const std::string& life, const api::NodeName& node) override {
    return locks_.ProveLocks(life, node);
  }
  std::string DescribeLapse() override { return locks_.DescribeLapse(); }
  base::Status Fence(const std::string& /*image*/, const api::NodeName& node,
                     const std::vector<std::string>& /*clients*/) override {
    return Error(StatusCode::kUnimplemented,
                 "a folder of images cannot fence node {}: power it off and give it the taint "
                 "node.kubernetes.io/out-of-service",
                 Quote(node.text()));
  }
  base::Status NoteFormatting(const std::string& image, const std::string& uuid) override {
    return folder_.NoteFormatting(image, uuid);
  }
  base::StatusOr<std::string> ReadFormatting(const std::string& image) override {
    return folder_.ReadFormatting(image);
  }

 protected:
  // Fails for a snapshot that would be written to.
  static base::Status CheckUse(const ImageFolder::Located& located, const MapOptions& options) {
    if (located.info.snapshot_of.empty() || options.read_only) return base::OkStatus();
    return Error(StatusCode::kFailedPrecondition, "{} is a snapshot: map it for reading only",
                 Quote(located.info.name));
  }

  // Adds when the lock lapses to the error of a mapping that a lock of another node refused.
  base::Status ExplainRefusal(const base::Status& refused, const std::string& image) {
    if (refused.code() != StatusCode::kFailedPrecondition) return refused;
    const auto mine = FindMapping(image);
    const auto locked = folder_.HasLock(image);
    if (!mine.ok() || mine->has_value() || !locked.ok() || !*locked) return refused;
    const std::string lapse = locks_.DescribeLapse();
    return lapse.empty() ? refused : Error(refused.code(), "{}; {}", base::Message(refused), lapse);
  }

  ImageFolder folder_;
  const std::string node_;
  FolderLocks locks_;
  base::KeyLocks keys_;
};

class LoopImages : public Images {
 public:
  LoopImages(const ImagesOptions& options, const BackendParts& parts)
      : Images(options.folder, parts),
        loops_({.node = parts.node, .store = "images:" + options.folder, .folder = options.folder},
               parts.mounter) {}

  base::StatusOr<Mapping> Map(const std::string& image, const MapOptions& options) override {
    ASSIGN_OR_RETURN(const auto hold, keys_.LockExclusive(image));
    ASSIGN_OR_RETURN(const dev_t device, locks_.CheckMount());
    // The image is opened only once, with its lock: each opening costs a child process.
    ASSIGN_OR_RETURN(const ImageFolder::Located located, folder_.FindRecorded(image, device));
    RETURN_IF_ERROR(CheckUse(located, options));
    ASSIGN_OR_RETURN(const LoopMappings::Found found, loops_.Find(image));
    if (found.mine.has_value()) return ReuseMapping(*found.mine, options);
    for (const platform::LoopEntry& other : found.others) {
      if (other.loop.backing == located.identity && !other.label.starts_with("berth ")) {
        return Error(StatusCode::kFailedPrecondition,
                     "image {} is attached to {} already, and not by Berth: detach it",
                     Quote(image), other.loop.path);
      }
    }
    const auto file =
        folder_.OpenLocked(located, options.read_only ? O_RDONLY : O_RDWR, LockOf(options));
    if (!file.ok()) {
      RETURN_IF_ERROR(folder_.Locate(image));  // says more about a file that is not the image
      return ExplainRefusal(file.status(), image);
    }
    ASSIGN_OR_RETURN(Mapping mapping, loops_.Attach(*file, image, options.read_only));
    folder_.NoteHolder(image, fmt::format("node {} as {}{}", Quote(node_), mapping.device,
                                          options.read_only ? kForReading : ""));
    return mapping;
  }

  base::StatusOr<std::optional<Mapping>> FindMapping(const std::string& image) override {
    ASSIGN_OR_RETURN(LoopMappings::Found found, loops_.Find(image));
    return std::move(found.mine);
  }
  base::StatusOr<std::vector<Mapping>> ListMappings() override { return loops_.ListMappings(); }
  base::Status Check(const Mapping& mapping) override { return loops_.Check(mapping); }
  base::StatusOr<Mapping> Refresh(const Mapping& mapping) override {
    ASSIGN_OR_RETURN(const auto hold, keys_.LockExclusive(mapping.image));
    return loops_.Refresh(mapping);
  }
  base::Status Unmap(const Mapping& mapping) override {
    ASSIGN_OR_RETURN(const auto hold, keys_.LockExclusive(mapping.image));
    return loops_.Detach(mapping);
  }
  // This call takes no lock, because another call for the image may hold the lock while it waits
  // for a file system that does not answer.
  base::Status ForceUnmap(const Mapping& mapping, std::chrono::milliseconds patience) override {
    return loops_.ForceDetach(mapping, patience);
  }

 private:
  // Gives the existing mapping if it fits the request.
  base::StatusOr<Mapping> ReuseMapping(const Mapping& mapping, const MapOptions& options) {
    ASSIGN_OR_RETURN(const ImageFolder::Located located, folder_.Locate(mapping.image));
    if (!(LoopMappings::BackingOf(mapping) == located.identity)) {
      return Error(StatusCode::kDataLoss, "{} shows another file than image {}", mapping.device,
                   Quote(mapping.image));
    }
    if (mapping.read_only && !options.read_only) {
      return Error(StatusCode::kFailedPrecondition,
                   "image {} is mapped for reading only, as {}: unmap it first",
                   Quote(mapping.image), mapping.device);
    }
    if (!mapping.read_only && !options.read_only && !options.shared_writers) {
      // An image that was mapped for several writers may have a second writer.
      ASSIGN_OR_RETURN(const base::UniqueFd file, folder_.Open(located, O_RDWR));
      ASSIGN_OR_RETURN(const bool exclusive, HasConflictingLock(file.get(), ImageLock::kReader));
      if (!exclusive) {
        return Error(StatusCode::kFailedPrecondition,
                     "image {} is mapped as {} without an exclusive lock: unmap it first",
                     Quote(mapping.image), mapping.device);
      }
    }
    if (mapping.size_bytes == located.info.size_bytes) return mapping;
    return loops_.Refresh(mapping);
  }

  const LoopMappings loops_;
};

class ProxiedImages : public Images {
 public:
  ProxiedImages(const ImagesOptions& options, const BackendParts& parts)
      : Images(options.folder, parts), mappings_("images:" + options.folder, parts) {}

  base::StatusOr<Mapping> Map(const std::string& image, const MapOptions& options) override {
    ASSIGN_OR_RETURN(const auto hold, keys_.LockExclusive(image));
    RETURN_IF_ERROR(locks_.CheckMount());
    ASSIGN_OR_RETURN(const ImageFolder::Located located, folder_.Locate(image));
    RETURN_IF_ERROR(CheckUse(located, options));
    auto mapping = mappings_.Map({.image = image,
                                  .path = located.path,
                                  .device = located.identity.dev,
                                  .inode = located.identity.ino,
                                  .read_only = options.read_only,
                                  .shared = options.shared_writers});
    if (!mapping.ok()) return ExplainRefusal(mapping.status(), image);
    folder_.NoteHolder(
        image, fmt::format("node {} as {}, by its I/O proxy{}", Quote(node_), mapping->device,
                           options.read_only ? ", for reading" : ""));
    return mapping;
  }
  base::StatusOr<std::optional<Mapping>> FindMapping(const std::string& image) override {
    return mappings_.Find(image);
  }
  base::StatusOr<std::vector<Mapping>> ListMappings() override { return mappings_.ListMappings(); }
  base::StatusOr<Mapping> Refresh(const Mapping& mapping) override {
    ASSIGN_OR_RETURN(const auto hold, keys_.LockExclusive(mapping.image));
    // The lock keeps others from growing the image meanwhile, because a qemu-storage-daemon gives
    // the file exactly the size that this call sends. Berth's own server reads the size itself.
    ASSIGN_OR_RETURN(const ChangeLock change, folder_.LockForChange(mapping.image));
    ASSIGN_OR_RETURN(const ImageFolder::Located located, folder_.Locate(mapping.image));
    return mappings_.Refresh(mapping, located.info.size_bytes);
  }
  base::Status Check(const Mapping& mapping) override { return mappings_.Check(mapping); }
  base::Status Unmap(const Mapping& mapping) override {
    ASSIGN_OR_RETURN(const auto hold, keys_.LockExclusive(mapping.image));
    return mappings_.Unmap(mapping);
  }
  base::Status ForceUnmap(const Mapping& mapping, std::chrono::milliseconds patience) override {
    return mappings_.ForceUnmap(mapping, patience);
  }
  base::Status EndUnshown(const std::string& image,
                          std::optional<std::chrono::milliseconds> force_within) override {
    return mappings_.EndUnshown(image, force_within);
  }

 private:
  const ProxyMappings mappings_;
};

}  // namespace

std::unique_ptr<Backend> NewImagesBackend(const ImagesOptions& options, const BackendParts& parts) {
  if (options.access == ImageAccess::kProxy) return std::make_unique<ProxiedImages>(options, parts);
  return std::make_unique<LoopImages>(options, parts);
}

}  // namespace berth::block
