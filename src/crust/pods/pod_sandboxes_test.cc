// The handler with volumes of pods and a sandbox that mounts nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>

#include "base/assert_ok.h"
#include "crust/fake_sandbox.h"
#include "crust/handler.h"
#include "platform/files/fake_temp_folder.h"
#include "volume/fake_host.h"

namespace berth::crust {
namespace {

using base::Status;
using base::StatusCode;
using testing::HasSubstr;
using Capability = wire::RuntimeCapability::RPC;

constexpr const char* kPodOfSandboxes = "uid-1";

class PodSandboxesTest : public testing::Test {
 protected:
  void SetUp() override {
    kind_.answers.publish = [this](const PublishContext&) {
      ++published_;
      return publish_;
    };
    kind_.answers.unpublish = [this] {
      ++unpublished_;
      return base::OkStatus();
    };
    std::filesystem::create_directories(folder_ / "bundle");
    Restart({Capability::POD_VOLUMES, Capability::VOLUME_STATS, Capability::VOLUME_RESIZE});
  }

  void Restart(std::vector<Capability::Type> capabilities) {
    handler_.reset();
    auto handler =
        Handler::Start({.paths = paths_,
                        .kubelet_folder = folder_ / "kubelet",
                        .offer = {.capabilities = std::move(capabilities), .shares = {"nfs4"}},
                        .check_interval = check_interval_,
                        .patience = std::chrono::seconds(60)},
                       kind_, mounter_);
    ASSERT_OK(handler);
    handler_ = *std::move(handler);
  }

  wire::RuntimePublishVolumeRequest PublishRequest() const {
    wire::RuntimePublishVolumeRequest request;
    request.set_pod_uid(kPodOfSandboxes);
    request.set_host_volume_id("server:/export");
    request.set_host_target_path(target_);
    request.set_file_system("nfs4");
    return request;
  }
  Status Publish() { return handler_->RuntimePublishVolume(PublishRequest()).status(); }
  Status Begin(const std::string& sandbox) {
    return handler_
        ->BeginSandbox(rpc::SandboxId(sandbox), api::PodUid(kPodOfSandboxes), folder_ / "bundle")
        .status();
  }
  Status Unpublish() {
    wire::RuntimeUnpublishVolumeRequest request;
    request.set_pod_uid(kPodOfSandboxes);
    request.set_host_volume_id("server:/export");
    request.set_host_target_path(target_);
    return handler_->RuntimeUnpublishVolume(request).status();
  }
  Status ReadStats() {
    wire::RuntimeGetVolumeStatsRequest request;
    request.set_pod_uid(kPodOfSandboxes);
    request.set_host_volume_id("server:/export");
    return handler_->RuntimeGetVolumeStats(request).status();
  }
  Status Expand() {
    wire::RuntimeExpandVolumeRequest request;
    request.set_pod_uid(kPodOfSandboxes);
    request.set_host_volume_id("server:/export");
    return handler_->RuntimeExpandVolume(request).status();
  }
  bool IsRecorded(const std::string& sandbox) const {
    return std::filesystem::exists(paths_.RecordFolder() + "/" + sandbox + ".json");
  }

