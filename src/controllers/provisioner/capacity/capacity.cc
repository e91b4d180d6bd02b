#include "controllers/provisioner/capacity/capacity.h"

#include <set>

#include "api/quantity.h"
#include "base/ids.h"
#include "controllers/csi_codec.h"

namespace berth::controllers::provisioner {

using base::Json;

std::string CapacityManager(const CapacityOptions& options) {
  constexpr std::string_view kProgram = "external-provisioner";
  constexpr size_t kLongestLabel = 63;
  constexpr size_t kHash = 8;
  if (options.node_name.empty()) return std::string(kProgram);
  const std::string whole = fmt::format("{}-{}", kProgram, options.node_name);
  if (whole.size() <= kLongestLabel) return whole;
  const size_t taken = kHash + 2 + options.node_name.size();
  if (taken >= kLongestLabel) return fmt::format("{}-{:08x}", kProgram, base::Fnv1a32(whole));
  return fmt::format("{}-{:08x}-{}", kProgram.substr(0, kLongestLabel - taken),
                     base::Fnv1a32(kProgram), options.node_name);
}

std::vector<TopologyTerm> CapacitySegments(
    const std::string& driver, const std::string& node_name,
    const std::vector<std::shared_ptr<const api::Node>>& nodes,
    const std::vector<std::shared_ptr<const api::CsiNode>>& csi_nodes) {
  std::map<std::string, const api::Node*> by_name;
  for (const auto& node : nodes) by_name.emplace(node->name(), node.get());
  std::set<TopologyTerm> segments;
  for (const auto& csi_node : csi_nodes) {
    if (!node_name.empty() && csi_node->name() != node_name) continue;
    const auto entry = csi_node->driver(driver);
    const auto node = by_name.find(csi_node->name());
    if (!entry.has_value() || node == by_name.end()) continue;
    if (auto term = TermOf(*node->second, entry->topology_keys)) segments.insert(*std::move(term));
  }
  return {segments.begin(), segments.end()};
}

bool WantsCapacity(const api::StorageClass& storage_class, const DriverInfo& driver,
                   const CapacityOptions& options) {
  return storage_class.provisioner() == driver.name &&
         (options.immediate_binding || storage_class.wait_for_first_consumer());
}

csi::v1::GetCapacityRequest CapacityRequest(const api::StorageClass& storage_class,
                                            const TopologyTerm& segment) {
  csi::v1::GetCapacityRequest request;
  CopyTo(storage_class.parameters(), request.mutable_parameters());
  request.mutable_accessible_topology()->mutable_segments()->insert(segment.begin(), segment.end());
  return request;
}

Json SegmentSelector(const TopologyTerm& segment) {
  if (segment.empty()) return Json::object();
  return {{"matchLabels", segment}};
}

api::CsiStorageCapacity CapacityObject(const std::string& driver, const CapacityOptions& options,
                                       const std::string& storage_class,
                                       const TopologyTerm& segment,
                                       const csi::v1::GetCapacityResponse& answer) {
  api::CsiStorageCapacity out;
  out.Set({"apiVersion"}, "storage.k8s.io/v1");
  out.Set({"kind"}, "CSIStorageCapacity");
  out.Set({"metadata", "generateName"}, "csisc-");
  out.set_ns(options.ns);
  out.set_label(kCapacityDriverLabel, driver);
  out.set_label(kCapacityManagedBy, CapacityManager(options));
  out.Set({"storageClassName"}, storage_class);
  out.Set({"nodeTopology"}, SegmentSelector(segment));
  out.Set({"capacity"}, api::FormatBytes(answer.available_capacity()));
  if (answer.has_maximum_volume_size()) {
    out.Set({"maximumVolumeSize"}, api::FormatBytes(answer.maximum_volume_size().value()));
  }
  return out;
}

Json CapacityPatch(const api::CsiStorageCapacity& present, const api::CsiStorageCapacity& wanted) {
  Json patch = Json::object();
  const auto compare = [&](const char* field) {
    const std::string has = present.String({field});
    const std::string wants = wanted.String({field});
    if (has == wants) return;
    const auto compared = api::CompareQuantities(has, wants);
    if (compared.ok() && *compared == 0) return;  // the same amount in another notation
    patch[field] = wants.empty() ? Json(nullptr) : Json(wants);
  };
  compare("capacity");
  compare("maximumVolumeSize");
  const Json& has = base::json::Array(present.json(), {"metadata", "ownerReferences"});
  const Json& wants = base::json::Array(wanted.json(), {"metadata", "ownerReferences"});
  if (has != wants) patch["metadata"]["ownerReferences"] = wants;
  return patch;
}

}  // namespace berth::controllers::provisioner
