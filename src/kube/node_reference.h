// The node as what an event is about: what concerns no pod is told of the node.
#pragma once

#include <string>

#include "base/event_sink.h"

namespace berth::kube {

// As the kubelet's events have it, the name stands for the uid.
inline base::ObjectReference NodeReference(const std::string& node_name) {
  return {.api_version = "v1", .kind = "Node", .ns = "", .name = node_name, .uid = node_name};
}

}  // namespace berth::kube
