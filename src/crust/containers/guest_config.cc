#include "crust/containers/guest_config.h"

#include <algorithm>
#include <set>

#include "base/log.h"

namespace berth::crust {
namespace {

namespace json = base::json;
using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

// The profile that containerd gives a container for which nobody named one.
constexpr std::string_view kUsualProfile = "cri-containerd.apparmor.d";

// File systems that a guest mounts as a host does, because they show its own kernel.
constexpr std::string_view kOwnFileSystems[] = {"proc",   "sysfs",  "tmpfs",  "devpts",
                                                "mqueue", "cgroup", "cgroup2"};

// Devices that are the same in each kernel, by major and minor number. runc itself makes those of
// which each container has one.
struct KnownDevice {
  int64_t major, minor;
};
constexpr KnownDevice kSameEverywhere[] = {{1, 3}, {1, 5}, {1, 7},    {1, 8},   {1, 9},
                                           {5, 0}, {5, 2}, {10, 200}, {10, 229}};

Status Unable(const std::string& what) {
  return Error(StatusCode::kUnimplemented, "a sandbox that is a virtual machine has no {}", what);
}

bool IsBindMount(const Json& mount) {
  if (json::String(mount, {"type"}) == "bind") return true;
  return std::ranges::any_of(json::Array(mount, {"options"}), [](const Json& option) {
    return option == "bind" || option == "rbind";
  });
}

Status TranslateMounts(Json& config, const GuestPlaces& places) {
  const Json mounts = json::Array(config, {"mounts"});
  Json translated = Json::array();
  for (size_t i = 0; i < mounts.size(); ++i) {
    Json mount = mounts[i];
    const std::string at = base::Quote(json::String(mount, {"destination"}));
    for (const Json& option : json::Array(mount, {"options"})) {
      if (option == "shared" || option == "rshared" || option == "slave" || option == "rslave") {
        return Unable("propagation of mounts (mountPropagation of the mount at " + at + ")");
      }
    }
    if (!json::Array(mount, {"uidMappings"}).empty() ||
        !json::Array(mount, {"gidMappings"}).empty()) {
      return Unable("mounts with mapped users (at " + at + ")");
    }
    if (IsBindMount(mount)) {
      const auto place = std::ranges::find(places.sources, i, &GuestSource::mount);
      if (place == places.sources.end()) {
        return Error(StatusCode::kInternal, "the mount at {} has no place in the guest", at);
      }
      mount["source"] = place->path;
    } else if (std::ranges::find(kOwnFileSystems, json::String(mount, {"type"})) ==
               std::end(kOwnFileSystems)) {
      return Unable("file system " + base::Quote(json::String(mount, {"type"})) +
                    " for the mount at " + at);
    }
    translated.push_back(std::move(mount));
  }
  config["mounts"] = std::move(translated);
  return base::OkStatus();
}

Status TranslateNamespaces(Json& config) {
  std::set<std::string> seen;
  Json kept = Json::array();
  for (const Json& entry : json::Array(config, {"linux", "namespaces"})) {
    const std::string type = json::String(entry, {"type"});
    seen.insert(type);
    if (type == "network" || type == "ipc" || type == "uts") continue;
    const bool has_path = !json::String(entry, {"path"}).empty();
    if (type == "user") return Unable("user namespaces (hostUsers: false)");
    if (type == "pid" && has_path) continue;  // that of the pod (shareProcessNamespace)
    if (has_path) return Unable("namespace of kind " + base::Quote(type) + " by its path");
    kept.push_back(entry);
  }
  if (!seen.contains("network")) return Unable("network of the host (hostNetwork: true)");
  if (!seen.contains("ipc")) return Unable("IPC namespace of the host (hostIPC: true)");
  if (!seen.contains("pid")) return Unable("PID namespace of the host (hostPID: true)");
  for (const char* mappings : {"uidMappings", "gidMappings"}) {
    if (!json::Array(config, {"linux", mappings}).empty()) {
      return Unable("user namespaces (hostUsers: false)");
    }
  }
  json::Set(config, {"linux", "namespaces"}, std::move(kept));
  // They belong to the namespaces of the pod, which the guest has set up.
  config.erase("hostname");
  config.erase("domainname");
  return base::OkStatus();
}

// Gives the device rules of the host's numbers those of the guest.
void TranslateRules(Json& config, const Json& device, const GuestDevice& guest) {
  Json rules = json::Array(config, {"linux", "resources", "devices"});
  for (Json& rule : rules) {
    if (json::String(rule, {"type"}) == json::String(device, {"type"}) &&
        json::Int(rule, {"major"}, -1) == json::Int(device, {"major"}, -2) &&
        json::Int(rule, {"minor"}, -1) == json::Int(device, {"minor"}, -2)) {
      rule["major"] = guest.major;
      rule["minor"] = guest.minor;
    }
  }
  json::Set(config, {"linux", "resources", "devices"}, std::move(rules));
}

bool IsSameEverywhere(const Json& device) {
  return json::String(device, {"type"}) == "c" &&
         std::ranges::any_of(kSameEverywhere, [&](const KnownDevice& known) {
           return json::Int(device, {"major"}, -1) == known.major &&
                  json::Int(device, {"minor"}, -1) == known.minor;
         });
}

Status TranslateDevices(Json& config, const GuestPlaces& places) {
  const Json devices = json::Array(config, {"linux", "devices"});
  Json translated = Json::array();
  for (const Json& device : devices) {
    const std::string path = json::String(device, {"path"});
    const auto guest = std::ranges::find(places.devices, path, &GuestDevice::path);
    Json changed = device;
    if (guest != places.devices.end()) {
      TranslateRules(config, device, *guest);
      changed["major"] = guest->major;
      changed["minor"] = guest->minor;
    } else if (!IsSameEverywhere(device)) {
      return Unable("devices of the host, as " + base::Quote(path) +
                    " (of privileged: true, or of a device plugin)");
    }
    translated.push_back(std::move(changed));
  }
  if (!translated.empty()) json::Set(config, {"linux", "devices"}, std::move(translated));
  return base::OkStatus();
}

Status TranslateResources(Json& config) {
  for (const Json& limit : json::Array(config, {"linux", "resources", "hugepageLimits"})) {
    if (json::Int(limit, {"limit"}) > 0) {
      return Unable("huge pages (resources " +
                    base::Quote("hugepages-" + json::String(limit, {"pageSize"})) + ")");
    }
  }
  json::Remove(config, {"linux", "resources", "hugepageLimits"});
  for (const auto& [name, value] : json::Map(config, {"linux", "resources", "blockIO"}).items()) {
    if (value.is_array() && !value.empty()) return Unable("limits of the host's disks");
  }
  // Numbers of the host's processors and memory nodes.
  json::Remove(config, {"linux", "resources", "cpu", "cpus"});
  json::Remove(config, {"linux", "resources", "cpu", "mems"});
  json::Remove(config, {"linux", "intelRdt"});
  return base::OkStatus();
}

Status TranslateProcess(Json& process) {
  const std::string profile = json::String(process, {"apparmorProfile"});
  if (!profile.empty() && profile != kUsualProfile && profile != "unconfined") {
    return Unable("profile of AppArmor " + base::Quote(profile));
  }
  if (process.is_object()) {
    process.erase("apparmorProfile");
    process.erase("selinuxLabel");
  }
  return base::OkStatus();
}

Status RefuseTheRest(const Json& config) {
  for (const auto& [kind, hooks] : json::Map(config, {"hooks"}).items()) {
    if (hooks.is_array() && !hooks.empty()) {
      return Unable("hooks, because they are programs of the host (" + base::Quote(kind) + ")");
    }
  }
  if (!json::Map(config, {"linux", "sysctl"}).empty()) {
    return Unable("sysctls for one container; they are the pod's");
  }
  if (!json::String(config, {"linux", "seccomp", "listenerPath"}).empty()) {
    return Unable("seccomp listeners, because they are programs of the host");
  }
  const std::string propagation = json::String(config, {"linux", "rootfsPropagation"});
  if (propagation == "shared" || propagation == "rshared") {
    return Unable("propagation of mounts to the host");
  }
  return base::OkStatus();
}

}  // namespace

std::vector<HostSource> FindHostSources(const Json& config) {
  std::vector<HostSource> sources;
  const Json& mounts = json::Array(config, {"mounts"});
  for (size_t i = 0; i < mounts.size(); ++i) {
    if (IsBindMount(mounts[i])) sources.push_back({i, json::String(mounts[i], {"source"})});
  }
  return sources;
}

bool HasTerminal(const Json& config) { return json::Bool(config, {"process", "terminal"}); }

StatusOr<Json> TranslateForGuest(Json config, const GuestPlaces& places) {
  RETURN_IF_ERROR(RefuseTheRest(config));
  RETURN_IF_ERROR(TranslateMounts(config, places));
  RETURN_IF_ERROR(TranslateNamespaces(config));
  RETURN_IF_ERROR(TranslateDevices(config, places));
  RETURN_IF_ERROR(TranslateResources(config));
  if (config.contains("process")) RETURN_IF_ERROR(TranslateProcess(config["process"]));
  json::Set(config, {"root", "path"}, places.rootfs);
  json::Set(config, {"linux", "cgroupsPath"}, places.cgroup);
  json::Remove(config, {"linux", "mountLabel"});
  return config;
}

StatusOr<Json> TranslateProcessForGuest(Json process) {
  RETURN_IF_ERROR(TranslateProcess(process));
  return process;
}

}  // namespace berth::crust
