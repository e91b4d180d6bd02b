#include "crust/serving/crust_service.h"

#include <grpcpp/grpcpp.h>

#include "base/log.h"
#include "proto/crust.grpc.pb.h"
#include "rpc/outcome.h"

namespace berth::crust {
namespace {

using base::StatusOr;
using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

// The messages can be logged, because they never quote mount options.
template <typename Response>
grpc::Status FinishCall(const char* method, StatusOr<Response> result, Response* response) {
  if (result.ok()) {
    *response = *std::move(result);
    return grpc::Status::OK;
  }
  LOG_WARNING("{}: {}", method, base::ToString(result.status()));
  return rpc::ToGrpc(result.status());
}

// Defines one override that passes a call to the workers. Request and response live until Finish.
// If the caller has cancelled the call while it waited for a worker, the call is not run.
#define BERTH_SERVE(pool, method)                                                                  \
  ServerUnaryReactor* method(CallbackServerContext* context, const wire::method##Request* request, \
                             wire::method##Response* response) override {                          \
    ServerUnaryReactor* reactor = context->DefaultReactor();                                       \
    const bool queued = pool.Post([=, this] {                                                      \
      if (context->IsCancelled()) return reactor->Finish(grpc::Status::CANCELLED);                 \
      reactor->Finish(                                                                             \
          FinishCall<wire::method##Response>(#method, calls_.method(*request), response));         \
    });                                                                                            \
    if (!queued) {                                                                                 \
      reactor->Finish(                                                                             \
          grpc::Status(grpc::StatusCode::UNAVAILABLE, "too many calls wait: try again"));          \
    }                                                                                              \
    return reactor;                                                                                \
  }

class CrustService final : public wire::RuntimeAssistedStorageManagement::CallbackService {
 public:
  CrustService(RuntimeCalls& calls, base::WorkerPool& workers, base::WorkerPool& publishes)
      : calls_(calls), workers_(workers), publishes_(publishes) {}

  BERTH_SERVE(workers_, RuntimeGetCapabilities)
  BERTH_SERVE(workers_, RuntimeGetSupportedFileSystems)
  BERTH_SERVE(publishes_, RuntimePublishVolume)
  BERTH_SERVE(workers_, RuntimeUnpublishVolume)
  BERTH_SERVE(workers_, RuntimeGetVolumeStats)
  BERTH_SERVE(workers_, RuntimeExpandVolume)

 private:
  RuntimeCalls& calls_;
  base::WorkerPool& workers_;
  base::WorkerPool& publishes_;
};
#undef BERTH_SERVE

}  // namespace

std::unique_ptr<grpc::Service> NewCrustService(RuntimeCalls& calls, base::WorkerPool& workers,
                                               base::WorkerPool& publishes) {
  return std::make_unique<CrustService>(calls, workers, publishes);
}

}  // namespace berth::crust
