// A client of a container runtime (CRI v1: services RuntimeService and ImageService).
//
// Every call has a deadline and blocks the caller. UNAVAILABLE: no process listens, or the answer
// cannot be read. Each call passes the fault points "rpc.cri.METHOD.before" and ".after".
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "base/status.h"
#include "proto/cri.pb.h"
#include "rpc/outcome.h"

namespace berth::rpc {

namespace cri = ::runtime::v1;

class CriClient {
 public:
  // `endpoint` is as for SocketPath (unix_socket.h). The runtime need not be up. Answers longer
  // than `max_answer_bytes` cannot be read; an answer of ExecSync holds two streams of up to 16 MB.
  static base::StatusOr<std::unique_ptr<CriClient>> New(const std::string& endpoint,
                                                        int max_answer_bytes = 16 * 1024 * 1024);
  virtual ~CriClient();

#define BERTH_CRI_RPCS(X)        \
  X(Runtime, Version)            \
  X(Runtime, Status)             \
  X(Runtime, RunPodSandbox)      \
  X(Runtime, StopPodSandbox)     \
  X(Runtime, RemovePodSandbox)   \
  X(Runtime, PodSandboxStatus)   \
  X(Runtime, ListPodSandbox)     \
  X(Runtime, CreateContainer)    \
  X(Runtime, StartContainer)     \
  X(Runtime, StopContainer)      \
  X(Runtime, RemoveContainer)    \
  X(Runtime, ListContainers)     \
  X(Runtime, ContainerStatus)    \
  X(Runtime, ReopenContainerLog) \
  X(Runtime, ExecSync)           \
  X(Runtime, Exec)               \
  X(Runtime, Attach)             \
  X(Runtime, PortForward)        \
  X(Image, ImageStatus)          \
  X(Image, PullImage)            \
  X(Image, ListImages)           \
  X(Image, RemoveImage)
#define BERTH_DECLARE(service, method)                                              \
  base::StatusOr<cri::method##Response> method(const cri::method##Request& request, \
                                               Timeout timeout);
  BERTH_CRI_RPCS(BERTH_DECLARE)
#undef BERTH_DECLARE
  // As ExecSync, but `stop` ends the call with CANCELLED. The program may run on.
  base::StatusOr<cri::ExecSyncResponse> ExecSync(const cri::ExecSyncRequest& request,
                                                 Timeout timeout, const std::stop_token& stop);

  // Streams container events (GetContainerEvents) on the calling thread, which calls `on_event`.
  // OK: `stop` was requested. UNAVAILABLE: the stream broke. UNIMPLEMENTED: the runtime has no such
  // stream (containerd before 1.7); then only listing shows that a container has exited.
  base::Status GetContainerEvents(
      std::stop_token stop,
      const std::function<void(const cri::ContainerEventResponse&)>& on_event);

  // Ends the unary calls that run, and every later one, with CANCELLED. A process that shuts down
  // calls this, because stopping a container takes as long as the container's grace period.
  void CancelAll();

 private:
  struct Stubs;
  explicit CriClient(std::unique_ptr<Stubs> stubs);
  const std::unique_ptr<Stubs> stubs_;
};

}  // namespace berth::rpc
