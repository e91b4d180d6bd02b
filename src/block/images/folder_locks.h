// Says what locks on a folder of images prove, by the mount that holds the folder (lock_reach.h)
// and by what nodes saw of each other (lock_handshake.h).
//
// Thread-safe. Borrows `mounter`. DEADLINE_EXCEEDED: the folder does not answer.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "api/kinds/object_ids.h"
#include "base/mutex.h"
#include "base/shared_read.h"
#include "base/status.h"
#include "block/images/lock_handshake.h"
#include "block/images/lock_reach.h"
#include "platform/mounts/mounter.h"

namespace berth::block {

class FolderLocks {
 public:
  // `node`: the name of this node; empty: this process maps no images.
  FolderLocks(std::string folder, std::string node, platform::Mounter& mounter)
      : folder_(std::move(folder)), node_(std::move(node)), mounter_(mounter) {}

  // Gives the device number of the folder's file system. FAILED_PRECONDITION: the mount keeps locks
  // on the node that takes them. The message gives the reason, and what to do.
  base::StatusOr<dev_t> CheckMount();

  // These do what the members of Backend with the same names do.
  base::Status ExchangeLocks(const std::string& life);
  void LeaveLocks(const std::string& life);
  base::Status ProveLocks(const std::string& life, const api::NodeName& node);
  std::string DescribeLapse();

 private:
  struct Place {
    bool has_mount_id;
    uint64_t mount_id;
    uint64_t device;
    int64_t magic;
  };
  struct Mount {
    uint64_t id = 0;
    uint64_t device = 0;
    bool read_only = false;
    LockSupport locks;
    std::string lapse;
    std::string session;
    std::string text;  // for people
  };
  // Reads the mount table only if the folder is on another mount than `max_age` ago.
  base::StatusOr<Mount> FindMount(std::chrono::seconds max_age);
  static base::StatusOr<Place> FindPlaceOf(const std::string& folder);
  base::Status CheckReach(const Mount& mount) const;
  base::StatusOr<std::shared_ptr<LockHandshake>> HandshakeOf(const std::string& life);

  const std::string folder_;
  const std::string node_;
  platform::Mounter& mounter_;
  base::SharedRead<base::StatusOr<Place>> place_;
  base::Mutex mutex_;
  std::optional<Mount> found_ ABSL_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point found_at_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<LockHandshake>> handshakes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::block
