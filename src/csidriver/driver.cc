#include "csidriver/driver.h"

#include <thread>

#include "api/kinds/csi_names.h"
#include "base/flight.h"
#include "base/log.h"
#include "base/pause.h"
#include "base/text.h"
#include "csidriver/long_commands.h"
#include "csidriver/services.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/disk_reserve.h"
#include "platform/files/durable_file.h"
#include "platform/files/private_folder.h"
#include "rpc/unix_server.h"

namespace berth::csidriver {
namespace {

using base::Error;
using base::StatusCode;

// Whether `text` is a valid value of a topology segment by the specification.
bool IsSegmentValue(std::string_view text) {
  const auto alphanumeric = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  return !text.empty() && text.size() <= 63 && alphanumeric(text.front()) &&
         alphanumeric(text.back()) && std::ranges::all_of(text, [&](char c) {
           return alphanumeric(c) || c == '-' || c == '_' || c == '.';
         });
}

base::Status CheckOptions(const DriverOptions& options) {
  RETURN_IF_ERROR(api::CheckCsiDriverName(options.name));
  if (!IsSegmentValue(options.node_id)) {
    return Error(StatusCode::kInvalidArgument,
                 "node id {} cannot be a topology value: at most 63 letters, digits, '-', '_', '.'",
                 base::Quote(options.node_id));
  }
  for (const std::string& path : {options.pool_folder, options.endpoint}) {
    if (!path.starts_with('/')) {
      return Error(StatusCode::kInvalidArgument, "path {} of the driver is not absolute",
                   base::Quote(path));
    }
  }
  if (options.workers < 1 || options.max_queued < 1) {
    return Error(StatusCode::kInvalidArgument, "a driver needs at least one worker and a queue");
  }
  return base::OkStatus();
}

constexpr const char* kFsTypes[] = {"ext4", "xfs", "btrfs"};

// `may_change`: the utilities may come later, with a mount pod.
base::StatusOr<Offer> MakeOffer(const DriverOptions& options, platform::Exec& exec,
                                bool may_change) {
  Offer offer{.topology_key = Driver::TopologyKey(options.name), .node_id = options.node_id};
  for (const char* type : kFsTypes) {
    const base::Status supported = platform::FindFileSystem(type)->IsSupported(exec);
    if (supported.ok()) {
      offer.fs_types.push_back(type);
    } else {
      LOG_INFO("{} volumes are not served{}: {}", type, may_change ? " yet" : "",
               base::Message(supported));
    }
  }
  if (may_change) {
    offer.check_now = [&exec](const std::string& type) -> base::Status {
      if (std::ranges::find(kFsTypes, type) == std::end(kFsTypes)) {
        return Error(StatusCode::kInvalidArgument, "this driver never makes it");
      }
      return platform::FindFileSystem(type)->IsSupported(exec);
    };
    // A volume whose class names no type fails with the utility's name until the utility is there.
    if (offer.fs_types.empty()) offer.fs_types.push_back(kFsTypes[0]);
  }
  if (offer.fs_types.empty()) {
    return Error(StatusCode::kFailedPrecondition,
                 "no file system can be made here: install e2fsprogs or xfsprogs");
  }
  return offer;
}

class DriverImpl final : public Driver {
 public:
  base::Status StartParts(const DriverOptions& options) {
    RETURN_IF_ERROR(CheckOptions(options));
    platform::Exec& exec = options.exec == nullptr ? *host_exec_ : *options.exec;
    ASSIGN_OR_RETURN(offer_, MakeOffer(options, exec, /*may_change=*/options.exec != nullptr));
    // Whoever may write the folder of a pool is trusted.
    RETURN_IF_ERROR(
        platform::MakeNamedFolder({.path = options.pool_folder,
                                   .names = block::kPoolNames,
                                   .writers = platform::NamedFolder::Writers::kTrusted}));
    // `berth up` and `berth node` keep a reserve for a pool in their data folder.
    if (!platform::HasReserve(options.pool_folder)) {
      ASSIGN_OR_RETURN(reserve_, platform::DiskReserve::Open({.folder = options.pool_folder}));
    }
    // Half of the workers are left to calls that are short.
    const size_t most_long = std::max<size_t>(1, options.workers / 2);
    ASSIGN_OR_RETURN(pool_, block::Pool::Open(options.pool_folder,
                                              {.overcommit = options.overcommit,
                                               .inline_share = options.inline_share,
                                               .keep_free = options.keep_free,
                                               .freeze_limit = options.freeze_limit,
                                               .max_copies = most_long},
                                              *mounter_, clock_));
    if (!options.flight_file.empty()) {
      ASSIGN_OR_RETURN(flight_, base::FlightRecorder::Open(options.flight_file, "csi-driver"));
    }
    ASSIGN_OR_RETURN(records_, NodeRecords::Open(pool_->paths().Node()));
    controller_ = std::make_unique<Controller>(*pool_, offer_);
    group_controller_ = std::make_unique<GroupController>(*pool_);
    node_exec_ = std::make_unique<LongCommandLimit>(exec, most_long);
    node_ = std::make_unique<Node>(*pool_, *records_, *mounter_, *node_exec_, offer_);
    const bool seen_all = node_->RemoveOrphans();
    // Two pools, so that long copies do not keep pods from starting.
    const base::WorkerPool::Options pool = {
        .name = "csi-call", .max_threads = options.workers, .max_queued = options.max_queued};
    controller_workers_ = std::make_unique<base::WorkerPool>(pool);
    node_workers_ = std::make_unique<base::WorkerPool>(pool);
    services_.push_back(NewIdentityService(options.name, options.version));
    services_.push_back(NewControllerService(*controller_, *controller_workers_, flight_.get()));
    services_.push_back(
        NewGroupControllerService(*group_controller_, *controller_workers_, flight_.get()));
    services_.push_back(NewNodeService(*node_, *node_workers_, flight_.get()));
    std::vector<grpc::Service*> services;
    for (const auto& service : services_) services.push_back(service.get());
    RETURN_IF_ERROR(platform::MakeFolders(std::string(base::FolderOf(options.endpoint))));
    ASSIGN_OR_RETURN(server_, rpc::UnixServer::Start(options.endpoint, services));
    if (!seen_all) {
      LOG_WARNING(
          "inline volumes are kept, because the folder of the pods that had them is not there or "
          "is another one; those of pods that are gone are removed when it is there again");
      orphans_ = std::jthread([this, pause = options.look_again](const std::stop_token& stop) {
        while (base::SleepFor(stop, pause) && !node_->RemoveOrphans()) {
        }
      });
    }
    if (options.registration_folder.empty()) return base::OkStatus();
    RETURN_IF_ERROR(platform::MakeFolders(options.registration_folder));
    ASSIGN_OR_RETURN(registration_,
                     rpc::RegistrationServer::Start(
                         fmt::format("{}/{}-reg.sock", options.registration_folder, options.name),
                         options.name, options.endpoint));
    return base::OkStatus();
  }

