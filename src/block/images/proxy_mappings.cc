#include "block/images/proxy_mappings.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "block/proxy/fuse_control.h"
#include "platform/errno.h"
#include "platform/processes/child.h"

namespace berth::block {

using base::Error;
using base::Quote;
using base::StatusCode;

namespace {

constexpr std::chrono::seconds kProxyAnswerTime{10};

// Opens the file that the proxy shows. On a test machine several nodes of one kernel may show the
// same image, each by its own proxy; this file, and not only the image's lock, distinguishes them.
base::StatusOr<base::UniqueFd> OpenShown(const proxy::Shown& shown, bool read_only) {
  const std::string context = fmt::format("open {}", Quote(shown.path));
  const int flags = read_only ? O_RDONLY : O_RDWR;
  ASSIGN_OR_RETURN(platform::OpenedInChild opened,
                   platform::OpenInChild(context, kProxyAnswerTime, [shown, flags] {
                     const int fd = open(shown.path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW);
                     if (fd < 0) return -errno;
                     struct stat st;
                     if (fstat(fd, &st) != 0) return -errno;
                     // If this mount namespace does not see the mount, an empty file is at the
                     // path.
                     return st.st_dev == shown.device ? fd : -ENODEV;
                   }));
  if (opened.error == ENODEV) {
    return Error(StatusCode::kFailedPrecondition,
                 "{}: this mount namespace does not see the I/O proxy's mount: share the proxy's "
                 "folder with it",
                 context);
  }
  if (opened.error != 0) return platform::ErrnoError(opened.error, context);
  return std::move(opened.fd);
}

}  // namespace

ProxyMappings::ProxyMappings(const std::string& store, const BackendParts& parts)
    : node_(parts.node),
      has_proxy_(!parts.proxy_socket.empty()),
      client_(parts.proxy_socket, store),
      loops_({.node = parts.node, .store = store, .folder = client_.Folder()}, parts.mounter) {}

base::StatusOr<Mapping> ProxyMappings::Map(const proxy::Volume& volume) const {
  ASSIGN_OR_RETURN(const LoopMappings::Found found, loops_.Find(volume.image));
  if (found.mine.has_value() && found.mine->read_only && !volume.read_only) {
    return Error(StatusCode::kFailedPrecondition,
                 "image {} is mapped for reading only, as {}: unmap it first", Quote(volume.image),
                 found.mine->device);
  }
  proxy::Volume wanted = volume;
  // A reader can use a device that is mapped for writing already.
  if (found.mine.has_value() && !found.mine->read_only) wanted.read_only = false;
  ASSIGN_OR_RETURN(const proxy::Shown shown, client_.Open(wanted));
  if (found.mine.has_value()) {
    if (LoopMappings::BackingOf(*found.mine).dev == shown.device) return *found.mine;
    RETURN_IF_ERROR_WITH(loops_.Detach(*found.mine),
                         fmt::format("{} shows image {} through a daemon that died",
                                     found.mine->device, Quote(volume.image)));
  }
  auto attached = [&]() -> base::StatusOr<Mapping> {
    ASSIGN_OR_RETURN(const base::UniqueFd file, OpenShown(shown, wanted.read_only));
    ASSIGN_OR_RETURN(const Mapping mapping, loops_.Attach(file, volume.image, wanted.read_only));
    // Without direct I/O data would wait in this node's page cache and could be written after the
    // volume has gone to another node; and several writes would reach a qemu-storage-daemon at once
    // (StartDaemonFor in exports.cc).
    if (base::json::Bool(mapping.state, {"directIo"})) return mapping;
    RETURN_IF_ERROR(loops_.Detach(mapping));
    return Error(StatusCode::kFailedPrecondition,
                 "the kernel gives {} no direct I/O to the file of the I/O proxy, and without "
                 "direct I/O data could be written late or mixed up",
                 mapping.device);
  }();
  if (!attached.ok() && attached.status().code() != StatusCode::kDeadlineExceeded) {
    if (const base::Status closed = client_.Close(volume.image); !closed.ok()) {
      LOG_WARNING("volume {}: {}", Quote(volume.image), base::ToString(closed));
    }
  }
  return attached;
}

base::StatusOr<std::optional<Mapping>> ProxyMappings::Find(const std::string& image) const {
  ASSIGN_OR_RETURN(LoopMappings::Found found, loops_.Find(image));
  return std::move(found.mine);
}

base::StatusOr<Mapping> ProxyMappings::Refresh(const Mapping& mapping, int64_t size_bytes) const {
  RETURN_IF_ERROR(client_.Resize(mapping.image, size_bytes));
  return loops_.Refresh(mapping);
}

base::Status ProxyMappings::Check(const Mapping& mapping) const {
  ASSIGN_OR_RETURN(const std::vector<base::Json> exports, client_.List(mapping.image));
  const auto found = std::ranges::find_if(exports, [&](const base::Json& one) {
    return base::json::String(one, {"image"}) == mapping.image;
  });
  if (found == exports.end()) {
    return Error(StatusCode::kDataLoss,
                 "the I/O proxy does not show image {} any more: end the pods that use it, so that "
                 "it is mapped anew",
                 Quote(mapping.image));
  }
  if (base::json::String(*found, {"state"}) == "quarantined") {
    return Error(StatusCode::kDataLoss, "quarantined: {}", base::json::String(*found, {"reason"}));
  }
  // For a volume that is only read, a new daemon may serve by now, which shows another file.
  const auto shown = static_cast<uint64_t>(base::json::Int(*found, {"shownOn"}));
  if (shown != 0 && shown != LoopMappings::BackingOf(mapping).dev) {
    return Error(StatusCode::kDataLoss,
                 "{} shows image {} through a daemon that died: end the pods that use it, so that "
                 "it is mapped anew",
                 mapping.device, Quote(mapping.image));
  }
  return base::OkStatus();
}

base::Status ProxyMappings::Unmap(const Mapping& mapping) const {
  RETURN_IF_ERROR(loops_.Detach(mapping));
  return client_.Close(mapping.image);
}

base::Status ProxyMappings::EndUnshown(
    const std::string& image, std::optional<std::chrono::milliseconds> force_within) const {
  if (!has_proxy_) return base::OkStatus();
  return force_within.has_value() ? client_.Kill(image, *force_within) : client_.Close(image);
}

// Kills the daemon first, because then every request that waits for it fails, and it writes nothing
// more.
base::Status ProxyMappings::ForceUnmap(const Mapping& mapping,
                                       std::chrono::milliseconds patience) const {
  const base::Status killed = client_.Kill(mapping.image, patience);
  if (!killed.ok()) {
    LOG_WARNING("volume {}: {}: its FUSE connection is aborted", Quote(mapping.image),
                base::ToString(killed));
    // This is done only while the device is still attached, because afterwards the number of the
    // FUSE file system may belong to another one.
    const dev_t device = LoopMappings::BackingOf(mapping).dev;
    if (device != 0 && loops_.Check(mapping).ok()) {
      proxy::AbortFuse(client_.run_folder(), device);
    }
  }
  const base::Status forced = loops_.ForceDetach(mapping, patience);
  // A daemon that was killed and waits in the kernel may still send what it has begun. The next
  // call asks again whether it has ended, although the device is gone by then.
  RETURN_IF_ERROR_WITH(killed, "what serves the volume may still run");
  // Without its daemon nothing can be written, even if something still has the device open.
  return forced.code() == StatusCode::kFailedPrecondition ? base::OkStatus() : forced;
}

}  // namespace berth::block
