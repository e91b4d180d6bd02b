// The interface of a volume plugin, which sets up and tears down one kind of volume on a node. The
// implementations are in csi/, flex/, local/ and remote/. The node agent's volume manager calls
// them, and does not depend on the kind.
//
//   volume shared by pods of the node (a PersistentVolume):
//       MountDevice ─▶ SetUp ─▶ TearDown ─▶ UnmountDevice
//   volume of one pod (emptyDir, configMap, CSI inline):
//       SetUp ─▶ TearDown
//
// The volume manager has one serial queue for each volume, on which it makes all calls that change
// the node. Before it mounts or unmounts, it writes a durable record of its own; a tear-down goes
// on without the record only if the disk is full. It repeats a call whose outcome is unknown
// (rpc::IsFinal), or that a crash interrupted, so every call is idempotent. Tear-down calls get
// only the record, because the pod, the claim and the PV may be gone from the API.
//
// Thread-safe. Calls for different volumes run in parallel. GetStats, GetCondition and the const
// methods also run while another call for the same volume does, and the attach/detach controller of
// a control plane calls the const methods without any queue. Supports and DevicePath are called
// under locks of their callers: they never block.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/json.h"
#include "base/status.h"
#include "volume/plugin_stub.h"

namespace berth::volume {

using base::Json;
using base::Status;
using base::StatusOr;

// A volume as a pod names it, with the objects that it leads to.
struct VolumeSpec {
  std::string name;                                         // pod.spec.volumes[].name
  api::PodVolume pod_volume;                                // the inline source
  std::shared_ptr<const api::PersistentVolumeClaim> claim;  // null for inline volumes
  std::shared_ptr<const api::PersistentVolume> pv;          // null for inline volumes
  bool read_only = false;                                   // of the claim's use, or the PV
  // The file systems that the runtime handler of the pod's sandbox can mount, if the plugin may
  // leave the mount to it (SetUp); empty: the host mounts.
  std::vector<std::string> runtime_file_systems = {};
  std::string pod_ns = {};  // the namespace of the pod, whose author wrote an inline source
  bool block() const { return pv != nullptr && pv->volume_mode() == "Block"; }
  // The name of the folder under pods/UID/volumes/PLUGIN/: the PV's, or the pod volume's.
  std::string folder_name() const { return pv != nullptr ? pv->name() : name; }
};

// The part of the volume manager's record that survives a crash. `state` belongs to the plugin.
struct DeviceRecord {
  std::string plugin;
  std::string device_name;  // VolumePlugin::DeviceName
  std::string pv_name;
  Json state;
};
// The sandbox in which a runtime handler has mounted a volume, or will mount it.
struct SandboxPlace {
  std::string socket;      // the handler's (RuntimeClass.fsMgmtSocket)
  std::string sandbox_id;  // of the container runtime; empty: no sandbox yet
};
struct PodVolumeRecord {
  std::string plugin;
  std::string device_name;  // empty for volumes of one pod
  std::string pod_uid;
  std::string folder_name;
  bool block = false;
  Json state;
  // Set if the mount is left to a runtime handler. The plugin does not store it.
  std::optional<SandboxPlace> sandbox = {};
};

// The mount that the runtime handler of a pod's sandbox must make there (KEP-2857).
struct DeferredMount {
  std::string source;  // a device's path on the host, or a share
  std::string fs_type;
  std::vector<std::string> options;  // "k" or "k=v", sorted
  // The group to give the files to; nullopt: they stay as they are.
  std::optional<int64_t> fs_group = {};
  bool only_on_root_mismatch = false;
  // For all files; empty: they keep their own, or the container runtime chooses.
  std::string selinux_label = {};
  // The label is set on each file, and not as a mount option.
  bool selinux_relabel = false;
  bool operator==(const DeferredMount&) const = default;
};

// Where a pod's containers find a volume that is set up.
struct Published {
  std::string path;  // a folder or file to bind-mount, or for block a device node
  bool block = false;
  // Containers get it read-only whatever their volumeMounts say, because the pod or the PV asks for
  // that, or because only the node agent writes the content (configMap, secret, projected,
  // downwardAPI).
  bool read_only = false;
  // The runtime must give its files the containers' SELinux label, if the kernel has SELinux.
  bool selinux_relabel = false;
  // If set, nothing is mounted at `path`: the runtime handler mounts this volume in the pod's
  // sandbox.
  std::optional<DeferredMount> deferred = {};
};

class VolumeAttacher;

class VolumePlugin : public PluginStub {
 public:
  // "kubernetes.io/csi", "kubernetes.io/empty-dir", ... as in the kubelet's folder names.
  virtual std::string_view name() const = 0;
  // Whether `spec` is a volume of this plugin. The registry takes the first plugin that returns
  // true.
  virtual bool Supports(const VolumeSpec& spec) const = 0;

  // The node-wide name of a volume that pods share, as in node.status.volumesInUse
  // ("kubernetes.io/csi/DRIVER^HANDLE"); nullopt for volumes of one pod.
  virtual StatusOr<std::optional<std::string>> DeviceName(const VolumeSpec& spec) const = 0;

  // True if SetUp must wait until the volume is attached to the node. UNAVAILABLE: not known yet.
  virtual StatusOr<bool> NeedsAttach(const VolumeSpec& spec) const = 0;

