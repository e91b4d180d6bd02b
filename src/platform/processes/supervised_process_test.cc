#include "platform/processes/supervised_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <list>

#include "base/unique_fd.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::platform {
namespace {

// Takes all descriptors that the process may have.
class ExhaustedDescriptors {
 public:
  ExhaustedDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few = {64, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    while (true) {
      base::UniqueFd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
      if (!fd.valid()) return;
      taken_.push_back(std::move(fd));
    }
  }
  ~ExhaustedDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
  std::list<base::UniqueFd> taken_;
};

TEST(SupervisedProcessTest, EndsItsChildWithoutAFreeDescriptor) {
  const TempFolder folder;
  const std::string mark = folder / "started";
  const ExhaustedDescriptors exhausted;
  SupervisedProcess process(
      {.name = "sleeper", .argv = {"/bin/sh", "-c", "mkdir \"$0\" && exec sleep 1000", mark}});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (access(mark.c_str(), F_OK) != 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(access(mark.c_str(), F_OK), 0);
  // The destructor returns once the child has ended.
}

}  // namespace
}  // namespace berth::platform
