// What a publish that failed leaves: nothing for certain, or what the kernel may do still.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <latch>

#include "base/assert_ok.h"
#include "base/ipc/crust_call.h"
#include "base/log.h"
#include "crust/fake_sandbox.h"
#include "crust/handler.h"
#include "platform/devices/loop_device.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::crust {
namespace {

namespace ipc = base::ipc;
using base::Status;
using base::StatusCode;
using testing::HasSubstr;

// A sandbox, and the pod that has it.
struct Place {
  const char* sandbox;
  const char* uid;
};
constexpr Place kFirst = {"s1", "uid-1"};
constexpr Place kSecond = {"s2", "uid-2"};

class OutcomeTest : public testing::Test {
 protected:
  void SetUp() override {
    auto device = platform::AttachLoop(folder_.SparseFile("image", 1 << 20), {});
    ASSERT_OK(device);
    device_ = *std::move(device);
    std::filesystem::create_directories(folder_ / "bundle");
    Restart();
    for (const Place& place : {kFirst, kSecond}) {
      std::filesystem::create_directories(TargetIn(place));
      std::ofstream(ipc::crust::PlanPath(paths_.run(), place.uid))
          << ipc::crust::WritePlan({TargetIn(place)});
      ASSERT_OK(handler_->BeginSandbox(rpc::SandboxId(place.sandbox), api::PodUid(place.uid),
                                       folder_ / "bundle"));
    }
  }
  void TearDown() override {
    handler_.reset();
    ASSERT_OK(platform::DetachLoop(device_));
  }

  void Restart() {
    handler_.reset();
    auto handler =
        Handler::Start({.paths = paths_,
                        .kubelet_folder = folder_ / "kubelet",
                        .offer = {.capabilities = {wire::RuntimeCapability::RPC::VOLUME_STATS},
                                  .file_systems = {"ext4"}},
                        .free_within = std::chrono::milliseconds(1)},
                       kind_, *mounter_);
    ASSERT_OK(handler);
    handler_ = *std::move(handler);
  }

