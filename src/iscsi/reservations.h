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
// A *ticket* names the state that a node saw when it had the right to the volume. Acquire takes the
// volume only in that state, and every arrow makes another one. So what a node began before it was
// fenced never succeeds after the fence.
//
// A fence dies half done if its process is killed: the node's key is gone, and its commands still
// run. So the guard's key is unfinished until the fence is complete, and whoever finds an
// unfinished one ends the commands first.
//
// Every function may be called again after a failure. Failures: FAILED_PRECONDITION: another node
// holds the reservation, or this one was fenced. UNIMPLEMENTED: the target has no persistent
// reservations, or cannot end commands. UNAVAILABLE: no answer, so the outcome is unknown. ABORTED:
// the ticket is an old one, or other sessions changed the reservation again and again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "iscsi/logical_unit.h"
#include "iscsi/reservation_key.h"

namespace berth::iscsi {

// What a process knows of its own registration. It outlives sessions.
struct Registered {
  uint64_t key = 0;  // 0: none
  // The key that replaces `key` if the last command succeeded, whose answer was lost; else 0.
  uint64_t next = 0;
  // The guard's keys when `key` was seen for the last time before that command. A fence registers
  // one before it removes a node's keys, so as long as they are the same, no fence did it.
  std::vector<uint64_t> guards;
};

class Reservations {
 public:
  // Borrows the unit. `owner`: see reservation_key.h.
  Reservations(LogicalUnit& unit, const KeyOwner& owner)
      : unit_(unit), owner_(owner), guard_(GuardKeys(owner)) {}

  struct State {
    std::vector<uint64_t> keys;
    Reservation held;
  };
  base::StatusOr<State> ReadState();
  base::StatusOr<Reservation> Read();
  // Keys::generation.
  base::StatusOr<uint32_t> ReadGeneration();
  std::string Ticket(const State& state) const;
  // UNIMPLEMENTED: the target cannot tell whose keys they are.
  base::StatusOr<std::vector<Registration>> ReadFullStatus();

  // Registers this session with a new key of the node and takes the reservation, or joins it if
  // `shared`. Takes it from the guard if the ticket is the present one, and from older processes of
  // the same node in any case, because nobody fenced those; the target then ends their commands.
  // Returns the key.
  base::StatusOr<uint64_t> Acquire(const std::string& node, bool shared, std::string_view ticket);
  // After this session was logged in anew: makes sure that the registration still stands. If the
  // target counts the session as another one, registers it with a new key, and takes the place of
  // the old key in one command, which fails if the old key was fenced meanwhile. `own` has what
  // stands then, also after a failure. FAILED_PRECONDITION: this process was fenced, for good.
  base::Status Resume(const std::string& node, Registered& own, bool shared);
  // Hands the reservation of `key` to the guard, or removes a registration that only joined.
  base::Status Release(uint64_t key);
  // What a fence of the node would hit now: its keys, and those that fences left unfinished.
  std::vector<uint64_t> FindTargets(const State& state, const std::string& node) const;
  // Takes the processes of the node that have one of `keys` off, or all of them without `keys`, and
  // ends their commands. Tickets that were given before are void then. The reservation is then
  // another node's, if that one held it before, or the guard's.
  struct Fenced {
    std::vector<uint64_t> keys;  // that were removed
    std::string ticket;          // of the state that this fence left
  };
  base::StatusOr<Fenced> Fence(const std::string& node,
                               const std::optional<std::vector<uint64_t>>& keys = {});

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

  bool IsGuard(uint64_t key) const { return guard_.Has(key); }

 private:
  // Each returns false after RESERVATION CONFLICT.
  base::StatusOr<bool> Out(PrOut action, ReservationType type, uint64_t key, uint64_t action_key,
                           std::string_view what);
  base::StatusOr<bool> Register(uint64_t key);
  base::StatusOr<bool> Change(uint64_t from, uint64_t to);
  base::StatusOr<bool> Reserve(uint64_t key, ReservationType type);
  // Removes `victim` and ends its commands.
  base::StatusOr<bool> Preempt(uint64_t key, uint64_t victim, ReservationType type);
  // Removes a key whose session has no commands.
  base::StatusOr<bool> Remove(uint64_t key, uint64_t victim, ReservationType type);
  // Ends the commands of all sessions, unless each PREEMPT has done so.
  base::Status EndCommands(uint64_t key);

  base::StatusOr<Keys> ReadKeys();
  std::vector<uint64_t> GuardsOf(const State& state) const;
  // One try of Acquire; false: something changed meanwhile.
  base::StatusOr<bool> TryAcquire(const NodeKeys& node, uint64_t key, bool shared,
                                  std::string_view ticket);
  base::Status CheckMayTake(const NodeKeys& node, const State& state, bool shared,
                            std::string_view ticket) const;
  // FAILED_PRECONDITION if `own` does not stand. Else it stands for another session than this.
  base::StatusOr<bool> FindOwn(const State& state, Registered& own);
  base::Status Replace(const NodeKeys& node, Registered& own, bool shared);
  struct FenceWork;
  base::StatusOr<bool> TryFence(const NodeKeys& node, FenceWork& work);
  base::StatusOr<bool> RemoveTargets(const NodeKeys& node, const State& state, FenceWork& work);
  base::StatusOr<bool> HasReservation(uint64_t key, bool shared);
  base::Status GiveBack(uint64_t key, base::Status why);
  base::Status ReadCapabilities();

  LogicalUnit& unit_;
  const KeyOwner owner_;
  const NodeKeys guard_;
  bool knows_capabilities_ = false;
  bool keeps_over_power_loss_ = false;
  bool is_lio_ = false;
  uint64_t claimed_ = 0;  // the key of Claim
};

}  // namespace berth::iscsi
