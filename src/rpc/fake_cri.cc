#include "rpc/fake_cri.h"

#include <stdlib.h>

#include <filesystem>

#include "proto/cri.grpc.pb.h"

namespace berth::rpc {

class FakeCri::Services : public cri::RuntimeService::Service, public cri::ImageService::Service {
 public:
  explicit Services(FakeCri& runtime) : runtime_(runtime) {}

#define BERTH_FORWARD(service, rpc)                                                           \
  grpc::Status rpc(grpc::ServerContext* context, const cri::rpc##Request* request,            \
                   cri::rpc##Response* response) override {                                   \
    return runtime_.script_.Run(*context, #rpc, *request,                                     \
                                [&] { return runtime_.state_.Handle(*request, *response); }); \
  }
  BERTH_CRI_RPCS(BERTH_FORWARD)
#undef BERTH_FORWARD

  grpc::Status GetContainerEvents(
      grpc::ServerContext* context, const cri::GetEventsRequest* request,
      grpc::ServerWriter<cri::ContainerEventResponse>* writer) override {
    if (runtime_.kind_ == FakeRuntime::kOldContainerd) {
      return {grpc::StatusCode::UNIMPLEMENTED, "unknown method"};
    }
    if (runtime_.kind_ == FakeRuntime::kCrio) return grpc::Status::OK;
    size_t next = runtime_.state_.event_count();
    // The call is noted only after `next` is read, so that a test that waits for the call misses no
    // event.
    const grpc::Status status = runtime_.script_.Run(*context, "GetContainerEvents", *request,
                                                     [] { return base::OkStatus(); });
    if (!status.ok()) return status;
    writer->SendInitialMetadata();
    while (!context->IsCancelled() && !runtime_.stopping_) {
      for (const auto& event : runtime_.state_.WaitForEvents(next, std::chrono::milliseconds(10))) {
        if (!writer->Write(event)) return grpc::Status::OK;
        ++next;
      }
    }
    return grpc::Status::OK;
  }

 private:
  FakeCri& runtime_;
};

base::StatusOr<std::unique_ptr<FakeCri>> FakeCri::Start(FakeRuntime kind) {
  char name[] = "/tmp/berth-cri-XXXXXX";
  if (mkdtemp(name) == nullptr) {
    return base::Error(base::StatusCode::kInternal, "make a folder in /tmp for a runtime");
  }
  std::unique_ptr<FakeCri> runtime(new FakeCri(kind, name));
  RETURN_IF_ERROR(runtime->ComeBack());
  return runtime;
}

FakeCri::FakeCri(FakeRuntime kind, std::string folder)
    : kind_(kind),
      folder_(std::move(folder)),
      socket_(folder_ + "/cri.sock"),
      state_(kind),
      services_(std::make_unique<Services>(*this)) {}

FakeCri::~FakeCri() {
  GoAway();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void FakeCri::GoAway() {
  stopping_ = true;
  script_.ReleaseAll();
  server_.reset();
}

base::Status FakeCri::ComeBack() {
  stopping_ = false;
  ASSIGN_OR_RETURN(
      server_,
      UnixServer::Start(socket_, {static_cast<cri::RuntimeService::Service*>(services_.get()),
                                  static_cast<cri::ImageService::Service*>(services_.get())}));
  return base::OkStatus();
}

}  // namespace berth::rpc
