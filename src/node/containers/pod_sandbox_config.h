// Makes the PodSandboxConfig that the runtime gets for a pod.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/status.h"
#include "rpc/cri_client.h"

namespace berth::node {

struct SandboxConfigOptions {
  uint32_t attempt = 0;
  std::string log_folder;   // of all pods (PodLogFolder)
  std::string resolv_conf;  // the content of the host's /etc/resolv.conf
  std::string agent;        // labels::kAgent
};

// <log_folder>/<namespace>_<name>_<uid>
std::string PodLogFolder(std::string_view log_folder, const api::Pod& pod);

// The host name of the pod: spec.hostname or the pod's name, cut to the kernel's 63 bytes.
std::string PodHostname(const api::Pod& pod);

// POD, CONTAINER or NODE for network, pid and ipc. The sandbox and its containers get the same.
rpc::cri::NamespaceOption PodNamespaces(const api::Pod& pod);

// The bytes of a pod's own labels and annotations that its sandbox gets. The runtime lists all
// sandboxes of the node in one answer, which may have 16 MiB, and the API allows 256 KiB of
// annotations for each pod and any number of labels.
inline constexpr size_t kMaxSandboxMetadata = 32 * 1024;

struct SandboxMetadata {
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  // The longest ones, which do not fit into kMaxSandboxMetadata. Those that runtimes know are
  // short.
  std::vector<std::string> left_out;
};
SandboxMetadata ChooseMetadata(const api::Pod& pod);

rpc::cri::PodSandboxConfig MakeSandboxConfig(const api::Pod& pod,
                                             const SandboxConfigOptions& options);

// Reads the profile `field` ("seccompProfile" or "appArmorProfile") or seLinuxOptions of a security
// context into `out`. False: the context does not have it.
bool ReadSecurityProfile(const base::Json& context, std::string_view field,
                         rpc::cri::SecurityProfile* out);
bool ReadSelinuxOptions(const base::Json& context, rpc::cri::SELinuxOption* out);

// pod.spec.securityContext: fsGroup first, then supplementalGroups, as the kubelet orders them.
std::vector<int64_t> SupplementalGroups(const api::Pod& pod);

// Whether a container or init container of the pod is privileged.
bool HasPrivilegedContainer(const api::Pod& pod);

}  // namespace berth::node
