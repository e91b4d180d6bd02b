// What a publish that failed leaves: nothing for certain, or what the kernel may do still.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/assert_ok.h"
#include "base/ipc/crust_call.h"
#include "base/log.h"
#include "crust/fake_sandbox.h"
#include "crust/handler.h"
#include "platform/fake_temp_folder.h"
#include "platform/loop_device.h"

namespace berth::crust {
namespace {

namespace ipc = base::ipc;
using base::Status;
using base::StatusCode;
using testing::HasSubstr;

constexpr const char* kSandbox = "s1";
constexpr const char* kUid = "uid-1";

class OutcomeTest : public testing::Test {
 protected:
  void SetUp() override {
    auto device = platform::AttachLoop(folder_.SparseFile("image", 1 << 20), {});
    ASSERT_OK(device);
    device_ = *std::move(device);
    std::filesystem::create_directories(target_);
    std::filesystem::create_directories(folder_ / "bundle");
    Restart();
    std::ofstream(ipc::crust::PlanPath(paths_.run(), kUid)) << ipc::crust::WritePlan({target_});
    ASSERT_OK(handler_->BeginSandbox(kSandbox, kUid, folder_ / "bundle"));
  }
  void TearDown() override {
    handler_.reset();
    ASSERT_OK(platform::DetachLoop(device_));
  }

  void Restart() {
    handler_.reset();
    auto handler = Handler::Start({.paths = paths_,
                                   .kubelet_folder = folder_ / "kubelet",
                                   .offer = {.file_systems = {"ext4"}},
                                   .free_within = std::chrono::milliseconds(1)},
                                  kind_);
    ASSERT_OK(handler);
    handler_ = *std::move(handler);
  }

  Status Publish(Status answer) {
    kind_.publish = [answer = std::move(answer)](const PublishContext&) { return answer; };
    wire::RuntimePublishVolumeRequest request;
    request.set_sandbox_id(kSandbox);
    request.set_host_volume_id(device_.path);
    request.set_host_target_path(target_);
    request.set_file_system("ext4");
    return handler_->RuntimePublishVolume(request).status();
  }
  Status Unpublish() {
    wire::RuntimeUnpublishVolumeRequest request;
    request.set_sandbox_id(kSandbox);
    request.set_host_volume_id(device_.path);
    request.set_host_target_path(target_);
    return handler_->RuntimeUnpublishVolume(request).status();
  }
  // As a mount does.
  base::UniqueFd Claim() const {
    base::UniqueFd fd(open(device_.path.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
    EXPECT_TRUE(fd.valid());
    return fd;
  }

  const platform::TempFolder folder_;
  const Paths paths_{folder_ / "data", folder_ / "run"};
  const std::string target_ =
      fmt::format("{}/kubelet/pods/{}/volumes/kubernetes.io~csi/pv/mount", folder_.path(), kUid);
  platform::LoopDevice device_;
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
  EXPECT_EQ(handler_->EndSandbox(kSandbox).code(), StatusCode::kFailedPrecondition);
  mounting.Reset();
  ASSERT_OK(Unpublish());
}

// Whoever has its device has nothing to do with this sandbox.
TEST_F(OutcomeTest, AMountThatFailedForCertainIsNotWaitedFor) {
  ASSERT_EQ(Publish(base::Error(StatusCode::kInvalidArgument, "bad superblock")).code(),
            StatusCode::kInvalidArgument);
  const base::UniqueFd somebody = Claim();
  Restart();
  ASSERT_OK(Unpublish());
}

TEST_F(OutcomeTest, OneThatFailedAndIsTriedAgainIsUnknownAgain) {
  ASSERT_FALSE(Publish(base::Error(StatusCode::kInvalidArgument, "bad superblock")).ok());
  ASSERT_FALSE(Publish(base::Error(StatusCode::kDeadlineExceeded, "late")).ok());
  base::UniqueFd mounting = Claim();
  EXPECT_EQ(Unpublish().code(), StatusCode::kFailedPrecondition);
  mounting.Reset();
  ASSERT_OK(Publish(base::OkStatus()));
  mounting = Claim();
  EXPECT_EQ(Unpublish().code(), StatusCode::kFailedPrecondition);
  mounting.Reset();
  ASSERT_OK(Unpublish());
}

}  // namespace
}  // namespace berth::crust
