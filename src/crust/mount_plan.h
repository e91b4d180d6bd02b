// Describes as plain data how a volume gets into a sandbox: the device, the checks, and the steps
// in their order. A plan does not depend on the kind of sandbox: it is carried out in a mount
// namespace of this host (namespace_sandbox.h), or could be sent into a guest. It is kept in the
// sandbox's record, because a repeated publish is compared with it, and a lost mount is made again
// from it.
//
// Plain data and pure functions.
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

// The source of a volume: a block device of the host, or a share.
struct Device {
  std::string source;  // the host's path of the device, or "srv:/export"
  bool block = false;
  // The number of a block device. `source` only tells the kernel the path, and it must lead to this
  // device.
  dev_t number = 0;
  bool operator==(const Device&) const = default;
};

// Checks before the first step and after the mount that the source is a block device with this
// number.
struct IsDevice {
  dev_t number = 0;
  bool operator==(const IsDevice&) const = default;
};
// Checks that nothing is mounted at this path of the host, the target path of the volume. The host
// would have mounted the volume there if it were not deferred.
struct IsNotMountedAt {
  std::string path;
  bool operator==(const IsNotMountedAt&) const = default;
};
using Check = std::variant<IsDevice, IsNotMountedAt>;

// Mounts the device's file system outside of all mount namespaces.
struct MountFileSystem {
  std::string type;
  std::vector<std::string> options;  // as for mount(8) -o
  std::string selinux_label;         // mount option "context"; empty: each file has its own label
  std::string utility;               // program that mounts it; empty: the kernel does
  bool operator==(const MountFileSystem&) const = default;
};
// Gives the volume's files to the group (fsGroup), before any container uses the volume.
struct ApplyGroup {
  gid_t group = 0;
  bool only_on_root_mismatch = false;
  bool operator==(const ApplyGroup&) const = default;
};
// Sets the SELinux label of each of the volume's files, before any container uses the volume.
struct RelabelFiles {
  // Empty: the label that the container runtime chose for the sandbox (VolumeSteps finds it).
  std::string label;
  bool operator==(const RelabelFiles&) const = default;
};
// Moves the mount into the sandbox, under `name`.
struct PlaceInSandbox {
  std::string name;
  bool operator==(const PlaceInSandbox&) const = default;
};
using Step = std::variant<MountFileSystem, ApplyGroup, RelabelFiles, PlaceInSandbox>;

struct MountPlan {
  Device device;
  std::vector<Check> checks;
  std::vector<Step> steps;

  // Returns the step of type T; nullptr: there is none.
  template <typename T>
  const T* Find() const {
    for (const Step& step : steps) {
      if (const T* found = std::get_if<T>(&step)) return found;
    }
    return nullptr;
  }
  // The type of the volume's file system; "": the plan mounts nothing.
  std::string_view fs_type() const;
  // The volume's name in the sandbox; "": the plan places nothing.
  std::string_view name() const;
  // Gives the volume another name. Does nothing if the plan places nothing.
  void SetName(std::string name);
  // Whether the last of the options "ro" and "rw" is "ro".
  bool read_only() const;
  bool operator==(const MountPlan&) const = default;
};

base::Json Encode(const MountPlan& plan);
// Reads what Encode returned. DATA_LOSS: the value is not such a plan.
base::StatusOr<MountPlan> DecodeMountPlan(const base::Json& json);

}  // namespace berth::crust
