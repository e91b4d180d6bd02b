#include "node/containers/container_security.h"

#include <sys/sysinfo.h>
#include <unistd.h>

#include "node/containers/pod_sandbox_config.h"

namespace berth::node {

namespace {

namespace cri = rpc::cri;
namespace json = base::json;
using base::Json;
using base::StatusCode;

// The paths that a container without procMount Unmasked may not see, or may not change. The lists
// are the kubelet's.
constexpr const char* kMaskedPaths[] = {
    "/proc/asound",     "/proc/acpi",        "/proc/interrupts",
    "/proc/kcore",      "/proc/keys",        "/proc/latency_stats",
    "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug",
    "/proc/scsi",       "/sys/firmware",     "/sys/devices/virtual/powercap"};
constexpr const char* kReadOnlyPaths[] = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys",
                                          "/proc/sysrq-trigger"};

// A field of the container's security context, or else of the pod's; nullptr: neither has it.
const Json* FindField(const Json& own, const Json& pods, std::string_view field) {
  const Json* value = json::Find(own, {field});
  return value != nullptr ? value : json::Find(pods, {field});
}

base::Status CheckNonRoot(const api::Container& container, const cri::Image& image,
                          const Json* run_as_user) {
  const auto refuse = [&](std::string_view why) {
    return base::Error(StatusCode::kFailedPrecondition, "{} (container: {})", why,
                       container.name());
  };
  if (run_as_user != nullptr && run_as_user->is_number_integer()) {
    return run_as_user->get<int64_t>() == 0 ? refuse("container's runAsUser breaks non-root policy")
                                            : base::OkStatus();
  }
  if (image.has_uid()) {
    return image.uid().value() == 0
               ? refuse("container has runAsNonRoot and image will run as root")
               : base::OkStatus();
  }
  if (!image.username().empty()) {
    return refuse(
        "container has runAsNonRoot and image has a user that is not a number, so it "
        "cannot be verified that the user is not root");
  }
  return refuse("container has runAsNonRoot and image will run as root");
}

void AddCapabilities(const Json& own, cri::LinuxContainerSecurityContext& out) {
  for (const Json& name : json::Array(own, {"capabilities", "add"})) {
    if (name.is_string()) out.mutable_capabilities()->add_add_capabilities(name.get<std::string>());
  }
  for (const Json& name : json::Array(own, {"capabilities", "drop"})) {
    if (name.is_string())
      out.mutable_capabilities()->add_drop_capabilities(name.get<std::string>());
  }
}

}  // namespace

base::StatusOr<cri::LinuxContainerSecurityContext> MakeContainerSecurity(
    const api::Pod& pod, const api::Container& container, const cri::Image& image) {
  const Json& pods = json::Map(pod.json(), {"spec", "securityContext"});
  const Json& own = json::Map(container.json(), {"securityContext"});
  cri::LinuxContainerSecurityContext out;
  *out.mutable_namespace_options() = PodNamespaces(pod);
  out.set_privileged(json::Bool(own, {"privileged"}));
  out.set_readonly_rootfs(json::Bool(own, {"readOnlyRootFilesystem"}));
  AddCapabilities(own, out);

  const Json* user = FindField(own, pods, "runAsUser");
  if (const Json* non_root = FindField(own, pods, "runAsNonRoot");
      non_root != nullptr && non_root->is_boolean() && non_root->get<bool>()) {
    RETURN_IF_ERROR(CheckNonRoot(container, image, user));
  }
  if (user != nullptr && user->is_number_integer()) {
    out.mutable_run_as_user()->set_value(user->get<int64_t>());
  } else if (image.has_uid()) {
    out.mutable_run_as_user()->set_value(image.uid().value());
  } else if (!image.username().empty()) {
    out.set_run_as_username(image.username());
  }
  // The runtime refuses a group without a user. Without a user, the image runs as root, so the user
  // is root.
  if (const Json* group = FindField(own, pods, "runAsGroup");
      group != nullptr && group->is_number_integer()) {
    out.mutable_run_as_group()->set_value(group->get<int64_t>());
    if (!out.has_run_as_user() && out.run_as_username().empty()) {
      out.mutable_run_as_user()->set_value(0);
    }
  }
  for (const int64_t group : SupplementalGroups(pod)) out.add_supplemental_groups(group);

  // Absent means that escalation is allowed (the field is a pointer in the API).
  const bool escalation = json::Bool(own, {"allowPrivilegeEscalation"}, true);
  out.set_no_new_privs(!escalation && !out.privileged());
  if (!ReadSelinuxOptions(own, out.mutable_selinux_options()) &&
      !ReadSelinuxOptions(pods, out.mutable_selinux_options())) {
    out.clear_selinux_options();
  }
  if (!ReadSecurityProfile(own, "seccompProfile", out.mutable_seccomp()) &&
      !ReadSecurityProfile(pods, "seccompProfile", out.mutable_seccomp())) {
    out.mutable_seccomp()->set_profile_type(cri::SecurityProfile::Unconfined);
  }
  if (!ReadSecurityProfile(own, "appArmorProfile", out.mutable_apparmor()) &&
      !ReadSecurityProfile(pods, "appArmorProfile", out.mutable_apparmor())) {
    out.clear_apparmor();
  }
  if (!out.privileged() && json::String(own, {"procMount"}, "Default") != "Unmasked") {
    for (const char* path : kMaskedPaths) out.add_masked_paths(path);
    // These files show the load of other tenants; there is one for each processor.
    for (int cpu = 0; cpu < get_nprocs_conf(); ++cpu) {
      std::string path = fmt::format("/sys/devices/system/cpu/cpu{}/thermal_throttle", cpu);
      if (access(path.c_str(), F_OK) == 0) out.add_masked_paths(std::move(path));
    }
    for (const char* path : kReadOnlyPaths) out.add_readonly_paths(path);
  }
  return out;
}

}  // namespace berth::node
