// The fixture for the tests of this room: a host double, a driver double whose mounts show in the
// host's mount table, and the objects of a claim.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "api/kinds/csi_names.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "rpc/fake_csi_driver.h"
#include "volume/csi/csi_plugin.h"
#include "volume/fake_host.h"

namespace berth::volume {

inline constexpr std::string_view kDriver = "fake.csi.example.com";
inline constexpr std::string_view kPodUid = "11111111-2222-3333-4444-555555555555";

class CsiFixture : public testing::Test {
 protected:
  using NodeRpc = csi::v1::NodeServiceCapability::RPC;

  void SetUp() override {
    auto driver = rpc::FakeCsiDriver::Start();
    ASSERT_TRUE(driver.ok()) << driver.status();
    driver_ = *std::move(driver);
    host_.drivers().Register(std::string(kDriver), driver_->socket());
    PutDriver(Json::object());
    ShowMounts<csi::v1::NodeStageVolumeRequest>("NodeStageVolume", true);
    ShowMounts<csi::v1::NodePublishVolumeRequest>("NodePublishVolume", true);
    ShowMounts<csi::v1::NodeUnstageVolumeRequest>("NodeUnstageVolume", false);
    ShowMounts<csi::v1::NodeUnpublishVolumeRequest>("NodeUnpublishVolume", false);
  }

  // A CSIDriver object with this spec.
  void PutDriver(const Json& spec) {
    host_.Put(api::kinds::kCsiDriver, {{"metadata", {{"name", kDriver}}}, {"spec", spec}});
  }

  void PutSecret(const std::string& ns, const std::string& name, const Json& data) {
    host_.Put(api::kinds::kSecret,
              {{"metadata", {{"namespace", ns}, {"name", name}}}, {"data", data}});
  }

  static api::Pod Pod(Json extra_spec = Json::object()) {
    extra_spec["serviceAccountName"] = "builder";
    return api::Pod({{"metadata", {{"name", "web"}, {"namespace", "shop"}, {"uid", kPodUid}}},
                     {"spec", extra_spec}});
  }

  // The PV "pv-1" on volume "vol-1"; `changes` is merged into its spec.
  static VolumeSpec Persistent(const Json& changes = Json::object()) {
    Json spec = {{"accessModes", {"ReadWriteOnce"}},
                 {"csi", {{"driver", kDriver}, {"volumeHandle", "vol-1"}, {"fsType", "ext4"}}}};
    spec.merge_patch(changes);
    return {.name = "data",
            .pod_volume = api::PodVolume({{"name", "data"}}),
            .claim = std::make_shared<api::PersistentVolumeClaim>(),
            .pv = std::make_shared<api::PersistentVolume>(
                Json{{"metadata", {{"name", "pv-1"}}}, {"spec", spec}})};
  }

  static VolumeSpec Inline(const Json& changes = Json::object()) {
    Json source = {{"driver", kDriver}};
    source.merge_patch(changes);
    return {.name = "scratch",
            .pod_volume = api::PodVolume({{"name", "scratch"}, {"csi", source}})};
  }

  DeviceRecord DeviceRecordOf(const VolumeSpec& spec) {
    const auto state = plugin_->DeviceState(spec);
    EXPECT_TRUE(state.ok()) << state.status();
    return {.plugin = "kubernetes.io/csi",
            .device_name = plugin_->DeviceName(spec)->value(),
            .pv_name = spec.pv->name(),
            .state = *state};
  }

  PodVolumeRecord PodRecordOf(const VolumeSpec& spec, const api::Pod& pod = Pod()) {
    const auto state = plugin_->PodState(pod, spec);
    EXPECT_TRUE(state.ok()) << state.status();
    return {.plugin = "kubernetes.io/csi",
            .pod_uid = pod.uid(),
            .folder_name = spec.folder_name(),
            .block = spec.block(),
            .state = *state};
  }

  std::vector<std::string> NodeCalls() {
    std::vector<std::string> calls = driver_->script().Methods();
    std::erase(calls, "NodeGetCapabilities");
    return calls;
  }

  template <typename Request>
  Request Last(const std::string& method) {
    return driver_->script().LastRequest<Request>(method);
  }

  std::string Path(const std::string& below_kubelet) { return folder_ / below_kubelet; }
  bool Exists(const std::string& below_kubelet) {
    return std::filesystem::exists(std::filesystem::symlink_status(Path(below_kubelet)));
  }
  Json ReadJson(const std::string& below_kubelet) {
    const auto text = platform::ReadFile(Path(below_kubelet));
    EXPECT_TRUE(text.ok()) << text.status();
    return text.ok() ? *base::json::Parse(*text) : Json();
  }
  void WriteJson(const std::string& below_kubelet, const Json& value) {
    ASSERT_TRUE(platform::WriteDurably<"test.file">(Path(below_kubelet), value.dump()).ok());
  }

  // Makes reading the vol_data.json in `folder` fail (ELOOP) although it is whole, until it is
  // shown again.
  void HideRecord(const std::string& folder) {
    const std::string file = Path(folder + "/vol_data.json");
    std::filesystem::rename(file, Path("hidden"));
    std::filesystem::create_symlink(file, file);
  }
  void ShowRecord(const std::string& folder) {
    std::filesystem::rename(Path("hidden"), Path(folder + "/vol_data.json"));
  }

  platform::TempFolder folder_;
  FakeHost host_{folder_.path()};
  std::unique_ptr<rpc::FakeCsiDriver> driver_;
  std::unique_ptr<VolumePlugin> plugin_ = NewCsiPlugin(host_);

 private:
  static std::string PathIn(const csi::v1::NodeStageVolumeRequest& r) {
    return r.staging_target_path();
  }
  static std::string PathIn(const csi::v1::NodeUnstageVolumeRequest& r) {
    return r.staging_target_path();
  }
  static std::string PathIn(const csi::v1::NodePublishVolumeRequest& r) { return r.target_path(); }
  static std::string PathIn(const csi::v1::NodeUnpublishVolumeRequest& r) {
    return r.target_path();
  }

  // Makes the driver's calls show in the host's mount table, once for each path.
  template <typename Request>
  void ShowMounts(const std::string& method, bool mounts) {
    driver_->script().AfterEffect(method, [this, mounts](const google::protobuf::Message& message) {
      const auto& request = dynamic_cast<const Request&>(message);
      const std::string path = PathIn(request);
      FakeMounter& mounter = host_.fake_mounter();
      if (!mounts) return mounter.Unmount(path);
      std::vector<std::string> options;
      if constexpr (requires { request.readonly(); }) {
        if (request.readonly()) options.push_back("ro");
      }
      if constexpr (requires { request.readonly(); }) {
        // The volume's id determines its device.
        if (request.volume_capability().has_block()) {
          host_.SetDevice(path, std::hash<std::string>()(request.volume_id()));
        }
      }
      if (!mounter.IsMounted(path)) {
        mounter.Add(path, "ext4", "/dev/" + request.volume_id(), options);
      }
      return base::OkStatus();
    });
  }
};

}  // namespace berth::volume
