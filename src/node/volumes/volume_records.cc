#include "node/volumes/volume_records.h"

#include "base/ids.h"
#include "base/json.h"
#include "platform/files/durable_file.h"
#include "platform/files/private_folder.h"
#include "platform/files/record_files.h"

namespace berth::node {
namespace {

using base::Error;
using base::Json;
using base::OkStatus;
using base::Status;
using base::StatusCode;
using base::StatusOr;

constexpr int kVersion = 1;
constexpr size_t kMaxRecord = 256 * 1024;

constexpr std::string_view kStepNames[] = {"mounting", "mounted", "unmounting"};

std::string_view StepName(Step step) { return kStepNames[static_cast<int>(step)]; }

StatusOr<Step> ParseStep(const Json& json) {
  const std::string name = base::json::String(json, {"step"});
  for (int i = 0; i < 3; ++i) {
    if (kStepNames[i] == name) return static_cast<Step>(i);
  }
  return Error(StatusCode::kDataLoss, "unknown step '{}'", name);
}

// Parts of paths are read from these files and used by tear-down calls, so they are checked like
// any other input.
Status CheckPathPart(std::string_view what, std::string_view part) {
  if (part.empty() || part.size() > 253 || part == "." || part == ".." ||
      part.find('/') != std::string_view::npos || part.find('\0') != std::string_view::npos) {
    return Error(StatusCode::kDataLoss, "{} is not a file name", what);
  }
  return OkStatus();
}

Status CheckType(const Json& json, std::string_view type) {
  if (base::json::String(json, {"type"}) != type) {
    return Error(StatusCode::kDataLoss, "not a record of type {}", type);
  }
  if (base::json::String(json, {"plugin"}).empty()) {
    return Error(StatusCode::kDataLoss, "no plugin is named");
  }
  return OkStatus();
}

Json StateOf(const Json& json, std::string_view member) {
  const Json* state = base::json::Find(json, {member});
  return state != nullptr ? *state : Json::object();
}

void PutMount(Json& json, const std::optional<MountIdentity>& mount) {
  if (!mount.has_value()) return;
  json["mount"] = {
      {"id", mount->id}, {"major", mount->major}, {"minor", mount->minor}, {"root", mount->root}};
}

std::optional<MountIdentity> DecodeMount(const Json& json) {
  if (base::json::Find(json, {"mount"}) == nullptr) return std::nullopt;
  return MountIdentity{.id = static_cast<uint64_t>(base::json::Int(json, {"mount", "id"})),
                       .major = static_cast<uint32_t>(base::json::Int(json, {"mount", "major"})),
                       .minor = static_cast<uint32_t>(base::json::Int(json, {"mount", "minor"})),
                       .root = base::json::String(json, {"mount", "root"})};
}

Json Encode(const StoredDevice& device) {
  Json json = {{"version", kVersion},
               {"type", "device"},
               {"bootId", device.boot_id},
               {"step", StepName(device.step)},
               {"plugin", device.record.plugin},
               {"deviceName", device.record.device_name},
               {"pvName", device.record.pv_name},
               {"needsAttach", device.needs_attach},
               {"state", device.record.state}};
  PutMount(json, device.mount);
  return json;
}

StatusOr<Json> Parse(std::string_view text) {
  return platform::ParseRecord(text, kVersion, {.max_bytes = kMaxRecord, .max_depth = 32});
}

StatusOr<StoredDevice> DecodeDevice(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, Parse(text));
  RETURN_IF_ERROR(CheckType(json, "device"));
  StoredDevice device;
  ASSIGN_OR_RETURN(device.step, ParseStep(json));
  device.boot_id = base::json::String(json, {"bootId"});
  device.needs_attach = base::json::Bool(json, {"needsAttach"});
  device.record.plugin = base::json::String(json, {"plugin"});
  device.record.device_name = base::json::String(json, {"deviceName"});
  device.record.pv_name = base::json::String(json, {"pvName"});
  device.record.state = StateOf(json, "state");
  device.mount = DecodeMount(json);
  if (device.record.device_name.empty()) {
    return Error(StatusCode::kDataLoss, "no device is named");
  }
  return device;
}

Json Encode(const volume::DeferredMount& mount) {
  Json json = {{"source", mount.source},
               {"fsType", mount.fs_type},
               {"options", mount.options},
               {"onlyOnRootMismatch", mount.only_on_root_mismatch},
               {"selinuxLabel", mount.selinux_label}};
  if (mount.selinux_relabel) json["selinuxRelabel"] = true;
  if (mount.fs_group.has_value()) json["fsGroup"] = *mount.fs_group;
  return json;
}

volume::DeferredMount DecodeDeferredMount(const Json& json) {
  volume::DeferredMount mount{
      .source = base::json::String(json, {"source"}),
      .fs_type = base::json::String(json, {"fsType"}),
      .only_on_root_mismatch = base::json::Bool(json, {"onlyOnRootMismatch"}),
      .selinux_label = base::json::String(json, {"selinuxLabel"}),
      .selinux_relabel = base::json::Bool(json, {"selinuxRelabel"})};
  for (const Json& option : base::json::Array(json, {"options"})) {
    if (option.is_string()) mount.options.push_back(option.get<std::string>());
  }
  if (base::json::Find(json, {"fsGroup"}) != nullptr) {
    mount.fs_group = base::json::Int(json, {"fsGroup"});
  }
  return mount;
}

Json Encode(const StoredPodVolume& volume) {
  Json json = {{"version", kVersion},
               {"type", "podVolume"},
               {"bootId", volume.boot_id},
               {"step", StepName(volume.step)},
               {"plugin", volume.record.plugin},
               {"deviceName", volume.record.device_name},
               {"podUid", volume.record.pod_uid},
               {"podNamespace", volume.pod_ns},
               {"podName", volume.pod_name},
               {"names", volume.names},
               {"folderName", volume.record.folder_name},
               {"block", volume.record.block},
               {"pvName", volume.pv_name},
               {"needsAttach", volume.needs_attach},
               {"deviceState", volume.device_state},
               {"state", volume.record.state}};
  if (volume.record.sandbox.has_value()) json["handlerSocket"] = volume.record.sandbox->socket;
  if (volume.published.has_value()) {
    json["published"] = {{"path", volume.published->path},
                         {"block", volume.published->block},
                         {"readOnly", volume.published->read_only}};
    if (volume.published->selinux_relabel) json["published"]["selinuxRelabel"] = true;
    if (volume.published->deferred.has_value()) {
      json["published"]["deferred"] = Encode(*volume.published->deferred);
    }
  }
  PutMount(json, volume.mount);
  return json;
}

StatusOr<StoredPodVolume> DecodePodVolume(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, Parse(text));
  RETURN_IF_ERROR(CheckType(json, "podVolume"));
  StoredPodVolume volume;
  ASSIGN_OR_RETURN(volume.step, ParseStep(json));
  volume.boot_id = base::json::String(json, {"bootId"});
  volume.record.plugin = base::json::String(json, {"plugin"});
  volume.record.device_name = base::json::String(json, {"deviceName"});
  volume.record.pod_uid = base::json::String(json, {"podUid"});
  volume.record.folder_name = base::json::String(json, {"folderName"});
  volume.record.block = base::json::Bool(json, {"block"});
  volume.record.state = StateOf(json, "state");
  if (std::string socket = base::json::String(json, {"handlerSocket"}); !socket.empty()) {
    volume.record.sandbox = volume::SandboxPlace{.socket = std::move(socket)};
  }
  volume.pod_ns = base::json::String(json, {"podNamespace"});
  volume.pod_name = base::json::String(json, {"podName"});
  for (const Json& name : base::json::Array(json, {"names"})) {
    if (!name.is_string()) return Error(StatusCode::kDataLoss, "a volume's name is not a string");
    volume.names.push_back(name.get<std::string>());
    RETURN_IF_ERROR(CheckPathPart("the volume's name", volume.names.back()));
  }
  volume.pv_name = base::json::String(json, {"pvName"});
  volume.needs_attach = base::json::Bool(json, {"needsAttach"});
  volume.device_state = StateOf(json, "deviceState");
  if (base::json::Find(json, {"published"}) != nullptr) {
    volume.published = volume::Published{
        .path = base::json::String(json, {"published", "path"}),
        .block = base::json::Bool(json, {"published", "block"}),
        .read_only = base::json::Bool(json, {"published", "readOnly"}),
        .selinux_relabel = base::json::Bool(json, {"published", "selinuxRelabel"})};
    if (const Json* deferred = base::json::Find(json, {"published", "deferred"})) {
      volume.published->deferred = DecodeDeferredMount(*deferred);
    }
  }
  volume.mount = DecodeMount(json);
  RETURN_IF_ERROR(CheckPathPart("the pod's uid", volume.record.pod_uid));
  RETURN_IF_ERROR(CheckPathPart("the volume's folder", volume.record.folder_name));
  return volume;
}

