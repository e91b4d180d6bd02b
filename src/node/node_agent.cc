#include "node/node_agent.h"

#include <thread>

#include "base/flight.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "kube/node_reference.h"
#include "node/drivers/csi_node.h"
#include "node/drivers/driver_limits.h"
#include "node/drivers/flex_reports.h"
#include "node/drivers/plugin_registration.h"
#include "node/hostmounts/host_mounts.h"
#include "node/node_host.h"
#include "node/node_status.h"
#include "node/pods/pod_manager.h"
#include "node/streaming/streaming_backend.h"
#include "node/streaming/streaming_server.h"
#include "node/utilities/utility_service.h"
#include "node/volumes/volume_manager.h"
#include "platform/files/durable_file.h"
#include "platform/files/private_folder.h"
#include "rpc/cri_client.h"

namespace berth::node {

namespace {

using base::Status;
using base::StatusCode;
using base::StatusOr;

class NodeAgentImpl : public NodeAgent {
 public:
  NodeAgentImpl(const NodeAgentOptions& options, kube::Client& client, kube::Informers& informers,
                base::EventSink& events, const base::Clock& clock)
      : options_(options),
        client_(client),
        informers_(informers),
        events_(events),
        clock_(clock),
        nodes_(informers.Of<api::Node>()) {}

  ~NodeAgentImpl() override { Stop(); }

  Status StartParts(const MakePlugins& make_plugins) {
    RETURN_IF_ERROR(LockAndMakeFolders());
    RETURN_IF_ERROR(MakeParts(make_plugins));
    // The plugins come before the records, because the records name plugins.
    RETURN_IF_ERROR_WITH(plugins_->Init(), "volume plugins");
    flex_reports_->Start();
    RETURN_IF_ERROR(
        volumes_->Start([this](const std::string& uid) { pods_->OnVolumesChanged(uid); }));
    pods_->Start();
    if (own_pods_ != nullptr) own_pods_->Start();
    node_status_->Start();
    RETURN_IF_ERROR(registration_->Start());
    driver_limits_->Start();
    ASSIGN_OR_RETURN(
        streams_,
        StreamingServer::Start(fmt::format("{}/{}.sock", options_.node_sockets, options_.node_name),
                               *stream_backend_, clock_));
    RETURN_IF_ERROR(ServeUtilities());
    after_sync_ = std::jthread([this](std::stop_token stop) { StartAfterSync(stop); });
    return base::OkStatus();
  }

  void Stop() override {
    if (std::exchange(stopped_, true)) return;
    // The end of the streams must not wait for a runtime that does not answer.
    if (stream_cri_ != nullptr) stream_cri_->CancelAll();
    streams_.reset();
    if (after_sync_.joinable()) {
      after_sync_.request_stop();
      after_sync_.join();
    }
    if (host_ != nullptr) host_->SetEnding();
    // Calls to drivers are cancelled, because Stop() must not wait for a driver that hangs. The
    // records keep that the outcome of such a call is unknown.
    if (plugins_ != nullptr) {
      for (const auto& plugin : plugins_->ListPlugins()) plugin->CancelCalls();
      plugins_->Stop();
      flex_reports_->Stop();
    }
    if (host_mounts_ != nullptr) host_mounts_->Stop();
    if (driver_limits_ != nullptr) driver_limits_->Stop();
    if (registration_ != nullptr) registration_->Stop();
    if (node_status_ != nullptr) node_status_->Stop();
    if (own_pods_ != nullptr) own_pods_->Stop();
    if (pods_ != nullptr) pods_->Stop();
    if (volumes_ != nullptr) volumes_->Stop();
    utility_service_.reset();
    if (host_ != nullptr) host_->utilities().Close();
    UnmountUnusedKubeletFolder();
  }

 private:
  std::string DataPath(std::string_view name) const {
    return fmt::format("{}/{}", options_.data_folder, name);
  }

