#include "rpc/fake_csi_driver.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "proto/csi.grpc.pb.h"
#include "rpc/csi_client.h"

namespace berth::rpc {

class FakeCsiDriver::Services : public csi::v1::Identity::Service,
                                public csi::v1::Controller::Service,
                                public csi::v1::GroupController::Service,
                                public csi::v1::Node::Service {
 public:
  explicit Services(FakeCsiDriver& driver) : driver_(driver) {}

#define BERTH_FORWARD(service, rpc)                                                         \
  grpc::Status rpc(grpc::ServerContext* context, const csi::v1::rpc##Request* request,      \
                   csi::v1::rpc##Response* response) override {                             \
    return driver_.script_.Run(*context, #rpc, *request,                                    \
                               [&] { return driver_.state_.Handle(*request, *response); }); \
  }
  BERTH_CSI_RPCS(BERTH_FORWARD)
  BERTH_CSI_GROUP_RPCS(BERTH_FORWARD)
#undef BERTH_FORWARD

  std::vector<grpc::Service*> All() {
    return {static_cast<csi::v1::Identity::Service*>(this),
            static_cast<csi::v1::Controller::Service*>(this),
            static_cast<csi::v1::GroupController::Service*>(this),
            static_cast<csi::v1::Node::Service*>(this)};
  }

 private:
  FakeCsiDriver& driver_;
};

base::StatusOr<std::unique_ptr<FakeCsiDriver>> FakeCsiDriver::Start(Options options,
                                                                    const std::string& socket) {
  std::string folder;
  if (socket.empty()) {
    char name[] = "/tmp/berth-csi-XXXXXX";
    if (mkdtemp(name) == nullptr) {
      return base::Error(base::StatusCode::kInternal, "make a folder in /tmp for a CSI driver");
    }
    folder = name;
  }
  std::unique_ptr<FakeCsiDriver> driver(new FakeCsiDriver(
      std::move(options), folder, socket.empty() ? folder + "/csi.sock" : socket));
  RETURN_IF_ERROR(driver->ComeBack());
  return driver;
}

FakeCsiDriver::FakeCsiDriver(Options options, std::string folder, std::string socket)
    : folder_(std::move(folder)),
      socket_(std::move(socket)),
      state_(std::move(options)),
      services_(std::make_unique<Services>(*this)) {}

FakeCsiDriver::~FakeCsiDriver() {
  GoAway();
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

void FakeCsiDriver::GoAway() {
  script_.ReleaseAll();
  server_.reset();
}

base::Status FakeCsiDriver::ComeBack() {
  ASSIGN_OR_RETURN(server_, UnixServer::Start(socket_, services_->All()));
  return base::OkStatus();
}

}  // namespace berth::rpc
