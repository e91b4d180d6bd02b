#include "block/nbd/nbd_backend.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "base/fault.h"
#include "base/ids.h"
#include "base/key_locks.h"
#include "base/log.h"
#include "block/images/image_folder.h"
#include "block/images/image_record.h"
#include "block/images/proxy_mappings.h"
#include "block/mount_shutdown.h"
#include "block/nbd/nbd_kernel.h"
#include "platform/devices/loop_table.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/files/record_files.h"
#include "platform/processes/child.h"

namespace berth::block {

using base::Error;
using base::Quote;
using base::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

namespace {

constexpr seconds kConnectTime{15};
// The kernel may wait for a request that a hung server does not take.
constexpr milliseconds kForcedTime = kNbdRequestTime + seconds{10};
constexpr seconds kFlushTime{60};
constexpr seconds kGoneTime{10};
constexpr milliseconds kGonePause{10};

class NbdBackend : public Backend {
 public:
  NbdBackend(const NbdOptions& options, const BackendParts& parts)
      : options_(options),
        node_(parts.node),
        exec_(parts.exec),
        mounter_(parts.mounter),
        prefix_(fmt::format("berth {} {} ", base::Sha256Hex(parts.node).substr(0, 12),
                            base::Sha256Hex(options.server).substr(0, 12))),
        proxied_("nbd:" + options.server, parts) {
    if (!options_.folder.empty()) folder_.emplace(options_.folder);
  }

  base::StatusOr<ImageInfo> Create(const NewImage& wanted) override {
    RETURN_IF_ERROR(CheckHasFolder("made"));
    return folder_->Create(wanted);
  }
  base::Status Delete(const std::string& image) override {
    RETURN_IF_ERROR(CheckHasFolder("deleted"));
    return folder_->Delete(image);
  }
  base::StatusOr<ImageInfo> CreateSnapshot(const std::string& image,
                                           const std::string& snapshot) override {
    RETURN_IF_ERROR(CheckHasFolder("copied"));
    return folder_->CreateSnapshot(image, snapshot);
  }
  SnapshotSupport OffersSnapshots() const override {
    return folder_.has_value() ? SnapshotSupport::kOfUnused : SnapshotSupport::kNone;
  }
  base::StatusOr<ImageInfo> Grow(const std::string& image, int64_t size_bytes) override {
    RETURN_IF_ERROR(CheckHasFolder("grown"));
    return folder_->Grow(image, size_bytes);
  }
  base::StatusOr<std::vector<ImageInfo>> List() override {
    RETURN_IF_ERROR(CheckHasFolder("listed"));
    return folder_->List();
  }
  // Not even with a folder of images: an NBD server need not hold a lock for its clients, and a
  // node that does not reach the folder, or uses the kernel's client, takes none.
  bool KeepsLocks() const override { return false; }
  base::StatusOr<bool> HasLock(const std::string& image) override {
    RETURN_IF_ERROR(CheckHasFolder("checked for locks"));
    ASSIGN_OR_RETURN(const bool locked, folder_->HasLock(image));
    if (locked) return true;
    return Error(StatusCode::kUnimplemented,
                 "image {} has no lock, which proves nothing, because an NBD server need not hold "
                 "one for its clients",
                 Quote(image));
  }
  base::Status ProveLocks(const std::string& /*life*/, const api::NodeName& node) override {
    return Error(StatusCode::kUnimplemented,
                 "an NBD server does not show whether node {} still writes", Quote(node.text()));
  }
  base::Status Fence(const std::string& /*image*/, const api::NodeName& node,
                     const std::vector<std::string>& /*clients*/) override {
    return Error(StatusCode::kUnimplemented,
                 "an NBD server cannot fence node {}: power the node off and give it the taint "
                 "node.kubernetes.io/out-of-service, or stop the server",
                 Quote(node.text()));
  }

  base::Status EndUnshown(const std::string& image,
                          std::optional<milliseconds> force_within) override {
    const base::Status ended = proxied_.EndUnshown(image, force_within);
    // A node whose kernel serves the volumes need not run a proxy. If there was one, it ends what
    // no device shows once it runs again.
    return ended.code() == StatusCode::kUnavailable && !UsesProxy() ? base::OkStatus() : ended;
  }

  // This uses no folder of images, because this host may not be able to reach it.
  base::Status NoteFormatting(const std::string& image, const std::string& /*uuid*/) override {
    return ReadFormatting(image).status();
  }
  base::StatusOr<std::string> ReadFormatting(const std::string& image) override {
    return Error(StatusCode::kUnimplemented, "an NBD server keeps nothing with its export {}",
                 Quote(image));
  }

