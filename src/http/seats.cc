#include "http/seats.h"

#include <algorithm>

namespace berth::http {

namespace {
// An address with fewer seats has few of them (SeatLimits::kept_for_few).
constexpr size_t kFew = 2;
}  // namespace

SeatLimits SeatLimits::FitTo(size_t most) const {
  if (most >= total) return *this;
  SeatLimits out = *this;
  const auto scale = [&](size_t one) {
    return one == 0 ? 0 : std::max<size_t>(one * most / total, 1);
  };
  out.total = most;
  out.owner_reserve = scale(owner_reserve);
  out.max_strangers = scale(max_strangers);
  out.kept_for_few = scale(kept_for_few);
  out.max_per_address = scale(max_per_address);
  out.max_per_user = scale(max_per_user);
  return out;
}

const std::string& Seat::key() const {
  static const std::string none;
  return group_ == nullptr ? none : group_->first.second;
}

size_t SeatTable::MaxVerified() const {
  const size_t others = limits_.owner_reserve + limits_.max_strangers;
  return limits_.total > others ? limits_.total - others : 0;
}

size_t SeatTable::BudgetOf(ClientClass one) const {
  switch (one) {
    case ClientClass::kOwner:
      return limits_.memory.owners;
    case ClientClass::kVerified:
      return limits_.memory.verified;
    case ClientClass::kStranger:
      return limits_.memory.strangers;
  }
  return 0;
}

Seat::Group* SeatTable::FindGroup(ClientClass client_class, const std::string& key) {
  const auto found = groups_.find({client_class, key});
  return found == groups_.end() ? nullptr : &found->second;
}

Seat* SeatTable::FindSpare(auto& silent, Time now) const {
  if (silent.empty() || now - silent.front().since_ < limits_.spare) return nullptr;
  return &silent.front();
}

SeatTable::Offer SeatTable::OfferSeat(ClientClass client_class, const std::string& key, Time now) {
  if (client_class == ClientClass::kVerified) {
    return total_ < limits_.total ? OfferPromotion(key, now) : Offer{};
  }
  auto& strangers = Of(ClientClass::kStranger).silent;
  Seat* const silent = strangers.empty() ? nullptr : &strangers.front();
  if (client_class == ClientClass::kOwner) {
    if (total_ < limits_.total) return {.granted = true};
    if (silent != nullptr) return MakeOffer(silent);
    Seat* const verified = FindSpare(Of(ClientClass::kVerified).silent, now);
    return MakeOffer(verified != nullptr ? verified
                                         : FindSpare(Of(ClientClass::kOwner).silent, now));
  }
  Seat::Group* const address = FindGroup(client_class, key);
  const size_t kept = address != nullptr && address->seats >= kFew ? limits_.kept_for_few : 0;
  if (address != nullptr &&
      (address->seats >= limits_.max_per_address ||
       (kept > 0 && size(ClientClass::kStranger) + kept >= limits_.max_strangers))) {
    return MakeOffer(address->silent.empty() ? nullptr : &address->silent.front());
  }
  const bool full =
      size(ClientClass::kStranger) >= limits_.max_strangers || total_ >= limits_.total;
  return full ? MakeOffer(silent) : Offer{.granted = true};
}

SeatTable::Offer SeatTable::OfferPromotion(const std::string& user, Time now) {
  Seat::Group* const own = FindGroup(ClientClass::kVerified, user);
  if (own != nullptr && own->seats >= limits_.max_per_user) {
    return MakeOffer(FindSpare(own->silent, now));
  }
  Class& verified = Of(ClientClass::kVerified);
  if (verified.seats >= MaxVerified()) return MakeOffer(FindSpare(verified.silent, now));
  return {.granted = true};
}

void SeatTable::AddSeat(Seat& seat, ClientClass client_class, const std::string& key, Stage stage,
                        Time now) {
  const auto group = groups_.try_emplace({client_class, key}).first;
  seat.class_ = client_class;
  seat.stage_ = stage;
  seat.since_ = now;
  seat.group_ = &*group;
  seat.memory_ = 0;
  ++group->second.seats;
  ++Of(client_class).seats;
  ++total_;
  if (IsSilent(seat)) ListSilent(seat);
}

void SeatTable::RemoveSeat(Seat& seat) {
  if (seat.group_ == nullptr) return;
  SetMemory(seat, 0);
  seat.class_hook_.unlink();
  seat.group_hook_.unlink();
  --Of(seat.class_).seats;
  --total_;
  if (--seat.group_->second.seats == 0) groups_.erase(seat.group_->first);
  seat.group_ = nullptr;
}

void SeatTable::Promote(Seat& seat, const std::string& user, Time now) {
  const Stage stage = seat.stage_;
  const size_t memory = seat.memory_;
  RemoveSeat(seat);
  AddSeat(seat, ClientClass::kVerified, user, stage, now);
  // What it already holds moves along, even beyond the budget.
  seat.memory_ = memory;
  seat.group_->second.memory += memory;
  Of(ClientClass::kVerified).memory += memory;
}

void SeatTable::SetStage(Seat& seat, Stage stage, Time now) {
  if (seat.group_ == nullptr || seat.stage_ == stage) return;
  const bool was_silent = IsSilent(seat);
  seat.stage_ = stage;
  if (IsSilent(seat) == was_silent) return;
  if (was_silent) {
    seat.class_hook_.unlink();
    seat.group_hook_.unlink();
  } else {
    seat.since_ = now;
    ListSilent(seat);
  }
}

bool SeatTable::SetMemory(Seat& seat, size_t bytes) {
  if (seat.group_ == nullptr) return bytes == 0;
  Class& all = Of(seat.class_);
  Seat::Group& group = seat.group_->second;
  if (bytes > seat.memory_) {
    const size_t more = bytes - seat.memory_;
    const size_t budget = BudgetOf(seat.class_);
    if (all.memory + more > budget) return false;
    if (seat.class_ != ClientClass::kOwner && group.memory + more > budget / 2) return false;
  }
  all.memory = all.memory - seat.memory_ + bytes;
  group.memory = group.memory - seat.memory_ + bytes;
  seat.memory_ = bytes;
  return true;
}

Seat* SeatTable::FindMemoryHolder(const Seat& seat, size_t bytes) {
  const size_t most = limits_.memory.strangers / 2;
  if (seat.class_ != ClientClass::kStranger || seat.group_ == nullptr || bytes > most) {
    return nullptr;
  }
  const auto find = [&](auto& silent) -> Seat* {
    const auto holder = std::find_if(silent.begin(), silent.end(), [&](const Seat& one) {
      return &one != &seat && one.memory_ > 0;
    });
    return holder == silent.end() ? nullptr : &*holder;
  };
  Seat::Group& own = seat.group_->second;
  const bool own_full = own.memory - seat.memory_ + bytes > most;
  return own_full ? find(own.silent) : find(Of(ClientClass::kStranger).silent);
}

size_t SeatTable::CountSeats(ClientClass client_class, const std::string& key) const {
  const auto found = groups_.find({client_class, key});
  return found == groups_.end() ? 0 : found->second.seats;
}

size_t SeatTable::memory() const {
  size_t sum = 0;
  for (const Class& one : classes_) sum += one.memory;
  return sum;
}

bool SeatTable::IsSilent(const Seat& seat) {
  if (seat.class_ == ClientClass::kStranger) return seat.stage_ != Stage::kWorking;
  return seat.stage_ == Stage::kWaiting;
}

void SeatTable::ListSilent(Seat& seat) {
  Of(seat.class_).silent.push_back(seat);
  seat.group_->second.silent.push_back(seat);
}

}  // namespace berth::http
