// The findings of `berth doctor`: one line for each, with advice if something is wrong.
//
// Checks change nothing, except that CheckDisk writes one small file to measure fsync. A check that
// cannot be made (no root, no such folder) is reported as a note, because that is not a fault.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "kube/client.h"

namespace berth::cli::doctor {

enum class Verdict { kOk, kBad, kNote };  // kNote: information, or a check that could not be made

struct Finding {
  std::string_view area;  // "kernel"
  std::string name;       // "loop devices"
  Verdict verdict = Verdict::kOk;
  std::string text;    // what was found
  std::string advice;  // what to do, for kBad
};
using Findings = std::vector<Finding>;

// Properties of the machine, which tests replace.
struct Machine {
  std::string root = "";  // put before "/proc" and "/lib/modules"
  bool is_root = true;
  uid_t root_user = 0;  // must own what only root may write
};

// Each function adds its findings to `out`.
//
// machine.cc: kernel features, utilities, capabilities, mount propagation.
void CheckKernel(const Machine& machine, Findings& out);
void CheckCapabilities(const Machine& machine, Findings& out);
void CheckPropagation(const Machine& machine, const std::string& data_folder, Findings& out);
// Checks whether the kernel has the file system `name`, or a module of it. If not, that is a fault
// if `needed` is true, and otherwise a note. `what_for` says what needs it.
void CheckFileSystem(const Machine& machine, const std::string& name, bool needed,
                     std::string_view what_for, Findings& out);
// Whether the mount that contains `folder` is shared, so that mounts which a container makes below
// it appear on the host. False also if the mount table cannot be read.
bool IsShared(const Machine& machine, const std::string& folder);

// runtime.cc: the container runtime by CRI, and the pod network.
void CheckRuntime(const Machine& machine, const std::string& endpoint, Findings& out);

// mount_pods.cc: the pods that are registered to run plugins' utilities on this node (areas "mount
// pods" and "kernel"): the kubelet folder's propagation, their registrations, file systems that
// their plugins need, and their utilities; and, from the API, pods that register for the same
// plugin on the same node.
void CheckMountPods(const Machine& machine, const std::string& kubelet_folder,
                    const std::string& endpoint, Findings& out);
void CheckMountPodRivals(kube::Client& client, Findings& out);

// folders.cc: path lengths, modes, space, the disk's fsync, certificates.
void CheckFolders(const Machine& machine, const std::string& data_folder, Findings& out);
void CheckDisk(const std::string& data_folder, Findings& out);
void CheckCertificates(const std::string& data_folder, base::WallTime now, Findings& out);

// running.cc: the API, its nodes, and the clock. `client` is null if no API is known.
void CheckClock(kube::Client* client, base::WallTime now, Findings& out);
void CheckApi(kube::Client& client, Findings& out);  // calls CheckNodes if the API answers
void CheckNodes(kube::Client& client, Findings& out);

}  // namespace berth::cli::doctor
