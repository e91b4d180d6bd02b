// A FUSE mount whose server never answers, or is gone; for tests that run as root.
#pragma once

#include <fcntl.h>
#include <sys/mount.h>

#include <cerrno>
#include <string>

#include "base/status.h"
#include "base/unique_fd.h"
#include "platform/errno.h"

namespace berth::platform {

class LostMount {
 public:
  // Stands at the folder `target` until this is destroyed. Whoever opens it waits.
  static base::StatusOr<std::unique_ptr<LostMount>> Make(const std::string& target) {
    base::UniqueFd server(open("/dev/fuse", O_RDWR | O_CLOEXEC));
    if (!server.valid()) return ErrnoError(errno, "open /dev/fuse");
    const std::string options =
        fmt::format("fd={},rootmode=40000,user_id=0,group_id=0", server.get());
    if (mount("lost", target.c_str(), "fuse", 0, options.c_str()) != 0) {
      return ErrnoError(errno, "mount fuse");
    }
    return std::unique_ptr<LostMount>(new LostMount(target, std::move(server)));
  }
  ~LostMount() {
    Die();
    umount2(target_.c_str(), MNT_DETACH);
  }
  LostMount(const LostMount&) = delete;
  LostMount& operator=(const LostMount&) = delete;

  // From now on whoever opens it is told that nobody is there (ENOTCONN).
  void Die() { server_ = base::UniqueFd(); }

 private:
  LostMount(std::string target, base::UniqueFd server)
      : target_(std::move(target)), server_(std::move(server)) {}

  const std::string target_;
  base::UniqueFd server_;
};

}  // namespace berth::platform
