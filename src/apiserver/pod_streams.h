// pods/NAME/log, exec, attach and portforward: handed on to the agent of the pod's node.
//
//   client ─▶ server: pod, container and node are looked up ─▶ "<node_sockets>/<node>.sock":
//     GET  /containerLogs/NS/POD/UID/CONTAINER?QUERY
//     any  /exec/NS/POD/UID/CONTAINER?QUERY
//     any  /attach/NS/POD/UID/CONTAINER?QUERY
//     any  /portForward/NS/POD/UID?QUERY
//   then bytes both ways, unread, until one side ends.
#pragma once

#include "apiserver/api_context.h"

namespace berth::apiserver {

class PodStreams {
 public:
  explicit PodStreams(ApiContext& context) : context_(context) {}

  // Whether `subresource` is one of those above.
  static bool Serves(std::string_view subresource);
  void Start(const ResourceRequest& request);  // on a worker

 private:
  ApiContext& context_;
};

}  // namespace berth::apiserver
