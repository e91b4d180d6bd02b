// How a volume gets into a sandbox, as plain data: what it is, what must hold, and what is done, in
// order. A plan says nothing of the kind of sandbox: it is carried out in a mount namespace of this
// host (namespace_sandbox.h) or could be sent into a guest, and it is kept with the sandbox's
// record, so that a repeated publish can be compared and a lost mount made again.
//
// Pure.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace berth::crust {

// What is mounted: a block device of the host, or a share.
struct Device {
  std::string source;  // the host's path of the device, or "srv:/export"
  bool block = false;
  // Of a block device. The path is only how the kernel is told; this is what it must lead to.
  dev_t number = 0;
  bool operator==(const Device&) const = default;
};

// The source is a block device of this number, before the first step and after the mount.
struct IsDevice {
  dev_t number = 0;
  bool operator==(const IsDevice&) const = default;
};
// Nothing is mounted at this path of the host, where the volume would be if it were not deferred.
struct IsNotMountedAt {
  std::string path;
  bool operator==(const IsNotMountedAt&) const = default;
};
using Check = std::variant<IsDevice, IsNotMountedAt>;

// Mounts the device's file system, where nobody sees it.
struct MountFileSystem {
  std::string type;
  std::vector<std::string> options;  // as for mount(8) -o
  std::string selinux_label;         // the context of all that is in it; empty: none
  std::string utility;  // the mount utility that mounts it; empty: the kernel by itself
  bool operator==(const MountFileSystem&) const = default;
};
// Gives what is in it to a group, before anybody has it.
struct ApplyGroup {
  gid_t group = 0;
  bool only_on_root_mismatch = false;
  bool operator==(const ApplyGroup&) const = default;
};
// Puts it into the sandbox.
struct PlaceInSandbox {
  std::string name;
  bool operator==(const PlaceInSandbox&) const = default;
};
using Step = std::variant<MountFileSystem, ApplyGroup, PlaceInSandbox>;

struct MountPlan {
  Device device;
  std::vector<Check> checks;
  std::vector<Step> steps;

  // The step of that kind, or nullptr.
  template <typename T>
  const T* Find() const {
    for (const Step& step : steps) {
      if (const T* found = std::get_if<T>(&step)) return found;
    }
    return nullptr;
  }
  // The type of its file system, and its name in the sandbox.
  std::string_view fs_type() const;
  std::string_view name() const;
  bool read_only() const;
  bool operator==(const MountPlan&) const = default;
};

base::Json Encode(const MountPlan& plan);
// DATA_LOSS: it is not what Encode writes.
base::StatusOr<MountPlan> DecodeMountPlan(const base::Json& json);

}  // namespace berth::crust
