#include "standalone/local_node.h"

#include <unistd.h>

#include <filesystem>
#include <optional>

#include "api/names.h"
#include "cli/connect.h"
#include "csidriver/driver.h"
#include "node/node_agent.h"
#include "platform/files/durable_file.h"
#include "platform/processes/supervised_process.h"
#include "roles/health.h"
#include "roles/roles.h"
#include "rpc/unix_socket.h"
#include "standalone/data_folder.h"
#include "standalone/flex_drivers.h"
#include "volume/csi/csi_plugin.h"
#include "volume/exec/router.h"
#include "volume/local/local_plugins.h"
#include "volume/paths.h"
#include "volume/remote/remote_plugins.h"

namespace berth::standalone {
namespace {

using base::Status;
using base::StatusCode;
using base::StatusOr;

// How long a node waits before it tries to provision a claim that binds at once. The time is short,
// because there are few nodes, and a conflict costs only one write.
constexpr std::chrono::milliseconds kElectionDelay{200};
constexpr std::chrono::milliseconds kLongestElectionDelay{5000};

std::string ReadHostName() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

class LocalNodeImpl : public LocalNode {
 public:
  LocalNodeImpl(const LocalNodeOptions& options, const Surroundings& surroundings)
      : options_(options),
        surroundings_(surroundings),
        paths_(KubeletFolder(options.data_folder)) {}

  ~LocalNodeImpl() override { Stop(); }

  Status Run() {
    ASSIGN_OR_RETURN(endpoints_,
                     roles::ServeHealth(
                         {.http_address = options_.http_endpoint}, metrics_,
                         {{"/healthz", [] { return roles::HttpEndpoint::Answer{.body = "ok"}; }}}));
    RETURN_IF_ERROR(StartDriver());
    RETURN_IF_ERROR(MakeRoles());
    return StartAgent();
  }

  void StartControllers() override { roles_->Start(); }
  platform::Exec& exec(std::string_view plugin) override { return utilities_->GetExec(plugin); }

  void Stop() override {
    if (agent_ != nullptr) agent_->Stop();
    if (roles_ != nullptr) roles_->Stop();
  }

 private:
  std::string PathBelow(std::string_view name) const {
    return fmt::format("{}/{}", options_.data_folder, name);
  }

  Status StartDriver() {
    driver_.endpoint = paths_.PluginSocket(driver_.name);
    RETURN_IF_ERROR(platform::MakeFolders(paths_.PluginsRegistry(), 0755));
    platform::SupervisedProcess::Options options{
        .name = "the CSI driver",
        .argv = {"/proc/self/exe", "csi-driver", "--driver-name", driver_.name, "--node-id",
                 options_.node_name, "--pool", options_.pool_folder, "--endpoint", driver_.endpoint,
                 "--registration-folder", paths_.PluginsRegistry(), "--overcommit",
                 fmt::format("{}", options_.overcommit), "--inline-share",
                 fmt::format("{}", options_.inline_share), "--flight",
                 cli::FlightFile(options_.data_folder, "csi-driver")}};
    if (options_.keep_free.has_value()) {
      options.argv.insert(options.argv.end(),
                          {"--keep-free", fmt::format("{}", *options_.keep_free)});
    }
    if (options_.mount_containers) {
      options.argv.insert(options.argv.end(),
                          {"--container-runtime-endpoint", options_.runtime_endpoint,
                           "--kubelet-dir", paths_.root()});
    }
    driver_process_.emplace(std::move(options));
    return base::OkStatus();
  }

  Status MakeRoles() {
    roles::RunningRoles::Options options{
        .socket = driver_.endpoint,
        .connection = {.flight = surroundings_.flight},
        .context = [this](const roles::Role&) -> controllers::Context {
          ApiAccess& api = surroundings_.api;
          return {*api.client, *api.informers, *api.controller_events, surroundings_.clock,
                  surroundings_.flight};
        }};
    for (const roles::Role& role : roles::AllRoles()) {
      if (role.of_driver && (role.of_node || surroundings_.first_of_cluster)) {
        options.roles.push_back(&role);
      }
    }
    roles::RoleSettings& settings = options.settings;
    settings.provisioner.node_deployment = {.node_name = options_.node_name,
                                            .watch_nodes = true,
                                            .base_delay = kElectionDelay,
                                            .max_delay = kLongestElectionDelay};
    settings.provisioner.intents = {.ns = "kube-system",
                                    .lineage = std::string(roles::kSoleLineage)};
    settings.resizer.node_name = options_.node_name;
    settings.snapshotter.node_name = options_.node_name;
    settings.snapshotter.takes_unassigned = surroundings_.first_of_cluster;
    // The Node owns the capacity objects, so they live as long as the Node does.
    settings.enable_capacity = true;
    settings.capacity.ns = "kube-system";
    settings.capacity.owner_level = -1;
    settings.capacity.node_owns = true;
    ASSIGN_OR_RETURN(roles_, roles::RunningRoles::Make(options));
    return base::OkStatus();
  }

