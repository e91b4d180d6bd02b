// Who keeps a seat, and who loses it: the policy alone, with a clock of its own.

#include "http/seats.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>

namespace berth::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Stage = Seat::Stage;

struct TestSeat : Seat {};

class SeatsTest : public testing::Test {
 protected:
  // 10 seats: 2 for owners alone, 4 for strangers (3 an address), 4 for verified clients (3 a
  // user).
  static constexpr SeatLimits kLimits{.total = 10,
                                      .owner_reserve = 2,
                                      .max_strangers = 4,
                                      .max_per_address = 3,
                                      .max_per_user = 3,
                                      .memory = {.owners = 100, .verified = 100, .strangers = 100},
                                      .spare = seconds(5)};

  SeatTable::Offer Ask(ClientClass client, const std::string& key) {
    return table_.OfferSeat(client, key, now_);
  }
  // Adds a client that has a place without a displacement.
  TestSeat* Add(ClientClass client, const std::string& key, Stage stage = Stage::kWaiting) {
    const auto offer = Ask(client, key);
    EXPECT_TRUE(offer.granted);
    EXPECT_EQ(offer.displaced, nullptr);
    TestSeat* const seat = seats_.emplace_back(std::make_unique<TestSeat>()).get();
    table_.AddSeat(*seat, client, key, stage, now_);
    now_ += milliseconds(1);
    return seat;
  }
  TestSeat* Stranger(const std::string& address, Stage stage = Stage::kWaiting) {
    return Add(ClientClass::kStranger, address, stage);
  }
  TestSeat* Owner(Stage stage = Stage::kWaiting) { return Add(ClientClass::kOwner, "0", stage); }
  TestSeat* Verified(const std::string& user, Stage stage = Stage::kWaiting) {
    TestSeat* const seat = Stranger(user, stage);
    const auto offer = table_.OfferPromotion(user, now_);
    EXPECT_TRUE(offer.granted);
    EXPECT_EQ(offer.displaced, nullptr);
    table_.Promote(*seat, user, now_);
    return seat;
  }

  Seat::Time now_{};
  std::deque<std::unique_ptr<TestSeat>> seats_;
  SeatTable table_{kLimits};

  void TearDown() override {
    for (const auto& seat : seats_) table_.RemoveSeat(*seat);
    EXPECT_EQ(table_.size(), 0u);
    EXPECT_EQ(table_.memory(), 0u);
  }
};

TEST_F(SeatsTest, StrangersTakeOneAnothersSeatsTheLongestSilentFirst) {
  TestSeat* const first = Stranger("a", Stage::kPartial);
  TestSeat* const second = Stranger("a");
  Stranger("b");
  Stranger("b");
  auto offer = Ask(ClientClass::kStranger, "c");
  EXPECT_TRUE(offer.granted);
  EXPECT_EQ(offer.displaced, first);
  // Single bytes don't renew a silence, but a completed request does.
  table_.SetStage(*first, Stage::kWaiting, now_);
  table_.SetStage(*first, Stage::kPartial, now_);
  EXPECT_EQ(Ask(ClientClass::kStranger, "c").displaced, first);
  table_.SetStage(*first, Stage::kWorking, now_);
  EXPECT_EQ(Ask(ClientClass::kStranger, "c").displaced, second);
  table_.SetStage(*first, Stage::kWaiting, now_);
  EXPECT_EQ(Ask(ClientClass::kStranger, "c").displaced, second);
}

TEST_F(SeatsTest, AnAddressWithTooManyLosesItsOwn) {
  Stranger("other");
  TestSeat* const own = Stranger("a");
  Stranger("a");
  Stranger("a");
  EXPECT_EQ(Ask(ClientClass::kStranger, "a").displaced, own);
}

TEST(FewSeatsTest, AnAddressWithFewFindsASeatThatOthersLeave) {
  SeatTable table({.total = 8, .owner_reserve = 0, .max_strangers = 8, .kept_for_few = 4});
  std::deque<TestSeat> seats;
  const auto add = [&](const char* address) {
    const auto offer = table.OfferSeat(ClientClass::kStranger, address, {});
    if (!offer.granted || offer.displaced != nullptr) return false;
    table.AddSeat(seats.emplace_back(), ClientClass::kStranger, address, Stage::kWorking, {});
    return true;
  };
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(add("a"));
  EXPECT_FALSE(add("a"));
  // Others that come have two each, whatever it does.
  EXPECT_TRUE(add("b"));
  EXPECT_TRUE(add("b"));
  EXPECT_FALSE(add("b"));
  EXPECT_TRUE(add("c"));
  // It may displace only its own silent client, and not one that has just come.
  table.SetStage(seats.back(), Stage::kWaiting, {});
  EXPECT_FALSE(table.OfferSeat(ClientClass::kStranger, "a", {}).granted);
  table.SetStage(seats.front(), Stage::kWaiting, {});
  EXPECT_EQ(table.OfferSeat(ClientClass::kStranger, "a", {}).displaced, &seats.front());
  for (TestSeat& seat : seats) table.RemoveSeat(seat);
}

TEST_F(SeatsTest, NobodyLosesTheSeatWhileTheServerWorksForHim) {
  for (const char* address : {"a", "b", "c", "d"}) Stranger(address, Stage::kWorking);
  EXPECT_FALSE(Ask(ClientClass::kStranger, "e").granted);
  // That is no harm to others.
  Owner();
  EXPECT_EQ(table_.size(), 5u);
}

