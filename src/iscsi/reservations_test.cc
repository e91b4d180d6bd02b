#include "iscsi/reservations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/assert_ok.h"
#include "iscsi/reservations_fixture.h"

namespace berth::iscsi {
namespace {

using base::StatusCode;
using testing::IsEmpty;
using testing::SizeIs;

INSTANTIATE_TEST_SUITE_P(AbortsAtThePreemptOrByAReset, ReservationsTest, testing::Bool());

TEST_P(ReservationsTest, AWriterKeepsOthersOut) {
  ASSERT_OK(a_.Acquire("a", false));
  EXPECT_TRUE(target_.MayWrite(kA));
  EXPECT_FALSE(target_.MayWrite(kB));
  const auto refused = b_.Acquire("b", false);
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(target_.Find(kB), nullptr) << "a refused node stayed registered";
}

TEST_P(ReservationsTest, AReaderWaitsForTheEndOfAWriter) {
  ASSERT_OK(a_.Acquire("a", false));
  EXPECT_EQ(b_.Acquire("b", true).status().code(), StatusCode::kFailedPrecondition);
}

TEST_P(ReservationsTest, NodesThatShareAllWriteAndOneOfThemIsFencedAlone) {
  ASSERT_OK(a_.Acquire("a", true));
  ASSERT_OK(b_.Acquire("b", true));
  EXPECT_TRUE(target_.MayWrite(kA) && target_.MayWrite(kB));
  EXPECT_FALSE(target_.MayWrite(kStranger));
  ASSERT_OK(fencer_.reservations.Fence("a"));
  EXPECT_FALSE(target_.MayWrite(kA));
  EXPECT_TRUE(target_.MayWrite(kB));
}

TEST_P(ReservationsTest, AVolumeThatNobodyUsesCanBeWrittenByNobody) {
  const auto key = a_.Acquire("a", false);
  ASSERT_OK(key);
  ASSERT_OK(a_.reservations.Release(*key));
  EXPECT_TRUE(GuardKeys(kOwner).Has(target_.HolderKey()));
  EXPECT_FALSE(target_.MayWrite(kB) || target_.MayWrite(kStranger));
  ASSERT_OK(b_.Acquire("b", false));
  EXPECT_TRUE(target_.MayWrite(kB));
  EXPECT_FALSE(target_.MayWrite(kA));
  EXPECT_THAT(target_.registrants, SizeIs(1));
}

TEST_P(ReservationsTest, AFencedNodeCannotWriteAtAnyMomentUntilTheNextOneWrites) {
  ASSERT_OK(a_.Acquire("a", false));
  bool fenced = false;
  target_.before = [&](const Command&) { EXPECT_FALSE(fenced && target_.MayWrite(kA)); };
  ASSERT_OK(fencer_.reservations.Fence("a"));
  fenced = true;
  EXPECT_FALSE(target_.MayWrite(kA));
  const auto key = b_.Acquire("b", false);
  ASSERT_OK(key);
  ASSERT_OK(b_.reservations.Release(*key));
  EXPECT_FALSE(target_.MayWrite(kA));
}

TEST_P(ReservationsTest, AFenceEndsTheCommandsThatTheNodeHadBegun) {
  ASSERT_OK(a_.Acquire("a", false));
  target_.running.insert(kA);
  ASSERT_OK(fencer_.reservations.Fence("a"));
  EXPECT_THAT(target_.running, IsEmpty());
}

TEST_P(ReservationsTest, LinuxsTargetIsNotAskedToAbortBesideAReset) {
  target_.vendor = "LIO-ORG";
  target_.before = [](const Command& command) {
    EXPECT_FALSE(Calls(command, PrOut::kPreemptAndAbort));
  };
  ASSERT_OK(a_.Acquire("a", false));
  target_.running.insert(kA);
  ASSERT_OK(fencer_.reservations.Fence("a"));
  EXPECT_THAT(target_.running, IsEmpty());
  ASSERT_OK(b_.Acquire("b", false));
  Client next(target_, 4);
  ASSERT_OK(next.Acquire("b", false));
  EXPECT_FALSE(target_.MayWrite(kB));
}

TEST_P(ReservationsTest, AFenceThatDiedBeforeItsResetIsMadeUpForByTheNextUser) {
  target_.can_abort = false;
  ASSERT_OK(a_.Acquire("a", false));
  ASSERT_OK(fencer_.reservations.Fence("a"));
  target_.running.insert(kA);  // as if the reset had not come
  ASSERT_OK(b_.Acquire("b", false));
  EXPECT_THAT(target_.running, IsEmpty());
}

TEST_P(ReservationsTest, AUserThatFailsAfterItHasTheReservationGivesItBackToTheGuard) {
  ASSERT_OK(a_.Acquire("a", false));
  ASSERT_OK(fencer_.reservations.Fence("a"));
  target_.reset = base::Error(base::StatusCode::kFailedPrecondition, "rejected");
  EXPECT_FALSE(b_.Acquire("b", false).ok());
  EXPECT_TRUE(GuardKeys(kOwner).Has(target_.HolderKey()));
  EXPECT_FALSE(target_.MayWrite(kA) || target_.MayWrite(kStranger));
}

TEST_P(ReservationsTest, AFenceThatComesAgainLeavesTheNewcomerAlone) {
  ASSERT_OK(a_.Acquire("a", false));
  ASSERT_OK(fencer_.reservations.Fence("a"));
  const auto key = b_.Acquire("b", false);
  ASSERT_OK(key);
  Client again(target_, 4);
  const auto removed = again.reservations.Fence("a");
  ASSERT_OK(removed);
  EXPECT_THAT(removed->keys, IsEmpty());
  EXPECT_EQ(target_.HolderKey(), *key);
  EXPECT_THAT(target_.registrants, SizeIs(1)) << "the fence left its own registration";
}

TEST_P(ReservationsTest, ANewcomerThatIsFasterThanTheFencesLastStepsSurvives) {
  ASSERT_OK(a_.Acquire("a", false));
  const NodeKeys a(kOwner, "a");
  bool came = false;
  target_.before = [&](const Command&) {
    const bool gone =
        std::ranges::none_of(target_.registrants, [&](const auto& one) { return a.Has(one.key); });
    if (came || !gone) return;
    came = true;
    ASSERT_OK(b_.Acquire("b", false));
  };
  ASSERT_OK(fencer_.reservations.Fence("a"));
  EXPECT_TRUE(came);
  EXPECT_TRUE(target_.MayWrite(kB));
  EXPECT_EQ(target_.holder, kB);
  EXPECT_FALSE(target_.MayWrite(kA));
}

TEST_P(ReservationsTest, AFenceReservesALunThatHadNoReservation) {
  ASSERT_OK(fencer_.reservations.Fence("a"));
  EXPECT_FALSE(target_.MayWrite(kA));
  EXPECT_TRUE(GuardKeys(kOwner).Has(target_.HolderKey()));
  ASSERT_OK(fencer_.reservations.Fence("a"));
  EXPECT_THAT(target_.registrants, SizeIs(1));
}

TEST_P(ReservationsTest, TheSameNodesNextProcessTakesTheLunOver) {
  const auto old = a_.Acquire("a", false);
  ASSERT_OK(old);
  Client next(target_, 5);
  const auto key = next.Acquire("a", false);
  ASSERT_OK(key);
  EXPECT_NE(*key, *old);
  EXPECT_FALSE(target_.MayWrite(kA));
  EXPECT_EQ(a_.Resume("a", *old, false).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(target_.MayWrite(5));
}

TEST_P(ReservationsTest, ASessionOfTheSameNexusGoesOnWithItsKey) {
  const auto key = a_.Acquire("a", false);
  ASSERT_OK(key);
  const auto resumed = a_.Resume("a", *key, false);
  ASSERT_OK(resumed);
  EXPECT_EQ(*resumed, *key);
}

TEST_P(ReservationsTest, ASessionOfAnotherNexusTakesItsOwnPlace) {
  const auto key = a_.Acquire("a", false);
  ASSERT_OK(key);
  Client anew(target_, 6);
  const auto resumed = anew.Resume("a", *key, false);
  ASSERT_OK(resumed);
  EXPECT_TRUE(target_.MayWrite(6));
  EXPECT_FALSE(target_.MayWrite(kA));
  EXPECT_THAT(target_.registrants, SizeIs(1));
}

TEST_P(ReservationsTest, ASessionThatWasFencedNeverComesBack) {
  const auto key = a_.Acquire("a", false);
  ASSERT_OK(key);
  ASSERT_OK(fencer_.reservations.Fence("a"));
  Client anew(target_, 6);
  EXPECT_EQ(anew.Resume("a", *key, false).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(target_.Find(6), nullptr);
  EXPECT_EQ(a_.Resume("a", *key, false).status().code(), StatusCode::kFailedPrecondition);
}

TEST_P(ReservationsTest, AFenceAmidAResumeWins) {
  const auto key = a_.Acquire("a", false);
  ASSERT_OK(key);
  bool fenced = false;
  target_.before = [&](const Command& command) {
    const bool preempts =
        Calls(command, PrOut::kPreemptAndAbort) || Calls(command, PrOut::kPreempt);
    if (fenced || !preempts) return;
    fenced = true;  // after the new key was registered, before it took the old one's place
    ASSERT_OK(fencer_.reservations.Fence("a"));
  };
  Client anew(target_, 6);
  EXPECT_EQ(anew.Resume("a", *key, false).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fenced);
  EXPECT_FALSE(target_.MayWrite(6));
  EXPECT_TRUE(GuardKeys(kOwner).Has(target_.HolderKey()));
}

TEST_P(ReservationsTest, ATargetThatLostItsRegistrationsIsAFence) {
  const auto key = a_.Acquire("a", false);
  ASSERT_OK(key);
  target_.LoseAll();
  EXPECT_EQ(a_.Resume("a", *key, false).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(target_.registrants, IsEmpty());
}

TEST_P(ReservationsTest, ANodeOfThatNameInAnotherClusterIsAnotherNode) {
  ASSERT_OK(a_.Acquire("a", false));
  Client other(target_, 7, KeyOwner("cluster-2"));
  EXPECT_EQ(other.Acquire("a", false).status().code(), StatusCode::kFailedPrecondition);
  ASSERT_OK(other.reservations.Fence("a"));
  EXPECT_TRUE(target_.MayWrite(kA)) << "fenced by a node of another cluster";
}

TEST_P(ReservationsTest, AVolumeThatAnotherClusterKeepsIsNotTaken) {
  const auto key = a_.Acquire("a", false);
  ASSERT_OK(key);
  ASSERT_OK(a_.reservations.Release(*key));
  Client other(target_, 7, KeyOwner("cluster-2"));
  EXPECT_EQ(other.Acquire("b", false).status().code(), StatusCode::kFailedPrecondition);
}

TEST_P(ReservationsTest, AWriterDoesNotCutOffThoseThatShare) {
  ASSERT_OK(a_.Acquire("a", true));
  const auto b = b_.Acquire("b", true);
  ASSERT_OK(b);
  ASSERT_OK(fencer_.reservations.Fence("a"));  // the guard holds, and b still writes
  Client c(target_, 8);
  EXPECT_EQ(c.Acquire("c", false).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(target_.MayWrite(kB));
  ASSERT_OK(b_.reservations.Release(*b));
  ASSERT_OK(c.Acquire("c", false));
}

TEST_P(ReservationsTest, OfTwoThatClaimALunOneGetsIt) {
  Client other(target_, 7, KeyOwner("cluster-2"));
  bool came = false;
  target_.before = [&](const Command& command) {
    if (came || !Calls(command, PrOut::kReserve)) return;
    came = true;
    EXPECT_TRUE(*other.reservations.Claim(false));
  };
  EXPECT_EQ(a_.reservations.Claim(false).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(GuardKeys(KeyOwner("cluster-2")).Has(target_.HolderKey()));
  EXPECT_EQ(target_.Find(kA), nullptr);
}

TEST_P(ReservationsTest, AClaimedLunIsAcceptedAgainOnlyIfThatWasRecorded) {
  EXPECT_TRUE(*a_.reservations.Claim(false));
  EXPECT_EQ(b_.reservations.Claim(false).status().code(), StatusCode::kAlreadyExists);
  EXPECT_FALSE(*b_.reservations.Claim(true));
  ASSERT_OK(a_.reservations.Unclaim());
  EXPECT_FALSE(target_.holder);
}

TEST_P(ReservationsTest, MoreKeysThanTheFirstBufferHoldsAreRead) {
  for (int i = 0; i < 500; ++i) {
    target_.registrants.push_back({.session = 1000 + i, .key = 5000u + static_cast<uint64_t>(i)});
  }
  const auto state = a_.reservations.ReadState();
  ASSERT_OK(state);
  EXPECT_THAT(state->keys, SizeIs(500));
}

TEST(NoReservationsTest, ATargetWithoutThemIsRefusedInWords) {
  FakeTarget target;
  target.has_reservations = false;
  Client a(target, 1);
  const auto refused = a.Acquire("a", false);
  EXPECT_EQ(refused.status().code(), StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(base::Message(refused.status())),
              testing::HasSubstr("no SCSI-3 persistent reservations"));
}

TEST(NodeKeysTest, TellNodesOwnersProcessesAndTheGuardApart) {
  const NodeKeys a(KeyOwner("o"), "a");
  EXPECT_TRUE(a.Has(a.Make(1, 2)) && a.Has(a.Make(0xffff, 0xff)));
  EXPECT_FALSE(a.Has(NodeKeys(KeyOwner("o"), "b").Make(1, 2)));
  EXPECT_FALSE(a.Has(NodeKeys(KeyOwner("p"), "a").Make(1, 2)));
  EXPECT_FALSE(a.Has(GuardKeys(KeyOwner("o")).Make(1, 2)));
  EXPECT_FALSE(GuardKeys(KeyOwner("o")).Has(GuardKeys(KeyOwner("p")).Make(1, 2)));
  // Where the owner ends and the node begins is part of the key.
  EXPECT_FALSE(NodeKeys(KeyOwner("oa"), "").Has(NodeKeys(KeyOwner("o"), "a").Make(1, 2)));
  EXPECT_FALSE(IsSameProcess(a.Make(1, 2), a.Make(2, 2)));
}

TEST(NodeKeysTest, AProcessHasAnotherKeyInEachSession) {
  const NodeKeys a(KeyOwner("o"), "a");
  std::vector<uint64_t> taken{a.MakeNew({})};
  for (int i = 0; i < 100; ++i) {
    const uint64_t next = a.MakeNext(taken.back(), taken);
    EXPECT_TRUE(IsSameProcess(next, taken[0]) && IsUnfinished(next));
    for (const uint64_t other : taken) ASSERT_NE(FinishedKey(next), FinishedKey(other));
    taken.push_back(next);
  }
  EXPECT_FALSE(IsSameProcess(a.MakeNew(taken), taken[0]));
}

}  // namespace
}  // namespace berth::iscsi
