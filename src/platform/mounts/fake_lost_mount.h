// A FUSE mount whose server never answers, or is gone; for tests that run as root.
#pragma once

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "base/status.h"
#include "base/unique_fd.h"
#include "platform/errno.h"

namespace berth::platform {

class LostMount {
 public:
  // The mount stands at the folder `target` until this object is destroyed. A process that opens it
  // waits.
  static base::StatusOr<std::unique_ptr<LostMount>> Make(const std::string& target) {
    return Make(target, S_IFDIR);
  }
  // As Make, at the file `target`.
  static base::StatusOr<std::unique_ptr<LostMount>> MakeFile(const std::string& target) {
    return Make(target, S_IFREG | 0644);
  }
  ~LostMount() {
    Die();
    umount2(target_.c_str(), MNT_DETACH);
  }
  LostMount(const LostMount&) = delete;
  LostMount& operator=(const LostMount&) = delete;

  // Answers the kernel's greeting, so that requests come.
  base::Status Greet() {
    struct {
      fuse_in_header header;
      fuse_init_in init;
    } request;
    if (!Read(request) || request.header.opcode != FUSE_INIT) {
      return base::Error(base::StatusCode::kInternal, "the kernel does not greet");
    }
    struct {
      fuse_out_header header;
      fuse_init_out init;
    } answer = {};
    answer.header.len = sizeof(answer);
    answer.header.unique = request.header.unique;
    answer.init.major = FUSE_KERNEL_VERSION;
    answer.init.minor = FUSE_KERNEL_MINOR_VERSION;
    answer.init.max_write = 4096;
    if (write(server_.get(), &answer, sizeof(answer)) != sizeof(answer)) {
      return ErrnoError(errno, "greet the kernel");
    }
    return base::OkStatus();
  }

  // Answers the next request, which must be the open of a file. False after ten seconds.
  bool AnswerOpen() {
    fuse_in_header request;
    if (!Read(request) || request.opcode != FUSE_OPEN) return false;
    struct {
      fuse_out_header header;
      fuse_open_out open;
    } answer = {};
    answer.header.len = sizeof(answer);
    answer.header.unique = request.unique;
    return write(server_.get(), &answer, sizeof(answer)) == sizeof(answer);
  }

  // Takes the next request and never answers it, so that even SIGKILL does not end the caller.
  // False after ten seconds.
  bool TakeRequest() {
    fuse_in_header request;
    return Read(request);
  }

  const std::string& target() const { return target_; }

  // The server's descriptor. A child process must close its copy, or the mount outlives this
  // object.
  int server() const { return server_.get(); }

  // From now on every open fails with ENOTCONN, because no process serves the mount.
  void Die() { server_ = base::UniqueFd(); }

 private:
  static base::StatusOr<std::unique_ptr<LostMount>> Make(const std::string& target, mode_t mode) {
    base::UniqueFd server(open("/dev/fuse", O_RDWR | O_CLOEXEC));
    if (!server.valid()) return ErrnoError(errno, "open /dev/fuse");
    const std::string options =
        fmt::format("fd={},rootmode={:o},user_id=0,group_id=0", server.get(), mode);
    if (mount("lost", target.c_str(), "fuse", 0, options.c_str()) != 0) {
      return ErrnoError(errno, "mount fuse");
    }
    return std::unique_ptr<LostMount>(new LostMount(target, std::move(server)));
  }

  LostMount(std::string target, base::UniqueFd server)
      : target_(std::move(target)), server_(std::move(server)) {}

  // The kernel requires a buffer that fits the largest request.
  template <typename Request>
  bool Read(Request& request) {
    pollfd ready{.fd = server_.get(), .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, 10'000) != 1) return false;
    std::array<char, FUSE_MIN_READ_BUFFER> buffer;
    const ssize_t size = read(server_.get(), buffer.data(), buffer.size());
    if (size < 0 || static_cast<size_t>(size) < sizeof(request)) return false;
    std::memcpy(&request, buffer.data(), sizeof(request));
    return true;
  }

  const std::string target_;
  base::UniqueFd server_;
};

}  // namespace berth::platform
