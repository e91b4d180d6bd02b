#include "controllers/blockoperator/clusters.h"

#include <algorithm>

#include "api/time.h"
#include "base/log.h"
#include "controllers/blockoperator/block_volume.h"
#include "controllers/blockoperator/claim_plan.h"
#include "controllers/blockoperator/cluster_conditions.h"
#include "controllers/blockoperator/provisioner.h"
#include "controllers/claims.h"
#include "controllers/writes.h"

namespace berth::controllers::blockoperator {

using base::Error;
using base::EventType;

namespace {

constexpr char kFailed[] = "Failed";
constexpr char kDeleting[] = "Deleting";
constexpr char kAnswers[] = "the back end answers";
constexpr char kClean[] = "Clean";
constexpr char kGone[] = "Gone";
// The time between two checks while the operator waits for nodes or images. An answer of a node
// queues the cluster at once.
constexpr std::chrono::seconds kRecheckInterval{10};
constexpr size_t kMaxListedImages = 10;

// The reason of events and of the condition Ready.
const char* ReasonOf(bool ready) { return ready ? "BackendReady" : "BackendFailed"; }

std::string StateOf(const api::StorageCluster& cluster, const std::string& node) {
  return cluster.String({"status", "nodes", node, "state"});
}

// Returns, as a text for people, which volumes the node could not take off, and why.
std::string FailuresOf(const api::StorageCluster& cluster, const std::string& node) {
  std::string out;
  for (const Json& volume :
       base::json::Array(cluster.json(), {"status", "nodes", node, "volumes"})) {
    if (base::json::String(volume, {"state"}) != "Failed") continue;
    out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", base::json::String(volume, {"volume"}),
                       base::json::String(volume, {"message"}));
  }
  return out;
}

std::string JoinNames(const FenceLifts::FencedNodes& nodes) {
  std::vector<std::string> names;
  for (const auto& [node, clients] : nodes) names.push_back(node);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Clusters::Clusters(const Context& context, Backends& backends, NodeProofs& proofs,
                   FenceLifts& lifts, const Options& options)
    : context_(context),
      backends_(backends),
      proofs_(proofs),
      lifts_(lifts),
      options_(options),
      clusters_(context.informers.OfOptional<Cluster>()),
      claims_(context.informers.Of<api::PersistentVolumeClaim>()),
      volumes_(context.informers.Of<Volume>()),
      fences_(context.informers.OfOptional<api::VolumeFence>()),
      workers_(QueueOptions("block-cluster", options, context.flight),
               [this](const std::string& key) { return Sync(key); }) {
  clusters_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) return;
    const bool urgent = change.before == nullptr || change.after->deleting() ||
                        change.before->generation() != change.after->generation();
    if (urgent) {
      workers_.AddNow(change.key);
    } else {
      workers_.Add(change.key);
    }
  });
  fences_.AddHandler([this](const auto& change) {
    for (const api::FenceEntry& entry : change.latest().entries()) {
      const auto cluster = clusters_.Get(entry.cluster_name);
      if (cluster != nullptr && cluster->deleting()) workers_.AddNow(cluster->name());
    }
  });
  volumes_.AddHandler([this](const auto& change) {
    if (change.after != nullptr) return;
    const auto block = BlockVolumeOf(*change.before);
    const auto cluster = block.has_value() ? clusters_.Get(block->cluster) : nullptr;
    if (cluster != nullptr && cluster->deleting()) workers_.AddNow(cluster->name());
  });
}

Clusters::Outcome Clusters::Sync(const std::string& name) {
  const auto cluster = clusters_.Get(name);
  if (cluster == nullptr) return Outcome::Done();
  if (cluster->deleting()) {
    return cluster->has_finalizer(api::kClusterFinalizer) ? CleanUpCluster(*cluster)
                                                          : Outcome::Done();
  }
  if (cluster->has_finalizer(api::kClusterFinalizer)) return CheckCluster(*cluster);
  const StatusOr<Cluster> held = PatchAt(context_.client, clusters_, *cluster,
                                         FinalizersPatch(*cluster, api::kClusterFinalizer, ""));
  return held.ok() ? CheckCluster(*held) : AfterApi(held.status());
}

