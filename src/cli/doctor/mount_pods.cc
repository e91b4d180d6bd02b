#include <dirent.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "api/kinds/kinds.h"
#include "cli/doctor/check.h"
#include "rpc/cri_client.h"
#include "volume/exec/pod_container.h"
#include "volume/exec/registration.h"

namespace berth::cli::doctor {
namespace {

constexpr std::chrono::seconds kExecTime{10};
constexpr std::string_view kSuffix = ".json";

// What the mount pod of a plugin needs in addition to the programs that each mount pod needs.
struct Needs {
  std::string_view plugin;
  std::vector<std::string_view> programs;
  std::string_view file_system;  // of the kernel; empty: the plugin's volumes are block devices
};
const std::vector<Needs>& KnownNeeds() {
  static const std::vector<Needs> kKnown = {
      {"kubernetes.io/glusterfs", {"mount.glusterfs", "glusterfs"}, "fuse"},
      {"kubernetes.io/cephfs", {"ceph-fuse"}, "fuse"},
      {"kubernetes.io/nfs", {"mount.nfs"}, "nfs"},
      {"kubernetes.io/rbd", {"rbd", "modprobe"}, ""},
      {"kubernetes.io/iscsi", {"iscsiadm", "iscsid"}, ""},
  };
  return kKnown;
}
constexpr std::string_view kAlways[] = {"mount", "umount", "env", "sh"};
// Programs for file systems on block devices. For the plugins of the table whose volumes are no
// block devices, a missing program is not a fault.
constexpr std::string_view kBlock[] = {"blkid",    "mkfs.ext4",  "fsck.ext4", "resize2fs",
                                       "mkfs.xfs", "xfs_repair", "xfs_growfs"};

const Needs* FindNeeds(const std::string& plugin) {
  for (const Needs& one : KnownNeeds()) {
    if (one.plugin == plugin) return &one;
  }
  return nullptr;
}

std::set<std::string> ListFolderFiles(const std::string& folder) {
  std::set<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), closedir);
  if (dir == nullptr) return names;
  while (const dirent* entry = readdir(dir.get())) {
    const std::string name = entry->d_name;
    if (!name.starts_with('.')) names.insert(name);  // a leading dot: it is being written
  }
  return names;
}

// "kubernetes.io~glusterfs.json" → "kubernetes.io/glusterfs"
std::string ToPluginName(const std::string& file) {
  std::string plugin = file.substr(0, file.size() - kSuffix.size());
  std::replace(plugin.begin(), plugin.end(), '~', '/');
  return plugin;
}

// Returns those of `programs` that are not in the container's PATH.
base::StatusOr<std::vector<std::string>> FindMissingPrograms(
    rpc::CriClient& runtime, const std::string& container,
    const std::vector<std::string_view>& programs) {
  rpc::cri::ExecSyncRequest request;
  request.set_container_id(container);
  request.set_timeout(kExecTime.count());
  for (const char* word :
       {"sh", "-c",
        "for program do command -v \"$program\" >/dev/null || echo \"$program\"; "
        "done",
        "sh"}) {
    request.add_cmd(word);
  }
  for (const std::string_view program : programs) request.add_cmd(std::string(program));
  ASSIGN_OR_RETURN(const auto answer, runtime.ExecSync(request, kExecTime + kExecTime));
  if (answer.exit_code() != 0) {
    return base::Error(base::StatusCode::kInternal, "sh ended with {}: {}", answer.exit_code(),
                       answer.stderr());
  }
  std::vector<std::string> missing;
  std::istringstream lines(answer.stdout());
  for (std::string line; std::getline(lines, line);) missing.push_back(line);
  return missing;
}

void CheckUtilities(rpc::CriClient& runtime, const std::string& plugin,
                    const volume::PodContainer& container, Findings& out) {
  const Needs* needs = FindNeeds(plugin);
  std::vector<std::string_view> must(std::begin(kAlways), std::end(kAlways));
  std::vector<std::string_view> should(std::begin(kBlock), std::end(kBlock));
  if (needs != nullptr) must.insert(must.end(), needs->programs.begin(), needs->programs.end());
  // A plugin that is not in the table may format devices, so its pod must have those programs, too.
  if (needs == nullptr || needs->file_system.empty()) {
    must.insert(must.end(), std::begin(kBlock), std::end(kBlock));
    should.clear();
  }
  Finding finding{
      "mount pods", "utilities", Verdict::kOk,
      fmt::format("{}: {} has all programs that it needs", plugin, container.Describe()), ""};
  for (const auto& [programs, verdict] :
       {std::pair(must, Verdict::kBad), std::pair(should, Verdict::kNote)}) {
    const auto missing = FindMissingPrograms(runtime, container.id, programs);
    if (!missing.ok()) {
      finding.verdict = Verdict::kBad;
      finding.text = fmt::format("{}: nothing can be run in {}: {}", plugin, container.Describe(),
                                 base::Message(missing.status()));
      finding.advice = "its image needs a shell; see deploy/mount-pod/Containerfile";
      break;
    }
    if (missing->empty()) continue;
    finding.verdict = verdict;
    finding.text =
        fmt::format("{}: {} lacks {}", plugin, container.Describe(), fmt::join(*missing, ", "));
    if (verdict == Verdict::kBad) {
      finding.advice =
          "add their packages to its image (deploy/mount-pod/Containerfile): the "
          "host's programs are not used in their place";
      break;
    }
  }
  out.push_back(std::move(finding));
}

