#include "blockagent/fence.h"

#include <algorithm>
#include <map>

#include "api/kinds/kinds.h"
#include "api/names.h"
#include "api/time.h"
#include "base/fault.h"
#include "base/log.h"
#include "blockagent/node_cleanups.h"

namespace berth::blockagent {
namespace {

using api::FenceEntry;
using api::VolumeFence;
using base::Error;
using base::Json;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;

// How often a write may conflict with another's. Twenty agents that want one volume need fewer
// tries.
constexpr int kMostTries = 20;
constexpr std::string_view kBlocked = "Blocked";
// The annotation of a fence that a person breaks: the uids of the pods, with a comma after each.
constexpr std::string_view kBrokenPods = "block.berth.dev/broken-pods";

// Whether another process wrote, created or deleted the fence meanwhile.
bool IsRace(const Status& status) {
  return status.code() == StatusCode::kAlreadyExists || status.code() == StatusCode::kAborted ||
         status.code() == StatusCode::kNotFound;
}

VolumeFence NewFence(const std::string& volume) {
  VolumeFence fence;
  fence.Set({"apiVersion"}, VolumeFence::kInfo.api_version());
  fence.Set({"kind"}, std::string(VolumeFence::kInfo.kind));
  fence.set_name(volume);
  return fence;
}

// nullopt: there is no fence. UNAVAILABLE: the API does not serve fences, for example while their
// CustomResourceDefinition is installed again; then nothing is known about the users of the volume.
StatusOr<std::optional<VolumeFence>> ReadFence(kube::Client& client, const std::string& volume) {
  const std::string context = fmt::format("read the fence of volume {}", Quote(volume));
  auto found = kube::Get<VolumeFence>(client, "", volume);
  if (found.ok()) return std::optional(*std::move(found));
  if (found.status().code() != StatusCode::kNotFound) {
    return base::Annotate(found.status(), context);
  }
  // The name may come from a folder that is not a volume's. No object can have a name that is not a
  // DNS subdomain.
  if (!api::CheckDns1123Subdomain(volume).ok()) return std::nullopt;
  // The API answers NOT_FOUND both for a missing object and for a kind that it does not serve. A
  // list distinguishes the two.
  auto listed = client.List(VolumeFence::kInfo, "", {.field_selector = "metadata.name=" + volume});
  if (listed.status().code() == StatusCode::kNotFound) {
    return Error(StatusCode::kUnavailable, "{}: the API does not serve VolumeFences: {}", context,
                 base::Message(listed.status()));
  }
  RETURN_IF_ERROR_WITH(listed, context);
  if (listed->items.empty()) return std::nullopt;
  return std::optional(VolumeFence(std::move(listed->items.front())));
}

StatusOr<VolumeFence> WriteFence(kube::Client& client, const VolumeFence& fence, bool exists) {
  return exists ? kube::Update(client, fence) : kube::Create(client, fence);
}

Status DeleteFence(kube::Client& client, const VolumeFence& fence) {
  return client.Delete(VolumeFence::kInfo, "", fence.name(),
                       {.uid = fence.uid(), .resource_version = fence.resource_version()});
}

// The device path that the node last wrote into the status.
std::string DeviceOf(const VolumeFence& fence, std::string_view node) {
  for (const Json& device : base::json::Array(fence.json(), {"status", "devices"})) {
    if (base::json::String(device, {"node"}) == node) {
      return base::json::String(device, {"devicePath"});
    }
  }
  return "";
}

// The message of the condition Blocked if that is true; else empty.
std::string FindBlockedMessage(const VolumeFence& fence) {
  for (const Json& condition : base::json::Array(fence.json(), {"status", "conditions"})) {
    if (base::json::String(condition, {"type"}) == kBlocked &&
        base::json::String(condition, {"status"}) == "True") {
      return base::json::String(condition, {"message"});
    }
  }
  return "";
}

bool IsMarkedBroken(const VolumeFence& fence, const FenceEntry& use) {
  return !use.pod_uid.empty() &&
         fence.annotation(kBrokenPods).find(use.pod_uid + ",") != std::string::npos;
}

// Sets the condition Blocked. Gives false if it has that value already.
bool SetBlocked(VolumeFence& fence, bool blocked, const std::string& message,
                const std::string& now) {
  Json conditions = Json::array();
  Json before = nullptr;
  for (const Json& condition : base::json::Array(fence.json(), {"status", "conditions"})) {
    if (base::json::String(condition, {"type"}) == kBlocked) {
      before = condition;
    } else {
      conditions.push_back(condition);
    }
  }
  if (!blocked && before.is_null()) return false;
  const std::string status = blocked ? "True" : "False";
  if (base::json::String(before, {"status"}) == status &&
      base::json::String(before, {"message"}) == message) {
    return false;
  }
  const bool turned = base::json::String(before, {"status"}) != status;
  conditions.push_back(
      {{"type", kBlocked},
       {"status", status},
       {"reason", blocked ? "ProofMissing" : "Granted"},
       {"message", message},
       {"lastTransitionTime", turned ? now : base::json::String(before, {"lastTransitionTime"})}});
  fence.Set({"status", "conditions"}, std::move(conditions));
  return true;
}

}  // namespace

base::ObjectReference ReferenceToPod(const FenceEntry& entry) {
  return {.api_version = "v1",
          .kind = "Pod",
          .ns = entry.pod_namespace,
          .name = entry.pod,
          .uid = entry.pod_uid};
}

bool ContainsUse(const std::vector<FenceEntry>& entries, const FenceEntry& use) {
  return std::ranges::any_of(entries, [&](const FenceEntry& one) { return one.IsSameUse(use); });
}

bool AllowsUse(const VolumeFence& fence, const FenceEntry& use) {
  return ContainsUse(fence.entries(), use) && !IsMarkedBroken(fence, use);
}

Status Fences::WriteCleanups(const FenceRequest& request, const FenceContext& context,
                             const std::vector<Broken>& broken_entries, const VolumeFence& fence) {
  std::map<std::string, std::vector<api::CleanupEntry>> by_node;
  for (const Broken& broken : broken_entries) {
    by_node[broken.entry.node].push_back(
        {.volume = request.volume,
         .attachment = broken.entry,
         .cluster_name = context.cluster_name,
         .image = context.image,
         .device_path = DeviceOf(fence, broken.entry.node),
         .reason = fmt::format("{} wants the volume: {}", Describe(request.entry), broken.proof)});
  }
  for (const auto& [node, entries] : by_node) {
    RETURN_IF_ERROR(AddCleanups(options_.client, node, entries));
  }
  return base::OkStatus();
}

void Fences::ReportBroken(const FenceContext& context, const Decision& decision) {
  for (const Broken& broken : decision.broken) {
    const std::string text =
        fmt::format("broke the fence of {}: {}", Describe(broken.entry), broken.proof);
    LOG_WARNING("volume {}: {}", Quote(context.volume.name), text);
    for (const auto* object : {&context.volume, &context.pod}) {
      options_.events.Record(*object, base::EventType::kWarning, "FenceBroken", text);
    }
  }
}

void Fences::ReportBlocked(const FenceRequest& request, const FenceContext& context,
                           const Decision& decision, const VolumeFence& fence) {
  const std::string text =
      fmt::format("{} may not use it: {}", Describe(request.entry), decision.missing);
  LOG_WARNING("volume {}: {}", Quote(request.volume), text);
  for (const auto* object : {&context.volume, &context.pod}) {
    options_.events.Record(*object, base::EventType::kWarning, "FenceBlocked", text);
  }
  const Status written = EditStatus(request.volume, &fence, [&](VolumeFence& edited) {
    // If many pods are blocked, the condition keeps the first one, because else their agents would
    // overwrite it in turn for ever.
    if (FindBlockedMessage(edited).ends_with(decision.missing)) return false;
    return SetBlocked(edited, true, text, api::FormatTime(options_.clock.Now()));
  });
  if (!written.ok()) LOG_WARNING("{}", base::ToString(written));
}

StatusOr<VolumeFence> Fences::Acquire(const FenceRequest& request, const FenceContext& context,
                                      const FenceCallbacks& callbacks) {
  for (int i = 0; i < kMostTries; ++i) {
    std::optional<VolumeFence> found;
    const bool looked = i > 0 || !request.likely_first;
    if (looked) {
      ASSIGN_OR_RETURN(found, ReadFence(options_.client, request.volume));
    }
    VolumeFence fence = found.has_value() ? *found : NewFence(request.volume);
    if (fence.deleting()) {
      return Error(StatusCode::kFailedPrecondition,
                   "the fence of volume {} is being deleted, and a finalizer delays that",
                   Quote(request.volume));
    }
    std::vector<FenceEntry> entries = fence.entries();
    const bool unfenced = entries.empty();
    if (unfenced) {
      ASSIGN_OR_RETURN(entries, callbacks.find_unfenced());
      // Those that do not conflict are left to the agents of their own nodes.
      entries = FindConflicts(entries, request);
      if (!entries.empty() && !looked) continue;
    }
    std::vector<ConsumerFacts> facts;
    for (const FenceEntry& old : FindConflicts(entries, request)) {
      facts.push_back(callbacks.find_facts(old));
      facts.back().unfenced = unfenced;
    }
    const Decision decision = DecideRequest(entries, request, facts);
    if (decision.verdict == Verdict::kHeld) {
      RETURN_IF_ERROR(callbacks.entering());
      return fence;
    }
    if (decision.verdict == Verdict::kBlocked) {
      // The agents of nodes that are alive then take off the volumes of pods that are gone.
      if (const Status written = WriteCleanups(request, context, decision.stale, fence);
          !written.ok()) {
        LOG_WARNING("{}", base::ToString(written));
      }
      ReportBlocked(request, context, decision, fence);
      return Error(StatusCode::kFailedPrecondition, "volume {} is fenced: {}",
                   Quote(request.volume), decision.missing);
    }
    RETURN_IF_ERROR(callbacks.entering());
    // The cleanups are written before the fence, because a crash may then leave an entry too many,
    // but never one too few.
    RETURN_IF_ERROR(WriteCleanups(request, context, decision.broken, fence));
    RETURN_IF_ERROR(base::FaultPoint<"blockagent.fence.acquire.before">());
    fence.set_entries(ApplyDecision(entries, request, decision));
    auto written = WriteFence(options_.client, fence, found.has_value());
    if (written.ok()) {
      LOG_INFO("volume {}: the fence is taken for {}", Quote(request.volume),
               Describe(request.entry));
      ReportBroken(context, decision);
      RETURN_IF_ERROR(base::FaultPoint<"blockagent.fence.acquire.after">());
      return written;
    }
    if (!IsRace(written.status())) {
      return base::Annotate(written.status(),
                            fmt::format("write the fence of volume {}", Quote(request.volume)));
    }
  }
  return Error(StatusCode::kAborted,
               "the fence of volume {} was written by others {} times meanwhile",
               Quote(request.volume), kMostTries);
}

Status Fences::Release(const std::string& volume, const FenceEntry& use) {
  RETURN_IF_ERROR(base::FaultPoint<"blockagent.fence.release.before">());
  for (int i = 0; i < kMostTries; ++i) {
    ASSIGN_OR_RETURN(std::optional<VolumeFence> fence, ReadFence(options_.client, volume));
    if (!fence.has_value()) return base::OkStatus();
    std::vector<FenceEntry> entries = fence->entries();
    if (std::erase_if(entries, [&](const FenceEntry& one) { return one.IsSameUse(use); }) == 0 &&
        !entries.empty()) {
      return base::OkStatus();
    }
    Status written;
    if (entries.empty()) {
      written = DeleteFence(options_.client, *fence);
    } else {
      fence->set_entries(entries);
      written = WriteFence(options_.client, *fence, /*exists=*/true).status();
    }
    if (written.ok()) {
      LOG_INFO("volume {}: the fence is released for {}", Quote(volume), Describe(use));
      return base::FaultPoint<"blockagent.fence.release.after">();
    }
    if (!IsRace(written)) {
      return base::Annotate(written, fmt::format("write the fence of volume {}", Quote(volume)));
    }
  }
  return Error(StatusCode::kAborted,
               "the fence of volume {} was written by others {} times meanwhile", Quote(volume),
               kMostTries);
}

StatusOr<std::vector<FenceEntry>> Fences::ReadEntries(const std::string& volume) {
  ASSIGN_OR_RETURN(const std::optional<VolumeFence> fence, ReadFence(options_.client, volume));
  return fence.has_value() ? fence->entries() : std::vector<FenceEntry>();
}

StatusOr<bool> Fences::HasEntry(const std::string& volume, const FenceEntry& use) {
  ASSIGN_OR_RETURN(const std::optional<VolumeFence> fence, ReadFence(options_.client, volume));
  return fence.has_value() && AllowsUse(*fence, use);
}

StatusOr<LossDecision> Fences::Restore(const FenceRequest& request,
                                       const base::ObjectReference& volume,
                                       const std::function<BackendFact()>& find_lock) {
  for (int i = 0; i < kMostTries; ++i) {
    ASSIGN_OR_RETURN(const std::optional<VolumeFence> found,
                     ReadFence(options_.client, request.volume));
    VolumeFence fence = found.has_value() ? *found : NewFence(request.volume);
    const std::vector<FenceEntry> entries = fence.entries();
    if (ContainsUse(entries, request.entry)) return LossDecision{LossVerdict::kRestore, ""};
    // The NodeCleanup is read after the fence, because whoever breaks a fence writes it before.
    ASSIGN_OR_RETURN(const bool owed, HasCleanup(options_.client, api::NodeName(request.entry.node),
                                                 api::VolumeName(request.volume),
                                                 api::PodUid(request.entry.pod_uid)));
    const bool contested = !FindOthersConflicts(entries, request).empty();
    const LossDecision decision = DecideLoss(
        entries, request, owed, contested && !owed ? find_lock() : BackendFact::kUnknown);
    if (decision.verdict == LossVerdict::kTaken) return decision;
    if (decision.verdict == LossVerdict::kWait) {
      return Error(StatusCode::kUnavailable, "the fence of volume {} does not name {}: {}",
                   Quote(request.volume), Describe(request.entry), decision.reason);
    }
    if (fence.deleting()) {
      return Error(StatusCode::kUnavailable,
                   "the fence of volume {} is being deleted, and a finalizer delays that",
                   Quote(request.volume));
    }
    fence.set_entries(ApplyDecision(entries, request, {}));
    const Status written = WriteFence(options_.client, fence, found.has_value()).status();
    if (written.ok()) {
      const std::string text =
          fmt::format("the fence of volume {} {} {}, which has it mounted: it is written again; {}",
                      Quote(request.volume), found.has_value() ? "did not name" : "was lost for",
                      Describe(request.entry), decision.reason);
      LOG_INFO("{}", text);
      for (const auto& object : {volume, ReferenceToPod(request.entry)}) {
        options_.events.Record(object, base::EventType::kNormal, "FenceRestored", text);
      }
      return decision;
    }
    if (!IsRace(written)) {
      return base::Annotate(written,
                            fmt::format("write the fence of volume {}", Quote(request.volume)));
    }
  }
  return Error(StatusCode::kAborted,
               "the fence of volume {} was written by others {} times meanwhile",
               Quote(request.volume), kMostTries);
}

Status Fences::EditStatus(const std::string& volume, const VolumeFence* known,
                          const std::function<bool(VolumeFence&)>& edit) {
  for (int i = 0; i < kMostTries; ++i) {
    std::optional<VolumeFence> fence;
    if (i == 0 && known != nullptr) {
      fence = *known;
    } else {
      ASSIGN_OR_RETURN(fence, ReadFence(options_.client, volume));
    }
    if (!fence.has_value() || !edit(*fence)) return base::OkStatus();
    const Status written = kube::Update(options_.client, *fence, "status").status();
    if (written.ok()) return written;
    if (!IsRace(written)) {
      return base::Annotate(written, fmt::format("write the status of fence {}", Quote(volume)));
    }
  }
  return Error(StatusCode::kAborted,
               "the fence of volume {} was written by others {} times meanwhile", Quote(volume),
               kMostTries);
}

Status Fences::WriteDeviceStatus(const std::string& volume, const DeviceStatus& status,
                                 const VolumeFence* known) {
  return EditStatus(volume, known, [&](VolumeFence& fence) {
    Json devices = Json::array();
    for (const Json& device : base::json::Array(fence.json(), {"status", "devices"})) {
      const std::string node = base::json::String(device, {"node"});
      const bool in = std::ranges::any_of(
          fence.entries(), [&](const FenceEntry& entry) { return entry.node == node; });
      // Devices of nodes that no longer are in the fence are stale, and are dropped.
      if (node != options_.node && in) devices.push_back(device);
    }
    devices.push_back({{"node", options_.node},
                       {"devicePath", status.device_path},
                       {"state", status.state},
                       {"message", status.message}});
    const bool granted = SetBlocked(fence, false, "", api::FormatTime(options_.clock.Now()));
    if (!granted && devices == base::json::Array(fence.json(), {"status", "devices"})) return false;
    fence.Set({"status", "devices"}, std::move(devices));
    return true;
  });
}

StatusOr<std::vector<FenceEntry>> BreakFence(kube::Client& client, const api::VolumeName& volume,
                                             const std::string& reason) {
  for (int i = 0; i < kMostTries; ++i) {
    ASSIGN_OR_RETURN(std::optional<VolumeFence> fence, ReadFence(client, volume.text()));
    if (!fence.has_value()) {
      return Error(StatusCode::kNotFound,
                   "volume {} has no fence, so there is nothing to break; if a pod waits for the "
                   "volume, its events name the pod that still runs with it",
                   volume);
    }
    std::string broken_pods;
    for (const FenceEntry& entry : fence->entries()) broken_pods += entry.pod_uid + ",";
    fence->set_annotation(kBrokenPods, broken_pods);
    auto marked = kube::Update(client, *fence);
    if (IsRace(marked.status())) continue;
    RETURN_IF_ERROR(marked);
    fence = *std::move(marked);
    const auto pv = kube::Get<api::PersistentVolume>(client, "", volume.text());
    const std::vector<FenceEntry> entries = fence->entries();
    for (const FenceEntry& entry : entries) {
      const std::string image =
          pv.ok() ? pv->String({"spec", "flexVolume", "options", api::kImageOption}) : "";
      RETURN_IF_ERROR(AddCleanups(client, entry.node,
                                  {{.volume = volume.text(),
                                    .attachment = entry,
                                    .cluster_name = entry.cluster_name,
                                    .image = image,
                                    .device_path = DeviceOf(*fence, entry.node),
                                    .reason = reason}}));
    }
    const Status removed = DeleteFence(client, *fence);
    if (removed.ok()) return entries;
    if (!IsRace(removed)) return removed;
  }
  return Error(StatusCode::kAborted,
               "the fence of volume {} was written by others {} times meanwhile", volume,
               kMostTries);
}

Status ForceOffNode(kube::Client& client, const api::VolumeName& volume, const api::NodeName& node,
                    const std::string& reason) {
  ASSIGN_OR_RETURN(const std::optional<VolumeFence> fence, ReadFence(client, volume.text()));
  if (fence.has_value() && std::ranges::any_of(fence->entries(), [&](const FenceEntry& entry) {
        return entry.node == node.text();
      })) {
    return Error(StatusCode::kFailedPrecondition,
                 "the fence of volume {} names node {}: break it, without --node",
                 Quote(volume.text()), Quote(node.text()));
  }
  const auto pv = kube::Get<api::PersistentVolume>(client, "", volume.text());
  RETURN_IF_ERROR_WITH(pv, fmt::format("read PersistentVolume {}", Quote(volume.text())));
  const std::string cluster = pv->String({"spec", "flexVolume", "options", api::kClusterOption});
  return AddCleanups(client, node.text(),
                     {{.volume = volume.text(),
                       .attachment = {.node = node.text(), .cluster_name = cluster},
                       .cluster_name = cluster,
                       .image = pv->String({"spec", "flexVolume", "options", api::kImageOption}),
                       .reason = reason}});
}

}  // namespace berth::blockagent
