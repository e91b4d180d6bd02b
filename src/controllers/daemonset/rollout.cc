#include "controllers/daemonset/rollout.h"

#include <algorithm>
#include <charconv>

#include "api/time.h"

namespace berth::controllers::daemonset {

using base::Json;

namespace {

// The number that `value` means: a whole number, or a percentage of `total` ("10%"), rounded up.
// `fallback` if it is absent or malformed.
size_t Scaled(const Json* value, size_t total, size_t fallback) {
  if (value == nullptr) return fallback;
  if (value->is_number_integer()) {
    return static_cast<size_t>(std::max<int64_t>(value->get<int64_t>(), 0));
  }
  if (!value->is_string()) return fallback;
  const std::string& text = value->get_ref<const std::string&>();
  size_t percent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percent);
  if (error != std::errc() || std::string_view(end, text.data() + text.size()) != "%") {
    return fallback;
  }
  return (percent * total + 99) / 100;
}

bool IsNew(const DaemonPod& one, const std::string& hash) {
  return one.pod->label(kRevisionHash) == hash;
}

// The pods of a node by revision, without those that are leaving.
struct Pair {
  const DaemonPod* fresh = nullptr;
  const DaemonPod* old = nullptr;
  bool single = true;  // no more than one of each
};

Pair PairOf(const NodePods& node, const std::string& hash) {
  Pair pair;
  for (const DaemonPod& one : node.pods) {
    if (one.leaving) continue;
    const DaemonPod*& place = IsNew(one, hash) ? pair.fresh : pair.old;
    if (place != nullptr) pair.single = false;
    if (place == nullptr) place = &one;
  }
  return pair;
}

// With surge a node may have two pods: an old one that will leave, and its successor.
void ManageSurging(const std::vector<const DaemonPod*>& running, const std::string& hash,
                   Plan& plan) {
  const DaemonPod* fresh = nullptr;
  const DaemonPod* old = nullptr;
  for (const DaemonPod* one : running) {
    const DaemonPod*& place = IsNew(*one, hash) ? fresh : old;
    if (place != nullptr) plan.remove.push_back(one->pod);
    if (place == nullptr) place = one;
  }
  if (fresh == nullptr || old == nullptr) return;
  if (!old->pod->ready() || fresh->available) plan.remove.push_back(old->pod);
}

void ManageNode(const std::string& name, const NodePods& node, const Rules& rules, Plan& plan) {
  if (!node.fit.stay) {
    for (const DaemonPod& one : node.pods) {
      if (!one.leaving) plan.remove.push_back(one.pod);
    }
    return;
  }
  if (node.pods.empty()) {
    if (node.fit.run) plan.create_on.push_back(name);
    return;
  }
  std::vector<const DaemonPod*> running;
  for (const DaemonPod& one : node.pods) {
    if (one.leaving) continue;
    if (one.pod->phase() == "Failed") {
      plan.failed.push_back(one.pod);
    } else if (one.pod->phase() == "Succeeded") {
      plan.succeeded.push_back(one.pod);
    } else {
      running.push_back(&one);
    }
  }
  if (rules.max_surge == 0) {
    for (size_t i = 1; i < running.size(); ++i) plan.remove.push_back(running[i]->pod);
  } else if (running.empty()) {
    if (node.fit.run) plan.create_on.push_back(name);
  } else {
    ManageSurging(running, rules.hash, plan);
  }
}

Plan RollInPlace(const Nodes& nodes, const Rules& rules) {
  Plan plan;
  std::vector<PodPtr> candidates;
  size_t unavailable = 0;
  for (const auto& [name, node] : nodes) {
    if (node.pods.empty()) continue;
    const Pair pair = PairOf(node, rules.hash);
    if (!pair.single || (pair.fresh == nullptr) == (pair.old == nullptr)) {
      ++unavailable;  // a change is under way there
    } else if (pair.fresh != nullptr) {
      if (!pair.fresh->available) ++unavailable;
    } else if (!pair.old->available) {
      plan.remove.push_back(pair.old->pod);
    } else {
      candidates.push_back(pair.old->pod);
    }
  }
  const size_t room = rules.max_unavailable - std::min(unavailable, rules.max_unavailable);
  candidates.resize(std::min(room, candidates.size()));
  plan.remove.insert(plan.remove.end(), candidates.begin(), candidates.end());
  return plan;
}

Plan RollSurging(const Nodes& nodes, const Rules& rules) {
  Plan plan;
  std::vector<std::string> candidates;
  size_t surging = 0;
  for (const auto& [name, node] : nodes) {
    if (node.pods.empty()) continue;
    const Pair pair = PairOf(node, rules.hash);
    if (!pair.single) {
      ++surging;
    } else if (pair.old == nullptr) {
      continue;
    } else if (pair.fresh != nullptr) {
      if (!pair.old->available || pair.fresh->available) {
        plan.remove.push_back(pair.old->pod);
      } else {
        ++surging;
      }
    } else if (!node.fit.run) {
      continue;  // a new pod does not belong there
    } else if (!pair.old->available) {
      plan.create_on.push_back(name);
    } else {
      candidates.push_back(name);
    }
  }
  const size_t room = rules.max_surge - std::min(surging, rules.max_surge);
  candidates.resize(std::min(room, candidates.size()));
  plan.create_on.insert(plan.create_on.end(), candidates.begin(), candidates.end());
  return plan;
}

}  // namespace

Rules RulesOf(const api::DaemonSet& set, const std::string& hash, size_t desired) {
  Rules rules{.hash = hash, .on_delete = set.on_delete()};
  rules.max_surge = rules.on_delete ? 0 : Scaled(set.max_surge(), desired, 0);
  rules.max_unavailable = Scaled(set.max_unavailable(), desired, 1);
  // If both were zero, no pod could ever be replaced.
  if (rules.max_surge == 0 && rules.max_unavailable == 0) rules.max_unavailable = 1;
  return rules;
}

bool IsAvailable(const api::Pod& pod, int64_t min_ready_seconds, base::WallTime now) {
  if (!pod.ready()) return false;
  if (min_ready_seconds <= 0) return true;
  const auto since =
      api::ParseTime(base::json::String(*pod.condition("Ready"), {"lastTransitionTime"}));
  return since.ok() && *since + std::chrono::seconds(min_ready_seconds) <= now;
}

Plan PlanPods(const Nodes& nodes, const Rules& rules) {
  Plan plan;
  for (const auto& [name, node] : nodes) ManageNode(name, node, rules, plan);
  return plan;
}

Plan PlanRollout(const Nodes& nodes, const Rules& rules) {
  if (rules.on_delete) return {};
  return rules.max_surge == 0 ? RollInPlace(nodes, rules) : RollSurging(nodes, rules);
}

}  // namespace berth::controllers::daemonset
