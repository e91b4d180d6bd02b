#include "roles/controller_process.h"

#include <unistd.h>

#include <cstdlib>
#include <set>

#include "api/kinds/lease_names.h"
#include "base/files/whole_file.h"
#include "base/flight.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/pause.h"
#include "kube/guarded_client.h"
#include "kube/http/http_client.h"
#include "kube/leader_election.h"
#include "roles/health.h"
#include "roles/pod_utilities.h"
#include "roles/role_term.h"

namespace berth::roles {

using base::Error;
using base::MutexLock;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using controllers::DriverConnection;

namespace {

// How long, beyond the duration of its lease, an election may make no attempt before
// /healthz/leader-election reports that it hangs.
constexpr std::chrono::seconds kLeaseTolerance{20};
// Requests of all roles together. Each takes a connection, and so memory that a burst leaves in
// pieces; more of them only wait in the API server.
constexpr int kMaxInFlight = 32;
constexpr char kServiceAccountNamespace[] =
    "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

// Whether this process leads by each of its leases, as client-go shows it.
const base::Metrics::Description kMasterStatus = {
    .name = "leader_election_master_status",
    .help =
        "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, "
        "1 indicates master. 'name' is the string used to identify the lease. Please make sure "
        "to group by name."};

std::string HostName() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

// Returns the namespace of this pod as csi-lib-utils finds it: from POD_NAMESPACE, else from the
// service account, else "default".
std::string ReadPodNamespace() {
  if (const char* ns = std::getenv("POD_NAMESPACE"); ns != nullptr && *ns != '\0') return ns;
  // The kubelet makes this file a symlink, which ReadWholeFile follows.
  constexpr size_t kLongestName = 256;
  std::string ns;
  if (base::ReadWholeFile(kServiceAccountNamespace, kLongestName, ns) != 0) return "default";
  const size_t end = ns.find_last_not_of(" \r\n\t");
  return end == ns.npos ? "default" : ns.substr(0, end + 1);
}

StatusOr<kube::Config> LoadApiConfig(const ProcessOptions& options) {
  kube::Config config;
  if (!options.kubeconfig.empty()) {
    ASSIGN_OR_RETURN(config, kube::LoadKubeconfig(options.kubeconfig));
  } else if (options.master.empty()) {
    ASSIGN_OR_RETURN(config, kube::LoadInClusterConfig());
  }
  if (!options.master.empty()) {
    config.server = options.master;
    config.socket.clear();
  }
  return config;
}

class ControllerProcessImpl : public ControllerProcess {
 public:
  explicit ControllerProcessImpl(const ProcessOptions& options)
      : options_(options), host_(HostName()) {}

  ~ControllerProcessImpl() override {
    for (auto& thread : driver_threads_) thread.request_stop();
    driver_threads_.clear();
    endpoints_.clear();
    if (informers_ != nullptr) informers_->Stop();
  }

  Status Run() {
    RETURN_IF_ERROR(ChooseRoles());
    ASSIGN_OR_RETURN(const kube::Config config, LoadApiConfig(options_));
    ASSIGN_OR_RETURN(client_,
                     kube::NewHttpClient(config, {.user_agent = "berth-controller",
                                                  .max_in_flight = kMaxInFlight,
                                                  .queries_per_second = options_.queries_per_second,
                                                  .burst = options_.burst}));
    if (options_.election.on) {
      RETURN_IF_ERROR(kube::CheckLeaderElection(ElectionOptions("lease")));
      // The elections have their own client, so that renewals do not wait for other requests.
      ASSIGN_OR_RETURN(
          election_client_,
          kube::NewHttpClient(config, {.user_agent = "berth-controller/leader-election",
                                       .request_timeout = options_.election.renew_deadline / 2}));
    }
    if (!options_.flight_file.empty()) {
      ASSIGN_OR_RETURN(flight_, base::FlightRecorder::Open(options_.flight_file, "controllers"));
    }
    if (!options_.runtime_endpoint.empty()) {
      ASSIGN_OR_RETURN(utilities_,
                       PodUtilities::Open({.kubelet_folder = options_.kubelet_folder,
                                           .runtime_endpoint = options_.runtime_endpoint}));
    }
    informers_ = std::make_unique<kube::Informers>(*client_);
    ASSIGN_OR_RETURN(endpoints_, ServeHealth(options_, metrics_, MakeHealthHandlers()));
    if (!cluster_roles_.empty()) {
      driver_threads_.emplace_back([this](const std::stop_token& stop) { RunRoles("", "", stop); });
    }
    for (const std::string& socket : options_.csi_addresses) {
      if (driver_roles_.empty()) break;
      // The connection is made now, so that a path that no socket can have fails the start.
      ASSIGN_OR_RETURN(std::unique_ptr<DriverConnection> connection,
                       DriverConnection::New(socket, ConnectionOptions({}, "")));
      driver_threads_.emplace_back(
          [this, connection = std::move(connection)](const std::stop_token& stop) {
            ServeDriver(*connection, stop);
          });
    }
    return base::OkStatus();
  }

