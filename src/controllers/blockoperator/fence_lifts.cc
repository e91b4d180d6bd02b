#include "controllers/blockoperator/fence_lifts.h"

#include <set>

#include "base/log.h"
#include "controllers/blockoperator/provisioner.h"
#include "controllers/names.h"
#include "controllers/writes.h"

namespace berth::controllers::blockoperator {

namespace {

bool IsSilent(const api::Node& node) {
  return node.has_taint(kUnreachableTaint) || node.has_taint(kOutOfServiceTaint);
}

}  // namespace

FenceLifts::FenceLifts(const Context& context, Backends& backends, const Options& options)
    : context_(context),
      backends_(backends),
      interval_(options.check_interval),
      clusters_(context.informers.OfOptional<api::StorageCluster>()),
      cleanups_(context.informers.OfOptional<api::NodeCleanup>()),
      workers_(QueueOptions("block-unfence", options, context.flight),
               [this](const std::string& cluster) { return Sync(cluster); }) {
  clusters_.AddHandler([this](const auto& change) {
    if (change.after != nullptr) workers_.Add(change.key);
  });
  // A Node that is back may have worked off what it owed before this program saw it.
  context.informers.Of<api::Node>().AddHandler([this](const auto& change) {
    if (change.after == nullptr || IsSilent(*change.after)) return;
    if (change.before != nullptr && !IsSilent(*change.before)) return;
    clusters_.ForEach(
        [this](const api::StorageCluster& cluster) { workers_.AddNow(cluster.name()); });
  });
  cleanups_.AddHandler([this](const auto& change) {
    if (change.before == nullptr) return;
    std::set<std::string> clusters;
    for (const api::CleanupEntry& entry : change.before->entries()) {
      clusters.insert(entry.cluster_name);
    }
    for (const std::string& cluster : clusters) {
      if (!cluster.empty()) workers_.AddNow(cluster);
    }
  });
}

StatusOr<bool> FenceLifts::IsBack(const std::string& name) {
  const auto node = kube::Get<api::Node>(context_.client, "", name);
  if (node.status().code() == StatusCode::kNotFound) return false;
  RETURN_IF_ERROR(node);
  return !IsSilent(*node);
}

StatusOr<FenceLifts::Lifted> FenceLifts::LiftFences(const api::StorageCluster& cluster) {
  Lifted lifted;
  const StatusOr<Backends::Ptr> backend = backends_.Open(cluster);
  // What is wrong with the back end is in the cluster's status (clusters.h).
  if (!backend.ok() || !(*backend)->FencesNodes()) return lifted;
  lifted.fences = true;
  const auto fenced = (*backend)->ListFenced();
  if (!fenced.ok()) {
    lifted.storage = base::Annotate(fenced.status(), "list the fences");
    return lifted;
  }
  if (fenced->empty()) return lifted;
  RETURN_IF_ERROR(cleanups_.CheckListed());
  ASSIGN_OR_RETURN(const auto cleanups, context_.client.List(api::kinds::kNodeCleanup, "", {}));
  // An entry counts whatever its cluster is, because two StorageClusters may be one pool.
  std::set<std::string> owing;
  for (const Json& item : cleanups.items) {
    const api::NodeCleanup cleanup(item);
    if (!cleanup.entries().empty()) owing.insert(cleanup.name());
  }
  for (const auto& [node, clients] : *fenced) {
    bool back = false;
    if (!owing.contains(node)) {
      ASSIGN_OR_RETURN(back, IsBack(node));
    }
    if (!back) {
      lifted.kept.push_back(node);
      continue;
    }
    const Status unfenced = Passing<"blockoperator.unfence">(
        [&] { return (*backend)->Unfence(api::NodeName(node), clients); });
    if (!unfenced.ok()) {
      // The fences of other nodes do not depend on this one.
      lifted.storage = base::Annotate(unfenced, fmt::format("lift the fence of node '{}'", node));
      LOG_WARNING("StorageCluster {}: {}", base::Quote(cluster.name()),
                  base::ToString(lifted.storage));
      continue;
    }
    const std::string text = fmt::format(
        "node '{}' has taken off what it had: its fence in the storage is lifted", node);
    context_.events.Record(cluster.reference(), base::EventType::kNormal, "NodeUnfenced", text);
    LOG_INFO("StorageCluster {}: {}", base::Quote(cluster.name()), text);
  }
  return lifted;
}

FenceLifts::Outcome FenceLifts::Sync(const std::string& name) {
  const auto cluster = clusters_.Get(name);
  if (cluster == nullptr) return Outcome::Done();
  const StatusOr<Lifted> lifted = LiftFences(*cluster);
  if (!lifted.ok()) return AfterApi(lifted.status());
  if (!lifted->fences) return Outcome::Done();
  if (!lifted->storage.ok()) return ReportFailure(*cluster, lifted->storage);
  return Outcome::After(interval_);
}

FenceLifts::Outcome FenceLifts::ReportFailure(const api::StorageCluster& cluster,
                                              const Status& failed) {
  context_.events.Record(cluster.reference(), base::EventType::kWarning, "UnfenceFailed",
                         std::string(base::Message(failed)));
  return Outcome::Retry(failed);
}

}  // namespace berth::controllers::blockoperator
