#include "volume/remote/iscsi_sessions.h"

#include <charconv>

#include "base/text.h"

namespace berth::volume {
namespace {

// The text behind `label`, without blanks and what follows the first blank or comma; "": the line
// does not begin with the label.
std::string_view ValueOf(std::string_view line, std::string_view label) {
  if (!line.starts_with(label)) return "";
  line = base::Trim(line.substr(label.size()));
  return line.substr(0, line.find_first_of(" \t,"));
}

}  // namespace

std::vector<IscsiSession> ParseSessions(std::string_view text) {
  std::vector<IscsiSession> sessions;
  std::string target, portal;
  int lun = -1;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = base::Trim(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (const auto name = ValueOf(line, "Target:"); !name.empty()) target = name;
    if (const auto at = ValueOf(line, "Persistent Portal:"); !at.empty()) portal = at;
    // A session begins with its interface; a target may have several portals, and these sessions.
    if (const auto name = ValueOf(line, "Iface Name:"); !name.empty()) {
      sessions.push_back({.target = target,
                          .portal = portal,
                          .interface = std::string(name),
                          .id = "",
                          .host = "",
                          .disks = {}});
      lun = -1;
    }
    if (sessions.empty()) continue;
    if (const auto id = ValueOf(line, "SID:"); !id.empty()) sessions.back().id = std::string(id);
    if (const auto host = ValueOf(line, "Host Number:"); !host.empty()) {
      sessions.back().host = std::string(host);
    }
    if (const size_t at = line.find("Lun: "); line.starts_with("scsi") && at != line.npos) {
      const std::string_view number = line.substr(at + 5);
      lun = -1;
      std::from_chars(number.data(), number.data() + number.size(), lun);
    }
    if (const auto disk = ValueOf(line, "Attached scsi disk"); !disk.empty() && lun >= 0) {
      sessions.back().disks.push_back({.lun = lun, .name = std::string(disk)});
    }
  }
  return sessions;
}

}  // namespace berth::volume
