#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <sstream>

#include "base/files/whole_file.h"
#include "cli/doctor/check.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/capabilities.h"

namespace berth::cli::doctor {
namespace {

// Reads a file; empty if it cannot be read.
std::string ReadText(const std::string& path) {
  std::string text;
  base::ReadWholeFile(path, platform::kMaxMountTable, text);
  return text;
}

// Says how the kernel has the file system: registered, or as a module that the kernel loads at the
// first mount. Empty if the kernel does not have it.
std::string FindFileSystem(const Machine& machine, const std::string& name) {
  std::istringstream known(ReadText(machine.root + "/proc/filesystems"));
  for (std::string word; known >> word;) {
    if (word == name) return "built in or loaded";
  }
  utsname system{};
  uname(&system);
  constexpr std::string_view kModules = "modules.dep";
  for (const std::string_view list : {std::string_view("modules.builtin"), kModules}) {
    const std::string text =
        ReadText(fmt::format("{}/lib/modules/{}/{}", machine.root, system.release, list));
    if (text.find(fmt::format("/{}.ko", name)) != std::string::npos) {
      return list == kModules ? "a module that the kernel can load" : "built in";
    }
  }
  return "";
}

// Makes the call with invalid arguments. The kernel returns ENOSYS if it does not have the call,
// and another error if it has.
void CheckCall(const char* name, long number, std::string_view what_for, Findings& out) {
  errno = 0;
  const long result = syscall(number, -1, nullptr, 0, 0, 0);
  if (result >= 0) close(static_cast<int>(result));
  if (errno != ENOSYS) {
    out.push_back({"kernel", name, Verdict::kOk, "available", ""});
  } else {
    out.push_back({"kernel", name, Verdict::kBad, fmt::format("missing: without it, {}", what_for),
                   "use Linux 5.6 or newer, and a seccomp profile that allows this call"});
  }
}

void CheckProgram(const std::string& name, bool needed, const std::string& package, Findings& out) {
  for (const char* folder :
       {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}) {
    const std::string path = fmt::format("{}/{}", folder, name);
    if (access(path.c_str(), X_OK) == 0) {
      out.push_back({"programs", name, Verdict::kOk, path, ""});
      return;
    }
  }
  out.push_back({"programs", name, needed ? Verdict::kBad : Verdict::kNote, "not in the PATH",
                 needed ? fmt::format("run 'apt-get install {}'", package) : ""});
}

// Returns the mount that contains `folder`: the one with the longest mount point above it, and of
// several on the same mount point the last one.
const platform::MountEntry* FindHoldingMount(const std::vector<platform::MountEntry>& table,
                                             const std::string& folder) {
  const platform::MountEntry* holder = nullptr;
  for (const platform::MountEntry& entry : table) {
    const bool above = entry.mount_point == "/" || folder == entry.mount_point ||
                       folder.starts_with(entry.mount_point + "/");
    if (above && (holder == nullptr || entry.mount_point.size() >= holder->mount_point.size())) {
      holder = &entry;
    }
  }
  return holder;
}

bool IsShared(const platform::MountEntry& entry) {
  return std::any_of(entry.propagation.begin(), entry.propagation.end(),
                     [](const std::string& mode) { return mode.starts_with("shared:"); });
}

}  // namespace

void CheckFileSystem(const Machine& machine, const std::string& name, bool needed,
                     std::string_view what_for, Findings& out) {
  const std::string found = FindFileSystem(machine, name);
  if (!found.empty()) {
    out.push_back({"kernel", name, Verdict::kOk, found, ""});
  } else {
    out.push_back(
        {"kernel", name, needed ? Verdict::kBad : Verdict::kNote,
         fmt::format("the kernel has no {} (for {})", name, what_for),
         needed ? fmt::format("run 'modprobe {}', or use a kernel that has it", name) : ""});
  }
}

void CheckKernel(const Machine& machine, Findings& out) {
  utsname system{};
  uname(&system);
  out.push_back({"kernel", "release", Verdict::kNote, system.release, ""});
  CheckFileSystem(machine, "overlay", true, "containers' images", out);
  CheckFileSystem(machine, "ext4", true, "volumes without another fsType", out);
  CheckFileSystem(machine, "xfs", false, "volumes with fsType xfs", out);
  CheckFileSystem(machine, "btrfs", false, "volumes with fsType btrfs", out);
  CheckFileSystem(machine, "fuse", false, "drivers with a file system of their own", out);
  CheckCall("openat2", SYS_openat2, "paths in volumes cannot be resolved safely", out);
  CheckCall("open_tree", SYS_open_tree, "mounts cannot be made by descriptor", out);
  CheckCall("pidfd_open", SYS_pidfd_open, "Berth cannot wait for utilities", out);
  if (access((machine.root + "/dev/loop-control").c_str(), F_OK) == 0) {
    out.push_back({"kernel", "loop devices", Verdict::kOk, "/dev/loop-control exists", ""});
  } else {
    out.push_back({"kernel", "loop devices", Verdict::kBad, "/dev/loop-control does not exist",
                   "run 'modprobe loop': the shipped driver keeps volumes in image files"});
  }
  CheckProgram("mkfs.ext4", true, "e2fsprogs", out);
  CheckProgram("mkfs.xfs", false, "xfsprogs", out);
  CheckProgram("mkfs.btrfs", false, "btrfs-progs", out);
}

void CheckCapabilities(const Machine& machine, Findings& out) {
  const std::string status = ReadText(machine.root + "/proc/self/status");
  if (!machine.is_root) {
    out.push_back({"rights", "root", Verdict::kNote,
                   "this is not root: run 'berth doctor' as root to see what 'berth up' may do",
                   ""});
    return;
  }
  struct Wanted {
    int number;
    const char* name;
    bool needed;
    const char* without;
  };
  constexpr Wanted kWanted[] = {
      {21, "CAP_SYS_ADMIN", true, "nothing can be mounted"},
      {0, "CAP_CHOWN", true, "volumes cannot be given to a pod's fsGroup"},
      {1, "CAP_DAC_OVERRIDE", true, "pods' folders cannot be entered"},
      {27, "CAP_MKNOD", false, "raw block volumes cannot be given to pods where /dev is bare"},
      {24, "CAP_SYS_RESOURCE", false,
       "ext4 cannot grow while it is mounted, only for its next pod"},
  };
  for (const Wanted& wanted : kWanted) {
    const bool has = platform::HasCapabilityIn(status, wanted.number);
    out.push_back(
        {"rights", wanted.name,
         has             ? Verdict::kOk
         : wanted.needed ? Verdict::kBad
                         : Verdict::kNote,
         has ? "given" : wanted.without,
         has || !wanted.needed ? "" : "run Berth outside of a container, or in a privileged one"});
  }
}

void CheckPropagation(const Machine& machine, const std::string& data_folder, Findings& out) {
  const auto table = platform::ParseMountInfo(ReadText(machine.root + "/proc/self/mountinfo"));
  if (!table.ok()) {
    out.push_back({"mounts", "mount table", Verdict::kBad,
                   std::string(base::Message(table.status())), "mount /proc"});
    return;
  }
  const platform::MountEntry* holder = FindHoldingMount(*table, data_folder);
  if (holder == nullptr) return;
  const std::string where =
      fmt::format("'{}' on {} ({})", holder->mount_point, holder->source, holder->fs_type);
  const bool shared = IsShared(*holder);
  out.push_back({"mounts", "propagation", Verdict::kOk,
                 fmt::format("{} is {}{}", where, shared ? "shared" : "private",
                             shared ? "" : "; 'berth up' shares the kubelet folder itself"),
                 ""});
  if (holder->read_only()) {
    out.push_back({"mounts", "data folder", Verdict::kBad, fmt::format("{} is read-only", where),
                   "use another folder, with --data"});
  }
}

bool IsShared(const Machine& machine, const std::string& folder) {
  const auto table = platform::ParseMountInfo(ReadText(machine.root + "/proc/self/mountinfo"));
  if (!table.ok()) return false;
  const platform::MountEntry* holder = FindHoldingMount(*table, folder);
  return holder != nullptr && IsShared(*holder);
}

}  // namespace berth::cli::doctor
