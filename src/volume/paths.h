// The kubelet's folders for volumes. No other file spells out these paths.
//
//   <kubelet>/                               /var/lib/kubelet, or <data>/kubelet in standalone
//     plugins_registry/                      registration sockets of plugins
//     plugins/<driver>/csi.sock              drivers' sockets
//     plugin-containers/<plugin~>.json       pods that run a plugin's utilities (volume/exec)
//     plugin-runs/                           a tmpfs: what such a run reads and writes
//     plugins/kubernetes.io/csi/<driver>/<sha256 of handle>/
//         vol_data.json, globalmount/        staged CSI file systems
//     plugins/kubernetes.io/csi/volumeDevices/
//         staging/<pv>  publish/<pv>/<pod uid>  <pv>/data/vol_data.json
//     plugins/kubernetes.io/local-volume/
//         mounts/<pv>/                       file systems on local devices
//         volumeDevices/<pv>/<pod uid>       local devices published as such
//     plugins/kubernetes.io/{rbd,iscsi,fc}/
//         mounts/<digest>/                   file systems on disks of a network
//         disks/<digest>.json                which disk is mapped on this node
//         volumeDevices/<volume>/<pod uid>   disks published as such
//     plugins/kubernetes.io/flexvolume/<driver>/     <driver>: "vendor/driver" or "driver"
//         mounts/<volume>/                       devices that pods share
//         volumes/<volume>.json                  which volume is mounted there
//     plugins/kubernetes.io/flexvolume/.drivers/     the copies of drivers that are run
//     plugins/kubernetes.io/flexvolume/.attachers/   those that controllers run
//     plugins/kubernetes.io/glusterfs/<volume>/<pod uid>-glusterfs.log
//     pods/<uid>/
//         volumes/<plugin~>/<volume>/            one folder per volume; CSI: mount/, vol_data.json
//         volumeDevices/<plugin~>/<pv>           symlink to the published device
//         volume-subpaths/<volume>/<container>/<index>
//         etc-hosts, containers/<name>/          termination messages
//   <plugin~> is the plugin's name with '~' in place of '/'. Parts of paths come from API objects
//   whose names were validated as DNS names, or are digests, so that no part can hold '/' or be
//   "..".
#pragma once

#include <string>
#include <string_view>

#include "api/kinds/object_ids.h"
#include "platform/mounts/mount_paths.h"

namespace berth::volume {

class Paths {
 public:
  explicit Paths(std::string kubelet_folder) : root_(std::move(kubelet_folder)) {}

  const std::string& root() const { return root_; }
  std::string PluginsRegistry() const;
  std::string Plugins() const;
  // The folder of an in-tree plugin ("kubernetes.io/glusterfs"), for files that belong to no single
  // pod.
  std::string PluginFolder(std::string_view plugin) const;
  std::string PluginSocket(std::string_view driver) const;
  std::string PluginContainers() const;
  // The name of the registration file in that folder.
  static std::string PluginContainerFile(std::string_view plugin);
  std::string PluginRuns() const;
  std::string Pods() const;
  std::string Pod(std::string_view pod_uid) const;
  std::string PodVolumes(const api::PodUid& pod, std::string_view plugin) const;
  std::string PodVolume(const api::PodUid& pod, std::string_view plugin,
                        const api::VolumeName& volume) const;
  std::string PodDeviceLink(const api::PodUid& pod, std::string_view plugin,
                            const api::VolumeName& volume) const;
  std::string PodSubPaths(std::string_view pod_uid) const;
  std::string PodSubPath(const api::PodUid& pod, const api::VolumeName& volume,
                         std::string_view container, int index) const;
  std::string PodEtcHosts(std::string_view pod_uid) const;
  std::string ContainerFolder(const api::PodUid& pod, std::string_view container) const;
  // The folders of CSI drivers, and beside them that of raw block volumes.
  std::string CsiDevices() const;
  static constexpr std::string_view kCsiBlockFolder = "volumeDevices";
  // The folder that holds vol_data.json and globalmount.
  std::string CsiDevice(std::string_view driver, const api::VolumeHandle& handle) const;
  platform::StagingPath CsiGlobalMount(std::string_view driver,
                                       const api::VolumeHandle& handle) const;
  platform::StagingPath CsiBlockStaging(std::string_view pv) const;
  // The folder that holds, for each volume, the folder of its published devices.
  std::string CsiBlockPublishedVolumes() const;
  std::string CsiBlockPublished(std::string_view pv) const;
  platform::TargetPath CsiBlockPublish(const api::VolumeName& pv, const api::PodUid& pod) const;
  std::string CsiBlockData(std::string_view pv) const;
  // Local volumes: the folder of the devices' mounts, and one mount in it.
  std::string LocalMounts() const;
  std::string LocalMount(std::string_view pv) const;
  // Devices of an in-tree plugin that are published as such: the folder that holds a folder for
  // each volume, and the place of one for a pod.
  std::string PublishedDevices(std::string_view plugin) const;
  std::string PublishedDevice(std::string_view plugin, const api::VolumeName& volume,
                              const api::PodUid& pod) const;
  // Disks of a network (rbd, iscsi, fc), by the digest of their names: the folder of their mounts,
  // the folder of their marks, and one of each.
  std::string DiskMounts(std::string_view plugin) const;
  platform::StagingPath DiskMount(std::string_view plugin, std::string_view digest) const;
  std::string DiskMarks(std::string_view plugin) const;
  std::string DiskMark(std::string_view plugin, std::string_view digest) const;
  // Flexvolumes: the copies of drivers that are run on the node and by controllers, the folder of a
  // driver's device mounts, one mount in it, and the mark of that mount.
  std::string FlexDrivers() const;
  std::string FlexAttachDrivers() const;
  std::string FlexMounts(std::string_view driver) const;
  platform::StagingPath FlexMount(std::string_view driver, const api::VolumeName& volume) const;
  std::string FlexMarks(std::string_view driver) const;
  std::string FlexMark(std::string_view driver, const api::VolumeName& volume) const;

 private:
  std::string root_;
};

}  // namespace berth::volume
