#include "blockagent/fence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <thread>

#include "api/kinds/kinds.h"
#include "blockagent/consumers.h"
#include "blockagent/fake_rights.h"
#include "blockagent/node_cleanups.h"
#include "kube/fake_client.h"

namespace berth::blockagent {
namespace {

using api::FenceEntry;
using api::VolumeFence;
using base::Error;
using base::Json;
using base::StatusCode;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class Events : public base::EventSink {
 public:
  void Record(const base::ObjectReference& object, base::EventType, std::string_view reason,
              std::string_view message) override {
    base::MutexLock lock(mutex_);
    told_.push_back(fmt::format("{} {}: {}", object.kind, reason, message));
  }
  std::vector<std::string> told() {
    base::MutexLock lock(mutex_);
    return told_;
  }

 private:
  base::Mutex mutex_;
  std::vector<std::string> told_ ABSL_GUARDED_BY(mutex_);
};

class FenceTest : public testing::Test {
 protected:
  FenceTest() {
    for (const auto* kind : {&api::kinds::kVolumeFence, &api::kinds::kNodeCleanup}) {
      client_.Serve(*kind);
    }
  }

  static FenceEntry Entry(const std::string& node, const std::string& uid) {
    return {.node = node,
            .pod_namespace = "default",
            .pod = "db-0",
            .pod_uid = uid,
            .mount_dir = "/k/pods/" + uid,
            .cluster_name = "main"};
  }
  static FenceRequest Wants(const std::string& node, const std::string& uid) {
    return {.volume = "pv-1", .entry = Entry(node, uid), .fs_type = "ext4"};
  }
  static FenceContext Context() {
    return {.volume = {"v1", "PersistentVolume", "", "pv-1", "u"},
            .pod = {"v1", "Pod", "default", "db-0", "p"},
            .cluster_name = "main",
            .image = "img"};
  }
  static ConsumerFacts Gone(const FenceEntry&) {
    return {.pod = PodFact::kGone, .node = NodeFact::kOutOfService};
  }
  static ConsumerFacts There(const FenceEntry&) {
    return {.pod = PodFact::kThere, .node = NodeFact::kThere};
  }
  std::vector<FenceEntry> Now() const {
    const auto fence = client_.Peek<VolumeFence>("", "pv-1");
    return fence.has_value() ? fence->entries() : std::vector<FenceEntry>();
  }
  // The API as the agent of `node` may use it.
  kube::Client& ClientOf(const std::string& node) {
    const base::MutexLock lock(mutex_);
    auto& client = clients_[node];
    if (client == nullptr) client = std::make_unique<AgentClient>(client_, node);
    return *client;
  }
  Fences On(const std::string& node) { return Fences({ClientOf(node), events_, clock_, node}); }

  base::FakeClock clock_;
  kube::FakeClient client_{clock_};
  Events events_;

