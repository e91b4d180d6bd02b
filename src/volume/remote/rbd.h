// The plugin for rbd: an image of a Ceph pool, mapped by the kernel (krbd) with the utility `rbd`,
// as the kubelet did until Kubernetes 1.30.
//
// One writer: an image that another client watches is refused, and one with the feature
// exclusive-lock is mapped so that the kernel keeps the lock. The key of the Ceph user comes from a
// Secret, through a keyring file that exists while `rbd` runs, or from a keyring where `rbd` runs.
#pragma once

#include <string>
#include <vector>

#include "volume/remote/disk_plugin.h"

namespace berth::volume {

class RbdPlugin : public DiskPlugin {
 public:
  explicit RbdPlugin(Host& host) : DiskPlugin(host, "kubernetes.io/rbd", "rbd") {}

 protected:
  StatusOr<Disk> ReadDisk(const VolumeSpec& spec) const override;
  StatusOr<std::string> MapDisk(const api::Pod& pod, const VolumeSpec& spec, const Disk& disk,
                                DiskMark& mark) override;
  Status UnmapDisk(const DiskMark& mark) override;

 private:
  // A device that the kernel has, of whichever cluster: the list does not tell clusters apart.
  struct Mapping {
    std::string pool, image, device;
  };
  StatusOr<std::vector<Mapping>> ListMappings();
  // The devices of the image that belong to `mark`: its own or, if it knows none, those that no
  // other mark knows, because a call may have been interrupted after it mapped.
  StatusOr<std::vector<std::string>> FindDevices(const DiskMark& mark);
  Status UnmapDevice(const std::string& device);
  // Runs `rbd` with these arguments as the user of the volume, and returns its output.
  StatusOr<std::string> RunAsUser(const std::vector<std::string>& arguments, const Json& source,
                                  const std::string& keyring, std::chrono::milliseconds timeout);
};

}  // namespace berth::volume
