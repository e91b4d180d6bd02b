#include "standalone/cluster.h"

#include "apiserver/server.h"
#include "base/clock.h"
#include "base/flight.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "cli/connect.h"
#include "controllers/attachdetach/attach_detach.h"
#include "controllers/binder/binder.h"
#include "controllers/bootstrap/bootstrap.h"
#include "controllers/daemonset/daemon_sets.h"
#include "controllers/definitions.h"
#include "controllers/namespace/namespaces.h"
#include "controllers/nodelifecycle/node_lifecycle.h"
#include "controllers/ownergc/owner_gc.h"
#include "controllers/pluginattacher/plugin_attacher.h"
#include "controllers/pluginexpander/plugin_expander.h"
#include "controllers/podgc/pod_gc.h"
#include "controllers/protection/protection.h"
#include "controllers/scheduler/scheduler.h"
#include "platform/files/disk_reserve.h"
#include "platform/files/durable_file.h"
#include "platform/files/private_folder.h"
#include "roles/roles.h"
#include "standalone/api_access.h"
#include "standalone/block_agents.h"
#include "standalone/data_folder.h"
#include "standalone/flex_drivers.h"
#include "store/store.h"

namespace berth::standalone {
namespace {

using base::Status;
using base::StatusOr;

constexpr std::chrono::seconds kStartTimeout{30};  // for each part of the start

// Gives the store the reserve of the data folder, which all records below the folder share with it.
class StoreReserve : public store::Reserve {
 public:
  static StatusOr<std::unique_ptr<StoreReserve>> Open(const std::string& folder) {
    auto reserve = std::make_unique<StoreReserve>();
    ASSIGN_OR_RETURN(reserve->disk_, platform::DiskReserve::Open({.folder = folder}));
    return reserve;
  }
  bool GiveUp() override { return disk_->GiveUp(); }
  bool IsGivenUp() override { return disk_->IsGivenUp(); }

 private:
  std::unique_ptr<platform::DiskReserve> disk_;
};

class ClusterImpl : public Cluster {
 public:
  explicit ClusterImpl(const ClusterOptions& options) : options_(options) {}

  ~ClusterImpl() override {
    if (node_ != nullptr) node_->Stop();
    for (auto& roles : roles_) roles->Stop();
    if (flex_ != nullptr) flex_->Stop();
    for (auto& controller : controllers_) controller->Stop();
    if (access_ != nullptr) access_->informers->Stop();
  }

  Status Run() {
    ASSIGN_OR_RETURN(options_.node, CompleteOptions(options_.node));
    RETURN_IF_ERROR(PrepareFolder());
    RETURN_IF_ERROR(StartApi());
    RETURN_IF_ERROR(MakeControllers());
    ASSIGN_OR_RETURN(node_, LocalNode::Start(options_.node, {*access_, clock_, flight_.get(),
                                                             /*first_of_cluster=*/true}));
    access_->informers->Start();
    RETURN_IF_ERROR(access_->informers->WaitForSync(kStartTimeout));
    RETURN_IF_ERROR(flex_->Start());
    for (auto& controller : controllers_) controller->Start();
    for (auto& roles : roles_) roles->Start();
    node_->StartControllers();
    return base::OkStatus();
  }

 private:
  const std::string& data_folder() const { return options_.node.data_folder; }
  std::string PathBelow(std::string_view name) const {
    return fmt::format("{}/{}", data_folder(), name);
  }

  BlockAgentPods block_agent_pods() const {
    return {.data_folder = data_folder(),
            .node_name = options_.node.node_name,
            .volume_plugin_folder = options_.node.volume_plugin_folder,
            .image = options_.block_agent_image};
  }

  Status PrepareFolder() {
    ASSIGN_OR_RETURN(folder_lock_, LockDataFolder(data_folder()));
    ASSIGN_OR_RETURN(reserve_, StoreReserve::Open(data_folder()));
    RETURN_IF_ERROR(platform::MakePrivateFolder(PathBelow("api")));
    ASSIGN_OR_RETURN(flight_, base::FlightRecorder::Open(
                                  cli::FlightFile(data_folder(), "controllers"), "controllers"));
    return base::OkStatus();
  }

  Status StartApi() {
    ASSIGN_OR_RETURN(store_, store::Store::Open(
                                 {.path = DatabasePath(data_folder()), .reserve = reserve_.get()}));
    ASSIGN_OR_RETURN(
        server_, apiserver::Server::Start(*store_, clock_,
                                          {.unix_socket = cli::ApiSocket(data_folder()),
                                           .port = options_.port,
                                           .certificate_folder = CertificateFolder(data_folder()),
                                           .kubeconfig = PathBelow("kubeconfig"),
                                           .node_sockets = options_.node.node_sockets,
                                           .node_name = options_.node.node_name,
                                           .node_kubeconfig = PathBelow("node.kubeconfig"),
                                           .token_file = TokenPath(data_folder()),
                                           .revocation_file = RevocationPath(data_folder())}));
    const auto make_client =
        [this](const std::string& user,
               const std::vector<std::string>& groups) -> StatusOr<std::unique_ptr<kube::Client>> {
      return server_->NewLocalClient({.impersonate_user = user, .impersonate_groups = groups});
    };
    ASSIGN_OR_RETURN(access_, ApiAccess::New(make_client, options_.node.node_name, clock_));
    RETURN_IF_ERROR(
        controllers::bootstrap::CreateStandaloneObjects(*access_->client, LocalDriverName()));
    RETURN_IF_ERROR(controllers::InstallDefinitions(
        *access_->client, controllers::SnapshotDefinitions(), kStartTimeout));
    return controllers::InstallDefinitions(*access_->client, controllers::BlockDefinitions(),
                                           kStartTimeout);
  }

