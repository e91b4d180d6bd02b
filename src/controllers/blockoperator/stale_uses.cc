#include "controllers/blockoperator/stale_uses.h"

#include <algorithm>
#include <map>

#include "api/time.h"
#include "controllers/blockoperator/block_volume.h"
#include "controllers/blockoperator/provisioner.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"

namespace berth::controllers::blockoperator {

using api::CleanupEntry;
using api::FenceEntry;
using base::Error;
using base::EventType;

namespace {

// The largest number of entries that the CustomResourceDefinition allows.
constexpr size_t kMaxEntries = 4096;
constexpr char kScanKey[] = "all";

bool IsOutOfService(const api::Node* node) {
  return node != nullptr && node->has_taint(kOutOfServiceTaint);
}

bool IsUnreachable(const api::Node* node) {
  return node != nullptr && node->has_taint(kUnreachableTaint);
}

// Whether somebody asked for the volume and was refused, by the condition that its agent wrote.
bool IsRequestBlocked(const api::VolumeFence& fence) {
  for (const Json& condition : base::json::Array(fence.json(), {"status", "conditions"})) {
    if (base::json::String(condition, {"type"}) == "Blocked") {
      return base::json::String(condition, {"status"}) == "True";
    }
  }
  return false;
}

std::string DeviceOn(const api::VolumeFence& fence, const std::string& node) {
  for (const Json& device : base::json::Array(fence.json(), {"status", "devices"})) {
    if (base::json::String(device, {"node"}) == node) {
      return base::json::String(device, {"devicePath"});
    }
  }
  return "";
}

std::string EntryText(const FenceEntry& entry) {
  return fmt::format("pod '{}/{}' on node '{}'", entry.pod_namespace, entry.pod, entry.node);
}

}  // namespace

StaleUses::StaleUses(const Context& context, Backends& backends, NodeProofs& proofs,
                     const Options& options)
    : context_(context),
      backends_(backends),
      proofs_(proofs),
      options_(options),
      nodes_(context.informers.Of<api::Node>()),
      volumes_(context.informers.Of<api::PersistentVolume>()),
      fences_(context.informers.OfOptional<Fence>()),
      cleanups_(context.informers.OfOptional<Cleanup>()),
      fence_workers_(QueueOptions("block-fence", options, context.flight),
                     [this](const std::string& key) { return SyncFence(key); }),
      cleanup_workers_(QueueOptions("block-cleanup", options, context.flight),
                       [this](const std::string& key) { return SyncCleanup(key); }),
      scan_workers_({.name = "block-scan", .workers = 1, .flight = context.flight},
                    [this](const std::string&) { return Scan(); }) {
  AddBlockIndexes(fences_);
  fences_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) return;
    const bool newly_blocked = IsRequestBlocked(*change.after) &&
                               (change.before == nullptr || !IsRequestBlocked(*change.before));
    if (newly_blocked) {
      fence_workers_.AddNow(change.key);
    } else {
      fence_workers_.Add(change.key);
    }
  });
  cleanups_.AddHandler([this](const auto& change) {
    if (change.after != nullptr) cleanup_workers_.Add(change.key);
  });
  nodes_.AddHandler([this](const auto& change) {
    const bool gone = change.after == nullptr;
    const bool was_there = change.before != nullptr;
    if (!gone) proofs_.NotePresence(change.key);
    if (!gone && was_there &&
        IsOutOfService(change.before.get()) == IsOutOfService(change.after.get()) &&
        IsUnreachable(change.before.get()) == IsUnreachable(change.after.get())) {
      return;
    }
    for (const auto& fence : fences_.ByIndex(kFencesByNode, change.key)) {
      fence_workers_.AddNow(fence->name());
    }
    cleanup_workers_.AddNow(change.key);
  });
}

void StaleUses::Start() {
  fence_workers_.Start();
  cleanup_workers_.Start();
  scan_workers_.Start();
  scan_workers_.AddAfter(kScanKey, options_.scan_interval);
}

