// Keeps a copy of the container runtime's sandboxes and containers, by pod.
//
//   connect (again after 0.1 s to 3 s) ─▶ list all ─▶ reachable: events, or list again ─▶ lost
//      ▲                                                                                    │
//      └────────────────────────────────────────────────────────────────────────────────────┘
//
// Changes come from the runtime's event stream (GetContainerEvents), and from the exit of
// containers' first processes (cri_exit_watch.h). Lists repair the copy: each minute if there is an
// event stream; without one (containerd before 1.7) each second, and soon after the caller's own
// actions. The caller reports its own actions with PutX and RemoveX, so that the copy has them
// without a call to the runtime; a list that began before such a report does not undo it.
//
// Thread-safe. `on_change` is called from this object's threads and from Refresh, while no lock is
// held.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "api/kinds/object_ids.h"
#include "base/mutex.h"
#include "base/status.h"
#include "node/containers/cri_exit_watch.h"
#include "node/containers/cri_listing.h"
#include "node/containers/pod_runtime.h"
#include "rpc/cri_client.h"

namespace berth::node {

// The waits before lists of the runtime. Each is `growth` times the one before, up to the longest.
struct CriListWaits {
  std::chrono::milliseconds first{2};         // after a change, or the end of a process
  std::chrono::milliseconds after_start{30};  // of a container
  std::chrono::milliseconds longest{1000};    // if the runtime has no event stream
  std::chrono::milliseconds repair{60000};    // the longest if it has one
  int growth = 2;
};

class CriState {
 public:
  using OnChange = std::function<void(const std::string& pod_uid)>;

  // `cri` is borrowed. `endpoint` is for messages.
  CriState(rpc::CriClient& cri, std::string endpoint, CriListWaits waits);
  ~CriState();

  void Start(OnChange on_change);
  void Stop();

  // OK while the runtime answers and its pods were listed. UNAVAILABLE: the runtime cannot be
  // reached; the message says which runtime and why.
  base::Status Reachable() const;
  // False until the first attempt to reach the runtime has ended.
  bool IsKnown() const;
  // Name and version of the runtime that answered last: {"containerd", "1.6.20"}.
  std::pair<std::string, std::string> Version() const;
  // Sets a callback for the first result of Reachable and for its changes. Call it before Start.
  void OnReachable(std::function<void()> on_reachable) { on_reachable_ = std::move(on_reachable); }

  // The state of a pod (empty if the runtime has nothing of it), and the uids of all pods.
  PodRuntime Pod(const std::string& uid) const;
  std::vector<std::string> Pods() const;
  // The uid of the container's pod; "" if it is not known.
  std::string PodOf(const ContainerId& container) const;

  // Put what the caller has just made or changed in the runtime into the copy, or remove what it
  // has just removed. on_change is not called.
  void PutSandbox(const api::PodUid& pod, std::string_view ns, std::string_view name,
                  SandboxState sandbox);
  void PutContainer(const api::PodUid& pod, ContainerState container);
  void RemoveSandbox(const api::PodUid& pod, const SandboxId& id);  // with its containers
  void RemoveContainer(const api::PodUid& pod, const ContainerId& id);

  // Reads one pod from the runtime again. on_change is called, on this thread, if the pod differs
  // from the copy.
  base::Status Refresh(const std::string& uid);

  // Lists soon. Call it when the runtime's state may have changed.
  void ListSoon() { ScheduleList(); }

 private:
  void RunLists(std::stop_token stop);
  void RunEvents(std::stop_token stop);
  base::Status ListAll();
  base::Status AskVersion();
  // Takes over a listing that began at `sequence`; returns the uids of the pods that changed.
  std::vector<std::string> ApplyListing(const std::string& only_uid, PodListing listing,
                                        uint64_t sequence);
  void SetReachable(base::Status status);
  // Lists soon, and then at growing intervals.
  void ScheduleList();
  void ScheduleListLocked(std::chrono::milliseconds first) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until the next list is due; false: Stop was called.
  bool WaitForTurn(std::chrono::milliseconds& interval);

  rpc::CriClient& cri_;
  const std::string endpoint_;
  const CriListWaits waits_;
  OnChange on_change_;
  std::function<void()> on_reachable_;

  mutable base::Mutex mutex_;
  base::CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<std::chrono::milliseconds> hurry_ ABSL_GUARDED_BY(mutex_);
  bool streaming_ ABSL_GUARDED_BY(mutex_) = false;  // the event stream works
  base::Status reachable_ ABSL_GUARDED_BY(mutex_);
  bool told_reachable_ ABSL_GUARDED_BY(mutex_) = false;
  std::pair<std::string, std::string> version_ ABSL_GUARDED_BY(mutex_){"containerd", ""};
  uint64_t sequence_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, PodRuntime> pods_ ABSL_GUARDED_BY(mutex_);
  // The value of sequence_ when the caller last put or removed an id.
  std::map<std::string, uint64_t> told_ ABSL_GUARDED_BY(mutex_);
  ExitWatch exits_;
  const CriLister lister_;
  std::vector<std::jthread> threads_;
};

}  // namespace berth::node
