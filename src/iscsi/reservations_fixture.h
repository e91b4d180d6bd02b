// Sessions to a target in memory, for tests of reservations. The parameter: whether the target
// knows PREEMPT AND ABORT.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "iscsi/fake_target.h"
#include "iscsi/reservations.h"

namespace berth::iscsi {

inline const KeyOwner kOwner("cluster-1");

// A session with its reservations.
struct Client {
  Client(FakeTarget& target, int session, const KeyOwner& owner = kOwner)
      : unit(target, session), reservations(unit, owner) {}
  std::string Ticket() { return reservations.Ticket(*reservations.ReadState()); }
  // As a node that has the right to the volume now.
  base::StatusOr<uint64_t> Acquire(const std::string& node, bool shared) {
    ASSIGN_OR_RETURN(const Reservations::State now, reservations.ReadState());
    return reservations.Acquire(node, shared, reservations.Ticket(now));
  }
  // Goes on with the registration of `key`.
  base::StatusOr<uint64_t> Resume(const std::string& node, uint64_t key, bool shared) {
    Registered own{.key = key, .next = 0, .guards = {}};
    RETURN_IF_ERROR(reservations.Resume(node, own, shared));
    return own.key;
  }
  FakeUnit unit;
  Reservations reservations;
};

class ReservationsTest : public testing::TestWithParam<bool> {
 protected:
  ReservationsTest() { target_.can_abort = GetParam(); }

  // Whether a command calls `action` of PERSISTENT RESERVE OUT.
  static bool Calls(const Command& command, PrOut action) {
    return command.cdb[0] == 0x5f && command.cdb[1] == static_cast<uint8_t>(action);
  }

  FakeTarget target_;
  Client a_{target_, 1};
  Client b_{target_, 2};
  Client fencer_{target_, 3};
  static constexpr int kA = 1, kB = 2, kStranger = 9;
};

}  // namespace berth::iscsi
