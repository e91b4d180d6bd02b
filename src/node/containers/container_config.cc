#include "node/containers/container_config.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/files/whole_file.h"
#include "base/ids.h"
#include "base/unique_fd.h"
#include "node/containers/container_resources.h"
#include "node/containers/container_security.h"
#include "node/containers/cri_labels.h"
#include "node/containers/pod_sandbox_config.h"
#include "node/volumes/sub_path.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/mounts/probe_folder.h"

namespace berth::node {

namespace {

namespace cri = rpc::cri;
namespace json = base::json;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

constexpr char kEtcHosts[] = "/etc/hosts";
constexpr size_t kLargestHosts = 1 << 20;
constexpr char kDefaultTerminationPath[] = "/dev/termination-log";

// Writes a file that containers mount. The content is replaced in place, because running containers
// have the inode mounted.
Status WriteInPlace(const std::string& path, std::string_view content, mode_t mode) {
  base::UniqueFd fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!fd.valid()) return platform::ErrnoError(errno, fmt::format("write '{}'", path));
  if (fchmod(fd.get(), mode) != 0) {  // the umask
    return platform::ErrnoError(errno, fmt::format("set the mode of '{}'", path));
  }
  const int error = base::WriteAll(fd.get(), content);
  return error == 0 ? base::OkStatus()
                    : platform::ErrnoError(error, fmt::format("write '{}'", path));
}

// Adds the kubelet's labels and annotations, by which tools find a container and its log.
void AddLabels(const ContainerConfigInput& input, cri::ContainerConfig& config) {
  auto& labels = *config.mutable_labels();
  labels[labels::kPodName] = input.pod.name();
  labels[labels::kPodNamespace] = input.pod.ns();
  labels[labels::kPodUid] = input.pod.uid();
  labels[labels::kContainerName] = input.container.name();
  auto& annotations = *config.mutable_annotations();
  annotations[labels::kContainerHash] = HashContainer(input.container);
  annotations[labels::kRestartCount] = fmt::format("{}", input.restart_count);
  annotations[labels::kTerminationMessagePath] =
      input.container.String({"terminationMessagePath"}, kDefaultTerminationPath);
  annotations[labels::kTerminationMessagePolicy] =
      input.container.String({"terminationMessagePolicy"}, "File");
  annotations[labels::kTerminationGracePeriod] =
      fmt::format("{}", input.pod.termination_grace_seconds());
}

// Refuses a volume that the container runtime would wait for.
Status CheckAnswers(const std::vector<platform::MountEntry>& table, const std::string& volume,
                    const std::string& path) {
  const platform::MountEntry* mount = platform::FindServedMount(table, path);
  // The runtime says itself what else is wrong with it; and it may be a file.
  if (mount == nullptr || platform::ProbeFolder(path).code() != StatusCode::kDeadlineExceeded) {
    return base::OkStatus();
  }
  return base::Error(StatusCode::kDeadlineExceeded,
                     "volume '{}' is silent: the server of its file system ({} of {}) does not "
                     "answer; the container is tried again later",
                     volume, mount->fs_type, base::Quote(mount->source));
}

cri::MountPropagation ToPropagation(const std::string& name) {
  if (name == "HostToContainer") return cri::PROPAGATION_HOST_TO_CONTAINER;
  if (name == "Bidirectional") return cri::PROPAGATION_BIDIRECTIONAL;
  return cri::PROPAGATION_PRIVATE;
}

}  // namespace

std::string HashContainer(const api::Container& container) {
  return base::Sha256Hex(container.name() + '\n' + container.image()).substr(0, 8);
}

