// A mount namespace with nothing in it but volumes: what keeps a sandbox's mounts while nobody, not
// even the handler, has them open.
//
//   /            a small tmpfs
//   /<name>      a volume each
//
// It holds no copy of the host's mounts, which would keep every other volume of the node busy. It
// lives as long as the file at `pin` that it is bound to, whoever runs; it sees nothing that is
// mounted on the host, and the host nothing of it. All calls into it are made in children
// (setns(2)) with deadlines. Not thread-safe.
#pragma once

#include <sys/types.h>

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
  // Found at `pin`, or made. The folder of `pin` is a private mount (PreparePins).
  static base::StatusOr<Holder> Open(platform::Mounter& mounter, const std::string& pin);

  // Moves a detached mount into it, as /name.
  base::Status Place(const base::UniqueFd& mount, const std::string& name) const;

  // The device number of the file system at /name; none: nothing is mounted there.
  base::StatusOr<std::optional<dev_t>> Find(const std::string& name) const;

  // Unmounts /name; nothing there is OK.
  base::Status Take(const std::string& name) const;

  // What is mounted at /name, with O_PATH. NOT_FOUND.
  base::StatusOr<base::UniqueFd> Root(const std::string& name) const;

  // A copy, in no namespace, of the mount at /name that shows what is at `sub_path` in it alone,
  // resolved as platform::OpenBeneath does. NOT_FOUND: there is no such thing; FAILED_PRECONDITION:
  // nothing is mounted at /name.
  base::StatusOr<base::UniqueFd> Clone(const std::string& name, const std::string& sub_path) const;

  struct Look {
    platform::FileSystemUsage usage;
    bool read_only = false;
  };
  // DEADLINE_EXCEEDED: the file system does not answer. `alive` is kept for as long as the look is
  // not over, which may be long after that.
  base::StatusOr<Look> LookAt(const std::string& name, std::shared_ptr<void> alive = nullptr) const;

  // Has what was written so far, of the file system as a whole, written down. DEADLINE_EXCEEDED: it
  // takes long; another failure: nothing can be written. `alive`: as above.
  base::Status Sync(const std::string& name, std::shared_ptr<void> alive) const;

 private:
  explicit Holder(base::UniqueFd space) : space_(std::move(space)) {}
  base::UniqueFd space_;
};

}  // namespace berth::crust
