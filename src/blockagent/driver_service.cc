#include "blockagent/driver_service.h"

#include <optional>

#include "base/ipc/block_call.h"
#include "base/ipc/server.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/text.h"
#include "platform/files/durable_file.h"
#include "rpc/socket_file.h"
#include "rpc/unix_socket.h"

namespace berth::blockagent {
namespace {

namespace ipc = base::ipc;
namespace call = base::ipc::block;
using base::Error;
using base::MutexLock;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using Deadline = DriverServiceOptions::Deadline;

constexpr size_t kMostCalls = 128;
constexpr size_t kMostWaiting = 1024;

class DriverServiceImpl : public DriverService {
 public:
  explicit DriverServiceImpl(DriverServiceOptions options) : options_(std::move(options)) {}

  ~DriverServiceImpl() override {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      changed_.NotifyAll();
    }
    // First, so that drivers wait for the next agent in place of calling one that ends.
    socket_file_ = rpc::SocketFile();
    server_.reset();
  }

  Status Listen() {
    ASSIGN_OR_RETURN(const std::string path, rpc::SocketPath(options_.socket));
    RETURN_IF_ERROR(platform::MakeFolders(std::string(base::FolderOf(path)), 0755));
    ASSIGN_OR_RETURN(base::UniqueFd listener, rpc::ListenAt(path));
    socket_file_ = rpc::SocketFile(path);
    const auto method = [this](Status (DriverServiceImpl::*answer)(const ipc::Message&, Deadline)) {
      return [this, answer](const ipc::Request& request) -> StatusOr<ipc::Message> {
        RETURN_IF_ERROR(CheckVersion(request.message));
        RETURN_IF_ERROR((this->*answer)(request.message,
                                        std::chrono::steady_clock::now() + options_.call_time));
        return ipc::Message().Set(call::kVersion, call::kProtocol);
      };
    };
    server_.emplace(ipc::Server::Options{
        .name = "block-agent",
        .listener = std::move(listener),
        .methods = {{std::string(call::kInit), method(&DriverServiceImpl::Init)},
                    {std::string(call::kMount), method(&DriverServiceImpl::Mount)},
                    {std::string(call::kUnmount), method(&DriverServiceImpl::Unmount)},
                    {std::string(call::kExpand), method(&DriverServiceImpl::Expand)}},
        .max_calls = kMostCalls,
        .max_waiting = kMostWaiting,
        .peer = options_.peer});
    return base::OkStatus();
  }

  bool ready() const override {
    MutexLock lock(mutex_);
    return ready_;
  }

 private:
  static Status CheckVersion(const ipc::Message& request) {
    const int64_t version = request.FindNumber(call::kVersion).value_or(0);
    if (version == call::kProtocol) return base::OkStatus();
    LOG_WARNING("a driver of version {} called this agent, which has version {}", version,
                call::kProtocol);
    return Error(StatusCode::kFailedPrecondition,
                 "the driver speaks version {} and the block agent version {}: restart the agent, "
                 "because it installs its own driver when it starts; if the kubelet keeps the old "
                 "driver, restart the kubelet, too",
                 version, call::kProtocol);
  }

  Status Init(const ipc::Message& /*request*/, Deadline /*deadline*/) {
    MutexLock lock(mutex_);
    if (!ready_) LOG_INFO("the driver made its handshake: mounts are served");
    ready_ = true;
    changed_.NotifyAll();
    return base::OkStatus();
  }

  Status WaitForHandshake(Deadline deadline) {
    MutexLock lock(mutex_);
    while (!ready_ && !stopping_) {
      if (!changed_.WaitUntil(mutex_, deadline) && !ready_) {
        return Error(StatusCode::kUnavailable,
                     "the block agent waits for its driver's init, which the kubelet calls when it "
                     "finds the driver: check that it watches the folder that the agent logged");
      }
    }
    if (ready_) return base::OkStatus();
    return Error(StatusCode::kUnavailable, "the block agent is being stopped");
  }

  Status Mount(const ipc::Message& request, Deadline deadline) {
    const std::string* dir = request.FindText(call::kMountDir);
    const std::string* options = request.FindText(call::kOptions);
    if (dir == nullptr || options == nullptr) {
      return Error(StatusCode::kInvalidArgument, "a mount needs '{}' and '{}'", call::kMountDir,
                   call::kOptions);
    }
    ASSIGN_OR_RETURN(const MountCall mount_call, ReadMountCall(*dir, *options));
    RETURN_IF_ERROR(WaitForHandshake(deadline));
    return LogFailure(options_.mount(mount_call, deadline), "mount", *dir);
  }

  static StatusOr<std::string> ReadMountDir(const ipc::Message& request, std::string_view call) {
    const std::string* dir = request.FindText(call::kMountDir);
    if (dir != nullptr && dir->starts_with('/')) return *dir;
    return Error(StatusCode::kInvalidArgument, "an {} needs an absolute '{}'", call,
                 call::kMountDir);
  }

  Status Unmount(const ipc::Message& request, Deadline deadline) {
    ASSIGN_OR_RETURN(const std::string dir, ReadMountDir(request, "unmount"));
    RETURN_IF_ERROR(WaitForHandshake(deadline));
    return LogFailure(options_.unmount(dir, deadline), "unmount", dir);
  }

  Status Expand(const ipc::Message& request, Deadline deadline) {
    ASSIGN_OR_RETURN(const std::string dir, ReadMountDir(request, "expand"));
    const int64_t bytes = request.FindNumber(call::kNewBytes).value_or(0);
    if (bytes <= 0) {
      return Error(StatusCode::kInvalidArgument, "an expand needs '{}'", call::kNewBytes);
    }
    RETURN_IF_ERROR(WaitForHandshake(deadline));
    return LogFailure(options_.expand(dir, bytes, deadline), "expand", dir);
  }

  static Status LogFailure(Status status, std::string_view call, const std::string& dir) {
    if (!status.ok()) LOG_WARNING("{} {}: {}", call, Quote(dir), base::ToString(status));
    return status;
  }

  const DriverServiceOptions options_;
  mutable base::Mutex mutex_;
  base::CondVar changed_;
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  rpc::SocketFile socket_file_;
  std::optional<ipc::Server> server_;
};

}  // namespace

StatusOr<std::unique_ptr<DriverService>> DriverService::Start(DriverServiceOptions options) {
  auto service = std::make_unique<DriverServiceImpl>(std::move(options));
  RETURN_IF_ERROR(service->Listen());
  return std::unique_ptr<DriverService>(std::move(service));
}

}  // namespace berth::blockagent
