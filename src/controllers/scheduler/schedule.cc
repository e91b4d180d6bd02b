// Chooses a node for a pod, and binds the pod to it (scheduler.h).
#include <algorithm>
#include <tuple>

#include "api/time.h"
#include "base/log.h"
#include "controllers/claims.h"
#include "controllers/indexes.h"
#include "controllers/scheduler/scheduler.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"

namespace berth::controllers::scheduler {

using base::EventType;
using base::Json;
using base::MutexLock;
using base::Status;
using base::StatusOr;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

Scheduler::Outcome Scheduler::SyncPod(const std::string& key) {
  const auto pod = pods_.Get(key);
  if (pod == nullptr || !pod->node_name().empty() || pod->deleting() || pod->terminated() ||
      pod->scheduler_name() != "default-scheduler" || pod->has_scheduling_gates()) {
    return Outcome::Done();
  }
  const Progress progress = ProgressOf(pod->uid());
  if (progress.bound) return Outcome::Done();
  if (const auto now = steady_clock::now(); progress.not_before > now) {
    return Outcome::After(std::chrono::ceil<milliseconds>(progress.not_before - now));
  }
  {
    // The pod is noted before its objects are read, so that no change during the run is missed.
    MutexLock lock(mutex_);
    waiting_.insert(key);
  }
  const StatusOr<PodClaims> claims = ClaimsOf(*pod);
  Refusals refusals;
  if (!claims.ok()) {
    return ReportUnschedulable(*pod,
                               fmt::format("0/{} nodes are available: {}.", nodes_.List().size(),
                                           base::Message(claims.status())));
  }
  Placement placement;
  const std::optional<std::string> node = ChooseNode(*pod, *claims, progress, refusals, placement);
  if (!node.has_value()) return ReportUnschedulable(*pod, refusals.RenderMessage());
  {
    MutexLock lock(mutex_);
    Progress& now = progress_[pod->uid()];
    // A node failed for this pod after the choice began, so the choice is made again.
    if (now.failures != progress.failures) return Outcome::After(milliseconds(0));
    waiting_.erase(key);
    now.node = *node;
  }
  return placement.empty() ? BindPod(*pod, *node) : Reserve(*pod, *node, placement);
}

size_t Scheduler::PodsOn(const std::string& node) const {
  size_t count = 0;
  for (const auto& pod : pods_.ByIndex(kPodsByNode, node)) {
    if (!pod->terminated()) ++count;
  }
  MutexLock lock(mutex_);
  for (const auto& [uid, progress] : progress_) {
    if (progress.node == node) ++count;
  }
  return count;
}

std::optional<std::string> Scheduler::ChooseNode(const api::Pod& pod, const PodClaims& claims,
                                                 const Progress& progress, Refusals& refusals,
                                                 Placement& placement) {
  // Orders nodes: the node that is reserved for the pod comes first, then by how often the pod
  // failed there, by the number of pods, and by name.
  using Rank = std::tuple<bool, int, size_t, std::string>;
  std::optional<Rank> best;
  for (const auto& node : nodes_.List()) {
    std::optional<std::string> refusal = RefuseNode(pod, *node);
    Placement here;
    if (!refusal.has_value()) refusal = RefuseVolumes(pod, claims, *node, here);
    if (refusal.has_value()) {
      refusals.Add(*refusal);
      continue;
    }
    const auto failed = progress.failed_nodes.find(node->name());
    Rank rank(node->name() != progress.node,
              failed == progress.failed_nodes.end() ? 0 : failed->second, PodsOn(node->name()),
              node->name());
    if (best.has_value() && *best < rank) continue;
    best = std::move(rank);
    placement = std::move(here);
  }
  if (!best.has_value()) return std::nullopt;
  return std::get<std::string>(*best);
}

Scheduler::Outcome Scheduler::Reserve(const api::Pod& pod, const std::string& node,
                                      const Placement& placement) {
  for (const auto& [claim, volume] : placement) {
    if (const Status placed = PlaceClaim(*claim, volume.get(), node); !placed.ok()) {
      return AfterApi(placed);
    }
  }
  return Outcome::Done();  // the claims' binding queues the pod again
}

Scheduler::Outcome Scheduler::BindPod(const api::Pod& pod, const std::string& node) {
  const Json binding = {
      {"apiVersion", "v1"},
      {"kind", "Binding"},
      {"metadata", {{"name", pod.name()}, {"namespace", pod.ns()}, {"uid", pod.uid()}}},
      {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node}}}};
  const Status bound =
      context_.client.CreateSubresource(api::Pod::kInfo, pod.ns(), pod.name(), "binding", binding)
          .status();
  if (!bound.ok()) return AfterApi(bound);
  LOG_INFO("pod {} is placed on node {}", base::Quote(pod.key()), base::Quote(node));
  {
    MutexLock lock(mutex_);
    // The informer may have seen the pod's node already, and its progress be forgotten.
    if (const auto it = progress_.find(pod.uid()); it != progress_.end()) it->second.bound = true;
  }
  context_.events.Record(pod.reference(), EventType::kNormal, "Scheduled",
                         fmt::format("Successfully assigned {} to {}", pod.key(), node));
  return Outcome::Done();
}

