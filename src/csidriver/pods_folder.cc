#include "csidriver/pods_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/log.h"
#include "base/text.h"

namespace berth::csidriver {
namespace {

// Returns "KUBELET/pods"; empty: the target is not a path of the kubelet.
std::string PodsFolderOf(std::string_view target) {
  for (const std::string_view name : {"mount", "*", "kubernetes.io~csi", "volumes", "*", "pods"}) {
    if (name != "*" && base::FileNameOf(target) != name) return "";
    if (name == "pods") break;
    target = base::FolderOf(target);
  }
  return std::string(target);
}

}  // namespace

std::string IdentifyPodsFolder(const platform::TargetPath& target) {
  const std::string folder = PodsFolderOf(target.text());
  struct statx st{};
  if (folder.empty() || statx(AT_FDCWD, folder.c_str(), AT_SYMLINK_NOFOLLOW,
                              STATX_TYPE | STATX_INO | STATX_BTIME, &st) != 0) {
    return "";
  }
  // A file system that does not know the time of birth gives 0 for it.
  return fmt::format("{}@{}.{:09}", st.stx_ino, st.stx_btime.tv_sec, st.stx_btime.tv_nsec);
}

PodFolder FindPodFolder(const platform::TargetPath& target, std::string_view pods_identity) {
  const std::string folder(base::FolderOf(target.text()));
  struct stat info;
  if (lstat(folder.c_str(), &info) == 0) return PodFolder::kThere;
  if (errno != ENOENT || pods_identity.empty()) return PodFolder::kUnknown;
  // The order matters: a file system that is mounted in between is seen by its identity, and then
  // the pod's folder must be looked for in it.
  if (IdentifyPodsFolder(target) != pods_identity) return PodFolder::kUnknown;
  if (lstat(folder.c_str(), &info) == 0) return PodFolder::kThere;
  return errno == ENOENT ? PodFolder::kGone : PodFolder::kUnknown;
}

}  // namespace berth::csidriver