  const platform::TempFolder folder_;
  const Paths paths_{folder_ / "data", folder_ / "run"};
  const std::string target_ = fmt::format("{}/kubelet/pods/{}/volumes/kubernetes.io~csi/pv/mount",
                                          folder_.path(), kPodOfSandboxes);
  std::chrono::milliseconds check_interval_{std::chrono::minutes(1)};
  Status publish_;
  std::atomic<int> published_ = 0;
  std::atomic<int> unpublished_ = 0;
  volume::FakeMounter mounter_;
  FakeSandboxes kind_;
  std::unique_ptr<Handler> handler_;
};

TEST_F(PodSandboxesTest, EachSandboxGetsTheVolumesWhileItBegins) {
  ASSERT_OK(Publish());
  EXPECT_EQ(published_, 0);
  ASSERT_OK(Begin("s1"));
  EXPECT_EQ(published_, 1);
  ASSERT_OK(Begin("s2"));
  EXPECT_EQ(published_, 2);
  ASSERT_OK(Unpublish());
  EXPECT_EQ(unpublished_, 2);
  ASSERT_OK(Begin("s3"));
  EXPECT_EQ(published_, 2) << "the volume is gone";
}

TEST_F(PodSandboxesTest, AVolumeThatCannotBePublishedFailsTheSandbox) {
  ASSERT_OK(Publish());
  publish_ = base::Error(StatusCode::kFailedPrecondition, "the superblock is damaged");
  const Status begun = Begin("s1");
  EXPECT_EQ(begun.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      base::Message(begun),
      "begin sandbox 's1': publish 'server:/export' of pod 'uid-1': the superblock is damaged");
  EXPECT_FALSE(IsRecorded("s1"));
  publish_ = base::OkStatus();
  EXPECT_TRUE(Begin("s1").ok());
}

// berth-oci asks again after a restart of the handler.
TEST_F(PodSandboxesTest, ARepeatedBeginPublishesWhatIsMissing) {
  ASSERT_OK(Begin("s1"));
  ASSERT_OK(Publish());
  Restart({Capability::POD_VOLUMES});
  ASSERT_OK(Begin("s1"));
  EXPECT_EQ(published_, 1);
}

TEST_F(PodSandboxesTest, WrongRequestsFailBeforeTheSandbox) {
  auto request = PublishRequest();
  const auto code = [&] { return handler_->RuntimePublishVolume(request).status().code(); };
  request.set_sandbox_id("s1");
  EXPECT_EQ(code(), StatusCode::kInvalidArgument);
  request.clear_sandbox_id();
  request.set_pod_uid("../x");
  EXPECT_EQ(code(), StatusCode::kInvalidArgument);
  request.set_pod_uid("uid-2");
  EXPECT_EQ(code(), StatusCode::kPermissionDenied) << "it is the target of another pod";
  request = PublishRequest();
  request.set_file_system("xfs");
  EXPECT_EQ(code(), StatusCode::kFailedPrecondition);
  request = PublishRequest();
  request.set_fsgroup_gid(7);
  EXPECT_EQ(code(), StatusCode::kFailedPrecondition) << "it is not offered";
  EXPECT_FALSE(mounter_.IsMounted(target_));
  ASSERT_OK(Begin("s1"));
  EXPECT_EQ(published_, 0);
}

TEST_F(PodSandboxesTest, WithoutTheCapabilityPodsAreNotServed) {
  Restart({Capability::VOLUME_STATS, Capability::VOLUME_RESIZE});
  EXPECT_EQ(Publish().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(ReadStats().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(Expand().code(), StatusCode::kUnimplemented);
}

// It was offered before the handler was started again with other options.
TEST_F(PodSandboxesTest, WithoutTheCapabilityAPodCanStillGo) {
  ASSERT_OK(Publish());
  ASSERT_OK(Begin("s1"));
  Restart({});
  ASSERT_OK(Unpublish());
  EXPECT_EQ(unpublished_, 1);
  EXPECT_FALSE(mounter_.IsMounted(target_));
}

TEST_F(PodSandboxesTest, AVolumeIsAskedForInASandboxThatHasIt) {
  EXPECT_EQ(ReadStats().code(), StatusCode::kNotFound);
  ASSERT_OK(Publish());
  const Status none = ReadStats();
  EXPECT_EQ(none.code(), StatusCode::kUnavailable);
  EXPECT_THAT(base::Message(none), HasSubstr("has no sandbox now"));
  EXPECT_TRUE(Expand().ok()) << "it grows when a sandbox begins";
  ASSERT_OK(Begin("s1"));
  EXPECT_TRUE(ReadStats().ok());
  EXPECT_TRUE(Expand().ok());
  ASSERT_OK(handler_->EndSandbox("s1"));
  EXPECT_EQ(ReadStats().code(), StatusCode::kUnavailable);
}

TEST_F(PodSandboxesTest, AVolumeOfASandboxIsNotReplaced) {
  ASSERT_OK(Publish());
  ASSERT_OK(Begin("s1"));
  auto request = PublishRequest();
  request.add_mount_options("noatime");
  EXPECT_EQ(handler_->RuntimePublishVolume(request).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Publish().ok());
  ASSERT_OK(handler_->EndSandbox("s1"));
  EXPECT_TRUE(handler_->RuntimePublishVolume(request).ok());
}

// containerd that is killed while it makes a sandbox leaves its bundle. The volumes are taken out
// of it with the pod's.
TEST_F(PodSandboxesTest, ASandboxThatNobodyRemovesEndsWithItsPod) {
  check_interval_ = std::chrono::milliseconds(1);
  Restart({Capability::POD_VOLUMES});
  ASSERT_OK(Publish());
  ASSERT_OK(Begin("s1"));
  EXPECT_TRUE(IsRecorded("s1"));
  ASSERT_OK(Unpublish());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (IsRecorded("s1") && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(IsRecorded("s1"));
}

// The walk over the files of a large volume lasts long.
TEST_F(PodSandboxesTest, ASandboxThatBeginsDoesNotKeepAPodFromGoing) {
  ASSERT_OK(Publish());
  std::promise<void> walking;
  kind_.answers.publish = [&](const PublishContext& context) {
    walking.set_value();
    while (!context.cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return base::Error(StatusCode::kCancelled, "the walk was ended");
  };
  auto begin = std::async(std::launch::async, [this] { return Begin("s1"); });
  walking.get_future().wait();
  ASSERT_OK(Unpublish());
  EXPECT_EQ(begin.get().code(), StatusCode::kCancelled);
  EXPECT_FALSE(IsRecorded("s1"));
}

}  // namespace
}  // namespace berth::crust