 private:
  // Each member needs the ones above it, so the servers come last and are destroyed first.
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  const std::unique_ptr<platform::Exec> host_exec_ = platform::NewHostExec();
  base::SystemClock clock_;
  Offer offer_;
  std::unique_ptr<platform::DiskReserve> reserve_;  // null: the pool is in a folder that has one
  std::unique_ptr<base::FlightRecorder> flight_;
  std::unique_ptr<block::Pool> pool_;
  std::unique_ptr<NodeRecords> records_;
  std::unique_ptr<Controller> controller_;
  std::unique_ptr<GroupController> group_controller_;
  std::unique_ptr<LongCommandLimit> node_exec_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<base::WorkerPool> controller_workers_;
  std::unique_ptr<base::WorkerPool> node_workers_;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<rpc::UnixServer> server_;
  std::unique_ptr<rpc::RegistrationServer> registration_;
  std::jthread orphans_;  // runs until RemoveOrphans has seen all
};

}  // namespace

std::string Driver::TopologyKey(const std::string& driver_name) {
  return fmt::format("topology.{}/node", driver_name);
}

base::StatusOr<std::unique_ptr<Driver>> Driver::Start(const DriverOptions& options) {
  auto driver = std::make_unique<DriverImpl>();
  RETURN_IF_ERROR_WITH(driver->StartParts(options),
                       fmt::format("start CSI driver {}", base::Quote(options.name)));
  return driver;
}

}  // namespace berth::csidriver
