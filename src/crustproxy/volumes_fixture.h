// The kubelet's calls, and doubles of the driver, the handler and the API, with a real loop device.
// As root, whom alone the handler serves; for *_root_test.cc.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/assert_ok.h"
#include "crustproxy/volumes.h"
#include "kube/fake_client.h"
#include "platform/devices/fake_disk.h"
#include "platform/file_systems/device_file_system.h"
#include "platform/files/fake_temp_folder.h"
#include "rpc/fake_crust.h"
#include "rpc/fake_csi_driver.h"
#include "volume/fake_host.h"

namespace berth::crustproxy {

using base::Json;
using base::Status;
using base::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using NodeRpc = csi::v1::NodeServiceCapability::RPC;
using Capability = rpc::FakeCrust::Capability;

inline constexpr char kPod[] = "6f1b0a52-0000-4000-8000-000000000001";
inline constexpr char kHandle[] = "volumes/one";

class VolumesFixture : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "skipped: a runtime handler is root's";
    auto driver = rpc::FakeCsiDriver::Start();
    ASSERT_OK(driver);
    driver_ = *std::move(driver);
    auto handler = rpc::FakeCrust::Start();
    ASSERT_OK(handler);
    handler_ = *std::move(handler);
    handler_->options().capabilities.push_back(Capability::POD_VOLUMES);
    disk_.emplace();
    // The driver's device file is the disk.
    driver_->script().AfterEffect("NodePublishVolume", [this](const auto& message) {
      const auto& request = dynamic_cast<const csi::v1::NodePublishVolumeRequest&>(message);
      if (!request.volume_capability().has_block()) return base::OkStatus();
      struct stat disk = {};
      EXPECT_EQ(stat(disk_->device().c_str(), &disk), 0);
      std::filesystem::remove(request.target_path());
      EXPECT_EQ(mknod(request.target_path().c_str(), S_IFBLK | 0600, disk.st_rdev), 0);
      return base::OkStatus();
    });
    client_.Add(Json::parse(R"({"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass",
        "metadata":{"name":"sandboxed"},"handler":"berth"})"));
    SetHandler("sandboxed");
    client_.Add(Json::parse(R"({"apiVersion":"node.k8s.io/v1","kind":"RuntimeClass",
        "metadata":{"name":"plain"},"handler":"runc"})"));
    client_.Add(
        Json{{"apiVersion", "storage.k8s.io/v1"},
             {"kind", "StorageClass"},
             {"metadata",
              {{"name", "fast"},
               {"annotations", {{"storage.berth.dev/allow-runtime-assisted-mount", "true"}}}}},
             {"provisioner", driver_->name()}});
    client_.Add(Json{{"apiVersion", "v1"},
                     {"kind", "PersistentVolumeClaim"},
                     {"metadata", {{"name", "data"}, {"namespace", "shop"}, {"uid", "c1"}}},
                     {"spec", {{"volumeName", "pv-1"}, {"accessModes", {"ReadWriteOncePod"}}}}});
    client_.Add(Json{
        {"apiVersion", "v1"},
        {"kind", "PersistentVolume"},
        {"metadata", {{"name", "pv-1"}}},
        {"spec",
         {{"storageClassName", "fast"},
          {"accessModes", {"ReadWriteOncePod"}},
          {"claimRef", {{"namespace", "shop"}, {"name", "data"}, {"uid", "c1"}}},
          {"csi", {{"driver", driver_->name()}, {"volumeHandle", kHandle}, {"fsType", "ext4"}}}}}});
    AddPod(kPod, "sandboxed", {{"fsGroup", 3000}});
    Restart();
  }

  void SetHandler(const std::string& runtime_class) {
    client_.Add(
        Json{{"apiVersion", "node.k8s.io/v1"},
             {"kind", "RuntimeClass"},
             {"metadata",
              {{"name", runtime_class},
               {"annotations", {{"storage.berth.dev/fs-mgmt-socket", handler_->socket()}}}}},
             {"handler", "berth"}});
  }
  void AddPod(const std::string& uid, const std::string& runtime_class,
              const Json& security = Json::object(),
              const Json& volume = {{"name", "v"},
                                    {"persistentVolumeClaim", {{"claimName", "data"}}}}) {
    Json spec = {
        {"nodeName", "node-a"},
        {"securityContext", security},
        {"containers", {{{"name", "c"}, {"volumeMounts", {{{"name", "v"}, {"mountPath", "/v"}}}}}}},
        {"volumes", Json::array({volume})}};
    if (!runtime_class.empty()) spec["runtimeClassName"] = runtime_class;
    client_.Add(Json{{"apiVersion", "v1"},
                     {"kind", "Pod"},
                     {"metadata", {{"name", "pod-" + uid}, {"namespace", "shop"}, {"uid", uid}}},
                     {"spec", spec}});
  }

  // The driver has no NodeStageVolume, so the kubelet names no staging path.
  void HaveNoStages() {
    stages_ = false;
    driver_->state().options().node_capabilities.erase(NodeRpc::STAGE_UNSTAGE_VOLUME);
  }

  // As a new process of the proxy.
  void Restart() {
    volumes_.reset();
    auto records = VolumeRecords::Open(folder_ / "records");
    ASSERT_OK(records);
    records_ = *std::move(records);
    auto driver = rpc::CsiClient::New(driver_->socket());
    ASSERT_OK(driver);
    driver_client_ = *std::move(driver);
    volumes_.emplace(Volumes::Parts{.driver = *driver_client_,
                                    .cluster = cluster_,
                                    .records = *records_,
                                    .deferral = deferral_,
                                    .exec = *exec_,
                                    .mounter = *mounter_,
                                    .paths = paths_});
  }

  static csi::v1::VolumeCapability Mount() {
    csi::v1::VolumeCapability capability;
    capability.mutable_access_mode()->set_mode(
        csi::v1::VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
    capability.mutable_mount()->set_fs_type("ext4");
    capability.mutable_mount()->add_mount_flags("noatime,nodiratime");
    return capability;
  }
  std::string Staging() const {
    return paths_.CsiGlobalMount(driver_->name(), api::VolumeHandle(kHandle)).text();
  }
  std::string Target(const std::string& pod = kPod) const {
    return paths_.Pod(pod) + "/volumes/kubernetes.io~csi/pv-1/mount";
  }
  // The kubelet's calls, in its order.
  Status Stage() {
    csi::v1::NodeStageVolumeRequest request;
    request.set_volume_id(kHandle);
    request.set_staging_target_path(Staging());
    *request.mutable_volume_capability() = Mount();
    EXPECT_TRUE(platform::MakeFolders(Staging()).ok());
    return volumes_->Stage(request).status();
  }
  Status Publish(const std::string& pod = kPod) {
    csi::v1::NodePublishVolumeRequest request;
    request.set_volume_id(kHandle);
    if (stages_) request.set_staging_target_path(Staging());
    request.set_target_path(Target(pod));
    *request.mutable_volume_capability() = Mount();
    EXPECT_TRUE(platform::MakeFolders(std::filesystem::path(Target(pod)).parent_path()).ok());
    return volumes_->Publish(request).status();
  }
  Status Unpublish(const std::string& pod = kPod) {
    csi::v1::NodeUnpublishVolumeRequest request;
    request.set_volume_id(kHandle);
    request.set_target_path(Target(pod));
    return volumes_->Unpublish(request).status();
  }
  Status Unstage() {
    csi::v1::NodeUnstageVolumeRequest request;
    request.set_volume_id(kHandle);
    request.set_staging_target_path(Staging());
    return volumes_->Unstage(request).status();
  }
  void ExpectNothingIsLeft() {
    EXPECT_THAT(driver_->state().StagingPaths(), IsEmpty());
    EXPECT_THAT(driver_->state().TargetPaths(), IsEmpty());
    EXPECT_THAT(handler_->published(), IsEmpty());
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "records"));
    std::error_code absent;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(paths_.CsiDevices(), absent)) {
      EXPECT_TRUE(entry.is_directory()) << entry.path();
    }
  }
  std::vector<std::string> Told() const {
    std::vector<std::string> told;
    for (const auto& event : events_.events()) told.push_back(event.reason + ": " + event.message);
    return told;
  }
  rpc::crust::RuntimePublishVolumeRequest AskedOfHandler() const {
    return handler_->script().LastRequest<rpc::crust::RuntimePublishVolumeRequest>(
        "RuntimePublishVolume");
  }
  csi::v1::NodePublishVolumeRequest AskedOfDriver() const {
    return driver_->script().LastRequest<csi::v1::NodePublishVolumeRequest>("NodePublishVolume");
  }

  bool stages_ = true;
  const platform::TempFolder folder_;
  const volume::Paths paths_{folder_ / "kubelet"};
  kube::FakeClient client_;
  volume::FakeEventSink events_;
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  std::unique_ptr<rpc::FakeCsiDriver> driver_;
  std::unique_ptr<rpc::FakeCrust> handler_;
  std::optional<platform::Disk> disk_;
  Cluster cluster_{client_, "node-a"};
  node::CrustDeferral deferral_{
      [this](const api::KindInfo& kind, std::string_view ns, std::string_view name) {
        return cluster_.GetObject(kind, ns, name);
      },
      events_,
      {.before_sandbox = true}};
  std::unique_ptr<VolumeRecords> records_;
  std::unique_ptr<rpc::CsiClient> driver_client_;
  std::optional<Volumes> volumes_;
};

}  // namespace berth::crustproxy
