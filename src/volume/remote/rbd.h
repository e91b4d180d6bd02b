// The plugin for rbd: an image of a Ceph pool, mapped by the kernel (krbd) with the utility `rbd`,
// as the kubelet did until Kubernetes 1.30.
//
// One writer: an image that another client watches is refused, and one with the feature
// exclusive-lock is mapped so that the kernel keeps the lock. The key of the Ceph user comes from a
// Secret, through a keyring file that exists while `rbd` runs, or from a keyring where `rbd` runs.
#pragma once

#include <string>
#include <vector>

#include "base/key_locks.h"
#include "volume/remote/disk_plugin.h"

namespace berth::volume {

class RbdPlugin : public DiskPlugin {
 public:
  explicit RbdPlugin(Host& host) : DiskPlugin(host, "kubernetes.io/rbd", "rbd") {}

 protected:
  StatusOr<Disk> ReadDisk(const VolumeSpec& spec) const override;
  StatusOr<std::string> MapDisk(const api::Pod& pod, const VolumeSpec& spec, const Disk& disk,
                                DiskMark& mark) override;
  Status UnmapDisk(const DiskMark& mark) override;

 private:
  // The devices that the kernel has for the pool and the image of a mark's state, of whichever
  // cluster, because the list does not tell clusters apart, and whoever mapped them.
  StatusOr<std::vector<std::string>> ListNamesakes(const Json& state);
  // Those of `namesakes` that belong to `mark`: its own or, if it knows none but has begun a map,
  // those that were not there before and that no other mark knows, because the call may have been
  // interrupted after it mapped.
  StatusOr<std::vector<std::string>> ChooseOwn(const DiskMark& mark,
                                               const std::vector<std::string>& namesakes) const;
  // Notes durably that a device of this mark may be there which it does not know: none of
  // `namesakes` but `own`.
  Status NoteBegun(DiskMark& mark, const std::vector<std::string>& namesakes,
                   const std::vector<std::string>& own) const;
  Status UnmapDevice(const std::string& device);
  // Runs `rbd` with these arguments as the user of the volume, and returns its output.
  StatusOr<std::string> RunAsUser(const std::vector<std::string>& arguments, const Json& source,
                                  const std::string& keyring, std::chrono::milliseconds timeout);

  // By pool and image: a device is nobody's between its map and its mark, and another call for an
  // image of that name would take it for a remainder.
  base::KeyLocks images_;
};

}  // namespace berth::volume
