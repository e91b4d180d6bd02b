#include "crust/crust_handler.h"

#include <algorithm>
#include <optional>

#include "base/ipc/crust_call.h"
#include "base/ipc/server.h"
#include "base/log.h"
#include "base/text.h"
#include "crust/handler.h"
#include "crust/mount_namespace.h"
#include "crust/namespace_sandbox.h"
#include "crust/services.h"
#include "crust/serving/crust_service.h"
#include "platform/file_systems/kernel_file_systems.h"
#include "platform/files/durable_file.h"
#include "platform/files/private_folder.h"
#include "platform/files/selinux.h"
#include "rpc/socket_file.h"
#include "rpc/unix_server.h"
#include "rpc/unix_socket.h"

namespace berth::crust {
namespace {

namespace ipc = base::ipc;
using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using Capability = wire::RuntimeCapability::RPC;

Status CheckPaths(const CrustHandlerOptions& options) {
  for (const std::string& path : {options.socket, options.oci_socket, options.data_folder,
                                  options.run_folder, options.kubelet_folder}) {
    RETURN_IF_ERROR(CheckOptionPath(path));
  }
  return base::OkStatus();
}

// `names` is empty: all that this handler can offer. INVALID_ARGUMENT: there is no such capability.
StatusOr<std::vector<Capability::Type>> ParseCapabilities(const std::vector<std::string>& names) {
  std::vector<Capability::Type> types;
  const google::protobuf::EnumDescriptor* all = Capability::Type_descriptor();
  for (int i = 0; names.empty() && i < all->value_count(); ++i) {
    const auto type = static_cast<Capability::Type>(all->value(i)->number());
    if (type != Capability::UNKNOWN) types.push_back(type);
  }
  for (const std::string& name : names) {
    Capability::Type type = Capability::UNKNOWN;
    if (!Capability::Type_Parse(name, &type) || type == Capability::UNKNOWN) {
      return Error(StatusCode::kInvalidArgument, "there is no capability {}", Quote(name));
    }
    types.push_back(type);
  }
  return types;
}

// Returns those of the `wanted` file systems that the kernel supports.
StatusOr<std::vector<std::string>> FindKernelFileSystems(const std::vector<std::string>& wanted) {
  std::vector<std::string> known;
  for (const std::string& type : wanted) {
    ASSIGN_OR_RETURN(const bool has, platform::KernelHasFileSystem(type));
    if (has) {
      known.push_back(type);
    } else {
      LOG_INFO("volumes with {} are not mounted: the kernel does not support it", Quote(type));
    }
  }
  return known;
}

class CrustHandlerImpl final : public CrustHandler {
 public:
  ~CrustHandlerImpl() override {
    // Stops long walks first, because the servers' destructors wait for running calls.
    if (handler_ != nullptr) handler_->CancelWalks();
    oci_server_.reset();
    server_.reset();
  }

  Status Run(const CrustHandlerOptions& options) {
    RETURN_IF_ERROR(CheckPaths(options));
    Offer offer{.shares = options.shares, .selinux = platform::KernelHasSelinux()};
    ASSIGN_OR_RETURN(offer.file_systems, FindKernelFileSystems(options.file_systems));
    ASSIGN_OR_RETURN(offer.capabilities, ParseCapabilities(options.capabilities));
    for (const std::string& share : options.utility_shares) {
      const size_t equals = share.find('=');
      const std::string type = share.substr(0, equals);
      offer.shares.push_back(type);
      offer.utilities[type] =
          equals == std::string::npos ? "mount." + type : share.substr(equals + 1);
    }
    const Paths paths(options.data_folder, options.run_folder);
    RETURN_IF_ERROR(platform::MakePrivateFolder(options.data_folder));
    ASSIGN_OR_RETURN(lock_, platform::LockFile(paths.LockFile()));
    RETURN_IF_ERROR(platform::MakePrivateFolder(options.run_folder));
    // The graft folder is a private mount on the host, too, because other mount namespaces must not
    // see what berth-oci mounts there.
    const std::string grafts = ipc::crust::GraftFolder(options.run_folder);
    RETURN_IF_ERROR(platform::MakeFolders(grafts, 0700));
    RETURN_IF_ERROR(PreparePins(*mounter_, grafts));
    ASSIGN_OR_RETURN(kind_, NewNamespaceSandboxes(*mounter_, *exec_,
                                                  {.pins = paths.HolderFolder(),
                                                   .utilities = paths.UtilityFolder(),
                                                   .kubelet = options.kubelet_folder}));
    ASSIGN_OR_RETURN(handler_, Handler::Start({.paths = paths,
                                               .kubelet_folder = options.kubelet_folder,
                                               .offer = std::move(offer),
                                               .check_interval = options.check_interval,
                                               .free_within = options.free_within},
                                              *kind_, *mounter_));
    workers_.emplace(base::WorkerPool::Options{
        .name = "crust-call", .max_threads = options.workers, .max_queued = options.max_queued});
    publishes_.emplace(base::WorkerPool::Options{
        .name = "crust-publish", .max_threads = options.workers, .max_queued = options.max_queued});
    service_ = NewCrustService(*handler_, *workers_, *publishes_);
    return Listen(options);
  }

 private:
  Status Listen(const CrustHandlerOptions& options) {
    for (const std::string& socket : {options.socket, options.oci_socket}) {
      RETURN_IF_ERROR(platform::MakeFolders(std::string(base::FolderOf(socket)), 0755));
    }
    ASSIGN_OR_RETURN(base::UniqueFd listener, rpc::ListenAt(options.oci_socket));
    oci_file_ = rpc::SocketFile(options.oci_socket);
    oci_server_.emplace(ipc::Server::Options{.name = "crust-oci",
                                             .listener = std::move(listener),
                                             .methods = MakeOciMethods(*handler_),
                                             .max_calls = options.workers});
    ASSIGN_OR_RETURN(server_, rpc::UnixServer::Start(options.socket, {service_.get()}));
    return base::OkStatus();
  }

  // Each member needs the ones above it, so the servers come last and are destroyed first.
  base::UniqueFd lock_;
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  std::unique_ptr<SandboxKind> kind_;
  std::unique_ptr<Handler> handler_;
  std::optional<base::WorkerPool> workers_;
  std::optional<base::WorkerPool> publishes_;
  std::unique_ptr<grpc::Service> service_;
  std::optional<ipc::Server> oci_server_;
  rpc::SocketFile oci_file_;
  std::unique_ptr<rpc::UnixServer> server_;
};

}  // namespace

StatusOr<std::unique_ptr<CrustHandler>> CrustHandler::Start(const CrustHandlerOptions& options) {
  auto handler = std::make_unique<CrustHandlerImpl>();
  RETURN_IF_ERROR_WITH(handler->Run(options), "start the CRUST handler");
  return handler;
}

}  // namespace berth::crust
