#include "blockagent/fence_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::blockagent {
namespace {

using api::FenceEntry;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

FenceEntry Entry(const std::string& node, const std::string& uid, bool read_only = false) {
  return {.node = node,
          .pod_namespace = "default",
          .pod = "db-0",
          .pod_uid = uid,
          .mount_dir = "/k/pods/" + uid + "/volumes/berth.dev~block/pv-1",
          .read_only = read_only,
          .cluster_name = "main"};
}

FenceRequest Wants(FenceEntry entry, Sharing sharing = Sharing::kOnePod) {
  return {.volume = "pv-1", .entry = std::move(entry), .sharing = sharing, .fs_type = "ext4"};
}

constexpr PodFact kPods[] = {PodFact::kUnknown, PodFact::kThere, PodFact::kMoved, PodFact::kGone};
constexpr NodeFact kNodes[] = {NodeFact::kUnknown, NodeFact::kThere, NodeFact::kOutOfService,
                               NodeFact::kGone};
constexpr LeaseFact kLeases[] = {LeaseFact::kUnknown, LeaseFact::kAlive, LeaseFact::kExpired};
constexpr BackendFact kBackends[] = {BackendFact::kUnknown, BackendFact::kCannotTell,
                                     BackendFact::kLocked, BackendFact::kNoLock,
                                     BackendFact::kFences};

TEST(FenceRulesTest, AccessModesSayWhoMayShare) {
  EXPECT_EQ(SharingOf({"ReadWriteOnce"}, "ext4"), Sharing::kOnePod);
  EXPECT_EQ(SharingOf({"ReadWriteOncePod"}, "ext4"), Sharing::kOnePod);
  EXPECT_EQ(SharingOf({}, "ext4"), Sharing::kOnePod);
  EXPECT_EQ(SharingOf({"ReadWriteOnce", "ReadOnlyMany"}, "ext4"), Sharing::kReaders);
  EXPECT_EQ(SharingOf({"ReadOnlyMany"}, "xfs"), Sharing::kReaders);
  EXPECT_EQ(SharingOf({"ReadWriteMany"}, "ext4"), Sharing::kOneNode);
  EXPECT_EQ(SharingOf({"ReadWriteMany", "ReadOnlyMany"}, "btrfs"), Sharing::kOneNode);
  EXPECT_EQ(SharingOf({"ReadWriteMany"}, "gfs2"), Sharing::kAllNodes);
  EXPECT_EQ(SharingOf({"ReadWriteMany"}, "ocfs2"), Sharing::kAllNodes);
}

// Every combination of access modes, of who is in already, and of who wants in.
TEST(FenceRulesTest, WhoMayBeTogether) {
  const FenceRequest base = Wants(Entry("n1", "new"));
  for (const Sharing sharing :
       {Sharing::kOnePod, Sharing::kReaders, Sharing::kOneNode, Sharing::kAllNodes}) {
    for (const bool same_pod : {false, true}) {
      for (const bool same_node : {false, true}) {
        for (const bool old_reads : {false, true}) {
          for (const bool new_reads : {false, true}) {
            FenceRequest request = Wants(Entry("n1", "new", new_reads), sharing);
            FenceEntry old = Entry(same_node ? "n1" : "n2", same_pod ? "new" : "old", old_reads);
            old.mount_dir += "x";
            bool together = false;
            if (same_pod && same_node) {
              together = true;
            } else if (sharing == Sharing::kReaders) {
              together = old_reads && new_reads;
            } else if (sharing == Sharing::kOneNode) {
              together = same_node;
            } else if (sharing == Sharing::kAllNodes) {
              together = true;
            }
            const std::string what =
                fmt::format("sharing {} same pod {} same node {} old reads {} new reads {}",
                            static_cast<int>(sharing), same_pod, same_node, old_reads, new_reads);
            EXPECT_EQ(FindConflicts({old}, request).empty(), together) << what;
            const ConsumerFacts there{.pod = PodFact::kThere, .node = NodeFact::kThere};
            EXPECT_EQ(DecideRequest({old}, request, {there}).verdict,
                      together ? Verdict::kJoin : Verdict::kBlocked)
                << what;
          }
        }
      }
    }
  }
  EXPECT_EQ(DecideRequest({}, base, {}).verdict, Verdict::kFree);
  EXPECT_EQ(DecideRequest({base.entry}, base, {}).verdict, Verdict::kHeld);
}

TEST(FenceRulesTest, ALockOfADeadNodeIsRefusedWithWhatItsLapseWaitsFor) {
  const Decision decision = DecideRequest({Entry("n2", "old")}, Wants(Entry("n1", "new")),
                                          {{.pod = PodFact::kGone,
                                            .node = NodeFact::kGone,
                                            .lease = LeaseFact::kExpired,
                                            .backend = BackendFact::kLocked,
                                            .note = "the server drops it after its lease time"}});
  EXPECT_EQ(decision.verdict, Verdict::kBlocked);
  EXPECT_THAT(decision.missing,
              HasSubstr("holds a lock of the image: the machine may still write to it; "
                        "switch it off, and wait: the server drops it after its lease"));
}

// Every combination of what may be known of the old consumer.
TEST(FenceRulesTest, AnEntryIsBrokenOnlyWithBothProofs) {
  const FenceEntry old = Entry("n2", "old");
  const FenceRequest request = Wants(Entry("n1", "new"));
  int broken = 0, blocked = 0;
  for (const PodFact pod : kPods) {
    for (const NodeFact node : kNodes) {
      for (const LeaseFact lease : kLeases) {
        for (const BackendFact backend : kBackends) {
          for (const bool confirmed : {false, true}) {
            const ConsumerFacts facts{.pod = pod,
                                      .detach_confirmed = confirmed,
                                      .node = node,
                                      .lease = lease,
                                      .backend = backend};
            const bool pod_is_gone = pod == PodFact::kGone || pod == PodFact::kMoved;
            const bool node_is_gone =
                node == NodeFact::kGone &&
                (backend == BackendFact::kFences ||
                 (lease == LeaseFact::kExpired && backend == BackendFact::kNoLock));
            const bool free = confirmed || node == NodeFact::kOutOfService || node_is_gone;
            const Decision decision = DecideRequest({old}, request, {facts});
            const std::string what =
                fmt::format("pod {} node {} lease {} back end {} confirmed {}",
                            static_cast<int>(pod), static_cast<int>(node), static_cast<int>(lease),
                            static_cast<int>(backend), confirmed);
            if (pod_is_gone && free) {
              ++broken;
              ASSERT_EQ(decision.verdict, Verdict::kBreak) << what;
              ASSERT_EQ(decision.broken.size(), 1u);
              EXPECT_EQ(decision.broken[0].entry, old);
              EXPECT_THAT(decision.broken[0].proof,
                          AllOf(HasSubstr("'default/db-0'"), HasSubstr("'n2'")));
            } else {
              ++blocked;
              ASSERT_EQ(decision.verdict, Verdict::kBlocked) << what;
              EXPECT_TRUE(decision.broken.empty());
              EXPECT_THAT(decision.missing, HasSubstr("berth fence break --dangerous pv-1"))
                  << what;
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(broken, 2 * (60 + 15 + 4));
  EXPECT_EQ(blocked, 480 - broken);
}

TEST(FenceRulesTest, TheSameNameIsNoProof) {
  // The StatefulSet's pod was made anew while its old node is only cut off.
  const Decision decision = DecideRequest(
      {Entry("n2", "old")}, Wants(Entry("n1", "new")),
      {{.pod = PodFact::kGone, .node = NodeFact::kThere, .lease = LeaseFact::kExpired}});
  EXPECT_EQ(decision.verdict, Verdict::kBlocked);
  EXPECT_THAT(decision.missing,
              HasSubstr("kubectl taint node n2 node.kubernetes.io/out-of-service"));
}

TEST(FenceRulesTest, OneEntryWithoutProofKeepsAll) {
  const std::vector<FenceEntry> entries = {Entry("n2", "a", true), Entry("n3", "b", true)};
  const FenceRequest request = Wants(Entry("n1", "new"), Sharing::kReaders);
  const ConsumerFacts gone{.pod = PodFact::kGone, .detach_confirmed = true};
  const ConsumerFacts there{.pod = PodFact::kThere, .node = NodeFact::kThere};
  const Decision one = DecideRequest(entries, request, {gone, there});
  EXPECT_EQ(one.verdict, Verdict::kBlocked);
  EXPECT_TRUE(one.broken.empty());
  EXPECT_THAT(one.missing, AllOf(HasSubstr("'n3'"), Not(HasSubstr("'n2'"))));
  const Decision both = DecideRequest(entries, request, {gone, gone});
  EXPECT_EQ(both.verdict, Verdict::kBreak);
  EXPECT_THAT(ApplyDecision(entries, request, both), ElementsAre(request.entry));
  // What is not known is as good as there.
  EXPECT_EQ(DecideRequest(entries, request, {gone}).verdict, Verdict::kBlocked);
}

TEST(FenceRulesTest, ApplyReplacesTheSameUseAndKeepsOthers) {
  const FenceEntry other = Entry("n1", "other", true);
  FenceEntry before = Entry("n1", "new", true);
  before.cluster_name = "old";
  const FenceRequest request = Wants(Entry("n1", "new", true), Sharing::kReaders);
  const Decision decision = DecideRequest({before, other}, request, {});
  EXPECT_EQ(decision.verdict, Verdict::kJoin);
  EXPECT_THAT(ApplyDecision({before, other}, request, decision), ElementsAre(other, request.entry));
}

TEST(FenceRulesTest, AFurtherNodeOfAReadWriteManyVolumeIsToldWhy) {
  const Decision decision =
      DecideRequest({Entry("n2", "old")}, Wants(Entry("n1", "new"), Sharing::kOneNode),
                    {{.pod = PodFact::kThere, .node = NodeFact::kThere}});
  EXPECT_THAT(decision.missing, HasSubstr("ext4 is destroyed by two nodes"));
}

TEST(FenceRulesTest, NamesSomeOfManyThatBlock) {
  std::vector<FenceEntry> entries;
  for (int i = 0; i < 9; ++i) entries.push_back(Entry("n2", fmt::format("u{}", i), true));
  const Decision decision =
      DecideRequest(entries, Wants(Entry("n1", "new"), Sharing::kReaders), {});
  EXPECT_THAT(decision.missing,
              AllOf(HasSubstr("(u2)"), Not(HasSubstr("(u3)")), HasSubstr("6 more")));
}

// Every combination of who else is in, of what this node owes, and of what is known of its lock.
TEST(FenceRulesTest, AMountedUseIsTakenOnlyByWhoTookIt) {
  const FenceRequest request = Wants(Entry("n1", "mine"));
  const std::vector<std::vector<FenceEntry>> fences = {
      {}, {Entry("n1", "of this node")}, {Entry("n2", "other")}};
  for (const auto& entries : fences) {
    for (const bool owed : {false, true}) {
      for (const BackendFact lock : kBackends) {
        const bool contested = !entries.empty() && entries[0].node == "n2";
        LossVerdict expected = LossVerdict::kRestore;
        if (contested) {
          expected = LossVerdict::kTaken;
          if (lock == BackendFact::kLocked) expected = LossVerdict::kRestore;
          if (lock == BackendFact::kUnknown) expected = LossVerdict::kWait;
        }
        if (owed) expected = LossVerdict::kTaken;
        const LossDecision decision = DecideLoss(entries, request, owed, lock);
        EXPECT_EQ(decision.verdict, expected)
            << fmt::format("contested {} owed {} lock {}", contested, owed, static_cast<int>(lock));
        if (contested && !owed) EXPECT_THAT(decision.reason, HasSubstr("(other) on node 'n2'"));
      }
    }
  }
  // Readers and pods of a shared file system take nothing from each other.
  const FenceEntry reader = Entry("n2", "other", true);
  EXPECT_EQ(DecideLoss({reader}, Wants(Entry("n1", "mine", true), Sharing::kReaders), false,
                       BackendFact::kCannotTell)
                .verdict,
            LossVerdict::kRestore);
  EXPECT_EQ(DecideLoss({reader}, Wants(Entry("n1", "mine"), Sharing::kReaders), false,
                       BackendFact::kCannotTell)
                .verdict,
            LossVerdict::kTaken);
}

}  // namespace
}  // namespace berth::blockagent