  void WarnOfDriver(std::string_view reason, const Status& why) {
    events_.Record(kube::NodeReference(options_.node_name), base::EventType::kWarning, reason,
                   base::Message(why));
  }

  Status ServeUtilities() {
    if (options_.utility_socket.empty()) return base::OkStatus();
    volume::Utilities& utilities = host_->utilities();
    ASSIGN_OR_RETURN(
        utility_service_,
        UtilityService::Start({.socket = options_.utility_socket,
                               .kubelet_folder = options_.kubelet_folder,
                               .in_pod = [&](std::string_view plugin) -> platform::Exec& {
                                 return utilities.GetPodExec(plugin);
                               },
                               .cancel = [&] { utilities.CancelRuns(); }},
                              host_->mounter()));
    return base::OkStatus();
  }

  Status LockAndMakeFolders() {
    RETURN_IF_ERROR(platform::MakePrivateFolder(options_.data_folder));
    auto lock = platform::LockFile(DataPath("lock"));
    if (lock.status().code() == StatusCode::kFailedPrecondition) {
      return base::Error(StatusCode::kFailedPrecondition,
                         "another node agent runs on the data folder '{}'", options_.data_folder);
    }
    RETURN_IF_ERROR(lock);
    lock_ = *std::move(lock);
    RETURN_IF_ERROR(platform::MakePrivateFolder(options_.node_sockets));
    RETURN_IF_ERROR(platform::MakeFolders(options_.log_folder, 0755));
    return platform::MakeFolders(options_.kubelet_folder + "/pods", 0750);
  }

  Status MakeParts(const MakePlugins& make_plugins) {
    host_ = std::make_unique<NodeHost>(api::NodeName(options_.node_name), options_.kubelet_folder,
                                       client_, informers_, events_, clock_);
    // The folder becomes a shared mount, because mounts that a container makes in a volume
    // (Bidirectional) must reach the host, and the host's mounts must reach containers.
    RETURN_IF_ERROR_WITH(host_->mounter().MakeShared(options_.kubelet_folder),
                         fmt::format("share '{}' with containers", options_.kubelet_folder));
    if (options_.make_utilities) {
      ASSIGN_OR_RETURN(auto utilities,
                       options_.make_utilities({.data_folder = options_.data_folder,
                                                .cri_endpoint = options_.cri_endpoint,
                                                .paths = host_->paths(),
                                                .mounter = host_->mounter(),
                                                .events = events_,
                                                .node = kube::NodeReference(options_.node_name)}));
      host_->UseUtilities(std::move(utilities));
    }
    MakeRegistry(make_plugins(*host_));
    if (!options_.flight_file.empty()) {
      ASSIGN_OR_RETURN(flight_, base::FlightRecorder::Open(options_.flight_file, "node"));
    }
    volumes_ =
        NewVolumeManager({.state_folder = DataPath("volumes"),
                          .node_name = options_.node_name,
                          .refuse_shared_sandbox_writers = options_.refuse_shared_sandbox_writers,
                          .flight = flight_.get(),
                          .metrics = options_.metrics},
                         client_, informers_, *plugins_, *host_, events_);
    node_status_ =
        std::make_unique<NodeStatus>(NodeStatusOptions{.node_name = options_.node_name,
                                                       .kubelet_folder = options_.kubelet_folder,
                                                       .version = options_.version,
                                                       .labels = options_.labels,
                                                       .lease_duration = options_.lease_duration},
                                     client_, informers_, clock_);
    ASSIGN_OR_RETURN(cri_, rpc::CriClient::New(options_.cri_endpoint));
    RETURN_IF_ERROR(MakePods());
    ASSIGN_OR_RETURN(stream_cri_, rpc::CriClient::New(options_.cri_endpoint));
    stream_backend_ = std::make_unique<PodStreamBackend>(*pods_, *stream_cri_);
    csi_nodes_ = std::make_unique<CsiNodes>(client_, options_.node_name);
    registration_ = std::make_unique<PluginRegistration>(
        PluginRegistrationOptions{
            .folder = host_->paths().PluginsRegistry(),
            .on_refused = [this](const Status& why) { WarnOfDriver("CSIDriverRefused", why); },
            .on_delayed = [this](const Status& why) { WarnOfDriver("CSINodeNotWritten", why); },
            .plugins_folder = host_->paths().Plugins()},
        *csi_nodes_, host_->drivers(), [this](const std::string& driver) {
          volumes_->DriverRegistered(driver);
          driver_limits_->DriverRegistered(driver);
        });
    driver_limits_ = std::make_unique<DriverLimits>(informers_, host_->drivers(), *csi_nodes_,
                                                    options_.node_name);
    // When the Node object is deleted, the drivers' data in it are lost. CSINode is lost too,
    // because the Node owns it.
    nodes_.AddHandler([this](const auto& change) {
      const bool anew = change.before != nullptr && change.after != nullptr &&
                        change.before->uid() != change.after->uid();
      if (change.key == options_.node_name && (change.before == nullptr || anew)) {
        registration_->WriteAgain();
      }
    });
    informers_.Of<api::CsiNode>().AddHandler([this](const auto& change) {
      if (change.key == options_.node_name && change.after == nullptr) registration_->WriteAgain();
    });
    host_mounts_ = std::make_unique<HostMounts>(
        HostMountsOptions{
            .state_folder = DataPath("host-mounts"),
            .own_folder = options_.own_folder.empty() ? options_.data_folder : options_.own_folder,
            .node_name = options_.node_name,
            .flight = flight_.get()},
        client_, informers_, *volumes_, *host_, events_);
    return base::OkStatus();
  }

