#include "standalone/further_node.h"

#include "base/clock.h"
#include "base/flight.h"
#include "base/log.h"
#include "base/pause.h"
#include "cli/connect.h"
#include "kube/config.h"
#include "kube/http/http_client.h"
#include "platform/files/disk_reserve.h"
#include "standalone/api_access.h"
#include "standalone/data_folder.h"

namespace berth::standalone {
namespace {

constexpr std::chrono::milliseconds kSyncPause{500};

}  // namespace

base::Status RunFurtherNode(const LocalNodeOptions& given, const std::string& kubeconfig,
                            const std::stop_token& stop) {
  ASSIGN_OR_RETURN(const LocalNodeOptions options, CompleteOptions(given));
  ASSIGN_OR_RETURN(const kube::Config config,
                   kube::LoadKubeconfig(kube::FindKubeconfigPath(kubeconfig)));
  ASSIGN_OR_RETURN(const base::UniqueFd lock, LockDataFolder(options.data_folder));
  ASSIGN_OR_RETURN(const auto reserve,
                   platform::DiskReserve::Open({.folder = options.data_folder}));
  ASSIGN_OR_RETURN(const auto flight,
                   base::FlightRecorder::Open(cli::FlightFile(options.data_folder, "controllers"),
                                              "controllers"));
  const base::SystemClock clock;
  const auto make_client = [&](const std::string& user, const std::vector<std::string>& groups) {
    kube::Config as = config;
    if (!user.empty()) {
      as.impersonate_user = user;
      as.impersonate_groups = groups;
    }
    return kube::NewHttpClient(as);
  };
  ASSIGN_OR_RETURN(const auto api, ApiAccess::New(make_client, options.node_name, clock));
  ASSIGN_OR_RETURN(const auto node, LocalNode::Start(options, {*api, clock, flight.get()}));
  api->informers->Start();
  LOG_INFO("node '{}' runs; data folder: {}", options.node_name, options.data_folder);
  while (!stop.stop_requested() && !api->informers->WaitForSync(kSyncPause).ok()) {
  }
  if (!stop.stop_requested()) node->StartControllers();
  base::WaitForStop(stop);
  LOG_INFO("stopping; pods keep running");
  node->Stop();
  api->informers->Stop();
  return base::OkStatus();
}

}  // namespace berth::standalone
