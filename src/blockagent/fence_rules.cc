#include "blockagent/fence_rules.h"

#include <algorithm>

#include "base/log.h"

namespace berth::blockagent {
namespace {

using api::FenceEntry;

// The most blocking entries that a message names.
constexpr size_t kMostNamed = 3;

bool HasMode(const std::vector<std::string>& modes, std::string_view mode) {
  return std::ranges::find(modes, mode) != modes.end();
}

bool IsSamePod(const FenceEntry& a, const FenceEntry& b) {
  return a.node == b.node && a.pod_uid == b.pod_uid;
}

bool IsConflict(const FenceEntry& old, const FenceRequest& request) {
  const FenceEntry& wanted = request.entry;
  if (IsSamePod(old, wanted)) return false;
  switch (request.sharing) {
    case Sharing::kOnePod:
      return true;
    case Sharing::kReaders:
      return !old.read_only || !wanted.read_only;
    case Sharing::kOneNode:
      return old.node != wanted.node;
    case Sharing::kAllNodes:
      return false;
  }
  return true;
}

// Whether a consumer is proven gone.
struct Judged {
  bool proven = false;
  std::string text;  // the proof, or which proof is missing
  bool pod_gone = false;
};

// The pod runs, and no fence names it: it was lost, or a person broke it, or the node's agent took
// the volume from the pod since.
std::string AdviseOnUnfenced(const FenceEntry& old) {
  return fmt::format(
      "{} still runs, and may write, although the volume has no fence any more (it was lost or "
      "broken, and this back end keeps no locks): end that pod: kubectl delete pod --namespace {} "
      "{}; or, if the machine {} is off for certain, the same with --force",
      Describe(old), old.pod_namespace, old.pod, base::Quote(old.node));
}

Judged JudgePod(const FenceEntry& old, const ConsumerFacts& facts) {
  switch (facts.pod) {
    case PodFact::kGone:
      return {true, fmt::format("{} exists no more", Describe(old))};
    case PodFact::kMoved:
      return {true, fmt::format("{} ends, and its controller made the new pod in its place",
                                Describe(old))};
    case PodFact::kThere:
      if (facts.unfenced) return {false, AdviseOnUnfenced(old)};
      return {false, fmt::format("{} uses it: delete that pod and wait for its end, or use another "
                                 "volume",
                                 Describe(old))};
    case PodFact::kUnknown:
      break;
  }
  return {false, fmt::format("whether {} still exists is not known{}{}", Describe(old),
                             facts.note.empty() ? "" : ": ", facts.note)};
}

Judged JudgeNode(const FenceEntry& old, const ConsumerFacts& facts) {
  if (facts.detach_confirmed) {
    return {true, fmt::format("node {} confirmed the detach", base::Quote(old.node))};
  }
  const std::string vouch = fmt::format(
      "if the machine is off for certain, say so: kubectl taint node {} "
      "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
      old.node);
  switch (facts.node) {
    case NodeFact::kOutOfService:
      return {true, fmt::format("node {} is out of service by its taint", base::Quote(old.node))};
    case NodeFact::kThere:
      if (facts.backend == BackendFact::kFences) {
        return {false, fmt::format(
                           "node {} has not confirmed that it took the volume off: its block agent "
                           "does so once it runs; if it is cut off, the storage fences it as soon "
                           "as its Node has the taint node.kubernetes.io/unreachable and the "
                           "pod's time to end is over; {}",
                           base::Quote(old.node), vouch)};
      }
      return {false, fmt::format("node {} has not confirmed that it took the volume off: its block "
                                 "agent does so once it runs; {}",
                                 base::Quote(old.node), vouch)};
    case NodeFact::kUnknown:
      return {false, fmt::format("whether node {} is there is not known{}{}", base::Quote(old.node),
                                 facts.note.empty() ? "" : ": ", facts.note)};
    case NodeFact::kGone:
      break;
  }
  if (facts.backend == BackendFact::kFences) {
    return {true, fmt::format("node {} is gone, and the storage fences it before the volume is "
                              "mapped",
                              base::Quote(old.node))};
  }
  if (facts.lease != LeaseFact::kExpired) {
    return {false, fmt::format("the Node {} is gone, but its Lease has not expired{}{}: it does so "
                               "by itself if the machine is off",
                               base::Quote(old.node), facts.note.empty() ? "" : ", ", facts.note)};
  }
  switch (facts.backend) {
    case BackendFact::kNoLock:
      return {true,
              fmt::format("node {} is gone, its lease expired, and the back end holds no lock of "
                          "the image",
                          base::Quote(old.node))};
    case BackendFact::kLocked:
      return {false, fmt::format("the Node {} is gone, but the back end still holds a lock of the "
                                 "image: the machine may still write to it; switch it off{}{}",
                                 base::Quote(old.node),
                                 facts.note.empty() ? "" : ", and wait: ", facts.note)};
    case BackendFact::kCannotTell:
    case BackendFact::kFences:
    case BackendFact::kUnknown:
      break;
  }
  return {false,
          fmt::format("the Node {} is gone, but the back end cannot tell whether it still "
                      "writes to the image{}{}: if the machine is off for certain, create its "
                      "Node again with the taint "
                      "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
                      base::Quote(old.node), facts.note.empty() ? "" : " (",
                      facts.note.empty() ? "" : facts.note + ")")};
}

Judged JudgeConsumer(const FenceEntry& old, const ConsumerFacts& facts) {
  const Judged pod = JudgePod(old, facts);
  if (!pod.proven) return pod;
  const Judged node = JudgeNode(old, facts);
  if (!node.proven) return {false, fmt::format("{}, but {}", pod.text, node.text), true};
  return {true, fmt::format("{}; {}", pod.text, node.text), true};
}

}  // namespace

bool IsClusterFileSystem(std::string_view fs_type) {
  return fs_type == "gfs2" || fs_type == "ocfs2";
}

Sharing SharingOf(const std::vector<std::string>& access_modes, std::string_view fs_type) {
  if (HasMode(access_modes, "ReadWriteMany")) {
    return IsClusterFileSystem(fs_type) ? Sharing::kAllNodes : Sharing::kOneNode;
  }
  return HasMode(access_modes, "ReadOnlyMany") ? Sharing::kReaders : Sharing::kOnePod;
}

std::string Describe(const FenceEntry& entry) {
  return fmt::format("pod {} ({}) on node {}", base::Quote(entry.pod_namespace + "/" + entry.pod),
                     entry.pod_uid, base::Quote(entry.node));
}

std::vector<FenceEntry> FindConflicts(const std::vector<FenceEntry>& entries,
                                      const FenceRequest& request) {
  std::vector<FenceEntry> conflicting;
  for (const FenceEntry& old : entries) {
    if (IsConflict(old, request)) conflicting.push_back(old);
  }
  return conflicting;
}

Decision DecideRequest(const std::vector<FenceEntry>& entries, const FenceRequest& request,
                       const std::vector<ConsumerFacts>& facts) {
  const std::vector<FenceEntry> conflicting = FindConflicts(entries, request);
  Decision decision;
  if (conflicting.empty()) {
    const bool held =
        std::ranges::any_of(entries, [&](const FenceEntry& old) { return old == request.entry; });
    decision.verdict = held ? Verdict::kHeld : entries.empty() ? Verdict::kFree : Verdict::kJoin;
    return decision;
  }
  size_t blocking = 0;
  for (size_t i = 0; i < conflicting.size(); ++i) {
    const Judged judged =
        JudgeConsumer(conflicting[i], i < facts.size() ? facts[i] : ConsumerFacts());
    if (judged.proven) {
      decision.broken.push_back({conflicting[i], judged.text});
      continue;
    }
    if (judged.pod_gone) decision.stale.push_back({conflicting[i], judged.text});
    if (++blocking <= kMostNamed) {
      decision.missing += (decision.missing.empty() ? "" : "; and ") + judged.text;
    }
  }
  if (blocking == 0) {
    decision.verdict = Verdict::kBreak;
    return decision;
  }
  // Entries that could be broken are stale even if another entry blocks the request.
  std::ranges::move(decision.broken, std::back_inserter(decision.stale));
  decision.broken.clear();
  if (blocking > kMostNamed) {
    decision.missing += fmt::format("; and {} more use it", blocking - kMostNamed);
  }
  if (request.sharing == Sharing::kOneNode) {
    decision.missing += fmt::format(
        ". It is ReadWriteMany, but {} is destroyed by two nodes that write to it: pods "
        "of one node at a time may use it",
        request.fs_type.empty() ? "its file system" : request.fs_type);
  }
  // Without a fence there is nothing to break.
  if (std::ranges::none_of(facts, &ConsumerFacts::unfenced)) {
    decision.missing += fmt::format(
        ". As the last resort, at the risk of the data: berth fence break --dangerous {}",
        request.volume);
  }
  return decision;
}

std::vector<FenceEntry> ApplyDecision(const std::vector<FenceEntry>& entries,
                                      const FenceRequest& request, const Decision& decision) {
  std::vector<FenceEntry> after;
  for (const FenceEntry& old : entries) {
    const bool broken =
        std::ranges::any_of(decision.broken, [&](const Broken& one) { return one.entry == old; });
    if (!broken && !old.IsSameUse(request.entry)) after.push_back(old);
  }
  after.push_back(request.entry);
  return after;
}

std::vector<FenceEntry> FindOthersConflicts(const std::vector<FenceEntry>& entries,
                                            const FenceRequest& request) {
  std::vector<FenceEntry> others = FindConflicts(entries, request);
  std::erase_if(others, [&](const FenceEntry& one) { return one.node == request.entry.node; });
  return others;
}

LossDecision DecideLoss(const std::vector<FenceEntry>& entries, const FenceRequest& request,
                        bool owed, BackendFact lock) {
  if (owed) {
    return {LossVerdict::kTaken,
            fmt::format("the NodeCleanup of node {} names it", base::Quote(request.entry.node))};
  }
  const std::vector<FenceEntry> others = FindOthersConflicts(entries, request);
  if (others.empty()) return {LossVerdict::kRestore, "no other node is in the fence"};
  const std::string other = Describe(others.front());
  switch (lock) {
    case BackendFact::kLocked:
      return {LossVerdict::kRestore,
              fmt::format("the fence names {}, but this node's mapping holds the lock of the image",
                          other)};
    case BackendFact::kUnknown:
      return {LossVerdict::kWait,
              fmt::format("the fence names {}, and whether this node's mapping holds the lock of "
                          "the image is not known now",
                          other)};
    case BackendFact::kCannotTell:
    case BackendFact::kNoLock:
    case BackendFact::kFences:
      break;
  }
  return {
      LossVerdict::kTaken,
      fmt::format("the fence names {}, and this node's mapping holds no lock of the image", other)};
}

}  // namespace berth::blockagent
