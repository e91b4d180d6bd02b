// Forwards pods/NAME/log, exec, attach and portforward to the agent of the pod's node.
//
//   client ─▶ server: pod, container and node are looked up ─▶ "<node_sockets>/<node>.sock":
//     GET  /containerLogs/NS/POD/UID/CONTAINER?QUERY
//     any  /exec/NS/POD/UID/CONTAINER?QUERY
//     any  /attach/NS/POD/UID/CONTAINER?QUERY
//     any  /portForward/NS/POD/UID?QUERY
//   Then the bytes of both sides are passed on unchanged until one side ends.
#pragma once

#include "apiserver/api_context.h"

namespace berth::apiserver {

class PodStreams {
 public:
  explicit PodStreams(ApiContext& context) : context_(context) {}

  // Whether `subresource` is log, exec, attach or portforward.
  static bool Serves(std::string_view subresource);
  // Finds the pod's node and connects the client with its agent. Call it on a worker. It answers
  // 404 if the pod is missing, 400 if the pod has no node or the container is not clear, and 503 if
  // the agent cannot be reached.
  void StartStream(const ResourceRequest& request);

 private:
  ApiContext& context_;
};

}  // namespace berth::apiserver
