// Evicts pods that do not tolerate the taints of their node (node_lifecycle.h).
#include <algorithm>
#include <optional>

#include "api/kinds/taints.h"
#include "base/log.h"
#include "controllers/nodelifecycle/node_lifecycle.h"
#include "controllers/pod_deletion.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"
#include "kube/informers/live_object.h"

namespace berth::controllers::nodelifecycle {

using api::Tolerates;
using base::EventType;
using base::Json;
using base::MutexLock;
using base::Status;
using base::StatusOr;
using base::json::String;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr seconds kForEver = seconds::max();

// How long the pod may stay on the node: kForEver if it tolerates all taints of the node.
seconds StayOn(const api::Node& node, const api::Pod& pod) {
  seconds stay = kForEver;
  for (const Json& taint : node.taints()) {
    if (String(taint, {"effect"}) != "NoExecute") continue;
    // If the node is ready, its taints of this kind will be removed soon.
    const std::string key = String(taint, {"key"});
    if (node.ready() && (key == kNotReadyTaint || key == kUnreachableTaint)) continue;
    bool tolerated = false;
    for (const Json& toleration : pod.tolerations()) {
      if (!Tolerates(toleration, taint)) continue;
      tolerated = true;
      const Json* limit = base::json::Find(toleration, {"tolerationSeconds"});
      if (limit == nullptr || !limit->is_number_integer()) continue;
      stay = std::min(stay, seconds(std::max<int64_t>(limit->get<int64_t>(), 0)));
    }
    if (!tolerated) return seconds(0);
  }
  return stay;
}

}  // namespace

NodeLifecycle::Outcome NodeLifecycle::SyncPod(const std::string& key) {
  const auto pod = pods_.Get(key);
  if (pod == nullptr || pod->deleting() || pod->node_name().empty()) return Outcome::Done();
  const auto node = nodes_.Get(pod->node_name());
  const seconds stay = node == nullptr ? kForEver : StayOn(*node, *pod);
  if (stay == kForEver) {
    Cancel(*pod);
    return Outcome::Done();
  }
  {
    MutexLock lock(mutex_);
    const auto now = options_.now();
    const auto since = evict_since_.try_emplace(pod->uid(), now).first->second;
    if (const auto left = since + stay - now; left.count() > 0) {
      return Outcome::After(std::clamp(std::chrono::ceil<milliseconds>(left), milliseconds(1),
                                       options_.check_interval));
    }
  }
  return Evict(*pod);
}

NodeLifecycle::Outcome NodeLifecycle::Evict(const api::Pod& pod) {
  // The node is read from the API, because the informer may be behind, or this process may have
  // been stopped while the node came back.
  const StatusOr<api::Node> node =
      kube::ReadLiveObject(context_.client, nodes_, "", pod.node_name());
  if (!node.ok()) return AfterApi(node.status());
  if (StayOn(*node, pod) == kForEver) {
    Cancel(pod);
    return Outcome::Done();
  }
  LOG_WARNING("evicting pod {}: it does not tolerate the taints of node {}", base::Quote(pod.key()),
              base::Quote(pod.node_name()));
  context_.events.Record(pod.reference(), EventType::kNormal, "TaintManagerEviction",
                         fmt::format("Marking for deletion Pod {}", pod.key()));
  const Status marked =
      MarkDisrupted(context_, pods_, pod,
                    {.reason = "DeletionByTaintManager",
                     .message = "Taint manager: deleting due to NoExecute taint"});
  if (!marked.ok()) return AfterApi(marked);
  const Status deleted = kube::Delete(context_.client, pod);
  if (deleted.ok()) {
    LOG_INFO("pod {} is evicted from node {}", base::Quote(pod.key()),
             base::Quote(pod.node_name()));
    MutexLock lock(mutex_);
    evict_since_.erase(pod.uid());
  }
  return AfterApi(deleted);
}

void NodeLifecycle::Cancel(const api::Pod& pod) {
  {
    MutexLock lock(mutex_);
    if (evict_since_.erase(pod.uid()) == 0) return;
  }
  context_.events.Record(pod.reference(), EventType::kNormal, "TaintManagerEviction",
                         fmt::format("Cancelling deletion of Pod {}", pod.key()));
}

}  // namespace berth::controllers::nodelifecycle