Status Clusters::CheckBackend(const Cluster& cluster) {
  ASSIGN_OR_RETURN(const Backends::Ptr backend, backends_.Open(cluster));
  RETURN_IF_ERROR(backend->ExchangeLocks(cluster.uid()));
  return CheckAnswers(*backend);
}

Clusters::Outcome Clusters::CheckCluster(const Cluster& cluster) {
  const Status reachable = CheckBackend(cluster);
  // This role is to end, which says nothing about the back end.
  if (reachable.code() == StatusCode::kCancelled) return Outcome::Retry(reachable);
  const std::string phase = reachable.ok() ? kReady : kFailed;
  if (cluster.String({"status", "phase"}) != phase) {
    context_.events.Record(cluster.reference(),
                           reachable.ok() ? EventType::kNormal : EventType::kWarning,
                           ReasonOf(reachable.ok()),
                           reachable.ok() ? kAnswers : std::string(base::Message(reachable)));
  }
  const Status written = WritePhase(cluster, phase, std::string(base::Message(reachable)));
  if (!written.ok()) return AfterApi(written);
  // The delay grows to minutes while the failure stays. So a Secret or a pool that a person mends
  // counts after about the time for which it was wrong, and at most after retry_max.
  return reachable.ok() ? Outcome::After(options_.check_interval) : Outcome::Retry(reachable);
}

Status Clusters::WritePhase(const Cluster& cluster, std::string_view phase,
                            const std::string& message) {
  const bool ready = phase == kReady;
  Json conditions =
      ReplaceClusterCondition(cluster,
                              {.type = kReady,
                               .is_true = ready,
                               .reason = phase == kDeleting ? kDeleting : ReasonOf(ready),
                               .message = ready ? kAnswers : message},
                              context_.clock);
  if (cluster.String({"status", "phase"}) == phase &&
      cluster.String({"status", "message"}) == message &&
      conditions == base::json::Array(cluster.json(), {"status", "conditions"})) {
    return base::OkStatus();
  }
  return PatchAt(context_.client, clusters_, cluster,
                 {{"status",
                   {{"phase", std::string(phase)},
                    {"message", message},
                    {"conditions", std::move(conditions)}}}},
                 "status")
      .status();
}

Clusters::Outcome Clusters::CleanUpCluster(const Cluster& cluster) {
  // The agents do not wait for this step, because they begin at the deletionTimestamp.
  if (const Status deleted = DeleteClaims(cluster); !deleted.ok()) return AfterApi(deleted);
  const auto nodes = ReadNodeStates(cluster);
  if (!nodes.ok()) return AfterApi(nodes.status());
  std::string waiting;
  for (const auto& [node, state] : *nodes) {
    if (state == kClean || state == kGone) continue;
    const StatusOr<bool> gone = MarkIfGone(cluster, node);
    if (!gone.ok()) return AfterApi(gone.status());
    if (*gone) continue;
    const std::string failures = FailuresOf(cluster, node);
    waiting += fmt::format("{}'{}' ({}{}{})", waiting.empty() ? "" : ", ", node,
                           state.empty() ? "no answer from its agent" : state,
                           failures.empty() ? "" : "; ", failures);
  }
  std::string message = waiting.empty() ? "" : "waiting for nodes: " + waiting;
  if (message.empty()) {
    if (const auto images = ImagesLeft(cluster); !images.empty()) {
      message =
          fmt::format("waiting for images to be deleted: {}{}",
                      fmt::join(images.begin(),
                                images.begin() + std::min(images.size(), kMaxListedImages), ", "),
                      images.size() > kMaxListedImages ? ", ..." : "");
    }
  }
  return message.empty() ? EndFences(cluster) : WaitDeleting(cluster, message);
}

