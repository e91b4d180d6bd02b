#include "controllers/blockoperator/fence_lifts.h"

#include <algorithm>

#include "base/log.h"
#include "controllers/blockoperator/cluster_conditions.h"
#include "controllers/blockoperator/provisioner.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"

namespace berth::controllers::blockoperator {

namespace {

bool IsSilent(const api::Node& node) {
  return node.has_taint(kUnreachableTaint) || node.has_taint(kOutOfServiceTaint);
}

constexpr char kFencesLeft[] = "FencesLeft";
// How many clients status.fenced holds. The storage's own list has them all.
constexpr size_t kMostRecorded = 1000;
// How many nodes, and how many clients of each, a message names.
constexpr size_t kMostNamed = 10;

// The StorageClusters that the entries name.
std::set<std::string> ClustersOf(const api::NodeCleanup& cleanup) {
  std::set<std::string> clusters;
  for (const api::CleanupEntry& entry : cleanup.entries()) {
    if (!entry.cluster_name.empty()) clusters.insert(entry.cluster_name);
  }
  return clusters;
}

// Returns what status.fenced says of `nodes`.
Json ToRecord(const FenceLifts::FencedNodes& nodes) {
  Json record = Json::array();
  size_t room = kMostRecorded;
  for (const auto& [node, clients] : nodes) {
    if (room == 0) break;
    const auto end = clients.begin() + static_cast<ptrdiff_t>(std::min(room, clients.size()));
    record.push_back({{"node", node}, {"clients", std::vector<std::string>(clients.begin(), end)}});
    room -= std::min(room, std::max<size_t>(clients.size(), 1));
  }
  return record;
}

FenceLifts::FencedNodes ReadRecord(const api::StorageCluster& cluster) {
  FenceLifts::FencedNodes nodes;
  for (const Json& one : base::json::Array(cluster.json(), {"status", "fenced"})) {
    nodes[base::json::String(one, {"node"})] =
        base::json::Strings(base::json::Array(one, {"clients"}));
  }
  return nodes;
}

std::string JoinSome(const std::vector<std::string>& texts) {
  const size_t named = std::min(texts.size(), kMostNamed);
  return fmt::format("{}{}", fmt::join(texts.begin(), texts.begin() + named, ", "),
                     named < texts.size() ? fmt::format(" and {} more", texts.size() - named) : "");
}

// The part of the condition's message that does not change with the words by which the storage
// fails.
std::string DescribeLeft(const api::StorageCluster& cluster, const FenceLifts::FencedNodes& left) {
  return fmt::format(
      "the storage still shuts out clients of nodes that are clean, and Berth tries again to let "
      "them in: {}",
      FenceLifts::Describe(cluster, left));
}

}  // namespace

FenceLifts::FenceLifts(const Context& context, Backends& backends, const Options& options)
    : context_(context),
      backends_(backends),
      interval_(options.check_interval),
      clusters_(context.informers.OfOptional<api::StorageCluster>()),
      cleanups_(context.informers.OfOptional<api::NodeCleanup>()),
      workers_(QueueOptions("block-unfence", options, context.flight),
               [this](const std::string& cluster) { return Sync(cluster); }) {
  clusters_.AddHandler([this](const auto& change) {
    if (change.after != nullptr) workers_.Add(change.key);
  });
  // A Node that is back may have worked off what it owed before this program saw it.
  context.informers.Of<api::Node>().AddHandler([this](const auto& change) {
    if (change.after == nullptr || IsSilent(*change.after)) return;
    if (change.before != nullptr && !IsSilent(*change.before)) return;
    clusters_.ForEach(
        [this](const api::StorageCluster& cluster) { workers_.AddNow(cluster.name()); });
  });
  cleanups_.AddHandler([this](const auto& change) {
    // An entry that is gone may have been the last one that its node owed.
    if (change.before != nullptr) {
      for (const std::string& cluster : ClustersOf(*change.before)) workers_.AddNow(cluster);
    }
    if (change.after != nullptr) {
      for (const std::string& cluster : ClustersOf(*change.after)) workers_.Add(cluster);
    }
  });
  context.informers.OfOptional<api::VolumeFence>().AddHandler([this](const auto& change) {
    const std::string& volume = change.latest().name();
    cleanups_.ForEach([&](const api::NodeCleanup& cleanup) {
      for (const api::CleanupEntry& entry : cleanup.entries()) {
        if (entry.volume == volume && !entry.cluster_name.empty()) workers_.Add(entry.cluster_name);
      }
    });
  });
}

std::string FenceLifts::Describe(const api::StorageCluster& cluster, const FencedNodes& nodes) {
  std::vector<std::string> named, all;
  for (const auto& [node, clients] : nodes) {
    named.push_back(fmt::format("'{}' ({})", node, JoinSome(clients)));
    all.insert(all.end(), clients.begin(), clients.end());
  }
  const std::string text = JoinSome(named);
  const std::string by_hand =
      cluster.backend() == nullptr ? "" : block::DescribeUnfence(*cluster.backend(), all);
  if (by_hand.empty()) return text;
  return fmt::format("{}{}by hand: {}", text, text.empty() ? "" : "; ", by_hand);
}

StatusOr<bool> FenceLifts::IsBack(const std::string& name) {
  const auto node = kube::Get<api::Node>(context_.client, "", name);
  if (node.status().code() == StatusCode::kNotFound) return false;
  RETURN_IF_ERROR(node);
  return !IsSilent(*node);
}

FenceLifts::FencedNodes FenceLifts::ListFences(const api::StorageCluster& cluster,
                                               const StatusOr<Backends::Ptr>& backend,
                                               Lifted& lifted) {
  auto fenced = backend.ok() ? (*backend)->ListFenced() : backend.status();
  if (fenced.ok()) return *std::move(fenced);
  lifted.storage = base::Annotate(fenced.status(), "list the fences");
  return ReadRecord(cluster);
}

StatusOr<std::set<std::string>> FenceLifts::FindOwingNodes() {
  RETURN_IF_ERROR(cleanups_.CheckListed());
  ASSIGN_OR_RETURN(const auto cleanups, context_.client.List(api::kinds::kNodeCleanup, "", {}));
  // An entry counts whatever its cluster is, because two StorageClusters may be one pool.
  std::set<std::string> owing;
  for (const Json& item : cleanups.items) {
    const api::NodeCleanup cleanup(item);
    if (!cleanup.entries().empty()) owing.insert(cleanup.name());
  }
  return owing;
}

StatusOr<FenceLifts::Lifted> FenceLifts::LiftFences(const api::StorageCluster& cluster) {
  Lifted lifted;
  const StatusOr<Backends::Ptr> backend = backends_.Open(cluster);
  lifted.fences = backend.ok()
                      ? (*backend)->FencesNodes()
                      : cluster.backend() != nullptr && block::KeepsFences(*cluster.backend());
  if (!lifted.fences) return lifted;
  const FencedNodes fenced = ListFences(cluster, backend, lifted);
  const bool is_listed = lifted.storage.ok();
  std::set<std::string> owing;
  if (!fenced.empty()) {
    ASSIGN_OR_RETURN(owing, FindOwingNodes());
  }
  for (const auto& [node, clients] : fenced) {
    bool back = false;
    if (!owing.contains(node)) {
      ASSIGN_OR_RETURN(back, IsBack(node));
    }
    if (!back) {
      lifted.kept.emplace(node, clients);
      continue;
    }
    if (!is_listed) {
      lifted.left.emplace(node, clients);
      continue;
    }
    const Status unfenced = Passing<"blockoperator.unfence">(
        [&] { return (*backend)->Unfence(api::NodeName(node), clients); });
    if (!unfenced.ok()) {
      // The fences of other nodes do not depend on this one.
      lifted.left.emplace(node, clients);
      lifted.storage = base::Annotate(unfenced, fmt::format("lift the fence of node '{}'", node));
      LOG_WARNING("StorageCluster {}: {}", base::Quote(cluster.name()),
                  base::ToString(lifted.storage));
      continue;
    }
    const std::string text = fmt::format(
        "node '{}' has taken off what it had: its fence in the storage is lifted", node);
    context_.events.Record(cluster.reference(), base::EventType::kNormal, "NodeUnfenced", text);
    LOG_INFO("StorageCluster {}: {}", base::Quote(cluster.name()), text);
  }
  // This role is to end, which says nothing about the storage.
  if (lifted.storage.code() == StatusCode::kCancelled) return lifted.storage;
  RETURN_IF_ERROR(WriteStatus(cluster, lifted));
  return lifted;
}

Status FenceLifts::WriteStatus(const api::StorageCluster& cluster, const Lifted& lifted) {
  FencedNodes standing = lifted.kept;
  standing.insert(lifted.left.begin(), lifted.left.end());
  const Json record = ToRecord(standing);
  Json status = Json::object();
  if (record != base::json::Array(cluster.json(), {"status", "fenced"})) status["fenced"] = record;

  const std::string told = ReadClusterCondition(cluster, kFencesLeft);
  const std::string left = lifted.left.empty() ? "" : DescribeLeft(cluster, lifted.left);
  const bool is_told = left.empty() ? told.empty() : told.starts_with(left);
  std::string message;
  if (!is_told) {
    if (!left.empty())
      message = fmt::format("{} (it failed: {})", left, base::Message(lifted.storage));
    status["conditions"] = ReplaceClusterCondition(
        cluster, TroubleCondition(kFencesLeft, message, "NoneLeft"), context_.clock);
  }
  if (status.empty()) return base::OkStatus();
  RETURN_IF_ERROR(PatchAt(context_.client, clusters_, cluster, {{"status", status}}, "status"));
  if (message.empty()) return base::OkStatus();
  context_.events.Record(cluster.reference(), base::EventType::kWarning, kFencesLeft, message);
  LOG_WARNING("StorageCluster {}: {}", base::Quote(cluster.name()), message);
  return base::OkStatus();
}

FenceLifts::Outcome FenceLifts::Sync(const std::string& name) {
  const auto cluster = clusters_.Get(name);
  if (cluster == nullptr) return Outcome::Done();
  const StatusOr<Lifted> lifted = LiftFences(*cluster);
  if (!lifted.ok()) return AfterApi(lifted.status());
  if (!lifted->fences) return Outcome::Done();
  if (!lifted->storage.ok()) return ReportFailure(*cluster, lifted->storage);
  return Outcome::After(interval_);
}

FenceLifts::Outcome FenceLifts::ReportFailure(const api::StorageCluster& cluster,
                                              const Status& failed) {
  context_.events.Record(cluster.reference(), base::EventType::kWarning, "UnfenceFailed",
                         std::string(base::Message(failed)));
  return Outcome::Retry(failed);
}

}  // namespace berth::controllers::blockoperator
