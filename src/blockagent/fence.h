// The VolumeFence of a volume: writes into the API who uses it.
//
//   Acquire   read ─▶ decide (fence_rules.h) ─▶ [break] NodeCleanup of the old node ─▶ write
//              ▲                                                                        │
//              └── somebody else wrote: AlreadyExists, conflict ◀───────────────────────┤
//                                                                  granted ◀────────────┘
//   Release   the entry goes, and the object with its last one: deleted as it was read
//
// Each write is made against what was read (create, or the resourceVersion), so that of two who
// want in one wins. UNAVAILABLE and DEADLINE_EXCEEDED: unknown; calling again finds what was done.
// An API that does not serve fences at present is UNAVAILABLE, and never a volume without one.
// Thread-safe. What the options name is borrowed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/kinds/block_kinds.h"
#include "base/clock.h"
#include "base/event_sink.h"
#include "base/status.h"
#include "blockagent/fence_rules.h"
#include "kube/client.h"

namespace berth::blockagent {

// Besides the request: what is told, and to whom.
struct FenceContext {
  base::ObjectReference volume;  // the PersistentVolume
  base::ObjectReference pod;     // that wants in
  std::string cluster_name;
  std::string image;
};

struct FenceCallbacks {
  // What is known of the consumer of an entry that conflicts.
  std::function<ConsumerFacts(const api::FenceEntry& old)> find_facts;
  // The request is about to come in, or is in: called before the fence is written, once or more.
  // What it fails with is the call's failure. Whoever is kept out from the first leaves no trace.
  std::function<base::Status()> entering = [] { return base::OkStatus(); };
};

// Whether that use is among the entries.
bool Names(const std::vector<api::FenceEntry>& entries, const api::FenceEntry& use);

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

  // Lets the request's pod in; gives the fence as it then is. FAILED_PRECONDITION: others are in,
  // and what proof is missing; it is told in events and in the fence's status, too. ABORTED: others
  // wrote it all the time.
  base::StatusOr<api::VolumeFence> Acquire(const FenceRequest& request, const FenceContext& context,
                                           const FenceCallbacks& callbacks);

  // Takes the entry of that very use out. OK where it is not there.
  base::Status Release(const std::string& volume, const api::FenceEntry& use);

  // Whether that use is in.
  base::StatusOr<bool> Holds(const std::string& volume, const api::FenceEntry& use);

  // The entries of now; empty where there is no fence.
  base::StatusOr<std::vector<api::FenceEntry>> Entries(const std::string& volume);

  // Says what this node made of the volume. `known`, if it is not null, is the fence as last read,
  // which spares a read. What fails is only less to see: callers log it.
  base::Status SetDevice(const std::string& volume, const DeviceStatus& status,
                         const api::VolumeFence* known = nullptr);

 private:
  // Has the nodes of the entries take them off.
  base::Status WriteCleanups(const FenceRequest& request, const FenceContext& context,
                             const std::vector<Broken>& entries, const api::VolumeFence& fence);
  void TellBroken(const FenceContext& context, const Decision& decision);
  void TellBlocked(const FenceRequest& request, const FenceContext& context,
                   const Decision& decision, const api::VolumeFence& fence);
  // Edits status of the fence against its resourceVersion; `edit` false: nothing is to be written.
  base::Status EditStatus(const std::string& volume, const api::VolumeFence* known,
                          const std::function<bool(api::VolumeFence&)>& edit);

  const Options options_;
};

// Takes all entries out of a fence, whatever uses the volume, after writing them into the
// NodeCleanups of their nodes: `berth fence break --dangerous`. Gives those that were in.
base::StatusOr<std::vector<api::FenceEntry>> BreakFence(kube::Client& client,
                                                        const std::string& volume,
                                                        const std::string& reason);

}  // namespace berth::blockagent