void StaleUses::Stop() {
  scan_workers_.Stop();
  fence_workers_.Stop();
  cleanup_workers_.Stop();
}

StaleUses::Outcome StaleUses::Scan() {
  fences_.ForEach([this](const Fence& fence) { fence_workers_.AddNow(fence.name()); });
  cleanups_.ForEach([this](const Cleanup& cleanup) { cleanup_workers_.AddNow(cleanup.name()); });
  return Outcome::After(options_.scan_interval);
}

StaleUses::Outcome StaleUses::SyncFence(const std::string& name) {
  const auto copy = fences_.Get(name);
  if (copy == nullptr) return Outcome::Done();
  const auto entries = copy->entries();
  const auto may_be_stale = [&](const FenceEntry& entry) {
    const auto node = nodes_.Get(entry.node);
    return node == nullptr || IsOutOfService(node.get()) || IsUnreachable(node.get());
  };
  if (std::none_of(entries.begin(), entries.end(), may_be_stale)) return Outcome::Done();
  const StatusOr<Fence> live = kube::Get<Fence>(context_.client, "", name);
  if (!live.ok()) return AfterApi(live.status());

  const auto volume = volumes_.Get(name);
  const auto block = volume == nullptr ? std::nullopt : BlockVolumeOf(*volume);
  const std::string image = block.has_value() ? block->image : name;
  std::map<std::string, std::vector<CleanupEntry>> stale;  // by node
  std::vector<FenceEntry> rest;
  Status missing = base::OkStatus();
  for (const FenceEntry& entry : live->entries()) {
    const StatusOr<std::string> why = FindStaleness(entry);
    if (!why.ok()) {
      if (why.status().code() != StatusCode::kFailedPrecondition) return AfterApi(why.status());
      missing = why.status();
    }
    if (!why.ok() || why->empty()) {
      rest.push_back(entry);
      continue;
    }
    stale[entry.node].push_back({.volume = name,
                                 .attachment = entry,
                                 .cluster_name = entry.cluster_name,
                                 .image = image,
                                 .device_path = DeviceOn(*live, entry.node),
                                 .reason = *why});
  }
  if (stale.empty()) {
    if (missing.ok()) return Outcome::Done();
    // A pod that is waiting for the volume gets it soon after the old one is deleted. If nobody
    // waits, the delay grows to minutes; a request that is refused ends it (IsRequestBlocked).
    return IsRequestBlocked(*live) ? Outcome{.status = missing, .delay = options_.retry_start}
                                   : Outcome::Retry(missing);
  }

  std::vector<std::pair<FenceEntry, std::string>> proven;
  for (auto& [node, of_node] : stale) {
    if (const Status kept = WriteCleanup(node, of_node); !kept.ok()) return AfterApi(kept);
    for (const CleanupEntry& entry : of_node) {
      const StatusOr<std::string> proof = ProveUnused(entry);
      if (proof.ok()) {
        proven.emplace_back(entry.attachment, *proof);
        continue;
      }
      rest.push_back(entry.attachment);
      missing = proof.status();
      if (missing.code() == StatusCode::kFailedPrecondition) {
        context_.events.Record(live->reference(), EventType::kWarning, "StaleAttachment",
                               fmt::format("{} keeps the volume: {}", EntryText(entry.attachment),
                                           base::Message(missing)));
      }
    }
  }
  if (!proven.empty()) {
    for (auto& [node, of_node] : stale) {
      for (CleanupEntry& entry : of_node) {
        entry.reason =
            fmt::format("taken off the fence at {}", api::FormatMicroTime(context_.clock.Now()));
      }
      if (const Status kept = WriteCleanup(node, of_node); !kept.ok()) return AfterApi(kept);
    }
    if (const Status freed = WriteFence(*live, rest); !freed.ok()) return AfterApi(freed);
    for (const auto& [entry, proof] : proven) {
      context_.events.Record(live->reference(), EventType::kNormal, "FenceBroken",
                             fmt::format("took {} off the fence: {}", EntryText(entry), proof));
    }
  }
  return missing.ok() ? Outcome::Done() : Outcome::Retry(missing);
}

