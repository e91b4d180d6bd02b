#include "volume/flex/kubelet_process.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "platform/files/durable_file.h"
#include "platform/processes/command_line.h"
#include "platform/processes/process_info.h"

namespace berth::volume {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;
using base::StatusOr;
using platform::FindFlag;

constexpr size_t kLargestAnswer = 256 * 1024;

// Whether the process is root's, as a kubelet is, and in the pid namespace that `proc` shows.
// Everybody can call a process "kubelet". A kubelet in a container of this node, as kind has them,
// is in a namespace below, and is not this node's.
bool IsOfNode(const std::string& status) {
  if (status.find("\nUid:\t0\t") == status.npos) return false;
  const size_t at = status.find("\nNSpid:");
  if (at == status.npos) return true;
  const std::string_view line = std::string_view(status).substr(at + 7);
  const std::string_view ids = line.substr(0, line.find('\n'));
  return std::ranges::count(ids, '\t') <= 1;
}

// Returns the words of the command line, or none if the process is not the node's kubelet.
// comm and status can be read of every process without a wait (process_walk.h).
std::vector<std::string> ReadKubeletWords(const std::string& process) {
  const auto name = platform::ReadFile(process + "/comm", kLargestAnswer);
  if (!name.ok() || *name != "kubelet\n") return {};
  const auto status = platform::ReadFile(process + "/status", kLargestAnswer);
  if (!status.ok() || !IsOfNode(*status)) return {};
  return platform::ReadCommandLine(process);
}

StatusOr<KubeletFolder> AskConfiguration(const std::string& root,
                                         const std::vector<std::string>& words) {
  constexpr std::string_view kSetting = "volumePluginDir";
  KubeletFolder found{.path = "", .why = "the running kubelet names no other"};
  std::vector<std::string> files;
  if (const std::string file = FindFlag(words, "config"); !file.empty()) files.push_back(file);
  // The files of this folder change what the file says, in the order of their names.
  if (const std::string folder = FindFlag(words, "config-dir"); !folder.empty()) {
    const auto names = platform::ListFolder(root + folder);
    RETURN_IF_ERROR_WITH(names, fmt::format("the kubelet's --config-dir {}", Quote(folder)));
    for (const std::string& name : *names) {
      if (name.ends_with(".conf")) files.push_back(folder + "/" + name);
    }
  }
  for (const std::string& file : files) {
    if (!file.starts_with('/')) {
      return Error(StatusCode::kFailedPrecondition,
                   "the kubelet's --config {} is not an absolute path", Quote(file));
    }
    const auto text = platform::ReadFile(root + file, kLargestAnswer);
    RETURN_IF_ERROR_WITH(text, fmt::format("the kubelet's configuration {}", Quote(file)));
    std::string path = FindFolderSetting(*text, kSetting);
    if (path.empty()) continue;
    found = {.path = std::move(path),
             .why = fmt::format("the running kubelet was told so in {}", Quote(file))};
  }
  return found;
}

StatusOr<KubeletFolder> AskWords(const std::string& root, const std::vector<std::string>& words) {
  constexpr std::string_view kFlag = "volume-plugin-dir";
  if (const std::string given = FindFlag(words, kFlag); given.starts_with('/')) {
    return KubeletFolder{.path = std::string(base::TrimSlashes(given)),
                         .why = fmt::format("the running kubelet has --{}", kFlag)};
  }
  auto found = AskConfiguration(root, words);
  if (found.ok()) return found;
  return Error(StatusCode::kFailedPrecondition, "{}", base::Message(found.status()));
}

}  // namespace

std::string FindFolderSetting(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const size_t first = line.find_first_not_of(" \t");
    const size_t at = line.find(name);
    if (first == line.npos || line[first] == '#' || at == line.npos) continue;
    std::string_view value = line.substr(at + name.size());
    const size_t begin = value.find_first_not_of(" \t=:\"'");
    if (begin == 0 || begin == value.npos || value[begin] != '/') continue;
    value = value.substr(begin);
    value = value.substr(0, value.find_first_of(" \t\"'\r,\\"));
    return std::string(base::TrimSlashes(value));
  }
  return "";
}

StatusOr<std::vector<platform::MountEntry>> ReadKubeletMounts(const std::string& root) {
  std::vector<platform::MountEntry> mounts;
  for (const int pid : platform::ListNumbers(root + "/proc")) {
    const std::string process = fmt::format("{}/proc/{}", root, pid);
    if (ReadKubeletWords(process).empty()) continue;
    auto table = platform::ReadMountTable(process + "/mountinfo");
    if (table.status().code() == StatusCode::kNotFound) continue;  // it has ended
    RETURN_IF_ERROR_WITH(table, fmt::format("the mounts of the kubelet, process {}", pid));
    std::ranges::move(*table, std::back_inserter(mounts));
  }
  return mounts;
}

std::vector<RunningKubelet> ListKubelets() {
  // A kubelet's node has the host's name in lower case, unless a flag names another.
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::vector<RunningKubelet> out;
  for (const int pid : platform::ListNumbers("/proc")) {
    const std::vector<std::string> words = ReadKubeletWords(fmt::format("/proc/{}", pid));
    if (words.empty()) continue;
    RunningKubelet one{.node = FindFlag(words, "hostname-override"),
                       .folder = FindFlag(words, "root-dir")};
    if (one.node.empty()) one.node = host.data();
    std::ranges::transform(one.node, one.node.begin(), [](unsigned char c) { return tolower(c); });
    if (one.folder.empty()) one.folder = "/var/lib/kubelet";
    if (auto drivers = AskWords("", words); drivers.ok()) one.drivers = drivers->path;
    out.push_back(std::move(one));
  }
  return out;
}

StatusOr<KubeletFolder> AskKubeletProcess(const std::string& root) {
  std::optional<KubeletFolder> found;
  for (const int pid : platform::ListNumbers(root + "/proc")) {
    const std::vector<std::string> words = ReadKubeletWords(fmt::format("{}/proc/{}", root, pid));
    if (words.empty()) continue;
    ASSIGN_OR_RETURN(KubeletFolder one, AskWords(root, words));
    if (found.has_value() && found->path != one.path) {
      return Error(StatusCode::kFailedPrecondition,
                   "two kubelets run on this node, with the folders {} and {}", Quote(found->path),
                   Quote(one.path));
    }
    found = std::move(one);
  }
  if (found.has_value()) return *std::move(found);
  return Error(StatusCode::kNotFound, "no process 'kubelet' runs on this node");
}

}  // namespace berth::volume
