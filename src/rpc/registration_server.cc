#include "base/mutex.h"
#include "proto/pluginregistration.grpc.pb.h"
#include "rpc/unix_server.h"

namespace berth::rpc {
namespace {

namespace wire = ::pluginregistration;

class Service : public wire::Registration::CallbackService {
 public:
  Service(std::string driver, std::string endpoint, RegistrationServer::OnStatus on_status)
      : driver_(std::move(driver)),
        endpoint_(std::move(endpoint)),
        on_status_(std::move(on_status)) {}

  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context, const wire::InfoRequest*,
                                    wire::PluginInfo* info) override {
    info->set_type("CSIPlugin");
    info->set_name(driver_);
    info->set_endpoint(endpoint_);
    info->add_supported_versions("1.0.0");
    return Finish(context);
  }

  grpc::ServerUnaryReactor* NotifyRegistrationStatus(grpc::CallbackServerContext* context,
                                                     const wire::RegistrationStatus* status,
                                                     wire::RegistrationStatusResponse*) override {
    {
      base::MutexLock lock(mutex_);
      registered_ = status->plugin_registered();
      error_ = status->error();
    }
    if (on_status_ != nullptr) on_status_(status->plugin_registered(), status->error());
    return Finish(context);
  }

  bool registered(std::string* error) const {
    base::MutexLock lock(mutex_);
    if (error != nullptr) *error = error_;
    return registered_;
  }

 private:
  static grpc::ServerUnaryReactor* Finish(grpc::CallbackServerContext* context) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  const std::string driver_;
  const std::string endpoint_;
  const RegistrationServer::OnStatus on_status_;
  mutable base::Mutex mutex_;
  bool registered_ ABSL_GUARDED_BY(mutex_) = false;
  std::string error_ ABSL_GUARDED_BY(mutex_);
};

class Server : public RegistrationServer {
 public:
  Server(std::unique_ptr<Service> service, std::unique_ptr<UnixServer> server)
      : service_(std::move(service)), server_(std::move(server)) {}

  bool registered(std::string* error) const override { return service_->registered(error); }

 private:
  const std::unique_ptr<Service> service_;
  const std::unique_ptr<UnixServer> server_;  // last: stops before its service goes
};

}  // namespace

base::StatusOr<std::unique_ptr<RegistrationServer>> RegistrationServer::Start(
    const std::string& socket, const std::string& driver, const std::string& endpoint,
    OnStatus on_status) {
  auto service = std::make_unique<Service>(driver, endpoint, std::move(on_status));
  ASSIGN_OR_RETURN(auto server, UnixServer::Start(socket, {service.get()}));
  return std::unique_ptr<RegistrationServer>(
      std::make_unique<Server>(std::move(service), std::move(server)));
}

}  // namespace berth::rpc
