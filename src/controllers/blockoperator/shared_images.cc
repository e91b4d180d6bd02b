#include "controllers/blockoperator/shared_images.h"

#include <set>

#include "base/log.h"
#include "controllers/blockoperator/block_volume.h"
#include "controllers/blockoperator/cluster_conditions.h"
#include "controllers/blockoperator/provisioner.h"
#include "controllers/writes.h"

namespace berth::controllers::blockoperator {

namespace {

constexpr char kNamedTwice[] = "ImageNamedTwice";
constexpr size_t kMaxListed = 10;

// The message of the condition; "": it is not True.
std::string ConditionOf(const api::StorageCluster& cluster) {
  return ReadClusterCondition(cluster, kNamedTwice);
}

}  // namespace

SharedImages::SharedImages(const Context& context, Backends& backends, const Options& options)
    : context_(context),
      backends_(backends),
      clusters_(context.informers.OfOptional<Cluster>()),
      volumes_(context.informers.Of<Volume>()),
      workers_(QueueOptions("block-shared", options, context.flight),
               [this](const std::string& cluster) { return Sync(cluster); }) {
  volumes_.AddHandler([this](const auto& change) {
    if (change.before != nullptr) QueueClustersOf(*change.before);
    if (change.after != nullptr) QueueClustersOf(*change.after);
  });
  clusters_.AddHandler([this](const auto& change) {
    const bool is_new = change.before == nullptr || change.after == nullptr ||
                        change.before->generation() != change.after->generation();
    // A volume that went while its cluster was being told found no condition yet (QueueClustersOf).
    if (!is_new && ConditionOf(*change.before) != ConditionOf(*change.after)) {
      workers_.Add(change.key);
    }
    if (!is_new) return;
    // Its volumes may share an image with those of any other.
    clusters_.ForEach([this](const Cluster& cluster) { workers_.Add(cluster.name()); });
  });
}

void SharedImages::QueueClustersOf(const Volume& volume) {
  const auto block = BlockVolumeOf(volume);
  if (!block.has_value()) return;
  std::set<std::string> named = {block->cluster};
  const auto same = volumes_.ByIndex(kVolumesByImage, block->image);
  for (const auto& other : same) named.insert(BlockVolumeOf(*other)->cluster);
  for (const std::string& name : named) {
    // A volume that is gone, or has its image alone now, may have shared it until now.
    const auto cluster = clusters_.Get(name);
    const bool was_told = cluster != nullptr && !ConditionOf(*cluster).empty();
    if (same.size() > 1 || was_told) workers_.Add(name);
  }
}

std::map<std::string, std::string> SharedImages::FindShared(const std::string& cluster) const {
  std::map<std::string, std::string> shared;
  for (const auto& volume : volumes_.ByIndex(kVolumesByCluster, cluster)) {
    const auto block = BlockVolumeOf(*volume);
    for (const auto& other : volumes_.ByIndex(kVolumesByImage, block->image)) {
      const auto other_block = BlockVolumeOf(*other);
      if (other->name() == volume->name() ||
          !backends_.MayBeSameStore(cluster, other_block->cluster)) {
        continue;
      }
      shared[volume->name()] = fmt::format(
          "image '{}' is PersistentVolume '{}' of StorageCluster '{}', and PersistentVolume '{}' "
          "of StorageCluster '{}', too: delete one of the two",
          block->image, volume->name(), cluster, other->name(), other_block->cluster);
      break;
    }
  }
  return shared;
}

SharedImages::Outcome SharedImages::Sync(const std::string& name) {
  const auto cluster = clusters_.Get(name);
  if (cluster == nullptr) return Outcome::Done();
  const auto shared = FindShared(name);
  std::string message;
  size_t listed = 0;
  for (const auto& [volume, text] : shared) {
    if (++listed > kMaxListed) break;
    message += (message.empty() ? "" : "; ") + text;
  }
  if (shared.size() > kMaxListed)
    message += fmt::format("; and {} more", shared.size() - kMaxListed);
  if (message == ConditionOf(*cluster)) return Outcome::Done();
  const Json conditions = ReplaceClusterCondition(
      *cluster, TroubleCondition(kNamedTwice, message, "NoneShared"), context_.clock);
  const Status written = PatchAt(context_.client, clusters_, *cluster,
                                 {{"status", {{"conditions", conditions}}}}, "status")
                             .status();
  if (!written.ok()) return AfterApi(written);
  if (message.empty()) return Outcome::Done();
  context_.events.Record(cluster->reference(), base::EventType::kWarning, kNamedTwice, message);
  for (const auto& [volume, text] : shared) {
    const auto object = volumes_.Get(volume);
    if (object == nullptr) continue;
    context_.events.Record(object->reference(), base::EventType::kWarning, kNamedTwice, text);
  }
  LOG_WARNING("StorageCluster {}: {}", base::Quote(name), message);
  return Outcome::Done();
}

}  // namespace berth::controllers::blockoperator
