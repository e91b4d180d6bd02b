// The volume manager's durable records. They say which mounts may exist on this node, and are
// written before the mounts are made.
//
//   <state>/devices/<sha256 of device name>.json              one for each volume that is, or may
//                                                             be, mounted
//   <state>/pods/<sha256 of pod uid, plugin, folder>.json     one for each volume of a pod
//
// A record says what a step may have left behind (mounting, unmounting) or has left (mounted), and
// in which boot, because mounts do not survive a reboot. It holds no secret (docs/design.md, rule
// 10), so plugins must not put one into `state`. Thread-safe for different records.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "platform/files/record_files.h"
#include "platform/mounts/mounter.h"
#include "volume/volume_plugin.h"

namespace berth::node {

enum class Step { kMounting, kMounted, kUnmounting };

// Identifies the mount at a published path, so that a restarted agent notices another mount in its
// place.
struct MountIdentity {
  uint64_t id = 0;
  uint32_t major = 0;
  uint32_t minor = 0;
  std::string root;
  bool operator==(const MountIdentity&) const = default;
};
// The identity of the topmost mount at `path`; nullopt: nothing is mounted there.
std::optional<MountIdentity> IdentifyMount(const std::vector<platform::MountEntry>& table,
                                           std::string_view path);

struct StoredDevice {
  volume::DeviceRecord record;
  Step step = Step::kMounting;
  bool needs_attach = false;
  std::string boot_id;
  // The mount at the plugin's DevicePath after MountDevice; none: nothing was mounted there, or it
  // is not known.
  std::optional<MountIdentity> mount;
};

struct StoredPodVolume {
  volume::PodVolumeRecord record;
  Step step = Step::kMounting;
  std::string boot_id;
  std::string pod_ns;
  std::string pod_name;
  std::vector<std::string> names;  // in pod.spec.volumes
  // A copy of the content of the device's record, for the case that the record is damaged; only for
  // volumes that pods share.
  std::string pv_name;
  base::Json device_state;
  bool needs_attach = false;
  // Of step kMounted.
  std::optional<volume::Published> published;
  std::optional<MountIdentity> mount;  // none: the published path was no mount point
};

// True if the mount was left to a runtime handler, or may have been.
inline bool IsDeferred(const StoredPodVolume& volume) { return volume.record.sandbox.has_value(); }

class VolumeRecords {
 public:
  explicit VolumeRecords(std::string folder) : folder_(std::move(folder)) {}

  // Makes the folders and reads the boot id. Call it before the other methods.
  base::Status Open();
  const std::string& boot_id() const { return boot_id_; }

  struct Loaded {
    std::vector<StoredDevice> devices;
    std::vector<StoredPodVolume> pod_volumes;
    // A device's name is the SHA-256 of the volume's device name.
    std::vector<platform::DamagedRecord> damaged_devices;
    std::vector<platform::DamagedRecord> damaged_pod_volumes;
  };
  // Reads all records. Damaged records are set aside. An error only if a folder cannot be read.
  base::StatusOr<Loaded> Load();

  // Write sets the record's boot_id to this boot's. The change is durable when the call has
  // returned OK. RESOURCE_EXHAUSTED: the disk is full.
  base::Status Write(StoredDevice& device);
  base::Status Write(StoredPodVolume& volume);
  base::Status Remove(const StoredDevice& device);
  base::Status Remove(const StoredPodVolume& volume);

 private:
  std::string DeviceFile(const volume::DeviceRecord& record) const;
  std::string PodVolumeFile(const volume::PodVolumeRecord& record) const;

  const std::string folder_;
  std::string boot_id_;
};

}  // namespace berth::node
