// Runs what a probe or a lifecycle hook names: exec, httpGet, tcpSocket, grpc.
#pragma once

#include <chrono>
#include <stop_token>
#include <string>

#include "api/kinds/kinds.h"
#include "base/status.h"
#include "node/containers/pod_runtime.h"
#include "rpc/cri_client.h"

namespace berth::node {

struct HandlerTarget {
  ContainerId container_id;
  api::Container container;  // its ports by name
  std::string pod_ip;
};

// Runs the one handler in `handler`. OK: it succeeded (exit code 0; status 200 to 399; connected;
// SERVING). FAILED_PRECONDITION: it answered otherwise, with what it said. DEADLINE_EXCEEDED,
// UNAVAILABLE: no answer; INVALID_ARGUMENT: it names no handler that is known.
base::Status RunHandler(rpc::CriClient& cri, const HandlerTarget& target, const base::Json& handler,
                        std::chrono::milliseconds timeout, std::stop_token stop);

}  // namespace berth::node
