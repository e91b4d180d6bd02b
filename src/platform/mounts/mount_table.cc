// The part of mounter.h that reads: mountinfo and mount options.
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/log.h"
#include "base/text.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/mounts/mounter.h"

namespace berth::platform {
namespace {

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// Undoes the kernel's \040 for blanks, tabs, line feeds, backslashes and '#'.
std::string Unescape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(&text[i + 1], &text[i + 1] + 3, value, 8).ptr == &text[i + 1] + 3) {
      out += static_cast<char>(value);
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

template <typename T>
bool ParseNumber(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::vector<std::string> SplitOptions(std::string_view text) {
  std::vector<std::string> options;
  for (const std::string_view option : Split(text, ',')) options.push_back(Unescape(option));
  return options;
}

// 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
std::optional<MountEntry> ParseLine(std::string_view line) {
  const std::vector<std::string_view> fields = Split(line, ' ');
  const auto dash = std::find(fields.begin(), fields.end(), "-");
  if (fields.size() < 9 || dash - fields.begin() < 6 || fields.end() - dash < 3) return {};
  MountEntry entry;
  const size_t colon = std::min(fields[2].find(':'), fields[2].size() - 1);
  if (!ParseNumber(fields[0], entry.id) || !ParseNumber(fields[1], entry.parent_id) ||
      !ParseNumber(fields[2].substr(0, colon), entry.major) ||
      !ParseNumber(fields[2].substr(colon + 1), entry.minor)) {
    return {};
  }
  entry.root = Unescape(fields[3]);
  entry.mount_point = Unescape(fields[4]);
  entry.options = SplitOptions(fields[5]);
  for (auto it = fields.begin() + 6; it != dash; ++it) entry.propagation.emplace_back(*it);
  entry.fs_type = Unescape(dash[1]);
  // An empty source leaves two blanks, which Split joins: then the options follow the type
  // directly.
  if (fields.end() - dash > 3) entry.source = Unescape(dash[2]);
  entry.super_options = SplitOptions(fields.back());
  return entry;
}

struct FlagOption {
  std::string_view name;
  unsigned long set;
  unsigned long clear;
};

// The options of mount(8) that set or clear flags of mount(2). An option that does neither is for
// mount(8) alone.
constexpr std::array kFlagOptions = std::to_array<FlagOption>({
    {"ro", MS_RDONLY, 0},
    {"rw", 0, MS_RDONLY},
    {"nosuid", MS_NOSUID, 0},
    {"suid", 0, MS_NOSUID},
    {"nodev", MS_NODEV, 0},
    {"dev", 0, MS_NODEV},
    {"noexec", MS_NOEXEC, 0},
    {"exec", 0, MS_NOEXEC},
    {"sync", MS_SYNCHRONOUS, 0},
    {"async", 0, MS_SYNCHRONOUS},
    {"dirsync", MS_DIRSYNC, 0},
    {"remount", MS_REMOUNT, 0},
    {"mand", MS_MANDLOCK, 0},
    {"nomand", 0, MS_MANDLOCK},
    {"atime", 0, MS_NOATIME},
    {"noatime", MS_NOATIME, 0},
    {"diratime", 0, MS_NODIRATIME},
    {"nodiratime", MS_NODIRATIME, 0},
    {"relatime", MS_RELATIME, 0},
    {"norelatime", 0, MS_RELATIME},
    {"strictatime", MS_STRICTATIME, 0},
    {"nostrictatime", 0, MS_STRICTATIME},
    {"lazytime", MS_LAZYTIME, 0},
    {"nolazytime", 0, MS_LAZYTIME},
    {"nosymfollow", MS_NOSYMFOLLOW, 0},
    {"symfollow", 0, MS_NOSYMFOLLOW},
    {"silent", MS_SILENT, 0},
    {"loud", 0, MS_SILENT},
    {"bind", MS_BIND, 0},
    {"rbind", MS_BIND | MS_REC, 0},
    {"defaults", 0, 0},
    {"auto", 0, 0},
    {"noauto", 0, 0},
    {"user", 0, 0},
    {"nouser", 0, 0},
    {"users", 0, 0},
    {"owner", 0, 0},
    {"group", 0, 0},
    {"nofail", 0, 0},
    {"_netdev", 0, 0},
});

constexpr std::array kPropagationOptions =
    std::to_array<std::pair<std::string_view, unsigned long>>({
        {"shared", MS_SHARED},
        {"rshared", MS_SHARED | MS_REC},
        {"private", MS_PRIVATE},
        {"rprivate", MS_PRIVATE | MS_REC},
        {"slave", MS_SLAVE},
        {"rslave", MS_SLAVE | MS_REC},
        {"unbindable", MS_UNBINDABLE},
        {"runbindable", MS_UNBINDABLE | MS_REC},
    });

// False: the option is for the file system.
bool ApplyMountOption(std::string_view option, ParsedOptions& parsed) {
  if (option.empty() || option.starts_with("x-") || option.starts_with("X-") ||
      option.starts_with("comment=")) {
    return true;
  }
  for (const FlagOption& flag : kFlagOptions) {
    if (flag.name != option) continue;
    parsed.flags = (parsed.flags | flag.set) & ~flag.clear;
    return true;
  }
  for (const auto& [name, propagation] : kPropagationOptions) {
    if (name != option) continue;
    parsed.propagation = propagation;
    return true;
  }
  return false;
}

}  // namespace

bool MountEntry::read_only() const {
  return std::find(options.begin(), options.end(), "ro") != options.end() ||
         std::find(super_options.begin(), super_options.end(), "ro") != super_options.end();
}

base::StatusOr<std::vector<MountEntry>> ParseMountInfo(std::string_view text) {
  std::vector<MountEntry> table;
  for (const std::string_view line : Split(text, '\n')) {
    std::optional<MountEntry> entry = ParseLine(line);
    if (!entry) {
      return base::Error(base::StatusCode::kInternal, "mountinfo: cannot read the line {}",
                         base::Quote(line));
    }
    table.push_back(*std::move(entry));
  }
  return table;
}

base::StatusOr<std::string> ResolveMountPoint(const std::string& path) {
  const std::string folder(base::FolderOf(path));
  const std::unique_ptr<char, decltype(&free)> resolved(realpath(folder.c_str(), nullptr), free);
  if (resolved == nullptr) return ErrnoError(errno, "resolve " + base::Quote(folder));
  std::string result = resolved.get();
  if (result == "/") result.clear();
  return fmt::format("{}/{}", result, base::FileNameOf(path));
}

base::StatusOr<std::vector<MountEntry>> ReadMountTable(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxMountTable));
  return ParseMountInfo(text);
}

