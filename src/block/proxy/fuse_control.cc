#include "block/proxy/fuse_control.h"

#include <fcntl.h>
#include <sys/sysmacros.h>

#include <cerrno>

#include "base/files/whole_file.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/mounts/mounter.h"

namespace berth::block::proxy {
namespace {

base::Status WriteOneTo(const std::string& folder, dev_t device, std::string_view name) {
  const std::string path = fmt::format("{}/{}/{}", FuseControlOf(folder), minor(device), name);
  const base::UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const int error = fd.valid() ? base::WriteAll(fd.get(), "1") : errno;
  return error == 0 ? base::OkStatus() : platform::ErrnoError(error, "write " + base::Quote(path));
}

}  // namespace

std::string FuseControlOf(const std::string& folder) { return folder + "/fusectl"; }

base::Status MountFuseControl(const std::string& folder) {
  const std::string target = FuseControlOf(folder);
  RETURN_IF_ERROR(platform::MakeFolders(target, 0700));
  const auto mounter = platform::NewMounter();
  ASSIGN_OR_RETURN(const std::vector<platform::MountEntry> table, mounter->List());
  const platform::MountEntry* mount = platform::FindMount(table, target);
  if (mount != nullptr && mount->fs_type == "fusectl") return base::OkStatus();
  return mounter->Mount({.source = "fusectl", .target = target, .fs_type = "fusectl"});
}

base::Status LimitToOneRequest(const std::string& folder, dev_t device) {
  return WriteOneTo(folder, device, "max_background");
}

void AbortFuse(const std::string& folder, dev_t device) {
  const base::Status aborted = WriteOneTo(folder, device, "abort");
  if (aborted.ok()) {
    LOG_INFO("FUSE connection {} is aborted", minor(device));
  } else {
    LOG_WARNING("abort FUSE connection {}: {}", minor(device), base::ToString(aborted));
  }
}

}  // namespace berth::block::proxy
