#include "cmd/role_flags.h"

#include <cstdlib>
#include <utility>

#include "base/ipc/utility_call.h"
#include "cmd/flag_setters.h"

namespace berth::cmd {

namespace {

using Type = GoFlag::Type;
using std::string;

template <typename Member>
GoFlag RetryStart(Member member) {
  return Flag("retry-interval-start", "1s", "First wait after a failure; doubles", member);
}
template <typename Member>
GoFlag RetryMax(Member member) {
  return Flag("retry-interval-max", "5m", "Longest wait after a failure", member);
}

// The flag needs the node's name from the pod's environment, because otherwise each node would
// serve all objects.
template <typename Member>
GoFlag NodeDeployment(const char* help, Member node_name) {
  GoFlag flag{.name = "node-deployment",
              .type = Type::kBool,
              .fallback = "false",
              .help = help,
              .use = GoFlag::Use::kDefault};
  flag.apply = [node_name](roles::ProcessOptions& options, const string& value) -> base::Status {
    ASSIGN_OR_RETURN(const bool on, ParseGoBool(value));
    const char* node = std::getenv("NODE_NAME");
    if (on && (node == nullptr || *node == '\0')) {
      return base::Error(base::StatusCode::kFailedPrecondition,
                         "needs the node's name in the environment variable NODE_NAME");
    }
    node_name(options) = on ? node : "";
    return base::OkStatus();
  };
  return flag;
}

GoFlag EnableCapacity() {
  GoFlag flag = Flag("enable-capacity", "false", "Publish CSIStorageCapacity objects",
                     BERTH_OPTION(settings.enable_capacity));
  flag.apply = [set = std::move(flag.apply)](roles::ProcessOptions& options,
                                             const string& value) -> base::Status {
    RETURN_IF_ERROR(set(options, value));
    const char* ns = std::getenv("NAMESPACE");
    if (options.settings.enable_capacity && (ns == nullptr || *ns == '\0')) {
      return base::Error(base::StatusCode::kFailedPrecondition,
                         "need NAMESPACE env variable for CSIStorageCapacity objects");
    }
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
      CountFlag("cloning-protection-threads", "1", "Sources of clones protected at a time",
                BERTH_OPTION(settings.provisioner.cloning_protection_workers)),
      Flag("snapshot-orphan-sweep-interval", "5m",
           "How often snapshots are checked for a finalizer that no claim needs any more; 0: never",
           BERTH_OPTION(settings.provisioner.snapshot_orphan_sweep_interval)),
      CountFlag("capacity-threads", "1", "Classes whose capacity is asked for at a time",
                BERTH_OPTION(settings.capacity.workers)),
      Flag("timeout", "10s", "Timeout of each call to the driver",
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
           "Writes of storage capacity a second; without it there is no limit",
           BERTH_OPTION(settings.capacity_writes_per_second), GoFlag::Use::kGiven),
      Flag("kube-api-capacity-burst", "5",
           "Such writes at once, where --kube-api-capacity-qps is given",
           BERTH_OPTION(settings.capacity_burst), GoFlag::Use::kGiven),
      EnableCapacity(),
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
      Flag("resync", "10m", "How often all attachments are looked at again; 0: never",
           BERTH_OPTION(settings.attacher.resync)),
      Flag("timeout", "15s", "Timeout of each call to the driver",
           BERTH_OPTION(settings.attacher.timeout)),
      RetryStart(BERTH_OPTION(settings.attacher.retry_start)),
      RetryMax(BERTH_OPTION(settings.attacher.retry_max)),
      CountFlag("worker-threads", "10", "Attachments worked on at a time",
                BERTH_OPTION(settings.attacher.workers)),
      Flag("max-entries", "0", "Volumes in a page of ListVolumes; 0: the driver decides",
           BERTH_OPTION(settings.attacher.max_entries)),
      Flag("default-fstype", "", "File system of volumes that name none",
           BERTH_OPTION(settings.attacher.default_fs_type)),
      Flag("reconcile-sync", "1m", "How often attachments are compared with ListVolumes; 0: never",
           BERTH_OPTION(settings.attacher.reconcile_sync)),
      IgnoredFlag("max-grpc-log-length", Type::kInt, "-1",
                  "Berth has its own limit for the length of logged calls"),
  };
}

std::vector<GoFlag> ResizerFlags() {
  return {
      Flag("resync-period", "10m", "How often all claims are looked at again; 0: never",
           BERTH_OPTION(settings.resizer.resync_period)),
      CountFlag("workers", "10", "Claims worked on at a time",
                BERTH_OPTION(settings.resizer.workers)),
      Flag("extra-modify-metadata", "false",
           "Tell the driver the names of claim and volume it modifies",
           BERTH_OPTION(settings.resizer.extra_modify_metadata)),
      Flag("timeout", "10s", "Timeout of each call to the driver",
           BERTH_OPTION(settings.resizer.timeout)),
      RetryStart(BERTH_OPTION(settings.resizer.retry_start)),
      RetryMax(BERTH_OPTION(settings.resizer.retry_max)),
      Flag("handle-volume-inuse-error", "true",
           "Wait until a volume is not in use, if the driver asks for that",
           BERTH_OPTION(settings.resizer.handle_volume_inuse_error)),
  };
}

std::vector<GoFlag> SnapshotterFlags() {
  return {
      IgnoredFlag("resync-period", Type::kDuration, "15m",
                  "the watch misses nothing that a resync would see"),
      Flag("snapshot-name-prefix", "snapshot", "Prefix of the snapshots' names",
           BERTH_OPTION(settings.snapshotter.snapshot_name_prefix)),
      Flag("snapshot-name-uuid-length", "-1",
           "Characters of the VolumeSnapshot's uid in a snapshot's name",
           BERTH_OPTION(settings.snapshotter.snapshot_name_uuid_length)),
      Flag("groupsnapshot-name-prefix", "groupsnapshot", "Prefix of the group snapshots' names",
           BERTH_OPTION(settings.snapshotter.group_name_prefix)),
      Flag("groupsnapshot-name-uuid-length", "-1",
           "Characters of the VolumeGroupSnapshot's uid in a group snapshot's name",
           BERTH_OPTION(settings.snapshotter.group_name_uuid_length)),
      CountFlag("worker-threads", "10", "Snapshots worked on at a time",
                BERTH_OPTION(settings.snapshotter.workers)),
      Flag("timeout", "1m", "Timeout of each call to the driver",
           BERTH_OPTION(settings.snapshotter.timeout)),
      Flag("extra-create-metadata", "false", "Tell the driver the names of snapshot and content",
           BERTH_OPTION(settings.snapshotter.extra_create_metadata)),
      RetryStart(BERTH_OPTION(settings.snapshotter.retry_start)),
      RetryMax(BERTH_OPTION(settings.snapshotter.retry_max)),
      NodeDeployment("Serve the snapshots of the node NODE_NAME alone",
                     BERTH_OPTION(settings.snapshotter.node_name)),
  };
}

std::vector<GoFlag> SnapshotControllerFlags() {
  return {
      IgnoredFlag("resync-period", Type::kDuration, "15m",
                  "the watch misses nothing that a resync would see"),
      CountFlag("worker-threads", "10", "Snapshots worked on at a time",
                BERTH_OPTION(settings.snapshot_controller.workers)),
      RetryStart(BERTH_OPTION(settings.snapshot_controller.retry_start)),
      RetryMax(BERTH_OPTION(settings.snapshot_controller.retry_max)),
      IgnoredFlag("retry-crd-interval-max", Type::kDuration, "30s",
                  "Berth waits without limit for kinds that do not exist yet"),
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
      Flag("agents", "true",
           "Create and update the DaemonSets berth-block-agent and berth-io-proxy",
           BERTH_OPTION(settings.block_operator.agents.deploy)),
      Flag("agent-image", "", "Image of their pods; without it that of the operator's own pod",
           BERTH_OPTION(settings.block_operator.agents.image)),
      Flag("agent-namespace", "",
           "Namespace of the DaemonSets; without it that of the operator's own pod",
           BERTH_OPTION(settings.block_operator.agents.ns)),
      Flag("kubelet-dir", "/var/lib/kubelet", "The kubelet's folder on their nodes",
           BERTH_OPTION(settings.block_operator.agents.kubelet_folder)),
      Flag("agent-node-selector", "", "Labels of the nodes on which they run, key=value,...",
           BERTH_OPTION(settings.block_operator.agents.node_selector)),
      Flag("install-definitions", "true", "Install the kinds of storage.berth.dev",
           BERTH_OPTION(settings.block_operator.agents.install)),
      Flag("scan-interval", "24h", "How often all fences are checked for nodes that are gone",
           BERTH_OPTION(settings.block_operator.scan_interval)),
      Flag("check-interval", "5m", "How often each StorageCluster's back end is checked",
           BERTH_OPTION(settings.block_operator.check_interval)),
      Flag("node-silence", "40s",
           "How long a deleted Node's Lease must stay unchanged before the node counts as gone",
           BERTH_OPTION(settings.block_operator.node_silence)),
      CountFlag("worker-threads", "8", "Claims, volumes, fences and clusters worked on at a time",
                BERTH_OPTION(settings.block_operator.workers)),
      RetryStart(BERTH_OPTION(settings.block_operator.retry_start)),
      RetryMax(BERTH_OPTION(settings.block_operator.retry_max)),
  };
}

std::vector<GoFlag> RegistrarFlags() {
  return {
      Flag("timeout", "1s", "Timeout of each call to the driver",
           BERTH_OPTION(registration_timeout)),
      IgnoredFlag("connection-timeout", Type::kDuration, "0",
                  "Berth waits without limit for the driver"),
      Flag("plugin-registration-path", "/registration",
           "Folder of the kubelet's registration sockets", BERTH_OPTION(registration_folder)),
      Flag("kubelet-registration-path", "", "Socket of the driver as the kubelet finds it",
           BERTH_OPTION(kubelet_registration_path)),
      Flag("mode", "", "'kubelet-registration-probe': end at once with success, for exec probes",
           BERTH_OPTION(registration_mode)),
  };
}

std::vector<GoFlag> LivenessFlags() {
  return {Flag("probe-timeout", "3s", "Timeout of Probe", BERTH_OPTION(probe_timeout))};
}

std::vector<GoFlag> UtilitiesFlags() {
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

std::vector<GoFlag> RoleFlags(std::string_view role) {
  if (role == "provisioner") return ProvisionerFlags();
  if (role == "attacher") return AttacherFlags();
  if (role == "resizer") return ResizerFlags();
  if (role == "snapshotter") return SnapshotterFlags();
  if (role == "snapshot-controller") return SnapshotControllerFlags();
  if (role == "block-operator") return BlockOperatorFlags();
  if (role == "registrar") return RegistrarFlags();
  if (role == "liveness") return LivenessFlags();
  if (role == "utilities") return UtilitiesFlags();
  return {};
}

}  // namespace berth::cmd