std::string NameOf(const volume::DeviceRecord& record) {
  return base::Sha256Hex(record.device_name);
}

std::string NameOf(const volume::PodVolumeRecord& record) {
  return base::Sha256Hex(
      fmt::format("{}/{}/{}", record.pod_uid, record.plugin, record.folder_name));
}

}  // namespace

std::optional<MountIdentity> IdentifyMount(const std::vector<platform::MountEntry>& table,
                                           std::string_view path) {
  const platform::MountEntry* mount = platform::FindMount(table, path);
  if (mount == nullptr) return std::nullopt;
  return MountIdentity{
      .id = mount->id, .major = mount->major, .minor = mount->minor, .root = mount->root};
}

std::string VolumeRecords::DeviceFile(const volume::DeviceRecord& record) const {
  return fmt::format("{}/devices/{}{}", folder_, NameOf(record), platform::kRecordSuffix);
}

std::string VolumeRecords::PodVolumeFile(const volume::PodVolumeRecord& record) const {
  return fmt::format("{}/pods/{}{}", folder_, NameOf(record), platform::kRecordSuffix);
}

Status VolumeRecords::Open() {
  for (const std::string_view part : {"devices", "pods"}) {
    RETURN_IF_ERROR_WITH(platform::MakePrivateFolder(fmt::format("{}/{}", folder_, part)),
                         "make the folder of the volumes' records");
  }
  ASSIGN_OR_RETURN(boot_id_, platform::ReadBootId());
  return OkStatus();
}

