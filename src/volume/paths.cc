#include "volume/paths.h"

#include <fmt/format.h>

#include "base/ids.h"

namespace berth::volume {
namespace {

std::string Escaped(std::string_view plugin) {
  std::string out(plugin);
  for (char& c : out) {
    if (c == '/') c = '~';
  }
  return out;
}

constexpr std::string_view kCsi = "plugins/kubernetes.io/csi";
constexpr std::string_view kLocal = "kubernetes.io/local-volume";
constexpr std::string_view kFlex = "kubernetes.io/flexvolume";

}  // namespace

std::string Paths::PluginsRegistry() const { return fmt::format("{}/plugins_registry", root_); }

std::string Paths::Plugins() const { return fmt::format("{}/plugins", root_); }

std::string Paths::PluginFolder(std::string_view plugin) const {
  return fmt::format("{}/{}", Plugins(), plugin);
}

std::string Paths::PluginSocket(std::string_view driver) const {
  return fmt::format("{}/plugins/{}/csi.sock", root_, driver);
}

std::string Paths::PluginContainers() const { return fmt::format("{}/plugin-containers", root_); }

std::string Paths::PluginContainerFile(std::string_view plugin) {
  return Escaped(plugin) + ".json";
}

std::string Paths::PluginRuns() const { return fmt::format("{}/plugin-runs", root_); }

std::string Paths::Pods() const { return fmt::format("{}/pods", root_); }

std::string Paths::Pod(std::string_view pod_uid) const {
  return fmt::format("{}/pods/{}", root_, pod_uid);
}

std::string Paths::PodVolumes(const api::PodUid& pod, std::string_view plugin) const {
  return fmt::format("{}/volumes/{}", Pod(pod.text()), Escaped(plugin));
}

std::string Paths::PodVolume(const api::PodUid& pod, std::string_view plugin,
                             const api::VolumeName& volume) const {
  return fmt::format("{}/{}", PodVolumes(pod, plugin), volume.text());
}

std::string Paths::PodDeviceLink(const api::PodUid& pod, std::string_view plugin,
                                 const api::VolumeName& volume) const {
  return fmt::format("{}/volumeDevices/{}/{}", Pod(pod.text()), Escaped(plugin), volume.text());
}

std::string Paths::PodSubPaths(std::string_view pod_uid) const {
  return fmt::format("{}/volume-subpaths", Pod(pod_uid));
}

std::string Paths::PodSubPath(const api::PodUid& pod, const api::VolumeName& volume,
                              std::string_view container, int index) const {
  return fmt::format("{}/{}/{}/{}", PodSubPaths(pod.text()), volume.text(), container, index);
}

std::string Paths::PodEtcHosts(std::string_view pod_uid) const {
  return fmt::format("{}/etc-hosts", Pod(pod_uid));
}

std::string Paths::ContainerFolder(const api::PodUid& pod, std::string_view container) const {
  return fmt::format("{}/containers/{}", Pod(pod.text()), container);
}

std::string Paths::CsiDevices() const { return fmt::format("{}/{}", root_, kCsi); }

std::string Paths::CsiDevice(std::string_view driver, const api::VolumeHandle& handle) const {
  return fmt::format("{}/{}/{}/{}", root_, kCsi, driver, base::Sha256Hex(handle.text()));
}

platform::StagingPath Paths::CsiGlobalMount(std::string_view driver,
                                            const api::VolumeHandle& handle) const {
  return platform::StagingPath(fmt::format("{}/globalmount", CsiDevice(driver, handle)));
}

platform::StagingPath Paths::CsiBlockStaging(std::string_view pv) const {
  return platform::StagingPath(
      fmt::format("{}/{}/{}/staging/{}", root_, kCsi, kCsiBlockFolder, pv));
}

std::string Paths::CsiBlockPublishedVolumes() const {
  return fmt::format("{}/{}/{}/publish", root_, kCsi, kCsiBlockFolder);
}

std::string Paths::CsiBlockPublished(std::string_view pv) const {
  return fmt::format("{}/{}", CsiBlockPublishedVolumes(), pv);
}

platform::TargetPath Paths::CsiBlockPublish(const api::VolumeName& pv,
                                            const api::PodUid& pod) const {
  return platform::TargetPath(fmt::format("{}/{}", CsiBlockPublished(pv.text()), pod.text()));
}

std::string Paths::CsiBlockData(std::string_view pv) const {
  return fmt::format("{}/{}/{}/{}/data", root_, kCsi, kCsiBlockFolder, pv);
}

std::string Paths::LocalMounts() const { return fmt::format("{}/mounts", PluginFolder(kLocal)); }

std::string Paths::LocalMount(std::string_view pv) const {
  return fmt::format("{}/{}", LocalMounts(), pv);
}

std::string Paths::PublishedDevices(std::string_view plugin) const {
  return fmt::format("{}/volumeDevices", PluginFolder(plugin));
}

std::string Paths::PublishedDevice(std::string_view plugin, const api::VolumeName& volume,
                                   const api::PodUid& pod) const {
  return fmt::format("{}/{}/{}", PublishedDevices(plugin), volume.text(), pod.text());
}

std::string Paths::DiskMounts(std::string_view plugin) const {
  return fmt::format("{}/mounts", PluginFolder(plugin));
}

platform::StagingPath Paths::DiskMount(std::string_view plugin, std::string_view digest) const {
  return platform::StagingPath(fmt::format("{}/{}", DiskMounts(plugin), digest));
}

std::string Paths::DiskMarks(std::string_view plugin) const {
  return fmt::format("{}/disks", PluginFolder(plugin));
}

std::string Paths::DiskMark(std::string_view plugin, std::string_view digest) const {
  return fmt::format("{}/{}.json", DiskMarks(plugin), digest);
}

std::string Paths::FlexDrivers() const { return PluginFolder(kFlex) + "/.drivers"; }

std::string Paths::FlexAttachDrivers() const { return PluginFolder(kFlex) + "/.attachers"; }

std::string Paths::FlexMounts(std::string_view driver) const {
  return fmt::format("{}/{}/mounts", PluginFolder(kFlex), driver);
}

platform::StagingPath Paths::FlexMount(std::string_view driver,
                                       const api::VolumeName& volume) const {
  return platform::StagingPath(fmt::format("{}/{}", FlexMounts(driver), volume.text()));
}

std::string Paths::FlexMarks(std::string_view driver) const {
  return fmt::format("{}/{}/volumes", PluginFolder(kFlex), driver);
}

std::string Paths::FlexMark(std::string_view driver, const api::VolumeName& volume) const {
  return fmt::format("{}/{}.json", FlexMarks(driver), volume.text());
}

}  // namespace berth::volume
