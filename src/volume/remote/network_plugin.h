// A network file system that a utility of its kind mounts (helper_mounts.h), once for each pod that
// uses it, as the kubelet does:
//
//   pods/<uid>/volumes/<plugin~>/<volume>/     the mount point
//
// By the mount table, a mount at that place is the volume, or it is refused. Nothing looks into the
// mount, because its server may be dead. fsGroup is not applied: other nodes may use the same
// files, and Kubernetes does not apply it to these three kinds either.
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
  // Unmounts everything that is mounted there and removes the mount point. FAILED_PRECONDITION: it
  // contains files, which were written to this node's own disk.
  Status TearDown(const PodVolumeRecord& record) override;
  // Of the whole file system. FAILED_PRECONDITION: the volume is not mounted.
  StatusOr<Stats> GetStats(const PodVolumeRecord& record) override;

 protected:
  // The facts for a mount that must be made.
  struct Wanted {
    const api::Pod& pod;
    const VolumeSpec& spec;
    std::string target;
    std::vector<std::string> options;  // "ro", and the PersistentVolume's
  };
  // How it is made, without the plugin and the target, which are added. It reads objects of the
  // API.
  virtual StatusOr<HelperMount> MountOf(const Wanted& wanted) = 0;
  // Whether `entry` is a mount of that volume.
  virtual bool Shows(const platform::MountEntry& entry, const VolumeSpec& spec) const = 0;
  // What the utility wrote elsewhere about a failed mount; empty: nothing.
  virtual std::string LastWords(const Wanted& /*wanted*/) const { return ""; }
  // Called after the unmount: removes what the volume left in the plugin's own folder.
  virtual Status Forget(const PodVolumeRecord& /*record*/) { return base::OkStatus(); }

 private:
  // Whether the volume is mounted at `target`. FAILED_PRECONDITION: something else is.
  StatusOr<bool> IsMounted(const VolumeSpec& spec, const std::string& target);
  Status Mount(const Wanted& wanted);
};

// INVALID_ARGUMENT, naming `field`, unless `server` is a host's name or address that no utility can
// take for an option, a list or several words.
Status CheckServer(std::string_view field, std::string_view server);

}  // namespace berth::volume
