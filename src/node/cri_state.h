// What the container runtime has of this node's pods: a copy that is kept fresh.
//
//   connect (retry 0.1 s to 3 s) ─▶ list all ─▶ reachable ─▶ events, or list again ─▶ lost ─▶
//   connect …
//
// Changes come from the runtime's event stream (GetContainerEvents) and from the exit of
// containers' first processes (cri_exit_watch.h). Listing repairs: each minute beside an event
// stream; without one (containerd before 1.7) each second, and quickly after own actions. What the
// caller did itself it tells by Put and Remove, so that its next look needs no round trip; a list
// that began before such a call does not undo it.
//
// Thread-safe. `on_change` is called from the threads in here, without locks held.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "node/cri_exit_watch.h"
#include "rpc/cri_client.h"

namespace berth::node {

struct SandboxState {
  std::string id;
  uint32_t attempt = 0;
  bool ready = false;
  int64_t created_at = 0;  // ns since the epoch, as all times here
  std::vector<std::string> ips;
  std::string agent;  // who made it: labels::kAgent
  bool operator==(const SandboxState&) const = default;
};

struct ContainerState {
  enum class Phase { kCreated, kRunning, kExited, kUnknown };
  std::string id;
  std::string sandbox_id;
  std::string name;
  uint32_t restart_count = 0;
  Phase phase = Phase::kCreated;
  int64_t created_at = 0;
  int64_t started_at = 0;
  int64_t finished_at = 0;
  int exit_code = 0;
  std::string reason;
  std::string message;   // the runtime's
  std::string image;     // as the pod names it
  std::string image_id;  // the runtime's reference
  std::string hash;      // of the container's spec, labels::kContainerHash
  std::string log_path;  // absolute
  // Of the container's spec, for the message that it leaves.
  std::string termination_path;
  std::string termination_policy;
  std::string termination_file;  // on the host
  bool detailed = false;         // false: told by Put; the runtime's own words are to be fetched
  bool running() const { return phase == Phase::kRunning; }
  bool exited() const { return phase == Phase::kExited || phase == Phase::kUnknown; }
  bool operator==(const ContainerState&) const = default;
};

// One pod's. Newest first, both.
struct PodRuntime {
  std::string uid;
  std::string ns;
  std::string name;
  std::vector<SandboxState> sandboxes;
  std::vector<ContainerState> containers;

  bool empty() const { return sandboxes.empty() && containers.empty(); }
  // The newest container of a name, or nullptr; and the one before it.
  const ContainerState* Newest(std::string_view container) const;
  const ContainerState* Previous(std::string_view container) const;
  const ContainerState* ById(std::string_view id) const;
};

class CriState {
 public:
  using OnChange = std::function<void(const std::string& pod_uid)>;

  // `cri` is borrowed.
  // `first_list` and `max_list` bound the wait between lists where the runtime has no event stream.
  struct Options {
    std::string endpoint;
    std::chrono::milliseconds first_list{2};
    std::chrono::milliseconds list_after_start{30};
    std::chrono::milliseconds max_list{1000};
    std::chrono::milliseconds repair_list{60000};  // with an event stream
  };
  CriState(rpc::CriClient& cri, Options options);
  ~CriState();

  void Start(OnChange on_change);
  void Stop();

  // OK while the runtime answers and its pods were listed. UNAVAILABLE says which runtime is not
  // reachable and why. Pods are told of a change either way by on_change.
  base::Status Reachable() const;
  // False until the first attempt to reach it has ended.
  bool Known() const;
  // Name and version of the runtime that answered last: {"containerd", "1.6.20"}.
  std::pair<std::string, std::string> Version() const;
  // Called when Reachable is first known, and on its changes. Before Start only.
  void OnReachable(std::function<void()> on_reachable) { on_reachable_ = std::move(on_reachable); }

  PodRuntime Pod(const std::string& uid) const;
  std::vector<std::string> Pods() const;
  // The pod of a container, "" if unknown.
  std::string PodOf(const std::string& container_id) const;

  // What the caller just did.
  void PutSandbox(const std::string& uid, std::string_view ns, std::string_view name,
                  SandboxState sandbox);
  void PutContainer(const std::string& uid, ContainerState container);
  void RemoveSandbox(const std::string& uid, const std::string& id);  // with its containers
  void RemoveContainer(const std::string& uid, const std::string& id);

  // Reads one pod anew from the runtime; on_change is called if it differs from the copy.
  base::Status Refresh(const std::string& uid);

  // Lists soon: something is about to change in the runtime.
  void Expect() { Hurry(); }

 private:
  struct Listing;  // what one list call gave, by pod

  void Loop(std::stop_token stop);
  void EventLoop(std::stop_token stop);
  base::Status ListAll();
  base::Status AskVersion();
  base::StatusOr<Listing> List(const std::string& uid);  // "": all pods
  base::Status FillDetails(Listing& listing);
  base::Status FillContainer(ContainerState& container);
  // Takes a listing that began at `sequence` over; gives the uids of pods that changed.
  std::vector<std::string> Apply(const std::string& only_uid, Listing listing, uint64_t sequence);
  void SetReachable(base::Status status);
  // Lists soon, and then less and less often.
  void Hurry();
  void HurryLocked(std::chrono::milliseconds first) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits for the time of the next list; false: stopping.
  bool WaitForTurn(std::chrono::milliseconds& interval);

  rpc::CriClient& cri_;
  const Options options_;
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
  // When (by sequence_) an id was last put or removed by the caller.
  std::map<std::string, uint64_t> told_ ABSL_GUARDED_BY(mutex_);
  ExitWatch exits_;
  std::vector<std::jthread> threads_;
};

}  // namespace berth::node
