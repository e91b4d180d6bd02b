#include "iscsi/reservations.h"

#include <algorithm>

#include "base/log.h"

namespace berth::iscsi {

using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr int kMostRounds = 8;

ReservationType TypeFor(bool shared) {
  return shared ? ReservationType::kWriteExclusiveRegistrantsOnly
                : ReservationType::kWriteExclusive;
}

bool Contains(const std::vector<uint64_t>& keys, uint64_t key) {
  return std::ranges::find(keys, key) != keys.end();
}

Status KeepsChanging() {
  return Error(StatusCode::kAborted, "other sessions keep changing the LUN's reservation");
}

Status FencedError() {
  return Error(StatusCode::kFailedPrecondition,
               "this session's registration is gone: the node was fenced from this LUN, or the "
               "target lost its registrations");
}

}  // namespace

StatusOr<std::vector<uint64_t>> Reservations::ReadKeys() {
  std::vector<uint8_t> data(1024);
  while (true) {
    const Answer answer = unit_.Run(PersistentReserveIn(PrIn::kReadKeys, data));
    if (!answer.good()) {
      const Status failure = AnswerError(answer, "read the keys of persistent reservations");
      if (failure.code() != StatusCode::kUnimplemented) return failure;
      return Error(StatusCode::kUnimplemented,
                   "the target has no SCSI-3 persistent reservations, by which volumes are fenced");
    }
    ASSIGN_OR_RETURN(Keys keys, ParseKeys({data.data(), answer.bytes}));
    if (keys.whole_bytes <= answer.bytes) return std::move(keys.keys);
    if (keys.whole_bytes <= data.size() || data.size() > 0xffff / 2) {
      return Error(StatusCode::kDataLoss, "the target cuts off its list of keys");
    }
    data.resize(std::max(keys.whole_bytes, data.size() * 2));
    data.resize(std::min<size_t>(data.size(), 0xfff8));
  }
}

StatusOr<Reservation> Reservations::Read() {
  std::vector<uint8_t> data(256);
  const Answer answer = unit_.Run(PersistentReserveIn(PrIn::kReadReservation, data));
  if (!answer.good()) return AnswerError(answer, "read the persistent reservation");
  return ParseReservation({data.data(), answer.bytes});
}

StatusOr<std::vector<Registration>> Reservations::ReadFullStatus() {
  std::vector<uint8_t> data(0xfff8);
  const Answer answer = unit_.Run(PersistentReserveIn(PrIn::kFullStatus, data));
  if (!answer.good()) return AnswerError(answer, "read the full status of the reservation");
  ASSIGN_OR_RETURN(FullStatus status, ParseFullStatus({data.data(), answer.bytes}));
  return std::move(status.registrations);
}

Status Reservations::ReadCapabilities() {
  if (knows_capabilities_) return base::OkStatus();
  std::vector<uint8_t> data(8);
  const Answer answer = unit_.Run(PersistentReserveIn(PrIn::kCapabilities, data));
  if (answer.good()) {
    ASSIGN_OR_RETURN(keeps_over_power_loss_, ParseKeepsOverPowerLoss({data.data(), answer.bytes}));
  } else if (answer.outcome != Answer::Outcome::kCheckCondition ||
             answer.sense_key != kSenseIllegalRequest) {
    return AnswerError(answer, "read what persistent reservations the target has");
  }
  knows_capabilities_ = true;
  return base::OkStatus();
}

StatusOr<bool> Reservations::Out(PrOut action, ReservationType type, uint64_t key,
                                 uint64_t action_key, std::string_view what) {
  const bool registers =
      action == PrOut::kRegister || action == PrOut::kRegisterAndIgnoreExistingKey;
  const PrParameters parameters =
      MakePrParameters(key, action_key, registers && keeps_over_power_loss_);
  const Answer answer = unit_.Run(PersistentReserveOut(action, type, parameters));
  if (answer.outcome == Answer::Outcome::kConflict) return false;
  if (!answer.good()) return AnswerError(answer, what);
  return true;
}

StatusOr<bool> Reservations::Register(uint64_t key) {
  RETURN_IF_ERROR(ReadCapabilities());
  return Out(PrOut::kRegisterAndIgnoreExistingKey, ReservationType::kNone, 0, key,
             "register for the persistent reservation");
}

