#include "iscsi/reservations.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/log.h"
#include "base/sha256.h"

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

StatusOr<Keys> Reservations::ReadKeys() {
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
    if (keys.whole_bytes <= answer.bytes) return keys;
    if (keys.whole_bytes <= data.size() || data.size() > 0xffff / 2) {
      return Error(StatusCode::kDataLoss, "the target cuts off its list of keys");
    }
    data.resize(std::max(keys.whole_bytes, data.size() * 2));
    data.resize(std::min<size_t>(data.size(), 0xfff8));
  }
}

StatusOr<uint32_t> Reservations::ReadGeneration() {
  ASSIGN_OR_RETURN(const Keys keys, ReadKeys());
  return keys.generation;
}

StatusOr<Reservation> Reservations::Read() {
  std::vector<uint8_t> data(256);
  const Answer answer = unit_.Run(PersistentReserveIn(PrIn::kReadReservation, data));
  if (!answer.good()) return AnswerError(answer, "read the persistent reservation");
  return ParseReservation({data.data(), answer.bytes});
}

// Two answers of one generation, so that no registration changed between them.
StatusOr<Reservations::State> Reservations::ReadState() {
  for (int i = 0; i < kMostRounds; ++i) {
    ASSIGN_OR_RETURN(Keys keys, ReadKeys());
    ASSIGN_OR_RETURN(const Reservation held, Read());
    if (held.generation != keys.generation) continue;
    return State{.keys = std::move(keys.keys), .held = held};
  }
  return KeepsChanging();
}

std::vector<uint64_t> Reservations::GuardsOf(const State& state) const {
  std::vector<uint64_t> guards;
  std::ranges::copy_if(state.keys, std::back_inserter(guards),
                       [&](uint64_t key) { return IsGuard(key); });
  std::ranges::sort(guards);
  return guards;
}

