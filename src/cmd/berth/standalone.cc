#include "cmd/berth/standalone.h"

#include <unistd.h>

#include "apiserver/server.h"
#include "base/clock.h"
#include "base/flight.h"
#include "base/log.h"
#include "cli/connect.h"
#include "cmd/roles.h"
#include "controllers/attachdetach/attach_detach.h"
#include "controllers/binder/binder.h"
#include "controllers/bootstrap/bootstrap.h"
#include "controllers/bootstrap/definitions.h"
#include "controllers/daemonset/daemon_sets.h"
#include "controllers/namespace/namespaces.h"
#include "controllers/nodelifecycle/node_lifecycle.h"
#include "controllers/ownergc/owner_gc.h"
#include "controllers/podgc/pod_gc.h"
#include "controllers/protection/protection.h"
#include "controllers/scheduler/scheduler.h"
#include "csidriver/driver.h"
#include "kube/event_recorder.h"
#include "kube/http_client.h"
#include "node/node_agent.h"
#include "platform/durable_file.h"
#include "platform/supervised_process.h"
#include "store/store.h"
#include "volume/csi/csi_plugin.h"
#include "volume/local/local_plugins.h"
#include "volume/paths.h"

namespace berth::cmd {
namespace {

using base::Status;
using base::StatusOr;

constexpr std::chrono::seconds kStartTimeout{30};  // for each part of the start

std::string HostName() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

class StandaloneImpl : public Standalone {
 public:
  explicit StandaloneImpl(const UpOptions& options)
      : options_(options),
        node_name_(options.node_name.empty() ? HostName() : options.node_name),
        paths_(options.data_folder + "/kubelet") {}

  ~StandaloneImpl() override {
    if (node_ != nullptr) node_->Stop();
    for (auto& roles : roles_) roles->Stop();
    for (auto& controller : controllers_) controller->Stop();
    if (informers_ != nullptr) informers_->Stop();
  }

  Status Run() {
    RETURN_IF_ERROR(TakeFolder());
    RETURN_IF_ERROR(StartApi());
    RETURN_IF_ERROR(StartDriver());
    RETURN_IF_ERROR(MakeControllers());
    RETURN_IF_ERROR(StartNode());
    informers_->Start();
    RETURN_IF_ERROR(informers_->WaitForSync(kStartTimeout));
    for (auto& controller : controllers_) controller->Start();
    for (auto& roles : roles_) roles->Start();
    return base::OkStatus();
  }

 private:
  std::string Below(std::string_view name) const {
    return fmt::format("{}/{}", options_.data_folder, name);
  }

  Status TakeFolder() {
    // The longest path of a socket below the folder (unix(7): sun_path).
    constexpr size_t kMaxSocketPath = 107;
    const std::string longest =
        fmt::format("{}/{}-reg.sock", paths_.PluginsRegistry(), driver_.name);
    if (longest.size() > kMaxSocketPath) {
      return base::Error(
          base::StatusCode::kInvalidArgument,
          "the path of the data folder '{}' is too long by {} bytes for the sockets below it",
          options_.data_folder, longest.size() - kMaxSocketPath);
    }
    RETURN_IF_ERROR(platform::MakeFolders(options_.data_folder, 0700));
    auto lock = platform::LockFile(Below("berth.lock"));
    if (lock.status().code() == base::StatusCode::kFailedPrecondition) {
      return base::Error(base::StatusCode::kFailedPrecondition,
                         "the data folder '{}' is in use by another 'berth up'",
                         options_.data_folder);
    }
    RETURN_IF_ERROR(lock);
    folder_lock_ = *std::move(lock);
    // Of a kubeconfig, with its key.
    RETURN_IF_ERROR(platform::RemoveTornWrites(options_.data_folder));
    for (const char* name : {"api", "kubelet", "run", "run/nodes"}) {
      RETURN_IF_ERROR(platform::MakeFolders(Below(name), 0755));
    }
    RETURN_IF_ERROR(platform::MakeFolders(Below("flight"), 0700));
    ASSIGN_OR_RETURN(
        flight_, base::FlightRecorder::Open(cli::FlightFile(options_.data_folder, "controllers"),
                                            "controllers"));
    return base::OkStatus();
  }

  Status StartApi() {
    ASSIGN_OR_RETURN(store_, store::Store::Open({.path = DatabasePath(options_.data_folder)}));
    ASSIGN_OR_RETURN(server_,
                     apiserver::Server::Start(*store_, clock_,
                                              {.unix_socket = cli::ApiSocket(options_.data_folder),
                                               .port = options_.port,
                                               .certificate_folder = Below("api/pki"),
                                               .kubeconfig = Below("kubeconfig"),
                                               .node_sockets = Below("run/nodes"),
                                               .node_name = node_name_,
                                               .node_kubeconfig = Below("node.kubeconfig"),
                                               .token_file = TokenPath(options_.data_folder)}));
    kube::Config config;
    config.socket = cli::ApiSocket(options_.data_folder);
    ASSIGN_OR_RETURN(client_, kube::NewHttpClient(config));
    // The node agent has no more rights than its node: it may do what one on another machine could.
    config.impersonate_user = "system:node:" + node_name_;
    config.impersonate_groups = {"system:nodes"};
    ASSIGN_OR_RETURN(node_client_, kube::NewHttpClient(config));
    RETURN_IF_ERROR(controllers::bootstrap::CreateStandaloneObjects(*client_, driver_.name));
    RETURN_IF_ERROR(controllers::bootstrap::InstallSnapshotDefinitions(*client_, kStartTimeout));
    informers_ = std::make_unique<kube::Informers>(*client_);
    controller_events_ =
        std::make_unique<kube::EventRecorder>(*client_, clock_, "berth-controllers", node_name_);
    node_events_ =
        std::make_unique<kube::EventRecorder>(*node_client_, clock_, "berth-node", node_name_);
    return base::OkStatus();
  }

