#include "volume/csi/find_volumes.h"

#include "api/kinds/csi_names.h"
#include "base/log.h"
#include "volume/csi/vol_data.h"
#include "volume/found_volumes.h"

namespace berth::volume::csi_volume {
namespace {

using base::Quote;
using base::json::String;

// Makes the state in the form that ToJson in csi_volume.h gives it.
Json MakeState(const Json& data, bool block) {
  return {{"driver", String(data, {"driverName"})},
          {"volumeHandle", String(data, {"volumeHandle"})},
          {"block", block}};
}

std::string DeviceNameOf(const Json& data) {
  return api::UniqueVolumeName(String(data, {"driverName"}),
                               api::VolumeHandle(String(data, {"volumeHandle"})));
}

// Returns the folder's record; nullopt: it has none, or the record is of no CSI volume.
std::optional<Json> ReadData(const std::string& folder) {
  auto data = ReadVolData(folder);
  if (data.ok() && !data->has_value()) return std::nullopt;
  const Status status = data.ok() ? ReadRecord(MakeState(**data, false)).status() : data.status();
  if (status.ok()) return *std::move(*data);
  LOG_WARNING("cannot tell which volume is in {}: {}", Quote(folder), base::ToString(status));
  return std::nullopt;
}

Status FindStaged(const Paths& paths, VolumePlugin::Found& found) {
  ASSIGN_OR_RETURN(const auto drivers, ListNames(paths.CsiDevices()));
  for (const std::string& driver : drivers) {
    if (driver == Paths::kCsiBlockFolder) continue;
    const std::string below = fmt::format("{}/{}", paths.CsiDevices(), driver);
    // A file of another program may be beside the drivers' folders.
    const auto digests = ListNames(below);
    if (!digests.ok()) continue;
    for (const std::string& digest : *digests) {
      const std::string folder = fmt::format("{}/{}", below, digest);
      const std::optional<Json> data = ReadData(folder);
      if (!data.has_value()) continue;
      const Json state = MakeState(*data, false);
      if (paths.CsiDevice(String(state, {"driver"}),
                          api::VolumeHandle(String(state, {"volumeHandle"}))) != folder) {
        LOG_WARNING("the record in {} names a volume that does not belong there", Quote(folder));
        continue;
      }
      found.devices.push_back({.plugin = std::string(kPluginName),
                               .device_name = DeviceNameOf(*data),
                               .pv_name = "",
                               .state = state});
    }
  }
  return base::OkStatus();
}

Status FindPublished(const Paths& paths, VolumePlugin::Found& found) {
  ASSIGN_OR_RETURN(const auto volumes, FindPodFolders(paths, kPluginName));
  for (PodVolumeRecord volume : volumes) {
    const std::optional<Json> data = ReadData(paths.PodVolume(
        api::PodUid(volume.pod_uid), kPluginName, api::VolumeName(volume.folder_name)));
    if (!data.has_value()) continue;
    volume.state = MakeState(*data, false);
    if (String(*data, {"volumeLifecycleMode"}) != "Ephemeral") {
      volume.device_name = DeviceNameOf(*data);
    }
    found.pod_volumes.push_back(std::move(volume));
  }
  return base::OkStatus();
}

Status FindBlock(const Paths& paths, VolumePlugin::Found& found) {
  ASSIGN_OR_RETURN(const auto names,
                   ListNames(fmt::format("{}/{}", paths.CsiDevices(), Paths::kCsiBlockFolder)));
  for (const std::string& pv : names) {
    const std::optional<Json> data = ReadData(paths.CsiBlockData(pv));
    if (!data.has_value()) continue;
    const Json state = MakeState(*data, true);
    found.devices.push_back({.plugin = std::string(kPluginName),
                             .device_name = DeviceNameOf(*data),
                             .pv_name = pv,
                             .state = state});
    ASSIGN_OR_RETURN(const auto uids, ListNames(paths.CsiBlockPublished(pv)));
    for (const std::string& uid : uids) {
      found.pod_volumes.push_back({.plugin = std::string(kPluginName),
                                   .device_name = DeviceNameOf(*data),
                                   .pod_uid = uid,
                                   .folder_name = pv,
                                   .block = true,
                                   .state = state});
    }
  }
  return base::OkStatus();
}

}  // namespace

StatusOr<VolumePlugin::Found> FindVolumes(const Paths& paths) {
  VolumePlugin::Found found;
  RETURN_IF_ERROR(FindStaged(paths, found));
  RETURN_IF_ERROR(FindPublished(paths, found));
  RETURN_IF_ERROR(FindBlock(paths, found));
  return found;
}

}  // namespace berth::volume::csi_volume