Scheduler::Outcome Scheduler::ReportUnschedulable(const api::Pod& pod, const std::string& message) {
  {
    MutexLock lock(mutex_);
    if (const auto it = progress_.find(pod.uid()); it != progress_.end()) it->second.node.clear();
  }
  const Json* present = pod.condition("PodScheduled");
  const bool was_false = present != nullptr && base::json::String(*present, {"status"}) == "False";
  if (was_false && base::json::String(*present, {"message"}) == message) return Outcome::Done();
  context_.events.Record(pod.reference(), EventType::kWarning, "FailedScheduling", message);
  const std::string now = api::FormatTime(context_.clock.Now());
  const Json condition = {
      {"type", "PodScheduled"},
      {"status", "False"},
      {"reason", "Unschedulable"},
      {"message", message},
      {"lastProbeTime", nullptr},
      {"lastTransitionTime",
       was_false ? base::json::String(*present, {"lastTransitionTime"}, now) : now}};
  const StatusOr<Json> written =
      context_.client.Patch(api::Pod::kInfo, pod.ns(), pod.name(), kube::PatchType::kStrategicMerge,
                            {{"status", {{"conditions", Json::array({condition})}}}}, "status");
  if (written.ok()) pods_.Observe(*written);
  return AfterApi(written.status());
}

Scheduler::Outcome Scheduler::SyncHostMount(const std::string& key) {
  const auto mount = host_mounts_->Get(key);
  if (mount == nullptr || mount->deleting()) return Outcome::Done();
  const auto claim = claims_.Get(mount->ns(), mount->claim_name());
  if (claim == nullptr || claim->deleting() || IsBound(*claim) ||
      claim->has_annotation(kSelectedNode)) {
    return Outcome::Done();
  }
  const std::string class_name = ClassName(*claim, classes_);
  const auto storage_class = classes_.Get(class_name);
  const auto node = nodes_.Get(mount->node_name());
  if (node == nullptr || storage_class == nullptr || !storage_class->wait_for_first_consumer()) {
    return Outcome::Done();
  }
  const VolumePtr volume = FindVolume(
      volumes_, *claim,
      {.class_name = class_name, .pre_bound_only = false, .node = node.get(), .exclude = {}});
  if (volume == nullptr) {
    if (const auto refusal = RefuseProvisioning(*claim, *storage_class, *node)) {
      context_.events.Record(mount->reference(), EventType::kWarning, "FailedScheduling",
                             fmt::format("claim \"{}\" cannot have a volume on node \"{}\": {}",
                                         claim->name(), node->name(), *refusal));
      return Outcome::Done();  // tried again when nodes, volumes or capacities change
    }
  }
  return AfterApi(PlaceClaim(*claim, volume.get(), node->name()));
}

}  // namespace berth::controllers::scheduler
