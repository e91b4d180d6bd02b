// Gives a volume of a node to its pods by bind mounts: a folder, which pods share, or a raw block
// device.
//
//   pods/<uid>/volumes/<plugin~>/<volume>/            bind of the volume's folder
//   plugins/<plugin>/volumeDevices/<volume>/<pod uid> volumeMode Block: bind of the device
//   pods/<uid>/volumeDevices/<plugin~>/<volume>       symlink to it
//
// An existing bind mount proves that fsGroup was applied, because fsGroup is applied before it is
// made. Thread-safe for different volumes.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "volume/host.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

class PodBinds {
 public:
  // Borrows the host. `plugin` is a literal. `kind` is the volume's kind in messages:
  // "local".
  PodBinds(Host& host, std::string_view plugin, std::string_view kind)
      : host_(host), plugin_(plugin), kind_(kind) {}

  struct Source {
    std::string folder;
    bool read_only = false;
    bool shared = false;  // other pods use it already, so its files keep their group
  };
  // Binds a folder, and applies the pod's fsGroup if it is the first pod. FAILED_PRECONDITION:
  // another mount stands at the pod's path.
  StatusOr<Published> BindFolder(const api::Pod& pod, const VolumeSpec& spec, const Source& source);
  // Binds the device at `path`, whose number is `number`.
  StatusOr<Published> BindDevice(const api::Pod& pod, const VolumeSpec& spec,
                                 const std::string& path, dev_t number);
  // Undoes either. OK if nothing is left.
  Status Remove(const PodVolumeRecord& record);
  // FAILED_PRECONDITION: the volume is not mounted for the pod. UNIMPLEMENTED: it is a raw device.
  StatusOr<VolumePlugin::Stats> GetStats(const PodVolumeRecord& record) const;
  // The pods' raw devices, as they stand in the plugin's folder; `device_name` is empty.
  StatusOr<std::vector<PodVolumeRecord>> FindDevices() const;
  std::string Folder(const api::PodUid& pod, const api::VolumeName& volume) const;

 private:
  Status ApplyFsGroup(const api::Pod& pod, const VolumeSpec& spec, const Source& source);
  Status RemoveDevice(const PodVolumeRecord& record);
  // Unmounts everything that is mounted at `target`, the last mount first.
  Status UnmountAll(const std::string& target);

  Host& host_;
  const std::string_view plugin_;
  const std::string_view kind_;
};

}  // namespace berth::volume
