// One tenant's long checks of file systems leave workers to the other calls of the node.
#include <sched.h>
#include <sys/mount.h>

#include <thread>

#include "csidriver/driver_fixture.h"

namespace berth::csidriver {
namespace {

// While it lives, each e2fsck waits for EndChecks(). Only threads that begin meanwhile see that,
// because it is done in a mount namespace of their own.
class SlowChecks {
 public:
  SlowChecks() {
    for (const char* path : {"/usr/sbin/e2fsck", "/sbin/e2fsck"}) {
      if (std::filesystem::exists(path)) {
        checker_ = std::filesystem::canonical(path);
        break;
      }
    }
    std::filesystem::copy_file(checker_, folder_ / "real");
    std::ofstream(folder_ / "slow")
        << "#!/bin/sh\n: >" << started() << "\nwhile [ ! -e " << ended()
        << " ]; do sleep 0.05; done\nexec " << folder_ / "real" << " \"$@\"\n";
    std::filesystem::permissions(folder_ / "slow", std::filesystem::perms::owner_all);
    EXPECT_EQ(unshare(CLONE_NEWNS), 0);
    EXPECT_EQ(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    const std::string slow = folder_ / "slow";
    EXPECT_EQ(mount(slow.c_str(), checker_.c_str(), nullptr, MS_BIND, nullptr), 0);
  }
  ~SlowChecks() {
    EndChecks();
    EXPECT_EQ(umount2(checker_.c_str(), MNT_DETACH), 0);
  }
  SlowChecks(const SlowChecks&) = delete;
  SlowChecks& operator=(const SlowChecks&) = delete;

  bool AwaitCheck() const {
    const auto deadline = std::chrono::steady_clock::now() + kTimeout;
    while (!std::filesystem::exists(started())) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
  }
  void EndChecks() const { std::ofstream{ended()}; }

 private:
  std::string started() const { return folder_ / "started"; }
  std::string ended() const { return folder_ / "ended"; }

  const platform::TempFolder folder_;
  std::string checker_;
};

class LongCommandsTest : public DriverFixture {};

TEST_F(LongCommandsTest, LongChecksLeaveWorkersToOtherCalls) {
  options_.workers = 2;
  const VolumeCapability capability = MountCapability("ext4");
  const std::string large = Create("large", capability, 16 * kMiB);
  const std::string other = Create("other", capability, 16 * kMiB);
  for (const std::string& id : {large, other}) {
    ASSERT_TRUE(Stage(id, capability).ok());  // makes the file system
    ASSERT_TRUE(Unstage(id).ok());
    ASSERT_TRUE(Expand(id, 32 * kMiB).ok());  // so that it is checked and grown when it is staged
  }
  const SlowChecks slow;
  Restart();
  base::Status checked = base::Error(StatusCode::kUnknown, "not called");
  {
    const std::jthread checking([&] { checked = Stage(large, capability); });
    ASSERT_TRUE(slow.AwaitCheck());
    const base::Status second = Stage(other, capability);
    EXPECT_EQ(second.code(), StatusCode::kUnavailable) << second;
    const auto info = client_->NodeGetInfo({}, kTimeout);
    EXPECT_TRUE(info.ok()) << info.status();
    slow.EndChecks();
  }
  EXPECT_TRUE(checked.ok()) << checked;
  const base::Status again = Stage(other, capability);
  EXPECT_TRUE(again.ok()) << again;
  for (const std::string& id : {large, other}) EXPECT_TRUE(Unstage(id).ok());
}

}  // namespace
}  // namespace berth::csidriver
