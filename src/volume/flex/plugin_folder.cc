#include "volume/flex/plugin_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <string_view>

#include "base/log.h"
#include "platform/files/durable_file.h"
#include "volume/flex/kubelet_process.h"

namespace berth::volume {
namespace {

using base::Quote;

// The files in which distributions configure their kubelet.
constexpr std::string_view kToldIn[] = {
    "/var/snap/microk8s/current/args/kubelet",
    "/etc/rancher/k3s/config.yaml",
    "/etc/rancher/rke2/config.yaml",
    "/var/lib/kubelet/kubeadm-flags.env",
    "/var/lib/kubelet/config.yaml",
    "/etc/kubernetes/kubelet.conf",
    "/etc/default/kubelet",
    "/etc/sysconfig/kubelet",
    "/etc/systemd/system/kubelet.service",
    "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf",
};
constexpr size_t kLargestFile = 256 * 1024;

constexpr std::string_view kK0sData = "/var/lib/k0s";
constexpr std::string_view kK0s = "/usr/libexec/k0s/kubelet-plugins/volume/exec";
constexpr std::string_view kDefault = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec";
constexpr std::string_view kWritable[] = {
    "/var/lib/kubelet/volumeplugins",
    "/var/lib/kubelet/volume-plugins",
    "/etc/kubernetes/kubelet-plugins/volume/exec",
    "/etc/kubernetes/volumeplugins",
    "/home/kubernetes/flexvolume",
};

bool IsFolder(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// Whether `path` is a writable folder, or can be made as one.
bool CanBeMade(std::string path) {
  while (!path.empty()) {
    struct stat info{};
    if (stat(path.c_str(), &info) == 0) {
      return S_ISDIR(info.st_mode) && access(path.c_str(), W_OK) == 0;
    }
    path.erase(path.rfind('/'));
  }
  return access("/", W_OK) == 0;
}

// The folder that a file of the host gives to its kubelet.
std::optional<PluginFolder> FindToldFolder(const std::string& root) {
  for (const std::string_view file : kToldIn) {
    const auto text = platform::ReadFile(root + std::string(file), kLargestFile);
    if (!text.ok()) continue;
    for (const std::string_view name : {"volume-plugin-dir", "volumePluginDir"}) {
      const std::string value = FindFolderSetting(*text, name);
      if (!value.empty()) {
        return PluginFolder{value, fmt::format("the kubelet was told so in {}", Quote(file))};
      }
    }
  }
  return std::nullopt;
}

// The folder that nodes of this kind usually have.
base::StatusOr<PluginFolder> GuessFolder(const std::string& root) {
  const auto below = [&root](std::string_view path) { return root + std::string(path); };
  if (IsFolder(below(kK0sData)) && CanBeMade(below(kK0s))) {
    return PluginFolder{std::string(kK0s), "k0s has its drivers there"};
  }
  if (CanBeMade(below(kDefault))) {
    return PluginFolder{std::string(kDefault), "it is the kubelet's default"};
  }
  for (const std::string_view path : kWritable) {
    if (IsFolder(below(path)) && CanBeMade(below(path))) {
      return PluginFolder{std::string(path), "it is there, and /usr cannot be written"};
    }
  }
  if (CanBeMade(below(kWritable[0]))) {
    return PluginFolder{std::string(kWritable[0]),
                        "/usr cannot be written; the kubelet must be told: --volume-plugin-dir"};
  }
  return base::Error(base::StatusCode::kFailedPrecondition,
                     "neither '{}' nor '{}' can be written: name the kubelet's folder by "
                     "--volume-plugin-dir",
                     kDefault, kWritable[0]);
}

}  // namespace

base::StatusOr<PluginFolder> FindPluginFolder(const std::string& root) {
  const auto running = AskKubeletProcess(root);
  if (running.ok() && !running->path.empty()) return PluginFolder{running->path, running->why};
  if (running.ok()) {
    if (CanBeMade(root + std::string(kDefault))) {
      return PluginFolder{std::string(kDefault),
                          "it is the kubelet's default, and " + running->why};
    }
    return base::Error(base::StatusCode::kFailedPrecondition,
                       "the kubelet looks for drivers in its default folder '{}', which cannot be "
                       "written: give the kubelet another one (volumePluginDir)",
                       kDefault);
  }
  auto told = FindToldFolder(root);
  // A file says where a kubelet that does not run here would look, and nothing about one that does.
  if (told.has_value() && running.status().code() == base::StatusCode::kNotFound) {
    return *std::move(told);
  }
  if (!told.has_value()) {
    ASSIGN_OR_RETURN(told, GuessFolder(root));
  }
  PluginFolder& guessed = *told;
  guessed.known = false;
  guessed.why += fmt::format(" ({})", base::Message(running.status()));
  return guessed;
}

}  // namespace berth::volume
