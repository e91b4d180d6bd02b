// Decides who may use a volume, from facts that the caller found. Pure functions.
//
//                         no entry that conflicts
//   a pod wants in ──┬───────────────────────────────▶ [held] its own entry is there
//                    │                                 [free] there is no other
//                    │                                 [join] others are, and may be
//                    │ entries conflict
//                    ├── each has its proof ──────────▶ [break] they go, with their proofs
//                    └── one has not ─────────────────▶ [blocked] says which proof, and how to
//                                                       give it
//
// Which entries conflict, by the volume's access modes:
//   ReadWriteOnce, ReadWriteOncePod   those of any other pod
//   ReadOnlyMany                      a writer conflicts with all others; readers do not
//   ReadWriteMany                     those on other nodes, unless the file system is made for
//                                     several kernels (ADR 14)
//
// An entry is broken only if its consumer is provably gone. That takes two proofs:
//   the pod    no pod has its uid; or the pod is being deleted, and the pod that wants in
//              has the same controller, which moved it. The pod's name alone proves nothing
//   the node   one of
//              - its agent confirmed that it took the volume off
//              - it has the taint node.kubernetes.io/out-of-service, by which a person vouches that
//                the machine runs nothing any more
//              - its Node is gone, its Lease expired, and the back end holds no lock of the image
//                and would show one of that node (Backend::ProveLocks)
//              - its Node is gone, and the back end fences it before the image is mapped again
//                (Backend::FencesNodes). No silence is waited for, because a node that writes on
//                is refused by the storage
//
// A node whose volume is mounted may find that the fence does not name its pod. Whoever takes a
// volume away writes the NodeCleanup of the old node before the fence, so the two differ:
//
//   the NodeCleanup names the use ────────────▶ [taken]    by force
//   no entry of another node conflicts ───────▶ [restore]  the entry got lost
//   another node's entry conflicts ──┬────────▶ [restore]  this node's mapping holds the lock
//                                    ├────────▶ [wait]     the lock is not known now
//                                    └────────▶ [taken]    there is no lock that could tell
//
// With this node's lock on the image, the other node has nothing mapped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/block_kinds.h"

namespace berth::blockagent {

// Who may use a volume at the same time, by its access modes.
enum class Sharing {
  kOnePod,
  kReaders,   // many readers, or one writer
  kOneNode,   // many pods of one node
  kAllNodes,  // many pods anywhere
};

// Derives the Sharing from a PersistentVolume's accessModes, and from the file system that the
// volume has or will get.
Sharing SharingOf(const std::vector<std::string>& access_modes, std::string_view fs_type);

// Whether several nodes may write to the file system at once: gfs2, ocfs2.
bool IsClusterFileSystem(std::string_view fs_type);

// kMoved: the pod is being deleted, and its controller made the pod that wants in.
enum class PodFact { kUnknown, kThere, kMoved, kGone };
// kGone: there is no Node object.
enum class NodeFact { kUnknown, kThere, kOutOfService, kGone };
enum class LeaseFact { kUnknown, kAlive, kExpired };
// kFences: the back end fences nodes, and the agent has it do so before it maps the image.
enum class BackendFact { kUnknown, kCannotTell, kLocked, kNoLock, kFences };

// The facts about the consumer that an entry names.
struct ConsumerFacts {
  PodFact pod = PodFact::kUnknown;
  bool detach_confirmed = false;
  NodeFact node = NodeFact::kUnknown;
  // These two are found only if the node is gone, and the Lease only if the back end does not fence
  // nodes.
  LeaseFact lease = LeaseFact::kUnknown;
  BackendFact backend = BackendFact::kUnknown;
  std::string note;  // why a fact is not known, for people
  // No fence names the consumer, but its pod has started (FenceCallbacks::find_unfenced).
  bool unfenced = false;
};

struct FenceRequest {
  std::string volume;
  api::FenceEntry entry;  // the entry to add
  Sharing sharing = Sharing::kOnePod;
  std::string fs_type;
  // The caller knows of no other use, so there is most likely no fence yet. The first try then
  // creates a fence without a read.
  bool likely_first = false;
};

// The entries that conflict with the request, in their order.
std::vector<api::FenceEntry> FindConflicts(const std::vector<api::FenceEntry>& entries,
                                           const FenceRequest& request);

enum class Verdict { kHeld, kFree, kJoin, kBreak, kBlocked };

// An entry whose consumer is gone.
struct Broken {
  api::FenceEntry entry;
  std::string proof;  // for people
};

struct Decision {
  Verdict verdict = Verdict::kBlocked;
  std::vector<Broken> broken;  // with kBreak: the entries to remove
  std::string missing;         // with kBlocked: which proof is missing, and how to give it
  // With kBlocked: entries of pods that are gone. Their nodes must take them off.
  std::vector<Broken> stale;
};

// `facts` are those of FindConflicts(entries, request), in that order.
Decision DecideRequest(const std::vector<api::FenceEntry>& entries, const FenceRequest& request,
                       const std::vector<ConsumerFacts>& facts);

// The entries after the decision: without the broken ones, and with the request's.
std::vector<api::FenceEntry> ApplyDecision(const std::vector<api::FenceEntry>& entries,
                                           const FenceRequest& request, const Decision& decision);

// "pod 'ns/name' (uid) on node 'n'", for people.
std::string Describe(const api::FenceEntry& entry);

// kRestore: the entry is written again, beside others if there are any.
enum class LossVerdict { kRestore, kTaken, kWait };

struct LossDecision {
  LossVerdict verdict = LossVerdict::kWait;
  std::string reason;  // for people
};

// The entries of other nodes that conflict with the request, in their order.
std::vector<api::FenceEntry> FindOthersConflicts(const std::vector<api::FenceEntry>& entries,
                                                 const FenceRequest& request);

// Decides what happens to a mounted use that the fence does not name. `owed`: the NodeCleanup of
// this node names the use. `lock` is what the back end knows of the lock of this node's own
// mapping; it counts only if entries of other nodes conflict.
LossDecision DecideLoss(const std::vector<api::FenceEntry>& entries, const FenceRequest& request,
                        bool owed, BackendFact lock);

}  // namespace berth::blockagent
