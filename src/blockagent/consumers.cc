#include "blockagent/consumers.h"

#include <algorithm>

#include "api/kinds/kinds.h"
#include "api/kinds/pod_claims.h"
#include "base/log.h"
#include "blockagent/node_cleanups.h"

namespace berth::blockagent {
namespace {

using base::Json;
using base::MutexLock;
using base::StatusCode;
using base::StatusOr;

constexpr std::string_view kLeaseNamespace = "kube-node-lease";
constexpr std::string_view kOutOfServiceTaint = "node.kubernetes.io/out-of-service";
// The most consumers that are watched at once; far fewer are expected.
constexpr size_t kMostWatched = 16384;
constexpr std::chrono::seconds kLongestPromise{3600};
// A kubelet tries a mount again within two minutes. After a longer pause the watch begins again,
// because the node may have been there in between.
constexpr std::chrono::minutes kLongestPause{5};

// Whether one of the pod's containers has started, and the pod has not ended. Its volumes were
// mounted before that.
bool HasStarted(const api::Pod& pod) {
  if (pod.terminated()) return false;
  if (pod.phase() == "Running") return true;
  for (const char* statuses : {"initContainerStatuses", "containerStatuses"}) {
    for (const Json& one : base::json::Array(pod.json(), {"status", statuses})) {
      if (base::json::Find(one, {"state", "running"}) != nullptr ||
          base::json::Find(one, {"state", "terminated"}) != nullptr) {
        return true;
      }
    }
  }
  return false;
}

// The member of the pod's volumes that is the claim; nullptr: there is none.
const Json* FindUseOfClaim(const api::Pod& pod, const std::string& claim) {
  for (const Json& one : base::json::Array(pod.json(), {"spec", "volumes"})) {
    if (api::FindClaimName(pod, api::PodVolume(one)) == claim) return &one;
  }
  return nullptr;
}

}  // namespace

StatusOr<bool> IsPodGone(kube::Client& client, const api::FenceEntry& entry) {
  const auto pod = kube::Get<api::Pod>(client, entry.pod_namespace, entry.pod);
  if (pod.status().code() == StatusCode::kNotFound) return true;
  RETURN_IF_ERROR(pod);
  return pod->uid() != entry.pod_uid;
}

StatusOr<std::vector<api::FenceEntry>> FindStartedPods(kube::Client& client,
                                                       const api::PersistentVolume& volume,
                                                       const std::string& node) {
  std::vector<api::FenceEntry> started;
  ASSIGN_OR_RETURN(const auto pods, client.List(api::kinds::kPod, volume.claim_namespace(), {}));
  for (const base::Json& item : pods.items) {
    const api::Pod pod(item);
    if (pod.node_name().empty() || pod.node_name() == node || !HasStarted(pod)) continue;
    const Json* use = FindUseOfClaim(pod, volume.claim_name());
    if (use == nullptr) continue;
    ASSIGN_OR_RETURN(const bool owed,
                     HasCleanup(client, api::NodeName(pod.node_name()),
                                api::VolumeName(volume.name()), api::PodUid(pod.uid())));
    if (owed) continue;
    started.push_back({.node = pod.node_name(),
                       .pod_namespace = pod.ns(),
                       .pod = pod.name(),
                       .pod_uid = pod.uid(),
                       .read_only = base::json::Bool(*use, {"persistentVolumeClaim", "readOnly"})});
  }
  return started;
}

PodFact Consumers::FindPod(const api::FenceEntry& old, const std::string& controller_uid,
                           std::string& note) {
  if (old.pod.empty() || old.pod_namespace.empty()) {
    note = "the fence does not name the pod";
    return PodFact::kUnknown;
  }
  const auto pod = kube::Get<api::Pod>(client_, old.pod_namespace, old.pod);
  if (pod.status().code() == StatusCode::kNotFound) return PodFact::kGone;
  if (!pod.ok()) {
    note = base::Message(pod.status());
    return PodFact::kUnknown;
  }
  if (pod->uid() != old.pod_uid) return PodFact::kGone;
  const auto controller = pod->controller();
  const bool moved = pod->deleting() && controller.has_value() && !controller_uid.empty() &&
                     controller->uid == controller_uid;
  return moved ? PodFact::kMoved : PodFact::kThere;
}

NodeFact Consumers::FindNode(const api::NodeName& name, const std::string& use, std::string& note) {
  const auto node = kube::Get<api::Node>(client_, "", name.text());
  if (node.status().code() == StatusCode::kNotFound) return NodeFact::kGone;
  if (!node.ok()) {
    note = base::Message(node.status());
    return NodeFact::kUnknown;
  }
  {
    MutexLock lock(mutex_);
    watched_.erase(use);
  }
  for (const base::Json& taint : base::json::Array(node->json(), {"spec", "taints"})) {
    if (base::json::String(taint, {"key"}) == kOutOfServiceTaint) return NodeFact::kOutOfService;
  }
  return NodeFact::kThere;
}

LeaseFact Consumers::FindLease(const api::NodeName& node, const std::string& use,
                               std::string& note) {
  const auto lease = kube::Get<api::Lease>(client_, kLeaseNamespace, node.text());
  if (!lease.ok() && lease.status().code() != StatusCode::kNotFound) {
    note = base::Message(lease.status());
    return LeaseFact::kUnknown;
  }
  const std::string state = lease.ok() ? lease->uid() + " " + lease->renew_time() : "absent";
  const Time now = options_.now();
  MutexLock lock(mutex_);
  if (watched_.size() >= kMostWatched && !watched_.contains(use)) watched_.clear();
  Seen& seen = watched_[use];
  if (seen.state != state || now - seen.asked > kLongestPause) {
    seen.state = state;
    seen.since = now;
  }
  seen.asked = now;
  if (lease.ok()) {
    const int64_t promised = lease->Int({"spec", "leaseDurationSeconds"});
    seen.promised = std::max<std::chrono::milliseconds>(
        seen.promised, std::chrono::seconds(std::min(promised, kLongestPromise.count())));
  }
  const auto needed = std::max(options_.lease_time, seen.promised);
  const auto silent = now - seen.since;
  if (silent >= needed) return LeaseFact::kExpired;
  const auto left = std::chrono::ceil<std::chrono::seconds>(needed - silent);
  note = fmt::format("which takes another {} s if nothing renews it", left.count());
  return LeaseFact::kAlive;
}

ConsumerFacts Consumers::Find(const api::VolumeName& volume, const api::FenceEntry& old,
                              const std::string& controller_uid, const BackendAsked& backend) {
  ConsumerFacts facts;
  facts.pod = FindPod(old, controller_uid, facts.note);
  if (facts.pod != PodFact::kGone && facts.pod != PodFact::kMoved) return facts;
  const std::string use = fmt::format("{} {} {}", volume.text(), old.node, old.pod_uid);
  const api::NodeName node(old.node);
  facts.node = FindNode(node, use, facts.note);
  if (backend.fences_nodes) facts.backend = BackendFact::kFences;
  if (facts.node != NodeFact::kGone || backend.fences_nodes) return facts;
  facts.lease = FindLease(node, use, facts.note);
  if (facts.lease != LeaseFact::kExpired) return facts;
  facts.backend = backend.find_lock(node);
  return facts;
}

}  // namespace berth::blockagent
