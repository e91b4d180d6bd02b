#include "blockagent/consumers.h"

#include "api/kinds.h"
#include "base/log.h"
#include "blockagent/node_cleanups.h"

namespace berth::blockagent {
namespace {

using base::MutexLock;
using base::StatusCode;
using base::StatusOr;

constexpr std::string_view kLeaseNamespace = "kube-node-lease";
constexpr std::string_view kOutOfServiceTaint = "node.kubernetes.io/out-of-service";
// More nodes than that are not watched at once: those that are asked about are few.
constexpr size_t kMostLeases = 1024;

}  // namespace

StatusOr<bool> IsPodGone(kube::Client& client, const api::FenceEntry& entry) {
  const auto pod = kube::Get<api::Pod>(client, entry.pod_namespace, entry.pod);
  if (pod.status().code() == StatusCode::kNotFound) return true;
  RETURN_IF_ERROR(pod);
  return pod->uid() != entry.pod_uid;
}

PodFact Consumers::FindPod(const api::FenceEntry& old, const std::string& controller_uid,
                           std::string& note) {
  if (old.pod.empty() || old.pod_namespace.empty()) {
    note = "the fence does not say its name";
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

NodeFact Consumers::FindNode(const std::string& name, std::string& note) {
  const auto node = kube::Get<api::Node>(client_, "", name);
  if (node.status().code() == StatusCode::kNotFound) return NodeFact::kGone;
  if (!node.ok()) {
    note = base::Message(node.status());
    return NodeFact::kUnknown;
  }
  for (const base::Json& taint : base::json::Array(node->json(), {"spec", "taints"})) {
    if (base::json::String(taint, {"key"}) == kOutOfServiceTaint) return NodeFact::kOutOfService;
  }
  return NodeFact::kThere;
}

LeaseFact Consumers::FindLease(const std::string& node, std::string& note) {
  const auto lease = kube::Get<api::Lease>(client_, kLeaseNamespace, node);
  if (!lease.ok() && lease.status().code() != StatusCode::kNotFound) {
    note = base::Message(lease.status());
    return LeaseFact::kUnknown;
  }
  const std::string renewed = lease.ok() ? lease->renew_time() : "";
  const Time now = options_.now();
  MutexLock lock(mutex_);
  if (leases_.size() >= kMostLeases && !leases_.contains(node)) leases_.clear();
  const auto [it, first] = leases_.try_emplace(node, Seen{renewed, now});
  if (!first && it->second.renewed != renewed) it->second = {renewed, now};
  const auto silent = now - it->second.since;
  if (silent >= options_.lease_time) return LeaseFact::kExpired;
  const auto left = std::chrono::ceil<std::chrono::seconds>(options_.lease_time - silent);
  note = fmt::format("which takes another {} s if nothing renews it", left.count());
  return LeaseFact::kAlive;
}

ConsumerFacts Consumers::Find(const std::string& volume, const api::FenceEntry& old,
                              const std::string& controller_uid, const AskBackend& ask_backend) {
  ConsumerFacts facts;
  facts.pod = FindPod(old, controller_uid, facts.note);
  if (facts.pod != PodFact::kGone && facts.pod != PodFact::kMoved) return facts;
  facts.node = FindNode(old.node, facts.note);
  if (facts.node != NodeFact::kGone) return facts;
  facts.lease = FindLease(old.node, facts.note);
  if (facts.lease != LeaseFact::kExpired) return facts;
  facts.backend = ask_backend(old.node);
  return facts;
}

}  // namespace berth::blockagent