 private:
  Status ChooseRoles() {
    for (const std::string& name : options_.roles) {
      const Role* role = FindRole(name);
      if (role == nullptr) {
        std::string known;
        for (const Role& each : AllRoles()) known += fmt::format(" {}", each.name);
        return Error(StatusCode::kInvalidArgument, "no role is called {}; the known ones are{}",
                     Quote(name), known);
      }
      labels_migrated_ |= name == "provisioner" || name == "attacher" || name == "resizer";
      auto& roles = role->of_driver ? driver_roles_ : cluster_roles_;
      if (std::find(roles.begin(), roles.end(), role) == roles.end()) roles.push_back(role);
    }
    if (driver_roles_.empty() && cluster_roles_.empty()) {
      return Error(StatusCode::kInvalidArgument, "no role is named: --roles");
    }
    if (!driver_roles_.empty() && options_.csi_addresses.empty()) {
      return Error(StatusCode::kInvalidArgument, "no driver's socket is named: --csi-address");
    }
    return base::OkStatus();
  }

  std::map<std::string, HttpEndpoint::Handler> MakeHealthHandlers() {
    if (!options_.election.on) return {};
    return {{"/healthz/leader-election", [this]() -> HttpEndpoint::Answer {
               MutexLock lock(mutex_);
               for (const kube::LeaderElection* election : elections_) {
                 if (election->healthy(kLeaseTolerance)) continue;
                 return {.code = 500,
                         .body = fmt::format("the election for lease '{}' hangs: this process no "
                                             "longer tries to take or renew it\n",
                                             election->options().lease)};
               }
               return {.body = "ok"};
             }}};
  }

  // Returns the namespace in which the roles may write leases.
  std::string LeaseNamespace() const {
    return options_.election.ns.empty() ? ReadPodNamespace() : options_.election.ns;
  }

  kube::LeaderElectionOptions ElectionOptions(std::string lease) const {
    const ElectionFlags& flags = options_.election;
    return {.ns = LeaseNamespace(),
            .lease = std::move(lease),
            .identity = flags.identity.empty() ? api::SanitizeDriverName(host_) : flags.identity,
            .labels = flags.labels,
            .lease_duration = flags.lease_duration,
            .renew_deadline = flags.renew_deadline,
            .retry_period = flags.retry_period,
            .release = flags.release};
  }

  // A process with several roles, which Go does not have, counts as most of the Go programs do.
  controllers::FirstCalls FirstCallsOfRoles() const {
    using controllers::FirstCalls;
    if (driver_roles_.size() != 1) return FirstCalls::kNamedByPluginInfo;
    if (driver_roles_.front()->name == "resizer") return FirstCalls::kNamedAfterCapabilities;
    if (driver_roles_.front()->name == "snapshotter") return FirstCalls::kNamedBeforeProbe;
    return FirstCalls::kNamedByPluginInfo;
  }

  // `driver` is the name that the driver must answer with; "" accepts any name.
  DriverConnection::Options ConnectionOptions(std::function<bool()> may_call,
                                              const std::string& driver) {
    return {.flight = flight_.get(),
            .metrics = &metrics_,
            .label_migrated = labels_migrated_,
            .first_calls = FirstCallsOfRoles(),
            .may_call = std::move(may_call),
            .driver = driver,
            .ignore_topology = !options_.settings.topology};
  }

  // Waits for the driver's name, because leases and events contain it, and then serves the driver.
  void ServeDriver(DriverConnection& connection, const std::stop_token& stop) {
    std::stop_source named;
    connection.OnReady([&] { named.request_stop(); });
    const std::stop_callback stopped(stop, [&] { named.request_stop(); });
    connection.Start();
    base::WaitForStop(named.get_token());
    connection.Stop();
    const auto info = connection.info();
    if (stop.stop_requested() || info == nullptr) return;
    {
      MutexLock lock(mutex_);
      if (!served_.insert(info->name).second) {
        LOG_ERROR("driver '{}' has more than one --csi-address: {} is ignored", info->name,
                  Quote(connection.socket()));
        return;
      }
    }
    RunRoles(connection.socket(), info->name, stop);
  }

