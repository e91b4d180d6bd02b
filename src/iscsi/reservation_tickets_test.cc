// A fence stays: neither what the node began before it, nor a fence that died half way, nor a lost
// answer lets the node write again, or fences one that nobody meant.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/assert_ok.h"
#include "iscsi/reservations_fixture.h"

namespace berth::iscsi {
namespace {

using base::StatusCode;
using testing::IsEmpty;
using testing::SizeIs;

class TicketsTest : public ReservationsTest {};
INSTANTIATE_TEST_SUITE_P(AbortsAtThePreemptOrByAReset, TicketsTest, testing::Bool());

TEST_P(TicketsTest, TheNextProcessOfAFencedNodeDoesNotTakeTheLunBack) {
  const std::string before = a_.Ticket();
  ASSERT_OK(a_.reservations.Acquire("a", false, before));
  const std::string during = a_.Ticket();
  ASSERT_OK(fencer_.reservations.Fence("a"));
  Client next(target_, 5);
  for (const std::string& ticket : {before, during}) {
    EXPECT_EQ(next.reservations.Acquire("a", false, ticket).status().code(), StatusCode::kAborted);
  }
  EXPECT_EQ(target_.Find(5), nullptr);
  EXPECT_TRUE(GuardKeys(kOwner).Has(target_.HolderKey()));
}

TEST_P(TicketsTest, ANodeThatBeganBeforeAFenceOfNobodyDoesNotGetTheLun) {
  const auto key = a_.Acquire("a", false);
  ASSERT_OK(key);
  ASSERT_OK(a_.reservations.Release(*key));
  const std::string ticket = a_.Ticket();  // and then node a is frozen
  const auto fenced = fencer_.reservations.Fence("a", std::vector<uint64_t>());
  ASSERT_OK(fenced);
  EXPECT_EQ(a_.reservations.Acquire("a", false, ticket).status().code(), StatusCode::kAborted);
  ASSERT_OK(b_.reservations.Acquire("b", false, fenced->ticket));
}

TEST_P(TicketsTest, ANodeThatBeganBeforeAFenceDoesNotJoinThoseThatShare) {
  ASSERT_OK(b_.Acquire("b", true));
  const std::string ticket = a_.Ticket();
  ASSERT_OK(fencer_.reservations.Fence("a"));
  EXPECT_EQ(a_.reservations.Acquire("a", true, ticket).status().code(), StatusCode::kAborted);
  EXPECT_FALSE(target_.MayWrite(kA));
  EXPECT_TRUE(target_.MayWrite(kB));
  Client c(target_, 8);
  ASSERT_OK(c.Acquire("c", true));
}

TEST_P(TicketsTest, ATicketIsVoidOnceAnotherNodeHadTheLun) {
  const std::string ticket = a_.Ticket();
  const auto key = b_.Acquire("b", false);
  ASSERT_OK(key);
  ASSERT_OK(b_.reservations.Release(*key));
  EXPECT_EQ(a_.reservations.Acquire("a", false, ticket).status().code(), StatusCode::kAborted);
}

TEST_P(TicketsTest, NodesThatJoinDoNotVoidEachOthersTickets) {
  ASSERT_OK(a_.Acquire("a", true));
  const std::string ticket = a_.Ticket();
  ASSERT_OK(b_.reservations.Acquire("b", true, ticket));
  Client c(target_, 8);
  ASSERT_OK(c.reservations.Acquire("c", true, ticket));
}

TEST_P(TicketsTest, AKilledProcessIsFollowedByTheNextOneWithoutATicket) {
  for (const bool shared : {false, true}) {
    target_ = FakeTarget{.can_abort = GetParam()};
    const std::string ticket = a_.Ticket();
    ASSERT_OK(a_.reservations.Acquire("a", shared, ticket));
    Client next(target_, 5);
    ASSERT_OK(next.reservations.Acquire("a", shared, "an old one"));
    EXPECT_THAT(target_.registrants, SizeIs(1));
  }
}

TEST_P(TicketsTest, TwoLateStartsOfAFencedNodeDoNotVouchForEachOther) {
  for (const bool shared : {false, true}) {
    target_ = FakeTarget{.can_abort = GetParam()};
    ASSERT_OK(a_.Acquire("a", shared));
    ASSERT_OK(fencer_.reservations.Fence("a"));
    Client one(target_, 5), two(target_, 6);
    bool came = false;
    target_.before = [&](const Command&) {
      if (came || target_.Find(5) == nullptr) return;
      came = true;  // the first one is registered, and has not looked yet
      EXPECT_EQ(two.reservations.Acquire("a", shared, "old").status().code(), StatusCode::kAborted);
    };
    EXPECT_EQ(one.reservations.Acquire("a", shared, "old").status().code(), StatusCode::kAborted);
    EXPECT_TRUE(came);
    EXPECT_FALSE(target_.MayWrite(5) || target_.MayWrite(6));
  }
}

TEST_P(TicketsTest, AFenceThatComesBetweenTheLookAndTheRegistrationOfAJoinerWins) {
  ASSERT_OK(b_.Acquire("b", true));
  int commands = 0;
  for (int at = 0; at < 12; ++at) {
    Client late(target_, 20 + at), fencer(target_, 50 + at);
    const std::string now = late.Ticket();
    commands = 0;
    target_.before = [&](const Command&) {
      if (commands++ != at) return;
      ASSERT_OK(fencer.reservations.Fence("a"));
    };
    const auto acquired = late.reservations.Acquire("a", true, now);
    target_.before = nullptr;
    // If the fence came after the end, the node is a member, and another fence removes it.
    if (acquired.ok()) ASSERT_OK(fencer.reservations.Fence("a"));
    EXPECT_FALSE(target_.MayWrite(20 + at)) << at;
  }
}

TEST_P(TicketsTest, AFenceOfSomeKeysHitsTheirProcessesAlone) {
  const auto old = a_.Acquire("a", true);
  ASSERT_OK(old);
  const auto state = *fencer_.reservations.ReadState();
  const std::vector<uint64_t> listed = fencer_.reservations.FindTargets(state, "a");
  EXPECT_THAT(listed, SizeIs(1));
  // The process logs in anew, and has another key.
  Client anew(target_, 5);
  const auto resumed = anew.Resume("a", *old, true);
  ASSERT_OK(resumed);
  EXPECT_NE(*resumed, *old);
  const auto fenced = fencer_.reservations.Fence("a", listed);
  ASSERT_OK(fenced);
  EXPECT_THAT(fenced->keys, testing::ElementsAre(*resumed));
  // A process that the node begins by right after that is another one.
  Client next(target_, 6);
  ASSERT_OK(next.reservations.Acquire("a", true, fenced->ticket));
  const auto again = fencer_.reservations.Fence("a", listed);
  ASSERT_OK(again);
  EXPECT_THAT(again->keys, IsEmpty());
  EXPECT_TRUE(target_.MayWrite(6));
}

TEST_P(TicketsTest, TheTicketOfAFenceIsVoidAfterTheNextFence) {
  ASSERT_OK(a_.Acquire("a", false));
  const auto first = fencer_.reservations.Fence("a");
  ASSERT_OK(first);
  Client other(target_, 7);
  ASSERT_OK(other.reservations.Fence("b"));
  EXPECT_EQ(b_.reservations.Acquire("b", false, first->ticket).status().code(),
            StatusCode::kAborted);
}

TEST_P(TicketsTest, AFenceThatDiedHalfWayIsCompletedOnSharedVolumes) {
  for (const bool joins : {false, true}) {
    target_ = FakeTarget{.can_abort = false};
    ASSERT_OK(a_.Acquire("a", true));
    ASSERT_OK(b_.Acquire("b", true));
    target_.running.insert(kA);
    target_.reset = base::Error(StatusCode::kUnavailable, "the fence died here");
    Client died(target_, 7), next(target_, 8);
    EXPECT_FALSE(died.reservations.Fence("a").ok());
    ASSERT_FALSE(target_.MayWrite(kA));
    ASSERT_THAT(target_.running, SizeIs(1));
    target_.reset = base::OkStatus();
    if (joins) {
      ASSERT_OK(next.Acquire("c", true));
    } else {
      const auto listed = next.reservations.FindTargets(*next.reservations.ReadState(), "a");
      EXPECT_THAT(listed, SizeIs(1)) << "nobody would call the fence again";
      ASSERT_OK(next.reservations.Fence("a", listed));
    }
    EXPECT_THAT(target_.running, IsEmpty());
    const auto rest = next.reservations.FindTargets(*next.reservations.ReadState(), "a");
    EXPECT_THAT(rest, IsEmpty());
    EXPECT_TRUE(target_.MayWrite(kB));
  }
}

TEST_P(TicketsTest, AFenceThatCannotEndCommandsFails) {
  target_.reset = base::Error(StatusCode::kUnimplemented, "no such function");
  const auto fenced = fencer_.reservations.Fence("a");
  if (GetParam()) {
    ASSERT_OK(fenced);
  } else {
    EXPECT_EQ(fenced.status().code(), StatusCode::kUnimplemented);
  }
}

TEST_P(TicketsTest, ASingleWriterNeedsATargetThatEndsTheCommandsOfOthers) {
  target_.reset = base::Error(StatusCode::kUnimplemented, "no such function");
  const auto acquired = a_.Acquire("a", false);
  if (GetParam()) {
    ASSERT_OK(acquired);
  } else {
    EXPECT_EQ(acquired.status().code(), StatusCode::kUnimplemented);
    EXPECT_FALSE(target_.MayWrite(kStranger));
  }
}

TEST_P(TicketsTest, AFenceOfALeftoverDoesNotDisturbTheWriter) {
  ASSERT_OK(b_.Acquire("b", false));
  // A start that was killed before it looked.
  target_.registrants.push_back({.session = 5, .key = NodeKeys(kOwner, "a").MakeNew({})});
  const int resets = target_.resets;
  const auto fenced = fencer_.reservations.Fence("a");
  ASSERT_OK(fenced);
  EXPECT_THAT(fenced->keys, SizeIs(1));
  EXPECT_EQ(target_.resets, resets);
  EXPECT_THAT(target_.registrants, SizeIs(1));
  EXPECT_TRUE(target_.MayWrite(kB));
}

// Loses the answer to the command of that number of a Resume on a new session, whose connection
// ends with it. The next session goes on.
TEST_P(TicketsTest, ALostAnswerWhileASessionIsMadeAnewFencesNobody) {
  for (const bool shared : {false, true}) {
    for (const bool same_nexus : {false, true}) {
      for (int lost = 0; lost < 12; ++lost) {
        target_ = FakeTarget{.can_abort = GetParam()};
        const auto key = a_.Acquire("a", shared);
        ASSERT_OK(key);
        Registered own{.key = *key, .next = 0, .guards = {}};
        Client broken(target_, 6), next(target_, same_nexus ? 6 : 7);
        int command = 0;
        target_.loses_answer = [&](const Command&) { return command++ >= lost; };
        const auto first = broken.reservations.Resume("a", own, shared);
        target_.loses_answer = nullptr;
        if (!first.ok()) EXPECT_EQ(first.code(), StatusCode::kUnavailable) << lost;
        SCOPED_TRACE(fmt::format("answer {}, shared {}, same {}", lost, shared, same_nexus));
        ASSERT_OK(next.reservations.Resume("a", own, shared));
        EXPECT_TRUE(target_.MayWrite(same_nexus ? 6 : 7));
        EXPECT_TRUE(target_.HasKey(own.key));
        ASSERT_OK(fencer_.reservations.Fence("a"));
        EXPECT_FALSE(target_.MayWrite(6) || target_.MayWrite(7));
      }
    }
  }
}

TEST_P(TicketsTest, AFenceAfterALostAnswerStillHolds) {
  for (const bool shared : {false, true}) {
    for (int lost = 0; lost < 12; ++lost) {
      target_ = FakeTarget{.can_abort = GetParam()};
      const auto key = a_.Acquire("a", shared);
      ASSERT_OK(key);
      if (shared) ASSERT_OK(b_.Acquire("b", true));
      Registered own{.key = *key, .next = 0, .guards = {}};
      Client broken(target_, 6), next(target_, 7), fencer(target_, 8);
      const auto listed = fencer.reservations.FindTargets(*fencer.reservations.ReadState(), "a");
      int command = 0;
      bool fenced = false;
      target_.loses_answer = [&](const Command&) { return !fenced && command++ >= lost; };
      target_.before = [&](const Command&) {
        if (fenced || command != lost) return;
        fenced = true;
        ASSERT_OK(fencer.reservations.Fence("a", listed));
        fenced = false;
        command = lost + 1;
      };
      const auto first = broken.reservations.Resume("a", own, shared);
      target_.loses_answer = nullptr;
      target_.before = nullptr;
      if (command <= lost) continue;  // it was over before
      EXPECT_EQ(next.reservations.Resume("a", own, shared).code(), StatusCode::kFailedPrecondition)
          << lost << shared;
      EXPECT_FALSE(target_.MayWrite(7)) << lost << shared;
    }
  }
}

}  // namespace
}  // namespace berth::iscsi
