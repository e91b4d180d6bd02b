// Runs the handler of a probe or a lifecycle hook: exec, httpGet, tcpSocket or grpc.
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
  api::Container container;  // for its ports' names
  std::string pod_ip;
};

// Runs the one handler in `handler`. OK: it succeeded (exit code 0; HTTP status 200 to 399;
// connected; SERVING). FAILED_PRECONDITION: it answered with a failure, which the message quotes.
// DEADLINE_EXCEEDED, UNAVAILABLE: no answer. CANCELLED: `stop` was requested. INVALID_ARGUMENT:
// there is no known handler, or its port is not known.
base::Status RunHandler(rpc::CriClient& cri, const HandlerTarget& target, const base::Json& handler,
                        std::chrono::milliseconds timeout, std::stop_token stop);

}  // namespace berth::node
