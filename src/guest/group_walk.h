// Gives a volume's files to a pod's fsGroup, in the guest, by the rules of
// platform/walks/ownership.h.
//
// It is a walk of its own, on one thread, because that one uses libraries that cannot be linked
// statically. No container can use the volume meanwhile, so no file is renamed or replaced.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace berth::guest {

struct GroupOptions {
  gid_t group = 0;
  // If the root folder is right, the whole tree counts as right. The root is changed last.
  bool only_on_root_mismatch = false;
};

// The permissions that a file of this mode needs: rw-rw---- more, and for a folder rwxrwx--- and
// setgid.
mode_t ModeForGroup(mode_t mode);

// Works on the folder at `root`, in which nothing else is mounted. A change that the file system
// refuses is left out. Returns "", or the error in words.
std::string GiveToGroup(const std::string& root, const GroupOptions& options);

}  // namespace berth::guest