  volume::MakeUtilities MakeUtilitiesFactory() {
    return [this](const volume::UtilitySurroundings& around)
               -> StatusOr<std::unique_ptr<volume::Utilities>> {
      const volume::HostWay host{.containerized = options_.containerized};
      StatusOr<std::unique_ptr<volume::Utilities>> made =
          options_.mount_containers ? volume::NewUtilityRouter(around, host)
                                    : StatusOr<std::unique_ptr<volume::Utilities>>(
                                          volume::NewHostUtilities(around.mounter, host));
      if (made.ok()) utilities_ = made->get();
      return made;
    };
  }

  Status StartAgent() {
    node::NodeAgentOptions options{
        .node_name = options_.node_name,
        .data_folder = PathBelow("node"),
        .kubelet_folder = paths_.root(),
        .cri_endpoint = options_.runtime_endpoint,
        .node_sockets = options_.node_sockets,
        .log_folder = PathBelow("pod-logs"),
        .own_folder = options_.data_folder,
        .labels = options_.labels,
        .lease_duration = options_.lease_duration,
        .flight_file = cli::FlightFile(options_.data_folder, "node"),
        .utility_socket = options_.utility_socket,
        .refuse_shared_sandbox_writers = options_.refuse_shared_sandbox_writers,
        .make_utilities = MakeUtilitiesFactory(),
        .metrics = &metrics_};
    if (!options_.crust_run_folder.empty()) options.crust_run_folder = options_.crust_run_folder;
    const auto make_plugins = [this](volume::Host& host) {
      node::NodeAgent::Plugins plugins;
      for (auto& plugin : volume::NewLocalPlugins(host)) plugins.fixed.push_back(std::move(plugin));
      for (auto& plugin : volume::NewRemotePlugins(host))
        plugins.fixed.push_back(std::move(plugin));
      plugins.fixed.push_back(volume::NewCsiPlugin(host));
      plugins.probers.push_back(NewNodeFlexProber(options_.volume_plugin_folder, host));
      return plugins;
    };
    ApiAccess& api = surroundings_.api;
    ASSIGN_OR_RETURN(
        agent_, node::NodeAgent::Start(options, *api.node_client, *api.informers, *api.node_events,
                                       surroundings_.clock, make_plugins));
    return base::OkStatus();
  }

  const LocalNodeOptions options_;
  const Surroundings surroundings_;
  const volume::Paths paths_;
  csidriver::DriverOptions driver_;

  // The parts, in the order in which they are made. They are destroyed in reverse order.
  base::Metrics metrics_;
  std::vector<std::unique_ptr<roles::HttpEndpoint>> endpoints_;
  std::optional<platform::SupervisedProcess> driver_process_;
  std::unique_ptr<roles::RunningRoles> roles_;
  std::unique_ptr<node::NodeAgent> agent_;
  volume::Utilities* utilities_ = nullptr;  // the agent's, once it is started
};

std::string AbsolutePath(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal();
}

}  // namespace

std::string LocalDriverName() { return csidriver::DriverOptions().name; }

StatusOr<LocalNodeOptions> CompleteOptions(LocalNodeOptions options) {
  if (options.node_name.empty()) options.node_name = ReadHostName();
  RETURN_IF_ERROR_WITH(api::CheckDns1123Subdomain(options.node_name), "the node's name");
  options.data_folder = AbsolutePath(options.data_folder);
  const std::string& data = options.data_folder;
  options.node_sockets =
      options.node_sockets.empty() ? data + "/run/nodes" : AbsolutePath(options.node_sockets);
  options.volume_plugin_folder = options.volume_plugin_folder.empty()
                                     ? VolumePluginFolder(data)
                                     : AbsolutePath(options.volume_plugin_folder);
  options.utility_socket = options.utility_socket.empty() ? data + "/run/utilities.sock"
                                                          : AbsolutePath(options.utility_socket);
  options.pool_folder =
      options.pool_folder.empty() ? PoolFolder(data) : AbsolutePath(options.pool_folder);
  const std::string longest = fmt::format(
      "{}/{}-reg.sock", volume::Paths(KubeletFolder(data)).PluginsRegistry(), LocalDriverName());
  if (longest.size() > rpc::kLongestSocketPath) {
    return base::Error(
        StatusCode::kInvalidArgument,
        "the path of the data folder '{}' is too long by {} bytes for the sockets below it", data,
        longest.size() - rpc::kLongestSocketPath);
  }
  return options;
}

StatusOr<std::unique_ptr<LocalNode>> LocalNode::Start(const LocalNodeOptions& options,
                                                      const Surroundings& surroundings) {
  auto node = std::make_unique<LocalNodeImpl>(options, surroundings);
  RETURN_IF_ERROR(node->Run());
  return std::unique_ptr<LocalNode>(std::move(node));
}

}  // namespace berth::standalone
