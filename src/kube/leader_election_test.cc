#include "kube/leader_election.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "api/kinds/kinds.h"
#include "kube/fake_client.h"
#include "kube/guarded_client.h"

namespace berth::kube {
namespace {

using api::kinds::kLease;
using base::Error;
using base::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;

// The API and two machines, each with a boot clock of its own.
class LeaderElectionTest : public testing::Test {
 protected:
  // A wire to the API that can be cut.
  class Wire : public GuardedClient {
   public:
    explicit Wire(FakeClient& client)
        : GuardedClient(client, MakeLeaderGate([this] { return !cut; })), client_(client) {}
    StatusOr<Json> Get(const api::KindInfo& kind, std::string_view ns,
                       std::string_view name) override {
      if (cut) return Error(StatusCode::kUnavailable, "the wire is cut");
      return client_.Get(kind, ns, name);
    }
    std::atomic<bool> cut = false;

   private:
    FakeClient& client_;
  };

  LeaderElectionOptions Options(std::string identity) {
    return {.ns = "storage",
            .lease = "external-attacher-leader-d",
            .identity = std::move(identity),
            .labels = {{"app", "csi"}},
            .now = [this] { return BootTime(now_.load()); }};
  }
  void Sleep(milliseconds time) {
    now_ += std::chrono::nanoseconds(time).count();
    clock_.Advance(time);
  }
  Json Lease() { return client_.Peek(kLease, "storage", "external-attacher-leader-d"); }
  std::string Holder() { return base::json::String(Lease(), {"spec", "holderIdentity"}); }