  Status MakeControllers() {
    if (!options_.block_agent_image.empty()) {
      // Without this kubeconfig the block agents wait, but `berth up` still starts, so that a
      // person can free room on a full disk.
      if (const Status written = WriteBlockAgentKubeconfig(block_agent_pods()); !written.ok()) {
        LOG_ERROR("the block agents have no kubeconfig of this start: {}", base::ToString(written));
      }
    }
    const controllers::Context context{*access_->client, *access_->informers,
                                       *access_->controller_events, clock_, flight_.get()};
    controllers_.push_back(std::make_unique<controllers::binder::Binder>(context));
    controllers_.push_back(std::make_unique<controllers::scheduler::Scheduler>(context));
    MakeAttachers(context);
    controllers_.push_back(std::make_unique<controllers::protection::Protection>(context));
    controllers_.push_back(std::make_unique<controllers::daemonset::DaemonSets>(context));
    ASSIGN_OR_RETURN(std::string root_ca,
                     platform::ReadFile(CertificateFolder(data_folder()) + "/ca.crt"));
    controllers_.push_back(std::make_unique<controllers::namespaces::Namespaces>(
        context, controllers::namespaces::Options{.root_ca = std::move(root_ca)}));
    controllers_.push_back(std::make_unique<controllers::nodelifecycle::NodeLifecycle>(context));
    controllers_.push_back(std::make_unique<controllers::podgc::PodGc>(context));
    controllers_.push_back(std::make_unique<controllers::ownergc::OwnerGc>(context));
    // The socket "" stands for the roles of the cluster, the others for those of further drivers.
    std::vector<std::string> sockets = {""};
    sockets.insert(sockets.end(), options_.csi_drivers.begin(), options_.csi_drivers.end());
    for (const std::string& socket : sockets) RETURN_IF_ERROR(MakeRoles(socket, context));
    return base::OkStatus();
  }

  Status MakeRoles(const std::string& socket, const controllers::Context& context) {
    roles::RunningRoles::Options options{.socket = socket,
                                         .connection = {.flight = flight_.get()},
                                         .context = [&](const roles::Role&) { return context; }};
    options.settings.provisioner.intents = {.ns = "kube-system",
                                            .lineage = std::string(roles::kSoleLineage)};
    // No pod owns the capacity objects, so they live as long as this API does.
    options.settings.enable_capacity = true;
    options.settings.capacity.ns = "kube-system";
    options.settings.capacity.owner_level = -1;
    // The shipped driver takes a snapshot on the node of the volume.
    options.settings.snapshot_controller.distributed_snapshotting = true;
    options.settings.block_operator.agents = MakeBlockAgentOptions(block_agent_pods());
    options.settings.exec_of = [this](std::string_view plugin) -> platform::Exec& {
      return node_->exec(plugin);
    };
    for (const roles::Role& role : roles::AllRoles()) {
      if (role.of_driver == !socket.empty()) options.roles.push_back(&role);
    }
    ASSIGN_OR_RETURN(auto roles, roles::RunningRoles::Make(options));
    roles_.push_back(std::move(roles));
    return base::OkStatus();
  }

  // Makes the controller that decides where volumes are attached, and the controllers that attach
  // and grow the volumes of Flexvolume drivers.
  void MakeAttachers(const controllers::Context& context) {
    const volume::Paths paths(KubeletFolder(data_folder()));
    MoveOldDriverCopies(data_folder(), paths.FlexAttachDrivers());
    flex_ = std::make_unique<FlexAttachers>(
        options_.node.volume_plugin_folder, paths.FlexAttachDrivers(), paths,
        [this](std::string_view driver) -> platform::Exec& { return node_->exec(driver); });
    auto attach_detach = std::make_unique<controllers::attachdetach::AttachDetach>(
        context, controllers::attachdetach::Options{.plugins = &flex_->registry()});
    auto attacher =
        std::make_unique<controllers::pluginattacher::PluginAttacher>(context, flex_->registry());
    auto expander =
        std::make_unique<controllers::pluginexpander::PluginExpander>(context, flex_->registry());
    flex_->SetOnChange([a = attach_detach.get(), b = attacher.get(),
                        c = expander.get()](const std::string& driver) {
      a->PluginChanged(driver);
      b->PluginChanged(driver);
      c->PluginChanged(driver);
    });
    controllers_.push_back(std::move(attach_detach));
    controllers_.push_back(std::move(attacher));
    controllers_.push_back(std::move(expander));
  }

  ClusterOptions options_;
  const base::SystemClock clock_;

  // The parts are made in this order, and destroyed in reverse order.
  base::UniqueFd folder_lock_;
  std::unique_ptr<StoreReserve> reserve_;
  std::unique_ptr<base::FlightRecorder> flight_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<apiserver::Server> server_;
  std::unique_ptr<ApiAccess> access_;
  std::unique_ptr<FlexAttachers> flex_;
  std::vector<std::unique_ptr<controllers::Controller>> controllers_;
  std::vector<std::unique_ptr<roles::RunningRoles>> roles_;
  std::unique_ptr<LocalNode> node_;
};

}  // namespace

StatusOr<std::unique_ptr<Cluster>> Cluster::Start(const ClusterOptions& options) {
  auto cluster = std::make_unique<ClusterImpl>(options);
  RETURN_IF_ERROR(cluster->Run());
  return cluster;
}

}  // namespace berth::standalone
