#include "controllers/daemonset/daemon_sets.h"

#include <algorithm>
#include <tuple>

#include "api/selector.h"
#include "base/log.h"
#include "controllers/daemonset/claiming.h"
#include "controllers/writes.h"

namespace berth::controllers::daemonset {

using base::EventType;
using base::Json;
using base::MutexLock;
using base::Status;
using base::StatusOr;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

// How many pods one sync creates at most, and how many it deletes at most.
constexpr size_t kBurst = 250;

// Whether a node's change (a heartbeat, for example) does not affect where pods belong.
bool SameForUs(const api::Node& a, const api::Node& b) {
  return a.labels() == b.labels() && a.taints() == b.taints();
}

bool SelectsEverything(const api::DaemonSet& set) {
  const auto selector = api::LabelSelector::FromJson(set.selector());
  return selector.ok() && selector->empty();
}

}  // namespace

DaemonSets::DaemonSets(Context context, Options options)
    : context_(context),
      options_(options),
      sets_(context.informers.Of<Set>()),
      revisions_(context.informers.Of<Revision>()),
      pods_(context.informers.Of<api::Pod>()),
      nodes_(context.informers.Of<api::Node>()),
      workers_({.name = "daemonsets",
                .workers = 2,
                .retry_start = milliseconds(200),
                .retry_max = std::chrono::seconds(60)},
               [this](const std::string& key) { return Sync(key); }) {
  AddControllerIndex(pods_);
  AddControllerIndex(revisions_);
  AddHandlers();
}

DaemonSets::~DaemonSets() { Stop(); }

void DaemonSets::AddOwner(const api::Object& object) {
  if (const auto owner = object.controller()) {
    if (owner->kind == Set::kInfo.kind) workers_.Add(api::ObjectKey(object.ns(), owner->name));
    return;
  }
  // Each set whose selector matches the object may adopt it.
  for (const auto& set : sets_.List()) {
    if (set->ns() != object.ns()) continue;
    const auto selector = api::LabelSelector::FromJson(set->selector());
    if (selector.ok() && selector->Matches(object.labels())) workers_.Add(set->key());
  }
}

void DaemonSets::AddHandlers() {
  sets_.AddHandler([this](const auto& change) { workers_.Add(change.key); });
  pods_.AddHandler([this](const auto& change) {
    if (change.after == nullptr || change.after->deleting()) {
      MutexLock lock(mutex_);
      leaving_.erase(change.latest().uid());
    }
    if (change.before != nullptr) AddOwner(*change.before);
    if (change.after != nullptr) AddOwner(*change.after);
  });
  revisions_.AddHandler([this](const auto& change) {
    if (change.before != nullptr) AddOwner(*change.before);
    if (change.after != nullptr) AddOwner(*change.after);
  });
  nodes_.AddHandler([this](const auto& change) {
    if (change.before != nullptr && change.after != nullptr &&
        SameForUs(*change.before, *change.after)) {
      return;
    }
    for (const auto& set : sets_.List()) workers_.Add(set->key());
  });
}

void DaemonSets::Start() { workers_.Start(); }
void DaemonSets::Stop() { workers_.Stop(); }

DaemonSets::Outcome DaemonSets::Sync(const std::string& key) {
  const auto set = sets_.Get(key);
  // A set that is being deleted keeps its pods as they are, because the garbage collector deletes
  // them.
  if (set == nullptr || set->deleting()) return Outcome::Done();
  if (SelectsEverything(*set)) {
    context_.events.Record(
        set->reference(), EventType::kWarning, "SelectingAll",
        "This daemon set is selecting all pods. A non-empty selector is required.");
    return Outcome::Done();
  }
  const StatusOr<milliseconds> again = Reconcile(*set);
  if (!again.ok()) return AfterApi(again.status());
  return again->count() > 0 ? Outcome::After(*again) : Outcome::Done();
}

StatusOr<milliseconds> DaemonSets::Reconcile(const Set& set) {
  ASSIGN_OR_RETURN(const History history, FindHistory(set));
  ASSIGN_OR_RETURN(const std::vector<PodPtr> pods, ClaimPods(set));
  const std::string hash = history.current->label(kRevisionHash);
  const Nodes nodes = NodesOf(set, pods);
  const auto desired = static_cast<size_t>(std::count_if(
      nodes.begin(), nodes.end(), [](const auto& one) { return one.second.fit.run; }));
  const Rules rules = RulesOf(set, hash, desired);
  Plan plan = PlanPods(nodes, rules);
  for (const PodPtr& pod : pods) {
    // The pod is pinned to a node that no longer exists, so it would wait for ever.
    if (pod->node_name().empty() && !pod->deleting() && !nodes.contains(TargetNode(*pod))) {
      plan.remove.push_back(pod);
    }
  }
  // The rollout goes on only when each node has what it should have.
  if (plan.empty()) plan = PlanRollout(nodes, rules);
  milliseconds again(0);
  const Status carried = CarryOutPlan(set, plan, hash, again);
  if (carried.ok()) RETURN_IF_ERROR(CutHistory(set, history, pods));
  // The status is written after a failure, too, because it must show the present state.
  const Status written = WriteStatus(set, NodesOf(set, pods), hash);
  RETURN_IF_ERROR(carried);
  RETURN_IF_ERROR(written);
  if (set.min_ready_seconds() > 0) {
    for (const auto& [name, node] : nodes) {
      for (const DaemonPod& one : node.pods) {
        if (!one.pod->ready() || one.available) continue;
        const milliseconds wait = std::chrono::seconds(set.min_ready_seconds());
        again = again.count() == 0 ? wait : std::min(again, wait);
      }
    }
  }
  return again;
}

