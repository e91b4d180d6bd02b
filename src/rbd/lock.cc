#include "rbd/lock.h"

#include <errno.h>

#include <algorithm>

#include "base/log.h"
#include "rbd/dead_client.h"
#include "rbd/rbd_error.h"

namespace berth::rbd {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;

const ClientRecord* FindClient(const std::vector<ClientRecord>& clients, const Locker& locker) {
  const auto found =
      std::find_if(clients.begin(), clients.end(), [&locker](const ClientRecord& client) {
        return client.IsClient(locker.client_id, locker.address);
      });
  return found == clients.end() ? nullptr : &*found;
}

// The locks of an image that other clients than this one have, and who they are.
struct LockState {
  struct Lock {
    Locker locker;
    const ClientRecord* client;  // nullptr: it is no client of Berth
    bool alive;
  };
  std::vector<Lock> locks;
  std::vector<ClientRecord> clients;  // `locks` points into it
};

bool IsAlive(const std::vector<Watcher>& watchers, const Locker& locker) {
  return std::any_of(watchers.begin(), watchers.end(), [&locker](const Watcher& watcher) {
    return watcher.client_id == locker.client_id;
  });
}

// Ends what calls that died left, and returns the locks of others.
base::StatusOr<LockState> SettleLocks(const Image& image) {
  RETURN_IF_ERROR(EndDeadCalls(image, Unrecorded::kForeign));
  LockState state;
  ASSIGN_OR_RETURN(const auto lockers, ListLockers(image.cluster(), image.id()));
  if (lockers.empty()) return state;
  ASSIGN_OR_RETURN(state.clients, ListClients(image.cluster(), image.name()));
  ASSIGN_OR_RETURN(const auto watchers, image.ListWatchers());
  for (const Locker& locker : lockers) {
    if (locker.client_id == image.cluster().client_id()) continue;
    state.locks.push_back({.locker = locker,
                           .client = FindClient(state.clients, locker),
                           .alive = IsAlive(watchers, locker)});
  }
  return state;
}

// Whether librbd can have the holders of the lock change the image for this client. librbd would
// wait for one that does not answer, and later releases of it would break its lock. `refusal` is
// what the kernel's driver does not do for others.
base::Status CheckHoldersHelp(const Image& image, const LockState& state,
                              std::string_view refusal) {
  if (state.locks.empty()) return base::OkStatus();
  for (const LockState::Lock& lock : state.locks) {
    if (lock.client == nullptr || lock.client->program != Program::kKernel) continue;
    return Error(StatusCode::kFailedPrecondition,
                 "image {} is in use by the kernel's driver of node {}, which {} for others: end "
                 "that use, or have the cluster use its volumes by the proxy",
                 Quote(image.name()), lock.client->node, refusal);
  }
  ASSIGN_OR_RETURN(const auto answering, image.ListAnswering(kAnswerTime));
  for (const LockState::Lock& lock : state.locks) {
    if (answering.contains(lock.locker.client_id)) continue;
    return Error(
        StatusCode::kFailedPrecondition,
        "image {} is locked by {} at {}, which does not answer the cluster: fence its node "
        "first",
        Quote(image.name()), Quote(lock.locker.client), Quote(lock.locker.address));
  }
  return base::OkStatus();
}

}  // namespace

base::Status PrepareGrowth(const Image& image) {
  ASSIGN_OR_RETURN(const LockState state, SettleLocks(image));
  return CheckHoldersHelp(image, state, "grows no image");
}

base::Status EnsureUnlocked(const Image& image) {
  ASSIGN_OR_RETURN(const LockState state, SettleLocks(image));
  for (const auto& [locker, client, alive] : state.locks) {
    if (client == nullptr) {
      return Error(StatusCode::kFailedPrecondition,
                   "image {} is locked by {} at {}, which is no client of Berth{}",
                   Quote(image.name()), Quote(locker.client), Quote(locker.address),
                   alive ? "" : " and does not answer the cluster any more");
    }
    if (client->program == Program::kCall) {
      return Error(StatusCode::kFailedPrecondition,
                   "image {} is locked for a moment by a snapshot, copy, growth or deletion from "
                   "node {}, which goes on",
                   Quote(image.name()), client->node);
    }
    return Error(StatusCode::kFailedPrecondition,
                 "image {} is locked by node {} ({} at {}), which {}", Quote(image.name()),
                 client->node, Quote(locker.client), Quote(locker.address),
                 alive ? "uses it" : "does not answer the cluster any more and is not fenced");
  }
  return base::OkStatus();
}

base::Status AcquireLock(const Image& image) {
  RETURN_IF_ERROR(EnsureUnlocked(image));
  const int result = rbd_lock_acquire(image.handle(), RBD_LOCK_MODE_EXCLUSIVE);
  if (result == -EINVAL) {
    return Error(StatusCode::kFailedPrecondition,
                 "image {} has not the feature exclusive-lock: `rbd feature enable` adds it",
                 Quote(image.name()));
  }
  if (result < 0) return RbdError(result, fmt::format("lock image {}", Quote(image.name())));
  int is_owner = 0;
  const int asked = rbd_is_exclusive_lock_owner(image.handle(), &is_owner);
  if (asked < 0) return RbdError(asked, fmt::format("lock image {}", Quote(image.name())));
  if (is_owner != 0) return base::OkStatus();
  return Error(StatusCode::kFailedPrecondition, "image {} was locked by another client",
               Quote(image.name()));
}

base::Status PrepareSnapshot(const Image& image) {
  ASSIGN_OR_RETURN(const LockState state, SettleLocks(image));
  if (state.locks.empty()) return AcquireLock(image);
  return CheckHoldersHelp(image, state, "makes no snapshot");
}

}  // namespace berth::rbd