StatusOr<bool> Reservations::Change(uint64_t from, uint64_t to) {
  RETURN_IF_ERROR(ReadCapabilities());
  return Out(PrOut::kRegister, ReservationType::kNone, from, to, "change the registration");
}

StatusOr<bool> Reservations::Reserve(uint64_t key, ReservationType type) {
  return Out(PrOut::kReserve, type, key, 0, "reserve the LUN");
}

StatusOr<bool> Reservations::Preempt(uint64_t key, uint64_t victim, ReservationType type) {
  auto done = Out(PrOut::kPreemptAndAbort, type, key, victim, "preempt a registration");
  if (done.ok() || done.status().code() != StatusCode::kUnimplemented) return done;
  // The target cannot end the commands of one session. After PREEMPT that session can begin none
  // that writes, and a reset ends those that it had begun.
  ASSIGN_OR_RETURN(const bool preempted,
                   Out(PrOut::kPreempt, type, key, victim, "preempt a registration"));
  if (!preempted) return false;
  RETURN_IF_ERROR(unit_.Reset());
  return true;
}

StatusOr<bool> Reservations::Holds(uint64_t key, bool shared) {
  ASSIGN_OR_RETURN(const Reservation held, Read());
  if (!shared) return held.key == key && held.type == TypeFor(false);
  if (held.type != TypeFor(true)) return false;
  return Change(key, key);
}

Status Reservations::GiveBack(uint64_t key, Status why) {
  if (const Status left = Release(key); !left.ok()) {
    LOG_WARNING("take a registration off again: {}", base::ToString(left));
  }
  return why;
}

StatusOr<bool> Reservations::TryAcquire(const NodeKeys& node, uint64_t key, bool shared) {
  const ReservationType type = TypeFor(shared);
  RETURN_IF_ERROR(Register(key));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> keys, ReadKeys());
  ASSIGN_OR_RETURN(const Reservation held, Read());
  if (held.type == ReservationType::kNone) {
    ASSIGN_OR_RETURN(const bool reserved, Reserve(key, type));
    if (!reserved) return false;
  } else if (held.key == guard_ || (node.Has(held.key) && held.key != key)) {
    const bool others = std::ranges::any_of(
        keys, [&](uint64_t other) { return other != guard_ && !node.Has(other); });
    if (!shared && others && held.type != ReservationType::kWriteExclusive) {
      return Error(StatusCode::kFailedPrecondition, "several nodes use the LUN at the same time");
    }
    ASSIGN_OR_RETURN(const bool taken, Preempt(key, held.key, type));
    if (!taken) return false;
  } else if (held.key != key && !(shared && held.type == type)) {
    return Error(StatusCode::kFailedPrecondition,
                 "another node holds the LUN: reservation {} of key {:#018x}", TypeName(held.type),
                 held.key);
  }
  for (const uint64_t old : keys) {
    if (old == key || !node.Has(old) || old == held.key) continue;
    RETURN_IF_ERROR(Preempt(key, old, type));
  }
  return Holds(key, shared);
}

StatusOr<uint64_t> Reservations::Acquire(const std::string& node, bool shared) {
  const NodeKeys keys(owner_, node);
  ASSIGN_OR_RETURN(const std::vector<uint64_t> taken, ReadKeys());
  const uint64_t key = keys.MakeNew(taken);
  for (int i = 0; i < kMostRounds; ++i) {
    const auto acquired = TryAcquire(keys, key, shared);
    if (!acquired.ok()) return GiveBack(key, acquired.status());
    if (!*acquired) continue;
    if (shared) return key;
    // If a fence died between PREEMPT and its reset, commands of the fenced node may still run.
    if (const Status reset = EndCommands(); !reset.ok()) return GiveBack(key, reset);
    return key;
  }
  return GiveBack(key, KeepsChanging());
}

