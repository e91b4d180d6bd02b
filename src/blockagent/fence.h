// Reads and writes the VolumeFence of a volume, an API object that names the pods and nodes that
// use the volume.
//
//   Acquire   read ─▶ decide (fence_rules.h) ─▶ [break] NodeCleanup of the old node ─▶ write
//              ▲                                                                        │
//              └── another agent wrote: AlreadyExists, conflict ◀───────────────────────┤
//                                                                  granted ◀────────────┘
//   Release   the entry goes, and the object with its last one: deleted as it was read
//
// Each write depends on the object that was read (it is a create, or carries the resourceVersion),
// so only one of two competing requests wins. UNAVAILABLE and DEADLINE_EXCEEDED: the outcome is
// unknown; a repeated call finds the present state and continues from it. If the API does not serve
// fences now, the result is UNAVAILABLE; it never counts as a volume without a fence. Thread-safe.
// The objects in Options are borrowed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/kinds/block_kinds.h"
#include "api/kinds/object_ids.h"
#include "base/clock.h"
#include "base/event_sink.h"
#include "base/status.h"
#include "blockagent/fence_rules.h"
#include "kube/client.h"

namespace berth::blockagent {

// Facts about the request that events and the fence's status need.
struct FenceContext {
  base::ObjectReference volume;  // the PersistentVolume
  base::ObjectReference pod;     // the pod that wants to use the volume
  std::string cluster_name;
  std::string image;
};

struct FenceCallbacks {
  // Finds the facts about the consumer of a conflicting entry.
  std::function<ConsumerFacts(const api::FenceEntry& old)> find_facts;
  // Finds the uses that other signs show, if there is no fence; they count as if the fence named
  // them. For volumes whose back end keeps no lock, because an object may get lost.
  std::function<base::StatusOr<std::vector<api::FenceEntry>>()> find_unfenced =
      []() -> base::StatusOr<std::vector<api::FenceEntry>> {
    return std::vector<api::FenceEntry>();
  };
  // Called before the fence is written, once or more, when the rules let the request in or the
  // fence names it already. If it fails, Acquire fails with the same status. It is not called for a
  // request that is blocked at the first try, so that such a request leaves no record.
  std::function<base::Status()> entering = [] { return base::OkStatus(); };
};

// Whether `entries` contain that use.
bool ContainsUse(const std::vector<api::FenceEntry>& entries, const api::FenceEntry& use);
// Whether the fence lets that use go on: it contains the use, and nobody has broken it.
bool AllowsUse(const api::VolumeFence& fence, const api::FenceEntry& use);

struct DeviceStatus {
  std::string device_path;
  std::string state;  // Attaching, Attached, Detaching, Quarantined
  std::string message;
};

class Fences {
 public:
  struct Options {
    kube::Client& client;
    base::EventSink& events;
    const base::Clock& clock;
    std::string node;
  };
  explicit Fences(Options options) : options_(std::move(options)) {}

  // Adds the request's pod to the fence, and gives the written fence. FAILED_PRECONDITION: other
  // pods use the volume; the message, the events and the fence's status name the missing proof. Or
  // the fence is being deleted. ABORTED: others wrote the fence at every try.
  base::StatusOr<api::VolumeFence> Acquire(const FenceRequest& request, const FenceContext& context,
                                           const FenceCallbacks& callbacks);

  // Removes the entry of exactly that use, and the fence if no entry is left. OK if there is none.
  // ABORTED as above.
  base::Status Release(const std::string& volume, const api::FenceEntry& use);

  // Writes the entry of a mounted use again, if the fence lost it and nobody has taken the volume
  // away (DecideLoss in fence_rules.h), and records an event. kRestore: the fence names the use
  // now. kTaken: the use is to be taken off. UNAVAILABLE: this cannot be known now. ABORTED as
  // above. `find_lock` finds what the back end knows of the lock of this node's mapping; it is
  // called only if other nodes are in the fence.
  base::StatusOr<LossDecision> Restore(const FenceRequest& request,
                                       const base::ObjectReference& volume,
                                       const std::function<BackendFact()>& find_lock);

  // Whether the fence, read from the API now, names that use. False also while a person breaks the
  // fence of that use (BreakFence).
  base::StatusOr<bool> HasEntry(const std::string& volume, const api::FenceEntry& use);

  // Reads the present entries; empty if there is no fence.
  base::StatusOr<std::vector<api::FenceEntry>> ReadEntries(const std::string& volume);

  // Writes the state of this node's device into the fence's status; OK if there is no fence.
  // `known`, if it is not null, is the fence as last read, and saves a read. Callers only log a
  // failure, because the status is for people.
  base::Status WriteDeviceStatus(const std::string& volume, const DeviceStatus& status,
                                 const api::VolumeFence* known = nullptr);

 private:
  // Writes the entries into the NodeCleanups of their nodes, so that these nodes take them off.
  base::Status WriteCleanups(const FenceRequest& request, const FenceContext& context,
                             const std::vector<Broken>& entries, const api::VolumeFence& fence);
  void ReportBroken(const FenceContext& context, const Decision& decision);
  void ReportBlocked(const FenceRequest& request, const FenceContext& context,
                     const Decision& decision, const api::VolumeFence& fence);
  // Edits the fence's status and writes it with the resourceVersion that was read. If `edit`
  // returns false, nothing is written.
  base::Status EditStatus(const std::string& volume, const api::VolumeFence* known,
                          const std::function<bool(api::VolumeFence&)>& edit);

  const Options options_;
};

// The pod that an entry names, for events.
base::ObjectReference ReferenceToPod(const api::FenceEntry& entry);

// Marks all entries of a fence as broken, writes them into the NodeCleanups of their nodes, and
// then deletes the fence, even if pods use the volume. The mark keeps the agents from removing what
// they find in their NodeCleanups while the fence still names their pods. This is `berth fence
// break --dangerous`. Gives the removed entries. NOT_FOUND: the volume has no fence. ABORTED as in
// Fences::Acquire.
base::StatusOr<std::vector<api::FenceEntry>> BreakFence(kube::Client& client,
                                                        const api::VolumeName& volume,
                                                        const std::string& reason);

// Writes the volume into the NodeCleanup of `node`, which no fence has to name, so that the node's
// agent takes off by force what it has of the volume. This is `berth fence break --dangerous
// --node`, by which a person gives up writes of a use that the fence has forgotten. NOT_FOUND:
// there is no such PersistentVolume. FAILED_PRECONDITION: the fence names the node: break that.
base::Status ForceOffNode(kube::Client& client, const api::VolumeName& volume,
                          const api::NodeName& node, const std::string& reason);

}  // namespace berth::blockagent
