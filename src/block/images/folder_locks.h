// Says what locks on a folder of images prove, by the mount that holds the folder (lock_reach.h)
// and by what nodes saw of each other (lock_handshake.h).
//
// Thread-safe. Borrows `mounter`. DEADLINE_EXCEEDED: the folder does not answer.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "api/kinds/object_ids.h"
#include "base/mutex.h"
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

  // FAILED_PRECONDITION: the mount keeps locks on the node that takes them. The message gives the
  // reason, and what to do.
  base::Status CheckMount();

  // These do what the members of Backend with the same names do.
  base::Status ExchangeLocks(const std::string& life);
  void LeaveLocks(const std::string& life);
  base::Status ProveLocks(const std::string& life, const api::NodeName& node);
  std::string DescribeLapse();

 private:
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
  base::Status CheckReach(const Mount& mount) const;
  base::StatusOr<std::shared_ptr<LockHandshake>> HandshakeOf(const std::string& life);

  const std::string folder_;
  const std::string node_;
  platform::Mounter& mounter_;
  base::Mutex mutex_;
  std::optional<Mount> found_ ABSL_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point found_at_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<LockHandshake>> handshakes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace berth::block