  std::atomic<int64_t> now_ = std::chrono::nanoseconds(std::chrono::hours(1)).count();
  base::FakeClock clock_;
  FakeClient client_{clock_};
  Wire wire_a_{client_}, wire_b_{client_};
  LeaderElection a_{wire_a_, clock_, Options("host-a")};
  LeaderElection b_{wire_b_, clock_, Options("host-b")};
};

TEST_F(LeaderElectionTest, TheFirstMakesTheLeaseAsClientGoDoes) {
  EXPECT_FALSE(a_.leading());
  ASSERT_TRUE(a_.AcquireOrRenew().ok());
  EXPECT_TRUE(a_.leading());
  EXPECT_EQ(Lease()["spec"], Json::parse(R"({"holderIdentity": "host-a", "leaseDurationSeconds": 15,
      "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:00.000000Z",
      "leaseTransitions": 0})"));
  EXPECT_EQ(Lease()["metadata"]["labels"], Json({{"app", "csi"}}));
  EXPECT_EQ(b_.AcquireOrRenew().code(), StatusCode::kFailedPrecondition);
  EXPECT_FALSE(b_.leading());
}

TEST_F(LeaderElectionTest, OnlyVerbsThatTheSidecarsRolesGrant) {
  ASSERT_TRUE(a_.AcquireOrRenew().ok());
  Sleep(seconds(5));
  ASSERT_TRUE(a_.AcquireOrRenew().ok());
  ASSERT_TRUE(a_.ReleaseLease().ok());
  EXPECT_THAT(client_.ActionNames(),
              ElementsAre("create leases/storage/external-attacher-leader-d",
                          "update leases/storage/external-attacher-leader-d",
                          "update leases/storage/external-attacher-leader-d"));
}

TEST_F(LeaderElectionTest, RenewalKeepsWhenItWasTaken) {
  ASSERT_TRUE(a_.AcquireOrRenew().ok());
  Sleep(seconds(5));
  ASSERT_TRUE(a_.AcquireOrRenew().ok());
  EXPECT_EQ(base::json::String(Lease(), {"spec", "acquireTime"}), "2026-01-01T00:00:00.000000Z");
  EXPECT_EQ(base::json::String(Lease(), {"spec", "renewTime"}), "2026-01-01T00:00:05.000000Z");
  EXPECT_EQ(base::json::Int(Lease(), {"spec", "leaseTransitions"}), 0);
}

TEST_F(LeaderElectionTest, TheLineageLastsUntilAnotherProgramHeldTheLease) {
  ASSERT_TRUE(a_.AcquireOrRenew().ok());
  const std::string first = a_.lineage();
  EXPECT_NE(first, "");
  Sleep(seconds(5));
  ASSERT_TRUE(a_.AcquireOrRenew().ok());
  ASSERT_TRUE(a_.ReleaseLease().ok());
  ASSERT_TRUE(b_.AcquireOrRenew().ok());
  EXPECT_EQ(b_.lineage(), first);
  ASSERT_TRUE(b_.ReleaseLease().ok());
  // As client-go does it: the spec is changed, the annotations stay.
  Json lease = Lease();
  lease["spec"]["holderIdentity"] = "host-a";
  lease["spec"]["renewTime"] = "2026-01-01T00:00:06.000000Z";
  client_.Add(lease);
  Sleep(seconds(20));
  ASSERT_TRUE(a_.AcquireOrRenew().ok());
  EXPECT_NE(a_.lineage(), first);
  // A lease that was made anew says nothing of who held the earlier one.
  const std::string second = a_.lineage();
  client_.Remove(kLease, "storage", "external-attacher-leader-d");
  Sleep(seconds(5));
  ASSERT_TRUE(a_.AcquireOrRenew().ok());
  EXPECT_NE(a_.lineage(), second);
}

TEST_F(LeaderElectionTest, NeverTwoLeadersWhenTheLeadersWireIsCut) {
  ASSERT_TRUE(a_.AcquireOrRenew().ok());
  ASSERT_FALSE(b_.AcquireOrRenew().ok());
  wire_a_.cut = true;
  // At each moment both are asked whether they lead, and both try.
  int taken_after = -1;
  for (int second = 1; second <= 16; ++second) {
    Sleep(seconds(1));
    (void)a_.AcquireOrRenew();
    (void)b_.AcquireOrRenew();
    EXPECT_FALSE(a_.leading() && b_.leading()) << "after " << second << " s";
    EXPECT_EQ(a_.leading(), second < 10) << "after " << second << " s";
    if (b_.leading() && taken_after < 0) taken_after = second;
  }
  EXPECT_EQ(taken_after, 15) << "the lease's time";
  EXPECT_EQ(base::json::Int(Lease(), {"spec", "leaseTransitions"}), 1);
  wire_a_.cut = false;
  EXPECT_EQ(a_.AcquireOrRenew().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Holder(), "host-b");
}

TEST_F(LeaderElectionTest, ACandidateTrustsItsOwnClockAlone) {
  ASSERT_TRUE(a_.AcquireOrRenew().ok());
  clock_.Advance(std::chrono::hours(24));  // the wall clock of the candidate's machine is ahead
  EXPECT_EQ(b_.AcquireOrRenew().code(), StatusCode::kFailedPrecondition);
  Sleep(seconds(14));
  ASSERT_TRUE(a_.AcquireOrRenew().ok());  // renewed: the candidate's wait begins anew
  EXPECT_EQ(b_.AcquireOrRenew().code(), StatusCode::kFailedPrecondition);
  Sleep(seconds(14));
  EXPECT_EQ(b_.AcquireOrRenew().code(), StatusCode::kFailedPrecondition);
  EXPECT_LE(b_.ChooseDelay(false), milliseconds(1012)) << "at the end of the other's time";
  Sleep(seconds(1));
  EXPECT_TRUE(b_.AcquireOrRenew().ok());
}

TEST_F(LeaderElectionTest, AReleasedLeaseIsTakenAtOnce) {
  ASSERT_TRUE(a_.AcquireOrRenew().ok());
  ASSERT_FALSE(b_.AcquireOrRenew().ok());
  ASSERT_TRUE(a_.ReleaseLease().ok());
  EXPECT_FALSE(a_.leading());
  EXPECT_EQ(Holder(), "");
  EXPECT_TRUE(b_.AcquireOrRenew().ok());
}

TEST_F(LeaderElectionTest, ARestartedProcessGoesOnUnderItsName) {
  ASSERT_TRUE(a_.AcquireOrRenew().ok());
  LeaderElection again(client_, clock_, Options("host-a"));
  EXPECT_TRUE(again.AcquireOrRenew().ok());
  EXPECT_EQ(base::json::Int(Lease(), {"spec", "leaseTransitions"}), 0);
}

TEST_F(LeaderElectionTest, AnAnswerThatWasLostLeavesTheLeaseOurs) {
  ASSERT_TRUE(a_.AcquireOrRenew().ok());
  Sleep(seconds(5));
  client_.LoseNextAnswer("update", "leases", Error(StatusCode::kUnavailable, "broken pipe"));
  EXPECT_EQ(a_.AcquireOrRenew().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(a_.leading());
  EXPECT_LE(a_.ChooseDelay(true), seconds(2)) << "sooner than after a success";
  Sleep(seconds(2));
  EXPECT_TRUE(a_.AcquireOrRenew().ok());
}

TEST_F(LeaderElectionTest, ALeaseThatSomebodyDeletedIsMadeAnew) {
  ASSERT_TRUE(a_.AcquireOrRenew().ok());
  client_.Remove(kLease, "storage", "external-attacher-leader-d");
  EXPECT_TRUE(a_.AcquireOrRenew().ok());
  EXPECT_EQ(Holder(), "host-a");
}

TEST_F(LeaderElectionTest, WhatOthersWroteIntoTheLeaseStays) {
  ASSERT_TRUE(a_.AcquireOrRenew().ok());
  Json lease = Lease();
  lease["metadata"]["annotations"]["note"] = "mine";
  client_.Add(lease);
  Sleep(seconds(5));
  ASSERT_TRUE(a_.AcquireOrRenew().ok());
  EXPECT_EQ(base::json::String(Lease(), {"metadata", "annotations", "note"}), "mine");
}

TEST_F(LeaderElectionTest, UnhealthyOnceTheElectionItselfHangs) {
  (void)a_.AcquireOrRenew();
  Sleep(seconds(35));
  EXPECT_TRUE(a_.healthy(seconds(20)));
  Sleep(seconds(1));
  EXPECT_FALSE(a_.healthy(seconds(20)));
  wire_a_.cut = true;
  (void)a_.AcquireOrRenew();
  EXPECT_TRUE(a_.healthy(seconds(20))) << "an absent API is none of its faults";
}

TEST(CheckLeaderElectionTest, RefusesWhatCouldMakeTwoLeaders) {
  const LeaderElectionOptions good{.ns = "n", .lease = "l", .identity = "i"};
  EXPECT_TRUE(CheckLeaderElection(good).ok());
  const auto refused = [&](auto change) {
    LeaderElectionOptions options = good;
    change(options);
    return CheckLeaderElection(options).code() == StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused([](auto& options) { options.lease_duration = options.renew_deadline; }));
  EXPECT_TRUE(refused([](auto& options) { options.retry_period = options.renew_deadline; }));
  EXPECT_TRUE(refused([](auto& options) { options.retry_period = milliseconds(0); }));
  EXPECT_TRUE(refused([](auto& options) { options.identity = ""; }));
  EXPECT_TRUE(refused([](auto& options) { options.lease = "../x"; }));
  EXPECT_TRUE(refused([](auto& options) { options.ns = ""; }));
}

// Two candidates in real time, with short leases. Each writes its name into one ConfigMap while it
// leads, as its work.
class RunLeaderElectionTest : public testing::Test {
 protected:
  struct Candidate {
    Candidate(RunLeaderElectionTest& test, const std::string& name)
        : guarded(test.client_,
                  GuardedClient::MakeLeaderGate([this] { return election.leading(); })),
          wire(test.client_, GuardedClient::MakeLeaderGate([this] { return !cut; })),
          election(wire, test.clock_,
                   {.ns = "default",
                    .lease = "l",
                    .identity = name,
                    .lease_duration = seconds(2),
                    .renew_deadline = milliseconds(1000),
                    .retry_period = milliseconds(200)}),
          thread([this, &test](const std::stop_token& stop) {
            RunLeaderElection(election, stop, [&](const std::stop_token& lost) {
              ++terms;
              EXPECT_EQ(test.working_.fetch_add(1), 0) << "two work at a time";
              working = true;
              while (!lost.stop_requested()) {
                Json note = {{"apiVersion", "v1"},
                             {"kind", "ConfigMap"},
                             {"metadata", {{"name", "note"}, {"namespace", "default"}}},
                             {"data", {{"by", election.options().identity}}}};
                (void)guarded.Update(api::kinds::kConfigMap, note, "");
                std::this_thread::sleep_for(milliseconds(5));
              }
              working = false;
              --test.working_;
            });
          }) {}
    std::atomic<bool> cut = false;
    std::atomic<int> terms = 0;
    std::atomic<bool> working = false;
    GuardedClient guarded;
    GuardedClient wire;
    LeaderElection election;
    std::jthread thread;
  };

  std::string WrittenBy() {
    return base::json::String(client_.Peek(api::kinds::kConfigMap, "default", "note"),
                              {"data", "by"});
  }
  // Some changes are not changes of the API.
  static bool Eventually(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + seconds(30);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return true;
  }

  const base::SystemClock clock_;
  FakeClient client_;
  std::atomic<int> working_ = 0;
};

TEST_F(RunLeaderElectionTest, ACutWireHandsOverAndNobodyWorksTwice) {
  client_.Add(Json{{"apiVersion", "v1"},
                   {"kind", "ConfigMap"},
                   {"metadata", {{"name", "note"}, {"namespace", "default"}}}});
  Candidate a(*this, "a");
  ASSERT_TRUE(Eventually([&] { return WrittenBy() == "a"; }));
  Candidate b(*this, "b");
  a.cut = true;  // its renewals are lost, but its work's writes would get through
  ASSERT_TRUE(Eventually([&] { return WrittenBy() == "b"; }));
  EXPECT_FALSE(a.working);
  // Neither process has ended: when b goes, a leads again.
  a.cut = false;
  b.thread.request_stop();
  b.thread.join();
  ASSERT_TRUE(Eventually([&] { return WrittenBy() == "a"; }));
  EXPECT_EQ(a.terms, 2);
  EXPECT_EQ(b.terms, 1);
}

TEST_F(RunLeaderElectionTest, AnAbsentApiPausesAndEndsNothing) {
  client_.Add(Json{{"apiVersion", "v1"},
                   {"kind", "ConfigMap"},
                   {"metadata", {{"name", "note"}, {"namespace", "default"}}}});
  Candidate a(*this, "a");
  ASSERT_TRUE(Eventually([&] { return a.working.load(); }));
  client_.SetOutage(Error(StatusCode::kUnavailable, "connection refused"));
  ASSERT_TRUE(Eventually([&] { return !a.working; }));
  client_.SetOutage(base::OkStatus());
  ASSERT_TRUE(Eventually([&] { return a.working.load(); }));
  EXPECT_EQ(a.terms, 2);
}

}  // namespace
}  // namespace berth::kube
