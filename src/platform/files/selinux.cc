#include "platform/files/selinux.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "base/unique_fd.h"
#include "platform/errno.h"

namespace berth::platform {

bool KernelHasSelinux() { return access("/sys/fs/selinux/enforce", F_OK) == 0; }

base::Status CheckLabel(const std::string& label) {
  // A label that is written there is checked.
  const base::UniqueFd file(open("/sys/fs/selinux/context", O_RDWR | O_CLOEXEC));
  if (!file.valid()) {
    const int error = errno;
    return error == ENOENT ? base::OkStatus()
                           : ErrnoError(error, "open the kernel's check of SELinux labels");
  }
  if (write(file.get(), label.c_str(), label.size() + 1) >= 0) return base::OkStatus();
  const int error = errno;
  if (error != EINVAL && error != ERANGE) {
    return ErrnoError(error, fmt::format("check the SELinux label {}", base::Quote(label)));
  }
  return base::Error(base::StatusCode::kInvalidArgument,
                     "the kernel's SELinux policy knows no label {}", base::Quote(label));
}

}  // namespace berth::platform