bool StaleUses::FencesNodes(const std::string& cluster) {
  const StatusOr<Backends::Ptr> backend = backends_.Of(cluster);
  return backend.ok() && (*backend)->FencesNodes();
}

StatusOr<std::string> StaleUses::FindStaleness(const FenceEntry& entry) {
  const auto node = nodes_.Get(entry.node);
  if (node == nullptr) {
    // The informer's copy may be late, so the API is asked.
    ASSIGN_OR_RETURN(const bool absent, proofs_.IsAbsent(entry.node));
    if (absent) return std::string("the Node was deleted");
    return Error(StatusCode::kAborted, "Node '{}' is there again", entry.node);
  }
  if (IsOutOfService(node.get())) return std::string("the Node is out of service");
  if (!IsUnreachable(node.get()) || !FencesNodes(entry.cluster_name)) return std::string();
  // Nothing is written for a pod that may still use the volume, because its node may be back soon.
  RETURN_IF_ERROR(ProvePodEnded(entry));
  return std::string("the Node is unreachable, and the pod's time to end is over");
}

Status StaleUses::WriteFence(const Fence& fence, const std::vector<FenceEntry>& rest) {
  if (rest.empty()) {
    return context_.client.Delete(
        Fence::kInfo, "", fence.name(),
        {.uid = fence.uid(), .resource_version = fence.resource_version()});
  }
  Fence changed(Json::object());
  changed.set_entries(rest);
  return PatchAt(context_.client, fences_, fence, changed.json()).status();
}

Status StaleUses::ProvePodGone(const FenceEntry& entry) {
  const auto pod = kube::Get<api::Pod>(context_.client, entry.pod_namespace, entry.pod);
  if (pod.status().code() == StatusCode::kNotFound) return base::OkStatus();
  RETURN_IF_ERROR(pod);
  if (pod->uid() != entry.pod_uid) return base::OkStatus();
  return Error(StatusCode::kFailedPrecondition,
               "the pod still exists; delete it (kubectl delete pod -n {} {} --force) if its node "
               "cannot end it",
               entry.pod_namespace, entry.pod);
}

Status StaleUses::ProvePodEnded(const FenceEntry& entry) {
  const auto pod = kube::Get<api::Pod>(context_.client, entry.pod_namespace, entry.pod);
  if (pod.status().code() == StatusCode::kNotFound) return base::OkStatus();
  RETURN_IF_ERROR(pod);
  if (pod->uid() != entry.pod_uid) return base::OkStatus();
  if (!pod->deleting()) {
    return Error(StatusCode::kFailedPrecondition,
                 "the pod still exists, and is not being deleted: kubectl delete pod -n {} {}",
                 entry.pod_namespace, entry.pod);
  }
  // The API adds the pod's grace period to the time of the request.
  const auto until = api::ParseTime(pod->String({"metadata", "deletionTimestamp"}));
  RETURN_IF_ERROR(until);
  if (context_.clock.Now() >= *until) return base::OkStatus();
  return Error(StatusCode::kFailedPrecondition, "pod '{}/{}' still has time to end, until {}",
               entry.pod_namespace, entry.pod, api::FormatTime(*until));
}

StatusOr<std::string> StaleUses::ProveFenceable(const FenceEntry& entry) {
  RETURN_IF_ERROR(ProvePodEnded(entry));
  constexpr std::string_view kFenced = "the storage fences it before another node maps the image";
  const auto node = kube::Get<api::Node>(context_.client, "", entry.node);
  if (node.status().code() == StatusCode::kNotFound) {
    return fmt::format("its pod is gone, node '{}' was deleted, and {}", entry.node, kFenced);
  }
  RETURN_IF_ERROR(node);
  if (node->has_taint(kOutOfServiceTaint) || node->has_taint(kUnreachableTaint)) {
    return fmt::format("its pod has ended or is gone, node '{}' is {}, and {}", entry.node,
                       node->has_taint(kOutOfServiceTaint) ? "out of service" : "unreachable",
                       kFenced);
  }
  return Error(StatusCode::kFailedPrecondition, "node '{}' is there again", entry.node);
}

