// A mount namespace that contains only volumes. It keeps a sandbox's mounts even while no process,
// not even the handler, has them open.
//
//   /            a small tmpfs
//   /<name>      a volume each
//
// It holds no copy of the host's mounts, which would keep every other volume of the node busy. It
// is bound to the file at `pin` and lives as long as that binding, even without any process. It
// sees no mount of the host, and the host sees none of its mounts. Child processes make all calls
// into it (setns(2)), with deadlines. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "base/unique_fd.h"
#include "platform/mounts/mounter.h"
#include "platform/walks/usage.h"

namespace berth::crust {

class Holder {
 public:
  // Opens the namespace that is bound to the file `pin`, or makes one. The folder of `pin` is a
  // private mount (PreparePins). `mounter` is used only during the call.
  static base::StatusOr<Holder> Open(platform::Mounter& mounter, const std::string& pin);

  // Moves a detached mount to /name in the namespace. A mount that is there already is covered.
  base::Status PlaceMount(const base::UniqueFd& mount, const std::string& name) const;

  // Returns the device number of the file system at /name; none: nothing is mounted there.
  base::StatusOr<std::optional<dev_t>> FindMount(const std::string& name) const;

  // Unmounts /name and removes the folder. OK if nothing is mounted there. DEADLINE_EXCEEDED: the
  // kernel still writes what is only in memory; nothing shows the mount any more. `alive` is kept
  // until the child process has ended, which may be long after the deadline.
  base::Status RemoveMount(const std::string& name, std::chrono::milliseconds timeout,
                           std::shared_ptr<void> alive) const;

  // Opens the root of the mount at /name with O_PATH. NOT_FOUND: nothing is mounted there.
  base::StatusOr<base::UniqueFd> OpenRoot(const std::string& name) const;

  // Copies the mount at /name. The copy is in no namespace and shows only what is at `sub_path`,
  // which is resolved as platform::OpenBeneath does. NOT_FOUND: nothing is at `sub_path`.
  // FAILED_PRECONDITION: nothing is mounted at /name.
  base::StatusOr<base::UniqueFd> CloneMount(const std::string& name,
                                            const std::string& sub_path) const;

  struct State {
    platform::FileSystemUsage usage;
    bool read_only = false;
  };
  // Reads the state of the file system at /name. NOT_FOUND: nothing is mounted there.
  // DEADLINE_EXCEEDED: the file system does not answer. `alive` is kept until the child process has
  // ended, which may be long after the deadline.
  base::StatusOr<State> ReadState(const std::string& name,
                                  std::shared_ptr<void> alive = nullptr) const;

  // Writes the root folder at /name to the device (fsync). DEADLINE_EXCEEDED: that takes longer
  // than five seconds. Any other failure: nothing can be written. `alive` is used as above.
  base::Status SyncVolume(const std::string& name, std::shared_ptr<void> alive) const;

 private:
  explicit Holder(base::UniqueFd space) : space_(std::move(space)) {}
  base::UniqueFd space_;  // the namespace
};

}  // namespace berth::crust
