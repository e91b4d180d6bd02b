// Notes the signs of life of nodes, and marks nodes that give none (node_lifecycle.h).
#include "api/kinds/lease_names.h"
#include "api/time.h"
#include "base/log.h"
#include "controllers/indexes.h"
#include "controllers/nodelifecycle/node_lifecycle.h"
#include "controllers/writes.h"
#include "kube/informers/live_object.h"

namespace berth::controllers::nodelifecycle {

using base::EventType;
using base::Json;
using base::MutexLock;
using base::OkStatus;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using base::json::String;
using std::chrono::milliseconds;

namespace {

// The conditions that a node reports about itself. They are unknown for a silent node.
constexpr std::string_view kReported[] = {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"};

// A text that changes whenever the node agent writes the status; "" if there is no condition Ready.
std::string HeartbeatOf(const api::Node& node) {
  const Json* ready = node.condition("Ready");
  if (ready == nullptr) return "";
  return String(*ready, {"lastHeartbeatTime"}) + String(*ready, {"status"});
}

}  // namespace

void NodeLifecycle::NoteLease(const std::string& node, const std::string& renewed) {
  MutexLock lock(mutex_);
  const auto it = health_.find(node);
  if (it == health_.end() || it->second.renewed == renewed) return;
  it->second.renewed = renewed;
  it->second.seen = options_.now();
}

void NodeLifecycle::NoteStatus(const api::Node& node) {
  const auto lease = leases_.Get(api::kNodeLeaseNamespace, node.name());
  const auto now = options_.now();
  MutexLock lock(mutex_);
  const auto [it, first] = health_.try_emplace(node.name());
  Health& health = it->second;
  if (first) {
    // The time before this process began is not known, so each node gets the full time from here.
    health = {.renewed = lease == nullptr ? "" : lease->renew_time(),
              .heartbeat = HeartbeatOf(node),
              .seen = now,
              .check_due = now,
              .was_ready = node.ready()};
  }
  if (std::string heartbeat = HeartbeatOf(node); heartbeat != health.heartbeat) {
    health.heartbeat = std::move(heartbeat);
    // This controller wrote the status Unknown itself, so that is no sign of life.
    const Json* ready = node.condition("Ready");
    if (ready != nullptr && String(*ready, {"status"}) != "Unknown") health.seen = now;
  }
}

void NodeLifecycle::Forget(const std::string& node) {
  MutexLock lock(mutex_);
  health_.erase(node);
}

milliseconds NodeLifecycle::TimeLeft(const api::Node& node) {
  const milliseconds grace =
      node.condition("Ready") == nullptr ? options_.startup_grace : options_.grace;
  const auto now = options_.now();
  MutexLock lock(mutex_);
  Health& health = health_[node.name()];
  if (now - health.check_due > options_.late) {
    LOG_WARNING("the check of node {} comes late: all nodes get their time anew",
                base::Quote(node.name()));
    for (auto& [name, other] : health_) {
      other.seen = now;
      other.check_due = now;
    }
  }
  const auto left = health.seen + grace - now;
  health.check_due = now + std::clamp(std::chrono::ceil<milliseconds>(left), milliseconds(0),
                                      options_.check_interval);
  return std::chrono::ceil<milliseconds>(left);
}

bool NodeLifecycle::IsSilent(const std::string& node) const {
  const auto it = health_.find(node);
  return it != health_.end() && it->second.seen + options_.grace <= options_.now();
}

Status NodeLifecycle::MarkUnknown(const std::string& name) {
  // The API itself is asked, because the informers may be behind or have lost their connection.
  const StatusOr<api::Lease> lease =
      kube::ReadLiveObject(context_.client, leases_, api::kNodeLeaseNamespace, name);
  if (!lease.ok() && lease.status().code() != StatusCode::kNotFound) return lease.status();
  ASSIGN_OR_RETURN(const api::Node node, kube::ReadLiveObject(context_.client, nodes_, "", name));
  if (lease.ok()) NoteLease(name, lease->renew_time());
  NoteStatus(node);
  if (TimeLeft(node).count() > 0) return OkStatus();

  const std::string now = api::FormatTime(context_.clock.Now());
  Json conditions = Json::array();
  for (const std::string_view type : kReported) {
    const Json* present = node.condition(type);
    if (present == nullptr && type != "Ready") continue;
    if (present != nullptr && String(*present, {"status"}) == "Unknown") continue;
    Json condition = {
        {"type", std::string(type)},
        {"status", "Unknown"},
        {"reason", present == nullptr ? "NodeStatusNeverUpdated" : "NodeStatusUnknown"},
        {"message", present == nullptr ? "Kubelet never posted node status."
                                       : "Kubelet stopped posting node status."},
        {"lastTransitionTime", now}};
    if (present == nullptr) condition["lastHeartbeatTime"] = node.creation_timestamp();
    conditions.push_back(std::move(condition));
  }
  if (conditions.empty()) return OkStatus();
  LOG_WARNING("node {} gives no sign of life: it counts as unreachable", base::Quote(name));
  // The patch has the version that was read, so that a status that the node writes meanwhile wins.
  const StatusOr<Json> written =
      context_.client.Patch(api::Node::kInfo, "", name, kube::PatchType::kStrategicMerge,
                            {{"metadata", {{"resourceVersion", node.resource_version()}}},
                             {"status", {{"conditions", std::move(conditions)}}}},
                            "status");
  RETURN_IF_ERROR(written);
  nodes_.Observe(*written);
  return MarkPodsNotReady(api::Node(*written));
}

Status NodeLifecycle::MarkPodsNotReady(const api::Node& node) {
  Status result = OkStatus();
  for (const auto& pod : pods_.ByIndex(kPodsByNode, node.name())) {
    if (!pod->ready() || pod->terminated()) continue;
    const StatusOr<Json> written = context_.client.Patch(
        api::Pod::kInfo, pod->ns(), pod->name(), kube::PatchType::kStrategicMerge,
        {{"metadata", {{"uid", pod->uid()}}},
         {"status",
          {{"conditions",
            {{{"type", "Ready"},
              {"status", "False"},
              {"lastTransitionTime", api::FormatTime(context_.clock.Now())}}}}}}},
        "status");
    if (written.ok()) {
      pods_.Observe(*written);
      context_.events.Record(pod->reference(), EventType::kWarning, "NodeNotReady",
                             "Node is not ready");
    } else if (result.ok() && written.status().code() != StatusCode::kNotFound) {
      result = written.status();
    }
  }
  return result;
}

void NodeLifecycle::ReportTransition(const api::Node& node) {
  {
    MutexLock lock(mutex_);
    const auto it = health_.find(node.name());
    if (it == health_.end()) return;
    if (!std::exchange(it->second.was_ready, node.ready()) || node.ready()) return;
  }
  context_.events.Record(node.reference(), EventType::kNormal, "NodeNotReady",
                         fmt::format("Node {} status is now: NodeNotReady", node.name()));
}

}  // namespace berth::controllers::nodelifecycle
