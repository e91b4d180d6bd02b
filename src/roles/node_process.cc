#include "roles/node_process.h"

#include "base/log.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "controllers/call_metrics.h"
#include "roles/health.h"
#include "roles/registrar.h"
#include "roles/utilities_role.h"
#include "rpc/csi_client.h"
#include "rpc/unix_socket.h"

namespace berth::roles {

using base::Error;
using base::MutexLock;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr std::string_view kRegistrar = "registrar";
constexpr std::string_view kLiveness = "liveness";
constexpr std::string_view kUtilities = "utilities";

// Calls a driver's Probe for the role liveness. As in the Go program, each probe connects anew,
// because a connection that was lost would have to wait before it is made again; and a call is
// counted only once a process listens. Thread-safe.
class ProbedDriver {
 public:
  // `socket` is a path that CsiClient::New accepts.
  ProbedDriver(std::string socket, std::chrono::milliseconds timeout, base::Metrics& metrics)
      : socket_(std::move(socket)), timeout_(timeout), metrics_(metrics) {}

  Status ProbeDriver() {
    RETURN_IF_ERROR(rpc::ProbeSocket(socket_));
    ASSIGN_OR_RETURN(const auto client, rpc::CsiClient::New(socket_));
    const std::string name = ReadDriverName(*client);
    ASSIGN_OR_RETURN(const auto answer,
                     Call(*client, name, &rpc::CsiClient::Probe, csi::v1::ProbeRequest()));
    // A response without `ready` means that the driver is ready (CSI, Probe).
    if (answer.has_ready() && !answer.ready().value()) {
      return Error(StatusCode::kUnavailable, "driver responded but is not ready");
    }
    return base::OkStatus();
  }

 private:
  template <typename Response, typename Request>
  StatusOr<Response> Call(rpc::CsiClient& client, const std::string& name,
                          StatusOr<Response> (rpc::CsiClient::*method)(const Request&,
                                                                       rpc::Timeout),
                          const Request& request) {
    const auto began = std::chrono::steady_clock::now();
    StatusOr<Response> response = (client.*method)(request, timeout_);
    controllers::ObserveCall(metrics_, {.driver = name,
                                        .request = *Request::descriptor(),
                                        .status = response.status(),
                                        .took = std::chrono::steady_clock::now() - began});
    return response;
  }

  // Returns the driver's name for the metrics, or "unknown-driver". Each call asks the driver until
  // the name is known.
  std::string ReadDriverName(rpc::CsiClient& client) {
    {
      MutexLock lock(mutex_);
      if (!name_.empty()) return name_;
    }
    const std::string unknown = "unknown-driver";
    const auto info =
        Call(client, unknown, &rpc::CsiClient::GetPluginInfo, csi::v1::GetPluginInfoRequest());
    if (!info.ok() || info->name().empty()) return unknown;
    MutexLock lock(mutex_);
    return name_ = info->name();
  }

