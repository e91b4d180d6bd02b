#include "roles/utilities_role.h"

#include <filesystem>

#include "base/log.h"
#include "node/utilities/utility_service.h"
#include "roles/pod_utilities.h"

namespace berth::roles {
namespace {

using base::Status;
using base::StatusOr;

class UtilitiesRoleImpl : public UtilitiesRole {
 public:
  explicit UtilitiesRoleImpl(const UtilitiesRoleOptions& options) : options_(options) {}

  Status Run() {
    // The role records no mounts in the data folder, because the kubelet tracks its own mounts.
    const std::filesystem::path run_folder = std::filesystem::path(options_.socket).parent_path();
    ASSIGN_OR_RETURN(utilities_,
                     PodUtilities::Open({.kubelet_folder = options_.kubelet_folder,
                                         .runtime_endpoint = options_.runtime_endpoint,
                                         .data_folder = run_folder / "utility-records"}));
    ASSIGN_OR_RETURN(service_, node::UtilityService::Start(
                                   {.socket = options_.socket,
                                    .kubelet_folder = options_.kubelet_folder,
                                    .in_pod = [this](std::string_view plugin) -> platform::Exec& {
                                      return utilities_->pod_exec(plugin);
                                    },
                                    .cancel = [this] { utilities_->CancelRuns(); }},
                                   utilities_->mounter()));
    LOG_INFO("utilities run for the shims that connect to '{}'", options_.socket);
    return base::OkStatus();
  }

 private:
  const UtilitiesRoleOptions options_;
  std::unique_ptr<PodUtilities> utilities_;
  std::unique_ptr<node::UtilityService> service_;
};

}  // namespace

StatusOr<std::unique_ptr<UtilitiesRole>> UtilitiesRole::Start(const UtilitiesRoleOptions& options) {
  auto role = std::make_unique<UtilitiesRoleImpl>(options);
  RETURN_IF_ERROR(role->Run());
  return std::unique_ptr<UtilitiesRole>(std::move(role));
}

}  // namespace berth::roles
