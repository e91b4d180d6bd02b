#include "volume/remote/disk_marks.h"

#include "base/ids.h"
#include "base/log.h"
#include "platform/files/durable_file.h"
#include "platform/files/record_files.h"
#include "volume/found_volumes.h"
#include "volume/volume_files.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using base::json::Bool;
using base::json::String;

constexpr int kVersion = 1;
constexpr size_t kDigestLength = 32;  // digits: 128 bits

StatusOr<DiskMark> ReadMark(const std::string& path, const std::string& boot) {
  ASSIGN_OR_RETURN(const std::string text, platform::ReadFile(path));
  ASSIGN_OR_RETURN(const Json json, platform::ParseRecord(text, kVersion));
  DiskMark mark{.device_name = String(json, {"deviceName"}),
                .pv_name = String(json, {"pvName"}),
                .block = Bool(json, {"block"}),
                .device = String(json, {"device"}),
                .logged_in = Bool(json, {"loggedIn"}),
                .state = base::json::Map(json, {"state"})};
  if (mark.device_name.empty()) {
    return base::Error(StatusCode::kDataLoss, "{} names no disk", base::Quote(path));
  }
  // Nothing that an earlier boot mapped is left.
  if (!platform::IsThisBoot(String(json, {"bootId"}), boot)) {
    mark.device.clear();
    mark.logged_in = false;
  }
  return mark;
}

}  // namespace

std::string DiskMarks::DigestOf(std::string_view device_name) {
  return base::Sha256Hex(device_name).substr(0, kDigestLength);
}

StatusOr<std::optional<DiskMark>> DiskMarks::Read(std::string_view device_name) const {
  ASSIGN_OR_RETURN(const std::string boot, platform::ReadBootId());
  auto mark = ReadMark(PathOf(device_name), boot);
  if (mark.status().code() == StatusCode::kNotFound) return std::optional<DiskMark>();
  RETURN_IF_ERROR(mark);
  return std::optional(*std::move(mark));
}

Status DiskMarks::Write(const DiskMark& mark) const {
  ASSIGN_OR_RETURN(const std::string boot, platform::ReadBootId());
  const std::string path = PathOf(mark.device_name);
  RETURN_IF_ERROR(platform::MakeFolders(ParentOf(path), 0750));
  return platform::WriteDurably<"disk.mark">(path,
                                             base::json::Dump({{"version", kVersion},
                                                               {"deviceName", mark.device_name},
                                                               {"pvName", mark.pv_name},
                                                               {"block", mark.block},
                                                               {"device", mark.device},
                                                               {"loggedIn", mark.logged_in},
                                                               {"bootId", boot},
                                                               {"state", mark.state}}));
}

Status DiskMarks::Remove(std::string_view device_name) const {
  return platform::RemoveDurably<"disk.mark">(PathOf(device_name));
}

Status DiskMarks::RemoveTornMarks() const {
  return platform::RemoveTornWrites(paths_.DiskMarks(plugin_));
}

StatusOr<std::vector<DiskMark>> DiskMarks::List() const {
  ASSIGN_OR_RETURN(const std::string boot, platform::ReadBootId());
  ASSIGN_OR_RETURN(const auto names, ListNames(paths_.DiskMarks(plugin_)));
  std::vector<DiskMark> marks;
  for (const std::string& name : names) {
    if (!name.ends_with(platform::kRecordSuffix) || platform::IsTornWrite(name)) continue;
    const std::string path = paths_.DiskMarks(plugin_) + "/" + name;
    auto mark = ReadMark(path, boot);
    if (mark.status().code() == StatusCode::kNotFound) continue;  // removed meanwhile
    if (mark.ok()) {
      marks.push_back(*std::move(mark));
    } else {
      LOG_WARNING("the mark of a disk, {}: {}", path, base::ToString(mark.status()));
    }
  }
  return marks;
}

}  // namespace berth::volume