const MountEntry* FindMount(const std::vector<MountEntry>& table, std::string_view target) {
  target = base::TrimSlashes(target);
  // Mounts at one point are stacked: each but the topmost is the parent of another one there.
  const MountEntry* top = nullptr;
  for (const MountEntry& entry : table) {
    if (entry.mount_point != target) continue;
    const bool covered = std::any_of(table.begin(), table.end(), [&](const MountEntry& other) {
      return other.mount_point == target && other.parent_id == entry.id && other.id != entry.id;
    });
    if (!covered) top = &entry;
  }
  return top;
}

bool IsBoundOntoItself(const std::vector<MountEntry>& table, const MountEntry& entry) {
  const auto parent = std::find_if(table.begin(), table.end(), [&](const MountEntry& other) {
    return other.id == entry.parent_id && other.id != entry.id;
  });
  if (parent == table.end() || parent->major != entry.major || parent->minor != entry.minor) {
    return false;
  }
  // A mount's root is "/" only if the mount shows its whole file system: not for a subvolume, nor
  // for a bind of a folder.
  const auto joined = [](const std::string& folder) { return folder == "/" ? "" : folder; };
  const std::string above = joined(parent->mount_point);
  return entry.mount_point.starts_with(above + "/") &&
         entry.root == joined(parent->root) + entry.mount_point.substr(above.size());
}

ParsedOptions ParseMountOptions(const std::vector<std::string>& options) {
  ParsedOptions parsed;
  for (const std::string& joined : options) {
    // A quoted value may hold commas (context="a,b"): mount(8) does not split there, so this must
    // not either.
    for (size_t begin = 0; begin <= joined.size();) {
      size_t end = begin;
      for (bool quoted = false; end < joined.size() && (quoted || joined[end] != ','); ++end) {
        if (joined[end] == '"') quoted = !quoted;
      }
      const std::string option = joined.substr(begin, end - begin);
      begin = end + 1;
      if (ApplyMountOption(option, parsed)) continue;
      parsed.data += (parsed.data.empty() ? "" : ",") + option;
    }
  }
  return parsed;
}

}  // namespace berth::platform
