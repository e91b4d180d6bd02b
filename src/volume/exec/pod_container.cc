#include "volume/exec/pod_container.h"

#include <chrono>

namespace berth::volume {
namespace {

constexpr std::chrono::seconds kTimeout(10);

// The kubelet's labels, and the node agent's.
constexpr char kPodName[] = "io.kubernetes.pod.name";
constexpr char kPodNamespace[] = "io.kubernetes.pod.namespace";
constexpr char kPodUid[] = "io.kubernetes.pod.uid";
constexpr char kContainerName[] = "io.kubernetes.container.name";

rpc::cri::ListContainersRequest MakeRunningRequest() {
  rpc::cri::ListContainersRequest request;
  request.mutable_filter()->mutable_state()->set_state(rpc::cri::CONTAINER_RUNNING);
  return request;
}

bool HasLabel(const rpc::cri::Container& container, const char* label, const std::string& value) {
  const auto found = container.labels().find(label);
  return found != container.labels().end() && found->second == value;
}

}  // namespace

std::string PodContainer::Describe() const {
  return fmt::format("container '{}' of pod {}/{}", registration.container,
                     registration.pod_namespace, registration.pod_name);
}

base::StatusOr<std::optional<PodContainer>> FindContainer(rpc::CriClient& runtime,
                                                          const Registration& registration) {
  rpc::cri::ListContainersRequest request = MakeRunningRequest();
  auto& labels = *request.mutable_filter()->mutable_label_selector();
  labels[kPodUid] = registration.pod_uid;
  labels[kContainerName] = registration.container;
  ASSIGN_OR_RETURN(const auto answer, runtime.ListContainers(request, kTimeout));
  const rpc::cri::Container* newest = nullptr;
  for (const rpc::cri::Container& container : answer.containers()) {
    const bool same = container.state() == rpc::cri::CONTAINER_RUNNING &&
                      HasLabel(container, kPodUid, registration.pod_uid) &&
                      HasLabel(container, kContainerName, registration.container) &&
                      HasLabel(container, kPodName, registration.pod_name) &&
                      HasLabel(container, kPodNamespace, registration.pod_namespace);
    if (same && (newest == nullptr || newest->created_at() < container.created_at())) {
      newest = &container;
    }
  }
  if (newest == nullptr) return std::nullopt;
  return PodContainer{.registration = registration, .id = newest->id()};
}

base::StatusOr<bool> IsRunning(rpc::CriClient& runtime, const std::string& id) {
  rpc::cri::ListContainersRequest request = MakeRunningRequest();
  request.mutable_filter()->set_id(id);
  ASSIGN_OR_RETURN(const auto answer, runtime.ListContainers(request, kTimeout));
  for (const rpc::cri::Container& container : answer.containers()) {
    if (container.id() == id && container.state() == rpc::cri::CONTAINER_RUNNING) return true;
  }
  return false;
}

}  // namespace berth::volume
