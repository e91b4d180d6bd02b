#include "controllers/nodelifecycle/node_lifecycle.h"

#include <algorithm>

#include "api/kinds/lease_names.h"
#include "api/time.h"
#include "base/log.h"
#include "controllers/indexes.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"

namespace berth::controllers::nodelifecycle {

using base::EventType;
using base::Json;
using base::KeyedWorkers;
using base::MutexLock;
using base::Status;
using base::json::String;
using std::chrono::milliseconds;

namespace {

KeyedWorkers::Options QueueOptions(const char* name) {
  return {.name = name,
          .workers = 1,
          .retry_start = milliseconds(500),
          // This is shorter than a delay that would count as late (Options::late).
          .retry_max = std::chrono::seconds(5)};
}

}  // namespace

NodeLifecycle::NodeLifecycle(Context context, Options options)
    : context_(context),
      options_(std::move(options)),
      nodes_(context.informers.Of<api::Node>()),
      leases_(context.informers.Of<api::Lease>()),
      pods_(context.informers.Of<api::Pod>()),
      node_workers_(QueueOptions("node-life"),
                    [this](const std::string& key) { return SyncNode(key); }),
      pod_workers_(QueueOptions("evict-pods"),
                   [this](const std::string& key) { return SyncPod(key); }) {
  AddPodIndexes(pods_);
  AddHandlers();
}

NodeLifecycle::~NodeLifecycle() { Stop(); }

void NodeLifecycle::AddHandlers() {
  leases_.AddHandler([this](const auto& change) {
    if (change.after == nullptr || change.after->ns() != api::kNodeLeaseNamespace) return;
    NoteLease(change.after->name(), change.after->renew_time());
  });
  nodes_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) {
      Forget(change.key);
      context_.events.Record(
          change.before->reference(), EventType::kNormal, "RemovingNode",
          fmt::format("Node {0} event: Removing Node {0} from Controller", change.key));
    } else {
      if (change.before == nullptr) {
        context_.events.Record(
            change.after->reference(), EventType::kNormal, "RegisteredNode",
            fmt::format("Node {0} event: Registered Node {0} in Controller", change.key));
      }
      NoteStatus(*change.after);
      node_workers_.AddNow(change.key);
    }
    const bool was_ready = change.before != nullptr && change.before->ready();
    const bool is_ready = change.after != nullptr && change.after->ready();
    if (was_ready != is_ready) {
      // All nodes are queued, because the rate of evictions depends on how many nodes are ready.
      for (const auto& node : nodes_.List()) node_workers_.AddNow(node->name());
    }
    if (change.before == nullptr || change.after == nullptr ||
        change.before->taints() != change.after->taints()) {
      for (const auto& pod : pods_.ByIndex(kPodsByNode, change.key))
        pod_workers_.AddNow(pod->key());
    }
  });
  pods_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) {
      MutexLock lock(mutex_);
      evict_since_.erase(change.before->uid());
      return;
    }
    if (change.after->node_name().empty()) return;
    if (change.before == nullptr || change.before->node_name() != change.after->node_name() ||
        change.before->tolerations() != change.after->tolerations()) {
      pod_workers_.AddNow(change.key);
    }
  });
}

void NodeLifecycle::Start() {
  node_workers_.Start();
  pod_workers_.Start();
}

void NodeLifecycle::Stop() {
  node_workers_.Stop();
  pod_workers_.Stop();
}

NodeLifecycle::Outcome NodeLifecycle::SyncNode(const std::string& name) {
  auto node = nodes_.Get(name);
  if (node == nullptr) {
    Forget(name);
    return Outcome::Done();
  }
  const milliseconds left = TimeLeft(*node);
  if (left.count() <= 0) {
    if (const Status marked = MarkUnknown(name); !marked.ok()) return AfterApi(marked);
    node = nodes_.Get(name);
    if (node == nullptr) return Outcome::Done();
  }
  ReportTransition(*node);
  if (Outcome outcome = WriteTaints(*node); !outcome.status.ok() || outcome.delay.count() >= 0) {
    return outcome;
  }
  return Outcome::After(std::clamp(left, milliseconds(1), options_.check_interval));
}

NodeLifecycle::Outcome NodeLifecycle::WriteTaints(const api::Node& node) {
  milliseconds again(-1);
  const Eviction eviction = AllowEviction(node, EvictionOf(node), again);
  Json taints = TaintsFor(node, eviction, api::FormatTime(context_.clock.Now()));
  if (taints != node.taints()) {
    Json patch = {{"spec", {{"taints", taints}}}};
    if (taints.empty()) patch["spec"]["taints"] = nullptr;
    const Status written = PatchAt(context_.client, nodes_, node, std::move(patch)).status();
    if (!written.ok()) {
      MutexLock lock(mutex_);
      if (eviction != Eviction::kNone) limiter_.GiveBack(node.zone());
      return AfterApi(written);
    }
    LOG_INFO("node {} has the taints {}", base::Quote(node.name()), base::json::Dump(taints));
  }
  if (again.count() < 0) return Outcome::Done();
  return Outcome::After(std::min(again, options_.check_interval));
}

Eviction NodeLifecycle::AllowEviction(const api::Node& node, Eviction wanted, milliseconds& again) {
  std::map<std::string, ZoneCount> zones;
  ZoneCount all;
  const auto nodes = nodes_.List();
  MutexLock lock(mutex_);
  for (const auto& other : nodes) {
    ZoneCount& zone = zones[other->zone()];
    const bool ready = other->ready() && !IsSilent(other->name());
    ++(ready ? zone.ready : zone.not_ready);
    ++(ready ? all.ready : all.not_ready);
  }
  const bool all_down = StateOf(all) == ZoneState::kFull;
  if (std::exchange(all_down_, all_down) && !all_down) {
    // The other nodes may have been silent only because of the failure that has just ended.
    for (auto& [name, health] : health_) health.seen = options_.now();
  }
  if (wanted == Eviction::kNone || all_down) return Eviction::kNone;
  // A node that has one of the two taints already needs no token to change to the other one.
  for (const Json& taint : node.taints()) {
    if (String(taint, {"effect"}) != "NoExecute") continue;
    const std::string key = String(taint, {"key"});
    if (key == kNotReadyTaint || key == kUnreachableTaint) return wanted;
  }
  const double rate = EvictionRate(zones[node.zone()], all_down);
  const milliseconds wait = limiter_.TakeToken(node.zone(), rate, options_.now());
  if (wait.count() == 0) return wanted;
  again = wait.count() < 0 ? options_.check_interval : wait;
  return Eviction::kNone;
}

}  // namespace berth::controllers::nodelifecycle
