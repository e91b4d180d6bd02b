#include "controllers/podgc/pod_gc.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "base/log.h"
#include "controllers/indexes.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"
#include "kube/informers/live_object.h"

namespace berth::controllers::podgc {

using base::MutexLock;
using base::Status;
using base::StatusCode;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

// The key that stands for the count of ended pods. No node or pod has this name.
constexpr const char* kEndedPods = "";

// Whether the pod was deleted already, and stays only until other programs remove their finalizers.
bool HasOnlyFinalizersLeft(const api::Pod& pod) {
  return pod.deleting() && pod.Int({"metadata", "deletionGracePeriodSeconds"}, -1) == 0 &&
         !pod.finalizers().empty() && pod.terminated();
}

}  // namespace

PodGc::PodGc(Context context, Options options)
    : context_(context),
      options_(options),
      pods_(context.informers.Of<api::Pod>()),
      nodes_(context.informers.Of<api::Node>()),
      workers_({.name = "podgc",
                .workers = 1,
                .retry_start = milliseconds(500),
                .retry_max = std::chrono::seconds(60)},
               [this](const std::string& key) { return SyncKey(key); }) {
  AddPodIndexes(pods_);
  AddHandlers();
}

PodGc::~PodGc() { Stop(); }

void PodGc::AddHandlers() {
  pods_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) return;
    const api::Pod& pod = *change.after;
    if (pod.deleting()) workers_.Add(change.key);
    const bool moved = change.before == nullptr || change.before->node_name() != pod.node_name();
    if (moved && !pod.node_name().empty() && nodes_.Get(pod.node_name()) == nullptr) {
      workers_.Add(pod.node_name());
    }
    if (pod.terminated() && options_.terminated_threshold > 0) {
      workers_.AddAfter(kEndedPods, options_.count_interval);
    }
  });
  nodes_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) return workers_.Add(change.key);
    if (change.before == nullptr) ForgetMissing(change.key);
    if (!IsOutOfService(change.key)) return;
    for (const auto& pod : pods_.ByIndex(kPodsByNode, change.key)) {
      if (pod->deleting()) workers_.Add(pod->key());
    }
  });
}

void PodGc::Start() { workers_.Start(); }
void PodGc::Stop() { workers_.Stop(); }

PodGc::Outcome PodGc::SyncKey(const std::string& key) {
  if (key == kEndedPods) return SyncEndedPods();
  return key.find('/') == std::string::npos ? SyncNode(key) : SyncPod(key);
}

bool PodGc::IsOutOfService(const std::string& node) const {
  const auto object = nodes_.Get(node);
  return object != nullptr && !object->ready() && object->has_taint(kOutOfServiceTaint);
}

PodGc::Outcome PodGc::SyncPod(const std::string& key) {
  const auto pod = pods_.Get(key);
  if (pod == nullptr || !pod->deleting() || HasOnlyFinalizersLeft(*pod)) return Outcome::Done();
  const std::string node = pod->node_name();
  if (node.empty()) return AfterApi(RemovePod(*pod, "it was on no node"));
  if (!IsOutOfService(node)) return Outcome::Done();
  return AfterApi(RemovePod(*pod, fmt::format("its node {} is out of service", base::Quote(node))));
}

Status PodGc::RemovePod(const api::Pod& pod, std::string_view why, const Disruption& disruption) {
  const Status removed = FailAndDelete(context_, pods_, pod, disruption);
  if (removed.ok()) LOG_INFO("pod {} is deleted, because {}", base::Quote(pod.key()), why);
  return removed;
}

void PodGc::ForgetMissing(const std::string& node) {
  MutexLock lock(mutex_);
  missing_since_.erase(node);
}

PodGc::Outcome PodGc::SyncNode(const std::string& name) {
  const auto pods = pods_.ByIndex(kPodsByNode, name);
  if (nodes_.Get(name) != nullptr || pods.empty()) {
    ForgetMissing(name);
    return Outcome::Done();
  }
  {
    MutexLock lock(mutex_);
    const auto since = missing_since_.try_emplace(name, steady_clock::now()).first->second;
    const auto left = options_.quarantine - (steady_clock::now() - since);
    if (left.count() > 0) return Outcome::After(std::chrono::ceil<milliseconds>(left));
  }
  // The informer may be behind: only the API knows that a node is gone.
  const Status read = kube::ReadLiveObject(context_.client, nodes_, "", name).status();
  if (read.code() != StatusCode::kNotFound) return AfterApi(read);
  Status result = base::OkStatus();
  for (const auto& pod : pods) {
    if (HasOnlyFinalizersLeft(*pod)) continue;
    const Status removed =
        RemovePod(*pod, fmt::format("its node {} does not exist any more", base::Quote(name)),
                  {.reason = "DeletionByPodGC", .message = "PodGC: node no longer exists"});
    if (result.ok()) result = removed;
  }
  // If a pod is bound to the missing node after this, a new quarantine begins.
  if (result.ok()) ForgetMissing(name);
  return AfterApi(result);
}

PodGc::Outcome PodGc::SyncEndedPods() {
  using PodPtr = std::shared_ptr<const api::Pod>;
  std::vector<PodPtr> ended;
  for (const auto& pod : pods_.List()) {
    if (pod->terminated() && !pod->deleting()) ended.push_back(pod);
  }
  if (ended.size() <= options_.terminated_threshold) return Outcome::Done();
  const auto order = [](const PodPtr& pod) {
    return std::tuple(pod->String({"status", "reason"}) != "Evicted", pod->creation_timestamp(),
                      pod->name());
  };
  std::sort(ended.begin(), ended.end(),
            [&](const PodPtr& a, const PodPtr& b) { return order(a) < order(b); });
  const size_t total = ended.size();
  ended.resize(total - options_.terminated_threshold);
  const std::string why = fmt::format("it has ended, and of {} such pods only {} are kept", total,
                                      options_.terminated_threshold);
  for (const PodPtr& pod : ended) {
    if (const Status gone = RemovePod(*pod, why); !gone.ok()) return AfterApi(gone);
  }
  return Outcome::Done();
}

}  // namespace berth::controllers::podgc
