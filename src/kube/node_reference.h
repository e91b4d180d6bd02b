// Makes a reference to a node, for events that concern no pod.
#pragma once

#include <string>

#include "base/event_sink.h"

namespace berth::kube {

// The name is also used as the uid, as in the kubelet's events.
inline base::ObjectReference NodeReference(const std::string& node_name) {
  return {.api_version = "v1", .kind = "Node", .ns = "", .name = node_name, .uid = node_name};
}

}  // namespace berth::kube
