#include "node/containers/pod_runtime.h"

#include <fmt/format.h>

namespace berth::node {

const ContainerState* PodRuntime::Newest(std::string_view container) const {
  for (const ContainerState& state : containers) {
    if (state.name == container) return &state;
  }
  return nullptr;
}

const ContainerState* PodRuntime::Previous(std::string_view container) const {
  const ContainerState* newest = Newest(container);
  for (const ContainerState& state : containers) {
    if (state.name == container && &state != newest) return &state;
  }
  return nullptr;
}

const ContainerState* PodRuntime::ById(const ContainerId& id) const {
  for (const ContainerState& state : containers) {
    if (state.id == id) return &state;
  }
  return nullptr;
}

std::string PodRuntime::Unread() const {
  for (const ContainerState& state : containers) {
    // Containers that ran before the newest one of the name decide nothing.
    if (state.unread && state.exited() && Newest(state.name) == &state) {
      return fmt::format("how container {} ended", state.name);
    }
  }
  for (const SandboxState& sandbox : sandboxes) {
    if (sandbox.unread) return "the addresses of the pod's sandbox";
  }
  return "";
}

}  // namespace berth::node
