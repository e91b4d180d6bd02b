// Who serves a FUSE mount, and whether anybody does.
//
// Each FUSE mount belongs to a connection, whose id is the mount's device number (the folder's name
// in /sys/fs/fuse/connections). The processes that serve a connection hold it open as /dev/fuse:
//
//   mount table: major:minor ─▶ connection ◀─ "fuse_connection: ID" in /proc/PID/fdinfo/N
//
// Linux tells in fdinfo which connection a process holds since 6.16; on older kernels every process
// that holds /dev/fuse may be the server. When the last of them is gone the connection is dead for
// good, and everything that goes through it fails with ENOTCONN. A server that exists and does not
// answer is another matter: it hangs.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "platform/mounts/mounter.h"

namespace berth::platform {

// fuse, fuse.TYPE, fuseblk.
bool IsFuse(const MountEntry& mount);
uint64_t FuseConnection(uint32_t major, uint32_t minor);

struct FuseServers {
  std::map<uint64_t, std::set<pid_t>> known;  // by connection
  std::set<pid_t> possible;                   // hold /dev/fuse; for which mount is unknown
  // The servers of a connection or, if the kernel does not tell, all possible ones.
  const std::set<pid_t>& Of(uint64_t connection) const;
};
// Reads /proc. It leaves out what it may not read, and processes that end meanwhile.
FuseServers FindFuseServers(const std::string& proc = "/proc");

// A serving process, described for people.
struct FuseServer {
  pid_t pid = 0;
  std::string name;
  std::string container;  // the runtime's id, by its cgroup; empty: none, or not known
  std::string pod_uid;    // likewise
};
FuseServer DescribeFuseServer(pid_t pid, const std::string& proc = "/proc");

enum class FuseAnswer {
  kAnswers,
  kDead,    // nobody serves it, or the connection was aborted
  kSilent,  // no answer in time
};
// Asks what is mounted at `mount_point`, in a child with a deadline.
FuseAnswer AskFuse(const std::string& mount_point, std::chrono::milliseconds timeout);

}  // namespace berth::platform
