// The protocol between berth-oci, the node agent and the CRUST handler of a node, and the files
// that they share. berth-oci sends requests to the handler:
//
//   /run/berth/crust/
//     plans/                  the handler makes it before it serves
//     plans/<pod uid>.json    the target paths of the pod's volumes that are deferred;
//                             {"targets": [...]}. The node agent writes it before RunPodSandbox,
//                             and removes it when the pod has left the node. For volumes that were
//                             published for the pod and not for a sandbox (proto/crust.proto,
//                             pod_uid), the handler itself writes it, and removes it with the last
//                             of these volumes
//     sandboxes/<sandbox id>  the handler creates it: it manages this sandbox's volumes, so
//                             berth-oci sends crust.end when the sandbox ends
//     graft/                  a private mount, on which berth-oci mounts a tmpfs in a mount
//                             namespace of its own, with a container's volumes at m0, m1, ...
//
//   crust.create  sandbox, uid, kind ("sandbox" or "container"), bundle, from; and two
//                 descriptors: the bundle's config.json to read, and a file for the new config
//                 reply: count, the number of the container's mounts of deferred volumes; kinds
//                 ("d" for a folder, "f" for a file) and as many descriptors, of the mounts from
//                 number `from` on. The new config has these mounts at their places in graft/. It
//                 is written if `from` is 0 and `count` is not
//                 of a sandbox that is a virtual machine, the reply has guest (1) and one
//                 descriptor instead: a pidfd of the machine's process, or the host's end of the
//                 container's stream (base/ipc/container_call.h), which was created in the guest.
//                 For that the request also has container, its id, and terminal
//   crust.end     sandbox: its container is deleted; the reply comes when its volumes are unmounted
//
// For a pod without a plan, berth-oci does nothing but look for the plan, unless it is set up to
// ask for all pods (cmd/berth-oci/oci.h), as sandboxes that are virtual machines need it. For a pod
// with a plan, it starts no container without the handler. If the folder of plans is missing, it
// starts no pod's container, because volumes that nobody sees may be missing in it.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/ipc/message.h"

namespace berth::base::ipc::crust {

inline constexpr std::string_view kCreate = "crust.create";
inline constexpr std::string_view kEnd = "crust.end";
inline constexpr std::string_view kSandbox = "sandbox";
inline constexpr std::string_view kPodUid = "uid";
inline constexpr std::string_view kKind = "kind";
inline constexpr std::string_view kBundle = "bundle";
inline constexpr std::string_view kFrom = "from";
inline constexpr std::string_view kCount = "count";
inline constexpr std::string_view kKinds = "kinds";
inline constexpr std::string_view kTargets = "targets";
inline constexpr std::string_view kGuest = "guest";

inline constexpr const char* kRunFolder = "/run/berth/crust";
inline constexpr const char* kHandlerSocket = "/run/berth/crust.sock";
inline constexpr const char* kOciSocket = "/run/berth/crust-oci.sock";

// Annotations that containerd's CRI plug-in sets on the containers of a pod.
inline constexpr std::string_view kKindAnnotation = "io.kubernetes.cri.container-type";
inline constexpr std::string_view kSandboxAnnotation = "io.kubernetes.cri.sandbox-id";
inline constexpr std::string_view kPodUidAnnotation = "io.kubernetes.cri.sandbox-uid";

// Whether `id`, a CRI id or a pod's UID, may be the name of a file: it is not empty, not too long,
// and cannot lead to another folder. berth-oci looks for files of these names.
inline constexpr size_t kLongestId = 128;
inline bool IsId(std::string_view id) {
  if (id.empty() || id.size() > kLongestId || id.front() == '.') return false;
  for (const char c : id) {
    const bool fits = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                      c == '-' || c == '_' || c == '.';
    if (!fits) return false;
  }
  return true;
}

// The paths of the files above.
inline std::string PlanFolder(std::string_view run_folder) {
  return std::string(run_folder) + "/plans";
}
inline std::string PlanPath(std::string_view run_folder, std::string_view pod_uid) {
  return PlanFolder(run_folder) + "/" + std::string(pod_uid) + ".json";
}
inline std::string MarkPath(std::string_view run_folder, std::string_view sandbox) {
  return std::string(run_folder) + "/sandboxes/" + std::string(sandbox);
}
inline std::string GraftFolder(std::string_view run_folder) {
  return std::string(run_folder) + "/graft";
}
// The path at which berth-oci mounts mount number `index` of a container.
inline std::string GraftPoint(std::string_view run_folder, size_t index) {
  return GraftFolder(run_folder) + "/m" + std::to_string(index);
}

// The text of a plan for volumes at these target paths.
inline std::string WritePlan(Strings targets) {
  return WriteJson(Message().Set(kTargets, std::move(targets))) + "\n";
}

inline constexpr size_t kLargestConfig = 8 * 1024 * 1024;
inline constexpr size_t kLargestPlan = 256 * 1024;
inline constexpr size_t kMostMounts = 1024;

// How long berth-oci waits for an answer. kCreateTime is less than the kubelet's time-out of two
// minutes for a create, so that people read berth-oci's own message. kEndTime is less than the five
// seconds that containerd allows for the clean-up after a shim that died; after kEndTime the
// handler finishes alone. If no handler is running when a container is created, berth-oci waits
// kHandlerAway for one to start.
inline constexpr std::chrono::seconds kCreateTime{100};
inline constexpr std::chrono::seconds kHandlerAway{10};
inline constexpr std::chrono::seconds kEndTime{4};

}  // namespace berth::base::ipc::crust
