// The common part of plugins whose volumes are each used by one pod, in one folder of that pod,
// without a device that pods share: the local ones and the network file systems.
#pragma once

#include <string>
#include <string_view>

#include "volume/host.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

class PodVolumePlugin : public VolumePlugin {
 public:
  // `name` and `source_type` are literals: "kubernetes.io/empty-dir", "emptyDir".
  PodVolumePlugin(Host& host, std::string_view name, std::string_view source_type)
      : host_(host), name_(name), source_type_(source_type) {}

  std::string_view name() const override { return name_; }
  // Whether the volume has this source type, inline in a pod or as a PersistentVolume with a file
  // system.
  bool Supports(const VolumeSpec& spec) const override;
  StatusOr<std::optional<std::string>> DeviceName(const VolumeSpec& spec) const override;
  StatusOr<bool> NeedsAttach(const VolumeSpec& spec) const override;
  StatusOr<Json> DeviceState(const VolumeSpec& spec) const override;
  StatusOr<Json> PodState(const api::Pod& pod, const VolumeSpec& spec) const override;
  Status MountDevice(const api::Pod& pod, const VolumeSpec& spec,
                     const api::Labels& publish_context) override;
  Status UnmountDevice(const DeviceRecord& record) override;
  Status Expand(const PodVolumeRecord& record, const VolumeSpec& spec, int64_t bytes) override;
  StatusOr<Found> FindOnNode() const override;

 protected:
  Host& host() const { return host_; }
  std::string Folder(const api::Pod& pod, const VolumeSpec& spec) const {
    return host_.paths().PodVolume(api::PodUid(pod.uid()), name_,
                                   api::VolumeName(spec.folder_name()));
  }
  std::string Folder(const PodVolumeRecord& record) const {
    return host_.paths().PodVolume(api::PodUid(record.pod_uid), name_,
                                   api::VolumeName(record.folder_name));
  }
  // The member that says where the volume comes from: pod.spec.volumes[].nfs, or the
  // PersistentVolume's spec.nfs.
  const Json& Source(const VolumeSpec& spec) const;

 private:
  Host& host_;
  const std::string_view name_;
  const std::string_view source_type_;
};

}  // namespace berth::volume
