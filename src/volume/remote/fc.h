// The plugin for fc: a LUN behind Fibre Channel, which the host's kernel and udev show as a block
// device. Nothing logs in: the fabric's zones decide which node sees which LUN. Utilities (mkfs,
// fsck, mount, and the scan of the SCSI hosts) run where the plugin's utilities run.
//
// MapDisk finds the link below /dev/disk that names the LUN; without one it scans the SCSI hosts
// and looks once more. A multipath device goes before its paths. UnmapDisk flushes the device and
// removes it from the SCSI layer, as the kubelet does.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "volume/remote/disk_plugin.h"

namespace berth::volume {

class FcPlugin : public DiskPlugin {
 public:
  // Where the host's udev and kernel show devices.
  struct Places {
    std::string links = "/dev/disk";
    std::string sys = "/sys";
  };
  explicit FcPlugin(Host& host) : FcPlugin(host, Places()) {}
  FcPlugin(Host& host, Places places)
      : DiskPlugin(host, "kubernetes.io/fc", "fc"), places_(std::move(places)) {}

 protected:
  StatusOr<Disk> ReadDisk(const VolumeSpec& spec) const override;
  StatusOr<std::string> MapDisk(const api::Pod& pod, const VolumeSpec& spec, const Disk& disk,
                                DiskMark& mark) override;
  Status UnmapDisk(const DiskMark& mark) override;

 private:
  // The name of the block device ("sda", or "dm-0" over several paths) that a link of the LUN leads
  // to; nullopt: there is no such link.
  StatusOr<std::optional<std::string>> FindDevice(const Json& state) const;
  Status ScanHosts();
  Status RemovePath(const std::string& name);

  const Places places_;
};

}  // namespace berth::volume