bool Clusters::IsWithin(const Cluster& cluster, std::chrono::milliseconds patience) const {
  const auto deleted = api::ParseTime(cluster.String({"metadata", "deletionTimestamp"}));
  return !deleted.ok() || context_.clock.Now() - *deleted <= patience;
}

Clusters::Outcome Clusters::WaitDeleting(const Cluster& cluster, const std::string& message) {
  const Status written = WritePhase(cluster, kDeleting, message);
  if (!written.ok()) return AfterApi(written);
  return Outcome::After(kRecheckInterval);
}

Clusters::Outcome Clusters::EndFences(const Cluster& cluster) {
  const auto lifted = lifts_.LiftFences(cluster);
  if (!lifted.ok()) return AfterApi(lifted.status());
  if (!lifted->left.empty()) {
    // Without the object nobody would lift them any more. The condition has the reason, because
    // its words may change with each try, and each change of the message would begin a new one.
    const Status written = WritePhase(
        cluster, kDeleting,
        fmt::format("the storage has not lifted the fences of nodes that are clean ({}): see the "
                    "condition FencesLeft. To leave them in the storage: kubectl patch "
                    "storagecluster {} --type=merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'",
                    JoinNames(lifted->left), cluster.name()));
    return written.ok() ? Outcome::Retry(lifted->storage) : AfterApi(written);
  }
  const std::string kept = FenceLifts::Describe(cluster, lifted->kept);
  if (!lifted->storage.ok()) {
    const std::string failure(base::Message(lifted->storage));
    // A storage that was out of reach before the deletion is not waited for.
    const bool was_reachable = cluster.String({"status", "phase"}) != kFailed;
    if (was_reachable && IsWithin(cluster, options_.fence_patience)) {
      return WaitDeleting(cluster, "waiting for the storage to lift fences: " + failure);
    }
    return RemoveFinalizer(
        cluster, fmt::format("fences may be left in the storage ({}); let in only nodes that are "
                             "clean or switched off: {}",
                             failure, kept));
  }
  if (lifted->kept.empty()) return RemoveFinalizer(cluster, "");
  return RemoveFinalizer(cluster, fmt::format("the storage keeps the fences of nodes that are not "
                                              "back, and may write once they are let in: {}",
                                              kept));
}

Status Clusters::DeleteClaims(const Cluster& cluster) {
  if (!cluster.deletes_claims()) return base::OkStatus();
  for (const auto& volume : volumes_.ByIndex(kVolumesByCluster, cluster.name())) {
    const auto claim = claims_.Get(volume->claim_namespace(), volume->claim_name());
    if (claim == nullptr || claim->deleting() || !RefersTo(*volume, *claim) ||
        claim->uid() != volume->claim_uid()) {
      continue;
    }
    RETURN_IF_ERROR(kube::Delete(context_.client, *claim));
    context_.events.Record(
        claim->reference(), EventType::kWarning, "ClusterDeleted",
        fmt::format("deleted the claim, because StorageCluster '{}' is being deleted and its "
                    "spec.cleanup.claims is Delete",
                    cluster.name()));
    LOG_INFO("deleted claim {}, because StorageCluster {} is being deleted",
             base::Quote(claim->key()), base::Quote(cluster.name()));
  }
  return base::OkStatus();
}

