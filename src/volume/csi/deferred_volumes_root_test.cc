// Volumes that the plugin leaves to a runtime handler, with the driver's and the handler's doubles:
// who may have them, how they grow, and who tells of them. As root, whom alone the handler serves.
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/assert_ok.h"
#include "rpc/fake_crust.h"
#include "volume/csi/fake_csi_fixture.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Capability = rpc::FakeCrust::Capability;

constexpr int64_t kGrown = 2 << 20;

class DeferredVolumesTest : public CsiFixture {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "skipped: a runtime handler is root's";
    CsiFixture::SetUp();
    auto handler = rpc::FakeCrust::Start();
    ASSERT_OK(handler);
    handler_ = *std::move(handler);
    std::ofstream(device_) << "";
    host_.SetDevice(device_, makedev(7, 3));
    rpc::FakeCsiDriver::Options& driver = driver_->state().options();
    driver.node_capabilities.insert(NodeRpc::RUNTIME_ASSISTED_MOUNT);
    driver.deferred.emplace();
    driver.deferred->set_source(device_);
    driver.deferred->set_type("xfs");
    // It mounts nothing.
    for (const char* call : {"NodeStageVolume", "NodePublishVolume"}) {
      driver_->script().AfterEffect(call, nullptr);
    }
    spec_.runtime_file_systems = {"xfs"};
  }

  StatusOr<Published> Publish(const api::Pod& pod = Pod()) {
    if (const Status staged = plugin_->MountDevice(pod, spec_, {}); !staged.ok()) return staged;
    return plugin_->SetUp(pod, spec_, {});
  }

  // As the node agent has it once the handler has mounted the volume.
  PodVolumeRecord InSandbox() {
    const auto published = Publish();
    EXPECT_TRUE(published.ok()) << published.status();
    const auto client = rpc::CrustClient::New(handler_->socket());
    rpc::crust::RuntimePublishVolumeRequest request;
    request.set_sandbox_id("s1");
    request.set_host_volume_id(device_);
    request.set_host_target_path(published->path);
    EXPECT_TRUE((*client)->RuntimePublishVolume(request, std::chrono::seconds(10)).ok());
    PodVolumeRecord record = PodRecordOf(spec_);
    record.sandbox = SandboxPlace{.socket = handler_->socket(), .sandbox_id = "s1"};
    return record;
  }

  VolumePlugin::Deferral CanDefer(const api::Pod& pod = Pod()) {
    const auto deferral = plugin_->CanDefer(pod, spec_);
    EXPECT_TRUE(deferral.ok()) << deferral.status();
    return deferral.ok() ? *deferral : VolumePlugin::Deferral();
  }

  // With one container that uses the volume.
  static api::Pod PodThatAsksFor(const Json& selinux, const std::string& policy = "MountOption") {
    Json container = {{"name", "c"}, {"volumeMounts", {{{"name", "data"}, {"mountPath", "/x"}}}}};
    Json security = {{"seLinuxChangePolicy", policy}};
    if (!selinux.is_null()) security["seLinuxOptions"] = selinux;
    return Pod({{"containers", Json::array({container})}, {"securityContext", security}});
  }

  const std::string device_ = folder_ / "device";
  std::unique_ptr<rpc::FakeCrust> handler_;
  VolumeSpec spec_ = Persistent({{"csi", {{"fsType", "xfs"}}}});
};

TEST_F(DeferredVolumesTest, TheMountIsLeftToTheHandler) {
  (*driver_->state().options().deferred->mutable_options())["noatime"] = "";
  const auto published = Publish(Pod({{"securityContext", {{"fsGroup", 5}}}}));
  ASSERT_OK(published);
  ASSERT_TRUE(published->deferred.has_value());
  EXPECT_EQ(published->deferred->source, device_);
  EXPECT_EQ(published->deferred->fs_type, "xfs");
  EXPECT_THAT(published->deferred->options, ElementsAre("noatime"));
  EXPECT_EQ(published->deferred->fs_group, 5);
  EXPECT_THAT(host_.fake_mounter().requests(), IsEmpty());
}

