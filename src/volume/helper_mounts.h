// Makes and removes mounts by a utility of the volume's kind: mount(8) with its helper
// (mount.glusterfs, mount.nfs), or a FUSE program of its own (ceph-fuse). This interface hides
// where the utility runs: on the host, or in a pod that is registered for the plugin.
//
// A mount is undone the way it was made. The implementations keep no path open, and read only the
// mount table to learn about a mount point. Thread-safe for different targets.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "platform/mounts/mount_paths.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"

namespace berth::volume {

struct HelperMount {
  std::string plugin;                // "kubernetes.io/glusterfs"
  std::string fs_type;               // of mount -t: "glusterfs", "nfs"
  std::string source;                // as mount(8) takes it: "10.0.0.7:/scratch"
  std::string target;                // absolute, below the kubelet folder; it exists
  std::vector<std::string> options;  // of mount -o
  // Used in place of mount(8): a program that mounts at `target` and ends once the mount stands
  // ({"ceph-fuse", "-m", ..., target}).
  std::vector<std::string> program;
  std::vector<platform::Secret> secrets;  // as Command::secrets, of `options` or `program`
  std::chrono::milliseconds timeout{std::chrono::minutes(2)};
};

class HelperMounts {
 public:
  virtual ~HelperMounts() = default;

  // OK only when the mount table shows a mount at the target that was not there before.
  // ALREADY_EXISTS: a mount is there already, and nothing was done; the caller must find out whose
  // it is. NOT_FOUND: there is no such utility; the message says where it was searched for.
  // DEADLINE_EXCEEDED and UNAVAILABLE: the outcome is unknown, and the target may still become
  // mounted.
  virtual base::Status Mount(const HelperMount& mount) = 0;

  // Unmounts the top mount at `target`; OK if nothing is mounted there. If the mount is dead this
  // does not wait for it. FAILED_PRECONDITION: busy.
  virtual base::Status Unmount(std::string_view plugin, const platform::MountPoint& target) = 0;
};

// The command that makes `mount`.
platform::Command MakeHelperCommand(const HelperMount& mount);

// The simple implementation: everything runs on this host. Borrows both.
std::unique_ptr<HelperMounts> NewHostHelperMounts(platform::Exec& exec, platform::Mounter& mounter);

}  // namespace berth::volume
