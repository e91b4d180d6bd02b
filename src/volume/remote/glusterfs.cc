#include "volume/remote/glusterfs.h"

#include <algorithm>

#include "base/log.h"
#include "base/text.h"
#include "platform/files/durable_file.h"
#include "volume/volume_files.h"

namespace berth::volume {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;
using base::json::String;

bool HasOption(const std::vector<std::string>& options, std::string_view key) {
  return std::any_of(options.begin(), options.end(), [key](std::string_view option) {
    return option.substr(0, option.find('=')) == key;
  });
}

// mount.glusterfs is a shell script: it splits at colons and white space, and expands patterns.
Status CheckPath(const std::string& path) {
  if (!path.empty() && path.find_first_of(": \t\r\n*?[\\") == std::string::npos) {
    return base::OkStatus();
  }
  return Error(StatusCode::kInvalidArgument,
               "glusterfs.path {} is not the name of a volume, or a folder in it", Quote(path));
}

std::string_view WithoutFirstSlash(std::string_view path) {
  return path.starts_with('/') ? path.substr(1) : path;
}

// "10.0.0.7:10.0.0.8:[fd00::7]"
std::string JoinServers(const std::vector<std::string>& servers) {
  std::string out;
  for (const std::string& server : servers) {
    const bool v6 = server.find(':') != std::string::npos;
    out += fmt::format("{}{}", out.empty() ? "" : ":", v6 ? "[" + server + "]" : server);
  }
  return out;
}

}  // namespace

std::string GlusterfsPlugin::GetLogPath(const api::PodUid& pod,
                                        const api::VolumeName& volume) const {
  return fmt::format("{}/{}/{}-glusterfs.log", host().paths().PluginFolder(name()), volume.text(),
                     pod.text());
}

StatusOr<std::vector<std::string>> GlusterfsPlugin::ReadServers(const api::Pod& pod,
                                                                const VolumeSpec& spec) {
  const std::string endpoints = String(Source(spec), {"endpoints"});
  std::string ns = spec.pv != nullptr ? String(Source(spec), {"endpointsNamespace"}) : "";
  if (ns.empty()) ns = pod.ns();
  const auto object = host().GetObject(api::kinds::kEndpoints, ns, endpoints);
  if (object.status().code() == StatusCode::kNotFound) {
    return Error(StatusCode::kNotFound,
                 "Endpoints '{}/{}', which list the servers of the volume, do not exist", ns,
                 endpoints);
  }
  RETURN_IF_ERROR_WITH(object, fmt::format("read Endpoints '{}/{}'", ns, endpoints));
  std::vector<std::string> servers = api::Endpoints(*object).addresses();
  if (servers.empty()) {
    return Error(StatusCode::kFailedPrecondition,
                 "Endpoints '{}/{}' list no address that is ready, so that no server of the volume "
                 "is known",
                 ns, endpoints);
  }
  for (const std::string& server : servers) {
    RETURN_IF_ERROR(CheckServer("the Endpoints' address", server));
  }
  return servers;
}

StatusOr<HelperMount> GlusterfsPlugin::MakeMount(const Wanted& wanted) {
  const std::string path = String(Source(wanted.spec), {"path"});
  RETURN_IF_ERROR(CheckPath(path));
  ASSIGN_OR_RETURN(const auto servers, ReadServers(wanted.pod, wanted.spec));
  // auto_unmount is not used: when the mount of a dead client goes away, the folder beneath shows,
  // and the pod would write to this node's disk.
  std::vector<std::string> options = wanted.options;
  if (!HasOption(options, "log-file")) {
    const std::string log =
        GetLogPath(api::PodUid(wanted.pod.uid()), api::VolumeName(wanted.spec.folder_name()));
    RETURN_IF_ERROR(platform::MakeFolders(ParentOf(log), 0750));
    options.push_back("log-file=" + log);
  }
  if (!HasOption(options, "log-level")) options.emplace_back("log-level=ERROR");
  if (!HasOption(options, "backup-volfile-servers")) {
    options.push_back("backup-volfile-servers=" + JoinServers(servers));
  }
  return HelperMount{.fs_type = "glusterfs",
                     .source = fmt::format("{}:{}", servers.front(), path),
                     .options = std::move(options)};
}

// The server is not compared, because it may be any of the volume's servers, and the Endpoints may
// have changed since the mount.
bool GlusterfsPlugin::ShowsVolume(const platform::MountEntry& entry, const VolumeSpec& spec) const {
  const std::string_view shown = entry.source;
  const std::string path = String(Source(spec), {"path"});
  return entry.fs_type == "fuse.glusterfs" &&
         WithoutFirstSlash(shown.substr(shown.rfind(':') + 1)) == WithoutFirstSlash(path);
}

std::string GlusterfsPlugin::ReadFailureLog(const Wanted& wanted) const {
  constexpr size_t kLongest = 600;
  const auto log = platform::ReadFile(
      GetLogPath(api::PodUid(wanted.pod.uid()), api::VolumeName(wanted.spec.folder_name())),
      16 << 20);
  if (!log.ok()) return "";
  std::string_view text = base::Trim(*log);
  // The last two lines are used: the last one says that the client gives up, and the one before it
  // says why.
  const size_t last = text.rfind('\n');
  if (last != std::string_view::npos && last > 0) {
    const size_t before = text.rfind('\n', last - 1);
    if (before != std::string_view::npos) text.remove_prefix(before + 1);
  }
  if (text.size() > kLongest) text.remove_prefix(text.size() - kLongest);
  return text.empty() ? "" : fmt::format("its log ends with: {}", text);
}

Status GlusterfsPlugin::RemovePluginFiles(const PodVolumeRecord& record) {
  const std::string log =
      GetLogPath(api::PodUid(record.pod_uid), api::VolumeName(record.folder_name));
  RETURN_IF_ERROR(RemoveFile(log));
  RemoveFolderIfEmpty(ParentOf(log));
  return base::OkStatus();
}

}  // namespace berth::volume
