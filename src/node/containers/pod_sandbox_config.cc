#include "node/containers/pod_sandbox_config.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "node/containers/cri_labels.h"

namespace berth::node {

namespace {

namespace cri = rpc::cri;
namespace json = base::json;
using base::Json;

// Parses resolv.conf(5). A later `search` line replaces an earlier one, as in the resolver.
cri::DNSConfig ParseResolvConf(const std::string& text) {
  cri::DNSConfig out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string keyword, word;
    words >> keyword;
    if (keyword == "nameserver" && words >> word) out.add_servers(word);
    if (keyword == "search" || keyword == "domain") {
      out.clear_searches();
      while (words >> word) out.add_searches(word);
    }
    if (keyword == "options") {
      while (words >> word) out.add_options(word);
    }
  }
  return out;
}

// There is no cluster DNS, so ClusterFirst means the host's DNS, as in a kubelet without
// clusterDNS.
cri::DNSConfig MakeDnsConfig(const api::Pod& pod, const std::string& resolv_conf) {
  const bool none = pod.String({"spec", "dnsPolicy"}) == "None";
  cri::DNSConfig out = none ? cri::DNSConfig() : ParseResolvConf(resolv_conf);
  const Json& own = json::Map(pod.json(), {"spec", "dnsConfig"});
  for (const Json& server : json::Array(own, {"nameservers"})) {
    if (server.is_string()) out.add_servers(server.get<std::string>());
  }
  for (const Json& search : json::Array(own, {"searches"})) {
    if (search.is_string()) out.add_searches(search.get<std::string>());
  }
  for (const Json& option : json::Array(own, {"options"})) {
    const std::string value = json::String(option, {"value"});
    out.add_options(json::String(option, {"name"}) + (value.empty() ? "" : ":" + value));
  }
  return out;
}

void AddPorts(const api::Pod& pod, cri::PodSandboxConfig& config) {
  for (const api::Container& container : pod.containers()) {
    for (const Json& port : json::Array(container.json(), {"ports"})) {
      const int64_t host_port = json::Int(port, {"hostPort"});
      if (host_port <= 0) continue;
      cri::PortMapping* mapping = config.add_port_mappings();
      const std::string protocol = json::String(port, {"protocol"}, "TCP");
      mapping->set_protocol(protocol == "UDP"    ? cri::UDP
                            : protocol == "SCTP" ? cri::SCTP
                                                 : cri::TCP);
      mapping->set_container_port(static_cast<int32_t>(json::Int(port, {"containerPort"})));
      mapping->set_host_port(static_cast<int32_t>(host_port));
      mapping->set_host_ip(json::String(port, {"hostIP"}));
    }
  }
}

void AddSecurity(const api::Pod& pod, cri::LinuxSandboxSecurityContext& out) {
  const Json& context = json::Map(pod.json(), {"spec", "securityContext"});
  *out.mutable_namespace_options() = PodNamespaces(pod);
  out.set_privileged(HasPrivilegedContainer(pod));
  if (json::Find(context, {"runAsUser"}) != nullptr) {
    out.mutable_run_as_user()->set_value(json::Int(context, {"runAsUser"}));
  }
  if (json::Find(context, {"runAsGroup"}) != nullptr) {
    out.mutable_run_as_group()->set_value(json::Int(context, {"runAsGroup"}));
  }
  for (const int64_t group : SupplementalGroups(pod)) out.add_supplemental_groups(group);
  if (!ReadSelinuxOptions(context, out.mutable_selinux_options())) out.clear_selinux_options();
  // The pause process needs no profile of its own. It gets only the pod's profile, because loading
  // a profile takes the runtime about 15 ms of each pod's start.
  if (!ReadSecurityProfile(context, "seccompProfile", out.mutable_seccomp())) {
    out.mutable_seccomp()->set_profile_type(cri::SecurityProfile::Unconfined);
  }
}

}  // namespace

std::string PodLogFolder(std::string_view log_folder, const api::Pod& pod) {
  return fmt::format("{}/{}_{}_{}", log_folder, pod.ns(), pod.name(), pod.uid());
}

std::string PodHostname(const api::Pod& pod) {
  std::string name = pod.String({"spec", "hostname"}, pod.name()).substr(0, 63);
  while (!name.empty() && (name.back() == '-' || name.back() == '.')) name.pop_back();
  return name;
}

