#include "controllers/provisioner/node_reach.h"

#include <algorithm>

#include "api/migration/translation.h"
#include "controllers/claims.h"
#include "controllers/data_source.h"
#include "controllers/snapshot_names.h"

namespace berth::controllers::provisioner {

NodeReach::NodeReach(const Context& context, NodeDeployment node_deployment)
    : client_(context.client),
      node_deployment_(std::move(node_deployment)),
      claims_(context.informers.Of<api::PersistentVolumeClaim>()),
      volumes_(context.informers.Of<api::PersistentVolume>()),
      nodes_(context.informers.OfOptional<api::Node>()),
      csi_nodes_(context.informers.OfOptional<api::CsiNode>()) {}

bool NodeReach::ReachesVolume(const api::PersistentVolume& volume) const {
  if (!node_deployment_.enabled()) return true;
  const auto node = nodes_.Get(node_deployment_.node_name);
  if (node == nullptr) return false;
  // The node has the driver's labels, and an in-tree plugin's volume those of the plugin.
  return VolumeReachableFrom(api::migration::AsCsiVolume(volume).value_or(volume), *node);
}

bool NodeReach::ReachesSource(const api::PersistentVolumeClaim& claim) const {
  if (const std::string name = CloneSourceName(claim); !name.empty()) {
    const auto source = claims_.Get(DataSourceNamespace(claim), name);
    const auto volume = source == nullptr ? nullptr : volumes_.Get(source->volume_name());
    return volume == nullptr || ReachesVolume(*volume);
  }
  const auto content = SnapshotSourceContent(client_, claim);
  if (!content.has_value()) return true;
  const std::string node = content->label(kManagedByNode);
  return node.empty() || node == node_deployment_.node_name;
}

bool NodeReach::IsOnlyNode(const DriverInfo& driver) const {
  if (!node_deployment_.watch_nodes || !csi_nodes_.CheckListed().ok()) return false;
  const auto nodes = csi_nodes_.List();
  return std::none_of(nodes.begin(), nodes.end(), [&](const auto& node) {
    return node->name() != node_deployment_.node_name && node->driver(driver.name).has_value();
  });
}

}  // namespace berth::controllers::provisioner
