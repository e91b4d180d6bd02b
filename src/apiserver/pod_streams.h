// pods/NAME/log and pods/NAME/exec: handed on to the agent of the pod's node.
//
//   client ─▶ server: pod, container and node are looked up ─▶ "<node_sockets>/<node>.sock":
//     GET  /containerLogs/NS/POD/UID/CONTAINER?QUERY
//     POST /exec/NS/POD/UID/CONTAINER?QUERY
//   then bytes both ways, unread, until one side ends.
#pragma once

#include "apiserver/api_context.h"

namespace berth::apiserver {

class PodStreams {
 public:
  explicit PodStreams(ApiContext& context) : context_(context) {}

  void Start(const ResourceRequest& request);  // on a worker

 private:
  ApiContext& context_;
};

}  // namespace berth::apiserver
