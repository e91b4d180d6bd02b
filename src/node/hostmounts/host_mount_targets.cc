#include "node/hostmounts/host_mount_targets.h"

#include <limits.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <set>

#include "base/fault.h"
#include "base/ids.h"
#include "base/json.h"
#include "base/log.h"
#include "node/volumes/sub_path.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/files/record_files.h"
#include "platform/mounts/probe_folder.h"
#include "platform/mounts/safe_path.h"

namespace berth::node {
namespace {

using base::Error;
using base::Json;
using base::OkStatus;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using base::UniqueFd;

constexpr int kVersion = 1;
constexpr size_t kMaxRecord = 64 * 1024;  // bytes

// Nothing may be mounted on these folders or below them.
constexpr std::string_view kSystemTrees[] = {"/bin",   "/boot", "/dev",  "/etc", "/lib", "/lib32",
                                             "/lib64", "/proc", "/sbin", "/sys", "/usr", "/libx32"};
// Nothing may be mounted on these folders themselves; folders below them are allowed.
constexpr std::string_view kSystemFolders[] = {
    "/",        "/home",    "/opt",     "/root",    "/run",      "/srv",       "/tmp",      "/var",
    "/var/lib", "/var/log", "/var/run", "/var/tmp", "/run/lock", "/var/cache", "/var/spool"};

bool IsOrIsIn(std::string_view path, std::string_view folder) {
  return path == folder ||
         (path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/');
}

Json Encode(const HostMountRecord& record) {
  return {{"version", kVersion},
          {"type", "hostMount"},
          {"uid", record.uid},
          {"key", record.key},
          {"path", record.path},
          {"readOnly", record.read_only},
          {"madeFolder", record.made_folder},
          {"mounted", record.mounted},
          {"bootId", record.boot_id},
          {"mount",
           {{"id", record.mount.id},
            {"major", record.mount.major},
            {"minor", record.mount.minor},
            {"root", record.mount.root}}}};
}

StatusOr<HostMountRecord> Decode(std::string_view text) {
  ASSIGN_OR_RETURN(const Json json, platform::ParseRecord(text, kVersion));
  HostMountRecord record{
      .uid = base::json::String(json, {"uid"}),
      .key = base::json::String(json, {"key"}),
      .path = base::json::String(json, {"path"}),
      .read_only = base::json::Bool(json, {"readOnly"}),
      .made_folder = base::json::Bool(json, {"madeFolder"}),
      .mounted = base::json::Bool(json, {"mounted"}),
      .boot_id = base::json::String(json, {"bootId"}),
      .mount = {.id = static_cast<uint64_t>(base::json::Int(json, {"mount", "id"})),
                .major = static_cast<uint32_t>(base::json::Int(json, {"mount", "major"})),
                .minor = static_cast<uint32_t>(base::json::Int(json, {"mount", "minor"})),
                .root = base::json::String(json, {"mount", "root"})}};
  if (base::json::String(json, {"type"}) != "hostMount" || record.uid.empty() ||
      record.key.empty() || !record.path.starts_with('/') || record.boot_id.empty()) {
    return Error(StatusCode::kDataLoss, "not a host mount's record");
  }
  return record;
}

// The present path of the descriptor's folder.
StatusOr<std::string> ReadPathOf(const UniqueFd& fd) {
  std::array<char, PATH_MAX> name{};
  const ssize_t size = readlink(platform::ProcPath(fd).c_str(), name.data(), name.size() - 1);
  if (size < 0) return platform::ErrnoError(errno, "resolve the path");
  return std::string(name.data(), static_cast<size_t>(size));
}

// Opens the folder itself by descriptor, and fails if a symlink leads to it.
StatusOr<UniqueFd> OpenExactly(const std::string& path, bool make) {
  ASSIGN_OR_RETURN(const UniqueFd root, platform::OpenFolder("/"));
  const std::string_view relative = std::string_view(path).substr(1);
  StatusOr<UniqueFd> fd = make ? platform::MakeFoldersBeneath(root.get(), relative, 0755)
                               : platform::OpenBeneath(root.get(), relative);
  if (fd.status().code() == StatusCode::kPermissionDenied) {
    return Error(StatusCode::kFailedPrecondition,
                 "a symlink is on the way to it: name the path that it leads to");
  }
  RETURN_IF_ERROR(fd);
  ASSIGN_OR_RETURN(const std::string name, ReadPathOf(*fd));
  if (name != path) {
    return Error(StatusCode::kFailedPrecondition, "a symlink leads to {}: name that path itself",
                 Quote(name));
  }
  return fd;
}

}  // namespace

Status CheckHostPath(std::string_view path, std::string_view own_folder) {
  const auto refuse = [path](std::string_view why) {
    return Error(StatusCode::kInvalidArgument, "no volume can be mounted at {}: {}", Quote(path),
                 why);
  };
  if (path.empty() || path.front() != '/') return refuse("it is not an absolute path");
  if (path.size() >= PATH_MAX || path.find('\0') != std::string_view::npos) {
    return refuse("it is too long, or it has a NUL");
  }
  if (path == "/") return refuse("it is the root of the system");
  for (size_t begin = 1; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") {
      return refuse("write it without '.', '..', '//' and without a '/' at its end");
    }
    begin = end + 1;
  }
  for (const std::string_view tree : kSystemTrees) {
    if (IsOrIsIn(path, tree)) return refuse(fmt::format("{} belongs to the system", tree));
  }
  for (const std::string_view folder : kSystemFolders) {
    if (path == folder) return refuse("it belongs to the system");
  }
  if (IsOrIsIn(path, own_folder) || IsOrIsIn(own_folder, path)) {
    return refuse(
        fmt::format("{} is the folder in which this program keeps its mounts", Quote(own_folder)));
  }
  return OkStatus();
}

std::string HostMountTargets::RecordName(const std::string& uid) { return base::Sha256Hex(uid); }

std::string HostMountTargets::RecordPath(const std::string& uid) const {
  return fmt::format("{}/{}{}", folder_, RecordName(uid), platform::kRecordSuffix);
}

StatusOr<platform::LoadedRecords<HostMountRecord>> HostMountTargets::Open() {
  ASSIGN_OR_RETURN(boot_id_, platform::ReadBootId());
  return platform::LoadRecords<HostMountRecord>(
      folder_, {.on_damage = platform::OnDamage::kSetAside, .max_bytes = kMaxRecord}, Decode,
      [](const HostMountRecord& record) { return RecordName(record.uid); });
}

Status HostMountTargets::WriteRecord(HostMountRecord& record) {
  record.boot_id = boot_id_;
  return base::Annotate(platform::WriteDurably<"node.host_mount_record">(
                            RecordPath(record.uid), base::json::Dump(Encode(record))),
                        "record the mount");
}

StatusOr<bool> HostMountTargets::IsMounted(const HostMountRecord& record) const {
  if (!platform::IsThisBoot(record.boot_id, boot_id_)) return false;
  ASSIGN_OR_RETURN(const std::vector<platform::MountEntry> table, mounter_.List());
  const std::optional<MountIdentity> present = IdentifyMount(table, record.path);
  return present.has_value() && present->major == record.mount.major &&
         present->minor == record.mount.minor && present->root == record.mount.root &&
         (record.mount.id == 0 || present->id == record.mount.id);
}

Status HostMountTargets::CheckFree(const HostMountRecord& record) const {
  ASSIGN_OR_RETURN(const std::vector<platform::MountEntry> table, mounter_.List());
  if (platform::FindMount(table, record.path) != nullptr) {
    return Error(StatusCode::kFailedPrecondition, "something else is mounted at {}",
                 Quote(record.path));
  }
  const Status answers = platform::ProbeFolder(record.path);
  if (answers.code() == StatusCode::kNotFound) return OkStatus();
  RETURN_IF_ERROR(answers);
  ASSIGN_OR_RETURN(const std::vector<std::string> names, platform::ListFolder(record.path));
  if (!names.empty()) {
    return Error(StatusCode::kFailedPrecondition,
                 "{} is not empty (it holds {} and {} more), and a mount would hide its content",
                 Quote(record.path), Quote(names.front()), names.size() - 1);
  }
  return OkStatus();
}

Status HostMountTargets::Mount(HostMountRecord& record, const std::string& source) {
  RETURN_IF_ERROR(CheckHostPath(record.path, own_folder_));
  const auto context = [&] { return fmt::format("mount at {}", Quote(record.path)); };
  if (!record.boot_id.empty()) {
    const StatusOr<bool> mounted = IsMounted(record);
    RETURN_IF_ERROR_WITH(mounted, context());
    if (*mounted && record.mounted) return OkStatus();
  }
  RETURN_IF_ERROR_WITH(BindVolume(record, source), context());
  return OkStatus();
}

Status HostMountTargets::BindVolume(HostMountRecord& record, const std::string& source) {
  ASSIGN_OR_RETURN(std::vector<platform::MountEntry> table, mounter_.List());
  const std::optional<MountIdentity> volume = IdentifyMount(table, source);
  if (!volume.has_value()) {
    return Error(StatusCode::kFailedPrecondition, "the volume is not mounted at {}", Quote(source));
  }
  // The agent crashed or failed after it wrote the record, perhaps between the bind and the next
  // record.
  const bool cut_off = platform::IsThisBoot(record.boot_id, boot_id_) && !record.mounted;
  if (cut_off) {
    ASSIGN_OR_RETURN(const bool mounted, IsMounted(record));
    if (mounted) {
      record.mount = *IdentifyMount(table, record.path);
      record.mounted = true;
      return WriteRecord(record);
    }
  }
  RETURN_IF_ERROR(CheckFree(record));
  StatusOr<UniqueFd> target = OpenExactly(record.path, /*make=*/false);
  if (!target.ok() && target.status().code() != StatusCode::kNotFound) return target.status();
  record.made_folder = record.made_folder || !target.ok();
  record.mounted = false;
  record.mount = *volume;
  record.mount.id = 0;
  RETURN_IF_ERROR(WriteRecord(record));
  if (!target.ok()) {
    target = OpenExactly(record.path, /*make=*/true);
    RETURN_IF_ERROR(target);
  }
  ASSIGN_OR_RETURN(const UniqueFd from, platform::OpenFolder(source));
  // A pod's root may have made setuid programs and device nodes in the volume, and users of the
  // host must not get his rights by them.
  platform::MountRequest request{.source = platform::ProcPath(from),
                                 .target = platform::ProcPath(*target) + "/.",
                                 .options = {"bind", "nosuid", "nodev"}};
  if (record.read_only) request.options.emplace_back("ro");
  std::set<uint64_t> before;
  for (const platform::MountEntry& entry : table) before.insert(entry.id);
  RETURN_IF_ERROR(mounter_.Mount(request));
  ASSIGN_OR_RETURN(table, mounter_.List());
  const std::optional<MountIdentity> made = IdentifyMount(table, record.path);
  if (made.has_value() && !before.contains(made->id) && made->major == volume->major &&
      made->minor == volume->minor && made->root == volume->root) {
    record.mount = *made;
    record.mounted = true;
    LOG_INFO("host mount {} is mounted at {}", Quote(record.key), Quote(record.path));
    return WriteRecord(record);
  }
  // The folder was renamed after it was opened, so the volume is mounted at the folder's new path.
  for (auto entry = table.rbegin(); entry != table.rend(); ++entry) {
    if (before.contains(entry->id) || entry->major != volume->major ||
        entry->minor != volume->minor || entry->root != volume->root) {
      continue;
    }
    RETURN_IF_ERROR(mounter_.Unmount(entry->mount_point));
  }
  return Error(StatusCode::kAborted, "the path changed while it was mounted upon");
}

Status HostMountTargets::Unmount(const HostMountRecord& record) {
  const std::string context = fmt::format("unmount {}", Quote(record.path));
  RETURN_IF_ERROR(base::FaultPoint<"node.host_mount.unmount">());
  const StatusOr<bool> mounted = IsMounted(record);
  RETURN_IF_ERROR_WITH(mounted, context);
  if (*mounted) {
    RETURN_IF_ERROR_WITH(mounter_.Unmount(record.path), context);
    LOG_INFO("host mount {} is unmounted from {}", Quote(record.key), Quote(record.path));
  } else if (platform::IsThisBoot(record.boot_id, boot_id_) && record.mounted) {
    ASSIGN_OR_RETURN(const std::vector<platform::MountEntry> table, mounter_.List());
    for (const platform::MountEntry& entry : table) {
      // The whole identity is compared, because the kernel gives the ids of removed mounts to new
      // ones.
      if (entry.mount_point == record.path && entry.id == record.mount.id &&
          entry.major == record.mount.major && entry.minor == record.mount.minor &&
          entry.root == record.mount.root) {
        return Error(StatusCode::kFailedPrecondition,
                     "{}: something else is mounted on top of it; unmount that first", context);
      }
    }
  }
  // The folder stays if it is not empty, because another program may have put a file there.
  if (record.made_folder && rmdir(record.path.c_str()) != 0 && errno != ENOENT &&
      errno != ENOTEMPTY && errno != EEXIST) {
    LOG_WARNING("{}", base::ToString(platform::ErrnoError(
                          errno, fmt::format("remove {}", Quote(record.path)))));
  }
  return platform::RemoveDurably<"node.host_mount_record">(RecordPath(record.uid));
}

}  // namespace berth::node
