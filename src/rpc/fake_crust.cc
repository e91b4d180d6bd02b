#include "rpc/fake_crust.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>

namespace berth::rpc {

using base::OkStatus;
using base::Status;
using base::StatusCode;

class FakeCrust::Service : public crust::RuntimeAssistedStorageManagement::Service {
 public:
  explicit Service(FakeCrust& fake) : fake_(fake) {}

#define BERTH_FORWARD(rpc)                                                           \
  grpc::Status rpc(grpc::ServerContext* context, const crust::rpc##Request* request, \
                   crust::rpc##Response* response) override {                        \
    return fake_.script_.Run(*context, #rpc, *request,                               \
                             [&] { return Handle(*request, *response); });           \
  }
  BERTH_CRUST_RPCS(BERTH_FORWARD)
#undef BERTH_FORWARD

 private:
  Status Handle(const crust::RuntimeGetCapabilitiesRequest&,
                crust::RuntimeGetCapabilitiesResponse& response) {
    for (const auto type : fake_.options_.capabilities) {
      response.add_capabilities()->mutable_rpc()->set_type(type);
    }
    return OkStatus();
  }

  Status Handle(const crust::RuntimeGetSupportedFileSystemsRequest&,
                crust::RuntimeGetSupportedFileSystemsResponse& response) {
    for (const std::string& type : fake_.options_.file_systems) response.add_file_systems(type);
    return OkStatus();
  }

  Status Handle(const crust::RuntimePublishVolumeRequest& request,
                crust::RuntimePublishVolumeResponse&) {
    base::MutexLock lock(fake_.mutex_);
    fake_.published_[{request.sandbox_id(), request.host_target_path()}] = request;
    return OkStatus();
  }

  Status Handle(const crust::RuntimeUnpublishVolumeRequest& request,
                crust::RuntimeUnpublishVolumeResponse&) {
    base::MutexLock lock(fake_.mutex_);
    std::erase_if(fake_.published_, [&](const auto& volume) {
      const auto& [sandbox, target] = volume.first;
      return target == request.host_target_path() &&
             (request.sandbox_id().empty() || sandbox == request.sandbox_id());
    });
    return OkStatus();
  }

  Status Handle(const crust::RuntimeGetVolumeStatsRequest& request,
                crust::RuntimeGetVolumeStatsResponse& response) {
    RETURN_IF_ERROR(CheckKnown(request.sandbox_id(), request.host_volume_id()));
    crust::VolumeUsage& usage = *response.add_usage();
    usage.set_unit(crust::VolumeUsage::BYTES);
    usage.set_total(fake_.options_.total_bytes);
    usage.set_used(fake_.options_.total_bytes / 4);
    usage.set_available(fake_.options_.total_bytes - usage.used());
    response.mutable_volume_condition()->set_abnormal(!fake_.options_.abnormal.empty());
    response.mutable_volume_condition()->set_message(fake_.options_.abnormal);
    return OkStatus();
  }

  Status Handle(const crust::RuntimeExpandVolumeRequest& request,
                crust::RuntimeExpandVolumeResponse& response) {
    RETURN_IF_ERROR(CheckKnown(request.sandbox_id(), request.host_volume_id()));
    const int64_t most = fake_.options_.most_capacity_bytes;
    response.set_capacity_bytes(most == 0 ? request.required_bytes()
                                          : std::min(most, request.required_bytes()));
    return OkStatus();
  }

  Status CheckKnown(const std::string& sandbox, const std::string& volume) const {
    base::MutexLock lock(fake_.mutex_);
    const bool known = std::ranges::any_of(fake_.published_, [&](const auto& one) {
      return one.first.first == sandbox && one.second.host_volume_id() == volume;
    });
    if (known) return OkStatus();
    return base::Error(StatusCode::kNotFound, "volume '{}' is not in sandbox '{}'", volume,
                       sandbox);
  }

  FakeCrust& fake_;
};

base::StatusOr<std::unique_ptr<FakeCrust>> FakeCrust::Start() {
  char folder[] = "/tmp/berth-crust-XXXXXX";
  if (mkdtemp(folder) == nullptr) {
    return base::Error(StatusCode::kInternal, "make a folder in /tmp for a runtime handler");
  }
  std::unique_ptr<FakeCrust> fake(new FakeCrust(folder));
  ASSIGN_OR_RETURN(fake->server_, UnixServer::Start(fake->socket_, {fake->service_.get()}));
  return fake;
}

FakeCrust::FakeCrust(std::string folder)
    : folder_(std::move(folder)),
      socket_(folder_ + "/crust.sock"),
      service_(std::make_unique<Service>(*this)) {}

FakeCrust::~FakeCrust() {
  script_.ReleaseAll();
  server_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void FakeCrust::Lose(Capability::Type capability) { std::erase(options_.capabilities, capability); }

FakeCrust::Published FakeCrust::published() const {
  base::MutexLock lock(mutex_);
  return published_;
}

}  // namespace berth::rpc