  base::StatusOr<Mapping> Map(const std::string& image, const MapOptions& options) override {
    RETURN_IF_ERROR(CheckImageName(image));
    ASSIGN_OR_RETURN(const auto hold, keys_.LockExclusive(image));
    ASSIGN_OR_RETURN(const std::optional<Mapping> found, Find(image));
    const bool proxied = found.has_value() ? !IsKernelDevice(*found) : UsesProxy();
    if (proxied) return MapByProxy(image, options);
    if (found.has_value()) {
      if (!found->read_only || options.read_only) return *found;
      return Error(StatusCode::kFailedPrecondition,
                   "image {} is mapped for reading only, as {}: unmap it first", Quote(image),
                   found->device);
    }
    return ConnectImage(image, options.read_only);
  }

  base::StatusOr<std::optional<Mapping>> FindMapping(const std::string& image) override {
    return Find(image);
  }
  base::StatusOr<std::vector<Mapping>> ListMappings() override {
    ASSIGN_OR_RETURN(std::vector<Mapping> mappings, proxied_.ListMappings());
    ASSIGN_OR_RETURN(const std::vector<NbdDevice> devices, ListNbdDevices());
    for (const NbdDevice& device : devices) {
      if (!device.identifier.starts_with(prefix_)) continue;
      ASSIGN_OR_RETURN(Mapping mapping, ToMapping(device));
      mappings.push_back(std::move(mapping));
    }
    return mappings;
  }

  base::Status Check(const Mapping& mapping) override {
    return IsKernelDevice(mapping) ? Backend::Check(mapping) : proxied_.Check(mapping);
  }
  base::StatusOr<Mapping> Refresh(const Mapping& mapping) override {
    ASSIGN_OR_RETURN(const auto hold, keys_.LockExclusive(mapping.image));
    if (!IsKernelDevice(mapping)) {
      ASSIGN_OR_RETURN(const int64_t size, AskSize(mapping.image));
      if (size <= mapping.size_bytes) return mapping;
      return proxied_.Refresh(mapping, size);
    }
    ASSIGN_OR_RETURN(const std::optional<NbdDevice> device, FindConnected(mapping));
    if (!device.has_value()) {
      return Error(StatusCode::kNotFound, "{} no longer shows image {}", mapping.device,
                   Quote(mapping.image));
    }
    ASSIGN_OR_RETURN(const int64_t size, AskSize(mapping.image));
    if (static_cast<uint64_t>(size) > device->size_bytes) {
      RETURN_IF_ERROR(
          ResizeNbdDevice(device->index, device->identifier, static_cast<uint64_t>(size)));
    }
    ASSIGN_OR_RETURN(const std::optional<NbdDevice> now, FindConnected(mapping));
    return ToMapping(now.has_value() ? *now : *device);
  }

  base::Status Unmap(const Mapping& mapping) override {
    ASSIGN_OR_RETURN(const auto hold, keys_.LockExclusive(mapping.image));
    if (!IsKernelDevice(mapping)) return proxied_.Unmap(mapping);
    ASSIGN_OR_RETURN(const std::optional<NbdDevice> device, FindConnected(mapping));
    if (!device.has_value()) return base::OkStatus();
    // The kernel disconnects a device even if it is in use, so the exclusive open makes sure that
    // it is not.
    const std::string context = fmt::format("unmap {}", mapping.device);
    ASSIGN_OR_RETURN(platform::OpenedInChild opened,
                     platform::OpenInChild(context, kFlushTime, [path = device->path] {
                       const int fd =
                           open(path.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC | O_NONBLOCK);
                       return fd < 0 ? -errno : fd;
                     }));
    if (opened.error != 0) return platform::ErrnoError(opened.error, context);
    // A failed flush does not stop the unmap, because writes that a dead server did not take were
    // lost when the volume was unmounted.
    const base::Status flushed = platform::RunInChild(
        context, kFlushTime, [fd = opened.fd.get()] { return fsync(fd) == 0 ? 0 : errno; },
        {opened.fd.get()});
    if (flushed.code() == StatusCode::kDeadlineExceeded) return flushed;
    if (!flushed.ok()) LOG_ERROR("flush {}: {}", mapping.device, base::ToString(flushed));
    RETURN_IF_ERROR(DisconnectNbdDevice(device->index, device->identifier, kConnectTime));
    opened.fd.Reset();  // while it is open, the kernel keeps the settings
    return WaitUntilGone(mapping, steady_clock::now() + kGoneTime);
  }

