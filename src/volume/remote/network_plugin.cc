#include "volume/remote/network_plugin.h"

#include <algorithm>

#include "base/log.h"
#include "platform/files/durable_file.h"
#include "platform/walks/usage.h"
#include "volume/volume_files.h"

namespace berth::volume {
namespace {

using base::Error;
using base::OkStatus;
using base::Quote;
using base::StatusCode;

constexpr int kMaxStacked = 16;  // a crash between mount and record may leave one on top of another

void AddOption(std::vector<std::string>& options, std::string option) {
  if (std::find(options.begin(), options.end(), option) == options.end()) {
    options.push_back(std::move(option));
  }
}

// mount(8) passes a type without a helper to the kernel, whose error does not name the helper.
bool LacksHelper(const HelperMount& mount, const Status& status) {
  if (!mount.program.empty() || status.code() != StatusCode::kInternal) return false;
  const std::string_view text = base::Message(status);
  return text.find("unknown filesystem type") != std::string_view::npos ||
         text.find("you might need a /sbin/mount.") != std::string_view::npos;
}

// If the utility is missing, adds advice for people to the error.
Status AddAdvice(const HelperMount& mount, const Status& status) {
  const bool lacks_helper = LacksHelper(mount, status);
  if (!lacks_helper && status.code() != StatusCode::kNotFound) return status;
  const std::string utility =
      mount.program.empty() ? "mount." + mount.fs_type : mount.program.front();
  return Error(StatusCode::kNotFound,
               "no {} where it was run: install it on the node, or deploy a pod that has it and "
               "registers for '{}' ({})",
               utility, mount.plugin, base::Message(status));
}

}  // namespace

StatusOr<bool> NetworkPlugin::IsMounted(const VolumeSpec& spec, const std::string& target) {
  ASSIGN_OR_RETURN(const auto table, host().mounter().List());
  const platform::MountEntry* entry = platform::FindMount(table, target);
  if (entry == nullptr) return false;
  if (ShowsVolume(*entry, spec)) return true;
  return Error(StatusCode::kFailedPrecondition,
               "another mount ({} from {}) stands at {}: unmount it", entry->fs_type,
               Quote(entry->source), Quote(target));
}

Status NetworkPlugin::Mount(const Wanted& wanted) {
  ASSIGN_OR_RETURN(HelperMount mount, MakeMount(wanted));
  mount.plugin = std::string(name());
  mount.target = wanted.target;
  RETURN_IF_ERROR(platform::MakeFolders(wanted.target, 0750));
  const Status mounted = host().helper_mounts().Mount(mount);
  if (mounted.ok()) return OkStatus();
  if (mounted.code() == StatusCode::kAlreadyExists) {
    // An attempt with an unknown outcome may have mounted it.
    ASSIGN_OR_RETURN(const bool ours, IsMounted(wanted.spec, wanted.target));
    if (ours) return OkStatus();
  }
  const std::string words = ReadFailureLog(wanted);
  const Status advised = AddAdvice(mount, mounted);
  return words.empty() ? advised : Error(advised.code(), "{}: {}", base::Message(advised), words);
}

StatusOr<Published> NetworkPlugin::SetUp(const api::Pod& pod, const VolumeSpec& spec,
                                         const api::Labels&) {
  const bool read_only = spec.read_only || base::json::Bool(Source(spec), {"readOnly"});
  Wanted wanted{.pod = pod, .spec = spec, .target = Folder(pod, spec), .options = {}};
  if (read_only) wanted.options.emplace_back("ro");
  if (spec.pv != nullptr) {
    for (std::string& option : spec.pv->mount_options()) {
      AddOption(wanted.options, std::move(option));
    }
  }
  ASSIGN_OR_RETURN(const bool mounted, IsMounted(spec, wanted.target));
  if (!mounted) {
    RETURN_IF_ERROR_WITH(Mount(wanted), fmt::format("mount volume '{}'", spec.folder_name()));
  }
  return Published{.path = std::move(wanted.target), .read_only = read_only};
}

Status NetworkPlugin::TearDown(const PodVolumeRecord& record) {
  const std::string folder = Folder(record);
  // Unmount is called at least once, because a dead mount may have been unmounted elsewhere
  // (node/volumes/dead_mounts.h), while the record of the mount still exists.
  for (int i = 0; i < kMaxStacked; ++i) {
    RETURN_IF_ERROR(host().helper_mounts().Unmount(name(), platform::MountPoint(folder)));
    ASSIGN_OR_RETURN(const auto table, host().mounter().List());
    if (platform::FindMount(table, folder) == nullptr) break;
  }
  RETURN_IF_ERROR(RemoveEmptyFolder(folder));
  return RemovePluginFiles(record);
}

StatusOr<VolumePlugin::Stats> NetworkPlugin::GetStats(const PodVolumeRecord& record) {
  const std::string folder = Folder(record);
  ASSIGN_OR_RETURN(const auto table, host().mounter().List());
  if (platform::FindMount(table, folder) == nullptr) {
    return Error(StatusCode::kFailedPrecondition, "nothing is mounted at {}", Quote(folder));
  }
  ASSIGN_OR_RETURN(const platform::FileSystemUsage usage, platform::GetFileSystemUsage(folder));
  return StatsOf(usage);
}

Status CheckServer(std::string_view field, std::string_view server) {
  const auto allowed = [](char c) {
    return isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-._:[]%/").find(c) != std::string_view::npos;
  };
  if (!server.empty() && server.front() != '-' &&
      std::all_of(server.begin(), server.end(), allowed)) {
    return OkStatus();
  }
  return Error(StatusCode::kInvalidArgument, "{} {} is not a host's name or address", field,
               Quote(server));
}

}  // namespace berth::volume