  // Runs the roles of one driver, or of the cluster, until `stop`.
  void RunRoles(const std::string& socket, const std::string& driver, const std::stop_token& stop) {
    const auto& roles = socket.empty() ? cluster_roles_ : driver_roles_;
    if (!options_.election.on) {
      RunOneTerm(roles, socket, driver, nullptr, stop);
      return;
    }
    // The last election runs on this thread, which has nothing else to do.
    std::vector<std::jthread> elections;
    for (size_t i = 0; i + 1 < roles.size(); ++i) {
      elections.emplace_back([this, role = roles[i], &socket, &driver, &stop] {
        RunRoleElection(*role, socket, driver, stop);
      });
    }
    RunRoleElection(*roles.back(), socket, driver, stop);
  }

  // Runs the terms of one role, each while this process has the role's lease, until `stop`.
  void RunRoleElection(const Role& role, const std::string& socket, const std::string& driver,
                       const std::stop_token& stop) {
    kube::LeaderElection election(*election_client_, clock_, ElectionOptions(role.lease(driver)));
    {
      MutexLock lock(mutex_);
      elections_.insert(&election);
    }
    const base::Metrics::Labels name = {{"name", election.options().lease}};
    metrics_.Set(kMasterStatus, name, 0);
    kube::RunLeaderElection(election, stop, [&](const std::stop_token& lost) {
      metrics_.Set(kMasterStatus, name, 1);
      RunOneTerm({&role}, socket, driver, &election, lost);
      metrics_.Set(kMasterStatus, name, 0);
    });
    MutexLock lock(mutex_);
    elections_.erase(&election);
  }

  // Runs `roles` for one term, which ends when `end` is requested. `election` is null without
  // leader election.
  void RunOneTerm(const std::vector<const Role*>& roles, const std::string& socket,
                  const std::string& driver, const kube::LeaderElection* election,
                  const std::stop_token& end) {
    const auto leading = [election] { return election == nullptr || election->leading(); };
    // The time limit of one write. It is shorter than the time between the renew deadline and the
    // end of the lease, so that even a write that is sent just before the deadline has ended before
    // another process can lead.
    const ElectionFlags& flags = options_.election;
    const auto send_time = (flags.lease_duration - flags.renew_deadline) * 4 / 5;
    kube::GuardedClient client(*client_, kube::GuardedClient::MakeLeaderGate(leading),
                               election == nullptr ? send_time * 0 : send_time);
    RoleSettings settings = options_.settings;
    settings.provisioner.attacher_beside =
        std::ranges::find(driver_roles_, FindRole("attacher")) != driver_roles_.end();
    settings.provisioner.intents = {.ns = LeaseNamespace(),
                                    .lineage = election == nullptr ? "" : election->lineage()};
    if (utilities_ != nullptr) {
      settings.exec_of = [this](std::string_view plugin) -> platform::Exec& {
        return utilities_->exec(plugin);
      };
    }
    RunTerm({.roles = roles,
             .socket = socket,
             .driver = driver,
             .connection = ConnectionOptions(leading, driver),
             .settings = settings,
             .client = client,
             .informers = *informers_,
             .clock = clock_,
             .host = host_,
             .flight = flight_.get(),
             .metrics = &metrics_},
            end);
  }

  const ProcessOptions options_;
  const std::string host_;
  const base::SystemClock clock_;
  std::vector<const Role*> driver_roles_, cluster_roles_;
  bool labels_migrated_ = false;  // one of the roles labels its calls so, in the Go program
  base::Metrics metrics_;
  std::unique_ptr<base::FlightRecorder> flight_;
  std::unique_ptr<PodUtilities> utilities_;  // null: utilities run where this process runs
  std::unique_ptr<kube::Client> client_, election_client_;
  std::unique_ptr<kube::Informers> informers_;
  base::Mutex mutex_;
  std::set<const kube::LeaderElection*> elections_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> served_ ABSL_GUARDED_BY(mutex_);  // names of drivers
  std::vector<std::unique_ptr<HttpEndpoint>> endpoints_;
  std::vector<std::jthread> driver_threads_;
};

}  // namespace

StatusOr<std::unique_ptr<ControllerProcess>> ControllerProcess::Start(
    const ProcessOptions& options) {
  auto process = std::make_unique<ControllerProcessImpl>(options);
  RETURN_IF_ERROR(process->Run());
  return std::unique_ptr<ControllerProcess>(std::move(process));
}

}  // namespace berth::roles