  base::Status ForceUnmap(const Mapping& mapping, milliseconds patience) override {
    if (!IsKernelDevice(mapping)) return proxied_.ForceUnmap(mapping, patience);
    ASSIGN_OR_RETURN(const std::optional<NbdDevice> device, FindConnected(mapping));
    if (!device.has_value()) return base::OkStatus();
    bool mounted = false;
    ASSIGN_OR_RETURN(const uint64_t sequence, platform::ReadDiskSequence(device->path));
    const base::Status shut_down =
        ShutDownMounts(mounter_, {.path = device->path, .device = device->device_number}, sequence,
                       patience, mounted);
    if (!shut_down.ok()) LOG_WARNING("{}", base::ToString(shut_down));
    RETURN_IF_ERROR(base::FaultPoint<"block.nbd_force.shut_down">());
    // The kernel keeps the device's settings while a process has it open. The tiny size marks the
    // device as forced off (ListNbdDevices).
    const base::Status emptied = ResizeNbdDevice(device->index, device->identifier, kForcedNbdSize);
    if (!emptied.ok()) LOG_WARNING("{}", base::ToString(emptied));
    // Without a connection every request fails, even if a process has the device open.
    return DisconnectNbdDevice(device->index, device->identifier, std::max(patience, kForcedTime));
  }

 private:
  // UNIMPLEMENTED if this host cannot reach the images. `done` is a participle for the message.
  base::Status CheckHasFolder(std::string_view done) const {
    if (folder_.has_value()) return base::OkStatus();
    return Error(StatusCode::kUnimplemented,
                 "images of NBD server {} cannot be {} from here: do it at the server, or name "
                 "the folder of its images in the StorageCluster (spec.backend.nbd.folder)",
                 Quote(options_.server), done);
  }

  bool UsesProxy() const {
    if (options_.access != NbdAccess::kAuto) return options_.access == NbdAccess::kProxy;
    return !HasKernelNbd();
  }

  // By a connection of its own, because a server tells the size only at a connection's beginning.
  base::StatusOr<int64_t> AskSize(const std::string& image) const {
    ASSIGN_OR_RETURN(const NbdConnection asked,
                     OpenNbd(options_.server, image, steady_clock::now() + kConnectTime));
    return static_cast<int64_t>(asked.exported.size_bytes);
  }

  // Finds the file of the export, whose lock the I/O proxy's daemon then holds. Empty: this node
  // does not reach the server's images, or Berth did not make this one. Other failures are
  // returned, because another node could have the lock that cannot be seen.
  base::StatusOr<std::optional<ImageFolder::Located>> FindLockable(const std::string& image) const {
    if (!folder_.has_value()) return std::optional<ImageFolder::Located>();
    auto located = folder_->Locate(image);
    if (located.status().code() == StatusCode::kNotFound) {
      return std::optional<ImageFolder::Located>();
    }
    RETURN_IF_ERROR(located);
    return std::optional(*std::move(located));
  }

  base::StatusOr<Mapping> MapByProxy(const std::string& image, const MapOptions& options) {
    proxy::Volume volume{.image = image,
                         .server = options_.server,
                         .export_name = image,
                         .read_only = options.read_only,
                         .shared = options.shared_writers};
    ASSIGN_OR_RETURN(const std::optional<ImageFolder::Located> file, FindLockable(image));
    if (!file.has_value()) return proxied_.Map(volume);
    volume.path = file->path;
    volume.device = file->identity.dev;
    volume.inode = file->identity.ino;
    auto mapping = proxied_.Map(volume);
    if (mapping.ok()) {
      folder_->NoteHolder(image,
                          fmt::format("node {} as {}, by NBD", Quote(node_), mapping->device));
    } else if (mapping.status().code() == StatusCode::kFailedPrecondition) {
      const std::string holder = folder_->ReadHolder(image);
      if (!holder.empty()) {
        return Error(StatusCode::kFailedPrecondition, "{}; last mapped by {}",
                     base::Message(mapping.status()), holder);
      }
    }
    return mapping;
  }

  static bool IsKernelDevice(const Mapping& mapping) { return mapping.state.contains("nbd"); }

  base::StatusOr<Mapping> ToMapping(const NbdDevice& device) const {
    ASSIGN_OR_RETURN(std::string boot_id, platform::ReadBootId());
    return Mapping{.image = device.identifier.substr(prefix_.size()),
                   .device = device.path,
                   .device_number = device.device_number,
                   .size_bytes = static_cast<int64_t>(device.size_bytes),
                   .read_only = device.read_only,
                   .state = {{"nbd", device.index},
                             {"identifier", device.identifier},
                             {"bootId", std::move(boot_id)}}};
  }

