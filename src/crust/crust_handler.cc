#include "crust/crust_handler.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/ipc/crust_call.h"
#include "base/ipc/server.h"
#include "base/log.h"
#include "base/text.h"
#include "crust/handler.h"
#include "crust/machine/accelerator.h"
#include "crust/machine/guest_image.h"
#include "crust/machine/vm_sandbox.h"
#include "crust/mount_namespace.h"
#include "crust/namespace_sandbox.h"
#include "crust/services.h"
#include "crust/serving/crust_service.h"
#include "platform/file_systems/kernel_file_systems.h"
#include "platform/files/durable_file.h"
#include "platform/files/private_folder.h"
#include "platform/files/selinux.h"
#include "platform/processes/own_folder.h"
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

// INVALID_ARGUMENT: an option of the guests is wrong, or asks for what they cannot do.
Status CheckGuest(const CrustHandlerOptions& options) {
  const GuestOptions& guest = options.guest;
  for (const auto& [what, path] :
       {std::pair("kernel", &guest.kernel), {"modules", &guest.modules}}) {
    if (!path->starts_with('/')) {
      return Error(StatusCode::kInvalidArgument,
                   "sandboxes that are virtual machines need the path of the guests' {}, and {} is "
                   "not absolute",
                   what, Quote(*path));
    }
  }
  constexpr int64_t kLeastMemory = 128, kMostMemory = int64_t{1} << 20;
  constexpr int kMostCpus = 64;
  if (guest.memory_mib < kLeastMemory || guest.memory_mib > kMostMemory) {
    return Error(StatusCode::kInvalidArgument, "a guest's memory is from {} to {} MiB, not {}",
                 kLeastMemory, kMostMemory, guest.memory_mib);
  }
  if (guest.cpus < 1 || guest.cpus > kMostCpus) {
    return Error(StatusCode::kInvalidArgument, "a guest has from 1 to {} processors, not {}",
                 kMostCpus, guest.cpus);
  }
  if (!options.shares.empty() || !options.utility_shares.empty()) {
    return Error(
        StatusCode::kInvalidArgument,
        "sandboxes that are virtual machines mount no shares, because they have no network of the "
        "node");
  }
  return base::OkStatus();
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
    const bool is_vm = options.sandbox == SandboxType::kVm;
    if (is_vm) RETURN_IF_ERROR(CheckGuest(options));
    // The files of a volume in a guest are not labelled by this kernel.
    Offer offer{.shares = options.shares, .selinux = !is_vm && platform::KernelHasSelinux()};
    if (is_vm) {
      ASSIGN_OR_RETURN(offer.file_systems, FindFileSystemsOfGuest(options));
    } else {
      ASSIGN_OR_RETURN(offer.file_systems, FindKernelFileSystems(options.file_systems));
    }
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
    if (is_vm) {
      ASSIGN_OR_RETURN(kind_, MakeVmSandboxes(options, paths, offer.file_systems));
    } else {
      ASSIGN_OR_RETURN(kind_, NewNamespaceSandboxes(*mounter_, *exec_,
                                                    {.pins = paths.HolderFolder(),
                                                     .utilities = paths.UtilityFolder(),
                                                     .kubelet = options.kubelet_folder}));
    }
    ASSIGN_OR_RETURN(handler_, Handler::Start({.paths = paths,
                                               .kubelet_folder = options.kubelet_folder,
                                               .offer = std::move(offer),
                                               .check_interval = options.check_interval,
                                               .free_within = options.free_within,
                                               .patience = options.patience},
                                              *kind_, *mounter_));
    workers_.emplace(base::WorkerPool::Options{
        .name = "crust-call", .max_threads = options.workers, .max_queued = options.max_queued});
    publishes_.emplace(base::WorkerPool::Options{
        .name = "crust-publish", .max_threads = options.workers, .max_queued = options.max_queued});
    service_ = NewCrustService(*handler_, *workers_, *publishes_);
    return Listen(options);
  }

 private:
  static StatusOr<std::vector<std::string>> FindFileSystemsOfGuest(
      const CrustHandlerOptions& options) {
    ASSIGN_OR_RETURN(const KernelModules modules, KernelModules::Read(options.guest.modules));
    return FindGuestFileSystems(modules, options.file_systems);
  }

  // Writes the image that guests boot, and chooses how they run.
  StatusOr<std::unique_ptr<SandboxKind>> MakeVmSandboxes(
      const CrustHandlerOptions& options, const Paths& paths,
      const std::vector<std::string>& file_systems) {
    const GuestOptions& guest = options.guest;
    ASSIGN_OR_RETURN(const KernelModules modules, KernelModules::Read(guest.modules));
    std::string program = guest.program;
    if (program.empty()) program = platform::FindInOwnFolder("berth-guest");
    if (program.empty()) {
      return Error(StatusCode::kFailedPrecondition,
                   "berth-guest, the first program of the guests, is not beside this program");
    }
    if (access(guest.runc.c_str(), X_OK) != 0) {
      return Error(StatusCode::kFailedPrecondition,
                   "containers of guests need runc, and {} is no program of this machine",
                   Quote(guest.runc));
    }
    ASSIGN_OR_RETURN(const std::string image,
                     MakeGuestImage(program, modules, file_systems, guest.runc));
    RETURN_IF_ERROR(platform::WriteDurably<"crust.guest_image">(paths.GuestImage(), image));
    machine_ = {.kernel = guest.kernel,
                .image = paths.GuestImage(),
                .memory_mib = guest.memory_mib,
                .cpus = guest.cpus,
                .tsc_khz = MeasureTscKhz(),
                .boot_within = guest.boot_within,
                .answer_within = guest.answer_within};
    const VmFolders folders = {.records = paths.MachineRecordFolder(),
                               .machines = paths.MachineFolder(),
                               .pins = paths.HolderFolder()};
    ASSIGN_OR_RETURN(std::unique_ptr<SandboxKind> kind,
                     NewVmSandboxes(machine_, *mounter_, folders));
    ASSIGN_OR_RETURN(const MachineRecords records, MachineRecords::Open(folders.records));
    ASSIGN_OR_RETURN(machine_.accelerator, ChooseAccelerator(machine_, records, folders.machines));
    return kind;
  }

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
  MachineSettings machine_;  // of sandboxes that are virtual machines
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
