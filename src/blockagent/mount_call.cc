#include "blockagent/mount_call.h"

#include <filesystem>
#include <vector>

#include "api/names.h"
#include "base/json.h"
#include "base/log.h"

namespace berth::blockagent {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;

constexpr size_t kLongestPath = 4096;

std::vector<std::string_view> SplitPath(std::string_view path) {
  std::vector<std::string_view> parts;
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    if (end > 0) parts.push_back(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return parts;
}

bool IsPlainName(std::string_view part) { return part != "." && part != ".." && !part.empty(); }

// "vendor/driver" of "vendor~driver".
std::string ToDriverName(std::string_view folder) {
  std::string name(folder);
  if (const size_t tilde = name.find('~'); tilde != name.npos) name[tilde] = '/';
  return name;
}

}  // namespace

std::optional<VolumeFolder> ParseVolumeFolder(std::string_view path) {
  if (!path.starts_with('/') || path.size() > kLongestPath) return std::nullopt;
  const std::vector<std::string_view> parts = SplitPath(path);
  for (const std::string_view part : parts) {
    if (!IsPlainName(part)) return std::nullopt;
  }
  const size_t count = parts.size();
  if (count >= 5 && parts[count - 5] == "pods" && parts[count - 3] == "volumes") {
    return VolumeFolder{std::string(parts[count - 4]), ToDriverName(parts[count - 2]),
                        std::string(parts[count - 1])};
  }
  if (count >= 7 && parts[count - 7] == "plugins" && parts[count - 6] == "kubernetes.io" &&
      parts[count - 5] == "flexvolume" && parts[count - 2] == "mounts") {
    return VolumeFolder{"", fmt::format("{}/{}", parts[count - 4], parts[count - 3]),
                        std::string(parts[count - 1])};
  }
  return std::nullopt;
}

base::StatusOr<MountCall> ReadMountCall(const std::string& mount_dir, std::string_view options) {
  const auto folder = ParseVolumeFolder(mount_dir);
  if (!folder.has_value() || folder->pod_uid.empty()) {
    return Error(StatusCode::kInvalidArgument,
                 "{} is not the folder of a pod's volume: .../pods/UID/volumes/VENDOR~DRIVER/NAME",
                 Quote(mount_dir));
  }
  RETURN_IF_ERROR_WITH(api::CheckDns1123Subdomain(folder->volume),
                       fmt::format("volume {}", Quote(folder->volume)));
  const auto json = base::json::Parse(options);
  RETURN_IF_ERROR_WITH(json, "the options of the mount");
  const auto text = [&json](std::string_view key) {
    return base::json::String(*json, {fmt::format("kubernetes.io/{}", key)});
  };
  MountCall call{.mount_dir = mount_dir,
                 .pod_uid = folder->pod_uid,
                 .pod_namespace = text("pod.namespace"),
                 .pod = text("pod.name"),
                 .volume = folder->volume,
                 .driver = folder->driver,
                 .fs_type = text("fsType"),
                 .read_only = text("readwrite") == "ro"};
  if (call.pod.empty() || call.pod_namespace.empty()) {
    return Error(StatusCode::kInvalidArgument, "the options of the mount at {} do not name the pod",
                 Quote(mount_dir));
  }
  if (const std::string uid = text("pod.uid"); uid != call.pod_uid) {
    return Error(StatusCode::kInvalidArgument,
                 "the options of the mount at {} name another pod uid: {}", Quote(mount_dir),
                 Quote(uid));
  }
  return call;
}

}  // namespace berth::blockagent
