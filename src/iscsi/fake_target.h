// A logical unit in memory with persistent reservations as SPC-4 says, for tests. Each session is a
// FakeUnit.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "iscsi/logical_unit.h"

namespace berth::iscsi {

struct FakeTarget {
  struct Registrant {
    int session;
    uint64_t key;
  };
  bool has_reservations = true;
  bool can_abort = true;  // knows PREEMPT AND ABORT
  std::string vendor = "FAKE";
  uint32_t generation = 0;
  std::vector<Registrant> registrants;
  std::optional<int> holder;  // the session
  ReservationType type = ReservationType::kNone;
  std::set<int> running;  // sessions with a write that the target has begun
  base::Status reset;     // what a reset of the unit gives
  int resets = 0;
  std::function<void(const Command&)> before;  // runs before each command
  // Whether the answer to that command is lost, although it was run.
  std::function<bool(const Command&)> loses_answer;

  Registrant* Find(int session) {
    const auto at = std::ranges::find(registrants, session, &Registrant::session);
    return at == registrants.end() ? nullptr : &*at;
  }
  bool HasKey(uint64_t key) const {
    return std::ranges::find(registrants, key, &Registrant::key) != registrants.end();
  }
  uint64_t HolderKey() { return holder ? Find(*holder)->key : 0; }
  void Remove(int session) {
    std::erase_if(registrants, [&](const Registrant& one) { return one.session == session; });
    if (holder == session) {
      holder.reset();
      type = ReservationType::kNone;
    }
  }
  // Whether the target lets the session write now.
  bool MayWrite(int session) {
    if (!holder || holder == session) return true;
    return type == ReservationType::kWriteExclusiveRegistrantsOnly && Find(session) != nullptr;
  }
  // As a power cycle without APTPL.
  void LoseAll() {
    registrants.clear();
    holder.reset();
    type = ReservationType::kNone;
  }
};

class FakeUnit : public LogicalUnit {
 public:
  FakeUnit(FakeTarget& target, int session) : target_(target), session_(session) {}

  Answer Run(const Command& command) override {
    if (const auto before = target_.before) before(command);
    const Answer answer = Handle(command);
    if (const auto loses = target_.loses_answer; loses && loses(command)) return Answer{};
    return answer;
  }
  base::Status Reset() override {
    ++target_.resets;
    if (target_.reset.ok()) target_.running.clear();
    return target_.reset;
  }

 private:
  Answer Handle(const Command& command) {
    if (command.cdb[0] == 0x12) return Inquiry(command);
    if (command.cdb[0] == 0x5e) return In(command);
    if (command.cdb[0] == 0x5f) return Out(command);
    return {.outcome = Answer::Outcome::kOther};
  }
  static Answer Illegal(uint16_t code) {
    return {.outcome = Answer::Outcome::kCheckCondition,
            .sense_key = kSenseIllegalRequest,
            .sense_code = code};
  }
  static constexpr Answer kConflict{.outcome = Answer::Outcome::kConflict};
  static constexpr Answer kGood{.outcome = Answer::Outcome::kGood};

  static void Put(std::vector<uint8_t>& data, uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; --i) data.push_back(static_cast<uint8_t>(value >> (8 * i)));
  }
  static uint64_t Get(std::span<const uint8_t> data) {
    uint64_t value = 0;
    for (size_t i = 0; i < 8; ++i) value = value << 8 | data[i];
    return value;
  }

  Answer Inquiry(const Command& command) {
    std::string data(8, '\0');
    data += target_.vendor;
    data.resize(36, ' ');
    std::ranges::copy(data, command.in.begin());
    return {.outcome = Answer::Outcome::kGood, .bytes = data.size()};
  }

  Answer In(const Command& command) {
    if (!target_.has_reservations) return Illegal(0x2000);
    std::vector<uint8_t> data;
    Put(data, target_.generation, 4);
    switch (static_cast<PrIn>(command.cdb[1])) {
      case PrIn::kReadKeys:
        Put(data, target_.registrants.size() * 8, 4);
        for (const auto& one : target_.registrants) Put(data, one.key, 8);
        break;
      case PrIn::kReadReservation:
        Put(data, target_.holder ? 16 : 0, 4);
        if (target_.holder) {
          Put(data, target_.HolderKey(), 8);
          Put(data, 0, 5);
          Put(data, static_cast<uint8_t>(target_.type), 1);
          Put(data, 0, 2);
        }
        break;
      default:
        return Illegal(0x2400);
    }
    const size_t bytes = std::min(data.size(), command.in.size());
    std::copy_n(data.begin(), bytes, command.in.begin());
    return {.outcome = Answer::Outcome::kGood, .bytes = bytes};
  }

  Answer Out(const Command& command) {
    if (!target_.has_reservations) return Illegal(0x2000);
    const uint64_t key = Get(command.out);
    const uint64_t action_key = Get(command.out.subspan(8));
    auto* own = target_.Find(session_);
    const auto action = static_cast<PrOut>(command.cdb[1]);
    const auto type = static_cast<ReservationType>(command.cdb[2] & 0x0f);
    if (action == PrOut::kRegister || action == PrOut::kRegisterAndIgnoreExistingKey) {
      if (action == PrOut::kRegister && (own != nullptr ? own->key : 0) != key) return kConflict;
      if (action_key == 0) {
        target_.Remove(session_);
      } else if (own != nullptr) {
        own->key = action_key;
      } else {
        target_.registrants.push_back({.session = session_, .key = action_key});
      }
      ++target_.generation;
      return kGood;
    }
    if (action == PrOut::kPreemptAndAbort && !target_.can_abort) return Illegal(0x2400);
    if (own == nullptr || own->key != key) return kConflict;
    if (action == PrOut::kReserve) {
      if (target_.holder && target_.holder != session_) return kConflict;
      if (target_.holder && target_.type != type) return kConflict;
      target_.holder = session_;
      target_.type = type;
      return kGood;
    }
    if (action != PrOut::kPreempt && action != PrOut::kPreemptAndAbort) return Illegal(0x2400);
    if (!target_.HasKey(action_key)) return kConflict;
    const bool takes = target_.holder && target_.HolderKey() == action_key;
    for (const auto& one : std::vector(target_.registrants)) {
      if (one.key != action_key || one.session == session_) continue;
      if (action == PrOut::kPreemptAndAbort) target_.running.erase(one.session);
      target_.Remove(one.session);
    }
    if (takes) {
      target_.holder = session_;
      target_.type = type;
    }
    ++target_.generation;
    return kGood;
  }

  FakeTarget& target_;
  const int session_;
};

}  // namespace berth::iscsi
