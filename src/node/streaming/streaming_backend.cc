#include "node/streaming/streaming_backend.h"

namespace berth::node {

namespace {

using base::Status;
using base::StatusCode;
using base::StatusOr;

constexpr std::chrono::milliseconds kStreamTimeout{120'000};

// The error that a container has no log or process yet, in the kubelet's words.
Status NotStartedError(const api::Pod& pod, const std::string& container) {
  for (const char* list :
       {"containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"}) {
    for (const base::Json& status : base::json::Array(pod.json(), {"status", list})) {
      if (base::json::String(status, {"name"}) != container) continue;
      const std::string reason = base::json::String(status, {"state", "waiting", "reason"});
      const std::string message = base::json::String(status, {"state", "waiting", "message"});
      if (reason.empty()) break;
      return base::Error(StatusCode::kInvalidArgument,
                         "container \"{}\" in pod \"{}\" is waiting to start: {}{}{}", container,
                         pod.name(), reason, message.empty() ? "" : ": ", message);
    }
  }
  return base::Error(StatusCode::kInvalidArgument,
                     "container \"{}\" in pod \"{}\" is not available", container, pod.name());
}

bool RestartsAfter(const api::Pod& pod, const ContainerState& container) {
  const std::string policy = pod.restart_policy();
  return policy == "Always" || (policy == "OnFailure" && container.exit_code != 0);
}

}  // namespace

StatusOr<std::shared_ptr<const api::Pod>> PodStreamBackend::FindPod(
    const StreamTarget& target) const {
  ASSIGN_OR_RETURN(auto pod, pods_.FindPod(target.uid));
  if (pod->ns() != target.ns || pod->name() != target.pod) {
    return base::Error(StatusCode::kNotFound, "pod \"{}\" has another uid", target.pod);
  }
  return pod;
}

StatusOr<std::shared_ptr<const api::Pod>> PodStreamBackend::FindPodWithContainer(
    const StreamTarget& target) const {
  ASSIGN_OR_RETURN(auto pod, FindPod(target));
  if (!FindContainer(*pod, target.container).has_value()) {
    return base::Error(StatusCode::kNotFound, "pod \"{}\" has no container \"{}\"", target.pod,
                       target.container);
  }
  return pod;
}

StatusOr<StreamBackend::Log> PodStreamBackend::FindLog(const StreamTarget& target, bool previous) {
  ASSIGN_OR_RETURN(const auto pod, FindPodWithContainer(target));
  const PodRuntime runtime = pods_.Runtime(target.uid);
  const ContainerState* container = runtime.Newest(target.container);
  if (previous && container != nullptr) {
    // While a container waits for its restart, the instance that ended is the previous one.
    const bool waits = container->exited() && RestartsAfter(*pod, *container);
    if (!waits) container = runtime.Previous(target.container);
    if (container == nullptr) {
      return base::Error(StatusCode::kInvalidArgument,
                         "previous terminated container \"{}\" in pod \"{}\" not found",
                         target.container, target.pod);
    }
  }
  if (container == nullptr || container->phase == ContainerState::Phase::kCreated ||
      container->log_path.empty()) {
    RETURN_IF_ERROR(pods_.RuntimeReachable());
    return NotStartedError(*pod, target.container);
  }
  return Log{.path = container->log_path, .container_id = container->id.text()};
}

bool PodStreamBackend::IsRunning(const StreamTarget& target, const std::string& container_id) {
  const PodRuntime runtime = pods_.Runtime(target.uid);
  const ContainerState* container = runtime.ById(ContainerId(container_id));
  return container != nullptr && container->running();
}

StatusOr<std::string> PodStreamBackend::RunningId(const StreamTarget& target) const {
  ASSIGN_OR_RETURN(const auto pod, FindPodWithContainer(target));
  RETURN_IF_ERROR(pods_.RuntimeReachable());
  const PodRuntime runtime = pods_.Runtime(target.uid);
  const ContainerState* container = runtime.Newest(target.container);
  if (container == nullptr || !container->running()) return NotStartedError(*pod, target.container);
  return container->id.text();
}

StatusOr<std::string> PodStreamBackend::Exec(const StreamTarget& target,
                                             const ExecOptions& options) {
  rpc::cri::ExecRequest request;
  ASSIGN_OR_RETURN(*request.mutable_container_id(), RunningId(target));
  for (const std::string& word : options.command) request.add_cmd(word);
  request.set_tty(options.tty);
  request.set_stdin(options.in);
  request.set_stdout(options.out);
  request.set_stderr(options.err);
  ASSIGN_OR_RETURN(const auto response, cri_.Exec(request, kStreamTimeout));
  return response.url();
}

StatusOr<std::string> PodStreamBackend::Attach(const StreamTarget& target,
                                               const ExecOptions& options) {
  rpc::cri::AttachRequest request;
  ASSIGN_OR_RETURN(*request.mutable_container_id(), RunningId(target));
  request.set_tty(options.tty);
  request.set_stdin(options.in);
  request.set_stdout(options.out);
  request.set_stderr(options.err);
  ASSIGN_OR_RETURN(const auto response, cri_.Attach(request, kStreamTimeout));
  return response.url();
}

StatusOr<std::string> PodStreamBackend::PortForward(const StreamTarget& target,
                                                    const std::vector<int32_t>& ports) {
  RETURN_IF_ERROR(FindPod(target));
  RETURN_IF_ERROR(pods_.RuntimeReachable());
  const PodRuntime runtime = pods_.Runtime(target.uid);
  const auto sandbox = std::find_if(runtime.sandboxes.begin(), runtime.sandboxes.end(),
                                    [](const SandboxState& one) { return one.ready; });
  if (sandbox == runtime.sandboxes.end()) {
    return base::Error(StatusCode::kInvalidArgument, "pod \"{}\" does not run on this node",
                       target.pod);
  }
  rpc::cri::PortForwardRequest request;
  request.set_pod_sandbox_id(sandbox->id.text());
  for (const int32_t port : ports) request.add_port(port);
  ASSIGN_OR_RETURN(const auto response, cri_.PortForward(request, kStreamTimeout));
  return response.url();
}

}  // namespace berth::node