void CheckRegistration(const Machine& machine, const volume::Paths& paths, const std::string& file,
                       rpc::CriClient* runtime, Findings& out) {
  const std::string plugin = ToPluginName(file);
  const auto read = volume::ReadRegistration(paths, plugin, machine.root_user);
  if (!read.ok()) {
    out.push_back(
        {"mount pods", "registration", Verdict::kBad, std::string(base::Message(read.status())),
         fmt::format("restart the mount pod, which writes {}/{} again, or remove that file; until "
                     "then, no utility of {} runs",
                     paths.PluginContainers(), file, plugin)});
    return;
  }
  if (!read->has_value()) return;  // it was removed a moment ago
  if (const Needs* needs = FindNeeds(plugin); needs != nullptr && !needs->file_system.empty()) {
    CheckFileSystem(machine, std::string(needs->file_system), true, plugin, out);
  }
  if (runtime == nullptr) return;
  const auto container = volume::FindContainer(*runtime, **read);
  if (!container.ok()) {
    out.push_back(
        {"mount pods", "registration", Verdict::kNote,
         fmt::format("{}: the runtime does not say whether pod {}/{} runs: {}", plugin,
                     (*read)->pod_namespace, (*read)->pod_name, base::Message(container.status())),
         ""});
  } else if (!container->has_value()) {
    out.push_back({"mount pods", "registration", Verdict::kBad,
                   fmt::format("{}: stale: pod {}/{} (UID {}) has no running container '{}', and "
                               "utilities run on the host",
                               plugin, (*read)->pod_namespace, (*read)->pod_name, (*read)->pod_uid,
                               (*read)->container),
                   fmt::format("start a mount pod for {}, or remove {}/{}", plugin,
                               paths.PluginContainers(), file)});
  } else {
    out.push_back({"mount pods", "registration", Verdict::kOk,
                   fmt::format("{} is served by {}", plugin, (*container)->Describe()), ""});
    CheckUtilities(*runtime, plugin, **container, out);
  }
}

// Returns the plugins that a pod's berth-init registers: "--plugin NAME" and "--plugin=NAME".
std::set<std::string> ReadPlugins(const api::Pod& pod) {
  constexpr std::string_view kFlag = "--plugin";
  std::set<std::string> plugins;
  for (const api::Container& container : pod.containers()) {
    std::vector<std::string> words = container.command();
    const std::vector<std::string> arguments = container.args();
    words.insert(words.end(), arguments.begin(), arguments.end());
    if (words.empty() || !words.front().ends_with("berth-init")) continue;
    for (size_t i = 1; i < words.size() && words[i] != "--"; ++i) {
      if (words[i] == kFlag && i + 1 < words.size()) plugins.insert(words[i + 1]);
      if (words[i].starts_with("--plugin=")) plugins.insert(words[i].substr(kFlag.size() + 1));
    }
  }
  return plugins;
}

}  // namespace

void CheckMountPods(const Machine& machine, const std::string& kubelet_folder,
                    const std::string& endpoint, Findings& out) {
  const volume::Paths paths(kubelet_folder);
  const std::set<std::string> files = ListFolderFiles(paths.PluginContainers());
  if (files.empty()) {
    out.push_back({"mount pods", "registrations", Verdict::kNote,
                   "none: volumes' utilities run on this host", ""});
    return;
  }
  const bool shared = IsShared(machine, kubelet_folder);
  out.push_back({"mount pods", "propagation", shared ? Verdict::kOk : Verdict::kBad,
                 fmt::format("'{}' is {}", kubelet_folder, shared ? "shared" : "private"),
                 shared ? ""
                        : fmt::format("run 'mount --make-rshared {}': until then, what a mount pod "
                                      "mounts does not appear on this host",
                                      kubelet_folder)});
  const auto connected = rpc::CriClient::New(endpoint);
  rpc::CriClient* runtime = connected.ok() && machine.is_root ? connected->get() : nullptr;
  for (const std::string& file : files) {
    if (file.ends_with(kSuffix)) {
      CheckRegistration(machine, paths, file, runtime, out);
    } else {
      out.push_back({"mount pods", "registration", Verdict::kNote,
                     fmt::format("'{}/{}' is not a registration", paths.PluginContainers(), file),
                     ""});
    }
  }
}

void CheckMountPodRivals(kube::Client& client, Findings& out) {
  const auto pods = client.List(api::kinds::kPod, "", {});
  if (!pods.ok()) return;  // CheckApi has said why
  // The keys are node and plugin, and then the pods' owner, because two pods of one DaemonSet are
  // two generations and not rivals.
  std::map<std::pair<std::string, std::string>, std::map<std::string, std::string>> makers;
  for (const base::Json& item : pods->items) {
    const api::Pod pod{base::Json(item)};
    if (pod.deleting() || pod.terminated() || pod.node_name().empty()) continue;
    const auto owner = pod.controller();
    for (const std::string& plugin : ReadPlugins(pod)) {
      makers[{pod.node_name(), plugin}].emplace(owner ? owner->uid : pod.uid(), pod.key());
    }
  }
  for (const auto& [where, rivals] : makers) {
    if (rivals.size() < 2) continue;
    std::vector<std::string> names;
    for (const auto& [uid, name] : rivals) names.push_back(name);
    out.push_back({"mount pods", "one per plugin", Verdict::kBad,
                   fmt::format("on node {} these pods register for {}, and each overwrites the "
                               "others' registration: {}",
                               where.first, where.second, fmt::join(names, ", ")),
                   "keep only one of their DaemonSets on that node"});
  }
}

}  // namespace berth::cli::doctor