StatusOr<std::string> StaleUses::ProveUnused(const CleanupEntry& entry) {
  if (FencesNodes(entry.cluster_name)) return ProveFenceable(entry.attachment);
  // The node is asked about first, because its silence is measured from the first question.
  const StatusOr<NodeProofs::Proof> node = proofs_.ProveGone(entry.attachment.node);
  RETURN_IF_ERROR(ProvePodGone(entry.attachment));
  RETURN_IF_ERROR(node);
  if (node->out_of_service) return "its pod is gone, and " + node->text;
  ASSIGN_OR_RETURN(const std::string fenced, ProveFenced(entry));
  return fmt::format("its pod is gone, {}, and {}", node->text, fenced);
}

// Proves that the node's kernel cannot write any more. A silent Lease shows only that the kubelet
// has stopped.
StatusOr<std::string> StaleUses::ProveFenced(const CleanupEntry& entry) {
  const auto unproven = [&](std::string_view why) {
    return Error(StatusCode::kFailedPrecondition,
                 "{}, so that the node may still write; if it is switched off for good, say so: "
                 "berth fence break --dangerous {}",
                 why, entry.volume);
  };
  const StatusOr<Backends::Ptr> backend = backends_.Of(entry.cluster_name);
  if (!backend.ok()) return unproven(base::Message(backend.status()));
  const std::string& node = entry.attachment.node;
  const StatusOr<bool> locked = (*backend)->HasLock(entry.image);
  Status unseen = base::OkStatus();
  if (locked.ok() && !*locked) {
    // A lock that is not there proves something only if a lock of that node would be seen.
    const StatusOr<std::string> life = backends_.LifeOf(entry.cluster_name);
    unseen = life.ok() ? (*backend)->ProveLocks(*life, api::NodeName(node)) : life.status();
    if (unseen.ok()) return std::string("the back end has no lock of the image");
  }
  if (!unseen.ok()) return unproven(base::Message(unseen));
  if (locked.ok()) {
    const std::string lapse = (*backend)->DescribeLapse();
    return unproven(lapse.empty() ? "the back end holds a lock"
                                  : fmt::format("the back end holds a lock ({})", lapse));
  }
  if (locked.status().code() == StatusCode::kUnimplemented) {
    return unproven("the back end knows of no locks");
  }
  return unproven(base::Message(locked.status()));
}

Status StaleUses::WriteCleanup(const std::string& node, const std::vector<CleanupEntry>& entries) {
  StatusOr<Cleanup> live = kube::Get<Cleanup>(context_.client, "", node);
  if (live.status().code() == StatusCode::kNotFound) {
    Cleanup made;
    made.Set({"apiVersion"}, Cleanup::kInfo.api_version());
    made.Set({"kind"}, Cleanup::kInfo.kind);
    made.set_name(node);
    made.set_entries(entries);
    return kube::Create(context_.client, made).status();
  }
  RETURN_IF_ERROR(live);
  std::vector<CleanupEntry> all = live->entries();
  for (const CleanupEntry& entry : entries) {
    const auto known = std::find_if(all.begin(), all.end(), [&](const CleanupEntry& other) {
      return other.volume == entry.volume && other.attachment.pod_uid == entry.attachment.pod_uid;
    });
    if (known == all.end()) {
      all.push_back(entry);
    } else {
      *known = entry;
    }
  }
  if (all == live->entries()) return base::OkStatus();
  if (all.size() > kMaxEntries) {
    return Error(StatusCode::kResourceExhausted,
                 "NodeCleanup '{}' is full with {} entries: no more is taken off its fences", node,
                 live->entries().size());
  }
  Cleanup changed(Json::object());
  changed.set_entries(all);
  return PatchAt(context_.client, cleanups_, *live, changed.json()).status();
}