  base::StatusOr<std::optional<Mapping>> Find(const std::string& image) const {
    ASSIGN_OR_RETURN(const std::vector<NbdDevice> devices, ListNbdDevices());
    std::optional<Mapping> found;
    for (const NbdDevice& device : devices) {
      if (device.identifier != prefix_ + image) continue;
      if (found.has_value()) {
        return Error(StatusCode::kFailedPrecondition,
                     "image {} is attached twice, as {} and {}: detach the one that is not in use",
                     Quote(image), found->device, device.path);
      }
      ASSIGN_OR_RETURN(found, ToMapping(device));
    }
    if (found.has_value()) return found;
    return proxied_.Find(image);
  }

  // The device, if it still shows that image of that server to this node.
  static base::StatusOr<std::optional<NbdDevice>> FindConnected(const Mapping& mapping) {
    ASSIGN_OR_RETURN(const std::string boot_id, platform::ReadBootId());
    ASSIGN_OR_RETURN(const std::vector<NbdDevice> devices, ListNbdDevices());
    for (const NbdDevice& device : devices) {
      if (device.path == mapping.device &&
          device.identifier == base::json::String(mapping.state, {"identifier"}) &&
          platform::IsThisBoot(base::json::String(mapping.state, {"bootId"}), boot_id)) {
        return std::optional(device);
      }
    }
    return std::optional<NbdDevice>();
  }

  base::StatusOr<Mapping> ConnectImage(const std::string& image, bool read_only) {
    if (!HasKernelNbd()) {
      // A failure of modprobe is only logged, because the code below reports that the kernel has no
      // NBD.
      const auto loaded = exec_.Run({.argv = {"modprobe", "nbd"}, .timeout = seconds(20)});
      if (!loaded.ok()) LOG_DEBUG("modprobe nbd: {}", base::ToString(loaded.status()));
    }
    // The kernel's client cannot hold a lock, but it does not take what another node's proxy has.
    ASSIGN_OR_RETURN(const std::optional<ImageFolder::Located> file, FindLockable(image));
    base::UniqueFd looked;
    if (file.has_value()) {
      ASSIGN_OR_RETURN(
          looked, folder_->OpenLocked(*file, O_RDWR,
                                      read_only ? ImageLock::kSharedClient : ImageLock::kClient));
    }
    ASSIGN_OR_RETURN(const NbdConnection connection,
                     OpenNbd(options_.server, image, steady_clock::now() + kConnectTime));
    if (connection.exported.read_only() && !read_only) {
      return Error(StatusCode::kFailedPrecondition, "NBD server {} gives image {} for reading only",
                   Quote(options_.server), Quote(image));
    }
    ASSIGN_OR_RETURN(const uint32_t index,
                     ConnectNbdDevice(connection, {.identifier = prefix_ + image,
                                                   .timeout = options_.timeout,
                                                   .read_only = read_only}));
    ASSIGN_OR_RETURN(const std::vector<NbdDevice> devices, ListNbdDevices());
    for (const NbdDevice& device : devices) {
      if (device.index == index && device.identifier == prefix_ + image) return ToMapping(device);
    }
    const base::Status undone = DisconnectNbdDevice(index, prefix_ + image, kConnectTime);
    return Error(StatusCode::kFailedPrecondition,
                 "/dev/nbd{} cannot be recognised later, because this kernel keeps no identifiers "
                 "of NBD devices (Linux 5.14 does): use access Proxy{}{}",
                 index, undone.ok() ? "" : "; ", base::Message(undone));
  }

  static base::Status WaitUntilGone(const Mapping& mapping, steady_clock::time_point deadline) {
    for (;;) {
      ASSIGN_OR_RETURN(const std::optional<NbdDevice> device, FindConnected(mapping));
      if (!device.has_value()) return base::OkStatus();
      if (steady_clock::now() > deadline) {
        return Error(StatusCode::kDeadlineExceeded, "{} is still connected", mapping.device);
      }
      std::this_thread::sleep_for(kGonePause);
    }
  }

  const NbdOptions options_;
  const std::string node_;
  platform::Exec& exec_;
  platform::Mounter& mounter_;
  const std::string prefix_;
  const ProxyMappings proxied_;
  std::optional<ImageFolder> folder_;
  base::KeyLocks keys_;
};

}  // namespace

std::unique_ptr<Backend> NewNbdBackend(const NbdOptions& options, const BackendParts& parts) {
  return std::make_unique<NbdBackend>(options, parts);
}

}  // namespace berth::block
