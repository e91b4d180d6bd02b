#include "cmd/berth-init/fuse_holders.h"

#include <errno.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "base/unique_fd.h"

namespace berth::init {
namespace {

// A FUSE file system whose server takes all requests and answers none, so that even SIGKILL does
// not end whoever made one.
class SilentMount {
 public:
  SilentMount() {
    if (mkdtemp(folder_.data()) == nullptr) return;
    server_.Reset(open("/dev/fuse", O_RDWR | O_CLOEXEC));
    const std::string options =
        "fd=" + std::to_string(server_.get()) + ",rootmode=40755,user_id=0,group_id=0";
    if (mount("silent", folder_.c_str(), "fuse", 0, options.c_str()) != 0) return;
    mounted_ = true;
    std::array<char, FUSE_MIN_READ_BUFFER> request;
    const ssize_t size = read(server_.get(), request.data(), request.size());
    if (size < static_cast<ssize_t>(sizeof(fuse_in_header))) return;
    struct {
      fuse_out_header header;
      fuse_init_out init;
    } answer = {};
    answer.header.len = sizeof(answer);
    answer.header.unique = reinterpret_cast<const fuse_in_header*>(request.data())->unique;
    answer.init.major = FUSE_KERNEL_VERSION;
    answer.init.minor = FUSE_KERNEL_MINOR_VERSION;
    answer.init.max_write = 4096;
    answers_ = write(server_.get(), &answer, sizeof(answer)) == sizeof(answer);
    // Ends with ENODEV when the mount has ended.
    taker_ = std::thread([fd = server_.get()] {
      std::array<char, FUSE_MIN_READ_BUFFER> taken;
      while (read(fd, taken.data(), taken.size()) >= 0 || errno == EINTR) {
      }
    });
  }
  ~SilentMount() {
    End();
    rmdir(folder_.c_str());
  }
  // Ends all requests.
  void End() {
    if (mounted_) umount2(folder_.c_str(), MNT_FORCE | MNT_DETACH);
    mounted_ = false;
    if (taker_.joinable()) taker_.join();
    server_.Reset();
  }
  bool answers() const { return answers_; }
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_ = "/tmp/berth-silent-XXXXXX";
  base::UniqueFd server_;
  std::thread taker_;
  bool mounted_ = false, answers_ = false;
};

TEST(FuseHoldersTest, ChildrenThatDoNotEndAreFewAndAreReapedWhenTheyDo) {
  if (geteuid() != 0) GTEST_SKIP() << "skipped: mounting needs root";
  SilentMount silent;
  ASSERT_TRUE(silent.answers());
  std::vector<pid_t> pids;
  for (pid_t pid = 1; pid <= 20; ++pid) pids.push_back(pid);
  testing::internal::CaptureStderr();
  for (const size_t stuck : {4U, 8U, 8U}) {
    std::vector<pid_t> found;
    for (const FuseHolder& holder : FindFuseHolders(silent.folder(), pids)) {
      EXPECT_FALSE(holder.read);
      found.push_back(holder.pid);
    }
    EXPECT_EQ(found, pids);  // each may be one
    EXPECT_EQ(ReapReaders(), stuck);
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, testing::HasSubstr("does not end"));
  EXPECT_EQ(log.find("does not end"), log.rfind("does not end")) << log;

  silent.End();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (ReapReaders() > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  errno = 0;
  EXPECT_EQ(waitpid(-1, nullptr, __WALL | WNOHANG), -1) << "a child is left";
  EXPECT_EQ(errno, ECHILD);
  // From now on children are made again.
  EXPECT_THAT(FindFuseHolders("/proc", {getpid()}), testing::IsEmpty());
}

}  // namespace
}  // namespace berth::init