StatusOr<cri::ContainerConfig> ContainerConfigs::MakeConfig(
    const ContainerConfigInput& input) const {
  const api::Container& container = input.container;
  ASSIGN_OR_RETURN(const Environment environment,
                   MakeEnvironment(input.pod, container, input.facts, reader_));
  const std::map<std::string, std::string> values = ToMap(environment);

  cri::ContainerConfig config;
  config.mutable_metadata()->set_name(container.name());
  config.mutable_metadata()->set_attempt(input.restart_count);
  config.mutable_image()->set_image(input.image.id());
  config.mutable_image()->set_user_specified_image(container.image());
  size_t room = kMaxExecBytes;
  for (const auto& [name, value] : environment) room -= name.size() + value.size();
  const auto expand = [&](const std::string& word) -> StatusOr<std::string> {
    StatusOr<std::string> expanded = ExpandReferences(word, values, room);
    if (!expanded.ok()) return ExecTooLong();
    room -= expanded->size();
    return expanded;
  };
  for (const std::string& word : container.command()) {
    ASSIGN_OR_RETURN(*config.add_command(), expand(word));
  }
  for (const std::string& word : container.args()) {
    ASSIGN_OR_RETURN(*config.add_args(), expand(word));
  }
  config.set_working_dir(container.String({"workingDir"}));
  for (const auto& [name, value] : environment) {
    cri::KeyValue* env = config.add_envs();
    env->set_key(name);
    env->set_value(value);
  }
  // The runtime lists this path with every container of the node, in one answer.
  if (container.String({"terminationMessagePath"}).size() >= PATH_MAX) {
    return base::Error(StatusCode::kInvalidArgument,
                       "terminationMessagePath is longer than a path can be");
  }
  AddLabels(input, config);
  config.set_log_path(fmt::format("{}/{}.log", container.name(), input.restart_count));
  config.set_stdin(container.Bool({"stdin"}));
  config.set_stdin_once(container.Bool({"stdinOnce"}));
  config.set_tty(container.Bool({"tty"}));
  *config.mutable_linux()->mutable_resources() =
      MakeContainerResources(input.pod, container, input.facts.memory_capacity);
  ASSIGN_OR_RETURN(*config.mutable_linux()->mutable_security_context(),
                   MakeContainerSecurity(input.pod, container, input.image));
  if (!input.processes_of.empty()) {
    cri::NamespaceOption& namespaces =
        *config.mutable_linux()->mutable_security_context()->mutable_namespace_options();
    namespaces.set_pid(cri::TARGET);
    namespaces.set_target_id(input.processes_of);
  }
  RETURN_IF_ERROR(AddVolumes(input, values, config));
  RETURN_IF_ERROR(AddFiles(input, config));
  return config;
}

Status ContainerConfigs::AddVolumes(const ContainerConfigInput& input,
                                    const std::map<std::string, std::string>& environment,
                                    cri::ContainerConfig& config) const {
  std::vector<platform::MountEntry> table;
  if (!input.container.volume_mounts().empty()) {
    ASSIGN_OR_RETURN(table, mounter_.List());
  }
  int index = -1;
  for (const api::VolumeMount& mount : input.container.volume_mounts()) {
    ++index;
    const auto published = input.volumes.find(mount.name());
    if (published == input.volumes.end()) {
      return base::Error(StatusCode::kNotFound, "volume '{}' is not set up", mount.name());
    }
    if (published->second.block) {
      return base::Error(StatusCode::kInvalidArgument,
                         "volume '{}' is a block volume: name it in volumeDevices, not in "
                         "volumeMounts",
                         mount.name());
    }
    std::string source = published->second.path;
    std::string sub_path = mount.sub_path();
    if (!mount.sub_path_expr().empty()) {
      auto expanded = ExpandReferences(mount.sub_path_expr(), environment, PATH_MAX);
      RETURN_IF_ERROR_WITH(expanded, fmt::format("subPathExpr of volume '{}'", mount.name()));
      sub_path = *std::move(expanded);
    }
    const bool deferred = published->second.deferred.has_value();
    if (deferred && !sub_path.empty()) {
      // Nothing exists there on the host; the runtime handler resolves the subPath within the
      // volume.
      ASSIGN_OR_RETURN(source, MakeDeferredSubPath(source, sub_path));
    } else if (!sub_path.empty()) {
      // The bind is writable, and the container's own mount is made read-only, as for whole
      // volumes.
      auto prepared = PrepareSubPath(
          mounter_,
          {.volume_path = source,
           .sub_path = sub_path,
           .target = paths_.PodSubPath(api::PodUid(input.pod.uid()), api::VolumeName(mount.name()),
                                       input.container.name(), index)});
      RETURN_IF_ERROR_WITH(prepared,
                           fmt::format("subPath '{}' of volume '{}'", sub_path, mount.name()));
      source = *std::move(prepared);
    } else if (!deferred) {
      RETURN_IF_ERROR(CheckAnswers(table, mount.name(), source));
    }
    cri::Mount* out = config.add_mounts();
    std::string target = mount.mount_path();
    if (!target.starts_with('/')) target = "/" + target;
    out->set_container_path(target);
    out->set_host_path(source);
    out->set_readonly(mount.read_only() || published->second.read_only);
    out->set_selinux_relabel(published->second.selinux_relabel);
    out->set_propagation(ToPropagation(mount.mount_propagation()));
  }
  for (const auto& [name, path] : input.container.volume_devices()) {
    const auto published = input.volumes.find(name);
    if (published == input.volumes.end()) {
      return base::Error(StatusCode::kNotFound, "volume '{}' is not set up", name);
    }
    if (!published->second.block) {
      return base::Error(StatusCode::kInvalidArgument,
                         "volume '{}' is no block volume: name it in volumeMounts, not in "
                         "volumeDevices",
                         name);
    }
    cri::Device* device = config.add_devices();
    device->set_container_path(path);
    device->set_host_path(published->second.path);
    device->set_permissions(published->second.read_only ? "r" : "rwm");
  }
  return base::OkStatus();
}

