// The folder of one sandbox that virtiofsd shares with its guest: the roots of its containers, and
// the files and folders of the host that are mounted in them.
//
//   <folder>/                 a tmpfs, in a mount namespace of its own
//     <container>/rootfs      a copy of the mounts at the container's root
//     <container>/m<number>   the same of the source of a mount, by its number in the config
//
// The namespace is kept by a pin (crust/mount_namespace.h) and has the host's mounts as well, so
// that virtiofsd can be run in it; what the host unmounts goes away there, too. Mounts that are
// made below <folder> later appear for a virtiofsd that runs (its own namespace is a slave), and
// never on the host.
//
// Each step may be repeated, so a handler that was killed at any point goes on. Not thread-safe.
#pragma once

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"
#include "platform/mounts/mounter.h"

namespace berth::crust {

class SharedFolder {
 public:
  // Finds the namespace of `pin`, or makes it, with the tmpfs at `folder`, which must exist.
  // Borrows `mounter` for the call.
  static base::StatusOr<SharedFolder> Open(platform::Mounter& mounter, const std::string& pin,
                                           const std::string& folder);
  SharedFolder() = default;

  // Puts a copy of the mounts at `source`, a folder or a file of the host, at <container>/<name>.
  // OK if something is there already. NOT_FOUND: there is no source.
  base::Status Add(const std::string& container, const std::string& name,
                   const std::string& source) const;
  // Takes all of the container's away, whoever uses it. OK if there is nothing.
  base::Status Remove(const std::string& container) const;

  // The namespace, in which virtiofsd is started.
  const base::UniqueFd& space() const { return space_; }

  static std::string RootName() { return "rootfs"; }
  static std::string MountName(size_t number) { return "m" + std::to_string(number); }

 private:
  SharedFolder(base::UniqueFd space, std::string folder)
      : space_(std::move(space)), folder_(std::move(folder)) {}

  base::UniqueFd space_;
  std::string folder_;
};

}  // namespace berth::crust
