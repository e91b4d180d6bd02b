// What `berth doctor` finds: one line each, with what to do where something is wrong.
//
// Checks look and change nothing, but for one small file that measures fsync. What cannot be looked
// at (no root, no such folder) says so and is no fault.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "kube/client.h"

namespace berth::cli::doctor {

enum class Verdict { kOk, kBad, kNote };  // a note is neither: information, or not looked at

struct Finding {
  std::string_view area;  // "kernel"
  std::string name;       // "loop devices"
  Verdict verdict = Verdict::kOk;
  std::string text;    // what was found
  std::string advice;  // of a bad one: what to do
};
using Findings = std::vector<Finding>;

// The facts of the machine, which tests replace.
struct Machine {
  std::string root = "";  // before "/proc" and "/lib/modules"
  bool is_root = true;
  uid_t root_user = 0;  // who is to own what only root may write
};

// machine.cc: kernel features, utilities, capabilities, mount propagation.
void CheckKernel(const Machine& machine, Findings& out);
void CheckCapabilities(const Machine& machine, Findings& out);
void CheckPropagation(const Machine& machine, const std::string& data_folder, Findings& out);
// Whether the kernel has a file system, or a module of it.
void CheckFileSystem(const Machine& machine, const std::string& name, bool needed,
                     std::string_view what_for, Findings& out);
// Whether mounts that are made in a container below `folder` show on the host.
bool IsShared(const Machine& machine, const std::string& folder);

// runtime.cc: the container runtime by CRI, and the pod network.
void CheckRuntime(const Machine& machine, const std::string& endpoint, Findings& out);

// mount_pods.cc: the pods that are registered to run plugins' utilities on this node (areas "mount
// pods" and "kernel"): the kubelet folder's propagation, their registrations, file systems that
// their plugins need, and their utilities; and in the API, who competes for one plugin on one node.
void CheckMountPods(const Machine& machine, const std::string& kubelet_folder,
                    const std::string& endpoint, Findings& out);
void CheckMountPodRivals(kube::Client& client, Findings& out);

// folders.cc: path lengths, modes, space, the disk's fsync, certificates.
void CheckFolders(const Machine& machine, const std::string& data_folder, Findings& out);
void CheckDisk(const std::string& data_folder, Findings& out);
void CheckCertificates(const std::string& data_folder, base::WallTime now, Findings& out);

// running.cc: the API and what runs behind it, and the clock.
void CheckClock(kube::Client* client, base::WallTime now, Findings& out);
void CheckApi(kube::Client& client, Findings& out);  // with CheckNodes, where it answers
void CheckNodes(kube::Client& client, Findings& out);

}  // namespace berth::cli::doctor
