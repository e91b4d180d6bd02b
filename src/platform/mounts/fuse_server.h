// Finds the processes that serve a FUSE mount, and asks whether a server still answers.
//
// Each FUSE mount belongs to a connection, whose id is the mount's device number (the folder's name
// in /sys/fs/fuse/connections). The processes that serve a connection hold it open as /dev/fuse:
//
//   mount table: major:minor ─▶ connection ◀─ "fuse_connection: ID" in /proc/PID/fdinfo/N
//
// Since Linux 6.16 fdinfo names the connection that a process holds; on older kernels every process
// that holds /dev/fuse may be the server. When the last server has ended, the connection is dead
// for good, and every access to the mount fails with ENOTCONN. If a server exists but does not
// answer, the mount is not dead: accesses to it hang.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "platform/mounts/mounter.h"

namespace berth::platform {

// Whether the mount's type is "fuse", "fuse.TYPE" or "fuseblk".
bool IsFuse(const MountEntry& mount);
// The id of the connection whose mounts have this device number.
uint64_t ToFuseConnection(uint32_t major, uint32_t minor);

struct FuseServers {
  std::map<uint64_t, std::set<pid_t>> known;  // by connection
  std::set<pid_t> possible;  // they hold /dev/fuse, but the kernel does not name the connection
  // The servers of a connection or, if the kernel does not tell, all possible ones.
  const std::set<pid_t>& GetServers(uint64_t connection) const;
};
// Reads /proc. Processes that it may not read, that end meanwhile, or that keep everybody from
// reading them (process_walk.h) are left out: AskFuse tells whether their connections live. Of a
// process that serves more than a thousand connections, those beyond are left out.
FuseServers FindFuseServers(const std::string& proc = "/proc");

// A process that serves a FUSE mount, described for people.
struct FuseServer {
  pid_t pid = 0;
  std::string name;
  std::string container;  // the runtime's id, by its cgroup; empty: none, or not known
  std::string pod_uid;    // by its cgroup; empty: none, or not known
};
// Reads /proc/PID. What cannot be read is left empty.
FuseServer DescribeFuseServer(pid_t pid, const std::string& proc = "/proc");

enum class FuseAnswer {
  kAnswers,
  kDead,    // no process serves it, or the connection was aborted
  kSilent,  // no answer in time
};
// Calls statfs(2) at `mount_point`, in a child with a deadline.
FuseAnswer AskFuse(const std::string& mount_point, std::chrono::milliseconds timeout);

}  // namespace berth::platform
