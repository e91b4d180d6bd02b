#include "cmd/sidecars.h"

#include <array>
#include <cstdlib>

#include "base/ipc/utility_call.h"
#include "cmd/flag_setters.h"

namespace berth::cmd {

namespace {

using Type = GoFlag::Type;
using roles::ProcessOptions;
using std::string;

// One for each program of its own flags; `member` names the options of its role.
#define BERTH_OPTION(member) [](ProcessOptions& o) -> auto& { return o.member; }

constexpr std::array kSidecars = {
    Sidecar{.name = "csi-provisioner", .role = "provisioner"},
    Sidecar{.name = "csi-attacher", .role = "attacher"},
    Sidecar{.name = "csi-resizer", .role = "resizer"},
    Sidecar{.name = "csi-snapshotter", .role = "snapshotter"},
    Sidecar{.name = "snapshot-controller", .role = "snapshot-controller"},
    Sidecar{.name = "csi-node-driver-registrar", .role = "registrar", .on_node = true},
    Sidecar{.name = "node-driver-registrar", .role = "registrar", .on_node = true},
    Sidecar{.name = "livenessprobe", .role = "liveness", .on_node = true},
};

void Append(std::vector<GoFlag>& flags, std::vector<GoFlag> more) {
  for (GoFlag& flag : more) flags.push_back(std::move(flag));
}

GoFlag Verbosity() {
  return Flag("v", "0", "Log more: 1 and above tell each call", BERTH_OPTION(verbosity));
}
GoFlag Version() {
  return Flag("version", "false", "Print the version and end", BERTH_OPTION(version));
}

// klog and component-base/logs.
std::vector<GoFlag> LogFlags() {
  const string why = "Berth logs to standard error alone, as text";
  std::vector<GoFlag> flags = {Verbosity(), Version()};
  for (const char* name : {"logtostderr", "alsologtostderr", "add_dir_header", "skip_headers",
                           "skip_log_headers", "one_output", "legacy_stderr_threshold_behavior"}) {
    flags.push_back(NoEffect(name, Type::kBool, "", why));
  }
  for (const char* name :
       {"stderrthreshold", "vmodule", "log_dir", "log_file", "log_file_max_size",
        "log_backtrace_at", "logging-format", "log-flush-frequency", "log-text-split-stream",
        "log-text-info-buffer-size", "log-json-split-stream", "log-json-info-buffer-size"}) {
    const bool is_bool = string(name).ends_with("split-stream");
    flags.push_back(NoEffect(name, is_bool ? Type::kBool : Type::kString, "", why));
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
  return NoEffect("automaxprocs", Type::kBool, "false", "it sets a limit of the Go runtime");
}
GoFlag Pprof() {
  return NoEffect("enable-pprof", Type::kBool, "false", "it serves profiles of the Go runtime");
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

// The gates of a program, by name; what each does is told by its function, none if it has no
// effect.
using GateEffect = void (*)(ProcessOptions&, bool);
GoFlag FeatureGates(std::map<string, GateEffect> known) {
  GoFlag flag;
  flag.name = "feature-gates";
  flag.help = "Name=true,...; known:";
  for (const auto& [name, effect] : known) flag.help += " " + name;
  flag.use = GoFlag::Use::kDefault;
  flag.apply = [known](ProcessOptions& options, const string& value) -> base::Status {
    ASSIGN_OR_RETURN(const auto gates, ParseGates(value));
    for (const auto& [name, on] : gates) {
      const auto found = known.find(name);
      if (found == known.end() && name != "AllAlpha" && name != "AllBeta") {
        return base::Error(base::StatusCode::kInvalidArgument, "unrecognized feature gate: {}",
                           name);
      }
      if (found != known.end() && found->second != nullptr) found->second(options, on);
    }
    return base::OkStatus();
  };
  return flag;
}
void ReleaseOnExit(ProcessOptions& options, bool on) { options.election.release = on; }

// How to reach the API, and leader election: of each program that talks to the API.
std::vector<GoFlag> ApiFlags() {
  std::vector<GoFlag> flags = {
      Flag("kubeconfig", "", "Kubeconfig of the API; without it the pod's service account",
           BERTH_OPTION(kubeconfig)),
      Flag("kube-api-qps", "5", "Requests to the API a second; without it as many as it takes",
           BERTH_OPTION(queries_per_second), GoFlag::Use::kGiven),
      Flag("kube-api-burst", "10", "Requests at once, where --kube-api-qps is given",
           BERTH_OPTION(burst), GoFlag::Use::kGiven),
      Flag("leader-election", "false", "Work only while the lease of the role is held",
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

// csi-lib-utils' common flags.
std::vector<GoFlag> CommonFlags() {
  std::vector<GoFlag> flags = ApiFlags();
  Append(flags,
         {CsiAddress(), HttpEndpointFlag(), MetricsAddress(), MetricsPath(), AutoMaxProcs()});
  return flags;
}

GoFlag Master() {
  return Flag("master", "", "URL of the API in place of the kubeconfig's", BERTH_OPTION(master));
}

template <typename Member>
GoFlag RetryStart(Member member) {
  return Flag("retry-interval-start", "1s", "First wait after a failure; doubles", member);
}
template <typename Member>
GoFlag RetryMax(Member member) {
  return Flag("retry-interval-max", "5m", "Longest wait after a failure", member);
}

// Which node it is the pod's environment says. Without it each node would serve all objects.
template <typename Member>
GoFlag NodeDeployment(const char* help, Member node_name) {
  GoFlag flag{.name = "node-deployment",
              .type = Type::kBool,
              .fallback = "false",
              .help = help,
              .use = GoFlag::Use::kDefault};
  flag.apply = [node_name](ProcessOptions& options, const string& value) -> base::Status {
    ASSIGN_OR_RETURN(const bool on, ParseGoBool(value));
    const char* node = std::getenv("NODE_NAME");
    if (on && (node == nullptr || *node == '\0')) {
      return base::Error(base::StatusCode::kInvalidArgument,
                         "needs the node's name in the environment variable NODE_NAME");
    }
    node_name(options) = on ? node : "";
    return base::OkStatus();
  };
  return flag;
}

std::vector<GoFlag> ProvisionerFlags() {
  return {
      Flag("volume-name-prefix", "pvc", "Prefix of the volumes' names",
           BERTH_OPTION(settings.provisioner.volume_name_prefix)),
      Flag("volume-name-uuid-length", "-1", "Characters of the claim's uid in a volume's name",
           BERTH_OPTION(settings.provisioner.volume_name_uuid_length)),
      RetryStart(BERTH_OPTION(settings.provisioner.retry_start)),
      RetryMax(BERTH_OPTION(settings.provisioner.retry_max)),
      CountFlag("worker-threads", "100", "Claims and volumes worked on at a time",
                BERTH_OPTION(settings.provisioner.workers)),
      CountFlag("cloning-protection-threads", "1", "Sources of clones looked after at a time",
                BERTH_OPTION(settings.provisioner.cloning_protection_workers)),
      Flag("snapshot-orphan-sweep-interval", "5m",
           "How often snapshots are looked through for one that is held for nothing; 0: never",
           BERTH_OPTION(settings.provisioner.snapshot_orphan_sweep_interval)),
      CountFlag("capacity-threads", "1", "Classes whose capacity is asked for at a time",
                BERTH_OPTION(settings.capacity.workers)),
      Flag("timeout", "10s", "Of each call of the driver",
           BERTH_OPTION(settings.provisioner.timeout)),
      Flag("strict-topology", "false", "Ask for the selected node's topology alone",
           BERTH_OPTION(settings.provisioner.strict_topology)),
      Flag("immediate-topology", "true", "Ask for the cluster's topology in immediate binding",
           BERTH_OPTION(settings.provisioner.immediate_topology)),
      Flag("extra-create-metadata", "false", "Tell the driver the names of claim and volume",
           BERTH_OPTION(settings.provisioner.extra_create_metadata)),
      Flag("default-fstype", "", "File system of volumes whose class names none",
           BERTH_OPTION(settings.provisioner.default_fs_type)),
      Flag("kube-api-capacity-qps", "1",
           "Writes of storage capacity a second; without it as many as the API takes",
           BERTH_OPTION(settings.capacity_writes_per_second), GoFlag::Use::kGiven),
      Flag("kube-api-capacity-burst", "5",
           "Such writes at once, where --kube-api-capacity-qps is given",
           BERTH_OPTION(settings.capacity_burst), GoFlag::Use::kGiven),
      Flag("enable-capacity", "false", "Publish CSIStorageCapacity objects",
           BERTH_OPTION(settings.enable_capacity)),
      Flag("capacity-for-immediate-binding", "false",
           "Publish the capacity of classes that bind immediately, too",
           BERTH_OPTION(settings.capacity.immediate_binding)),
      Flag("capacity-poll-interval", "1m", "How often the driver is asked for its capacity",
           BERTH_OPTION(settings.capacity.poll_interval)),
      Flag("capacity-ownerref-level", "1",
           "Who owns the objects: 0 the pod, 1 its owner, and so on; negative: nobody",
           BERTH_OPTION(settings.capacity.owner_level)),
      NodeDeployment("Serve the claims of the node NODE_NAME alone",
                     BERTH_OPTION(settings.provisioner.node_deployment.node_name)),
      Flag("node-deployment-immediate-binding", "true",
           "Compete with other nodes for claims that bind immediately",
           BERTH_OPTION(settings.provisioner.node_deployment.immediate_binding)),
      Flag("node-deployment-base-delay", "20s", "Longest wait before the first try for a claim",
           BERTH_OPTION(settings.provisioner.node_deployment.base_delay)),
      Flag("node-deployment-max-delay", "60s", "Longest wait between tries for a claim",
           BERTH_OPTION(settings.provisioner.node_deployment.max_delay)),
      Flag("controller-publish-readonly", "false", "Attach volumes of read-only claims read-only",
           BERTH_OPTION(settings.provisioner.controller_publish_readonly)),
      Flag("prevent-volume-mode-conversion", "true",
           "Refuse to restore a snapshot to another volume mode, unless its content allows it",
           BERTH_OPTION(settings.provisioner.prevent_volume_mode_conversion)),
  };
}

std::vector<GoFlag> AttacherFlags() {
  return {
      Flag("resync", "10m", "How often all attachments are looked at again",
           BERTH_OPTION(settings.attacher.resync)),
      Flag("timeout", "15s", "Of each call of the driver", BERTH_OPTION(settings.attacher.timeout)),
      RetryStart(BERTH_OPTION(settings.attacher.retry_start)),
      RetryMax(BERTH_OPTION(settings.attacher.retry_max)),
      CountFlag("worker-threads", "10", "Attachments worked on at a time",
                BERTH_OPTION(settings.attacher.workers)),
      Flag("max-entries", "0", "Volumes in a page of ListVolumes; 0: as the driver likes",
           BERTH_OPTION(settings.attacher.max_entries)),
      Flag("default-fstype", "", "File system of volumes that name none",
           BERTH_OPTION(settings.attacher.default_fs_type)),
      Flag("reconcile-sync", "1m", "How often attachments are compared with ListVolumes",
           BERTH_OPTION(settings.attacher.reconcile_sync)),
      NoEffect("max-grpc-log-length", Type::kInt, "-1",
               "logged calls are cut to a bound of Berth's"),
  };
}

std::vector<GoFlag> ResizerFlags() {
  return {
      Flag("resync-period", "10m", "How often all claims are looked at again",
           BERTH_OPTION(settings.resizer.resync_period)),
      CountFlag("workers", "10", "Claims worked on at a time",
                BERTH_OPTION(settings.resizer.workers)),
      Flag("extra-modify-metadata", "false",
           "Tell the driver the names of claim and volume it modifies",
           BERTH_OPTION(settings.resizer.extra_modify_metadata)),
      Flag("timeout", "10s", "Of each call of the driver", BERTH_OPTION(settings.resizer.timeout)),
      RetryStart(BERTH_OPTION(settings.resizer.retry_start)),
      RetryMax(BERTH_OPTION(settings.resizer.retry_max)),
      Flag("handle-volume-inuse-error", "true",
           "Wait for the end of use where the driver asks for it",
           BERTH_OPTION(settings.resizer.handle_volume_inuse_error)),
  };
}

std::vector<GoFlag> SnapshotterFlags() {
  const string groups = "Berth takes no group snapshots";
  return {
      NoEffect("resync-period", Type::kDuration, "15m",
               "the watch misses nothing that a resync would see"),
      Flag("snapshot-name-prefix", "snapshot", "Prefix of the snapshots' names",
           BERTH_OPTION(settings.snapshotter.snapshot_name_prefix)),
      Flag("snapshot-name-uuid-length", "-1",
           "Characters of the VolumeSnapshot's uid in a snapshot's name",
           BERTH_OPTION(settings.snapshotter.snapshot_name_uuid_length)),
      NoEffect("groupsnapshot-name-prefix", Type::kString, "groupsnapshot", groups),
      NoEffect("groupsnapshot-name-uuid-length", Type::kInt, "-1", groups),
      CountFlag("worker-threads", "10", "Snapshots worked on at a time",
                BERTH_OPTION(settings.snapshotter.workers)),
      Flag("timeout", "1m", "Of each call of the driver",
           BERTH_OPTION(settings.snapshotter.timeout)),
      Flag("extra-create-metadata", "false", "Tell the driver the names of snapshot and content",
           BERTH_OPTION(settings.snapshotter.extra_create_metadata)),
      RetryStart(BERTH_OPTION(settings.snapshotter.retry_start)),
      RetryMax(BERTH_OPTION(settings.snapshotter.retry_max)),
      NodeDeployment("Take care of the snapshots of this node ($NODE_NAME) alone",
                     BERTH_OPTION(settings.snapshotter.node_name)),
  };
}

std::vector<GoFlag> SnapshotControllerFlags() {
  return {
      NoEffect("resync-period", Type::kDuration, "15m",
               "the watch misses nothing that a resync would see"),
      CountFlag("worker-threads", "10", "Snapshots worked on at a time",
                BERTH_OPTION(settings.snapshot_controller.workers)),
      RetryStart(BERTH_OPTION(settings.snapshot_controller.retry_start)),
      RetryMax(BERTH_OPTION(settings.snapshot_controller.retry_max)),
      NoEffect("retry-crd-interval-max", Type::kDuration, "30s",
               "kinds that are not there yet are waited for as long as it takes"),
      Flag("enable-distributed-snapshotting", "false",
           "Name the node whose snapshotter is to take the snapshot",
           BERTH_OPTION(settings.snapshot_controller.distributed_snapshotting)),
      Flag("prevent-volume-mode-conversion", "true",
           "Note the volume's mode, so that a restored one cannot silently have another",
           BERTH_OPTION(settings.snapshot_controller.prevent_volume_mode_conversion)),
  };
}

std::vector<GoFlag> BlockOperatorFlags() {
  return {
      Flag("agents", "true", "Keep the DaemonSets berth-block-agent and berth-io-proxy",
           BERTH_OPTION(settings.block_operator.agents.deploy)),
      Flag("agent-image", "", "Image of their pods; without it that of the operator's own pod",
           BERTH_OPTION(settings.block_operator.agents.image)),
      Flag("agent-namespace", "", "Their namespace; without it the pod's",
           BERTH_OPTION(settings.block_operator.agents.ns)),
      Flag("kubelet-dir", "/var/lib/kubelet", "The kubelet's folder on their nodes",
           BERTH_OPTION(settings.block_operator.agents.kubelet_folder)),
      Flag("agent-node-selector", "", "Labels of the nodes that get them, key=value,...",
           BERTH_OPTION(settings.block_operator.agents.node_selector)),
      Flag("install-definitions", "true", "Install the kinds of storage.berth.dev",
           BERTH_OPTION(settings.block_operator.agents.install)),
      Flag("scan-interval", "24h",
           "How often all fences are looked through for nodes that are gone",
           BERTH_OPTION(settings.block_operator.scan_interval)),
      Flag("check-interval", "5m", "How often a StorageCluster's back end is asked if it is there",
           BERTH_OPTION(settings.block_operator.check_interval)),
      Flag("node-silence", "40s",
           "How long a deleted Node's Lease has to stay as it is until the "
           "node counts as gone",
           BERTH_OPTION(settings.block_operator.node_silence)),
      CountFlag("worker-threads", "8", "Claims, volumes, fences and clusters worked on at a time",
                BERTH_OPTION(settings.block_operator.workers)),
      RetryStart(BERTH_OPTION(settings.block_operator.retry_start)),
      RetryMax(BERTH_OPTION(settings.block_operator.retry_max)),
  };
}

std::vector<GoFlag> RegistrarFlags() {
  return {
      Flag("timeout", "1s", "Of each call of the driver", BERTH_OPTION(registration_timeout)),
      NoEffect("connection-timeout", Type::kDuration, "0",
               "the driver is waited for as long as it takes"),
      Flag("plugin-registration-path", "/registration",
           "Folder of the kubelet's registration sockets", BERTH_OPTION(registration_folder)),
      Flag("kubelet-registration-path", "", "Socket of the driver as the kubelet finds it",
           BERTH_OPTION(kubelet_registration_path)),
      Flag("mode", "", "'kubelet-registration-probe': end at once with success, for exec probes",
           BERTH_OPTION(registration_mode)),
  };
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
      return base::Error(base::StatusCode::kInvalidArgument, "{} is no port", port);
    }
    options.health_port = port;
    return base::OkStatus();
  };
  return flag;
}

std::vector<GoFlag> LivenessFlags() {
  return {Flag("probe-timeout", "3s", "Of Probe", BERTH_OPTION(probe_timeout))};
}

// The gates of each program; those without effect are always on, or of work that Berth does not do.
std::map<string, GateEffect> GatesOf(std::string_view role) {
  std::map<string, GateEffect> gates = {{"ReleaseLeaderElectionOnExit", ReleaseOnExit}};
  const auto add = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) gates.emplace(name, nullptr);
  };
  if (role == "provisioner") {
    add({"Topology", "VolumeAttributesClass", "CrossNamespaceVolumeDataSource"});
  } else if (role == "attacher") {
    add({"MutableCSINodeAllocatableCount"});
  } else if (role == "resizer") {
    add({"AnnotateFsResize", "RecoverVolumeExpansionFailure", "VolumeAttributesClass"});
  } else if (role == "snapshotter" || role == "snapshot-controller") {
    add({"CSIVolumeGroupSnapshot"});
  }
  return gates;
}

std::vector<GoFlag> OwnFlags(std::string_view role) {
  if (role == "provisioner") return ProvisionerFlags();
  if (role == "attacher") return AttacherFlags();
  if (role == "resizer") return ResizerFlags();
  if (role == "snapshotter") return SnapshotterFlags();
  if (role == "snapshot-controller") return SnapshotControllerFlags();
  if (role == "block-operator") return BlockOperatorFlags();
  if (role == "registrar") return RegistrarFlags();
  if (role == "liveness") return LivenessFlags();
  return {};
}

// What only Berth's own commands have.
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
void AppendLed(std::vector<GoFlag>& flags, std::string_view role) {
  for (GoFlag& flag : OwnFlags(role)) {
    if (flag.use == GoFlag::Use::kNone) continue;
    flag.name = fmt::format("{}-{}", role, flag.name);
    flags.push_back(std::move(flag));
  }
}

}  // namespace

std::span<const Sidecar> AllSidecars() { return kSidecars; }

const Sidecar* FindSidecar(std::string_view program) {
  const std::string_view name = program.substr(program.rfind('/') + 1);
  for (const Sidecar& sidecar : kSidecars) {
    if (sidecar.name == name) return &sidecar;
  }
  return nullptr;
}

std::vector<GoFlag> FlagsOf(const Sidecar& sidecar) {
  std::vector<GoFlag> flags;
  if (sidecar.role == "registrar") {
    flags = {CsiAddress(), HttpEndpointFlag(), HealthPort("0", GoFlag::Use::kDefault), Pprof()};
  } else if (sidecar.role == "liveness") {
    flags = {CsiAddress(),
             HttpEndpointFlag(),
             MetricsAddress(),
             MetricsPath(),
             HealthPort("9808", GoFlag::Use::kDefault),
             AutoMaxProcs()};
  } else if (sidecar.role == "snapshot-controller") {
    flags = ApiFlags();
    Append(flags, {HttpEndpointFlag(), MetricsPath(), AutoMaxProcs(),
                   FeatureGates(GatesOf(sidecar.role))});
  } else {
    flags = CommonFlags();
    flags.push_back(FeatureGates(GatesOf(sidecar.role)));
    // As the Go programs: only the provisioner and the resizer have these.
    if (sidecar.role == "provisioner" || sidecar.role == "resizer") flags.push_back(Master());
    if (sidecar.role == "provisioner") flags.push_back(Pprof());
  }
  Append(flags, OwnFlags(sidecar.role));
  Append(flags, LogFlags());
  return flags;
}

std::vector<GoFlag> ControllerFlags() {
  string roles = "What to do:";
  for (const roles::Role& role : roles::AllRoles()) roles += fmt::format(" {}", role.name);
  std::vector<GoFlag> flags = {
      RolesFlag(roles + "; several by commas"),
      CsiAddresses("Socket of a CSI driver; may be given several times"),
      Verbosity(),
  };
  Append(flags, ApiFlags());
  Append(flags,
         {Master(),
          Flag("leader-election-identity", "", "Who holds the lease; without it the host's name",
               BERTH_OPTION(election.identity)),
          Flag("leader-election-release", "true", "Let the lease go at the end",
               BERTH_OPTION(election.release)),
          HttpEndpointFlag(), MetricsPath(),
          Flag("flight", "", "File of the flight record, for 'berth explain'",
               BERTH_OPTION(flight_file))});
  for (const roles::Role& role : roles::AllRoles()) AppendLed(flags, role.name);
  return flags;
}

namespace {

// Of the role `utilities`, which no sidecar has.
std::vector<GoFlag> UtilityFlags() {
  return {
      Flag("utility-socket", base::ipc::utility::kSocket,
           "Socket at which berth-shim has utilities run in pods", BERTH_OPTION(utility_socket)),
      Flag("kubelet-dir", "/var/lib/kubelet",
           "The kubelet's folder, in which mount pods are registered",
           BERTH_OPTION(kubelet_folder)),
      Flag("container-runtime-endpoint", "unix:///run/containerd/containerd.sock",
           "CRI socket of the runtime that runs them", BERTH_OPTION(runtime_endpoint))};
}

}  // namespace

std::vector<GoFlag> NodeFlags() {
  std::vector<GoFlag> flags = {
      RolesFlag("What to do: registrar liveness utilities; several by commas"),
      CsiAddresses("Socket of the CSI driver; may be given several times"), Verbosity(),
      HttpEndpointFlag(), MetricsPath()};
  for (const char* role : {"registrar", "liveness"}) {
    for (GoFlag& flag : OwnFlags(role)) {
      if (flag.use != GoFlag::Use::kNone) flags.push_back(std::move(flag));
    }
  }
  Append(flags, UtilityFlags());
  return flags;
}

}  // namespace berth::cmd