StaleUses::Outcome StaleUses::SyncCleanup(const std::string& node) {
  const auto copy = cleanups_.Get(node);
  if (copy == nullptr) return Outcome::Done();
  // While the node exists, its agent works on the entries.
  if (nodes_.Get(node) != nullptr && !copy->entries().empty()) return Outcome::Done();
  const StatusOr<Cleanup> live = kube::Get<Cleanup>(context_.client, "", node);
  if (!live.ok()) return AfterApi(live.status());
  const std::vector<CleanupEntry> entries = live->entries();
  if (entries.empty()) return DeleteEmpty(*live);
  const StatusOr<bool> absent = proofs_.IsAbsent(node);
  if (!absent.ok()) return AfterApi(absent.status());
  if (!*absent) return Outcome::Done();
  const auto proof = proofs_.ProveGone(node);
  if (proof.status().code() == StatusCode::kFailedPrecondition) {
    return Outcome::After(options_.node_silence);
  }
  if (!proof.ok()) return AfterApi(proof.status());
  std::vector<CleanupEntry> left;
  for (const CleanupEntry& entry : entries) {
    const StatusOr<bool> obsolete = IsObsolete(entry);
    // An entry whose check failed stays; the next scan checks it again.
    if (!obsolete.ok() || !*obsolete) left.push_back(entry);
  }
  if (left.size() == entries.size()) return Outcome::Done();
  Cleanup changed(Json::object());
  changed.set_entries(left);
  const auto written = PatchAt(context_.client, cleanups_, *live, changed.json());
  if (!written.ok()) return AfterApi(written.status());
  return left.empty() ? DeleteEmpty(*written) : Outcome::Done();
}

StaleUses::Outcome StaleUses::DeleteEmpty(const Cleanup& cleanup) {
  // status.entries has the failures that the agent of the node reported last. The operator does not
  // discard this report.
  if (!base::json::Array(cleanup.json(), {"status", "entries"}).empty()) return Outcome::Done();
  const StatusOr<bool> absent = proofs_.IsAbsent(cleanup.name());
  if (!absent.ok()) return AfterApi(absent.status());
  if (*absent) {
    const auto proof = proofs_.ProveGone(cleanup.name());
    if (proof.status().code() == StatusCode::kFailedPrecondition) {
      return Outcome::After(options_.node_silence);
    }
    if (!proof.ok()) return AfterApi(proof.status());
  }
  return AfterApi(context_.client.Delete(
      Cleanup::kInfo, "", cleanup.name(),
      {.uid = cleanup.uid(), .resource_version = cleanup.resource_version()}));
}

StatusOr<bool> StaleUses::IsObsolete(const CleanupEntry& entry) {
  const auto volume = kube::Get<api::PersistentVolume>(context_.client, "", entry.volume);
  if (volume.status().code() != StatusCode::kNotFound) {
    RETURN_IF_ERROR(volume);
    return false;
  }
  const auto fence = kube::Get<Fence>(context_.client, "", entry.volume);
  if (fence.status().code() != StatusCode::kNotFound) {
    RETURN_IF_ERROR(fence);
    return false;
  }
  const StatusOr<Backends::Ptr> backend = backends_.Of(entry.cluster_name);
  if (backend.status().code() == StatusCode::kNotFound) return true;
  RETURN_IF_ERROR(backend);
  ASSIGN_OR_RETURN(const std::vector<block::ImageInfo> images, (*backend)->List());
  return std::none_of(images.begin(), images.end(),
                      [&](const block::ImageInfo& image) { return image.name == entry.image; });
}

}  // namespace berth::controllers::blockoperator