cri::NamespaceOption PodNamespaces(const api::Pod& pod) {
  cri::NamespaceOption out;
  out.set_network(pod.host_network() ? cri::NODE : cri::POD);
  out.set_ipc(pod.Bool({"spec", "hostIPC"}) ? cri::NODE : cri::POD);
  if (pod.Bool({"spec", "hostPID"})) {
    out.set_pid(cri::NODE);
  } else {
    out.set_pid(pod.Bool({"spec", "shareProcessNamespace"}) ? cri::POD : cri::CONTAINER);
  }
  return out;
}

bool ReadSecurityProfile(const Json& context, std::string_view field, cri::SecurityProfile* out) {
  const Json* profile = json::Find(context, {field});
  if (profile == nullptr) return false;
  const std::string type = json::String(*profile, {"type"});
  if (type == "Localhost") {
    out->set_profile_type(cri::SecurityProfile::Localhost);
    out->set_localhost_ref(json::String(*profile, {"localhostProfile"}));
  } else {
    out->set_profile_type(type == "RuntimeDefault" ? cri::SecurityProfile::RuntimeDefault
                                                   : cri::SecurityProfile::Unconfined);
  }
  return true;
}

bool ReadSelinuxOptions(const Json& context, cri::SELinuxOption* out) {
  const Json* options = json::Find(context, {"seLinuxOptions"});
  if (options == nullptr) return false;
  out->set_user(json::String(*options, {"user"}));
  out->set_role(json::String(*options, {"role"}));
  out->set_type(json::String(*options, {"type"}));
  out->set_level(json::String(*options, {"level"}));
  return true;
}

std::vector<int64_t> SupplementalGroups(const api::Pod& pod) {
  std::vector<int64_t> out;
  if (const auto group = pod.fs_group(); group.has_value()) out.push_back(*group);
  for (const Json& group :
       json::Array(pod.json(), {"spec", "securityContext", "supplementalGroups"})) {
    if (group.is_number_integer()) out.push_back(group.get<int64_t>());
  }
  return out;
}

bool HasPrivilegedContainer(const api::Pod& pod) {
  const auto privileged = [](const api::Container& container) {
    return container.Bool({"securityContext", "privileged"});
  };
  const auto containers = pod.containers();
  const auto init = pod.init_containers();
  return std::any_of(containers.begin(), containers.end(), privileged) ||
         std::any_of(init.begin(), init.end(), privileged);
}

SandboxMetadata ChooseMetadata(const api::Pod& pod) {
  SandboxMetadata out{.labels = pod.labels(), .annotations = pod.annotations(), .left_out = {}};
  using Map = std::map<std::string, std::string>;
  std::multimap<size_t, std::pair<Map*, std::string>> by_size;
  size_t total = 0;
  for (Map* map : {&out.labels, &out.annotations}) {
    for (const auto& [key, value] : *map) {
      by_size.emplace(key.size() + value.size(), std::pair(map, key));
      total += key.size() + value.size();
    }
  }
  while (total > kMaxSandboxMetadata) {
    const auto longest = std::prev(by_size.end());
    const auto& [map, key] = longest->second;
    total -= longest->first;
    map->erase(key);
    out.left_out.push_back(key);
    by_size.erase(longest);
  }
  return out;
}

cri::PodSandboxConfig MakeSandboxConfig(const api::Pod& pod, const SandboxConfigOptions& options) {
  cri::PodSandboxConfig config;
  config.mutable_metadata()->set_name(pod.name());
  config.mutable_metadata()->set_namespace_(pod.ns());
  config.mutable_metadata()->set_uid(pod.uid());
  config.mutable_metadata()->set_attempt(options.attempt);
  if (!pod.host_network()) {
    config.set_hostname(PodHostname(pod));
    AddPorts(pod, config);
  }
  config.set_log_directory(PodLogFolder(options.log_folder, pod));
  *config.mutable_dns_config() = MakeDnsConfig(pod, options.resolv_conf);
  const SandboxMetadata own = ChooseMetadata(pod);
  config.mutable_labels()->insert(own.labels.begin(), own.labels.end());
  (*config.mutable_labels())[labels::kPodName] = pod.name();
  (*config.mutable_labels())[labels::kPodNamespace] = pod.ns();
  (*config.mutable_labels())[labels::kPodUid] = pod.uid();
  config.mutable_annotations()->insert(own.annotations.begin(), own.annotations.end());
  (*config.mutable_annotations())[labels::kAgent] = options.agent;
  AddSecurity(pod, *config.mutable_linux()->mutable_security_context());
  for (const Json& sysctl : json::Array(pod.json(), {"spec", "securityContext", "sysctls"})) {
    (*config.mutable_linux()->mutable_sysctls())[json::String(sysctl, {"name"})] =
        json::String(sysctl, {"value"});
  }
  return config;
}

}  // namespace berth::node
