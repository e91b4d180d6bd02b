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
// In a mark's state: the devices of images with this name that were there before the map.
constexpr std::string_view kBefore = "before";
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

struct Watchers {
  size_t count = 0;
  std::string first;  // its address
};
// The clients that have the image open for writing.
StatusOr<Watchers> ReadWatchers(const std::string& status) {
  ASSIGN_OR_RETURN(const Json json, ParseAnswer(status, "status of the image"));
  // Ceph 10 prints an object, later ones a list.
  const Json* watchers = base::json::Find(json, {"watchers"});
  if (watchers == nullptr || watchers->empty()) return Watchers();
  return Watchers{.count = watchers->size(), .first = String(*watchers->begin(), {"address"}, "?")};
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

StatusOr<std::vector<std::string>> RbdPlugin::ListNamesakes(const Json& state) {
  ASSIGN_OR_RETURN(
      const std::string text,
      RunUtility({.argv = {"rbd", "device", "list", "--format", "json"}, .timeout = kLocalTime}));
  ASSIGN_OR_RETURN(const Json json, ParseAnswer(text, "list mapped images"));
  std::vector<std::string> devices;
  for (const Json& entry : json) {
    // Snapshots and images of a namespace are no volumes of this plugin.
    const std::string snapshot = String(entry, {"snap"});
    if ((!snapshot.empty() && snapshot != "-") || !String(entry, {"namespace"}).empty()) continue;
    if (String(entry, {"pool"}) == String(state, {"pool"}) &&
        String(entry, {"name"}) == String(state, {"image"})) {
      devices.push_back(String(entry, {"device"}));
    }
  }
  return devices;
}

StatusOr<std::vector<std::string>> RbdPlugin::ChooseOwn(
    const DiskMark& mark, const std::vector<std::string>& namesakes) const {
  ASSIGN_OR_RETURN(const auto all, marks().List());
  const std::vector<std::string> before =
      base::json::Strings(base::json::Array(mark.state, {kBefore}));
  std::vector<std::string> own;
  for (const std::string& device : namesakes) {
    const bool of_other = std::any_of(all.begin(), all.end(), [&](const DiskMark& other) {
      return other.device_name != mark.device_name && other.device == device;
    });
    const bool remainder = mark.device.empty() && mark.logged_in && !of_other &&
                           std::find(before.begin(), before.end(), device) == before.end();
    if (device == mark.device || remainder) own.push_back(device);
  }
  return own;
}

Status RbdPlugin::NoteBegun(DiskMark& mark, const std::vector<std::string>& namesakes,
                            const std::vector<std::string>& own) const {
  Json before = Json::array();
  for (const std::string& device : namesakes) {
    if (std::find(own.begin(), own.end(), device) == own.end()) before.push_back(device);
  }
  mark.device.clear();
  mark.logged_in = true;
  mark.state[kBefore] = std::move(before);
  return marks().Write(mark);
}

Status RbdPlugin::UnmapDevice(const std::string& device) {
  return RunUtility({.argv = {"rbd", "device", "unmap", "--options", "noudev", device},
                     .timeout = kMapTime})
      .status();
}

StatusOr<std::string> RbdPlugin::MapDisk(const api::Pod& pod, const VolumeSpec& spec,
                                         const Disk& disk, DiskMark& mark) {
  const Json& source = Source(spec);
  const base::KeyLocks::Hold hold =
      images_.WaitExclusive(fmt::format("{}/{}", PoolOf(source), String(source, {"image"})));
  ASSIGN_OR_RETURN(const auto namesakes, ListNamesakes(disk.state));
  ASSIGN_OR_RETURN(const auto own, ChooseOwn(mark, namesakes));
  if (!own.empty() && !mark.device.empty()) return own.front();
  // A device that no mark knows may still be of another cluster with such a pool and image, so it
  // is not used. The kernel refuses to unmap it while it is in use.
  for (const std::string& device : own) RETURN_IF_ERROR(UnmapDevice(device));

  ASSIGN_OR_RETURN(const std::string keyring,
                   MakeCephKeyring(host(), pod, spec, source, CephUserOf(source)));
  ASSIGN_OR_RETURN(const std::string info,
                   RunAsUser({"info", "--format", "json"}, source, keyring, kClusterTime));
  ASSIGN_OR_RETURN(const bool exclusive, HasExclusiveLock(info));
  if (!IsOnlyRead(spec)) {
    ASSIGN_OR_RETURN(const std::string status,
                     RunAsUser({"status", "--format", "json"}, source, keyring, kClusterTime));
    ASSIGN_OR_RETURN(const Watchers watchers, ReadWatchers(status));
    if (watchers.count > 0) {
      return Error(StatusCode::kFailedPrecondition,
                   "image {}/{} is still in use by the client at {}", PoolOf(source),
                   String(source, {"image"}), watchers.first);
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
  RETURN_IF_ERROR(NoteBegun(mark, namesakes, own));
  ASSIGN_OR_RETURN(const std::string out, RunAsUser(map, source, keyring, kMapTime));
  const std::string device(base::Trim(out));
  if (!device.starts_with("/dev/rbd") || device.find_first_of(" \n") != std::string::npos) {
    return Error(StatusCode::kInternal, "`rbd device map` named no device: {}", Quote(device));
  }
  // Without the lock two nodes may both have found no watcher. The one that maps last sees both.
  if (!disk.read_only && !exclusive && !IsOnlyRead(spec)) {
    const auto status = RunAsUser({"status", "--format", "json"}, source, keyring, kClusterTime);
    const auto watchers = status.ok() ? ReadWatchers(*status) : status.status();
    if (!watchers.ok() || watchers->count > 1) {
      RETURN_IF_ERROR(UnmapDevice(device));
      RETURN_IF_ERROR(watchers);
      return Error(StatusCode::kFailedPrecondition,
                   "image {}/{} has been opened by another client at the same time", PoolOf(source),
                   String(source, {"image"}));
    }
  }
  mark.device = device;
  RETURN_IF_ERROR(marks().Write(mark));
  LOG_INFO("{} is mapped as {}", mark.device_name, device);
  return device;
}

Status RbdPlugin::UnmapDisk(const DiskMark& mark) {
  if (mark.device.empty() && !mark.logged_in) return OkStatus();  // no map was begun
  const base::KeyLocks::Hold hold = images_.WaitExclusive(
      fmt::format("{}/{}", String(mark.state, {"pool"}), String(mark.state, {"image"})));
  ASSIGN_OR_RETURN(const auto namesakes, ListNamesakes(mark.state));
  ASSIGN_OR_RETURN(const auto own, ChooseOwn(mark, namesakes));
  if (own.empty()) return OkStatus();
  // After the unmap another image may get the device, before this mark is removed.
  DiskMark left = mark;
  RETURN_IF_ERROR(NoteBegun(left, namesakes, own));
  for (const std::string& device : own) RETURN_IF_ERROR(UnmapDevice(device));
  return OkStatus();
}

}  // namespace berth::volume
