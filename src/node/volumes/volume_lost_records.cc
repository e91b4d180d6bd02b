#include "node/volumes/volume_lost_records.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/log.h"
#include "node/volumes/sub_path.h"

namespace berth::node {

using base::StatusOr;

namespace {

using PodVolumeKey = std::tuple<std::string, std::string, std::string>;

PodVolumeKey KeyOf(const volume::PodVolumeRecord& record) {
  return {record.pod_uid, record.plugin, record.folder_name};
}

}  // namespace

StatusOr<std::vector<std::string>> AddLostRecords(const volume::PluginList& plugins,
                                                  const volume::Paths& paths,
                                                  const std::string& boot_id,
                                                  VolumeRecords::Loaded& loaded) {
  std::set<std::string> devices;
  std::set<PodVolumeKey> pod_volumes;
  for (const StoredDevice& device : loaded.devices) devices.insert(device.record.device_name);
  for (const StoredPodVolume& volume : loaded.pod_volumes) {
    pod_volumes.insert(KeyOf(volume.record));
  }
  std::vector<std::string> lost;
  for (const auto& plugin : plugins) {
    ASSIGN_OR_RETURN(volume::VolumePlugin::Found found, plugin->FindOnNode());
    for (volume::DeviceRecord& device : found.devices) {
      if (!devices.insert(device.device_name).second) continue;
      lost.push_back(fmt::format("volume {}", base::Quote(device.device_name)));
      // It is not known whether the volume was attached, so it is treated as attached.
      loaded.devices.push_back({.record = std::move(device),
                                .step = Step::kMounting,
                                .needs_attach = true,
                                .boot_id = boot_id});
    }
    for (volume::PodVolumeRecord& volume : found.pod_volumes) {
      if (!pod_volumes.insert(KeyOf(volume)).second) continue;
      lost.push_back(fmt::format("volume {} of pod {}", base::Quote(volume.folder_name),
                                 base::Quote(volume.pod_uid)));
      StoredPodVolume stored{.step = Step::kMounting, .boot_id = boot_id};
      // The pod's names for the volume are lost, too, so all of the pod's subPath mounts are
      // removed first.
      ASSIGN_OR_RETURN(stored.names, ReadSubPathVolumes(paths, volume.pod_uid));
      if (!volume.device_name.empty()) {
        stored.pv_name = volume.folder_name;
        stored.device_state = volume.state;
        stored.needs_attach = true;
      }
      stored.record = std::move(volume);
      loaded.pod_volumes.push_back(std::move(stored));
    }
  }
  return lost;
}

}  // namespace berth::node
