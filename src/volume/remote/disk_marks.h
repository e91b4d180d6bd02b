// The marks of disks of a network that are, or may be, mapped on this node.
//
//   plugins/<plugin>/disks/<digest>.json     the digest is of the disk's name on the node
//
// A mark is written before the disk is mapped, and removed after the disk was unmapped. It names
// what the unmap needs, and holds no secret. Thread-safe for different disks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "volume/paths.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

struct DiskMark {
  std::string device_name;  // VolumePlugin::DeviceName
  std::string pv_name;      // empty: an inline volume
  bool block = false;       // volumeMode Block: it has no mount
  std::string device;       // "/dev/rbd0"; empty: not known, or of an earlier boot
  // The plugin has logged in for the disk or begun to map it, or was about to, in this boot
  // (iscsi.h, rbd.h).
  bool logged_in = false;
  Json state;  // the plugin's
};

class DiskMarks {
 public:
  // Borrows the paths. `plugin` is a literal.
  DiskMarks(const Paths& paths, std::string_view plugin) : paths_(paths), plugin_(plugin) {}

  // nullopt: the disk has no mark. DATA_LOSS: the mark cannot be read.
  StatusOr<std::optional<DiskMark>> Read(std::string_view device_name) const;
  Status Write(const DiskMark& mark) const;
  Status Remove(std::string_view device_name) const;
  // Removes what interrupted writes of marks left. Call it before any mark is written.
  Status RemoveTornMarks() const;
  // All marks that can be read.
  StatusOr<std::vector<DiskMark>> List() const;

  // The part of paths that stands for the disk.
  static std::string DigestOf(std::string_view device_name);

 private:
  std::string PathOf(std::string_view device_name) const {
    return paths_.DiskMark(plugin_, DigestOf(device_name));
  }

  const Paths& paths_;
  const std::string_view plugin_;
};

}  // namespace berth::volume
