// The common part of the plugins for network file systems. A utility of the file system's kind
// (helper_mounts.h) mounts it once for each pod that uses it, as the kubelet does:
//
//   pods/<uid>/volumes/<plugin~>/<volume>/     the mount point
//
// If the mount table shows another mount at that path, the volume is refused. The mount itself is
// never opened, because its server may be dead. fsGroup is not applied, because other nodes may use
// the same files, and Kubernetes does not apply it to these three kinds either.
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
  // The parameters of a mount that must be made.
  struct Wanted {
    const api::Pod& pod;
    const VolumeSpec& spec;
    std::string target;
    std::vector<std::string> options;  // "ro", and the PersistentVolume's
  };
  // Describes the mount for the utility, without the plugin and the target, which the caller adds.
  // It reads objects of the API.
  virtual StatusOr<HelperMount> MakeMount(const Wanted& wanted) = 0;
  // Whether `entry` is a mount of that volume.
  virtual bool ShowsVolume(const platform::MountEntry& entry, const VolumeSpec& spec) const = 0;
  // Returns the text about a failed mount that the utility wrote to a log; "": there is none.
  virtual std::string ReadFailureLog(const Wanted& /*wanted*/) const { return ""; }
  // Called after the unmount. Removes the volume's files in the plugin's own folder.
  virtual Status RemovePluginFiles(const PodVolumeRecord& /*record*/) { return base::OkStatus(); }

 private:
  // Whether the volume is mounted at `target`. FAILED_PRECONDITION: something else is mounted
  // there.
  StatusOr<bool> IsMounted(const VolumeSpec& spec, const std::string& target);
  Status Mount(const Wanted& wanted);
};

// INVALID_ARGUMENT: `server` is not a host's name or address, or a utility could read it as an
// option, a list or several words. The message names `field`.
Status CheckServer(std::string_view field, std::string_view server);

}  // namespace berth::volume