// Nodes that only join or leave do not change it, so that they do not keep each other from
// starting.
std::string Reservations::Ticket(const State& state) const {
  base::Sha256 digest;
  digest.Add(fmt::format("{} {} {}", static_cast<int>(state.held.type), state.held.key,
                         fmt::join(GuardsOf(state), " ")));
  return digest.FinishHex().substr(0, 32);
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
  ASSIGN_OR_RETURN(is_lio_, IsLio(unit_));
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

StatusOr<bool> Reservations::Remove(uint64_t key, uint64_t victim, ReservationType type) {
  return Out(PrOut::kPreempt, type, key, victim, "preempt a registration");
}

StatusOr<bool> Reservations::Preempt(uint64_t key, uint64_t victim, ReservationType type) {
  RETURN_IF_ERROR(ReadCapabilities());
  // LIO (of Linux 6.1) hangs for ever if a reset meets PREEMPT AND ABORT: the reset waits for that
  // command, which waits for the reset (drivers/target/target_core_tmr.c, lun_reset_mutex).
  if (!is_lio_) {
    auto done = Out(PrOut::kPreemptAndAbort, type, key, victim, "preempt a registration");
    if (done.ok() || done.status().code() != StatusCode::kUnimplemented) return done;
  }
  // The commands of one session cannot be ended alone. After PREEMPT that session can begin none
  // that writes, and a reset ends those that it had begun.
  ASSIGN_OR_RETURN(const bool preempted, Remove(key, victim, type));
  if (!preempted) return false;
  RETURN_IF_ERROR(unit_.Reset());
  return true;
}

Status Reservations::EndCommands(uint64_t key) {
  const Status reset = unit_.Reset();
  if (reset.code() != StatusCode::kUnimplemented) return reset;
  // A key that nobody has gives a conflict, if the target has PREEMPT AND ABORT at all.
  ASSIGN_OR_RETURN(const State state, ReadState());
  const auto abort = Out(PrOut::kPreemptAndAbort, TypeFor(true), key, guard_.MakeNew(state.keys),
                         "test PREEMPT AND ABORT");
  if (abort.ok()) return base::OkStatus();
  if (abort.status().code() != StatusCode::kUnimplemented) return abort.status();
  return Error(
      StatusCode::kUnimplemented,
      "the target has neither PREEMPT AND ABORT nor LOGICAL UNIT RESET, so the commands of "
      "a fenced node cannot be ended");
}

StatusOr<bool> Reservations::HasReservation(uint64_t key, bool shared) {
  ASSIGN_OR_RETURN(const Reservation held, Read());
  if (!shared) return held.key == key && held.type == TypeFor(false);
  if (held.type != TypeFor(true)) return false;
  return Change(key, key);
}

Status Reservations::GiveBack(uint64_t key, Status why) {
  if (const Status left = Release(key); !left.ok()) {
    LOG_WARNING("remove a registration again: {}", base::ToString(left));
  }
  return why;
}

Status Reservations::CheckMayTake(const NodeKeys& node, const State& state, bool shared,
                                  std::string_view ticket) const {
  const Reservation& held = state.held;
  const bool joins = shared && held.type == TypeFor(true);
  if (held.type != ReservationType::kNone && !IsGuard(held.key) && !node.Has(held.key) && !joins) {
    return Error(StatusCode::kFailedPrecondition,
                 "another node holds the LUN: reservation {} of key {:#018x}", TypeName(held.type),
                 held.key);
  }
  const bool others = std::ranges::any_of(
      state.keys, [&](uint64_t other) { return !IsGuard(other) && !node.Has(other); });
  if (!shared && others && held.type == TypeFor(true)) {
    return Error(StatusCode::kFailedPrecondition, "several nodes use the LUN at the same time");
  }
  // A fence removes all keys of a node. An unfinished key may be that of a process that has yet to
  // look whether it may have the LUN.
  const bool stands = node.Has(held.key) || std::ranges::any_of(state.keys, [&](uint64_t key) {
                        return node.Has(key) && !IsUnfinished(key);
                      });
  if (stands || Ticket(state) == ticket) return base::OkStatus();
  return Error(
      StatusCode::kAborted,
      "the LUN's reservation has changed since the ticket was given, so this node may have "
      "been fenced");
}

StatusOr<bool> Reservations::TryAcquire(const NodeKeys& node, uint64_t key, bool shared,
                                        std::string_view ticket) {
  const ReservationType type = TypeFor(shared);
  RETURN_IF_ERROR(Register(key));
  ASSIGN_OR_RETURN(State state, ReadState());
  std::erase(state.keys, key);
  const Reservation& held = state.held;
  if (held.key != key) RETURN_IF_ERROR(CheckMayTake(node, state, shared, ticket));
  const std::vector<uint64_t> guards = GuardsOf(state);
  if (std::ranges::any_of(guards, IsUnfinished)) RETURN_IF_ERROR(EndCommands(key));
  if (held.type == ReservationType::kNone) {
    ASSIGN_OR_RETURN(const bool reserved, Reserve(key, type));
    if (!reserved) return false;
  } else if (IsGuard(held.key)) {
    ASSIGN_OR_RETURN(const bool taken, Remove(key, held.key, type));
    if (!taken) return false;
  } else if (node.Has(held.key) && held.key != key) {
    ASSIGN_OR_RETURN(const bool taken, Preempt(key, held.key, type));
    if (!taken) return false;
  }
  for (const uint64_t old : state.keys) {
    if (old == held.key) continue;
    if (node.Has(old)) {
      RETURN_IF_ERROR(Preempt(key, old, type));
    } else if (IsGuard(old) && (!shared || IsUnfinished(old))) {
      RETURN_IF_ERROR(Remove(key, old, type));
    }
  }
  ASSIGN_OR_RETURN(const bool finished, Change(key, FinishedKey(key)));
  if (!finished) return false;
  return HasReservation(FinishedKey(key), shared);
}

StatusOr<uint64_t> Reservations::Acquire(const std::string& node, bool shared,
                                         std::string_view ticket) {
  const NodeKeys keys(owner_, node);
  ASSIGN_OR_RETURN(const Keys taken, ReadKeys());
  const uint64_t key = keys.MakeNew(taken.keys);
  const uint64_t finished = FinishedKey(key);
  for (int i = 0; i < kMostRounds; ++i) {
    const auto acquired = TryAcquire(keys, key, shared, ticket);
    if (!acquired.ok()) {
      // Which of the two stands depends on how far it came.
      const auto changed = Change(key, finished);
      if (!changed.ok()) LOG_WARNING("{}", base::ToString(changed.status()));
      return GiveBack(finished, acquired.status());
    }
    if (!*acquired) continue;
    if (shared) return finished;
    // If a fence died between PREEMPT and its reset, commands of the fenced node may still run.
    if (const Status reset = EndCommands(finished); !reset.ok()) return GiveBack(finished, reset);
    return finished;
  }
  return GiveBack(finished, KeepsChanging());
}

StatusOr<bool> Reservations::FindOwn(const State& state, Registered& own) {
  if (Contains(state.keys, own.key)) return false;
  const std::vector<uint64_t> guards = GuardsOf(state);
  // A fence that had begun when `guards` was read might have removed `key` after that.
  const bool replaced = own.next != 0 && Contains(state.keys, own.next) && guards == own.guards &&
                        std::ranges::none_of(guards, IsUnfinished);
  if (!replaced) return FencedError();
  own = {.key = own.next, .next = 0, .guards = {}};
  ASSIGN_OR_RETURN(const bool same_session, Change(own.key, own.key));
  // The command whose answer was lost may have ended without the reset behind it.
  if (same_session) RETURN_IF_ERROR(EndCommands(own.key));
  return same_session;
}

Status Reservations::Replace(const NodeKeys& node, Registered& own, bool shared) {
  ASSIGN_OR_RETURN(const State state, ReadState());
  ASSIGN_OR_RETURN(const bool same_session, FindOwn(state, own));
  if (same_session) return base::OkStatus();
  const uint64_t now = node.MakeNext(own.key, state.keys);
  own.next = now;
  own.guards = GuardsOf(state);
  RETURN_IF_ERROR(Register(now));
  ASSIGN_OR_RETURN(const bool taken, Preempt(now, own.key, TypeFor(shared)));
  if (!taken) {
    // It may have been run, and sent again because the target aborted it.
    ASSIGN_OR_RETURN(const State after, ReadState());
    const auto mine = FindOwn(after, own);
    if (!mine.ok()) return GiveBack(now, mine.status());
    if (!*mine) return KeepsChanging();
  }
  own.key = now;
  own.next = FinishedKey(now);
  ASSIGN_OR_RETURN(const bool finished, Change(now, own.next));
  if (!finished) return FencedError();
  own = {.key = own.next, .next = 0, .guards = {}};
  return base::OkStatus();
}

Status Reservations::Resume(const std::string& node, Registered& own, bool shared) {
  ASSIGN_OR_RETURN(const bool same_session, Change(own.key, own.key));
  if (!same_session) RETURN_IF_ERROR(Replace(NodeKeys(owner_, node), own, shared));
  ASSIGN_OR_RETURN(const bool holds, HasReservation(own.key, shared));
  if (!holds) return GiveBack(own.key, FencedError());
  if (own.next != 0) RETURN_IF_ERROR(Remove(own.key, own.next, TypeFor(shared)));
  own = {.key = own.key, .next = 0, .guards = {}};
  return base::OkStatus();
}

Status Reservations::Release(uint64_t key) {
  ASSIGN_OR_RETURN(const State state, ReadState());
  const uint64_t guard = FinishedKey(guard_.MakeNew(state.keys));
  ASSIGN_OR_RETURN(const bool released, Change(key, state.held.key == key ? guard : 0));
  if (!released) return FencedError();
  return base::OkStatus();
}

struct Reservations::FenceWork {
  const std::optional<std::vector<uint64_t>>& wanted;
  std::vector<uint64_t> removed;
  std::string ticket;
  uint64_t key = 0;         // of this session
  bool unfinished = false;  // an earlier fence was

  bool Hits(const NodeKeys& node, uint64_t found) const {
    if (!node.Has(found)) return false;
    return !wanted.has_value() ||
           std::ranges::any_of(*wanted, [&](uint64_t one) { return IsSameProcess(one, found); });
  }
};

std::vector<uint64_t> Reservations::FindTargets(const State& state, const std::string& node) const {
  const NodeKeys keys(owner_, node);
  std::vector<uint64_t> found;
  std::ranges::copy_if(state.keys, std::back_inserter(found), [&](uint64_t key) {
    return keys.Has(key) || (IsGuard(key) && IsUnfinished(key));
  });
  return found;
}

StatusOr<bool> Reservations::RemoveTargets(const NodeKeys& node, const State& state,
                                           FenceWork& work) {
  const Reservation& held = state.held;
  const ReservationType type = held.type == ReservationType::kNone ? TypeFor(false) : held.type;
  for (const uint64_t key : state.keys) {
    const bool hit = work.Hits(node, key);
    if (!hit && (key == work.key || !IsGuard(key))) continue;
    // Only the holder of "write exclusive" has commands that write. A reset would disturb the node
    // that holds it now.
    const bool silent = !hit || (held.type == TypeFor(false) && key != held.key);
    ASSIGN_OR_RETURN(const bool gone,
                     silent ? Remove(work.key, key, type) : Preempt(work.key, key, type));
    if (!gone) return false;
    work.unfinished |= !hit && IsUnfinished(key);
    if (hit) work.removed.push_back(key);
  }
  if (held.type != ReservationType::kNone) return true;
  return Reserve(work.key, type);
}

StatusOr<bool> Reservations::TryFence(const NodeKeys& node, FenceWork& work) {
  ASSIGN_OR_RETURN(State state, ReadState());
  if (!Contains(state.keys, work.key)) {
    // Before the node's keys are read, so that a process that registers later sees another ticket.
    work.key = guard_.MakeNew(state.keys);
    RETURN_IF_ERROR(Register(work.key));
    ASSIGN_OR_RETURN(state, ReadState());
  }
  // False: one of the keys, or this session's, is gone. The next try sees which.
  ASSIGN_OR_RETURN(const bool removed, RemoveTargets(node, state, work));
  if (!removed) return false;
  ASSIGN_OR_RETURN(state, ReadState());
  const auto hit = [&](uint64_t key) { return work.Hits(node, key); };
  if (!Contains(state.keys, work.key) || std::ranges::any_of(state.keys, hit)) return false;
  const bool holds = state.held.key == work.key;
  if (!holds && IsGuard(state.held.key)) return false;  // another fence has it
  // A node that writes alone has ended all older commands itself.
  const bool stays = holds || state.held.type == TypeFor(true);
  // An earlier fence may have died between PREEMPT and its reset.
  if (stays && (work.unfinished || work.removed.empty())) RETURN_IF_ERROR(EndCommands(work.key));
  const uint64_t last = stays ? FinishedKey(work.key) : 0;
  // Not read anew: another fence may come meanwhile, and that one must make this ticket void.
  std::erase(state.keys, work.key);
  if (stays) state.keys.push_back(last);
  if (holds) state.held.key = last;
  work.ticket = Ticket(state);
  return Change(work.key, last);
}

StatusOr<Reservations::Fenced> Reservations::Fence(
    const std::string& node, const std::optional<std::vector<uint64_t>>& keys) {
  const NodeKeys node_keys(owner_, node);
  FenceWork work{.wanted = keys, .removed = {}, .ticket = {}};
  for (int i = 0; i < kMostRounds; ++i) {
    ASSIGN_OR_RETURN(const bool fenced, TryFence(node_keys, work));
    if (fenced) return Fenced{.keys = std::move(work.removed), .ticket = std::move(work.ticket)};
  }
  return KeepsChanging();
}

StatusOr<bool> Reservations::Claim(bool recorded) {
  ASSIGN_OR_RETURN(const State state, ReadState());
  const Reservation& held = state.held;
  const bool guarded = IsGuard(held.key);
  if (held.type != ReservationType::kNone) {
    if (guarded && recorded) return false;
    return Error(guarded ? StatusCode::kAlreadyExists : StatusCode::kFailedPrecondition,
                 "the LUN is reserved for {}: {} of key {:#018x}",
                 guarded ? "another volume" : "somebody else", TypeName(held.type), held.key);
  }
  claimed_ = FinishedKey(guard_.MakeNew(state.keys));
  RETURN_IF_ERROR(Register(claimed_));
  ASSIGN_OR_RETURN(const bool reserved, Reserve(claimed_, TypeFor(false)));
  if (reserved) return true;
  if (const Status left = Unclaim(); !left.ok()) LOG_WARNING("{}", base::ToString(left));
  return Error(StatusCode::kFailedPrecondition,
               "somebody else has reserved the LUN at the same time");
}

Status Reservations::Unclaim() { return Change(claimed_, 0).status(); }

Status Reservations::Clear(uint64_t key) {
  ASSIGN_OR_RETURN(const bool cleared, Out(PrOut::kClear, ReservationType::kNone, key, 0,
                                           "clear the persistent reservation"));
  if (!cleared) return FencedError();
  return base::OkStatus();
}

}  // namespace berth::iscsi
