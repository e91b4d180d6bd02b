// The volumes of the guest and its disks: the methods guest.mount, guest.unmount, guest.stats,
// guest.expand, guest.graft (grafts.h) and guest.disk (base/ipc/guest_call.h).
//
// Each call runs in a child process, because the kernel may block in it for ever. A volume has one
// such child at a time, and a later call for it is refused meanwhile; an unmount ends a mount that
// still runs, for example because it gives many files to a group.
//
//   nothing ──▶ mounted at /stage/NAME ──▶ (fsGroup) ──▶ moved to /volumes/NAME ──▶ nothing
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>

#include "base/ipc/message.h"
#include "guest/control.h"
#include "guest/loop.h"

namespace berth::guest {

// What is known of a volume.
struct Volume {
  pid_t child = 0;      // 0: no call runs
  bool mounts = false;  // the child runs guest.mount
  int64_t errors = 0;   // that ext4 had counted when it was mounted
  std::string disk;     // on which it was mounted, until nothing in the guest uses the disk
  std::map<std::string, size_t> grafts;  // the numbers of the paths in the volume
};

class Volumes {
 public:
  // Adds the methods to `control`. Both are borrowed and must outlive this.
  Volumes(Loop& loop, Control& control);

 private:
  enum class Change { kNone, kMount, kUnmount, kGraft };
  using Body =
      std::function<base::ipc::Message(const base::ipc::Message& request, const Volume& volume)>;

  // Runs `body` in a child, and replies what it returns.
  void RunInChild(const base::ipc::Message& request, Reply reply, Change change, Body body);

  Loop& loop_;
  std::map<std::string, Volume> volumes_;
};

}  // namespace berth::guest