StatusOr<uint64_t> Reservations::Resume(const std::string& node, uint64_t key, bool shared) {
  ASSIGN_OR_RETURN(const bool same_session, Change(key, key));
  uint64_t now = key;
  if (!same_session) {
    const NodeKeys node_keys(owner_, node);
    ASSIGN_OR_RETURN(const std::vector<uint64_t> keys, ReadKeys());
    if (!Contains(keys, key)) return FencedError();
    now = node_keys.MakeNew(keys);
    RETURN_IF_ERROR(Register(now));
    const auto taken = Preempt(now, key, TypeFor(shared));
    if (!taken.ok()) return GiveBack(now, taken.status());
    if (!*taken) return GiveBack(now, FencedError());
  }
  ASSIGN_OR_RETURN(const bool holds, Holds(now, shared));
  if (!holds) return GiveBack(now, FencedError());
  return now;
}

Status Reservations::Release(uint64_t key) {
  ASSIGN_OR_RETURN(const Reservation held, Read());
  ASSIGN_OR_RETURN(const bool released, Change(key, held.key == key ? guard_ : 0));
  if (!released) return FencedError();
  return base::OkStatus();
}

Status Reservations::EndCommands() {
  const Status reset = unit_.Reset();
  return reset.code() == StatusCode::kUnimplemented ? base::OkStatus() : reset;
}

StatusOr<bool> Reservations::TryFence(const NodeKeys& node, FenceWork& work) {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> keys, ReadKeys());
  ASSIGN_OR_RETURN(const Reservation held, Read());
  const bool registered = std::ranges::any_of(keys, [&](uint64_t key) { return node.Has(key); });
  if (!registered && held.type != ReservationType::kNone) {
    // An earlier fence may have died between PREEMPT and its reset. Nobody else writes now.
    if (held.key == guard_) RETURN_IF_ERROR(EndCommands());
    if (work.registered && !work.holds) RETURN_IF_ERROR(Change(guard_, 0));
    return true;
  }
  ASSIGN_OR_RETURN(work.registered, Register(guard_));
  const ReservationType type = held.type == ReservationType::kNone ? TypeFor(false) : held.type;
  for (const uint64_t key : keys) {
    if (!node.Has(key)) continue;
    // False: that key, or the guard's registration, is gone. The next try sees which.
    ASSIGN_OR_RETURN(const bool preempted, Preempt(guard_, key, type));
    if (!preempted) return false;
    work.holds |= key == held.key;
    work.removed.push_back(key);
  }
  if (held.type == ReservationType::kNone) {
    ASSIGN_OR_RETURN(const bool reserved, Reserve(guard_, type));
    work.holds |= reserved;
  }
  return false;  // the next try sees whether the node is gone
}

StatusOr<std::vector<uint64_t>> Reservations::Fence(const std::string& node) {
  const NodeKeys keys(owner_, node);
  FenceWork work;
  for (int i = 0; i < kMostRounds; ++i) {
    ASSIGN_OR_RETURN(const bool fenced, TryFence(keys, work));
    if (fenced) return work.removed;
  }
  return KeepsChanging();
}

StatusOr<bool> Reservations::Claim(bool recorded) {
  ASSIGN_OR_RETURN(const Reservation held, Read());
  if (held.type != ReservationType::kNone) {
    if (held.key == guard_ && recorded) return false;
    return Error(held.key == guard_ ? StatusCode::kAlreadyExists : StatusCode::kFailedPrecondition,
                 "the LUN is reserved for {}: {} of key {:#018x}",
                 held.key == guard_ ? "another volume" : "somebody else", TypeName(held.type),
                 held.key);
  }
  RETURN_IF_ERROR(Register(guard_));
  ASSIGN_OR_RETURN(const bool reserved, Reserve(guard_, TypeFor(false)));
  if (reserved) return true;
  if (const Status left = Unclaim(); !left.ok()) LOG_WARNING("{}", base::ToString(left));
  return Error(StatusCode::kFailedPrecondition,
               "somebody else has reserved the LUN at the same time");
}

Status Reservations::Unclaim() { return Change(guard_, 0).status(); }

Status Reservations::Clear(uint64_t key) {
  ASSIGN_OR_RETURN(const bool cleared, Out(PrOut::kClear, ReservationType::kNone, key, 0,
                                           "clear the persistent reservation"));
  if (!cleared) return FencedError();
  return base::OkStatus();
}

}  // namespace berth::iscsi