Status ContainerConfigs::AddFiles(const ContainerConfigInput& input,
                                  cri::ContainerConfig& config) const {
  bool own_hosts = false;
  for (const cri::Mount& mount : config.mounts()) {
    own_hosts = own_hosts || mount.container_path() == kEtcHosts;
  }
  if (!own_hosts) {
    cri::Mount* mount = config.add_mounts();
    mount->set_container_path(kEtcHosts);
    mount->set_host_path(paths_.PodEtcHosts(input.pod.uid()));
  }
  const std::string folder =
      paths_.ContainerFolder(api::PodUid(input.pod.uid()), input.container.name());
  RETURN_IF_ERROR(platform::MakeFolders(folder, 0750));
  // Each start has its own file, so that an old message is never taken for a new one.
  const std::string file = fmt::format("{}/{}", folder, input.restart_count);
  RETURN_IF_ERROR(WriteInPlace(file, "", 0666));
  cri::Mount* mount = config.add_mounts();
  mount->set_container_path(
      input.container.String({"terminationMessagePath"}, kDefaultTerminationPath));
  mount->set_host_path(file);
  return base::OkStatus();
}

Status ContainerConfigs::WriteHosts(const api::Pod& pod,
                                    const std::vector<std::string>& pod_ips) const {
  std::string text;
  if (pod.host_network()) {
    std::string own;  // ReadWholeFile follows symlinks, because /etc/hosts may be one
    if (base::ReadWholeFile(kEtcHosts, kLargestHosts, own) != 0) own.clear();
    text = "# The host's /etc/hosts, copied by Berth when the pod started.\n" + own;
  } else {
    text =
        "# Written by Berth for this pod.\n"
        "127.0.0.1\tlocalhost\n"
        "::1\tlocalhost ip6-localhost ip6-loopback\n"
        "fe00::\tip6-localnet\n"
        "fe00::\tip6-mcastprefix\n"
        "fe00::1\tip6-allnodes\n"
        "fe00::2\tip6-allrouters\n";
    for (const std::string& ip : pod_ips) text += fmt::format("{}\t{}\n", ip, PodHostname(pod));
  }
  for (const Json& alias : json::Array(pod.json(), {"spec", "hostAliases"})) {
    std::string line = json::String(alias, {"ip"});
    for (const Json& name : json::Array(alias, {"hostnames"})) {
      if (name.is_string()) line += "\t" + name.get<std::string>();
    }
    text += line + "\n";
  }
  return WriteInPlace(paths_.PodEtcHosts(pod.uid()), text, 0644);
}

}  // namespace berth::node
