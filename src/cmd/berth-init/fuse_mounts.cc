#include "cmd/berth-init/fuse_mounts.h"

#include <dirent.h>
#include <stdlib.h>

#include <algorithm>
#include <memory>

#include "base/files/process_stat.h"
#include "cmd/berth-init/files.h"
#include "cmd/berth-init/fuse_holders.h"

namespace berth::init {
namespace {

// The kernel's internal dev_t has 12 bits of the major number and 20 bits of the minor number.
constexpr unsigned kMinorBits = 20;

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// Replaces the kernel's escapes, such as \040 for a space.
std::string Unescape(std::string_view text) {
  const auto octal = [&](size_t i) { return text[i] >= '0' && text[i] <= '7'; };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                               (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::vector<std::string> ListNames(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> handle(opendir(folder.c_str()), closedir);
  if (handle == nullptr) return names;
  while (const dirent* entry = readdir(handle.get())) names.emplace_back(entry->d_name);
  return names;
}

std::string FormatDevice(uint64_t number) {
  return std::to_string(number >> kMinorBits) + ":" +
         std::to_string(number & ((1UL << kMinorBits) - 1));
}

std::vector<std::string> ReadArguments(const std::string& process) {
  std::vector<std::string> arguments;
  if (const auto line = ReadWhole(process + "/cmdline"); line.ok()) {
    for (const std::string_view word : Split(*line, '\0')) arguments.emplace_back(word);
  }
  return arguments;
}

// Adds the process if it came into the PID namespace from outside. Such a process has no parent in
// the namespace (0).
void AddUtility(const std::string& process, pid_t pid, std::vector<Utility>& utilities) {
  const auto text = ReadWhole(process + "/status");
  if (!text.ok() || pid == 1) return;
  const auto status = base::ParseProcessStatus(*text);
  if (!status.has_value() || status->state == 'Z' || status->parent != 0) return;
  utilities.push_back({.pid = pid, .name = status->name});
}

bool HasDevice(const std::vector<Mount>& table, const std::string& device) {
  return std::any_of(table.begin(), table.end(),
                     [&](const Mount& mount) { return mount.device == device; });
}

}  // namespace

std::vector<Mount> ParseMounts(std::string_view mountinfo) {
  std::vector<Mount> table;
  for (const std::string_view line : Split(mountinfo, '\n')) {
    // 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
    const std::vector<std::string_view> fields = Split(line, ' ');
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (dash - fields.begin() < 6 || fields.end() - dash < 2) continue;
    const std::string_view type = dash[1];
    table.push_back({.id = std::string(fields[0]),
                     .device = std::string(fields[2]),
                     .mount_point = Unescape(fields[4]),
                     .fuse = type == "fuse" || type == "fuseblk" || type.starts_with("fuse.")});
  }
  return table;
}

Processes FindProcesses(const std::string& proc) {
  Processes found;
  std::vector<pid_t> pids;
  for (const std::string& name : ListNames(proc)) {
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    pids.push_back(static_cast<pid_t>(strtol(name.c_str(), nullptr, 10)));
    AddUtility(proc + "/" + name, pids.back(), found.utilities);
  }
  const std::vector<FuseHolder> holders = FindFuseHolders(proc, pids);
  // A kernel that names the file system of one server names those of all.
  const bool names = std::any_of(holders.begin(), holders.end(), [](const FuseHolder& holder) {
    return !holder.connections.empty();
  });
  for (const FuseHolder& holder : holders) {
    if (names && holder.read && holder.connections.empty()) continue;  // it serves none yet
    FuseServer server{.arguments = ReadArguments(proc + "/" + std::to_string(holder.pid))};
    for (const uint64_t number : holder.connections) {
      server.connections.emplace_back(FormatDevice(number));
    }
    if (holder.connections.empty()) server.connections.emplace_back(std::nullopt);
    found.servers.push_back(std::move(server));
  }
  return found;
}

std::vector<Mount> FindServedMounts(const std::vector<FuseServer>& servers,
                                    const std::vector<Mount>& host, const std::vector<Mount>& own,
                                    const std::vector<Mount>& earlier) {
  std::vector<std::string> devices;  // that are certainly served
  const auto is_served = [&](const Mount& mount) {
    return std::find(devices.begin(), devices.end(), mount.device) != devices.end();
  };
  for (const FuseServer& server : servers) {
    for (const auto& connection : server.connections) {
      if (connection) devices.push_back(*connection);
    }
  }
  const auto may_be_served = [&](const Mount& mount) {
    return mount.fuse && HasDevice(own, mount.device) &&
           std::find(earlier.begin(), earlier.end(), mount) == earlier.end();
  };
  bool any = false;  // each mount that may be served counts as served
  for (const FuseServer& server : servers) {
    if (std::find(server.connections.begin(), server.connections.end(), std::nullopt) ==
        server.connections.end()) {
      continue;
    }
    bool named = false;
    for (const Mount& mount : host) {
      if (!may_be_served(mount) || std::find(server.arguments.begin(), server.arguments.end(),
                                             mount.mount_point) == server.arguments.end()) {
        continue;
      }
      named = true;
      devices.push_back(mount.device);
    }
    any |= !named;
  }
  std::vector<Mount> served;
  for (const Mount& mount : host) {
    if (is_served(mount) || (any && may_be_served(mount))) served.push_back(mount);
  }
  return served;
}

}  // namespace berth::init
