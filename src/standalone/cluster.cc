#include "standalone/cluster.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "apiserver/access/authorization.h"
#include "apiserver/server.h"
#include "base/clock.h"
#include "base/flight.h"
#include "base/log.h"
#include "base/text.h"
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
#include "platform/errno.h"
#include "platform/files/disk_reserve.h"
#include "platform/files/durable_file.h"
#include "platform/files/private_folder.h"
#include "roles/roles.h"
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
    ASSIGN_OR_RETURN(server_,
                     apiserver::Server::Start(*store_, clock_,
                                              {.unix_socket = cli::ApiSocket(data_folder()),
                                               .port = options_.port,
                                               .certificate_folder = PathBelow("api/pki"),
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
      if (const Status written = WriteAgentKubeconfig(); !written.ok()) {
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
    ASSIGN_OR_RETURN(std::string root_ca, platform::ReadFile(PathBelow("api/pki/ca.crt")));
    controllers_.push_back(std::make_unique<controllers::namespaces::Namespaces>(
        context, controllers::namespaces::Options{.root_ca = std::move(root_ca)}));
    controllers_.push_back(std::make_unique<controllers::nodelifecycle::NodeLifecycle>(context));
    controllers_.push_back(std::make_unique<controllers::podgc::PodGc>(context));
    controllers_.push_back(std::make_unique<controllers::ownergc::OwnerGc>(context));
    // The socket "" stands for the roles of the cluster, the others for those of further drivers.
    std::vector<std::string> sockets = {""};
    sockets.insert(sockets.end(), options_.csi_drivers.begin(), options_.csi_drivers.end());
    for (const std::string& socket : sockets) {
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
      options.settings.block_operator.agents = MakeBlockAgentOptions();
      options.settings.exec_of = [this](std::string_view plugin) -> platform::Exec& {
        return node_->exec(plugin);
      };
      for (const roles::Role& role : roles::AllRoles()) {
        if (role.of_driver == !socket.empty()) options.roles.push_back(&role);
      }
      ASSIGN_OR_RETURN(auto roles, roles::RunningRoles::Make(options));
      roles_.push_back(std::move(roles));
    }
    return base::OkStatus();
  }

  // The path at which deploy/block-agent/agent.yaml mounts the machine's file system.
  static constexpr char kHost[] = "/host";

  std::string AgentKubeconfig() const { return PathBelow("block-agent.kubeconfig"); }

  // Writes the kubeconfig of the block agent's pod, which reaches the API by the socket below kHost
  // and acts as the block agent of this node.
  Status WriteAgentKubeconfig() const {
    const std::string server = fmt::format("unix://{}{}", kHost, cli::ApiSocket(data_folder()));
    const std::string agent =
        fmt::format("{}{}", apiserver::kBlockAgentPrefix, options_.node.node_name);
    base::Json config = {{"apiVersion", "v1"}, {"kind", "Config"}, {"current-context", "berth"}};
    config["clusters"][0] = {{"name", "berth"}, {"cluster", {{"server", server}}}};
    config["users"][0] = {{"name", "agent"}, {"user", {{"as", agent}}}};
    config["users"][0]["user"]["as-groups"][0] = std::string(apiserver::kBlockAgents);
    config["contexts"][0] = {{"name", "berth"},
                             {"context", {{"cluster", "berth"}, {"user", "agent"}}}};
    const std::string text = base::json::Dump(config);
    const auto written = platform::ReadFile(AgentKubeconfig());
    if (written.ok() && *written == text) return base::OkStatus();
    const std::string context = fmt::format("write '{}'", AgentKubeconfig());
    Status replaced = ReplaceAgentKubeconfig(text);
    if (replaced.code() == base::StatusCode::kResourceExhausted && reserve_->GiveUp()) {
      replaced = ReplaceAgentKubeconfig(text);
    }
    return base::Annotate(replaced, context);
  }

  // After a failure the old file is still there. LockDataFolder removes the temp file that a crash
  // leaves.
  Status ReplaceAgentKubeconfig(const std::string& text) const {
    std::string temp = PathBelow(".block-agent.kubeconfig.tmp-XXXXXX");
    const base::UniqueFd file(mkostemp(temp.data(), O_CLOEXEC));  // mode 0600
    if (!file.valid()) return platform::ErrnoError(errno, "make a temp file");
    Status written = platform::WriteAll(file.get(), text);
    if (written.ok() && rename(temp.c_str(), AgentKubeconfig().c_str()) != 0) {
      written = platform::ErrnoError(errno, "rename");
    }
    if (!written.ok()) unlink(temp.c_str());
    return written;
  }

  // Returns the options for the block agents' DaemonSets, which are made only if an image is given.
  controllers::blockoperator::AgentOptions MakeBlockAgentOptions() const {
    return {.install = false,  // StartApi has installed the kinds
            .deploy = !options_.block_agent_image.empty(),
            .ns = "kube-system",
            .image = options_.block_agent_image,
            .kubelet_folder = PathBelow("kubelet"),
            // Pods get no service account token here, and this API listens at an address of the
            // machine, so the agents use a kubeconfig.
            .service_account = "default",
            .agent_flags = {"--kubeconfig=" + (kHost + AgentKubeconfig()),
                            "--volume-plugin-dir=" + options_.node.volume_plugin_folder}};
  }

  // Makes the controller that decides where volumes are attached, and the controllers that attach
  // and grow the volumes of Flexvolume drivers.
  void MakeAttachers(const controllers::Context& context) {
    const volume::Paths paths(PathBelow("kubelet"));
    MoveOldDriverCopies(paths.FlexAttachDrivers());
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

  // The copies of drivers that an older Berth kept elsewhere, where no pod could run them. A
  // version that attached a volume must be able to detach it.
  void MoveOldDriverCopies(const std::string& store) const {
    constexpr char kOld[] = "api/flexvolume-drivers";
    if (access(PathBelow(kOld).c_str(), F_OK) != 0) return;
    const Status made = platform::MakeFolders(std::string(base::FolderOf(store)), 0750);
    // The kubelet folder is a mount onto itself while pods are there, and nothing is renamed from
    // one mount to another. A copy of the data folder's mount does not have it.
    base::UniqueFd data(
        open_tree(AT_FDCWD, data_folder().c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
    if (!data.valid()) data.Reset(open(data_folder().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    const std::string below = store.substr(data_folder().size() + 1);
    if (!made.ok() || renameat(data.get(), kOld, data.get(), below.c_str()) != 0) {
      LOG_WARNING("'{}' could not be moved to '{}': {}", PathBelow(kOld), store,
                  made.ok() ? strerror(errno) : base::ToString(made));
    }
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

std::string DatabasePath(const std::string& data_folder) { return data_folder + "/api/objects.db"; }

std::string TokenPath(const std::string& data_folder) { return data_folder + "/api/tokens.json"; }

std::string RevocationPath(const std::string& data_folder) {
  return data_folder + "/api/revoked.json";
}

StatusOr<std::unique_ptr<Cluster>> Cluster::Start(const ClusterOptions& options) {
  auto cluster = std::make_unique<ClusterImpl>(options);
  RETURN_IF_ERROR(cluster->Run());
  return cluster;
}

}  // namespace berth::standalone
