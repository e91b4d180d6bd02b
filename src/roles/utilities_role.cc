#include "roles/utilities_role.h"

#include <filesystem>

#include "base/event_sink.h"
#include "base/log.h"
#include "node/utilities/utility_service.h"
#include "platform/mounts/mounter.h"
#include "volume/exec/router.h"
#include "volume/paths.h"

namespace berth::roles {
namespace {

using base::Status;
using base::StatusOr;

// Writes events to the log, because the role has no API at which to record them.
class LoggedEvents : public base::EventSink {
 public:
  void Record(const base::ObjectReference& /*object*/, base::EventType /*type*/,
              std::string_view reason, std::string_view message) override {
    LOG_WARNING("{}: {}", reason, message);
  }
};

class UtilitiesRoleImpl : public UtilitiesRole {
 public:
  explicit UtilitiesRoleImpl(const UtilitiesRoleOptions& options)
      : options_(options), paths_(options.kubelet_folder) {}

  ~UtilitiesRoleImpl() override {
    service_.reset();
    if (utilities_ != nullptr) utilities_->Close();
  }

  Status Run() {
    // The role records no mounts in the data folder, because the kubelet tracks its own mounts.
    const std::filesystem::path run_folder = std::filesystem::path(options_.socket).parent_path();
    ASSIGN_OR_RETURN(utilities_,
                     volume::NewUtilityRouter({.data_folder = run_folder / "utility-records",
                                               .cri_endpoint = options_.runtime_endpoint,
                                               .paths = paths_,
                                               .mounter = *mounter_,
                                               .events = events_,
                                               .node = {}}));
    ASSIGN_OR_RETURN(service_, node::UtilityService::Start(
                                   {.socket = options_.socket,
                                    .kubelet_folder = options_.kubelet_folder,
                                    .in_pod = [this](std::string_view plugin) -> platform::Exec& {
                                      return utilities_->GetPodExec(plugin);
                                    },
                                    .cancel = [this] { utilities_->CancelRuns(); }},
                                   *mounter_));
    LOG_INFO("utilities run for the shims that connect to '{}'", options_.socket);
    return base::OkStatus();
  }

 private:
  const UtilitiesRoleOptions options_;
  const volume::Paths paths_;
  LoggedEvents events_;
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  std::unique_ptr<volume::Utilities> utilities_;
  std::unique_ptr<node::UtilityService> service_;
};

}  // namespace

StatusOr<std::unique_ptr<UtilitiesRole>> UtilitiesRole::Start(const UtilitiesRoleOptions& options) {
  auto role = std::make_unique<UtilitiesRoleImpl>(options);
  RETURN_IF_ERROR(role->Run());
  return std::unique_ptr<UtilitiesRole>(std::move(role));
}

}  // namespace berth::roles
