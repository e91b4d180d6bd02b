#include "csidriver/services.h"

#include "base/flight.h"
#include "base/log.h"
#include "proto/csi.grpc.pb.h"
#include "rpc/outcome.h"

namespace berth::csidriver {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

// Gives the answer of a call from its result, and logs a failure. The messages can be logged,
// because they never quote secrets or mount flags.
template <typename Response>
grpc::Status FinishCall(const char* method, base::StatusOr<Response> result, Response* response) {
  if (result.ok()) {
    *response = *std::move(result);
    return grpc::Status::OK;
  }
  LOG_WARNING("{}: {}", method, base::ToString(result.status()));
  return rpc::ToGrpc(result.status());
}

// The volume that a call is about; "": none. The flight record has a ring for each.
template <typename Request>
std::string VolumeOf(const Request& request) {
  if constexpr (requires { request.volume_id(); }) {
    return request.volume_id();
  } else if constexpr (requires { request.name(); }) {
    return request.name();
  } else {
    return "";
  }
}

// Runs `work` and records it. The time that a call waits for a worker is only in its caller's
// record.
template <typename Response, typename Work>
base::StatusOr<Response> RunRecorded(base::FlightRecorder* flight, const std::string& volume,
                                     const char* method, const Work& work) {
  const base::FlightScope scope(volume.empty() ? nullptr : flight,
                                fmt::format("volume {}", volume));
  base::FlightSpan span(base::FlightKind::kCall, method, "");
  base::StatusOr<Response> result = work();
  span.End(result.status());
  return result;
}

// Has a worker run `work` and finish the call. UNAVAILABLE if too many calls wait.
template <typename Response, typename Work>
ServerUnaryReactor* EnqueueCall(CallbackServerContext* context, base::WorkerPool& workers,
                                base::FlightRecorder* flight, std::string volume,
                                const char* method, Response* response, Work work) {
  ServerUnaryReactor* reactor = context->DefaultReactor();
  // Request and response live until Finish.
  const bool taken = workers.Post([=, volume = std::move(volume), work = std::move(work)] {
    reactor->Finish(FinishCall<Response>(
        method, RunRecorded<Response>(flight, volume, method, work), response));
  });
  if (!taken) {
    reactor->Finish(
        grpc::Status(grpc::StatusCode::UNAVAILABLE, "too many calls wait for a worker: try again"));
  }
  return reactor;
}

class IdentityService final : public csi::v1::Identity::CallbackService {
 public:
  IdentityService(std::string name, std::string version)
      : name_(std::move(name)), version_(std::move(version)) {}

  ServerUnaryReactor* GetPluginInfo(CallbackServerContext* context,
                                    const csi::v1::GetPluginInfoRequest* request,
                                    csi::v1::GetPluginInfoResponse* response) override {
    response->set_name(name_);
    response->set_vendor_version(version_);
    return FinishReactor(context);
  }

  ServerUnaryReactor* GetPluginCapabilities(
      CallbackServerContext* context, const csi::v1::GetPluginCapabilitiesRequest* request,
      csi::v1::GetPluginCapabilitiesResponse* response) override {
    using csi::v1::PluginCapability;
    for (const auto type : {PluginCapability::Service::CONTROLLER_SERVICE,
                            PluginCapability::Service::VOLUME_ACCESSIBILITY_CONSTRAINTS,
                            PluginCapability::Service::GROUP_CONTROLLER_SERVICE}) {
      response->add_capabilities()->mutable_service()->set_type(type);
    }
    response->add_capabilities()->mutable_volume_expansion()->set_type(
        PluginCapability::VolumeExpansion::ONLINE);
    return FinishReactor(context);
  }

  ServerUnaryReactor* Probe(CallbackServerContext* context, const csi::v1::ProbeRequest* request,
                            csi::v1::ProbeResponse* response) override {
    // Always ready, because the socket exists only once the pool is open.
    response->mutable_ready()->set_value(true);
    return FinishReactor(context);
  }

