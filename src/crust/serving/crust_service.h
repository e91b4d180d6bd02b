// The CRUST service over gRPC, for any handler. It runs the calls on workers. Only root can use the
// socket: the server (rpc/unix_server.h) refuses other callers before any work is done.
#pragma once

#include <grpcpp/impl/service_type.h>

#include <memory>

#include "base/workers/worker_pool.h"
#include "crust/serving/runtime_calls.h"

namespace berth::crust {

// All arguments are borrowed and must outlive the result. `publishes` runs the calls that publish a
// volume, which last as long as it takes to change the group of all its files; `workers` runs the
// others.
std::unique_ptr<grpc::Service> NewCrustService(RuntimeCalls& calls, base::WorkerPool& workers,
                                               base::WorkerPool& publishes);

}  // namespace berth::crust
