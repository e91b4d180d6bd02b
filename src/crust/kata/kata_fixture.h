// What KataCalls works on, in folders of its own: loop devices, a kubelet's folder, and the files
// of containerd and of Kata, which a test makes as these would; for *_root_test.cc.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/assert_ok.h"
#include "base/base64.h"
#include "base/json.h"
#include "base/unique_fd.h"
#include "crust/kata/kata_calls.h"
#include "crust/kata/kata_offer.h"
#include "platform/devices/loop_device.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"

namespace berth::crust::kata {

inline constexpr int64_t kMiB = 1024 * 1024;

// The folders, and the calls on them. A test may fork it.
class KataPlace {
 public:
  explicit KataPlace(std::string folder) : folder_(std::move(folder)) {
    options_.data_folder = folder_ + "/data";
    options_.kata_run = folder_ + "/run";
    options_.bundles = folder_ + "/bundles";
    options_.kubelet_folder = folder_ + "/kubelet";
    options_.offer = {.capabilities = ListCapabilities(KataRuntime::kGo),
                      .file_systems = {"ext4", "xfs"}};
    options_.check_interval = std::chrono::milliseconds(50);
    options_.free_within = std::chrono::milliseconds(500);
    options_.stats_time = std::chrono::seconds(20);
  }

  base::Status Start() {
    calls_.reset();
    std::filesystem::create_directories(options_.bundles);
    ASSIGN_OR_RETURN(calls_, KataCalls::Start(options_, *mounter_));
    return base::OkStatus();
  }
  void Stop() { calls_.reset(); }
  KataCalls& calls() { return *calls_; }
  KataCallsOptions& options() { return options_; }

  // What containerd and Kata make for a sandbox.
  void MakeSandbox(const std::string& id, const std::string& pod,
                   KataRuntime runtime = KataRuntime::kGo) {
    std::filesystem::create_directories(SandboxFolder(id, runtime));
    const std::string bundle = options_.bundles + "/" + id;
    std::filesystem::create_directories(bundle);
    const base::Json config = {{"annotations",
                                {{"io.kubernetes.cri.container-type", "sandbox"},
                                 {"io.kubernetes.cri.sandbox-id", id},
                                 {"io.kubernetes.cri.sandbox-uid", pod}}}};
    std::ofstream(bundle + "/config.json") << config;
  }
  void EndSandbox(const std::string& id) {
    std::filesystem::remove_all(SandboxFolder(id, KataRuntime::kGo));
    std::filesystem::remove_all(SandboxFolder(id, KataRuntime::kRust));
    std::filesystem::remove_all(options_.bundles + "/" + id);
  }
  std::string SandboxFolder(const std::string& id, KataRuntime runtime) const {
    return options_.kata_run + (runtime == KataRuntime::kGo ? "/vc/sbs/" : "/kata/") + id;
  }
  // What Kata makes when a container of the sandbox gets the volume.
  void NoteContainer(const std::string& target, const std::string& sandbox) {
    std::ofstream(VolumeFolder(target) + "/" + sandbox) << "";
  }

  std::string Target(const std::string& pod, const std::string& volume) {
    const std::string target =
        fmt::format("{}/pods/{}/volumes/c/{}", options_.kubelet_folder, pod, volume);
    std::filesystem::create_directories(target);
    return target;
  }
  std::string VolumeFolder(const std::string& target) const {
    std::string name = base::EncodeBase64Url(target);
    while (name.size() % 4 != 0) name += '=';
    return options_.kata_run + "/kata-containers/shared/direct-volumes/" + name;
  }
  // What Kata is told of the volume; null: nothing.
  base::Json ReadMountInfo(const std::string& target) const {
    const auto text = platform::ReadFile(VolumeFolder(target) + "/mountInfo.json");
    return text.ok() ? base::Json::parse(*text) : base::Json();
  }
  platform::Mounter& mounter() { return *mounter_; }

 private:
  const std::string folder_;
  KataCallsOptions options_;
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  std::unique_ptr<KataCalls> calls_;
};

class KataFixture : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(place_.Start());
    place_.MakeSandbox("s1", "u1");
  }
  void TearDown() override {
    place_.Stop();
    const auto table = place_.mounter().List();
    ASSERT_OK(table);
    for (const auto& mount : *table) {
      EXPECT_FALSE(mount.mount_point.starts_with(folder_.path() + "/")) << mount.mount_point;
    }
    for (const platform::LoopDevice& loop : loops_) EXPECT_TRUE(platform::DetachLoop(loop).ok());
  }

  std::string MakeDevice(const std::string& type = "ext4", int64_t bytes = 16 * kMiB) {
    const auto loop =
        platform::AttachLoop(folder_.SparseFile(fmt::format("image{}", loops_.size()), bytes), {});
    EXPECT_TRUE(loop.ok());
    loops_.push_back(*loop);
    if (!type.empty()) {
      EXPECT_TRUE(platform::FindFileSystem(type)->Format(*exec_, loop->path, {}).ok());
    }
    return loop->path;
  }

  wire::RuntimePublishVolumeRequest PublishRequest(const std::string& device,
                                                   const std::string& volume = "pv") {
    wire::RuntimePublishVolumeRequest request;
    request.set_sandbox_id("s1");
    request.set_host_volume_id(device);
    request.set_host_target_path(place_.Target("u1", volume));
    request.set_file_system("ext4");
    return request;
  }
  wire::RuntimePublishVolumeRequest PodRequest(const std::string& device,
                                               const std::string& volume = "pv") {
    wire::RuntimePublishVolumeRequest request = PublishRequest(device, volume);
    request.clear_sandbox_id();
    request.set_pod_uid("u1");
    return request;
  }
  base::Status Publish(const wire::RuntimePublishVolumeRequest& request) {
    return place_.calls().RuntimePublishVolume(request).status();
  }
  // Unpublishes what was published with this request.
  base::Status Unpublish(const wire::RuntimePublishVolumeRequest& published) {
    wire::RuntimeUnpublishVolumeRequest request;
    request.set_sandbox_id(published.sandbox_id());
    request.set_pod_uid(published.pod_uid());
    request.set_host_volume_id(published.host_volume_id());
    request.set_host_target_path(published.host_target_path());
    return place_.calls().RuntimeUnpublishVolume(request).status();
  }
  base::StatusOr<wire::RuntimeGetVolumeStatsResponse> AskStats(
      const wire::RuntimePublishVolumeRequest& published) {
    wire::RuntimeGetVolumeStatsRequest request;
    request.set_sandbox_id(published.sandbox_id());
    request.set_pod_uid(published.pod_uid());
    request.set_host_volume_id(published.host_volume_id());
    return place_.calls().RuntimeGetVolumeStats(request);
  }
  base::StatusOr<wire::RuntimeExpandVolumeResponse> Expand(
      const wire::RuntimePublishVolumeRequest& published, int64_t bytes) {
    wire::RuntimeExpandVolumeRequest request;
    request.set_sandbox_id(published.sandbox_id());
    request.set_pod_uid(published.pod_uid());
    request.set_host_volume_id(published.host_volume_id());
    request.set_required_bytes(bytes);
    return place_.calls().RuntimeExpandVolume(request);
  }
  // As a virtual machine has it.
  static base::UniqueFd Open(const std::string& device) {
    return base::UniqueFd(open(device.c_str(), O_RDONLY | O_CLOEXEC));
  }
  bool HasNoRecord() { return std::filesystem::is_empty(folder_ / "data/pods"); }

  const platform::TempFolder folder_;
  KataPlace place_{folder_.path()};
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  std::vector<platform::LoopDevice> loops_;
};

}  // namespace berth::crust::kata
