// What the tests of Flexvolume's plugin stand on: a driver that answers what a test wants, and a
// host that shows what it mounted.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>

#include "base/fake_faults.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "volume/fake_host.h"
#include "volume/flex/fake_flex_driver.h"
#include "volume/flex/flex_plugin.h"

namespace berth::volume {

inline constexpr char kSuccess[] = R"({"status": "Success"})";
inline constexpr char kFailure[] = R"({"status": "Failure", "message": "broken"})";
inline constexpr char kNotSupported[] = R"({"status": "Not supported"})";

// A driver whose mounts show in the host's table. What it says to a command a test may change.
class FlexPluginTest : public testing::Test {
 protected:
  FlexPluginTest() {
    SetVersion("1");
    host_.fake_exec().SetAnswer(
        [this](const platform::Command& command) { return AnswerCommand(command); });
    says_["init"] = R"({"status": "Success", "capabilities": {"attach": false}})";
    Make();
  }

  base::StatusOr<platform::CommandResult> AnswerCommand(const platform::Command& command) {
    const std::string id = std::filesystem::path(command.argv[0]).parent_path().filename();
    const std::string& verb = command.argv[1];
    calls_.push_back(id + " " + verb);
    if (const auto failure = fails_.find(verb); failure != fails_.end()) return failure->second;
    const auto said = says_.find(verb);
    const std::string reply = said == says_.end() ? kSuccess : said->second;
    if (reply != kNotSupported && (reply != kFailure || mounts_and_fails_)) Do(command.argv);
    return platform::CommandResult{.exit_code = 0, .out = reply, .err = ""};
  }

  void Do(const std::vector<std::string>& argv) {
    if (argv[1] == "mount" || argv[1] == "mountdevice") {
      host_.fake_mounter().Add(argv[2], "ext4", "/dev/loop7");
    }
    if (argv[1] == "unmount" || argv[1] == "unmountdevice") {
      EXPECT_TRUE(host_.fake_mounter().Unmount(argv[2]).ok());
    }
  }

  void SetVersion(const std::string& id) {
    driver_->Set(
        DriverVersion{.driver = "acme/nfs", .executable = "/copies/" + id + "/nfs", .id = id});
  }
  // As the prober does for another executable.
  void Make() { plugin_ = std::make_unique<FlexPlugin>(host_, driver_, versions_); }
  void Init() {
    const base::Status inited = plugin_->Init();
    ASSERT_TRUE(inited.ok()) << inited;
    calls_.clear();
  }
  void InitAttachable() {
    says_["init"] = kSuccess;
    Init();
  }

  static api::Pod Pod(const std::string& uid = "u-1") {
    return api::Pod({{"metadata", {{"name", "web"}, {"namespace", "shop"}, {"uid", uid}}},
                     {"spec", Json::object()}});
  }
  static VolumeSpec Inline(Json source = Json::object()) {
    source["driver"] = "acme/nfs";
    return {.name = "data",
            .pod_volume = api::PodVolume({{"name", "data"}, {"flexVolume", std::move(source)}})};
  }
  static VolumeSpec Persistent(Json source = Json::object()) {
    source["driver"] = "acme/nfs";
    return {.name = "data",
            .pod_volume = api::PodVolume(Json{{"name", "data"}}),
            .claim = std::make_shared<api::PersistentVolumeClaim>(
                Json{{"status", {{"capacity", {{"storage", "1Ki"}}}}}}),
            .pv = std::make_shared<api::PersistentVolume>(Json{
                {"metadata", {{"name", "pv-1"}}}, {"spec", {{"flexVolume", std::move(source)}}}})};
  }
  std::string PodFolder(const std::string& volume, const std::string& uid = "u-1") const {
    return folder_ / ("pods/" + uid + "/volumes/acme~nfs/" + volume);
  }
  std::string DeviceFolder(const std::string& volume) const {
    return folder_ / ("plugins/kubernetes.io/flexvolume/acme/nfs/mounts/" + volume);
  }
  PodVolumeRecord RecordOf(const VolumeSpec& spec, const std::string& uid = "u-1") {
    return {.plugin = "acme/nfs",
            .pod_uid = uid,
            .folder_name = spec.folder_name(),
            .state = *plugin_->PodState(Pod(uid), spec)};
  }
  DeviceRecord DeviceRecordOf(const VolumeSpec& spec) {
    return {.plugin = "acme/nfs",
            .device_name = **plugin_->DeviceName(spec),
            .pv_name = spec.pv != nullptr ? spec.pv->name() : "",
            .state = *plugin_->DeviceState(spec)};
  }
  bool IsMounted(const std::string& folder) { return host_.fake_mounter().IsMounted(folder); }
  bool Exists(const std::string& path) { return std::filesystem::exists(path); }

  const platform::TempFolder folder_;
  FakeHost host_{folder_.path()};
  const std::shared_ptr<FakeFlexDriver> driver_ = std::make_shared<FakeFlexDriver>("acme/nfs");
  const std::shared_ptr<FakeDriverVersions> versions_ = std::make_shared<FakeDriverVersions>();
  std::map<std::string, std::string> says_;
  std::map<std::string, base::Status> fails_;
  std::vector<std::string> calls_;  // "VERSION COMMAND"
  bool mounts_and_fails_ = false;
  std::unique_ptr<FlexPlugin> plugin_;
};

}  // namespace berth::volume
