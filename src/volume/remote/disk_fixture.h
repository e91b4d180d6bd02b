// Disks of a network for this room's tests: the devices are loop devices, and the utilities are a
// double that the test gives (FakeExec). Mounts are entries of a table.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "platform/files/fake_temp_folder.h"
#include "volume/fake_host.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

class DiskTest : public testing::Test {
 protected:
  // Makes the spec of a pod's volume, or with `pv` that of a PersistentVolume.
  static VolumeSpec Spec(const Json& source, const std::string& pv = "") {
    if (pv.empty()) {
      Json json = source;
      json["name"] = "vol";
      return {.name = "vol", .pod_volume = api::PodVolume(json), .pod_ns = "shop"};
    }
    return {.name = "vol",
            .pv = std::make_shared<api::PersistentVolume>(
                Json{{"metadata", {{"name", pv}}}, {"spec", source}}),
            .pod_ns = "shop"};
  }
  static DeviceRecord DeviceOf(VolumePlugin& plugin, const VolumeSpec& spec) {
    return {.plugin = std::string(plugin.name()),
            .device_name = **plugin.DeviceName(spec),
            .pv_name = spec.pv != nullptr ? spec.pv->name() : "",
            .state = *plugin.DeviceState(spec)};
  }
  static PodVolumeRecord RecordOf(VolumePlugin& plugin, const VolumeSpec& spec,
                                  const std::string& uid = "u-1") {
    return {.plugin = std::string(plugin.name()),
            .device_name = **plugin.DeviceName(spec),
            .pod_uid = uid,
            .folder_name = spec.folder_name(),
            .block = spec.block(),
            .state = Json::object()};
  }
  // A file that stands for a block device.
  std::string MakeDevice(const std::string& name, dev_t number) {
    const std::string path = folder_ / name;
    std::ofstream(path).close();
    std::filesystem::resize_file(path, 64 << 20);
    host_.SetDevice(path, number);
    return path;
  }
  // The commands that ran, one a line.
  std::vector<std::string> Lines() {
    std::vector<std::string> lines;
    for (const platform::Command& command : host_.fake_exec().commands()) {
      lines.push_back(fmt::format("{}", fmt::join(command.argv, " ")));
    }
    return lines;
  }

  const platform::TempFolder folder_;
  FakeHost host_{folder_ / "kubelet"};
  const api::Pod pod_{Json{{"metadata", {{"namespace", "shop"}, {"name", "web"}, {"uid", "u-1"}}}}};
};

}  // namespace berth::volume
