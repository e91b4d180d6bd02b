// A device below a volume of a sandbox that stops answering, and answers again. The device is a
// loop device whose image stands on another file system, which is frozen.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "base/assert_ok.h"
#include "crust/device.h"
#include "crust/namespace_sandbox.h"
#include "crust/requests.h"
#include "platform/devices/loop_device.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/mounts/freeze.h"

namespace berth::crust {
namespace {

namespace wire = ::crust::v1alpha1;
using base::StatusCode;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;
using testing::StartsWith;

constexpr uint64_t kMiB = 1024 * 1024;

class StallTest : public testing::Test {
 protected:
  void SetUp() override {
    outer_ = MakeDevice(folder_.SparseFile("outer", 256 * kMiB));
    std::filesystem::create_directory(folder_ / "disk");
    ASSERT_EQ(mount(outer_.path.c_str(), (folder_ / "disk").c_str(), "ext4", 0, nullptr), 0);
    inner_ = MakeDevice(folder_.SparseFile("disk/image", 64 * kMiB));
    auto kind = NewNamespaceSandboxes(*mounter_, *exec_,
                                      {.pins = folder_ / "pins",
                                       .utilities = folder_ / "utilities",
                                       .kubelet = folder_ / "kubelet"},
                                      {.write = milliseconds(1), .unmount = milliseconds(500)});
    ASSERT_OK(kind);
    kind_ = *std::move(kind);
    auto sandbox = kind_->OpenSandbox("s1");
    ASSERT_OK(sandbox);
    sandbox_ = *std::move(sandbox);
    wire::RuntimePublishVolumeRequest request;
    request.set_sandbox_id("s1");
    request.set_host_volume_id(inner_.path);
    request.set_host_target_path(folder_ / "target");
    request.set_file_system("ext4");
    auto plan = MakePlan(request, {.file_systems = {"ext4"}});
    ASSERT_OK(plan);
    plan_ = *std::move(plan);
    plan_.SetName("v1");
    ASSERT_OK(sandbox_->PublishVolume(plan_, {.cancelled = [] { return false; }}));
  }
  void TearDown() override {
    frozen_.reset();
    if (sandbox_ != nullptr) {
      EXPECT_TRUE(sandbox_->UnpublishVolume(plan_).ok());
      EXPECT_TRUE(WaitUntilDeviceIsFree(plan_.device, std::chrono::minutes(1)).ok());
      EXPECT_TRUE(sandbox_->RemoveSandbox().ok());
    }
    EXPECT_TRUE(platform::DetachLoop(inner_).ok());
    EXPECT_TRUE(mounter_->Unmount(folder_ / "disk").ok());
    EXPECT_TRUE(platform::DetachLoop(outer_).ok());
    EXPECT_TRUE(mounter_->UnmountLazy(folder_ / "pins").ok());
    EXPECT_TRUE(mounter_->UnmountLazy(folder_ / "utilities").ok());
  }

  platform::LoopDevice MakeDevice(const std::string& image) {
    const auto device = platform::AttachLoop(image, {});
    EXPECT_TRUE(device.ok());
    EXPECT_TRUE(platform::FindFileSystem("ext4")->Format(*exec_, device->path, {}).ok());
    return *device;
  }
  // Leaves something in memory that is not on the device.
  void Write(const char* name) {
    const auto graft = sandbox_->MakeGraft(plan_, "");
    ASSERT_OK(graft);
    const base::UniqueFd file(
        openat(graft->mount.get(), name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    ASSERT_OK(platform::WriteAll(file.get(), std::string(kMiB, 'x')));
  }
  void Stall() {
    auto frozen = platform::FreezeFileSystem(folder_ / "disk", std::chrono::minutes(2));
    ASSERT_OK(frozen);
    frozen_ = *std::move(frozen);
  }
  // Reads the volume's condition until it is abnormal, or is not.
  std::string WaitForCondition(bool abnormal) {
    const auto deadline = steady_clock::now() + std::chrono::minutes(1);
    for (;;) {
      const auto stats = sandbox_->ReadStats(plan_);
      EXPECT_TRUE(stats.ok());
      if (!stats.ok() || stats->abnormal == abnormal) return stats.ok() ? stats->condition : "";
      if (steady_clock::now() > deadline) {
        ADD_FAILURE() << "the condition stays: " << stats->condition;
        return "";
      }
      std::this_thread::sleep_for(milliseconds(20));
    }
  }

  const platform::TempFolder folder_;
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  platform::LoopDevice outer_, inner_;
  MountPlan plan_;
  std::unique_ptr<SandboxKind> kind_;
  std::unique_ptr<Sandbox> sandbox_;
  std::unique_ptr<platform::FrozenFileSystem> frozen_;
};

TEST_F(StallTest, TheConditionNamesTheDeviceAndSinceWhenAndStaysTheSame) {
  Stall();
  Write("note");
  const std::string condition = WaitForCondition(true);
  EXPECT_THAT(condition, StartsWith("device '" + inner_.path +
                                    "' does not answer: its ext4 could not be written since 20"));
  EXPECT_EQ(WaitForCondition(true), condition);
  ASSERT_OK(frozen_->Thaw());
  EXPECT_EQ(WaitForCondition(false), "the file system answers");
}

TEST_F(StallTest, AnUnmountThatWaitsForTheDeviceIsTold) {
  Stall();
  Write("note");
  const base::Status waits = sandbox_->UnpublishVolume(plan_);
  EXPECT_EQ(waits.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(base::Message(waits), StartsWith("device '" + inner_.path +
                                               "' does not answer: its ext4 is being unmounted "
                                               "since 20"));
  EXPECT_EQ(sandbox_->UnpublishVolume(plan_), waits) << "the time is that of the first try";
  // The mount is in nobody's table any more, and the device is not free yet.
  const base::Status busy = WaitUntilDeviceIsFree(plan_.device, milliseconds(100));
  EXPECT_EQ(busy.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(busy), HasSubstr("because the device does not answer"));
  ASSERT_OK(frozen_->Thaw());
}

}  // namespace
}  // namespace berth::crust
