#include "volume/csi/csi_volume.h"

#include "api/kinds/csi_names.h"
#include "base/log.h"

namespace berth::volume::csi_volume {
namespace {

using base::Error;
using base::StatusCode;
using AccessMode = csi::v1::VolumeCapability::AccessMode;

Status CheckNames(const Volume& volume) {
  RETURN_IF_ERROR_WITH(api::CheckCsiDriverName(volume.driver),
                       fmt::format("volume '{}'", volume.name));
  if (volume.handle.empty()) {
    return Error(StatusCode::kInvalidArgument, "volume '{}' has no volumeHandle", volume.name);
  }
  if (volume.name.empty() || volume.name == "." || volume.name == ".." ||
      volume.name.find('/') != std::string::npos) {
    return Error(StatusCode::kInvalidArgument, "{} cannot be a volume's folder",
                 base::Quote(volume.name));
  }
  return base::OkStatus();
}

Volume ReadPersistentVolume(const VolumeSpec& spec) {
  const api::CsiSource source = spec.pv->csi();
  return {.driver = source.driver(),
          .handle = source.volume_handle(),
          .name = spec.pv->name(),
          .block = spec.block(),
          .read_only = spec.read_only || source.read_only(),
          .fs_type = source.fs_type(),
          .mount_options = spec.pv->mount_options(),
          .access_modes = spec.pv->access_modes(),
          .attributes = source.volume_attributes(),
          .stage_secret = source.secret_ref("nodeStageSecretRef"),
          .publish_secret = source.secret_ref("nodePublishSecretRef"),
          .expand_secret = source.secret_ref("nodeExpandSecretRef")};
}

Volume ReadInlineVolume(const VolumeSpec& spec, const api::Pod& pod) {
  const api::CsiSource source(base::json::Map(spec.pod_volume.json(), {"csi"}));
  Volume volume{
      .driver = source.driver(),
      .handle = api::InlineVolumeHandle(api::PodUid(pod.uid()), api::VolumeName(spec.name)),
      .name = spec.name,
      .ephemeral = true,
      .read_only = spec.read_only || source.read_only(),
      .fs_type = source.fs_type(),
      .access_modes = {"ReadWriteOnce"},
      .attributes = source.volume_attributes(),
      .publish_secret = source.secret_ref("nodePublishSecretRef")};
  // An inline volume can only name a Secret of its own namespace.
  if (!volume.publish_secret.empty()) volume.publish_secret.ns = pod.ns();
  return volume;
}

AccessMode::Mode ToAccessMode(const Volume& volume, const NodeCapabilities& capabilities) {
  const std::string mode = volume.access_modes.empty() ? "ReadWriteOnce" : volume.access_modes[0];
  if (mode == "ReadWriteMany") return AccessMode::MULTI_NODE_MULTI_WRITER;
  if (mode == "ReadOnlyMany") return AccessMode::MULTI_NODE_READER_ONLY;
  if (!capabilities.single_node_multi_writer) return AccessMode::SINGLE_NODE_WRITER;
  return mode == "ReadWriteOncePod" ? AccessMode::SINGLE_NODE_SINGLE_WRITER
                                    : AccessMode::SINGLE_NODE_MULTI_WRITER;
}

}  // namespace

StatusOr<Volume> ReadVolume(const VolumeSpec& spec, const api::Pod* pod) {
  Volume volume;
  if (spec.pv != nullptr && spec.pv->has_csi()) {
    volume = ReadPersistentVolume(spec);
  } else if (spec.pv == nullptr && pod != nullptr && spec.pod_volume.source_type() == "csi") {
    volume = ReadInlineVolume(spec, *pod);
  } else {
    return Error(StatusCode::kInvalidArgument, "volume '{}' is not a CSI volume", spec.name);
  }
  RETURN_IF_ERROR(CheckNames(volume));
  return volume;
}

Json ToJson(const Volume& volume) {
  return {{"driver", volume.driver}, {"volumeHandle", volume.handle}, {"block", volume.block}};
}

StatusOr<Record> ReadRecord(const Json& state) {
  Record record{.driver = base::json::String(state, {"driver"}),
                .handle = base::json::String(state, {"volumeHandle"}),
                .block = base::json::Bool(state, {"block"})};
  if (!api::IsCsiDriverName(record.driver) || record.handle.empty()) {
    return Error(StatusCode::kInvalidArgument,
                 "the volume's record does not name a CSI driver and a volume handle");
  }
  return record;
}

csi::v1::VolumeCapability MakeCapability(const Volume& volume, const NodeCapabilities& capabilities,
                                         std::optional<int64_t> mount_group) {
  csi::v1::VolumeCapability capability;
  capability.mutable_access_mode()->set_mode(ToAccessMode(volume, capabilities));
  if (volume.block) {
    capability.mutable_block();
    return capability;
  }
  auto& mount = *capability.mutable_mount();
  mount.set_fs_type(volume.fs_type);
  for (const std::string& option : volume.mount_options) mount.add_mount_flags(option);
  if (!volume.selinux_context.empty()) {
    mount.add_mount_flags(fmt::format("context=\"{}\"", volume.selinux_context));
  }
  if (mount_group.has_value() && capabilities.volume_mount_group) {
    mount.set_volume_mount_group(std::to_string(*mount_group));
  }
  return capability;
}

bool IsForOneNode(const Volume& volume) {
  return std::all_of(volume.access_modes.begin(), volume.access_modes.end(),
                     [](const std::string& mode) {
                       return mode == "ReadWriteOnce" || mode == "ReadWriteOncePod";
                     });
}

bool NodeAppliesFsGroup(const Volume& volume, const NodeCapabilities& capabilities,
                        const api::CsiDriver& driver, const api::Pod& pod) {
  if (!pod.fs_group().has_value() || volume.block || volume.read_only) return false;
  if (capabilities.volume_mount_group) return false;
  const std::string policy = driver.fs_group_policy();
  if (policy == "None") return false;
  if (policy == "File") return true;
  // ReadWriteOnceWithFSType
  const bool one_writer = std::any_of(
      volume.access_modes.begin(), volume.access_modes.end(), [](const std::string& mode) {
        return mode == "ReadWriteOnce" || mode == "ReadWriteOncePod";
      });
  return !volume.fs_type.empty() && one_writer;
}

}  // namespace berth::volume::csi_volume
