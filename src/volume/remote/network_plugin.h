// A network file system that a utility of its kind mounts (helper_mounts.h), once for each pod that
// uses it, as the kubelet does:
//
//   pods/<uid>/volumes/<plugin~>/<volume>/     the mount point
//
// What stands there by the mount table is the volume or is refused; nothing looks into the mount,
// whose server may be dead. fsGroup is left alone: the files may be other nodes', too, and
// Kubernetes manages none of these three.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "platform/mounts/mounter.h"
#include "volume/pod_volume_plugin.h"

namespace berth::volume {

class NetworkPlugin : public PodVolumePlugin {
 public:
  using PodVolumePlugin::PodVolumePlugin;

  StatusOr<Published> SetUp(const api::Pod& pod, const VolumeSpec& spec,
                            const api::Labels& publish_context) override;
  // Unmounts whatever is mounted there and removes the mount point. FAILED_PRECONDITION: files lie
  // in it, which are this node's own.
  Status TearDown(const PodVolumeRecord& record) override;
  // Of the whole file system. FAILED_PRECONDITION: it is not mounted.
  StatusOr<Stats> GetStats(const PodVolumeRecord& record) override;

 protected:
  // A mount that is to be made.
  struct Wanted {
    const api::Pod& pod;
    const VolumeSpec& spec;
    std::string target;
    std::vector<std::string> options;  // "ro", and the PersistentVolume's
  };
  // How it is made; the plugin and the target are added. It reads objects of the API.
  virtual StatusOr<HelperMount> MountOf(const Wanted& wanted) = 0;
  // Whether `entry` is a mount of that volume.
  virtual bool Shows(const platform::MountEntry& entry, const VolumeSpec& spec) const = 0;
  // What the utility wrote elsewhere about a mount that failed; empty: nothing.
  virtual std::string LastWords(const Wanted& /*wanted*/) const { return ""; }
  // After the unmount: what the volume left in the plugin's own folder.
  virtual Status Forget(const PodVolumeRecord& /*record*/) { return base::OkStatus(); }

 private:
  // Whether the volume is mounted at `target`. FAILED_PRECONDITION: something else is.
  StatusOr<bool> IsMounted(const VolumeSpec& spec, const std::string& target);
  Status Mount(const Wanted& wanted);
};

// INVALID_ARGUMENT, naming `field`, unless it is a host's name or address that no utility takes for
// an option, a list or several words.
Status CheckServer(std::string_view field, std::string_view server);

}  // namespace berth::volume