TEST_F(DeferredVolumesTest, ADriverThatStagedAMountIsRefusedAndTakenBack) {
  driver_->script().AfterEffect("NodeStageVolume", [&](const google::protobuf::Message& message) {
    const auto& request = dynamic_cast<const csi::v1::NodeStageVolumeRequest&>(message);
    host_.fake_mounter().Add(request.staging_target_path());
    return base::OkStatus();
  });
  const auto published = Publish();
  EXPECT_EQ(published.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(published.status()), HasSubstr("globalmount"));
  EXPECT_EQ(driver_->script().Count("NodeUnpublishVolume"), 1);
}

TEST_F(DeferredVolumesTest, ADriverThatPublishedAMountIsRefusedAndTakenBack) {
  driver_->script().AfterEffect("NodePublishVolume", [&](const google::protobuf::Message& message) {
    const auto& request = dynamic_cast<const csi::v1::NodePublishVolumeRequest&>(message);
    host_.fake_mounter().Add(request.target_path());
    return base::OkStatus();
  });
  EXPECT_EQ(Publish().status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(driver_->script().Count("NodeUnpublishVolume"), 1);
}

TEST_F(DeferredVolumesTest, ADeviceThatTheHostHasMountedIsNotLeftToAHandler) {
  host_.fake_mounter().Add("/mnt/somewhere", "btrfs", device_);
  const auto published = Publish();
  EXPECT_EQ(published.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(published.status()), HasSubstr("/mnt/somewhere"));
}

TEST_F(DeferredVolumesTest, AShareIsNoDeviceOfTheHosts) {
  driver_->state().options().deferred->set_source("srv1.net:/exported/path");
  driver_->state().options().deferred->set_type("nfs4");
  spec_.runtime_file_systems = {"nfs4"};
  const auto published = Publish();
  ASSERT_OK(published);
  EXPECT_EQ(published->deferred->source, "srv1.net:/exported/path");
}

TEST_F(DeferredVolumesTest, TheHandlerGrowsTheFileSystem) {
  const PodVolumeRecord record = InSandbox();
  ASSERT_OK(plugin_->Expand(record, spec_, kGrown));
  EXPECT_TRUE(Last<csi::v1::NodeExpandVolumeRequest>("NodeExpandVolume").runtime_supports_expand());
  const auto grown =
      handler_->script().LastRequest<rpc::crust::RuntimeExpandVolumeRequest>("RuntimeExpandVolume");
  EXPECT_EQ(grown.sandbox_id(), "s1");
  EXPECT_EQ(grown.host_volume_id(), device_);
  EXPECT_GE(grown.required_bytes(), kGrown);
}

TEST_F(DeferredVolumesTest, AHandlerThatDoesNotGrowIsAskedForNothingAndItsWordIsTheLast) {
  const PodVolumeRecord record = InSandbox();
  handler_->Lose(Capability::VOLUME_RESIZE);
  // The driver answers OK all the same.
  EXPECT_EQ(plugin_->Expand(record, spec_, kGrown).code(), StatusCode::kFailedPrecondition);
  EXPECT_FALSE(
      Last<csi::v1::NodeExpandVolumeRequest>("NodeExpandVolume").runtime_supports_expand());
  EXPECT_EQ(handler_->script().Count("RuntimeExpandVolume"), 0);
}

TEST_F(DeferredVolumesTest, WhatAHandlerSaysOfGrowthIsKept) {
  const PodVolumeRecord record = InSandbox();
  const auto after = [&](StatusCode code) {
    handler_->script().Fail("RuntimeExpandVolume", base::Error(code, "no"));
    return plugin_->Expand(record, spec_, kGrown).code();
  };
  EXPECT_EQ(after(StatusCode::kFailedPrecondition), StatusCode::kFailedPrecondition);
  // It lists the call and does not have it: that nothing was to be done would be a lie.
  EXPECT_EQ(after(StatusCode::kUnimplemented), StatusCode::kFailedPrecondition);
  // These pass, and must not read as the driver's word that the volume can never grow.
  EXPECT_EQ(after(StatusCode::kInvalidArgument), StatusCode::kUnavailable);
  EXPECT_EQ(after(StatusCode::kNotFound), StatusCode::kUnavailable);
  handler_->script().Fail("RuntimeGetCapabilities", base::Error(StatusCode::kUnimplemented, "no"));
  EXPECT_EQ(plugin_->Expand(record, spec_, kGrown).code(), StatusCode::kFailedPrecondition);
  handler_->options().most_capacity_bytes = kGrown - 1;
  EXPECT_EQ(plugin_->Expand(record, spec_, kGrown).code(), StatusCode::kInternal);
}

TEST_F(DeferredVolumesTest, TheHandlerTellsOfTheVolume) {
  const PodVolumeRecord record = InSandbox();
  handler_->options().total_bytes = 4096;
  const auto stats = plugin_->GetStats(record);
  ASSERT_OK(stats);
  EXPECT_EQ(stats->total_bytes, 4096);
  EXPECT_EQ(stats->used_bytes, 1024);
  handler_->options().abnormal = "the file system has become read-only";
  const auto condition = plugin_->GetCondition(record);
  ASSERT_OK(condition);
  ASSERT_TRUE(condition->has_value());
  EXPECT_TRUE((*condition)->abnormal);
  EXPECT_EQ((*condition)->message, "the file system has become read-only");

  handler_->Lose(Capability::VOLUME_STATS);
  EXPECT_EQ(plugin_->GetStats(record).status().code(), StatusCode::kUnimplemented);
  const auto none = plugin_->GetCondition(record);
  ASSERT_OK(none);
  EXPECT_FALSE(none->has_value());
}

TEST_F(DeferredVolumesTest, ADriverWithoutTheCapabilityMountsItself) {
  EXPECT_EQ(CanDefer().why_not, "");
  plugin_ = NewCsiPlugin(host_);  // capabilities are asked once
  driver_->state().options().node_capabilities.erase(NodeRpc::RUNTIME_ASSISTED_MOUNT);
  EXPECT_THAT(CanDefer().why_not, HasSubstr("does not leave mounts to runtime handlers"));
  spec_ = Persistent({{"volumeMode", "Block"}});
  EXPECT_THAT(CanDefer().why_not, HasSubstr("raw block"));
}

TEST_F(DeferredVolumesTest, SecretsOfThePublishAreTold) {
  EXPECT_FALSE(CanDefer().secrets);
  PutDriver({{"tokenRequests", {{{"audience", "vault"}}}}});
  EXPECT_FALSE(CanDefer().secrets);
  PutDriver({{"tokenRequests", {{{"audience", "vault"}}}}, {"serviceAccountTokenInSecrets", true}});
  EXPECT_TRUE(CanDefer().secrets);
  PutDriver(Json::object());
  spec_ =
      Persistent({{"csi", {{"nodePublishSecretRef", {{"name", "key"}, {"namespace", "shop"}}}}}});
  EXPECT_TRUE(CanDefer().secrets);
}

TEST_F(DeferredVolumesTest, WhoeverLabelsFilesHasToKnowSelinux) {
  const auto relabels = [&](const api::Pod& pod) { return CanDefer(pod).selinux_relabel; };
  // A host without SELinux: the sandbox may have it.
  EXPECT_FALSE(relabels(PodThatAsksFor(nullptr)));
  EXPECT_TRUE(relabels(PodThatAsksFor({{"level", "s0:c1"}})));
  EXPECT_TRUE(relabels(PodThatAsksFor({{"type", "t"}})));
  host_.SetSelinux(true);
  EXPECT_TRUE(relabels(PodThatAsksFor(nullptr)));
  PutDriver({{"seLinuxMount", true}});
  const VolumePlugin::Deferral on_mount = CanDefer(PodThatAsksFor({{"level", "s0:c1"}}));
  EXPECT_TRUE(on_mount.selinux_on_mount);
  EXPECT_FALSE(on_mount.selinux_relabel);
  EXPECT_TRUE(relabels(PodThatAsksFor({{"level", "s0:c1"}}, "Recursive")));
}

TEST_F(DeferredVolumesTest, TheHandlerIsToldTheLabelEitherWay) {
  const std::string label = "system_u:object_r:container_file_t:s0:c1";
  for (const bool on_mount : {false, true}) {
    SCOPED_TRACE(on_mount);
    host_.SetSelinux(true);
    PutDriver({{"seLinuxMount", on_mount}});
    const auto published = Publish(PodThatAsksFor({{"level", "s0:c1"}}));
    ASSERT_OK(published);
    EXPECT_EQ(published->deferred->selinux_label, label);
    EXPECT_EQ(published->deferred->selinux_relabel, !on_mount);
    ASSERT_OK(plugin_->TearDown(PodRecordOf(spec_)));
    ASSERT_OK(plugin_->UnmountDevice(DeviceRecordOf(spec_)));
  }
}

}  // namespace
}  // namespace berth::volume