  // The facts that tear-down will need. They are recorded durably before MountDevice and before
  // SetUp.
  virtual StatusOr<Json> DeviceState(const VolumeSpec& spec) const = 0;
  virtual StatusOr<Json> PodState(const api::Pod& pod, const VolumeSpec& spec) const = 0;

  // Makes the volume usable on the node (CSI: NodeStageVolume). `publish_context` is the
  // VolumeAttachment's attachmentMetadata. Does nothing for volumes without such a step.
  virtual Status MountDevice(const api::Pod& pod, const VolumeSpec& spec,
                             const api::Labels& publish_context) = 0;
  // Undoes MountDevice, once no pod uses the volume. OK if nothing of it is left.
  virtual Status UnmountDevice(const DeviceRecord& record) = 0;

  // The path at which MountDevice leaves a mount; empty: it leaves none. Before the volume is set
  // up for one more pod, the volume manager checks that the same mount is still there.
  virtual std::string DevicePath(const DeviceRecord& /*record*/) const { return ""; }

  // ForgetDevice and ForgetPodVolume are for records of an earlier boot whose tear-down failed.
  // Nothing of such a volume is mounted any more, so they do not need the driver, which may be
  // gone. They remove the marks that FindOnNode finds, because the marks would look like a volume
  // of this boot. FAILED_PRECONDITION: something is mounted at the volume's path, or files are
  // there.
  virtual Status ForgetDevice(const DeviceRecord& /*record*/) { return base::OkStatus(); }
  // UNIMPLEMENTED: the plugin leaves only the pod volume's folder, which may be removed.
  virtual Status ForgetPodVolume(const PodVolumeRecord& /*record*/) {
    return base::Error(base::StatusCode::kUnimplemented, "nothing but a folder");
  }

  // The attacher of the plugin's volumes, if this process is the control plane (volume_attacher.h).
  // The plugin owns it. nullptr: this process does not attach them.
  virtual VolumeAttacher* attacher() { return nullptr; }

  // Ends running and later calls of drivers at once with CANCELLED, because the process ends.
  virtual void CancelCalls() {}

  // Whether a runtime handler can mount a volume, and what the mount in the pod's sandbox would
  // have to include.
  struct Deferral {
    std::string why_not;  // empty: the plugin can leave the mount to a runtime handler
    bool fs_group = false;
    bool selinux_relabel = false;   // of each file
    bool selinux_on_mount = false;  // by a mount option
    bool secrets = false;           // the driver gets secrets with NodePublishVolume
  };
  // Asks whether the mount of a volume can be left to a runtime handler. Errors: not known now.
  virtual StatusOr<Deferral> CanDefer(const api::Pod& /*pod*/, const VolumeSpec& /*spec*/) {
    return Deferral{.why_not = "volumes of its kind are always mounted by the host"};
  }

  // Makes the volume usable for one pod (CSI: NodePublishVolume, then fsGroup). It is called again
  // for a volume that is set up, if the content follows the API or the driver asks for it. With
  // spec.runtime_file_systems it may leave the mount to the runtime handler (Published.deferred).
  virtual StatusOr<Published> SetUp(const api::Pod& pod, const VolumeSpec& spec,
                                    const api::Labels& publish_context) = 0;
  // True for volumes whose content follows API objects (configMap, secret, projected, downwardAPI):
  // SetUp is repeated on changes, and writes only what differs.
  virtual bool RefreshesContent() const { return false; }
  // Undoes SetUp; a volume that belongs to the pod alone (emptyDir) is deleted. OK if nothing of it
  // is left. FAILED_PRECONDITION: something else is mounted at the volume's path.
  virtual Status TearDown(const PodVolumeRecord& record) = 0;

  // Grows the file system (CSI: NodeExpandVolume) of a volume that is set up, to at least `bytes`;
  // one in a sandbox by its runtime handler. UNIMPLEMENTED: nothing to do on the node.
  // INVALID_ARGUMENT, OUT_OF_RANGE, NOT_FOUND: the volume can never have that size, and the call is
  // not repeated.
  virtual Status Expand(const PodVolumeRecord& record, const VolumeSpec& spec, int64_t bytes) = 0;

  // Finds the plugin's volumes that are, or may be, on the node, by the marks that the plugin
  // leaves there. It serves a volume manager whose records are lost. The manager calls it at its
  // start, before any volume is mounted, so it may also remove what interrupted writes of marks
  // left.
  struct Found {
    std::vector<DeviceRecord> devices;
    std::vector<PodVolumeRecord> pod_volumes;
  };
  virtual StatusOr<Found> FindOnNode() const { return Found{}; }

  struct Stats {
    int64_t total_bytes = 0, used_bytes = 0, available_bytes = 0;
    int64_t total_inodes = 0, used_inodes = 0, available_inodes = 0;
  };
  // How full a volume is that is set up. UNIMPLEMENTED: the plugin or the driver cannot tell.
  virtual StatusOr<Stats> GetStats(const PodVolumeRecord& record) = 0;

  // Whether a volume that is set up is healthy, as its driver reports it (CSI: volume_condition);
  // nullopt: not known.
  struct Condition {
    bool abnormal = false;
    std::string message;
  };
  virtual StatusOr<std::optional<Condition>> GetCondition(const PodVolumeRecord& /*record*/) {
    return std::optional<Condition>();
  }
};

}  // namespace berth::volume