StatusOr<VolumeRecords::Loaded> VolumeRecords::Load() {
  const platform::LoadOptions options{.on_damage = platform::OnDamage::kSetAside,
                                      .max_bytes = kMaxRecord};
  const auto name_of = [](const auto& stored) { return NameOf(stored.record); };
  ASSIGN_OR_RETURN(
      platform::LoadedRecords<StoredDevice> devices,
      platform::LoadRecords<StoredDevice>(folder_ + "/devices", options, DecodeDevice, name_of));
  ASSIGN_OR_RETURN(
      platform::LoadedRecords<StoredPodVolume> pods,
      platform::LoadRecords<StoredPodVolume>(folder_ + "/pods", options, DecodePodVolume, name_of));
  return Loaded{.devices = std::move(devices.records),
                .pod_volumes = std::move(pods.records),
                .damaged_devices = std::move(devices.damaged),
                .damaged_pod_volumes = std::move(pods.damaged)};
}

Status VolumeRecords::Write(StoredDevice& device) {
  device.boot_id = boot_id_;
  return base::Annotate(platform::WriteDurably<"node.device_record">(
                            DeviceFile(device.record), base::json::Dump(Encode(device))),
                        fmt::format("record that the volume is {}", StepName(device.step)));
}

Status VolumeRecords::Write(StoredPodVolume& volume) {
  volume.boot_id = boot_id_;
  return base::Annotate(platform::WriteDurably<"node.pod_volume_record">(
                            PodVolumeFile(volume.record), base::json::Dump(Encode(volume))),
                        fmt::format("record that the pod's volume is {}", StepName(volume.step)));
}

Status VolumeRecords::Remove(const StoredDevice& device) {
  return platform::RemoveDurably<"node.device_record">(DeviceFile(device.record));
}

Status VolumeRecords::Remove(const StoredPodVolume& volume) {
  return platform::RemoveDurably<"node.pod_volume_record">(PodVolumeFile(volume.record));
}

}  // namespace berth::node