TEST_F(SeatsTest, StrangersLeaveTheSeatsOfOthersFree) {
  for (const char* address : {"a", "b", "c", "d"}) Stranger(address);
  const auto promotion = table_.OfferPromotion("ann", now_);
  EXPECT_TRUE(promotion.granted && promotion.displaced == nullptr);
  for (int i = 0; i < 6; ++i) Owner();
}

TEST_F(SeatsTest, VerifiedClientsLeaveSeatsToStrangersAndOwners) {
  TestSeat* const first = Verified("ann");
  for (const char* user : {"ann", "bob", "bob"}) Verified(user);
  // Nobody has waited for long, so the next one has no seat.
  EXPECT_FALSE(table_.OfferPromotion("eve", now_).granted);
  for (const char* address : {"a", "b", "c", "d"}) Stranger(address);
  Owner();
  Owner();
  EXPECT_EQ(table_.size(), 10u);
  now_ += seconds(5);
  EXPECT_EQ(table_.OfferPromotion("eve", now_).displaced, first);
}

TEST_F(SeatsTest, AUserWithTooManyLosesHisOwnOrGetsNone) {
  Verified("bob");
  now_ += seconds(5);
  TestSeat* const own = Verified("ann");
  Verified("ann");
  Verified("ann");
  EXPECT_FALSE(table_.OfferPromotion("ann", now_).granted);
  now_ += seconds(5);
  EXPECT_EQ(table_.OfferPromotion("ann", now_).displaced, own);
  table_.SetStage(*own, Stage::kPartial, now_);  // a verified client may send slowly
  EXPECT_NE(table_.OfferPromotion("ann", now_).displaced, own);
  EXPECT_TRUE(table_.OfferPromotion("bob", now_).granted);
}

TEST_F(SeatsTest, AnOwnerGetsTheSeatOfAStrangerFirst) {
  TestSeat* const idle = Verified("ann");
  TestSeat* const stranger = Stranger("a");
  for (int i = 0; i < 8; ++i) Owner();
  EXPECT_EQ(Ask(ClientClass::kOwner, "0").displaced, stranger);
  table_.SetStage(*stranger, Stage::kWorking, now_);
  EXPECT_FALSE(Ask(ClientClass::kOwner, "0").granted);
  now_ += seconds(5);
  EXPECT_EQ(Ask(ClientClass::kOwner, "0").displaced, idle);
  table_.SetStage(*idle, Stage::kWorking, now_);
  EXPECT_EQ(Ask(ClientClass::kOwner, "0").displaced, seats_[2].get());  // the first owner
}

TEST_F(SeatsTest, EachClassHasItsOwnMemory) {
  TestSeat* const stranger = Stranger("a", Stage::kPartial);
  EXPECT_TRUE(table_.SetMemory(*stranger, 50));
  EXPECT_FALSE(table_.SetMemory(*stranger, 51)) << "an address has half of it";
  TestSeat* const another = Stranger("b", Stage::kPartial);
  EXPECT_TRUE(table_.SetMemory(*another, 50));
  TestSeat* const third = Stranger("c", Stage::kPartial);
  EXPECT_FALSE(table_.SetMemory(*third, 1));
  EXPECT_EQ(table_.FindMemoryHolder(*third, 1), stranger);
  EXPECT_EQ(table_.FindMemoryHolder(*third, 51), nullptr) << "more than it can ever have";
  EXPECT_EQ(table_.FindMemoryHolder(*another, 60), nullptr);

  TestSeat* const owner = Owner();
  EXPECT_TRUE(table_.SetMemory(*owner, 100));
  EXPECT_FALSE(table_.SetMemory(*owner, 101));
  TestSeat* const user = Verified("ann");
  EXPECT_TRUE(table_.SetMemory(*user, 50));
  EXPECT_FALSE(table_.SetMemory(*user, 51)) << "a user has half of it";
  // What an end gives back is there for the next.
  table_.RemoveSeat(*stranger);
  EXPECT_TRUE(table_.SetMemory(*third, 50));
}

TEST_F(SeatsTest, MemoryGoesAlongWithAPromotion) {
  TestSeat* const seat = Stranger("a", Stage::kWorking);
  EXPECT_TRUE(table_.SetMemory(*seat, 40));
  table_.Promote(*seat, "ann", now_);
  EXPECT_EQ(seat->client_class(), ClientClass::kVerified);
  EXPECT_TRUE(table_.SetMemory(*seat, 50));
  EXPECT_EQ(table_.memory(), 50u);
  TestSeat* const stranger = Stranger("b");
  EXPECT_TRUE(table_.SetMemory(*stranger, 50));
}

TEST(SeatLimitsTest, ShrinkInProportion) {
  const SeatLimits fitted = SeatLimits{.total = 1000,
                                       .owner_reserve = 100,
                                       .max_strangers = 200,
                                       .max_per_address = 50,
                                       .max_per_user = 300}
                                .FitTo(10);
  EXPECT_EQ(fitted.total, 10u);
  EXPECT_EQ(fitted.owner_reserve, 1u);
  EXPECT_EQ(fitted.max_strangers, 2u);
  EXPECT_EQ(fitted.max_per_address, 1u);
  EXPECT_EQ(fitted.max_per_user, 3u);
  EXPECT_EQ(SeatLimits{.total = 7}.FitTo(100).total, 7u);
}

}  // namespace
}  // namespace berth::http
