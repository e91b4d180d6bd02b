// The handler's two sockets: CRUST over gRPC for the node agent, base/ipc for berth-oci. Both are
// root's alone, and say no before anything is done.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/service_type.h>

#include <map>
#include <memory>
#include <string>

#include "base/ipc/server.h"
#include "base/worker_pool.h"
#include "crust/handler.h"

namespace berth::crust {

// All are borrowed and must outlive what is made. Calls are handed to `workers`.
std::unique_ptr<grpc::Service> NewCrustService(Handler& handler, base::WorkerPool& workers);
std::map<std::string, base::ipc::Method> OciMethods(Handler& handler);

}  // namespace berth::crust