  Status StartDriver() {
    driver_.endpoint = paths_.PluginSocket(driver_.name);
    driver_.pool_folder = options_.pool_folder.empty() ? Below("pool") : options_.pool_folder;
    RETURN_IF_ERROR(platform::MakeFolders(paths_.PluginsRegistry(), 0755));
    driver_process_.emplace(platform::SupervisedProcess::Options{
        .name = "the CSI driver",
        .argv = {"/proc/self/exe", "csi-driver", "--driver-name", driver_.name, "--node-id",
                 node_name_, "--pool", driver_.pool_folder, "--endpoint", driver_.endpoint,
                 "--registration-folder", paths_.PluginsRegistry(), "--overcommit",
                 fmt::format("{}", options_.overcommit), "--flight",
                 cli::FlightFile(options_.data_folder, "csi-driver")}});
    return base::OkStatus();
  }

  Status MakeControllers() {
    const controllers::Context context{*client_, *informers_, *controller_events_, clock_,
                                       flight_.get()};
    controllers_.push_back(std::make_unique<controllers::binder::Binder>(
        context,
        controllers::binder::Options{.provisioned_here = [this](const std::string& driver) {
          return std::any_of(roles_.begin(), roles_.end(), [&](const auto& roles) {
            const auto info = roles->driver();
            return info != nullptr && info->name == driver;
          });
        }}));
    controllers_.push_back(std::make_unique<controllers::scheduler::Scheduler>(context));
    controllers_.push_back(std::make_unique<controllers::attachdetach::AttachDetach>(context));
    controllers_.push_back(std::make_unique<controllers::protection::Protection>(context));
    controllers_.push_back(std::make_unique<controllers::daemonset::DaemonSets>(context));
    ASSIGN_OR_RETURN(std::string root_ca, platform::ReadFile(Below("api/pki/ca.crt")));
    controllers_.push_back(std::make_unique<controllers::namespaces::Namespaces>(
        context, controllers::namespaces::Options{.root_ca = std::move(root_ca)}));
    controllers_.push_back(std::make_unique<controllers::nodelifecycle::NodeLifecycle>(context));
    controllers_.push_back(std::make_unique<controllers::podgc::PodGc>(context));
    controllers_.push_back(std::make_unique<controllers::ownergc::OwnerGc>(context));
    // The roles of the cluster, and of each driver.
    std::vector<std::string> sockets = {"", driver_.endpoint};
    sockets.insert(sockets.end(), options_.csi_drivers.begin(), options_.csi_drivers.end());
    for (const std::string& socket : sockets) {
      RunningRoles::Options options{.socket = socket,
                                    .connection = {.flight = flight_.get()},
                                    .context = [&](const Role&) { return context; }};
      // No pod owns the objects: they live as long as this API does.
      options.settings.enable_capacity = true;
      options.settings.capacity.ns = "kube-system";
      options.settings.capacity.owner_level = -1;
      for (const Role& role : AllRoles()) {
        if (role.of_driver == !socket.empty()) options.roles.push_back(&role);
      }
      ASSIGN_OR_RETURN(auto roles, RunningRoles::Make(options));
      roles_.push_back(std::move(roles));
    }
    return base::OkStatus();
  }

  Status StartNode() {
    const node::NodeAgentOptions options{
        .node_name = node_name_,
        .data_folder = Below("node"),
        .kubelet_folder = paths_.root(),
        .cri_endpoint = options_.runtime_endpoint,
        .node_sockets = Below("run/nodes"),
        .log_folder = Below("pod-logs"),
        .own_folder = options_.data_folder,
        .flight_file = cli::FlightFile(options_.data_folder, "node")};
    const auto make_plugins = [](volume::Host& host) {
      auto plugins = volume::NewLocalPlugins(host);
      plugins.push_back(volume::NewCsiPlugin(host));
      return plugins;
    };
    ASSIGN_OR_RETURN(node_, node::NodeAgent::Start(options, *node_client_, *informers_,
                                                   *node_events_, clock_, make_plugins));
    return base::OkStatus();
  }

  const UpOptions options_;
  const std::string node_name_;
  const volume::Paths paths_;
  const base::SystemClock clock_;
  csidriver::DriverOptions driver_;

  // In the order of their making; the end goes the other way round.
  base::UniqueFd folder_lock_;
  std::unique_ptr<base::FlightRecorder> flight_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<apiserver::Server> server_;
  std::unique_ptr<kube::Client> client_, node_client_;
  std::unique_ptr<kube::EventRecorder> controller_events_, node_events_;
  std::unique_ptr<kube::Informers> informers_;
  std::optional<platform::SupervisedProcess> driver_process_;
  std::vector<std::unique_ptr<controllers::Controller>> controllers_;
  std::vector<std::unique_ptr<RunningRoles>> roles_;
  std::unique_ptr<node::NodeAgent> node_;
};

}  // namespace

std::string DatabasePath(const std::string& data_folder) { return data_folder + "/api/objects.db"; }

std::string TokenPath(const std::string& data_folder) { return data_folder + "/api/tokens.json"; }

StatusOr<std::unique_ptr<Standalone>> Standalone::Start(const UpOptions& options) {
  auto standalone = std::make_unique<StandaloneImpl>(options);
  RETURN_IF_ERROR(standalone->Run());
  return standalone;
}

}  // namespace berth::cmd
