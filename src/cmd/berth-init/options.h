// The options of berth-init: from its flags, and from the downward API in its environment.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ipc/result.h"

namespace berth::init {

struct Pod {
  std::string ns;    // $POD_NAMESPACE
  std::string name;  // $POD_NAME
  std::string uid;   // $POD_UID
  std::string container;
};

struct Options {
  std::vector<std::string> plugins;  // "kubernetes.io/glusterfs"
  Pod pod;
  std::string kubelet_folder = "/var/lib/kubelet";
  std::string host_mounts = "/host/proc/1/mountinfo";
  // How long to wait after SIGTERM for the end of mounts; 0: until the runtime kills the container.
  std::chrono::seconds grace{0};
  std::vector<std::string> command;
  bool help = false;
};

inline constexpr std::string_view kUsage =
    "usage: berth-init --plugin NAME [--plugin NAME ...] [--container NAME] [options] "
    "[-- COMMAND ...]\n"
    "\n"
    "Process 1 of a mount pod: registers the pod for the volume plugins, reaps what is left\n"
    "behind, and at SIGTERM stays while file systems that it serves are in use on the host.\n"
    "\n"
    "  --plugin NAME           volume plugin whose utilities are in this container\n"
    "  --container NAME        this container's name (default: $CONTAINER_NAME)\n"
    "  --kubelet-dir DIR       default /var/lib/kubelet\n"
    "  --host-mountinfo FILE   the host's mount table (default /host/proc/1/mountinfo)\n"
    "  --grace SECONDS         wait no longer than that at SIGTERM (default: the pod's grace\n"
    "                          period, which the runtime ends)\n"
    "\n"
    "By the downward API, $POD_NAMESPACE, $POD_NAME and $POD_UID tell which pod this is.\n";

// `arguments` are without the program's name; `environment` is getenv, or a function of a test. The
// text of a failure names the flag or variable.
base::ipc::Result<Options> ParseOptions(std::span<const char* const> arguments,
                                        const char* (*environment)(const char* name));

}  // namespace berth::init
