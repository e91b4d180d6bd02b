// Who serves a FUSE mount, and whether anybody does.
//
// A FUSE mount leads to a connection, whose id is the mount's device number (the folder's name in
// /sys/fs/fuse/connections), and a connection to the processes that hold it open as /dev/fuse:
//
//   mount table: major:minor ─▶ connection ◀─ "fuse_connection: ID" in /proc/PID/fdinfo/N
//
// The kernel says the latter since Linux 6.16; before, whoever holds /dev/fuse may be the one. When
// the last of them is gone the connection is dead for good, and all that goes through it fails with
// ENOTCONN. A server that is there and does not answer is something else: it hangs.
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
  std::set<pid_t> possible;                   // hold /dev/fuse; the kernel does not say for what
  // Those of a connection, or else those that may be.
  const std::set<pid_t>& Of(uint64_t connection) const;
};
// Reads /proc; what may not be read, or ends meanwhile, is left out.
FuseServers FindFuseServers(const std::string& proc = "/proc");

// A process that serves, for people.
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