// Fences and NodeCleanups are read from the API, because an informer's copy may be late, and the
// cleanup does not wait for a node that it does not find.
StatusOr<std::map<std::string, std::string>> Clusters::ReadNodeStates(const Cluster& cluster) {
  std::map<std::string, std::string> nodes;
  for (const auto& [node, answer] : base::json::Map(cluster.json(), {"status", "nodes"}).items()) {
    nodes[node] = StateOf(cluster, node);
  }
  const auto list = [&](const api::KindInfo& kind) { return context_.client.List(kind, "", {}); };
  // NodeCleanups are listed after the fences, because an entry moves from a fence to a NodeCleanup,
  // and must be seen in one of them.
  ASSIGN_OR_RETURN(const kube::ListResult fences, list(api::kinds::kVolumeFence));
  ASSIGN_OR_RETURN(const kube::ListResult cleanups, list(api::kinds::kNodeCleanup));
  const auto add = [&](const std::string& node) {
    // A node with an entry is not clean, even if its agent reported Clean, because the agent checks
    // its records and the fences but not its NodeCleanup.
    std::string& state = nodes[node];
    if (state == kClean) state = "Cleaning";
  };
  for (const Json& item : fences.items) {
    for (const api::FenceEntry& entry : api::VolumeFence(item).entries()) {
      if (entry.cluster_name == cluster.name()) add(entry.node);
    }
  }
  for (const Json& item : cleanups.items) {
    for (const api::CleanupEntry& entry : api::NodeCleanup(item).entries()) {
      if (entry.cluster_name == cluster.name()) add(entry.attachment.node);
    }
  }
  return nodes;
}

StatusOr<bool> Clusters::MarkIfGone(const Cluster& cluster, const std::string& node) {
  const auto proof = proofs_.ProveGone(node);
  if (proof.status().code() == StatusCode::kFailedPrecondition) return false;
  RETURN_IF_ERROR(proof);
  RETURN_IF_ERROR(Patch(context_.client, clusters_, cluster,
                        {{"status", {{"nodes", {{node, {{"state", kGone}}}}}}}}, "status"));
  context_.events.Record(
      cluster.reference(), EventType::kWarning, "NodeGone",
      fmt::format("the cleanup does not wait for node '{}': {}", node, proof->text));
  LOG_INFO("the cleanup of StorageCluster {} does not wait for node {}: {}",
           base::Quote(cluster.name()), base::Quote(node), proof->text);
  return true;
}

std::vector<std::string> Clusters::ImagesLeft(const Cluster& cluster) const {
  std::vector<std::string> left;
  if (!cluster.deletes_claims()) return left;
  if (!IsWithin(cluster, options_.image_patience)) return left;
  for (const auto& volume : volumes_.ByIndex(kVolumesByCluster, cluster.name())) {
    if (volume->has_finalizer(kImageFinalizer)) left.push_back(volume->name());
  }
  return left;
}

Clusters::Outcome Clusters::RemoveFinalizer(const Cluster& cluster, const std::string& fences) {
  std::map<std::string, int> volumes;  // how many, by their state on the nodes
  for (const auto& [node, answer] : base::json::Map(cluster.json(), {"status", "nodes"}).items()) {
    for (const Json& volume : base::json::Array(answer, {"volumes"})) {
      ++volumes[base::json::String(volume, {"state"})];
    }
  }
  const size_t left = volumes_.ByIndex(kVolumesByCluster, cluster.name()).size();
  const std::string text = fmt::format(
      "no node has a volume of it any more: {} unmapped, {} forced off, {} failed; {} "
      "PersistentVolumes of it are left",
      volumes["Unmapped"], volumes["Forced"], volumes["Failed"], left);
  const Status freed = PatchAt(context_.client, clusters_, cluster,
                               FinalizersPatch(cluster, "", api::kClusterFinalizer))
                           .status();
  if (!freed.ok()) return AfterApi(freed);
  context_.events.Record(cluster.reference(), EventType::kNormal, "ClusterCleaned", text);
  if (!fences.empty()) {
    context_.events.Record(cluster.reference(), EventType::kWarning, "FencesLeft", fences);
    LOG_WARNING("StorageCluster {}: {}", base::Quote(cluster.name()), fences);
  }
  LOG_INFO("StorageCluster {}: {}", base::Quote(cluster.name()), text);
  return Outcome::Done();
}

}  // namespace berth::controllers::blockoperator
