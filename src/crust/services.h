// The services of the handler's two sockets: CRUST over gRPC for the node agent, and base/ipc for
// berth-oci. Only root can use the sockets: the servers refuse other callers before any work is
// done.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/service_type.h>

#include <map>
#include <memory>
#include <string>

#include "base/ipc/server.h"
#include "base/workers/worker_pool.h"
#include "crust/handler.h"

namespace berth::crust {

// All arguments are borrowed and must outlive the result. `publishes` runs the calls that publish a
// volume, which last as long as it takes to change the group of all its files; `workers` runs the
// others.
std::unique_ptr<grpc::Service> NewCrustService(Handler& handler, base::WorkerPool& workers,
                                               base::WorkerPool& publishes);
// The methods of base/ipc/crust_call.h. `handler` is borrowed and must outlive the result.
std::map<std::string, base::ipc::Method> MakeOciMethods(Handler& handler);

}  // namespace berth::crust
