#include "blockagent/cluster_cleanup.h"

#include "base/log.h"

namespace berth::blockagent {
namespace {

using base::Json;
using base::MutexLock;
using base::Quote;
using base::Status;
using base::StatusCode;
using Outcome = base::KeyedWorkers::Outcome;

// How long the cleanup waits for a request that works on the volume.
constexpr std::chrono::minutes kOthersTime{2};
// Volumes are taken off in parallel, so that one that hangs does not delay the others.
constexpr int kAtOnce = 16, kMostAtOnce = 64;

}  // namespace

ClusterCleanup::ClusterCleanup(std::string node, kube::Client& client, Attachments& attachments)
    : node_(std::move(node)),
      client_(client),
      attachments_(attachments),
      clusters_({.name = "cluster-cleanup",
                 .workers = 2,
                 .retry_start = std::chrono::seconds(1),
                 .retry_max = std::chrono::seconds(30)},
                [this](const std::string& cluster) { return CleanUpCluster(cluster); }),
      volumes_({.name = "force-off",
                .workers = kAtOnce,
                .max_workers = kMostAtOnce,
                .retry_start = std::chrono::seconds(2),
                .retry_max = std::chrono::minutes(1)},
               [this](const std::string& volume) { return ForceVolumeOff(volume); }) {}

void ClusterCleanup::Start() {
  volumes_.Start();
  clusters_.Start();
}

void ClusterCleanup::Stop() {
  clusters_.Stop();
  volumes_.Stop();
}

Outcome ClusterCleanup::CleanUpCluster(const std::string& name) {
  const auto cluster = kube::Get<api::StorageCluster>(client_, "", name);
  if (cluster.status().code() == StatusCode::kNotFound) {
    const MutexLock lock(mutex_);
    std::erase_if(results_, [&](const auto& result) { return result.second.cluster == name; });
    return Outcome::Done();
  }
  if (!cluster.ok()) return Outcome::Retry(cluster.status());
  if (!cluster->deleting()) return Outcome::Done();
  const auto left = attachments_.FindVolumesOf(name);
  if (!left.ok()) return Outcome::Retry(left.status());
  for (const std::string& volume : *left) {
    {
      const MutexLock lock(mutex_);
      results_.try_emplace(
          volume, Result{.cluster = name,
                         .patience = std::chrono::seconds(cluster->unmap_timeout_seconds())});
    }
    volumes_.Add(volume);
  }
  return Outcome::From(ReportCleanup(*cluster, left->empty()));
}

Outcome ClusterCleanup::ForceVolumeOff(const std::string& volume) {
  Result result;
  {
    const MutexLock lock(mutex_);
    const auto found = results_.find(volume);
    if (found == results_.end()) return Outcome::Done();
    result = found->second;
  }
  const Status done = attachments_.TakeAllOff(volume, {.on = true, .patience = result.patience},
                                              std::chrono::steady_clock::now() + kOthersTime);
  if (done.ok()) {
    LOG_WARNING("volume {} of StorageCluster {}, which is being deleted, was forced off",
                Quote(volume), Quote(result.cluster));
  }
  {
    const MutexLock lock(mutex_);
    results_[volume] = {.cluster = result.cluster,
                        .state = done.ok() ? "Forced" : "Failed",
                        .message = std::string(base::Message(done)),
                        .patience = result.patience};
  }
  clusters_.AddNow(result.cluster);
  return Outcome::From(done);
}

Status ClusterCleanup::ReportCleanup(const api::StorageCluster& cluster, bool clean) {
  Json volumes = Json::array();
  {
    const MutexLock lock(mutex_);
    for (const auto& [volume, result] : results_) {
      if (result.cluster != cluster.name() || result.state.empty()) continue;
      volumes.push_back({{"volume", volume}, {"state", result.state}, {"message", result.message}});
    }
  }
  const Json own = {{"state", clean ? "Clean" : "Cleaning"}, {"volumes", std::move(volumes)}};
  const Json* before = base::json::Find(cluster.json(), {"status", "nodes", node_});
  if (before != nullptr && *before == own) return base::OkStatus();
  // The patch changes only this node's member.
  const Status written =
      kube::MergePatch(client_, cluster, {{"status", {{"nodes", {{node_, own}}}}}}, "status")
          .status();
  return written.code() == StatusCode::kNotFound ? base::OkStatus() : written;
}

}  // namespace berth::blockagent
