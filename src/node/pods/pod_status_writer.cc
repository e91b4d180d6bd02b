#include "node/pods/pod_status_writer.h"

#include "node/pods/pod_status.h"

namespace berth::node {

namespace {

using base::Json;
using base::Status;
using base::StatusCode;
using std::chrono::milliseconds;

constexpr int kConflictRetries = 5;
// A Pending pod's status is written after this delay, because its waiting reasons change every few
// milliseconds and a write of each would slow the start.
constexpr milliseconds kWaitingSettles{200};

}  // namespace

PodStatusWriter::PodStatusWriter(kube::Client& client, kube::Informer<api::Pod>& pods,
                                 const base::Clock& clock)
    : client_(client),
      pods_(pods),
      clock_(clock),
      workers_({.name = "pod-status",
                .workers = 2,
                .retry_start = milliseconds(500),
                .retry_max = milliseconds(30000)},
               [this](const std::string& uid) {
                 std::shared_ptr<const Wanted> wanted;
                 {
                   base::MutexLock lock(mutex_);
                   const auto it = wanted_.find(uid);
                   if (it == wanted_.end()) return base::KeyedWorkers::Outcome::Done();
                   wanted = it->second;
                 }
                 const Status written = WriteWanted(*wanted);
                 if (written.ok()) {
                   base::MutexLock lock(mutex_);
                   const auto it = wanted_.find(uid);
                   if (it != wanted_.end() && it->second == wanted) wanted_.erase(it);
                 }
                 return base::KeyedWorkers::Outcome::From(written);
               }) {}

void PodStatusWriter::Start() { workers_.Start(); }
void PodStatusWriter::Stop() { workers_.Stop(); }

void PodStatusWriter::QueueStatus(const api::Pod& pod, Json status) {
  const bool waiting = base::json::String(status, {"phase"}) == "Pending";
  auto wanted = std::make_shared<const Wanted>(
      Wanted{.ns = pod.ns(), .name = pod.name(), .uid = pod.uid(), .status = std::move(status)});
  {
    base::MutexLock lock(mutex_);
    wanted_[pod.uid()] = std::move(wanted);
  }
  if (waiting) {
    workers_.AddAfter(pod.uid(), kWaitingSettles);
  } else {
    workers_.Add(pod.uid());
  }
}

Status PodStatusWriter::WriteStatus(const api::Pod& pod, Json status) {
  DropStatus(pod.uid());
  return WriteWanted(
      {.ns = pod.ns(), .name = pod.name(), .uid = pod.uid(), .status = std::move(status)});
}

void PodStatusWriter::DropStatus(const std::string& pod_uid) {
  base::MutexLock lock(mutex_);
  wanted_.erase(pod_uid);
}

Status PodStatusWriter::WriteWanted(const Wanted& wanted) {
  const std::string key = api::ObjectKey(wanted.ns, wanted.name);
  std::shared_ptr<const api::Pod> pod = pods_.Get(key);
  Status last = base::OkStatus();
  for (int attempt = 0; attempt < kConflictRetries; ++attempt) {
    if (attempt > 0 || pod == nullptr) {
      auto read = kube::Get<api::Pod>(client_, wanted.ns, wanted.name);
      if (read.status().code() == StatusCode::kNotFound) return base::OkStatus();
      RETURN_IF_ERROR_WITH(read, fmt::format("read pod '{}'", key));
      pod = std::make_shared<const api::Pod>(*std::move(read));
    }
    if (pod->uid() != wanted.uid) return base::OkStatus();  // another pod of that name
    const Json& present = base::json::Map(pod->json(), {"status"});
    Json status = MakeStatusPatch(present, MergePodStatus(present, wanted.status, clock_.Now()));
    if (status.empty()) return base::OkStatus();
    // The patch has the resourceVersion, because a merge patch replaces the whole list of
    // conditions.
    const Json patch = {{"metadata", {{"resourceVersion", pod->resource_version()}}},
                        {"status", std::move(status)}};
    auto written = kube::MergePatch(client_, *pod, patch, "status");
    if (written.ok()) {
      pods_.Observe(written->json());
      return base::OkStatus();
    }
    if (written.status().code() == StatusCode::kNotFound) return base::OkStatus();
    last = base::Annotate(written.status(), fmt::format("write the status of pod '{}'", key));
    if (written.status().code() != StatusCode::kAborted) return last;
  }
  return last;
}

}  // namespace berth::node