 private:
  base::Mutex mutex_;
  std::map<std::string, std::unique_ptr<AgentClient>> clients_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(FenceTest, TheFirstMakesItAndTheLastRemovesIt) {
  Fences fences = On("n1");
  ASSERT_TRUE(fences.Acquire(Wants("n1", "a"), Context(), {There}).ok());
  EXPECT_THAT(Now(), ElementsAre(Entry("n1", "a")));
  client_.TakeActions();
  ASSERT_TRUE(fences.Acquire(Wants("n1", "a"), Context(), {There}).ok());
  EXPECT_THAT(client_.TakeActions(), IsEmpty()) << "it is held already";
  ASSERT_TRUE(fences.Release("pv-1", Entry("n1", "a")).ok());
  EXPECT_TRUE(client_.Peek(api::kinds::kVolumeFence, "", "pv-1").is_null());
  EXPECT_TRUE(fences.Release("pv-1", Entry("n1", "a")).ok());
}

TEST_F(FenceTest, OthersAreKeptOutAndTold) {
  ASSERT_TRUE(On("n1").Acquire(Wants("n1", "a"), Context(), {There}).ok());
  Fences second = On("n2");
  const auto kept = second.Acquire(Wants("n2", "b"), Context(), {There});
  EXPECT_EQ(kept.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(kept.status())), HasSubstr("delete that pod"));
  EXPECT_THAT(Now(), ElementsAre(Entry("n1", "a")));
  EXPECT_THAT(events_.told(), ElementsAre(HasSubstr("PersistentVolume FenceBlocked"),
                                          HasSubstr("Pod FenceBlocked")));
  const Json fence = client_.Peek(api::kinds::kVolumeFence, "", "pv-1");
  EXPECT_EQ(fence["status"]["conditions"][0]["type"], "Blocked");
  EXPECT_EQ(fence["status"]["conditions"][0]["status"], "True");
  EXPECT_THAT(fence["status"]["conditions"][0]["message"].get<std::string>(),
              HasSubstr("berth fence break --dangerous pv-1"));
  // The same again writes nothing.
  client_.TakeActions();
  EXPECT_FALSE(second.Acquire(Wants("n2", "b"), Context(), {There}).ok());
  EXPECT_THAT(client_.TakeActions(), IsEmpty());
}

TEST_F(FenceTest, WhatIsToBeTakenOffIsWrittenBeforeAnEntryIsBroken) {
  ASSERT_TRUE(On("n1").Acquire(Wants("n1", "a"), Context(), {There}).ok());
  ASSERT_TRUE(
      On("n1").WriteDeviceStatus("pv-1", {.device_path = "/dev/loop7", .state = "Attached"}).ok());
  Fences second = On("n2");
  client_.FailNext("create", "nodecleanups", Error(StatusCode::kUnavailable, "down"));
  EXPECT_FALSE(second.Acquire(Wants("n2", "b"), Context(), {Gone}).ok());
  EXPECT_THAT(Now(), ElementsAre(Entry("n1", "a"))) << "not broken without it";
  client_.TakeActions();
  ASSERT_TRUE(second.Acquire(Wants("n2", "b"), Context(), {Gone}).ok());
  EXPECT_THAT(client_.ActionNames(),
              ElementsAre("create nodecleanups/n1", "update volumefences/pv-1"));
  EXPECT_THAT(Now(), ElementsAre(Entry("n2", "b")));
  const auto owed = client_.Peek<api::NodeCleanup>("", "n1")->entries();
  ASSERT_THAT(owed, SizeIs(1));
  EXPECT_EQ(owed[0].volume, "pv-1");
  EXPECT_EQ(owed[0].attachment, Entry("n1", "a"));
  EXPECT_EQ(owed[0].image, "img");
  EXPECT_EQ(owed[0].device_path, "/dev/loop7");
  EXPECT_THAT(events_.told(),
              Contains(AllOf(HasSubstr("Pod FenceBroken"), HasSubstr("out of service"))));
}

TEST_F(FenceTest, ACrashBetweenTheTwoWritesIsMadeGood) {
  ASSERT_TRUE(On("n1").Acquire(Wants("n1", "a"), Context(), {There}).ok());
  client_.FailNext("update", "volumefences", Error(StatusCode::kUnavailable, "down"));
  EXPECT_FALSE(On("n2").Acquire(Wants("n2", "b"), Context(), {Gone}).ok());
  ASSERT_TRUE(On("n2").Acquire(Wants("n2", "b"), Context(), {Gone}).ok());
  EXPECT_THAT(client_.Peek<api::NodeCleanup>("", "n1")->entries(), SizeIs(1)) << "not twice";
}

TEST_F(FenceTest, ALostAnswerIsFoundDone) {
  client_.LoseNextAnswer("create", "volumefences", Error(StatusCode::kUnavailable, "lost"));
  EXPECT_FALSE(On("n1").Acquire(Wants("n1", "a"), Context(), {There}).ok());
  EXPECT_TRUE(On("n1").Acquire(Wants("n1", "a"), Context(), {There}).ok());
  EXPECT_FALSE(On("n2").Acquire(Wants("n2", "b"), Context(), {There}).ok());
  client_.LoseNextAnswer("delete", "volumefences", Error(StatusCode::kUnavailable, "lost"));
  EXPECT_FALSE(On("n1").Release("pv-1", Entry("n1", "a")).ok());
  EXPECT_TRUE(On("n1").Release("pv-1", Entry("n1", "a")).ok());
}

TEST_F(FenceTest, AReleaseTakesNobodyElseOut) {
  FenceRequest reader = Wants("n1", "a");
  reader.sharing = Sharing::kReaders;
  reader.entry.read_only = true;
  FenceRequest other = Wants("n2", "b");
  other.sharing = Sharing::kReaders;
  other.entry.read_only = true;
  ASSERT_TRUE(On("n1").Acquire(reader, Context(), {There}).ok());
  ASSERT_TRUE(On("n2").Acquire(other, Context(), {There}).ok());
  ASSERT_TRUE(On("n1").Release("pv-1", reader.entry).ok());
  EXPECT_THAT(Now(), ElementsAre(other.entry));
  ASSERT_TRUE(On("n1").Release("pv-1", reader.entry).ok());
  EXPECT_THAT(Now(), ElementsAre(other.entry));
  EXPECT_TRUE(*On("n2").HasEntry("pv-1", other.entry));
  EXPECT_FALSE(*On("n2").HasEntry("pv-1", reader.entry));
}

// Twenty agents want a volume for one pod, again and again.
TEST_F(FenceTest, OfManyWhoRaceOneIsIn) {
  constexpr int kAgents = 20, kRounds = 50;
  std::atomic<int> inside{0}, most{0}, granted{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < kAgents; ++i) {
    threads.emplace_back([&, i] {
      const std::string node = fmt::format("n{}", i);
      Fences fences = On(node);
      for (int round = 0; round < kRounds; ++round) {
        const FenceRequest request = Wants(node, fmt::format("{}-{}", i, round));
        if (!fences.Acquire(request, Context(), {There}).ok()) continue;
        const int now = ++inside;
        int seen = most.load();
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        ++granted;
        --inside;
        while (!fences.Release("pv-1", request.entry).ok()) {
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(most, 1);
  EXPECT_GT(granted, 0);
  EXPECT_THAT(Now(), IsEmpty());
}

TEST_F(FenceTest, TheStatusTellsOfEachNodeThatIsIn) {
  FenceRequest one = Wants("n1", "a"), two = Wants("n2", "b");
  for (FenceRequest* request : {&one, &two}) {
    request->sharing = Sharing::kAllNodes;
    ASSERT_TRUE(On(request->entry.node).Acquire(*request, Context(), {There}).ok());
    ASSERT_TRUE(On(request->entry.node)
                    .WriteDeviceStatus("pv-1", {.device_path = "/dev/x", .state = "Attached"})
                    .ok());
  }
  Json fence = client_.Peek(api::kinds::kVolumeFence, "", "pv-1");
  EXPECT_EQ(fence["status"]["devices"].size(), 2u);
  ASSERT_TRUE(On("n1").Release("pv-1", one.entry).ok());
  ASSERT_TRUE(
      On("n2").WriteDeviceStatus("pv-1", {.device_path = "/dev/y", .state = "Attached"}).ok());
  fence = client_.Peek(api::kinds::kVolumeFence, "", "pv-1");
  ASSERT_EQ(fence["status"]["devices"].size(), 1u);
  EXPECT_EQ(fence["status"]["devices"][0]["devicePath"], "/dev/y");
}

// As while the CustomResourceDefinition is made anew, or behind a proxy that knows no such path.
TEST_F(FenceTest, AKindThatIsNotServedSaysNothingOfWhoUsesAVolume) {
  Fences fences = On("n1");
  ASSERT_TRUE(fences.Acquire(Wants("n1", "a"), Context(), {There}).ok());
  client_.StopServing(api::kinds::kVolumeFence);
  const auto entries = fences.ReadEntries("pv-1");
  EXPECT_EQ(entries.status().code(), StatusCode::kUnavailable) << entries.status();
  EXPECT_THAT(std::string(base::Message(entries.status())), HasSubstr("does not serve"));
  EXPECT_EQ(fences.HasEntry("pv-1", Entry("n1", "a")).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(fences.Release("pv-1", Entry("n1", "a")).code(), StatusCode::kUnavailable);
  for (const bool likely_first : {false, true}) {
    FenceRequest request = Wants("n1", "a");
    request.likely_first = likely_first;
    EXPECT_EQ(fences.Acquire(request, Context(), {There}).status().code(),
              StatusCode::kUnavailable);
  }
  EXPECT_EQ(BreakFence(client_, api::VolumeName("pv-1"), "by hand").status().code(),
            StatusCode::kUnavailable);
}

// One that answered "not found" did not have the kind; the next one, which has it, is believed.
TEST_F(FenceTest, AFenceThatIsListedIsThereThoughItWasNotFound) {
  Fences fences = On("n1");
  ASSERT_TRUE(fences.Acquire(Wants("n1", "a"), Context(), {There}).ok());
  client_.FailNext("get", "volumefences", Error(StatusCode::kNotFound, "404 page not found"));
  EXPECT_TRUE(*fences.HasEntry("pv-1", Entry("n1", "a")));
}

// --- A fence that lost an entry ---

TEST_F(FenceTest, WithoutAFenceOtherSignsOfUseCount) {
  const std::vector<FenceEntry> signs = {Entry("n1", "a")};
  const auto find = [&]() -> base::StatusOr<std::vector<FenceEntry>> { return signs; };
  FenceRequest request = Wants("n2", "b");
  request.likely_first = true;
  const auto kept =
      On("n2").Acquire(request, Context(), {.find_facts = There, .find_unfenced = find});
  EXPECT_EQ(kept.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(kept.status())), HasSubstr("(a) on node 'n1'"));
  EXPECT_THAT(std::string(base::Message(kept.status())),
              HasSubstr("has no fence any more (it was lost or broken, and this back end keeps no "
                        "locks): end that pod: kubectl delete pod --namespace"));
  EXPECT_THAT(std::string(base::Message(kept.status())), HasSubstr("'n1' is off for certain"));
  EXPECT_THAT(std::string(base::Message(kept.status())), Not(HasSubstr("fence break")))
      << "there is no fence to break";
  EXPECT_THAT(Now(), IsEmpty());
  EXPECT_THAT(events_.told(), Contains(HasSubstr("Pod FenceBlocked")));
  // A consumer that is provably gone stands in nobody's way.
  ASSERT_TRUE(
      On("n2").Acquire(request, Context(), {.find_facts = Gone, .find_unfenced = find}).ok());
  EXPECT_THAT(Now(), ElementsAre(Entry("n2", "b")));
  // Once there is a fence, it alone counts.
  EXPECT_TRUE(
      On("n2").Acquire(request, Context(), {.find_facts = There, .find_unfenced = find}).ok());
}

TEST_F(FenceTest, AnEntryThatGotLostIsWrittenAgainAndTold) {
  const base::ObjectReference volume = Context().volume;
  const auto unasked = []() -> BackendFact {
    ADD_FAILURE() << "nobody else is in the fence";
    return BackendFact::kUnknown;
  };
  ASSERT_TRUE(On("n1").Acquire(Wants("n1", "a"), Context(), {There}).ok());
  client_.Remove(api::kinds::kVolumeFence, "", "pv-1");
  const auto restored = On("n1").Restore(Wants("n1", "a"), volume, unasked);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->verdict, LossVerdict::kRestore);
  EXPECT_THAT(Now(), ElementsAre(Entry("n1", "a")));
  EXPECT_THAT(events_.told(), ElementsAre(HasSubstr("PersistentVolume FenceRestored"),
                                          HasSubstr("Pod FenceRestored")));
  client_.TakeActions();
  ASSERT_TRUE(On("n1").Restore(Wants("n1", "a"), volume, unasked).ok());
  EXPECT_THAT(client_.TakeActions(), IsEmpty()) << "it is there";
}

TEST_F(FenceTest, NothingIsRestoredWhileTheApiServesNoFences) {
  client_.StopServing(api::kinds::kVolumeFence);
  const auto lock = [] { return BackendFact::kLocked; };
  EXPECT_EQ(On("n1").Restore(Wants("n1", "a"), Context().volume, lock).status().code(),
            StatusCode::kUnavailable);
  client_.Serve(api::kinds::kVolumeFence);
  EXPECT_TRUE(On("n1").Restore(Wants("n1", "a"), Context().volume, lock).ok());
  EXPECT_THAT(Now(), ElementsAre(Entry("n1", "a")));
}

TEST_F(FenceTest, WhoeverHoldsTheLockStaysBesideWhoDoesNot) {
  const base::ObjectReference volume = Context().volume;
  ASSERT_TRUE(On("n2").Acquire(Wants("n2", "b"), Context(), {There}).ok());
  const auto unknown = [] { return BackendFact::kUnknown; };
  EXPECT_EQ(On("n1").Restore(Wants("n1", "a"), volume, unknown).status().code(),
            StatusCode::kUnavailable);
  const auto none = [] { return BackendFact::kNoLock; };
  EXPECT_EQ(On("n1").Restore(Wants("n1", "a"), volume, none)->verdict, LossVerdict::kTaken);
  EXPECT_THAT(Now(), ElementsAre(Entry("n2", "b")));
  const auto locked = [] { return BackendFact::kLocked; };
  EXPECT_EQ(On("n1").Restore(Wants("n1", "a"), volume, locked)->verdict, LossVerdict::kRestore);
  EXPECT_THAT(Now(), ElementsAre(Entry("n2", "b"), Entry("n1", "a")));
  // The other one is kept out until this one ends.
  const auto kept = On("n2").Acquire(Wants("n2", "b"), Context(), {There});
  EXPECT_EQ(kept.status().code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(On("n1").Release("pv-1", Entry("n1", "a")).ok());
  EXPECT_TRUE(On("n2").Acquire(Wants("n2", "b"), Context(), {There}).ok());
}

TEST_F(FenceTest, WhatAPersonTookAwayIsNotWrittenAgain) {
  ASSERT_TRUE(On("n1").Acquire(Wants("n1", "a"), Context(), {There}).ok());
  // The agent may see what it owes while the fence is still there; then it must not think that its
  // pod rightly has the volume.
  client_.FailNext("delete", "volumefences", Error(StatusCode::kUnavailable, "down"));
  EXPECT_FALSE(BreakFence(client_, api::VolumeName("pv-1"), "by hand").ok());
  EXPECT_FALSE(*On("n1").HasEntry("pv-1", Entry("n1", "a")));
  ASSERT_TRUE(BreakFence(client_, api::VolumeName("pv-1"), "by hand").ok());
  const auto decision =
      On("n1").Restore(Wants("n1", "a"), Context().volume, [] { return BackendFact::kLocked; });
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_EQ(decision->verdict, LossVerdict::kTaken);
  EXPECT_THAT(Now(), IsEmpty());
}

// An agent may not change what another node has to do, so it leaves such entries alone.
TEST_F(FenceTest, WhatANodeOwesAlreadyStaysAsItIs) {
  ASSERT_TRUE(On("n1").Acquire(Wants("n1", "a"), Context(), {There}).ok());
  api::CleanupEntry known{.volume = "pv-1", .attachment = Entry("n1", "a"), .reason = "earlier"};
  api::CleanupEntry wrong = known;
  wrong.attachment.mount_dir = "/elsewhere";
  ASSERT_TRUE(AddCleanups(client_, "n1", {wrong, known}).ok());
  const auto taken = On("n2").Acquire(Wants("n2", "b"), Context(), {Gone});
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_THAT(client_.Peek<api::NodeCleanup>("", "n1")->entries(), ElementsAre(wrong, known));
  // Each is worked off by itself.
  ASSERT_TRUE(RemoveCleanup(ClientOf("n1"), api::NodeName("n1"), wrong).ok());
  EXPECT_THAT(client_.Peek<api::NodeCleanup>("", "n1")->entries(), ElementsAre(known));
}

TEST_F(FenceTest, BreakingItByHandOwesEachNodeACleanup) {
  FenceRequest one = Wants("n1", "a"), two = Wants("n2", "b");
  for (FenceRequest* request : {&one, &two}) {
    request->sharing = Sharing::kAllNodes;
    ASSERT_TRUE(On(request->entry.node).Acquire(*request, Context(), {There}).ok());
  }
  const auto broken = BreakFence(client_, api::VolumeName("pv-1"), "by hand");
  ASSERT_TRUE(broken.ok()) << broken.status();
  EXPECT_THAT(*broken, SizeIs(2));
  EXPECT_THAT(Now(), IsEmpty());
  EXPECT_THAT(client_.Peek<api::NodeCleanup>("", "n1")->entries(), SizeIs(1));
  EXPECT_THAT(client_.Peek<api::NodeCleanup>("", "n2")->entries(), SizeIs(1));
  const auto again = BreakFence(client_, api::VolumeName("pv-1"), "again");
  EXPECT_EQ(again.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(base::Message(again.status())), Not(HasSubstr("no pod uses it")))
      << "without a fence this is not known";
  ASSERT_TRUE(RemoveCleanup(client_, api::NodeName("n1"),
                            {.volume = "pv-1", .attachment = Entry("n1", "a")})
                  .ok());
  EXPECT_TRUE(client_.Peek(api::kinds::kNodeCleanup, "", "n1").is_null());
}

// --- What is known of an old consumer ---

class ConsumersTest : public FenceTest {
 protected:
  void AddPod(const std::string& uid, bool deleting, const std::string& controller) {
    Json pod = {{"apiVersion", "v1"},
                {"kind", "Pod"},
                {"metadata", {{"name", "db-0"}, {"namespace", "default"}, {"uid", uid}}}};
    if (deleting) pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
    if (!controller.empty()) {
      pod["metadata"]["ownerReferences"] = Json::array(
          {{{"kind", "StatefulSet"}, {"name", "db"}, {"uid", controller}, {"controller", true}}});
    }
    client_.Add(pod);
  }
  void AddNode(const std::string& taint = "") {
    Json node = {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", "n2"}}}};
    if (!taint.empty()) node["spec"]["taints"] = Json::array({{{"key", taint}}});
    client_.Add(node);
  }
  void AddLease(const std::string& renewed, int64_t seconds = 40) {
    client_.Add({{"apiVersion", "coordination.k8s.io/v1"},
                 {"kind", "Lease"},
                 {"metadata", {{"name", "n2"}, {"namespace", "kube-node-lease"}}},
                 {"spec", {{"renewTime", renewed}, {"leaseDurationSeconds", seconds}}}});
  }
  ConsumerFacts Find(const std::string& pod_uid = "old") {
    return consumers_.Find(api::VolumeName("pv-1"), Entry("n2", pod_uid), "set-1",
                           {.fences_nodes = fences_nodes_, .find_lock = [this](const auto& node) {
                              EXPECT_EQ(node.text(), "n2");
                              ++asked_;
                              return BackendFact::kNoLock;
                            }});
  }

  Consumers::Time now_{};
  int asked_ = 0;
  bool fences_nodes_ = false;
  Consumers consumers_{ClientOf("n1"), {.now = [this] { return now_; }}};
};

TEST_F(ConsumersTest, NoSilenceIsWaitedForWhereTheStorageFences) {
  fences_nodes_ = true;
  AddLease("2026-01-01T00:00:00.000000Z");
  EXPECT_EQ(Find().backend, BackendFact::kFences);
  EXPECT_EQ(Find().node, NodeFact::kGone);
  EXPECT_EQ(Find().lease, LeaseFact::kUnknown);
  EXPECT_EQ(asked_, 0) << "nor is a lock of the image asked for";
  // A pod that is there uses its volume by right.
  AddPod("old", false, "set-1");
  EXPECT_EQ(Find().backend, BackendFact::kUnknown);
}

TEST_F(ConsumersTest, APodIsItsUid) {
  AddNode();
  EXPECT_EQ(Find().pod, PodFact::kGone);
  AddPod("old", false, "set-1");
  EXPECT_EQ(Find().pod, PodFact::kThere);
  AddPod("old", true, "set-1");
  EXPECT_EQ(Find().pod, PodFact::kMoved);
  AddPod("old", true, "set-2");
  EXPECT_EQ(Find().pod, PodFact::kThere) << "another workload's";
  AddPod("new", false, "set-1");
  EXPECT_EQ(Find().pod, PodFact::kGone);
  client_.FailNext("get", "pods", Error(StatusCode::kUnavailable, "down"));
  EXPECT_EQ(Find().pod, PodFact::kUnknown);
}

TEST_F(ConsumersTest, APodThatHasStartedShowsThatItsVolumeIsInUse) {
  const api::PersistentVolume volume(
      Json{{"metadata", {{"name", "pv-1"}}},
           {"spec", {{"claimRef", {{"namespace", "default"}, {"name", "claim"}}}}}});
  const auto add = [&](const std::string& node, const Json& status, const std::string& claim) {
    client_.Add(
        {{"apiVersion", "v1"},
         {"kind", "Pod"},
         {"metadata", {{"name", "db-0"}, {"namespace", "default"}, {"uid", "a"}}},
         {"spec",
          {{"nodeName", node},
           {"volumes",
            Json::array({{{"name", "v"}, {"persistentVolumeClaim", {{"claimName", claim}}}}})}}},
         {"status", status}});
    const auto found = FindStartedPods(client_, volume, "n1");
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() && !found->empty();
  };
  const auto container = [](const char* kind, const char* state) {
    return Json{{"phase", "Pending"},
                {kind, Json::array({{{"state", {{state, Json::object()}}}}})}};
  };
  EXPECT_TRUE(add("n2", {{"phase", "Running"}}, "claim"));
  EXPECT_TRUE(add("n2", container("initContainerStatuses", "running"), "claim"));
  EXPECT_TRUE(add("n2", container("initContainerStatuses", "terminated"), "claim"));
  EXPECT_FALSE(add("n2", container("containerStatuses", "waiting"), "claim"));
  EXPECT_FALSE(add("n2", {{"phase", "Succeeded"}}, "claim"));
  EXPECT_FALSE(add("n2", {{"phase", "Running"}}, "another"));
  EXPECT_FALSE(add("n1", {{"phase", "Running"}}, "claim")) << "this node has its own records";
  EXPECT_FALSE(add("", {{"phase", "Running"}}, "claim"));
  // A person broke its fence, and its node has still to take it off, perhaps for ever.
  ASSERT_TRUE(
      AddCleanups(client_, "n2", {{.volume = "pv-1", .attachment = Entry("n2", "a")}}).ok());
  EXPECT_FALSE(add("n2", {{"phase", "Running"}}, "claim"));
  client_.FailNext("list", "pods", Error(StatusCode::kUnavailable, "down"));
  EXPECT_FALSE(FindStartedPods(client_, volume, "n1").ok());
}

TEST_F(ConsumersTest, ANodeIsThereOutOfServiceOrGone) {
  AddNode();
  EXPECT_EQ(Find().node, NodeFact::kThere);
  AddNode("node.kubernetes.io/unreachable");
  EXPECT_EQ(Find().node, NodeFact::kThere);
  AddNode("node.kubernetes.io/out-of-service");
  EXPECT_EQ(Find().node, NodeFact::kOutOfService);
  client_.Remove(api::kinds::kNode, "", "n2");
  EXPECT_EQ(Find().node, NodeFact::kGone);
  client_.FailNext("get", "nodes", Error(StatusCode::kUnavailable, "down"));
  EXPECT_EQ(Find().node, NodeFact::kUnknown);
}

TEST_F(ConsumersTest, ALeaseExpiresWhileItIsWatched) {
  AddLease("2026-01-01T00:00:00.000000Z");
  ConsumerFacts facts = Find();
  EXPECT_EQ(facts.lease, LeaseFact::kAlive) << "an old time is another clock's word";
  EXPECT_THAT(facts.note, HasSubstr("45 s"));
  now_ += kLeaseTime - std::chrono::seconds(1);
  EXPECT_EQ(Find().lease, LeaseFact::kAlive);
  EXPECT_EQ(asked_, 0);
  AddLease("2026-01-01T00:00:10.000000Z");
  now_ += std::chrono::seconds(2);
  EXPECT_EQ(Find().lease, LeaseFact::kAlive) << "it was renewed";
  now_ += kLeaseTime;
  facts = Find();
  EXPECT_EQ(facts.lease, LeaseFact::kExpired);
  EXPECT_EQ(facts.backend, BackendFact::kNoLock);
  EXPECT_EQ(asked_, 1);
}

TEST_F(ConsumersTest, ALeaseThatWentWithItsNodeIsWatchedAsLong) {
  EXPECT_EQ(Find().lease, LeaseFact::kAlive);
  now_ += kLeaseTime;
  EXPECT_EQ(Find().lease, LeaseFact::kExpired);
  // The node's agent makes it anew: the machine runs.
  AddLease("2026-01-01T00:00:50.000000Z");
  EXPECT_EQ(Find().lease, LeaseFact::kAlive);
}

TEST_F(ConsumersTest, ALeaseIsWatchedForAsLongAsItPromises) {
  constexpr std::chrono::seconds kPromised{120};
  AddLease("2026-01-01T00:00:00.000000Z", kPromised.count());
  EXPECT_EQ(Find().lease, LeaseFact::kAlive);
  now_ += kPromised - std::chrono::seconds(1);
  EXPECT_EQ(Find().lease, LeaseFact::kAlive);
  // What it said counts when it is gone, too.
  client_.Remove(api::kinds::kLease, "kube-node-lease", "n2");
  EXPECT_EQ(Find().lease, LeaseFact::kAlive);
  now_ += kPromised - std::chrono::seconds(1);
  EXPECT_EQ(Find().lease, LeaseFact::kAlive);
  now_ += std::chrono::seconds(1);
  EXPECT_EQ(Find().lease, LeaseFact::kExpired);
}

TEST_F(ConsumersTest, ANodeThatCameBackInBetweenIsWatchedAnew) {
  EXPECT_EQ(Find().lease, LeaseFact::kAlive);
  AddNode();
  now_ += kLeaseTime;
  EXPECT_EQ(Find().node, NodeFact::kThere);
  client_.Remove(api::kinds::kNode, "", "n2");
  EXPECT_EQ(Find().lease, LeaseFact::kAlive);
  now_ += kLeaseTime;
  EXPECT_EQ(Find().lease, LeaseFact::kExpired);
}

TEST_F(ConsumersTest, WhoeverCameAfterAnEarlierDeathIsWatchedAnew) {
  EXPECT_EQ(Find("first").lease, LeaseFact::kAlive);
  now_ += kLeaseTime;
  EXPECT_EQ(Find("first").lease, LeaseFact::kExpired);
  // The node was back for this one, which nobody here was told.
  EXPECT_EQ(Find("second").lease, LeaseFact::kAlive);
  now_ += kLeaseTime;
  EXPECT_EQ(Find("second").lease, LeaseFact::kExpired);
}

TEST_F(ConsumersTest, ANodeThatNobodyAskedAboutForLongIsWatchedAnew) {
  EXPECT_EQ(Find().lease, LeaseFact::kAlive);
  now_ += std::chrono::hours(1);
  EXPECT_EQ(Find().lease, LeaseFact::kAlive) << "it may have been there in between";
  now_ += kLeaseTime;
  EXPECT_EQ(Find().lease, LeaseFact::kExpired);
}

}  // namespace
}  // namespace berth::blockagent
