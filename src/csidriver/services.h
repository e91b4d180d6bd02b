// Serves the four CSI services with gRPC's callback API. Every call goes to the worker pool, which
// finishes it, so no gRPC thread ever waits on storage. Identity calls are answered on the gRPC
// thread, so that a probe passes even if all workers are busy.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/service_type.h>

#include <memory>
#include <string>
#include <vector>

#include "base/workers/worker_pool.h"
#include "csidriver/controller.h"
#include "csidriver/group_controller.h"
#include "csidriver/node.h"

namespace berth::base {
class FlightRecorder;
}

namespace berth::csidriver {

// Each service borrows its arguments, which must outlive it. Calls are recorded in `flight`, unless
// it is null, under "volume ID" (CreateVolume: "volume NAME").
std::unique_ptr<grpc::Service> NewIdentityService(std::string name, std::string version);
std::unique_ptr<grpc::Service> NewControllerService(Controller& controller,
                                                    base::WorkerPool& workers,
                                                    base::FlightRecorder* flight);
std::unique_ptr<grpc::Service> NewGroupControllerService(GroupController& controller,
                                                         base::WorkerPool& workers,
                                                         base::FlightRecorder* flight);
std::unique_ptr<grpc::Service> NewNodeService(Node& node, base::WorkerPool& workers,
                                              base::FlightRecorder* flight);

}  // namespace berth::csidriver