  void MakeRegistry(Plugins plugins) {
    flex_reports_ =
        std::make_unique<FlexReports>(client_, informers_, options_.node_name, options_.metrics);
    plugins_ = std::make_unique<volume::PluginRegistry>(
        std::move(plugins.fixed), std::move(plugins.probers),
        volume::PluginRegistry::Options{
            .on_state =
                [this](const std::string& plugin, const Status& state) {
                  flex_reports_->ReportState(plugin, state);
                  if (state.code() == StatusCode::kFailedPrecondition) {
                    WarnOfDriver("VolumePluginRemoved", state);
                  } else if (!state.ok() && state.code() != StatusCode::kNotFound) {
                    WarnOfDriver("VolumePluginNotReady", state);
                  }
                  volumes_->PluginChanged(plugin);
                },
            .on_probe_failed =
                [this](const Status& why) { WarnOfDriver("VolumePluginProbeFailed", why); }});
  }

  Status MakePods() {
    if (options_.own_pods_only) {
      own_pods_ = std::make_unique<kube::Informer<api::Pod>>(
          client_, kube::InformerOptions{.field_selector = "spec.nodeName=" + options_.node_name});
    }
    kube::Informer<api::Pod>& pods = own_pods_ != nullptr ? *own_pods_ : informers_.Of<api::Pod>();
    PodManagerOptions options{
        .settings = {.node_name = options_.node_name,
                     .log_folder = options_.log_folder,
                     .agent = options_.data_folder,
                     .crust_run_folder = options_.crust_run_folder,
                     .host_ip = [this] { return FindHostIp(); }},
        .record_folder = DataPath("pods"),
        .cri_endpoint = options_.cri_endpoint,
        .cri_lists = options_.cri_lists,
        .on_runtime = [this](const Status& reachable, const std::string& version) {
          node_status_->SetRuntime(reachable.ok(), std::string(base::Message(reachable)), version);
        }};
    ASSIGN_OR_RETURN(pods_, PodManager::New(std::move(options), host_->paths(), client_, pods,
                                            *cri_, *volumes_, host_->mounter(), events_, clock_,
                                            [this](const api::KindInfo& kind, std::string_view ns,
                                                   std::string_view name) {
                                              return host_->GetObject(kind, ns, name);
                                            }));
    return base::OkStatus();
  }

