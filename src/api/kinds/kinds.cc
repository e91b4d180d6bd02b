#include "api/kinds/kinds.h"

namespace berth::api {

using base::json::Array;
using base::json::Find;
using base::json::Map;

namespace {

template <typename T>
std::vector<T> PartsOf(const Json& list) {
  std::vector<T> out;
  for (const Json& item : list) out.emplace_back(item);
  return out;
}

std::vector<std::string> StringsOf(const Json& list) {
  std::vector<std::string> out;
  for (const Json& item : list) {
    if (item.is_string()) out.push_back(item.get<std::string>());
  }
  return out;
}

}  // namespace

Labels CsiSource::volume_attributes() const {
  Labels out;
  for (const auto& [key, value] : Map(json(), {"volumeAttributes"}).items()) {
    if (value.is_string()) out.emplace(key, value.get<std::string>());
  }
  return out;
}

SecretReference CsiSource::secret_ref(std::string_view which) const {
  return {.name = String({which, "name"}), .ns = String({which, "namespace"})};
}

bool Node::ready() const {
  const Json* ready = condition("Ready");
  return ready != nullptr && base::json::String(*ready, {"status"}) == "True";
}

std::string Node::ready_message() const {
  const Json* ready = condition("Ready");
  return ready == nullptr ? "" : base::json::String(*ready, {"message"});
}

const Json* Node::condition(std::string_view type) const {
  for (const Json& condition : Array(json(), {"status", "conditions"})) {
    if (base::json::String(condition, {"type"}) == type) return &condition;
  }
  return nullptr;
}

std::string Node::zone() const {
  const std::string region = label("topology.kubernetes.io/region");
  const std::string zone = label("topology.kubernetes.io/zone");
  return region.empty() && zone.empty() ? "" : fmt::format("{}:{}", region, zone);
}

std::vector<std::string> Node::volumes_attached() const {
  std::vector<std::string> out;
  for (const Json& volume : Array(json(), {"status", "volumesAttached"})) {
    out.push_back(base::json::String(volume, {"name"}));
  }
  return out;
}

bool Node::has_taint(std::string_view key) const {
  for (const Json& taint : Array(json(), {"spec", "taints"})) {
    if (base::json::String(taint, {"key"}) == key) return true;
  }
  return false;
}

std::string PodVolume::source_type() const {
  for (const auto& [key, value] : json().items()) {
    if (key != "name") return key;
  }
  return "";
}

std::vector<std::string> Container::command() const {
  return StringsOf(Array(json(), {"command"}));
}

std::vector<std::string> Container::args() const { return StringsOf(Array(json(), {"args"})); }

std::vector<VolumeMount> Container::volume_mounts() const {
  return PartsOf<VolumeMount>(Array(json(), {"volumeMounts"}));
}

std::vector<std::pair<std::string, std::string>> Container::volume_devices() const {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Json& device : Array(json(), {"volumeDevices"})) {
    out.emplace_back(base::json::String(device, {"name"}),
                     base::json::String(device, {"devicePath"}));
  }
  return out;
}

std::optional<int64_t> Pod::fs_group() const {
  const Json* group = Find(json(), {"spec", "securityContext", "fsGroup"});
  if (group == nullptr || !group->is_number_integer()) return std::nullopt;
  return group->get<int64_t>();
}

std::vector<PodVolume> Pod::volumes() const {
  return PartsOf<PodVolume>(Array(json(), {"spec", "volumes"}));
}

std::vector<Container> Pod::containers() const {
  return PartsOf<Container>(Array(json(), {"spec", "containers"}));
}

std::vector<Container> Pod::init_containers() const {
  return PartsOf<Container>(Array(json(), {"spec", "initContainers"}));
}

std::vector<Container> Pod::ephemeral_containers() const {
  return PartsOf<Container>(Array(json(), {"spec", "ephemeralContainers"}));
}

bool Pod::ready() const {
  const Json* ready = condition("Ready");
  return ready != nullptr && base::json::String(*ready, {"status"}) == "True";
}

const Json* Pod::condition(std::string_view type) const {
  for (const Json& condition : Array(json(), {"status", "conditions"})) {
    if (base::json::String(condition, {"type"}) == type) return &condition;
  }
  return nullptr;
}

std::optional<std::string> PersistentVolumeClaim::storage_class_name() const {
  const Json* name = Find(json(), {"spec", "storageClassName"});
  if (name == nullptr || !name->is_string()) return std::nullopt;
  return name->get<std::string>();
}

Part PersistentVolumeClaim::data_source() const {
  const Json& reference = Map(json(), {"spec", "dataSourceRef"});
  return Part(reference.empty() ? Map(json(), {"spec", "dataSource"}) : reference);
}

std::vector<std::string> Endpoints::addresses() const {
  std::vector<std::string> out;
  for (const Json& subset : Array(json(), {"subsets"})) {
    for (const Json& address : Array(subset, {"addresses"})) {
      std::string ip = base::json::String(address, {"ip"});
      if (!ip.empty() && std::find(out.begin(), out.end(), ip) == out.end()) {
        out.push_back(std::move(ip));
      }
    }
  }
  return out;
}

std::vector<CsiNode::Driver> CsiNode::drivers() const {
  std::vector<Driver> out;
  for (const Json& item : Array(json(), {"spec", "drivers"})) {
    Driver driver{.name = base::json::String(item, {"name"}),
                  .node_id = base::json::String(item, {"nodeID"}),
                  .topology_keys = StringsOf(Array(item, {"topologyKeys"})),
                  .allocatable_count = std::nullopt};
    if (Find(item, {"allocatable", "count"}) != nullptr) {
      driver.allocatable_count = base::json::Int(item, {"allocatable", "count"});
    }
    out.push_back(std::move(driver));
  }
  return out;
}

std::optional<CsiNode::Driver> CsiNode::driver(std::string_view name) const {
  for (Driver& driver : drivers()) {
    if (driver.name == name) return std::move(driver);
  }
  return std::nullopt;
}

bool CsiDriver::supports_lifecycle(std::string_view mode) const {
  const Json& modes = Array(json(), {"spec", "volumeLifecycleModes"});
  if (modes.empty()) return mode == "Persistent";
  return std::find(modes.begin(), modes.end(), mode) != modes.end();
}

}  // namespace berth::api
