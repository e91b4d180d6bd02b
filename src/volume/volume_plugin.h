// What a kind of volume can do on a node. Each plugin has one implementation (csi/, flex/, local/,
// remote/); the node agent's volume manager calls them and does not know the kinds.
//
//   volume shared by pods of the node (a PersistentVolume):
//       MountDevice ─▶ SetUp ─▶ TearDown ─▶ UnmountDevice
//   volume of one pod (emptyDir, configMap, CSI inline):
//       SetUp ─▶ TearDown
//
// The volume manager sets a volume up, grows it and tears it down from one serial queue per volume.
// It writes its own durable record before each such call, and repeats a call whose outcome is
// unknown (rpc::IsFinal) or that a crash interrupted: so every call is idempotent. Tear-down calls
// get only what the record holds, because the pod, the claim and the PV may be gone from the API.
//
// Thread-safe: calls for different volumes run in parallel, and GetStats, GetCondition and
// CancelCalls come from other threads, also during a call for the same volume.
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
// The sandbox in which a runtime handler mounted a volume, or will.
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
  std::string selinux_label = {};  // of all files; empty: their own, or the runtime's to choose
  bool operator==(const DeferredMount&) const = default;
};

// Where a pod's containers find a volume that is set up.
struct Published {
  std::string path;  // a folder or file to bind-mount, or for block a device node
  bool block = false;
  // Containers get it read-only whatever their volumeMounts say: because the pod or the PV asks for
  // it, or because only the node agent writes the content (configMap, secret, projected,
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
  virtual bool Supports(const VolumeSpec& spec) const = 0;

  // The node-wide name of a volume that pods share, as in node.status.volumesInUse
  // ("kubernetes.io/csi/DRIVER^HANDLE"); nullopt for volumes of one pod.
  virtual StatusOr<std::optional<std::string>> DeviceName(const VolumeSpec& spec) const = 0;

  // True if SetUp must wait until the volume is attached to the node. UNAVAILABLE: not known yet.
  virtual StatusOr<bool> NeedsAttach(const VolumeSpec& spec) const = 0;

  // What tear-down will need; recorded durably before MountDevice and before SetUp.
  virtual StatusOr<Json> DeviceState(const VolumeSpec& spec) const = 0;
  virtual StatusOr<Json> PodState(const api::Pod& pod, const VolumeSpec& spec) const = 0;

  // Makes the volume usable on the node (CSI: NodeStageVolume). `publish_context` is the
  // VolumeAttachment's attachmentMetadata. A no-op where there is nothing to do.
  virtual Status MountDevice(const api::Pod& pod, const VolumeSpec& spec,
                             const api::Labels& publish_context) = 0;
  virtual Status UnmountDevice(const DeviceRecord& record) = 0;

  // The path at which MountDevice leaves a mount; empty: it leaves none. Before the volume is set
  // up for one more pod, the volume manager checks that exactly this mount still stands there.
  virtual std::string DevicePath(const DeviceRecord& /*record*/) const { return ""; }

  // For records of an earlier boot whose tear-down failed: nothing of them is mounted any more, and
  // they do not wait for a driver that is gone. They remove the marks that FindOnNode finds,
  // because these would look like a volume of this boot. FAILED_PRECONDITION: something is mounted
  // or lies there.
  virtual Status ForgetDevice(const DeviceRecord& /*record*/) { return base::OkStatus(); }
  // UNIMPLEMENTED: the plugin leaves only the pod volume's folder, which may be removed.
  virtual Status ForgetPodVolume(const PodVolumeRecord& /*record*/) {
    return base::Error(base::StatusCode::kUnimplemented, "nothing but a folder");
  }

  // The attacher of its volumes, if this process is the control plane (volume_attacher.h). The
  // plugin owns it. Null: this process attaches none.
  virtual VolumeAttacher* attacher() { return nullptr; }

  // The process ends: running and later calls of drivers end at once with CANCELLED.
  virtual void CancelCalls() {}

  // What a mount in the pod's sandbox would have to include.
  struct Deferral {
    std::string why_not;  // empty: the plugin can leave the mount to a runtime handler
    bool fs_group = false;
    bool selinux_relabel = false;   // of each file
    bool selinux_on_mount = false;  // by a mount option
    bool secrets = false;           // the driver gets secrets with NodePublishVolume
  };
  virtual StatusOr<Deferral> CanDefer(const api::Pod& /*pod*/, const VolumeSpec& /*spec*/) {
    return Deferral{.why_not = "volumes of its kind are always mounted by the host"};
  }

  // Makes the volume usable for one pod (CSI: NodePublishVolume, then fsGroup). With
  // spec.runtime_file_systems it may leave the mount to the runtime handler (Published.deferred).
  virtual StatusOr<Published> SetUp(const api::Pod& pod, const VolumeSpec& spec,
                                    const api::Labels& publish_context) = 0;
  // True for volumes whose content follows API objects (configMap, secret, projected, downwardAPI):
  // SetUp is repeated on changes, and writes only what differs.
  virtual bool RefreshesContent() const { return false; }
  virtual Status TearDown(const PodVolumeRecord& record) = 0;

  // Grows the file system (CSI: NodeExpandVolume) of a volume that is set up, to at least `bytes`.
  // In a sandbox its runtime handler does so. UNIMPLEMENTED: nothing to do on the node.
  virtual Status Expand(const PodVolumeRecord& record, const VolumeSpec& spec, int64_t bytes) = 0;

  // The plugin's volumes that are, or may be, on the node, found by the marks that the plugin
  // leaves there. It serves a volume manager whose records are lost.
  struct Found {
    std::vector<DeviceRecord> devices;
    std::vector<PodVolumeRecord> pod_volumes;
  };
  virtual StatusOr<Found> FindOnNode() const { return Found{}; }

  struct Stats {
    int64_t total_bytes = 0, used_bytes = 0, available_bytes = 0;
    int64_t total_inodes = 0, used_inodes = 0, available_inodes = 0;
  };
  virtual StatusOr<Stats> GetStats(const PodVolumeRecord& record) = 0;

  // The health of a volume that is set up, as its driver or handler reports it (CSI:
  // volume_condition); nullopt: there is no report.
  struct Condition {
    bool abnormal = false;
    std::string message;
  };
  virtual StatusOr<std::optional<Condition>> GetCondition(const PodVolumeRecord& /*record*/) {
    return std::optional<Condition>();
  }
};

}  // namespace berth::volume
