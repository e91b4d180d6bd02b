// Persistent reservations of a logical unit (SPC-4, section 5.13), and what Berth does with them.
//
// A volume that a node of Berth ever used is always reserved, so that a session without the right
// key can write nothing, not even commands that were on their way when its node was fenced:
//
//                     Acquire(node a)                Release(a)
//   nobody's ──────────────────────────▶ node a's ────────────────▶ the guard's
//                                          │   ▲                      │     ▲
//                             Fence(a) ────┼───┼──────────────────────┼─────┘
//                                          │   └── Acquire(node a) ◀──┤
//                                          ▼                          ▼
//                                     the guard's             Acquire(node b)
//
// Each arrow is one command, in which the target takes the reservation from one key and gives it to
// the other. A single writer has the type "write exclusive", so only its own session can write.
// Several writers, and readers, have "write exclusive, registrants only".
//
// Every function may be called again after a failure. Failures: FAILED_PRECONDITION: another node
// holds the reservation, or this one was fenced. UNIMPLEMENTED: the target has no persistent
// reservations. UNAVAILABLE: no answer, so the outcome is unknown. ABORTED: other sessions changed
// the reservation again and again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "iscsi/logical_unit.h"
#include "iscsi/reservation_key.h"

namespace berth::iscsi {

class Reservations {
 public:
  // Borrows the unit. `owner`: the uid of the StorageCluster (reservation_key.h).
  Reservations(LogicalUnit& unit, std::string_view owner)
      : unit_(unit), owner_(owner), guard_(GuardKey(owner)) {}

  base::StatusOr<std::vector<uint64_t>> ReadKeys();
  base::StatusOr<Reservation> Read();
  // UNIMPLEMENTED: the target cannot tell whose keys they are.
  base::StatusOr<std::vector<Registration>> ReadFullStatus();

  // Registers this session with a new key of the node and takes the reservation, or joins it if
  // `shared`. Takes it from the guard and from older sessions of the same node; the target then
  // ends their commands. Returns the key.
  base::StatusOr<uint64_t> Acquire(const std::string& node, bool shared);
  // After this session was logged in anew: makes sure that the registration with `key` still
  // stands. If the target counts the session as another one, registers it with a new key, and takes
  // the place of the old key in one command, which fails if the old key was fenced meanwhile.
  // Returns the key that holds now. FAILED_PRECONDITION: this session was fenced, for good.
  base::StatusOr<uint64_t> Resume(const std::string& node, uint64_t key, bool shared);
  // Hands the reservation of `key` to the guard, or takes off a registration that only joined.
  base::Status Release(uint64_t key);
  // Takes every key of the node off, and ends its commands. Returns the keys. The reservation is
  // then another node's, if that one held it before, or the guard's.
  base::StatusOr<std::vector<uint64_t>> Fence(const std::string& node);

  // Reserves a LUN that has no reservation for the guard. Of several callers, the target lets one
  // succeed. True: it had none; false: it was the guard's before, which is only accepted if
  // `recorded`. ALREADY_EXISTS: it is the guard's, but nothing was recorded, so it holds another
  // volume. FAILED_PRECONDITION: somebody else has it.
  base::StatusOr<bool> Claim(bool recorded);
  // Gives a LUN that this session has claimed back to nobody.
  base::Status Unclaim();
  // Takes the reservation of `key`, which this session has, and all registrations off: the LUN is
  // nobody's.
  base::Status Clear(uint64_t key);

  uint64_t guard() const { return guard_; }

 private:
  // Each returns false after RESERVATION CONFLICT.
  base::StatusOr<bool> Out(PrOut action, ReservationType type, uint64_t key, uint64_t action_key,
                           std::string_view what);
  base::StatusOr<bool> Register(uint64_t key);
  base::StatusOr<bool> Change(uint64_t from, uint64_t to);
  base::StatusOr<bool> Reserve(uint64_t key, ReservationType type);
  // Takes `victim` off and ends its commands.
  base::StatusOr<bool> Preempt(uint64_t key, uint64_t victim, ReservationType type);
  // One try of Acquire; false: something changed meanwhile.
  base::StatusOr<bool> TryAcquire(const NodeKeys& node, uint64_t key, bool shared);
  struct FenceWork {
    std::vector<uint64_t> removed;
    bool registered = false;  // this session, with the guard's key
    bool holds = false;       // this session has the reservation
  };
  base::StatusOr<bool> TryFence(const NodeKeys& node, FenceWork& work);
  base::Status EndCommands();
  base::StatusOr<bool> Holds(uint64_t key, bool shared);
  base::Status GiveBack(uint64_t key, base::Status why);
  base::Status ReadCapabilities();

  LogicalUnit& unit_;
  const std::string owner_;
  const uint64_t guard_;
  bool knows_capabilities_ = false;
  bool keeps_over_power_loss_ = false;
};

}  // namespace berth::iscsi
