// Checks whether a node reaches the source data of a pod's claims (scheduler.h). Kubernetes'
// scheduler does not check this, but a driver whose volumes belong to one node cannot copy them to
// another node.
#include "controllers/claims.h"
#include "controllers/data_source.h"
#include "controllers/scheduler/scheduler.h"
#include "controllers/snapshot_names.h"

namespace berth::controllers::scheduler {

Scheduler::Source Scheduler::ReadSource(const Claim& claim) const {
  Source source;
  if (const std::string name = CloneSourceName(claim); !name.empty()) {
    const auto copied = claims_.Get(DataSourceNamespace(claim), name);
    if (copied != nullptr) source.volume = volumes_.Get(copied->volume_name());
  }
  if (const auto content = SnapshotSourceContent(context_.client, claim)) {
    source.node = content->label(kManagedByNode);
    source.driver = content->driver();
  }
  return source;
}

bool Scheduler::ReachesSource(const Source& source, const api::Node& node) const {
  if (source.volume != nullptr) return VolumeReachableFrom(*source.volume, node);
  if (source.node.empty() || source.node == node.name()) return true;
  // A snapshot is within reach of all nodes of the driver's topology that took it.
  const auto taken_on = nodes_.Get(source.node);
  const auto csi_node = csi_nodes_.Get(source.node);
  const auto driver = csi_node == nullptr ? std::nullopt : csi_node->driver(source.driver);
  if (taken_on == nullptr || !driver.has_value()) return true;  // nothing is known
  return std::all_of(
      driver->topology_keys.begin(), driver->topology_keys.end(),
      [&](const std::string& key) { return taken_on->label(key) == node.label(key); });
}

}  // namespace berth::controllers::scheduler