  std::string TargetIn(const Place& place) const {
    return fmt::format("{}/kubelet/pods/{}/volumes/kubernetes.io~csi/pv/mount", folder_.path(),
                       place.uid);
  }
  wire::RuntimePublishVolumeRequest RequestFor(const Place& place) const {
    wire::RuntimePublishVolumeRequest request;
    request.set_sandbox_id(place.sandbox);
    request.set_host_volume_id(device_.path);
    request.set_host_target_path(TargetIn(place));
    request.set_file_system("ext4");
    return request;
  }
  Status Publish(Status answer, const Place& place = kFirst, bool read_only = false) {
    kind_.answers.publish = [this, answer = std::move(answer)](const PublishContext& context) {
      shared_ = context.shared;
      absent_ = context.absent;
      alone_ = context.alone();
      return answer;
    };
    wire::RuntimePublishVolumeRequest request = RequestFor(place);
    if (read_only) request.add_mount_options("ro");
    return handler_->RuntimePublishVolume(request).status();
  }
  Status Unpublish(const Place& place = kFirst, const std::string& volume = "") {
    wire::RuntimeUnpublishVolumeRequest request;
    request.set_sandbox_id(place.sandbox);
    request.set_host_volume_id(volume.empty() ? device_.path : volume);
    request.set_host_target_path(TargetIn(place));
    return handler_->RuntimeUnpublishVolume(request).status();
  }
  // Opens the device exclusively, as a mount does.
  base::UniqueFd Claim() const {
    base::UniqueFd fd(open(device_.path.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
    EXPECT_TRUE(fd.valid());
    return fd;
  }

  const platform::TempFolder folder_;
  const Paths paths_{folder_ / "data", folder_ / "run"};
  platform::LoopDevice device_;
  bool shared_ = false;  // as the last publish had it
  bool absent_ = false;
  bool alone_ = false;
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  FakeSandboxes kind_;
  std::unique_ptr<Handler> handler_;
};

TEST_F(OutcomeTest, AMountThatWasGivenUpIsNotHeldForGoneWhileTheKernelMayDoIt) {
  ASSERT_EQ(Publish(base::Error(StatusCode::kDeadlineExceeded, "late")).code(),
            StatusCode::kDeadlineExceeded);
  base::UniqueFd mounting = Claim();
  const Status busy = Unpublish();
  EXPECT_EQ(busy.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(busy), HasSubstr("is still in use"));
  // Nor when another try failed for certain, be it at the device that the first one has.
  ASSERT_EQ(Publish(base::Error(StatusCode::kFailedPrecondition, "busy")).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(Unpublish().code(), StatusCode::kFailedPrecondition);
  // Nor by the next handler, which finds its record.
  Restart();
  EXPECT_EQ(Unpublish().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(handler_->EndSandbox(kFirst.sandbox).code(), StatusCode::kFailedPrecondition);
  mounting.Reset();
  ASSERT_OK(Unpublish());
}

// The process that has the device open has nothing to do with this sandbox.
TEST_F(OutcomeTest, AMountThatFailedForCertainIsNotWaitedFor) {
  ASSERT_EQ(Publish(base::Error(StatusCode::kInvalidArgument, "bad superblock")).code(),
            StatusCode::kInvalidArgument);
  const base::UniqueFd somebody = Claim();
  Restart();
  ASSERT_OK(Unpublish());
}

TEST_F(OutcomeTest, OneThatFailedAndIsTriedAgainIsUnknownAgain) {
  ASSERT_FALSE(Publish(base::Error(StatusCode::kInvalidArgument, "bad superblock")).ok());
  EXPECT_TRUE(absent_);
  ASSERT_FALSE(Publish(base::Error(StatusCode::kDeadlineExceeded, "late")).ok());
  EXPECT_TRUE(absent_) << "the first one failed for certain";
  base::UniqueFd mounting = Claim();
  EXPECT_EQ(Unpublish().code(), StatusCode::kFailedPrecondition);
  mounting.Reset();
  ASSERT_OK(Publish(base::OkStatus()));
  EXPECT_FALSE(absent_);
  Restart();
  ASSERT_OK(Publish(base::OkStatus()));
  EXPECT_FALSE(absent_) << "its record says that it is there";
  mounting = Claim();
  EXPECT_EQ(Unpublish().code(), StatusCode::kFailedPrecondition);
  mounting.Reset();
  ASSERT_OK(Unpublish());
}

TEST_F(OutcomeTest, OneThatFailedIsNoUserOfTheDeviceForTheNextHandler) {
  ASSERT_FALSE(Publish(base::Error(StatusCode::kInvalidArgument, "bad superblock")).ok());
  Restart();
  ASSERT_OK(Publish(base::OkStatus(), kSecond));
  base::UniqueFd mounted = Claim();
  EXPECT_EQ(Unpublish(kSecond).code(), StatusCode::kFailedPrecondition);
  mounted.Reset();
  ASSERT_OK(Unpublish(kSecond));
}

TEST_F(OutcomeTest, OfTwoThatEndTogetherTheLastOneWaitsForTheDevice) {
  ASSERT_OK(Publish(base::OkStatus(), kFirst));
  ASSERT_OK(Publish(base::OkStatus(), kSecond));
  base::UniqueFd mounted = Claim();
  std::latch both(2);
  kind_.answers.unpublish = [&both] {
    both.arrive_and_wait();
    return base::OkStatus();
  };
  auto other = std::async(std::launch::async, [this] { return Unpublish(kSecond); });
  const Status first = Unpublish(kFirst);
  const Status second = other.get();
  EXPECT_FALSE(first.ok() && second.ok());
  kind_.answers.unpublish = [] { return base::OkStatus(); };
  mounted.Reset();
  ASSERT_OK(Unpublish(kFirst));
  ASSERT_OK(Unpublish(kSecond));
}

TEST_F(OutcomeTest, WithoutASandboxItIsTakenOutOfWhicheverOfThePodsHasIt) {
  ASSERT_OK(Publish(base::OkStatus(), kFirst));
  ASSERT_OK(Publish(base::OkStatus(), kSecond));
  base::UniqueFd mounted = Claim();
  ASSERT_OK(Unpublish({"", kFirst.uid}));
  EXPECT_EQ(Unpublish({"", kSecond.uid}).code(), StatusCode::kFailedPrecondition);
  mounted.Reset();
  ASSERT_OK(Unpublish({"", kSecond.uid}));
  ASSERT_OK(Unpublish({"", kFirst.uid}));
}

TEST_F(OutcomeTest, ADeviceIsSharedWithWhoeverHasItMountedForWriting) {
  ASSERT_OK(Publish(base::OkStatus(), kFirst, /*read_only=*/true));
  EXPECT_TRUE(alone_);
  ASSERT_OK(Publish(base::OkStatus(), kSecond, /*read_only=*/true));
  EXPECT_FALSE(shared_);
  EXPECT_FALSE(alone_);
  ASSERT_OK(Unpublish(kFirst));
  // What is only about to be mounted is not there to be shared.
  ASSERT_FALSE(Publish(base::Error(StatusCode::kDeadlineExceeded, "late"), kFirst).ok());
  ASSERT_OK(Publish(base::OkStatus(), kSecond, /*read_only=*/true));
  EXPECT_FALSE(shared_);
  ASSERT_OK(Publish(base::OkStatus(), kFirst));
  ASSERT_OK(Publish(base::OkStatus(), kSecond, /*read_only=*/true));
  EXPECT_TRUE(shared_);
}

TEST_F(OutcomeTest, ADeviceIsAskedForByItsNewPath) {
  ASSERT_OK(Publish(base::OkStatus()));
  const std::string other = folder_ / "by-id";
  std::filesystem::create_symlink(device_.path, other);
  wire::RuntimePublishVolumeRequest again = RequestFor(kFirst);
  again.set_host_volume_id(other);
  ASSERT_OK(handler_->RuntimePublishVolume(again));
  Restart();
  wire::RuntimeGetVolumeStatsRequest stats;
  stats.set_sandbox_id(kFirst.sandbox);
  stats.set_host_volume_id(other);
  ASSERT_OK(handler_->RuntimeGetVolumeStats(stats));
  EXPECT_EQ(Unpublish().code(), StatusCode::kFailedPrecondition);
  ASSERT_OK(Unpublish(kFirst, other));
}

}  // namespace
}  // namespace berth::crust
