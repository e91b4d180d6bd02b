// Which file systems the FUSE daemons of this container serve, and which of those the host uses.
//
// A daemon has /dev/fuse open. A newer kernel (6.18) says for which file system: `fuse_connection`
// in fdinfo is the number of its device. With an older kernel, the daemon's file system is one that
// was mounted while this container ran, at a path among the daemon's arguments. If the arguments
// name no such path, every file system that was mounted meanwhile counts as the daemon's, because
// it is better to stay too long than to leave too early.
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

// A mount table (/proc/PID/mountinfo); lines that make no sense are left out.
std::vector<Mount> ParseMounts(std::string_view mountinfo);

struct FuseServer {
  std::vector<std::string> arguments;
  // For each open /dev/fuse, its file system's device; none: the kernel does not say.
  std::vector<std::optional<std::string>> connections;
};

// A process that came into the container by exec.
struct Utility {
  pid_t pid = 0;
  std::string name;
};

struct Processes {
  std::vector<FuseServer> servers;
  std::vector<Utility> utilities;
};

// The processes of this PID namespace, by its /proc.
Processes FindProcesses(const std::string& proc = "/proc");

// The mounts of the host that `servers` serve. `own` is this container's table, and `earlier` the
// host's mounts that were there before the container ran.
std::vector<Mount> Served(const std::vector<FuseServer>& servers, const std::vector<Mount>& host,
                          const std::vector<Mount>& own, const std::vector<Mount>& earlier);

}  // namespace berth::init
