// The common part of the plugins for disks of a network (rbd, iscsi, fc). A disk is mapped once on
// a node, and pods share its file system:
//
//   MountDevice:   mark ─▶ map ─▶ device in the mark ─▶ mkfs if blank, fsck ─▶ mount
//   SetUp:         bind for the pod, with fsGroup for the first one
//   TearDown:      unmount the bind
//   UnmountDevice: unmount ─▶ unmap ─▶ mark off
//
//   plugins/<plugin>/mounts/<digest>/        the mount
//   plugins/<plugin>/disks/<digest>.json     the mark (disk_marks.h)
//   and the pods' binds (pod_binds.h)
//
// Every utility (map, mkfs, fsck, mount, umount, unmap) runs by Host::exec and
// Host::helper_mounts, so in the pod that is registered for the plugin, if there is one. A disk is
// known by its own name, not by the volume's: two volumes that name one disk share it, and the
// volume manager makes no two calls for one disk at a time.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "volume/host.h"
#include "volume/remote/disk_marks.h"
#include "volume/remote/pod_binds.h"
#include "volume/volume_plugin.h"

namespace berth::volume {

class DiskPlugin : public VolumePlugin {
 public:
  // `name` and `source_type` are literals: "kubernetes.io/rbd", "rbd".
  DiskPlugin(Host& host, std::string_view name, std::string_view source_type)
      : host_(host),
        name_(name),
        source_type_(source_type),
        marks_(host.paths(), name),
        binds_(host, name, source_type) {}

  std::string_view name() const override { return name_; }
  bool Supports(const VolumeSpec& spec) const override;
  // INVALID_ARGUMENT: a field of the source cannot be right.
  StatusOr<std::optional<std::string>> DeviceName(const VolumeSpec& spec) const override;
  StatusOr<bool> NeedsAttach(const VolumeSpec& /*spec*/) const override { return false; }
  StatusOr<Json> DeviceState(const VolumeSpec& spec) const override;
  StatusOr<Json> PodState(const api::Pod& pod, const VolumeSpec& spec) const override;

  // FAILED_PRECONDITION: the device holds something else, or pods of this node have the disk
  // mounted read-only, and this one writes.
  Status MountDevice(const api::Pod& pod, const VolumeSpec& spec,
                     const api::Labels& publish_context) override;
  Status UnmountDevice(const DeviceRecord& record) override;
  std::string DevicePath(const DeviceRecord& record) const override;
  Status ForgetDevice(const DeviceRecord& record) override;
  Status ForgetPodVolume(const PodVolumeRecord& record) override { return TearDown(record); }
  StatusOr<Published> SetUp(const api::Pod& pod, const VolumeSpec& spec,
                            const api::Labels& publish_context) override;
  Status TearDown(const PodVolumeRecord& record) override { return binds_.Remove(record); }
  // Grows the file system to its device. FAILED_PRECONDITION: the device is smaller than `bytes`.
  Status Expand(const PodVolumeRecord& record, const VolumeSpec& spec, int64_t bytes) override;
  StatusOr<Found> FindOnNode() const override;
  StatusOr<Stats> GetStats(const PodVolumeRecord& record) override {
    return binds_.GetStats(record);
  }

 protected:
  static constexpr std::chrono::seconds kLocalTime{20};  // of a utility that asks only this node
  // A device appears within milliseconds of its map, but the kernel's notice of it may be late.
  static constexpr std::chrono::seconds kAppearTime{10};
  static constexpr std::chrono::milliseconds kLookAgain{200};

  struct Disk {
    // Which disk it is: "10.0.0.5:6789:kube/data". Two disks never have the same.
    std::string identity;
    std::string fs_type;  // empty: what the device holds, else ext4
    bool read_only = false;
    Json state = Json::object();  // what UnmapDisk needs; no secrets
  };
  // INVALID_ARGUMENT names the field that is wrong. Reads only the spec.
  virtual StatusOr<Disk> ReadDisk(const VolumeSpec& spec) const = 0;
  // Maps the disk and returns the device's path on the host. It finds out by itself whether the
  // disk is mapped already, because a crash may have interrupted an earlier call: mark.device is
  // the last known device, or empty. It may set mark.logged_in, and write the mark.
  virtual StatusOr<std::string> MapDisk(const api::Pod& pod, const VolumeSpec& spec,
                                        const Disk& disk, DiskMark& mark) = 0;
  // Unmaps it; OK if it is not mapped.
  virtual Status UnmapDisk(const DiskMark& mark) = 0;

  Host& host() const { return host_; }
  platform::Exec& exec() const { return host_.exec(name_); }
  // Runs a utility of the plugin. NOT_FOUND: there is none where it would run; the message says
  // what helps.
  StatusOr<platform::CommandResult> Run(const platform::Command& command);
  // As Run, but a non-zero exit is an error. Returns the output.
  StatusOr<std::string> RunUtility(const platform::Command& command);
  // Writes a file of /sys where the plugin's utilities run.
  Status WriteFile(const std::string& path, const std::string& text);
  const DiskMarks& marks() const { return marks_; }
  // The member that says where the volume comes from: pod.spec.volumes[].rbd, or the
  // PersistentVolume's spec.rbd.
  const Json& Source(const VolumeSpec& spec) const;
  // Whether the pod or the volume asks for a volume that is only read.
  bool IsReadOnly(const VolumeSpec& spec) const;

 private:
  // Volumes that a pod names itself are kept apart by namespace: a pod must not reach a disk by the
  // key of another tenant's pod that has mapped it.
  std::string DeviceNameOf(const VolumeSpec& spec, const Disk& disk) const;
  platform::StagingPath MountOf(std::string_view device_name) const;
  // FAILED_PRECONDITION: others use the disk raw, and this volume would mount it, or the other way
  // round.
  Status CheckUse(const VolumeSpec& spec, const std::string& device) const;
  // Maps the disk, and writes the device into its mark.
  StatusOr<std::string> Map(const api::Pod& pod, const VolumeSpec& spec, const Disk& disk);
  // The device's number. UNAVAILABLE: it has not appeared within some seconds.
  StatusOr<dev_t> WaitForDevice(const std::string& device) const;
  Status MountFileSystem(const VolumeSpec& spec, const Disk& disk, const std::string& device,
                         const platform::StagingPath& staging);
  // Whether another pod of this node has a bind of the file system that is mounted at `staging`.
  StatusOr<bool> IsUsedByOthers(const platform::StagingPath& staging, const api::PodUid& pod) const;
  Status UnmountAll(const platform::StagingPath& staging);

  Host& host_;
  const std::string_view name_;
  const std::string_view source_type_;
  const DiskMarks marks_;
  PodBinds binds_;
};

}  // namespace berth::volume
