#include "crust/kata/kata_handler.h"

#include <optional>

#include "base/log.h"
#include "base/text.h"
#include "base/workers/worker_pool.h"
#include "crust/kata/kata_calls.h"
#include "crust/kata/kata_offer.h"
#include "crust/serving/crust_service.h"
#include "platform/files/durable_file.h"
#include "platform/files/private_folder.h"
#include "rpc/unix_server.h"

namespace berth::crust::kata {
namespace {

using base::Status;

class KataHandlerImpl final : public KataHandler {
 public:
  Status Run(const KataHandlerOptions& options) {
    for (const std::string& path : {options.socket, options.data_folder, options.kubelet_folder,
                                    options.kata_run, options.bundles}) {
      RETURN_IF_ERROR(CheckOptionPath(path));
    }
    ASSIGN_OR_RETURN(const KataRuntime runtime, ParseRuntime(options.runtime));
    Offer offer{.file_systems = options.file_systems};
    if (options.capabilities.empty()) {
      offer.capabilities = ListCapabilities(runtime);
    } else {
      ASSIGN_OR_RETURN(offer.capabilities, ParseKataCapabilities(options.capabilities));
    }
    RETURN_IF_ERROR(platform::MakePrivateFolder(options.data_folder));
    ASSIGN_OR_RETURN(lock_, platform::LockFile(options.data_folder + "/lock"));
    ASSIGN_OR_RETURN(calls_, KataCalls::Start({.data_folder = options.data_folder,
                                               .kata_run = options.kata_run,
                                               .bundles = options.bundles,
                                               .kubelet_folder = options.kubelet_folder,
                                               .offer = std::move(offer),
                                               .runtime = runtime,
                                               .check_interval = options.check_interval,
                                               .free_within = options.free_within},
                                              *mounter_));
    workers_.emplace(base::WorkerPool::Options{
        .name = "kata-call", .max_threads = options.workers, .max_queued = options.max_queued});
    publishes_.emplace(base::WorkerPool::Options{
        .name = "kata-publish", .max_threads = options.workers, .max_queued = options.max_queued});
    service_ = NewCrustService(*calls_, *workers_, *publishes_);
    RETURN_IF_ERROR(platform::MakeFolders(std::string(base::FolderOf(options.socket)), 0755));
    ASSIGN_OR_RETURN(server_, rpc::UnixServer::Start(options.socket, {service_.get()}));
    return base::OkStatus();
  }

 private:
  // Each member needs the ones above it, so the server comes last and is destroyed first.
  base::UniqueFd lock_;
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  std::unique_ptr<KataCalls> calls_;
  std::optional<base::WorkerPool> workers_;
  std::optional<base::WorkerPool> publishes_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<rpc::UnixServer> server_;
};

}  // namespace

base::StatusOr<std::unique_ptr<KataHandler>> KataHandler::Start(const KataHandlerOptions& options) {
  auto handler = std::make_unique<KataHandlerImpl>();
  RETURN_IF_ERROR_WITH(handler->Run(options), "start the CRUST handler of Kata");
  return handler;
}

}  // namespace berth::crust::kata
