// The plugin on real mounts: a driver double that mounts a tmpfs and binds it to the pods.
#include <unistd.h>

#include "platform/mounts/fake_lost_mount.h"
#include "volume/csi/fake_csi_fixture.h"

namespace berth::volume {
namespace {

using base::StatusCode;

class CsiPluginRootTest : public CsiFixture {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "skipped: mounting needs root";
    CsiFixture::SetUp();
    host_.UseMounter(platform::NewMounter());
    rpc::CallScript& script = driver_->script();
    script.AfterEffect("NodeStageVolume", [this](const google::protobuf::Message& message) {
      const auto& request = dynamic_cast<const csi::v1::NodeStageVolumeRequest&>(message);
      return MountOnce(
          {.source = "tmpfs", .target = request.staging_target_path(), .fs_type = "tmpfs"});
    });
    script.AfterEffect("NodePublishVolume", [this](const google::protobuf::Message& message) {
      const auto& request = dynamic_cast<const csi::v1::NodePublishVolumeRequest&>(message);
      return MountOnce({.source = request.staging_target_path(),
                        .target = request.target_path(),
                        .options = {"bind"}});
    });
    script.AfterEffect("NodeUnpublishVolume", [this](const google::protobuf::Message& message) {
      return host_.mounter().Unmount(
          dynamic_cast<const csi::v1::NodeUnpublishVolumeRequest&>(message).target_path());
    });
    script.AfterEffect("NodeUnstageVolume", [this](const google::protobuf::Message& message) {
      return host_.mounter().Unmount(
          dynamic_cast<const csi::v1::NodeUnstageVolumeRequest&>(message).staging_target_path());
    });
  }

  Status MountOnce(const platform::MountRequest& request) {
    ASSIGN_OR_RETURN(const auto table, host_.mounter().List());
    if (platform::FindMount(table, request.target) != nullptr) return base::OkStatus();
    return host_.mounter().Mount(request);
  }

  size_t MountsBelowKubelet() {
    const auto table = host_.mounter().List();
    EXPECT_TRUE(table.ok()) << table.status();
    return static_cast<size_t>(std::count_if(table->begin(), table->end(), [&](const auto& mount) {
      return mount.mount_point.starts_with(folder_.path() + "/");
    }));
  }
};

TEST_F(CsiPluginRootTest, DataOutlivesThePodAndNothingIsLeftMounted) {
  const VolumeSpec spec = Persistent();
  const api::Pod pod = Pod({{"securityContext", {{"fsGroup", 4321}}}});
  ASSERT_TRUE(plugin_->MountDevice(pod, spec, {}).ok());
  auto published = plugin_->SetUp(pod, spec, {});
  ASSERT_TRUE(published.ok()) << published.status();
  std::ofstream(published->path + "/greeting") << "hello";
  EXPECT_EQ(MountsBelowKubelet(), 2u);
  ASSERT_TRUE(plugin_->TearDown(PodRecordOf(spec, pod)).ok());
  EXPECT_EQ(MountsBelowKubelet(), 1u);

  api::Pod second = pod;
  second.Set({"metadata", "uid"}, "22222222-2222-3333-4444-555555555555");
  // A restart in between: the same calls once more.
  ASSERT_TRUE(plugin_->MountDevice(second, spec, {}).ok());
  published = plugin_->SetUp(second, spec, {});
  ASSERT_TRUE(published.ok()) << published.status();
  published = plugin_->SetUp(second, spec, {});
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_EQ(*platform::ReadFile(published->path + "/greeting"), "hello");

  ASSERT_TRUE(plugin_->TearDown(PodRecordOf(spec, second)).ok());
  ASSERT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(spec)).ok());
  EXPECT_EQ(MountsBelowKubelet(), 0u);
}

TEST_F(CsiPluginRootTest, ADriverThatForgetsToUnmountLosesNoData) {
  const VolumeSpec spec = Persistent();
  ASSERT_TRUE(plugin_->MountDevice(Pod(), spec, {}).ok());
  const auto published = plugin_->SetUp(Pod(), spec, {});
  ASSERT_TRUE(published.ok()) << published.status();
  std::ofstream(published->path + "/precious") << "data";
  driver_->script().AfterEffect("NodeUnpublishVolume", nullptr);
  const Status status = plugin_->TearDown(PodRecordOf(spec));
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(status)), testing::HasSubstr("still a mount point"));
  EXPECT_EQ(*platform::ReadFile(published->path + "/precious"), "data");
}

TEST_F(CsiPluginRootTest, AForeignMountIsLeftAlone) {
  const std::string place =
      host_.paths().CsiGlobalMount(kDriver, api::VolumeHandle("vol-1")).text();
  ASSERT_TRUE(platform::MakeFolders(place).ok());
  ASSERT_TRUE(MountOnce({.source = "tmpfs", .target = place, .fs_type = "tmpfs"}).ok());
  EXPECT_EQ(plugin_->MountDevice(Pod(), Persistent(), {}).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(driver_->script().Count("NodeStageVolume"), 0);
  EXPECT_EQ(MountsBelowKubelet(), 1u);
}

TEST_F(CsiPluginRootTest, AVolumeThatHangsDoesNotHoldWhoGivesItToAGroup) {
  const VolumeSpec spec = Persistent();
  const api::Pod pod = Pod({{"securityContext", {{"fsGroup", 2000}}}});
  ASSERT_TRUE(plugin_->MountDevice(pod, spec, {}).ok());
  std::unique_ptr<platform::LostMount> mount;
  driver_->script().AfterEffect(
      "NodePublishVolume", [&mount](const google::protobuf::Message& message) {
        const auto& request = dynamic_cast<const csi::v1::NodePublishVolumeRequest&>(message);
        auto made = platform::LostMount::Make(request.target_path());
        if (made.ok()) mount = *std::move(made);
        return made.status();
      });
  EXPECT_EQ(plugin_->SetUp(pod, spec, {}).status().code(), StatusCode::kDeadlineExceeded);
  mount.reset();
  EXPECT_TRUE(plugin_->TearDown(PodRecordOf(spec)).ok());
  EXPECT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(spec)).ok());
}

}  // namespace
}  // namespace berth::volume
