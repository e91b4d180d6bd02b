#include "volume/remote/rbd.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/log.h"
#include "base/text.h"
#include "volume/remote/ceph_keyring.h"
#include "volume/remote/disk_names.h"

namespace berth::volume {
namespace {

using base::Error;
using base::OkStatus;
using base::Quote;
using base::StatusCode;
using base::json::String;
using std::chrono::seconds;

constexpr std::string_view kDefaultPool = "rbd";
constexpr std::string_view kDefaultKeyring = "/etc/ceph/keyring";
constexpr seconds kClusterTime{25};  // to ask the cluster
constexpr seconds kMapTime{60};
// How long `rbd` itself waits for monitors and for an object's server.
constexpr char kMonitorTime[] = "--client_mount_timeout=9";
constexpr char kObjectTime[] = "--rados_osd_op_timeout=9";

std::string PoolOf(const Json& source) {
  return String(source, {"pool"}).empty() ? std::string(kDefaultPool) : String(source, {"pool"});
}

std::vector<std::string> ImageArguments(const Json& source) {
  return {"--pool=" + PoolOf(source), "--image=" + String(source, {"image"})};
}

bool IsOnlyRead(const VolumeSpec& spec) {
  if (spec.pv == nullptr) return false;
  const std::vector<std::string> modes = spec.pv->access_modes();
  return modes.size() == 1 && modes.front() == "ReadOnlyMany";
}

StatusOr<Json> ParseAnswer(const std::string& text, std::string_view what) {
  const auto json = base::json::Parse(text);
  if (json.ok()) return *json;
  return Error(StatusCode::kInternal, "{}: `rbd` gave no JSON: {}", what,
               base::Message(json.status()));
}

// The address of a client that has the image open for writing; "": there is none.
StatusOr<std::string> FindWatcher(const std::string& status) {
  ASSIGN_OR_RETURN(const Json json, ParseAnswer(status, "status of the image"));
  // Ceph 10 prints an object, later ones a list.
  const Json* watchers = base::json::Find(json, {"watchers"});
  if (watchers == nullptr || watchers->empty()) return std::string();
  const Json& first = *watchers->begin();
  const std::string address = String(first, {"address"});
  return address.empty() ? std::string("?") : address;
}

StatusOr<bool> HasExclusiveLock(const std::string& info) {
  ASSIGN_OR_RETURN(const Json json, ParseAnswer(info, "features of the image"));
  const std::vector<std::string> features =
      base::json::Strings(base::json::Array(json, {"features"}));
  return std::find(features.begin(), features.end(), "exclusive-lock") != features.end();
}

}  // namespace

StatusOr<DiskPlugin::Disk> RbdPlugin::ReadDisk(const VolumeSpec& spec) const {
  const Json& source = Source(spec);
  std::vector<std::string> monitors = MonitorsOf(source);
  RETURN_IF_ERROR(CheckMonitors("rbd.monitors", monitors));
  RETURN_IF_ERROR(CheckCephUser("rbd.user", CephUserOf(source)));
  RETURN_IF_ERROR(CheckPlainName("rbd.pool", PoolOf(source)));
  const std::string image = String(source, {"image"});
  RETURN_IF_ERROR(CheckPlainName("rbd.image", image));
  // Whoever may make a pod must not use the keys of the node, which reach the data of all tenants.
  if (spec.pv == nullptr && String(source, {"secretRef", "name"}).empty()) {
    return Error(
        StatusCode::kInvalidArgument,
        "rbd.secretRef is missing, and only a PersistentVolume may use the node's keyring");
  }
  std::sort(monitors.begin(), monitors.end());
  return Disk{.identity = fmt::format("{}:{}/{}", fmt::join(monitors, ","), PoolOf(source), image),
              .fs_type = String(source, {"fsType"}),
              .read_only = IsReadOnly(spec),
              .state = {{"pool", PoolOf(source)}, {"image", image}}};
}

StatusOr<std::string> RbdPlugin::RunAsUser(const std::vector<std::string>& arguments,
                                           const Json& source, const std::string& keyring,
                                           std::chrono::milliseconds timeout) {
  platform::Command command{.argv = {"rbd"}, .timeout = timeout};
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  const std::vector<std::string> image = ImageArguments(source);
  command.argv.insert(command.argv.end(), image.begin(), image.end());
  std::string file = String(source, {"keyring"}, kDefaultKeyring);
  if (!keyring.empty()) {
    file = "{keyring}";
    command.secrets = {{.name = "keyring", .content = keyring}};
  }
  for (std::string& argument :
       std::vector<std::string>{"-m", fmt::format("{}", fmt::join(MonitorsOf(source), ",")), "--id",
                                CephUserOf(source), "--keyring", file, kMonitorTime, kObjectTime}) {
    command.argv.push_back(std::move(argument));
  }
  return RunUtility(command);
}

StatusOr<std::vector<RbdPlugin::Mapping>> RbdPlugin::ListMappings() {
  ASSIGN_OR_RETURN(
      const std::string text,
      RunUtility({.argv = {"rbd", "device", "list", "--format", "json"}, .timeout = kLocalTime}));
  ASSIGN_OR_RETURN(const Json json, ParseAnswer(text, "list mapped images"));
  std::vector<Mapping> mappings;
  for (const Json& entry : json) {
    // Snapshots and images of a namespace are no volumes of this plugin.
    const std::string snapshot = String(entry, {"snap"});
    if ((!snapshot.empty() && snapshot != "-") || !String(entry, {"namespace"}).empty()) continue;
    mappings.push_back({.pool = String(entry, {"pool"}),
                        .image = String(entry, {"name"}),
                        .device = String(entry, {"device"})});
  }
  return mappings;
}

StatusOr<std::vector<std::string>> RbdPlugin::FindDevices(const DiskMark& mark) {
  ASSIGN_OR_RETURN(const auto mappings, ListMappings());
  ASSIGN_OR_RETURN(const auto all, marks().List());
  std::vector<std::string> devices;
  for (const Mapping& mapping : mappings) {
    if (mapping.pool != String(mark.state, {"pool"}) ||
        mapping.image != String(mark.state, {"image"})) {
      continue;
    }
    const bool of_other = std::any_of(all.begin(), all.end(), [&](const DiskMark& other) {
      return other.device_name != mark.device_name && other.device == mapping.device;
    });
    const bool own = mark.device.empty() ? !of_other : mapping.device == mark.device;
    if (own) devices.push_back(mapping.device);
  }
  return devices;
}

Status RbdPlugin::UnmapDevice(const std::string& device) {
  return RunUtility({.argv = {"rbd", "device", "unmap", "--options", "noudev", device},
                     .timeout = kMapTime})
      .status();
}

StatusOr<std::string> RbdPlugin::MapDisk(const api::Pod& pod, const VolumeSpec& spec,
                                         const Disk& disk, DiskMark& mark) {
  const Json& source = Source(spec);
  ASSIGN_OR_RETURN(const auto known, FindDevices(mark));
  if (!known.empty() && !mark.device.empty()) return known.front();
  // A device that no mark knows may belong to another cluster with such a pool and image, so it is
  // not used. The kernel refuses to unmap it while it is in use.
  for (const std::string& device : known) RETURN_IF_ERROR(UnmapDevice(device));

  ASSIGN_OR_RETURN(const std::string keyring,
                   MakeCephKeyring(host(), pod, spec, source, CephUserOf(source)));
  ASSIGN_OR_RETURN(const std::string info,
                   RunAsUser({"info", "--format", "json"}, source, keyring, kClusterTime));
  ASSIGN_OR_RETURN(const bool exclusive, HasExclusiveLock(info));
  if (!IsOnlyRead(spec)) {
    ASSIGN_OR_RETURN(const std::string status,
                     RunAsUser({"status", "--format", "json"}, source, keyring, kClusterTime));
    ASSIGN_OR_RETURN(const std::string watcher, FindWatcher(status));
    if (!watcher.empty()) {
      return Error(StatusCode::kFailedPrecondition,
                   "image {}/{} is still in use by the client at {}", PoolOf(source),
                   String(source, {"image"}), watcher);
    }
  }
  // The module may be there already, or part of the kernel.
  const auto loaded = exec().Run({.argv = {"modprobe", "rbd"}, .timeout = kLocalTime});
  if (!loaded.ok()) LOG_DEBUG("modprobe rbd: {}", base::ToString(loaded.status()));
  // The plugin waits for the device itself, because the host's udev may be out of reach of a pod.
  std::vector<std::string> map = {"device", "map", "--options", "noudev"};
  if (disk.read_only) {
    map.emplace_back("--read-only");
  } else if (exclusive) {
    map.emplace_back("--exclusive");
  }
  ASSIGN_OR_RETURN(const std::string out, RunAsUser(map, source, keyring, kMapTime));
  const std::string device(base::Trim(out));
  if (device.starts_with("/dev/rbd") && device.find_first_of(" \n") == std::string::npos) {
    return device;
  }
  return Error(StatusCode::kInternal, "`rbd device map` named no device: {}", Quote(device));
}

Status RbdPlugin::UnmapDisk(const DiskMark& mark) {
  const auto devices = FindDevices(mark);
  // Where there is no `rbd`, none has mapped anything for this mark.
  if (devices.status().code() == StatusCode::kNotFound && mark.device.empty()) return OkStatus();
  RETURN_IF_ERROR(devices);
  for (const std::string& device : *devices) RETURN_IF_ERROR(UnmapDevice(device));
  return OkStatus();
}

}  // namespace berth::volume
