#include "node/utilities/utility_service.h"

#include <filesystem>

#include "base/ipc/server.h"
#include "base/ipc/utility_call.h"
#include "base/log.h"
#include "node/utilities/utility_command.h"
#include "platform/files/durable_file.h"
#include "rpc/socket_file.h"
#include "rpc/unix_socket.h"

namespace berth::node {
namespace {

namespace ipc = base::ipc;
using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;

constexpr size_t kMostRuns = 64;
constexpr size_t kMostWaiting = 256;

class UtilityServiceImpl : public UtilityService {
 public:
  UtilityServiceImpl(UtilityServiceOptions options, platform::Mounter& mounter)
      : options_(std::move(options)), mounter_(mounter) {}

  ~UtilityServiceImpl() override {
    socket_file_ = rpc::SocketFile();
    if (options_.cancel) options_.cancel();
    server_.reset();
  }

  Status Listen() {
    RETURN_IF_ERROR(
        platform::MakeFolders(std::filesystem::path(options_.socket).parent_path().string(), 0755));
    ASSIGN_OR_RETURN(base::UniqueFd listener, rpc::ListenAt(options_.socket));
    socket_file_ = rpc::SocketFile(options_.socket);
    server_.emplace(ipc::Server::Options{
        .name = "utilities",
        .listener = std::move(listener),
        .methods = {{std::string(ipc::utility::kRun),
                     [this](const ipc::Request& request) { return Run(request); }}},
        .max_calls = kMostRuns,
        .max_waiting = kMostWaiting,
        .peer = options_.peer});
    return base::OkStatus();
  }

 private:
  StatusOr<ipc::Message> Run(const ipc::Request& request) {
    ASSIGN_OR_RETURN(const UtilityCall call, ReadUtilityCall(request.message));
    ASSIGN_OR_RETURN(const auto targets, FindMountTargets(call, options_.kubelet_folder));
    platform::Exec& exec = options_.in_pod(call.plugin);
    ASSIGN_OR_RETURN(platform::CommandResult result,
                     exec.Run(CommandOf(call, options_.kubelet_folder)));
    if (result.exit_code == kNoUtility && result.out.empty() && result.err.empty()) {
      return Error(StatusCode::kNotFound, "the pod of {} has no '{}'", call.plugin,
                   call.argv.front());
    }
    if (result.exit_code == 0 && !targets.empty()) {
      RETURN_IF_ERROR(CheckMounted(call, targets, exec));
    }
    LOG_INFO("utility {} has run in the pod of {}: exit code {}", base::Quote(call.argv.front()),
             call.plugin, result.exit_code);
    return ipc::Message()
        .Set(ipc::utility::kExit, int64_t{result.exit_code})
        .Set(ipc::utility::kOut, std::move(result.out))
        .Set(ipc::utility::kErr, std::move(result.err));
  }

  // Checks that the host sees a mount at one of `targets`; if not, unmounts them in the pod.
  Status CheckMounted(const UtilityCall& call, const std::vector<std::string>& targets,
                      platform::Exec& exec) {
    ASSIGN_OR_RETURN(const auto table, mounter_.List());
    for (const std::string& target : targets) {
      if (platform::FindMount(table, target) != nullptr) return base::OkStatus();
    }
    for (const std::string& target : targets) {
      const auto undone = exec.Run({.argv = {"umount", target}});
      if (undone.ok()) continue;
      LOG_WARNING("umount {} in the pod of {}: {}", base::Quote(target), call.plugin,
                  base::ToString(undone.status()));
    }
    return Error(StatusCode::kFailedPrecondition,
                 "{} ended without a failure, but the host sees no mount at {}: the pod of {} must "
                 "have the kubelet's folder with mountPropagation Bidirectional",
                 call.argv.front(), base::Quote(targets.front()), call.plugin);
  }

  const UtilityServiceOptions options_;
  platform::Mounter& mounter_;
  rpc::SocketFile socket_file_;
  std::optional<ipc::Server> server_;
};

}  // namespace

StatusOr<std::unique_ptr<UtilityService>> UtilityService::Start(UtilityServiceOptions options,
                                                                platform::Mounter& mounter) {
  auto service = std::make_unique<UtilityServiceImpl>(std::move(options), mounter);
  RETURN_IF_ERROR(service->Listen());
  return std::unique_ptr<UtilityService>(std::move(service));
}

}  // namespace berth::node
