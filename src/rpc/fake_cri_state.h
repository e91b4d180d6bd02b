// The state of the container runtime double: sandboxes, containers, images, and CRI's rules for
// them. Thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "proto/cri.pb.h"
#include "rpc/cri_client.h"

namespace berth::rpc {

// The runtime whose answers the double gives. Those of CRI-O are read from its sources
// (server/*.go of 1.37); its default configuration has no pod events.
enum class FakeRuntime {
  kContainerd,
  kOldContainerd,  // before 1.7: without an event stream
  kCrio,
};
// For the names of tests.
std::string NameOf(FakeRuntime runtime);

class FakeCriState {
 public:
  explicit FakeCriState(FakeRuntime runtime) : crio_(runtime == FakeRuntime::kCrio) {}

  struct Sandbox {
    cri::PodSandboxStatus status;
    cri::PodSandboxConfig config;
  };
  struct Container {
    cri::ContainerStatus status;
    cri::ContainerConfig config;
    std::string sandbox_id;
  };

  // --- For tests
  void AddImage(const std::string& reference);
  std::vector<Sandbox> Sandboxes() const;
  std::vector<Container> Containers() const;
  // The newest container of this name in a sandbox of the pod.
  std::optional<Container> FindContainer(const std::string& pod_uid, const std::string& name) const;
  // The container's process ends by itself. NOT_FOUND; FAILED_PRECONDITION unless it runs.
  base::Status Exit(const std::string& container_id, int exit_code);
  // Leaves what the runtime leaves if the caller of StartContainer goes away during the call:
  // containerd ends the container, which has not run, with a message of its own; CRI-O removes it.
  // NOT_FOUND.
  base::Status CutOffStart(const std::string& container_id);
  // The sandbox dies, and its containers end with exit code 137.
  base::Status KillSandbox(const std::string& sandbox_id);
  // Every started container of this name ends at once with `exit_code`.
  void ExitWhenStarted(const std::string& name, int exit_code);
  void SetReady(bool runtime, bool network);
  // Sets the function that makes the answers of ExecSync. Without it, the output is empty and the
  // exit code is 0.
  void SetExecSync(std::function<cri::ExecSyncResponse(const cri::ExecSyncRequest&)> exec);
  // Sets the URL that Exec, Attach and PortForward answer.
  void SetStreamUrl(const std::string& url);

  // --- For the double
  // The events from number `from` on. If there is none, waits for one until the time-out, and then
  // gives an empty list.
  std::vector<cri::ContainerEventResponse> WaitForEvents(size_t from,
                                                         std::chrono::milliseconds timeout) const;
  size_t event_count() const;

#define BERTH_HANDLE(service, rpc) \
  base::Status Handle(const cri::rpc##Request& request, cri::rpc##Response& response);
  BERTH_CRI_RPCS(BERTH_HANDLE)
#undef BERTH_HANDLE

 private:
  base::StatusOr<Sandbox*> FindSandbox(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  base::StatusOr<Container*> FindById(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const cri::Image* FindImage(const std::string& reference) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddImageLocked(const std::string& reference) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndContainer(Container& container, int exit_code) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndAllIn(const std::string& sandbox_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EmitEvent(const Container& container, cri::ContainerEventType type)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string NewId(std::string_view kind) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The code of a failure that CRI-O's sources give none.
  base::StatusCode CodeOf(base::StatusCode of_containerd) const;
  // OK if the host has what is to be mounted, or CRI-O has made a folder in its place.
  base::Status CheckSource(const cri::Mount& mount) const;

  const bool crio_;
  mutable base::Mutex mutex_;
  mutable base::CondVar events_changed_;
  std::map<std::string, Sandbox> sandboxes_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Container> containers_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, cri::Image> images_ ABSL_GUARDED_BY(mutex_);  // by id
  std::map<std::string, int> exits_when_started_ ABSL_GUARDED_BY(mutex_);
  std::vector<cri::ContainerEventResponse> events_ ABSL_GUARDED_BY(mutex_);
  std::function<cri::ExecSyncResponse(const cri::ExecSyncRequest&)> exec_ ABSL_GUARDED_BY(mutex_);
  std::string stream_url_ ABSL_GUARDED_BY(mutex_) = "http://127.0.0.1:1/exec/token";
  bool runtime_ready_ ABSL_GUARDED_BY(mutex_) = true;
  bool network_ready_ ABSL_GUARDED_BY(mutex_) = true;
  int next_id_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace berth::rpc
