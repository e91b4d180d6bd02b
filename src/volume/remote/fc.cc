#include "volume/remote/fc.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <climits>
#include <thread>

#include "base/log.h"
#include "base/text.h"
#include "platform/processes/child.h"
#include "volume/found_volumes.h"
#include "volume/remote/disk_names.h"

namespace berth::volume {
namespace {

using base::Error;
using base::OkStatus;
using base::Quote;
using base::StatusCode;
using base::json::Int;
using base::json::String;
using base::json::Strings;

constexpr size_t kMaxNames = 32;

std::vector<std::string> NamesIn(const Json& source, std::string_view member) {
  return Strings(base::json::Array(source, {member}));
}

// Whether a link's name is "fc-0xWWN-lun-N", or the same behind "pci-ADDRESS-".
bool NamesLun(std::string_view link, std::string_view wwn, int64_t lun) {
  const std::string end = fmt::format("fc-0x{}-lun-{}", wwn, lun);
  return link == end || (link.starts_with("pci-") && link.ends_with("-" + end));
}

// Whether the device, or a partition of it, is mounted or part of another device.
bool IsHeld(const std::string& device) {
  constexpr std::chrono::seconds kTime(10);
  const auto held = platform::AskChild<bool>(
      fmt::format("look whether {} is in use", Quote(device)), kTime, [device](bool& held) {
        const int fd = open(device.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC | O_NONBLOCK);
        held = fd < 0 && errno == EBUSY;
        return 0;
      });
  return held.ok() && *held;
}

}  // namespace

StatusOr<DiskPlugin::Disk> FcPlugin::ReadDisk(const VolumeSpec& spec) const {
  const Json& source = Source(spec);
  std::vector<std::string> wwns = NamesIn(source, "targetWWNs"), wwids = NamesIn(source, "wwids");
  if (wwns.empty() == wwids.empty() || wwns.size() + wwids.size() > kMaxNames) {
    return Error(StatusCode::kInvalidArgument,
                 "fc needs either targetWWNs or wwids, and at most {} of them", kMaxNames);
  }
  for (const std::string& wwn : wwns) RETURN_IF_ERROR(CheckPlainName("fc.targetWWNs", wwn));
  for (std::string& wwid : wwids) {
    // udev shows a blank as an underscore.
    std::replace(wwid.begin(), wwid.end(), ' ', '_');
    RETURN_IF_ERROR(CheckPlainName("fc.wwids", wwid, ":+="));
  }
  const int64_t lun = Int(source, {"lun"});
  std::sort(wwns.begin(), wwns.end());
  std::sort(wwids.begin(), wwids.end());
  return Disk{.identity = wwns.empty() ? fmt::format("{}", fmt::join(wwids, ","))
                                       : fmt::format("{}:{}", fmt::join(wwns, ","), lun),
              .fs_type = String(source, {"fsType"}),
              .read_only = IsReadOnly(spec),
              .state = {{"targetWWNs", wwns}, {"wwids", wwids}, {"lun", lun}}};
}

StatusOr<std::optional<std::string>> FcPlugin::FindDevice(const Json& state) const {
  std::vector<std::string> links;
  ASSIGN_OR_RETURN(const auto by_path, ListNames(places_.links + "/by-path"));
  for (const std::string& wwn : NamesIn(state, "targetWWNs")) {
    for (const std::string& link : by_path) {
      if (NamesLun(link, wwn, Int(state, {"lun"}))) links.push_back("by-path/" + link);
    }
  }
  ASSIGN_OR_RETURN(const auto by_id, ListNames(places_.links + "/by-id"));
  for (const std::string& wwid : NamesIn(state, "wwids")) {
    for (const std::string& link : by_id) {
      if (link == "scsi-" + wwid) links.push_back("by-id/" + link);
    }
  }
  std::optional<std::string> first;
  for (const std::string& link : links) {
    std::array<char, PATH_MAX> to;
    const std::string path = places_.links + "/" + link;
    const ssize_t length = readlink(path.c_str(), to.data(), to.size());
    if (length <= 0) continue;  // removed meanwhile
    const std::string name(
        base::FileNameOf(std::string_view(to.data(), static_cast<size_t>(length))));
    if (!first.has_value()) first = name;
    ASSIGN_OR_RETURN(const auto holders,
                     ListNames(fmt::format("{}/block/{}/holders", places_.sys, name)));
    for (const std::string& holder : holders) {
      if (holder.starts_with("dm-")) return std::optional(holder);
    }
  }
  return first;
}

Status FcPlugin::ScanHosts() {
  ASSIGN_OR_RETURN(const auto hosts, ListNames(places_.sys + "/class/scsi_host"));
  for (const std::string& scsi_host : hosts) {
    const std::string scan = fmt::format("{}/class/scsi_host/{}/scan", places_.sys, scsi_host);
    RETURN_IF_ERROR(WriteFile(scan, "- - -"));
  }
  return OkStatus();
}

StatusOr<std::string> FcPlugin::MapDisk(const api::Pod&, const VolumeSpec&, const Disk& disk,
                                        DiskMark&) {
  ASSIGN_OR_RETURN(auto found, FindDevice(disk.state));
  if (!found.has_value()) {
    RETURN_IF_ERROR(ScanHosts());
    const auto deadline = std::chrono::steady_clock::now() + kAppearTime;
    while (true) {
      ASSIGN_OR_RETURN(found, FindDevice(disk.state));
      if (found.has_value() || host().ending() || std::chrono::steady_clock::now() >= deadline) {
        break;
      }
      std::this_thread::sleep_for(kLookAgain);
    }
  }
  if (found.has_value()) return "/dev/" + *found;
  return Error(StatusCode::kNotFound,
               "this node sees no disk of Fibre Channel with the name {}: no link below {} names "
               "it after a scan",
               Quote(disk.identity), places_.links);
}

Status FcPlugin::RemovePath(const std::string& name) {
  const platform::Command flush{.argv = {"blockdev", "--flushbufs", "/dev/" + name},
                                .timeout = kLocalTime};
  const Status flushed = RunUtility(flush).status();
  if (!flushed.ok()) LOG_WARNING("{}", base::ToString(flushed));
  return WriteFile(fmt::format("{}/block/{}/device/delete", places_.sys, name), "1");
}

Status FcPlugin::UnmapDisk(const DiskMark& mark) {
  if (mark.device.empty()) return OkStatus();
  // The device may have got another name, or be another disk by now: only the LUN's own is removed.
  ASSIGN_OR_RETURN(const auto found, FindDevice(mark.state));
  if (!found.has_value() || "/dev/" + *found != mark.device) return OkStatus();
  // The kernel takes a disk away even while it is mounted: by another volume that names it, or by
  // the host itself. The last volume removes it.
  ASSIGN_OR_RETURN(const auto all, marks().List());
  const bool shared = std::any_of(all.begin(), all.end(), [&](const DiskMark& other) {
    return other.device_name != mark.device_name && other.device == mark.device;
  });
  if (shared || IsHeld(mark.device)) {
    LOG_INFO("{} stays, because others use it", mark.device);
    return OkStatus();
  }
  // The host's multipathd owns the device over several paths, and takes it away with its paths.
  if (!found->starts_with("dm-")) return RemovePath(*found);
  const platform::Command flush{.argv = {"multipath", "-f", mark.device}, .timeout = kLocalTime};
  ASSIGN_OR_RETURN(const auto paths,
                   ListNames(fmt::format("{}/block/{}/slaves", places_.sys, *found)));
  RETURN_IF_ERROR(RunUtility(flush).status());
  for (const std::string& path : paths) RETURN_IF_ERROR(RemovePath(path));
  return OkStatus();
}

}  // namespace berth::volume
