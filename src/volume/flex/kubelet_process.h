// The kubelet that runs on a node: what it says about its folder of Flexvolume drivers, in its
// command line and in the configuration files that the command line names, its own folder, and what
// is mounted where it runs. The command line counts first, as for the kubelet.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "platform/mounts/mounter.h"

namespace berth::volume {

struct KubeletFolder {
  std::string path;  // empty: neither says anything, so that the kubelet has its default
  std::string why;   // for people
};

// `root` is the path of the node's root folder ("" for this process's own), whose /proc shows the
// node's processes. NOT_FOUND: no kubelet runs as a process of its own there. FAILED_PRECONDITION:
// its configuration cannot be read, or two kubelets have different folders.
base::StatusOr<KubeletFolder> AskKubeletProcess(const std::string& root);

// The mounts that the node's kubelets see: its kubelet may run in a mount namespace of its own, as
// in a container. Empty: no kubelet runs there as a process of its own. Other errors: the mount
// table of a kubelet that runs cannot be read.
base::StatusOr<std::vector<platform::MountEntry>> ReadKubeletMounts(const std::string& root);

struct RunningKubelet {
  std::string node;     // the name of its node
  std::string folder;   // its --root-dir
  std::string drivers;  // its folder of Flexvolume drivers; empty: it has its default
};

// Returns the kubelets that run as processes of this machine's root user. A configuration that
// cannot be read leaves `drivers` empty.
std::vector<RunningKubelet> ListKubelets();

// The path after `name` and one of "=", ": " in a line that is no comment, without quotes and
// slashes at its end. Empty: there is none.
std::string FindFolderSetting(std::string_view text, std::string_view name);

}  // namespace berth::volume
