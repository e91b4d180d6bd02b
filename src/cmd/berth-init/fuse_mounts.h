// Finds the file systems that the FUSE daemons of this container serve and that the host uses.
//
// A daemon has /dev/fuse open. A newer kernel (6.18) says for which file system: `fuse_connection`
// in fdinfo is the number of its device. With an older kernel, a file system counts as the daemon's
// if it was mounted while this container ran, at a path among the daemon's arguments. If the
// arguments name no such path, every file system that was mounted while this container ran counts
// as the daemon's, because it is better to stay too long than to leave too early.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::init {

struct Mount {
  std::string id;      // in its mount table
  std::string device;  // "0:49"
  std::string mount_point;
  bool fuse = false;

  bool operator==(const Mount&) const = default;
};

// Parses a mount table (/proc/PID/mountinfo). Lines of another form are left out.
std::vector<Mount> ParseMounts(std::string_view mountinfo);

struct FuseServer {
  std::vector<std::string> arguments;
  // The devices of the file systems that it serves; nullopt: it has /dev/fuse open, and the kernel
  // does not say for which file system.
  std::vector<std::optional<std::string>> connections;
};

// A process that the container runtime started in the container by exec.
struct Utility {
  pid_t pid = 0;
  std::string name;
};

struct Processes {
  std::vector<FuseServer> servers;
  std::vector<Utility> utilities;
};

// Finds the processes of this PID namespace; `proc` is its /proc. Waits for no process; one that
// may be a server but keeps everybody from reading its descriptors counts as a server
// (fuse_holders.h).
Processes FindProcesses(const std::string& proc = "/proc");

// Returns the mounts of the host that `servers` serve. `own` is this container's table, and
// `earlier` has the host's mounts from before the container ran.
std::vector<Mount> FindServedMounts(const std::vector<FuseServer>& servers,
                                    const std::vector<Mount>& host, const std::vector<Mount>& own,
                                    const std::vector<Mount>& earlier);

}  // namespace berth::init
