#include "volume/local/host_path.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/log.h"
#include "base/unique_fd.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/processes/child.h"
#include "platform/walks/usage.h"
#include "volume/volume_files.h"

namespace berth::volume {
namespace {

using base::Quote;
using base::StatusCode;

constexpr std::chrono::seconds kStatTimeout(10);

StatusOr<std::string> ReadPath(const Json& source) {
  std::string path = base::json::String(source, {"path"});
  RETURN_IF_ERROR(CheckHostPath("hostPath.path", path));
  return path;
}

// st_mode of the file that `path` leads to; 0: there is none. A child looks, because the path may
// be on a dead network mount.
StatusOr<mode_t> ModeOf(const std::string& path) {
  ASSIGN_OR_RETURN(const struct stat st,
                   platform::AskChild<struct stat>(
                       fmt::format("stat {}", Quote(path)), kStatTimeout, [path](struct stat& st) {
                         if (stat(path.c_str(), &st) == 0) return 0;
                         st.st_mode = 0;
                         return errno == ENOENT || errno == ENOTDIR ? 0 : errno;
                       }));
  return st.st_mode;
}

Status MakeFile(const std::string& path) {
  const base::UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644));
  if (fd.valid()) return base::OkStatus();
  return platform::ErrnoError(errno, fmt::format("make file {}", Quote(path)));
}

struct PathType {
  std::string_view name;
  mode_t kind;
  std::string_view description;  // as the kubelet words it
};
constexpr std::array kPathTypes = std::to_array<PathType>({
    {"DirectoryOrCreate", S_IFDIR, "directory"},
    {"Directory", S_IFDIR, "directory"},
    {"FileOrCreate", S_IFREG, "file"},
    {"File", S_IFREG, "file"},
    {"Socket", S_IFSOCK, "socket file"},
    {"CharDevice", S_IFCHR, "character device"},
    {"BlockDevice", S_IFBLK, "block device"},
});

Status CheckType(const std::string& path, const std::string& type) {
  if (type.empty()) return base::OkStatus();
  const auto* wanted = std::find_if(kPathTypes.begin(), kPathTypes.end(),
                                    [&](const PathType& t) { return t.name == type; });
  if (wanted == kPathTypes.end()) {
    return base::Error(StatusCode::kInvalidArgument, "{} is an invalid volume type", type);
  }
  ASSIGN_OR_RETURN(mode_t mode, ModeOf(path));
  if (mode == 0 && type.ends_with("OrCreate")) {
    RETURN_IF_ERROR(wanted->kind == S_IFDIR ? platform::MakeFolders(path, 0755) : MakeFile(path));
    mode = wanted->kind;
  }
  if ((mode & S_IFMT) == wanted->kind) return base::OkStatus();
  return base::Error(StatusCode::kFailedPrecondition, "hostPath type check failed: {} is not a {}",
                     path, wanted->description);
}

}  // namespace

StatusOr<Json> HostPathPlugin::PodState(const api::Pod&, const VolumeSpec& spec) const {
  ASSIGN_OR_RETURN(std::string path, ReadPath(Source(spec)));
  return Json{{"path", std::move(path)}};
}

StatusOr<Published> HostPathPlugin::SetUp(const api::Pod&, const VolumeSpec& spec,
                                          const api::Labels&) {
  ASSIGN_OR_RETURN(std::string path, ReadPath(Source(spec)));
  RETURN_IF_ERROR(CheckType(path, base::json::String(Source(spec), {"type"})));
  return Published{.path = std::move(path), .read_only = spec.read_only};
}

Status HostPathPlugin::TearDown(const PodVolumeRecord&) { return base::OkStatus(); }

StatusOr<VolumePlugin::Stats> HostPathPlugin::GetStats(const PodVolumeRecord& record) {
  ASSIGN_OR_RETURN(const platform::FileSystemUsage fs,
                   platform::GetFileSystemUsage(base::json::String(record.state, {"path"})));
  return StatsOf(fs);
}

}  // namespace berth::volume