Nodes DaemonSets::NodesOf(const Set& set, const std::vector<PodPtr>& pods) const {
  Nodes nodes;
  for (const auto& node : nodes_.List()) nodes[node->name()].fit = FitOf(set, *node);
  const base::WallTime now = context_.clock.Now();
  MutexLock lock(mutex_);
  for (const PodPtr& pod : pods) {
    const auto node = nodes.find(TargetNode(*pod));
    if (node == nodes.end()) continue;
    const bool leaving = pod->deleting() || leaving_.contains(pod->uid());
    if (leaving && pod->terminated()) continue;
    node->second.pods.push_back({.pod = pod,
                                 .leaving = leaving,
                                 .available = IsAvailable(*pod, set.min_ready_seconds(), now)});
  }
  const auto order = [](const DaemonPod& one) {
    return std::tuple(one.pod->node_name().empty(), one.pod->creation_timestamp(), one.pod->name());
  };
  for (auto& [name, node] : nodes) {
    std::sort(node.pods.begin(), node.pods.end(),
              [&](const DaemonPod& a, const DaemonPod& b) { return order(a) < order(b); });
  }
  return nodes;
}

Status DaemonSets::CarryOutPlan(const Set& set, const Plan& plan, const std::string& hash,
                                milliseconds& again) {
  Status result = base::OkStatus();
  const auto note = [&](const Status& status) {
    if (result.ok()) result = status;
  };
  for (size_t i = 0; i < std::min(plan.remove.size(), kBurst); ++i) {
    note(DeletePod(set, *plan.remove[i]));
  }
  for (const PodPtr& pod : plan.failed) {
    const std::string node = TargetNode(*pod);
    if (const milliseconds pause = FailedPause(set, node); pause.count() > 0) {
      again = again.count() == 0 ? pause : std::min(again, pause);
      continue;
    }
    context_.events.Record(set.reference(), EventType::kWarning, "FailedDaemonPod",
                           fmt::format("Found failed daemon pod {} on node {}, will try to kill it",
                                       pod->key(), node));
    note(DeletePod(set, *pod));
  }
  for (const PodPtr& pod : plan.succeeded) {
    context_.events.Record(
        set.reference(), EventType::kNormal, "SucceededDaemonPod",
        fmt::format("Found succeeded daemon pod {} on node {}, will try to delete it", pod->key(),
                    TargetNode(*pod)));
    note(DeletePod(set, *pod));
  }
  for (size_t i = 0; i < std::min(plan.create_on.size(), kBurst) && result.ok(); ++i) {
    note(CreatePod(set, api::NodeName(plan.create_on[i]), hash));
  }
  return result;
}

Status DaemonSets::CreatePod(const Set& set, const api::NodeName& node, const std::string& hash) {
  const auto created = kube::Create(context_.client, api::Pod(MakeDaemonPod(set, node, hash)));
  if (!created.ok()) {
    context_.events.Record(set.reference(), EventType::kWarning, "FailedCreate",
                           fmt::format("Error creating: {}", base::Message(created.status())));
    return created.status();
  }
  pods_.Observe(created->json());
  LOG_INFO("pod {} of daemon set {} is made for node {}", base::Quote(created->key()),
           base::Quote(set.key()), node);
  context_.events.Record(set.reference(), EventType::kNormal, "SuccessfulCreate",
                         fmt::format("Created pod: {}", created->name()));
  return base::OkStatus();
}

Status DaemonSets::DeletePod(const Set& set, const api::Pod& pod) {
  const Status deleted = kube::Delete(context_.client, pod);
  if (!deleted.ok()) {
    context_.events.Record(set.reference(), EventType::kWarning, "FailedDelete",
                           fmt::format("Error deleting: {}", base::Message(deleted)));
    return deleted;
  }
  LOG_INFO("pod {} of daemon set {} is deleted", base::Quote(pod.key()), base::Quote(set.key()));
  {
    // The deletion is remembered until the informer has seen it. If it has already, there is
    // nothing to remember.
    MutexLock lock(mutex_);
    const auto now = pods_.Get(pod.key());
    if (now != nullptr && now->uid() == pod.uid() && !now->deleting()) leaving_.insert(pod.uid());
  }
  context_.events.Record(set.reference(), EventType::kNormal, "SuccessfulDelete",
                         fmt::format("Deleted pod: {}", pod.name()));
  return base::OkStatus();
}

milliseconds DaemonSets::FailedPause(const Set& set, const std::string& node) {
  const auto now = steady_clock::now();
  MutexLock lock(mutex_);
  FailedBackoff& backoff = failed_[fmt::format("{}/{}", set.uid(), node)];
  if (const auto left = backoff.since + backoff.pause - now;
      backoff.pause.count() > 0 && left.count() > 0) {
    return std::chrono::ceil<milliseconds>(left);
  }
  const bool calm = now - backoff.since > 2 * options_.failed_max;
  backoff.pause = calm || backoff.pause.count() == 0
                      ? options_.failed_start
                      : std::min(backoff.pause * 2, options_.failed_max);
  backoff.since = now;
  std::erase_if(failed_,
                [&](const auto& one) { return now - one.second.since > 2 * options_.failed_max; });
  return milliseconds(0);
}

}  // namespace berth::controllers::daemonset