  // The InternalIP of the Node object; "" if the informer has no Node, or the Node has no address
  // yet.
  std::string FindHostIp() const {
    const auto node = nodes_.Get(options_.node_name);
    if (node == nullptr) return "";
    for (const base::Json& address : base::json::Array(node->json(), {"status", "addresses"})) {
      if (base::json::String(address, {"type"}) == "InternalIP") {
        return base::json::String(address, {"address"});
      }
    }
    return "";
  }

  // Waits until the informers have their first lists, and then starts the host mounts.
  void StartAfterSync(std::stop_token stop) {
    while (!informers_.WaitForSync(std::chrono::milliseconds(500)).ok()) {
      if (stop.stop_requested()) return;
    }
    if (stop.stop_requested()) return;
    if (const Status started = host_mounts_->Start(); !started.ok()) {
      LOG_ERROR("start the host mounts: {}", base::ToString(started));
    }
  }

  // Removes the bind mount of the kubelet folder onto itself if nothing needs it any more: no pod
  // is on the node, and nothing is mounted below the folder.
  void UnmountUnusedKubeletFolder() {
    const auto records = platform::ListFolder(DataPath("pods"));
    if (host_ == nullptr || !records.ok() || !records->empty()) return;
    const auto table = host_->mounter().List();
    if (!table.ok()) return;
    const platform::MountEntry* own = platform::FindMount(*table, options_.kubelet_folder);
    // A mount that another program made there stays.
    if (own == nullptr || !platform::IsBoundOntoItself(*table, *own)) return;
    for (const platform::MountEntry& entry : *table) {
      if (entry.mount_point.starts_with(options_.kubelet_folder + "/")) return;
    }
    // The unmount is lazy, because the sockets that drivers bind below this path keep the mount
    // busy.
    if (const Status left = host_->mounter().UnmountLazy(options_.kubelet_folder); !left.ok()) {
      LOG_WARNING("{}", base::ToString(left));
    }
  }

  const NodeAgentOptions options_;
  kube::Client& client_;
  kube::Informers& informers_;
  base::EventSink& events_;
  const base::Clock& clock_;
  kube::Informer<api::Node>& nodes_;
  bool stopped_ = false;

  // The order matters for the destruction: a member may use the members above it.
  base::UniqueFd lock_;
  std::unique_ptr<base::FlightRecorder> flight_;
  std::unique_ptr<NodeHost> host_;
  std::unique_ptr<FlexReports> flex_reports_;
  std::unique_ptr<volume::PluginRegistry> plugins_;
  std::unique_ptr<VolumeManager> volumes_;
  std::unique_ptr<NodeStatus> node_status_;
  std::unique_ptr<rpc::CriClient> cri_;
  std::unique_ptr<rpc::CriClient> stream_cri_;  // of its own, so that its calls end first
  std::unique_ptr<kube::Informer<api::Pod>> own_pods_;
  std::unique_ptr<PodManager> pods_;
  std::unique_ptr<PodStreamBackend> stream_backend_;
  std::unique_ptr<CsiNodes> csi_nodes_;
  std::unique_ptr<DriverLimits> driver_limits_;
  std::unique_ptr<PluginRegistration> registration_;
  std::unique_ptr<HostMounts> host_mounts_;
  std::unique_ptr<StreamingServer> streams_;
  std::unique_ptr<UtilityService> utility_service_;
  std::jthread after_sync_;
};

}  // namespace

StatusOr<std::unique_ptr<NodeAgent>> NodeAgent::Start(
    const NodeAgentOptions& options, kube::Client& client, kube::Informers& informers,
    base::EventSink& events, const base::Clock& clock, const MakePlugins& make_plugins) {
  auto agent = std::make_unique<NodeAgentImpl>(options, client, informers, events, clock);
  RETURN_IF_ERROR(agent->StartParts(make_plugins));
  return agent;
}

}  // namespace berth::node
