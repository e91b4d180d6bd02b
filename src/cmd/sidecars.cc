#include "cmd/sidecars.h"

#include <array>

#include "base/text.h"
#include "cmd/feature_gates.h"
#include "cmd/flag_setters.h"
#include "cmd/role_flags.h"

namespace berth::cmd {

namespace {

using Type = GoFlag::Type;
using roles::ProcessOptions;
using std::string;

constexpr int kFatal = 255;  // of klog.Fatal

constexpr std::array kSidecars = {
    Sidecar{.name = "csi-provisioner",
            .role = "provisioner",
            .reads_kubeconfig_variable = true,
            .exit_codes = {.refused = kFatal, .not_started = kFatal, .no_endpoint = kFatal}},
    Sidecar{.name = "csi-attacher", .role = "attacher"},
    Sidecar{.name = "csi-resizer", .role = "resizer"},
    Sidecar{.name = "csi-snapshotter",
            .role = "snapshotter",
            .exit_codes = {.refused = kFatal, .no_endpoint = kFatal}},
    Sidecar{.name = "snapshot-controller",
            .role = "snapshot-controller",
            .exit_codes = {.refused = kFatal, .no_endpoint = kFatal}},
    Sidecar{.name = "csi-node-driver-registrar", .role = "registrar", .on_node = true},
    Sidecar{.name = "node-driver-registrar", .role = "registrar", .on_node = true},
    Sidecar{.name = "livenessprobe", .role = "liveness", .on_node = true},
};

void AppendFlags(std::vector<GoFlag>& flags, std::vector<GoFlag> more) {
  for (GoFlag& flag : more) flags.push_back(std::move(flag));
}

GoFlag Verbosity() {
  return Flag("v", "0", "Log level; 1 and above log each call", BERTH_OPTION(verbosity));
}
GoFlag Version() {
  return Flag("version", "false", "Print the version and end", BERTH_OPTION(version));
}

// The flags of klog and of component-base/logs.
std::vector<GoFlag> LogFlags() {
  const string why = "Berth logs to standard error alone, as text";
  std::vector<GoFlag> flags = {Verbosity(), Version()};
  for (const char* name : {"logtostderr", "alsologtostderr", "add_dir_header", "skip_headers",
                           "skip_log_headers", "one_output", "legacy_stderr_threshold_behavior"}) {
    flags.push_back(IgnoredFlag(name, Type::kBool, "", why));
  }
  for (const char* name :
       {"stderrthreshold", "vmodule", "log_dir", "log_file", "log_file_max_size",
        "log_backtrace_at", "logging-format", "log-flush-frequency", "log-text-split-stream",
        "log-text-info-buffer-size", "log-json-split-stream", "log-json-info-buffer-size"}) {
    const bool is_bool = string(name).ends_with("split-stream");
    flags.push_back(IgnoredFlag(name, is_bool ? Type::kBool : Type::kString, "", why));
  }
  return flags;
}

GoFlag CsiAddress() {
  GoFlag flag;
  flag.name = "csi-address";
  flag.fallback = "/run/csi/socket";
  flag.help = "Socket of the CSI driver";
  flag.use = GoFlag::Use::kDefault;
  flag.apply = [](ProcessOptions& options, const string& value) {
    options.csi_addresses = {value};
    return base::OkStatus();
  };
  return flag;
}

GoFlag AutoMaxProcs() {
  return IgnoredFlag("automaxprocs", Type::kBool, "false", "it sets a limit of the Go runtime");
}
GoFlag Pprof() {
  return IgnoredFlag("enable-pprof", Type::kBool, "false", "it serves profiles of the Go runtime");
}
GoFlag MetricsPath() {
  return Flag("metrics-path", "/metrics", "Path of the metrics", BERTH_OPTION(metrics_path));
}
GoFlag HttpEndpointFlag() {
  return Flag("http-endpoint", "", "Address at which metrics and health are served, as ':8080'",
              BERTH_OPTION(http_address));
}
GoFlag MetricsAddress() {
  return Flag("metrics-address", "", "Address at which metrics alone are served",
              BERTH_OPTION(metrics_address));
}

void ReleaseOnExit(ProcessOptions& options, bool on) { options.election.release = on; }
void UseTopology(ProcessOptions& options, bool on) { options.settings.topology = on; }
void CrossNamespaces(ProcessOptions& options, bool on) {
  options.settings.provisioner.cross_namespace_sources = on;
}
void TakeGroups(ProcessOptions& options, bool on) {
  options.settings.snapshotter.group_snapshots = on;
  options.settings.snapshot_controller.group_snapshots = on;
}

// The flags of each program that talks to the API: the connection, and leader election.
std::vector<GoFlag> ApiFlags() {
  std::vector<GoFlag> flags = {
      Flag("kubeconfig", "", "Kubeconfig of the API; without it the pod's service account",
           BERTH_OPTION(kubeconfig)),
      Flag("kube-api-qps", "5", "Requests to the API a second; without it there is no limit",
           BERTH_OPTION(queries_per_second), GoFlag::Use::kGiven),
      Flag("kube-api-burst", "10", "Requests at once, where --kube-api-qps is given",
           BERTH_OPTION(burst), GoFlag::Use::kGiven),
      Flag("leader-election", "false", "Work only while this process holds the role's lease",
           BERTH_OPTION(election.on)),
      Flag("leader-election-namespace", "", "Namespace of the leases; without it the pod's",
           BERTH_OPTION(election.ns)),
      Flag("leader-election-lease-duration", "15s", "How long others wait for a silent leader",
           BERTH_OPTION(election.lease_duration)),
      Flag("leader-election-renew-deadline", "10s", "How long a leader works without a renewal",
           BERTH_OPTION(election.renew_deadline)),
      Flag("leader-election-retry-period", "5s", "Time between tries to take or renew the lease",
           BERTH_OPTION(election.retry_period)),
  };
  GoFlag labels;
  labels.name = "leader-election-labels";
  labels.help = "Labels of the lease, key:value,...";
  labels.use = GoFlag::Use::kDefault;
  labels.apply = [](ProcessOptions& options, const string& value) -> base::Status {
    ASSIGN_OR_RETURN(options.election.labels, ParseLabelFlag(value));
    return base::OkStatus();
  };
  flags.push_back(std::move(labels));
  return flags;
}

// The common flags of csi-lib-utils.
std::vector<GoFlag> CommonFlags() {
  std::vector<GoFlag> flags = ApiFlags();
  AppendFlags(flags,
              {CsiAddress(), HttpEndpointFlag(), MetricsAddress(), MetricsPath(), AutoMaxProcs()});
  return flags;
}

GoFlag Master() {
  return Flag("master", "", "URL of the API in place of the kubeconfig's", BERTH_OPTION(master));
}

GoFlag HealthPort(string fallback, GoFlag::Use use) {
  GoFlag flag;
  flag.name = "health-port";
  flag.type = Type::kInt;
  flag.fallback = std::move(fallback);
  flag.help = "Port at which health is served, where --http-endpoint is not given";
  flag.use = use;
  flag.apply = [](ProcessOptions& options, const string& value) -> base::Status {
    ASSIGN_OR_RETURN(const int port, ParseGoInt(value));
    if (port < 0 || port > 65535) {
      return base::Error(base::StatusCode::kInvalidArgument, "{} is not a port", port);
    }
    options.health_port = port;
    return base::OkStatus();
  };
  return flag;
}

// Returns the feature gates of a role's program, with the stages that they have there.
std::vector<Gate> ListGates(std::string_view role) {
  using Stage = Gate::Stage;
  constexpr std::string_view kAlways = "Berth always does it";
  std::vector<Gate> gates = {
      {.name = "ReleaseLeaderElectionOnExit", .stage = Stage::kAlpha, .apply = ReleaseOnExit}};
  const auto add = [&](string name, Stage stage, bool always, std::string_view reason) {
    gates.push_back({.name = std::move(name), .stage = stage, .always = always, .reason = reason});
  };
  if (role == "provisioner") {
    gates.push_back({.name = "Topology", .stage = Stage::kStable, .apply = UseTopology});
    add("VolumeAttributesClass", Stage::kStable, true, kAlways);
    gates.push_back({.name = "CrossNamespaceVolumeDataSource",
                     .stage = Stage::kAlpha,
                     .apply = CrossNamespaces});
  } else if (role == "attacher") {
    add("MutableCSINodeAllocatableCount", Stage::kStable, true, kAlways);
  } else if (role == "resizer") {
    add("AnnotateFsResize", Stage::kBeta, true, kAlways);
    add("RecoverVolumeExpansionFailure", Stage::kStable, true, kAlways);
    add("VolumeAttributesClass", Stage::kStable, true, kAlways);
  } else if (role == "snapshotter" || role == "snapshot-controller") {
    gates.push_back(
        {.name = "CSIVolumeGroupSnapshot", .stage = Stage::kStable, .apply = TakeGroups});
  }
  return gates;
}

// A flag that only Berth's own commands have.
GoFlag RolesFlag(std::string help) {
  GoFlag flag;
  flag.name = "roles";
  flag.help = std::move(help);
  flag.use = GoFlag::Use::kGiven;
  flag.apply = [](ProcessOptions& options, const string& value) {
    for (size_t begin = 0; begin <= value.size();) {
      const size_t end = std::min(value.find(',', begin), value.size());
      if (end > begin) options.roles.push_back(value.substr(begin, end - begin));
      begin = end + 1;
    }
    return base::OkStatus();
  };
  return flag;
}
GoFlag CsiAddresses(string help) {
  GoFlag flag = CsiAddress();
  flag.help = std::move(help);
  flag.fallback = "";
  flag.use = GoFlag::Use::kGiven;
  flag.apply = [](ProcessOptions& options, const string& value) {
    options.csi_addresses.push_back(value);
    return base::OkStatus();
  };
  return flag;
}
// Appends the flags of a role for `berth controller`. It has flags of several roles, so each gets
// its role's name as a prefix.
void AppendControllerFlags(std::vector<GoFlag>& flags, std::string_view role) {
  for (GoFlag& flag : RoleFlags(role)) {
    if (flag.use == GoFlag::Use::kNone) continue;
    flag.name = fmt::format("{}-{}", role, flag.name);
    flags.push_back(std::move(flag));
  }
}

}  // namespace

std::span<const Sidecar> AllSidecars() { return kSidecars; }

const Sidecar* FindSidecar(std::string_view program) {
  const std::string_view name = base::FileNameOf(program);
  for (const Sidecar& sidecar : kSidecars) {
    if (sidecar.name == name) return &sidecar;
  }
  return nullptr;
}

std::vector<GoFlag> ListFlags(const Sidecar& sidecar) {
  std::vector<GoFlag> flags;
  if (sidecar.role == "registrar") {
    flags = {CsiAddress(), HttpEndpointFlag(), HealthPort("0", GoFlag::Use::kDefault), Pprof()};
  } else if (sidecar.role == "liveness") {
    flags = {CsiAddress(),
             HttpEndpointFlag(),
             MetricsAddress(),
             MetricsPath(),
             HealthPort(std::to_string(roles::kLivenessPort), GoFlag::Use::kDefault),
             AutoMaxProcs()};
  } else if (sidecar.role == "snapshot-controller") {
    flags = ApiFlags();
    AppendFlags(flags, {HttpEndpointFlag(), MetricsPath(), AutoMaxProcs(),
                        FeatureGates(ListGates(sidecar.role))});
  } else {
    flags = CommonFlags();
    flags.push_back(FeatureGates(ListGates(sidecar.role)));
    // As in the Go programs, only the provisioner and the resizer have --master.
    if (sidecar.role == "provisioner" || sidecar.role == "resizer") flags.push_back(Master());
    if (sidecar.role == "provisioner") flags.push_back(Pprof());
  }
  AppendFlags(flags, RoleFlags(sidecar.role));
  AppendFlags(flags, LogFlags());
  return flags;
}

std::vector<GoFlag> ControllerFlags() {
  string roles = "What to do:";
  for (const roles::Role& role : roles::AllRoles()) roles += fmt::format(" {}", role.name);
  std::vector<GoFlag> flags = {
      RolesFlag(roles + "; separated by commas"),
      CsiAddresses("Socket of a CSI driver; may be given several times"),
      Verbosity(),
  };
  AppendFlags(flags, ApiFlags());
  AppendFlags(flags,
              {Master(),
               Flag("leader-election-identity", "",
                    "Name of this process in the lease; without it the host's name",
                    BERTH_OPTION(election.identity)),
               Flag("leader-election-release", "true", "Release the lease when the process ends",
                    BERTH_OPTION(election.release)),
               HttpEndpointFlag(), MetricsPath(),
               Flag("flight", "", "File of the flight record, for 'berth explain'",
                    BERTH_OPTION(flight_file)),
               Flag("container-runtime-endpoint", "",
                    "CRI socket of this node's runtime: utilities run in the pod that is "
                    "registered for their plugin on this node; without it where this process runs",
                    BERTH_OPTION(runtime_endpoint)),
               Flag("kubelet-dir", "/var/lib/kubelet",
                    "The kubelet's folder on this node, in which mount pods are registered",
                    BERTH_OPTION(kubelet_folder))});
  for (const roles::Role& role : roles::AllRoles()) AppendControllerFlags(flags, role.name);
  return flags;
}

std::vector<GoFlag> NodeFlags() {
  std::vector<GoFlag> flags = {
      RolesFlag("What to do: registrar liveness utilities; separated by commas"),
      CsiAddresses("Socket of the CSI driver; may be given several times"), Verbosity(),
      HttpEndpointFlag(), MetricsPath()};
  for (const char* role : {"registrar", "liveness", "utilities"}) {
    for (GoFlag& flag : RoleFlags(role)) {
      if (flag.use != GoFlag::Use::kNone) flags.push_back(std::move(flag));
    }
  }
  return flags;
}

}  // namespace berth::cmd