  const std::string socket_;
  const std::chrono::milliseconds timeout_;
  base::Metrics& metrics_;
  base::Mutex mutex_;
  std::string name_ ABSL_GUARDED_BY(mutex_);
};

class NodeProcessImpl : public NodeProcess {
 public:
  Status Run(const ProcessOptions& options) {
    bool registrar = false;
    bool liveness = false;
    bool utilities = false;
    for (const std::string& role : options.roles) {
      registrar |= role == kRegistrar;
      liveness |= role == kLiveness;
      utilities |= role == kUtilities;
      if (role != kRegistrar && role != kLiveness && role != kUtilities) {
        return Error(StatusCode::kInvalidArgument,
                     "no role is called {}; the known ones are registrar, liveness, utilities",
                     Quote(role));
      }
    }
    const bool of_driver = registrar || liveness;
    if (!of_driver && !utilities) {
      return Error(StatusCode::kInvalidArgument, "no role is named: --roles");
    }
    if (of_driver && options.csi_addresses.empty()) {
      return Error(StatusCode::kInvalidArgument, "no driver's socket is named: --csi-address");
    }
    if (registrar && options.csi_addresses.size() > 1) {
      return Error(StatusCode::kInvalidArgument,
                   "the registrar announces one driver: --csi-address is given {} times",
                   options.csi_addresses.size());
    }
    if (liveness && options.http_address.empty() && options.health_port == 0) {
      return Error(StatusCode::kInvalidArgument, "liveness needs an address: --http-endpoint");
    }
    // The liveness probe has a port by default, which gives way to --http-endpoint; another one was
    // asked for.
    const bool asked = options.health_port != (liveness ? kLivenessPort : 0);
    if (!options.http_address.empty() && options.health_port > 0 && asked) {
      return Error(StatusCode::kInvalidArgument,
                   "only one of --health-port and --http-endpoint can be given");
    }
    for (const std::string& socket : options.csi_addresses) {
      if (!of_driver) break;
      if (registrar) {
        ASSIGN_OR_RETURN(registrar_,
                         Registrar::Start({.csi_address = socket,
                                           .folder = options.registration_folder,
                                           .kubelet_path = options.kubelet_registration_path,
                                           .timeout = options.registration_timeout}));
      }
      if (liveness) {
        ASSIGN_OR_RETURN(const auto checked, rpc::CsiClient::New(socket));
        drivers_.push_back(
            std::make_unique<ProbedDriver>(checked->socket(), options.probe_timeout, metrics_));
      }
    }
    if (utilities) {
      ASSIGN_OR_RETURN(utilities_,
                       UtilitiesRole::Start({.socket = options.utility_socket,
                                             .kubelet_folder = options.kubelet_folder,
                                             .runtime_endpoint = options.runtime_endpoint}));
    }
    ASSIGN_OR_RETURN(endpoints_, ServeHealth(options, metrics_, MakeHealthHandlers()));
    return base::OkStatus();
  }

 private:
  // /healthz reports only the driver's state, because the kubelet restarts the driver's container
  // when /healthz fails, and a restart of the driver does not repair the registrar. If no driver is
  // probed, /healthz reports the registrar's state, as in node-driver-registrar.
  std::map<std::string, HttpEndpoint::Handler> MakeHealthHandlers() {
    const HttpEndpoint::Handler registrar = [this] {
      const Status health = registrar_->CheckHealth();
      // node-driver-registrar answers so, too.
      return ToAnswer(health, health.code() == StatusCode::kNotFound ? 404 : 500);
    };
    const HttpEndpoint::Handler drivers = [this] { return ToAnswer(ProbeDrivers()); };
    std::map<std::string, HttpEndpoint::Handler> paths = {
        {"/healthz", [] { return ToAnswer(base::OkStatus()); }}};
    if (registrar_ != nullptr) paths["/healthz"] = paths["/healthz/registrar"] = registrar;
    if (!drivers_.empty()) paths["/healthz"] = drivers;
    return paths;
  }

  Status ProbeDrivers() {
    for (const auto& driver : drivers_) RETURN_IF_ERROR(driver->ProbeDriver());
    return base::OkStatus();
  }

  static HttpEndpoint::Answer ToAnswer(const Status& health, int code_of_failure = 500) {
    if (health.ok()) return {.body = "ok"};
    LOG_WARNING("health: {}", base::ToString(health));
    return {.code = code_of_failure, .body = base::ToString(health) + "\n"};
  }

  base::Metrics metrics_;
  std::unique_ptr<Registrar> registrar_;
  std::vector<std::unique_ptr<ProbedDriver>> drivers_;
  std::unique_ptr<UtilitiesRole> utilities_;
  std::vector<std::unique_ptr<HttpEndpoint>> endpoints_;
};

}  // namespace

StatusOr<std::unique_ptr<NodeProcess>> NodeProcess::Start(const ProcessOptions& options) {
  auto process = std::make_unique<NodeProcessImpl>();
  RETURN_IF_ERROR(process->Run(options));
  return std::unique_ptr<NodeProcess>(std::move(process));
}

}  // namespace berth::roles