 private:
  static ServerUnaryReactor* FinishReactor(CallbackServerContext* context) {
    ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  const std::string name_;
  const std::string version_;
};

// Defines one override that passes a call to the workers.
#define BERTH_SERVE(target, method)                                                       \
  ServerUnaryReactor* method(CallbackServerContext* context,                              \
                             const csi::v1::method##Request* request,                     \
                             csi::v1::method##Response* response) override {              \
    return EnqueueCall(context, workers_, flight_, VolumeOf(*request), #method, response, \
                       [this, request] { return target.method(*request); });              \
  }

class ControllerService final : public csi::v1::Controller::CallbackService {
 public:
  ControllerService(Controller& controller, base::WorkerPool& workers, base::FlightRecorder* flight)
      : controller_(controller), workers_(workers), flight_(flight) {}

  BERTH_SERVE(controller_, CreateVolume)
  BERTH_SERVE(controller_, DeleteVolume)
  BERTH_SERVE(controller_, ValidateVolumeCapabilities)
  BERTH_SERVE(controller_, ListVolumes)
  BERTH_SERVE(controller_, GetCapacity)
  BERTH_SERVE(controller_, ControllerGetCapabilities)
  BERTH_SERVE(controller_, CreateSnapshot)
  BERTH_SERVE(controller_, DeleteSnapshot)
  BERTH_SERVE(controller_, ListSnapshots)
  BERTH_SERVE(controller_, ControllerExpandVolume)
  BERTH_SERVE(controller_, ControllerGetVolume)

 private:
  Controller& controller_;
  base::WorkerPool& workers_;
  base::FlightRecorder* const flight_;
};

class GroupControllerService final : public csi::v1::GroupController::CallbackService {
 public:
  GroupControllerService(GroupController& controller, base::WorkerPool& workers,
                         base::FlightRecorder* flight)
      : controller_(controller), workers_(workers), flight_(flight) {}

  BERTH_SERVE(controller_, GroupControllerGetCapabilities)
  BERTH_SERVE(controller_, CreateVolumeGroupSnapshot)
  BERTH_SERVE(controller_, DeleteVolumeGroupSnapshot)
  BERTH_SERVE(controller_, GetVolumeGroupSnapshot)

 private:
  GroupController& controller_;
  base::WorkerPool& workers_;
  base::FlightRecorder* const flight_;
};

class NodeService final : public csi::v1::Node::CallbackService {
 public:
  NodeService(Node& node, base::WorkerPool& workers, base::FlightRecorder* flight)
      : node_(node), workers_(workers), flight_(flight) {}

  BERTH_SERVE(node_, NodeStageVolume)
  BERTH_SERVE(node_, NodeUnstageVolume)
  BERTH_SERVE(node_, NodePublishVolume)
  BERTH_SERVE(node_, NodeUnpublishVolume)
  BERTH_SERVE(node_, NodeGetVolumeStats)
  BERTH_SERVE(node_, NodeExpandVolume)
  BERTH_SERVE(node_, NodeGetCapabilities)
  BERTH_SERVE(node_, NodeGetInfo)

 private:
  Node& node_;
  base::WorkerPool& workers_;
  base::FlightRecorder* const flight_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewIdentityService(std::string name, std::string version) {
  return std::make_unique<IdentityService>(std::move(name), std::move(version));
}

std::unique_ptr<grpc::Service> NewControllerService(Controller& controller,
                                                    base::WorkerPool& workers,
                                                    base::FlightRecorder* flight) {
  return std::make_unique<ControllerService>(controller, workers, flight);
}

std::unique_ptr<grpc::Service> NewGroupControllerService(GroupController& controller,
                                                         base::WorkerPool& workers,
                                                         base::FlightRecorder* flight) {
  return std::make_unique<GroupControllerService>(controller, workers, flight);
}

std::unique_ptr<grpc::Service> NewNodeService(Node& node, base::WorkerPool& workers,
                                              base::FlightRecorder* flight) {
  return std::make_unique<NodeService>(node, workers, flight);
}

}  // namespace berth::csidriver
