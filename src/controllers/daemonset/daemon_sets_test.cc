#include "controllers/daemonset/daemon_sets.h"

#include <gmock/gmock.h>

#include <set>

#include "api/time.h"
#include "controllers/daemonset/fake_daemon_set.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::daemonset {
namespace {

using base::Json;
using base::StatusCode;
using std::chrono::milliseconds;
using ::testing::SizeIs;

class DaemonSetsTest : public ::testing::Test {
 protected:
  void Begin() {
    cluster_.Add<DaemonSets>(
        Options{.failed_start = milliseconds(50), .failed_max = milliseconds(400)});
    cluster_.Start();
  }
  void AddNodes(const std::vector<std::string>& names) {
    for (const std::string& name : names) cluster_.Put(MakeNode(name));
  }
  void AddSet(const Json& more = nullptr) { cluster_.Put(MakeDaemonSet("log", more)); }
  api::DaemonSet GetSet() { return cluster_.Get<api::DaemonSet>("default", "log"); }
  void ChangeTemplate(const std::string& image) {
    ASSERT_TRUE(
        cluster_.client
            .Patch(api::kinds::kDaemonSet, "default", "log", kube::PatchType::kMerge,
                   {{"spec",
                     {{"template",
                       {{"spec", {{"containers", {{{"name", "main"}, {"image", image}}}}}}}}}}},
                   "")
            .ok());
  }
  std::vector<api::Pod> Pods() {
    std::vector<api::Pod> pods;
    for (const Json& pod : cluster_.client.PeekAll(api::kinds::kPod)) pods.emplace_back(pod);
    return pods;
  }
  // "node=image" of the pods that are not being deleted.
  std::multiset<std::string> Placed() {
    std::multiset<std::string> placed;
    for (const api::Pod& pod : Pods()) {
      if (!pod.deleting()) {
        placed.insert(fmt::format("{}={}", TargetNode(pod), pod.containers().at(0).image()));
      }
    }
    return placed;
  }
  bool WaitPlaced(const std::multiset<std::string>& wanted) {
    const bool reached = cluster_.WaitUntil([&] { return Placed() == wanted; });
    EXPECT_THAT(Placed(), ::testing::ContainerEq(wanted));
    return reached;
  }
  // What scheduler and node agent do: the pod is on its node, and ready.
  void Run(const std::string& phase = "Running") {
    for (api::Pod& pod : Pods()) {
      if (pod.deleting() || !pod.node_name().empty()) continue;
      pod.Set({"spec", "nodeName"}, TargetNode(pod));
      pod.Set({"status"}, {{"phase", phase},
                           {"conditions",
                            {{{"type", "Ready"},
                              {"status", phase == "Running" ? "True" : "False"},
                              {"lastTransitionTime", api::FormatTime(cluster_.clock.Now())}}}}});
      cluster_.Put(pod);
    }
  }
  // The node agents have ended what is being deleted.
  void EndDeleted() {
    for (const api::Pod& pod : Pods()) {
      if (pod.deleting()) cluster_.client.Remove(api::kinds::kPod, "default", pod.name());
    }
  }
  std::vector<api::ControllerRevision> Revisions() {
    std::vector<api::ControllerRevision> all;
    for (const Json& one : cluster_.client.PeekAll(api::kinds::kControllerRevision)) {
      all.emplace_back(one);
    }
    return all;
  }
  bool WaitStatus(const std::string& field, int64_t value) {
    const bool reached =
        cluster_.WaitUntil([&] { return GetSet().Int({"status", field}, -1) == value; });
    EXPECT_EQ(GetSet().Int({"status", field}, -1), value) << field;
    return reached;
  }
  bool Never(const std::function<bool()>& condition) {
    return !cluster_.client.WaitUntil(condition, milliseconds(150));
  }

  FakeCluster cluster_;
};

TEST_F(DaemonSetsTest, EveryNodeGetsOnePodAndTheStatusSaysSo) {
  AddNodes({"a", "b"});
  AddSet();
  Begin();
  ASSERT_TRUE(WaitPlaced({"a=one", "b=one"}));
  EXPECT_TRUE(cluster_.events.WaitFor("Normal SuccessfulCreate default/log: Created pod: log-", 2));
  EXPECT_TRUE(WaitStatus("desiredNumberScheduled", 2));
  EXPECT_TRUE(WaitStatus("currentNumberScheduled", 2));
  EXPECT_TRUE(WaitStatus("numberUnavailable", 2));
  EXPECT_TRUE(WaitStatus("observedGeneration", 1));
  Run();
  EXPECT_TRUE(WaitStatus("numberReady", 2));
  EXPECT_TRUE(WaitStatus("numberAvailable", 2));
  EXPECT_TRUE(WaitStatus("updatedNumberScheduled", 2));
  AddNodes({"c"});
  ASSERT_TRUE(WaitPlaced({"a=one", "b=one", "c=one"}));
}

TEST_F(DaemonSetsTest, ANodeThatDoesNotFitAnyMoreLosesItsPod) {
  AddNodes({"b"});
  cluster_.Put(MakeNode("a", {{"metadata", {{"labels", {{"role", "log"}}}}}}));
  AddSet({{"spec", {{"template", {{"spec", {{"nodeSelector", {{"role", "log"}}}}}}}}}});
  Begin();
  ASSERT_TRUE(WaitPlaced({"a=one"}));
  Run();
  ASSERT_TRUE(WaitStatus("numberReady", 1));
  cluster_.Put(MakeNode("a"));
  ASSERT_TRUE(WaitPlaced({}));
  EXPECT_TRUE(cluster_.events.WaitFor("Normal SuccessfulDelete default/log: Deleted pod: log-"));
  EXPECT_TRUE(WaitStatus("desiredNumberScheduled", 0));
  EXPECT_TRUE(WaitStatus("numberMisscheduled", 1));
  EndDeleted();
  EXPECT_TRUE(WaitStatus("numberMisscheduled", 0));
}

TEST_F(DaemonSetsTest, APodForANodeThatIsNoMoreGoes) {
  AddNodes({"a", "b"});
  AddSet();
  Begin();
  ASSERT_TRUE(WaitPlaced({"a=one", "b=one"}));
  cluster_.client.Remove(api::kinds::kNode, "", "b");
  EXPECT_TRUE(WaitPlaced({"a=one"}));
}

TEST_F(DaemonSetsTest, OrphansThatMatchAreAdoptedAndStrangersReleased) {
  AddNodes({"a"});
  AddSet();
  cluster_.Put(MakePod("orphan", "",
                       {{"metadata", {{"labels", {{"app", "log"}}}}},
                        {"spec", {{"nodeName", "a"}, {"containers", {{{"image", "one"}}}}}}}));
  Json other = MakePod("stranger", "",
                       {{"metadata", {{"labels", {{"app", "another"}}}}},
                        {"spec", {{"nodeName", "a"}, {"containers", {{{"image", "x"}}}}}}});
  other["metadata"]["ownerReferences"] =
      Json::array({ControllerReference(api::DaemonSet(MakeDaemonSet("log")))});
  cluster_.Put(other);
  Begin();
  ASSERT_TRUE(cluster_.WaitUntil([&] {
    const auto owner = cluster_.Get<api::Pod>("default", "orphan").controller();
    return owner && owner->uid == "uid-log" &&
           cluster_.Get<api::Pod>("default", "stranger").owner_references().empty();
  }));
  // It is of no known revision: it is replaced, as it is not available.
  EXPECT_TRUE(
      cluster_.WaitUntil([&] { return cluster_.Get<api::Pod>("default", "orphan").deleting(); }));
  EXPECT_FALSE(cluster_.Get<api::Pod>("default", "stranger").deleting());
}

TEST_F(DaemonSetsTest, ASetThatIsBeingDeletedTouchesNothing) {
  AddNodes({"a"});
  AddSet(
      {{"metadata",
        {{"deletionTimestamp", "2026-01-01T00:00:00Z"}, {"finalizers", {"foregroundDeletion"}}}}});
  cluster_.Put(MakePod("orphan", "", {{"metadata", {{"labels", {{"app", "log"}}}}}}));
  Begin();
  EXPECT_TRUE(Never([&] { return !cluster_.client.ActionNames().empty(); }));
}

TEST_F(DaemonSetsTest, AnEmptySelectorSelectsNothing) {
  AddNodes({"a"});
  AddSet({{"spec", {{"selector", {{"matchLabels", nullptr}}}}}});
  Begin();
  EXPECT_TRUE(cluster_.events.WaitFor("Warning SelectingAll default/log"));
  EXPECT_TRUE(Pods().empty());
}

TEST_F(DaemonSetsTest, ARollingUpdateGoesNodeByNode) {
  AddNodes({"a", "b", "c"});
  AddSet();
  Begin();
  ASSERT_TRUE(WaitPlaced({"a=one", "b=one", "c=one"}));
  Run();
  ASSERT_TRUE(WaitStatus("numberAvailable", 3));
  ChangeTemplate("two");
  ASSERT_TRUE(WaitPlaced({"b=one", "c=one"}));
  EXPECT_TRUE(Never([&] { return Placed().size() != 2; }));
  EndDeleted();
  ASSERT_TRUE(WaitPlaced({"a=two", "b=one", "c=one"}));
  EXPECT_TRUE(Never([&] { return Placed().size() != 3; }));  // until the new one is available
  Run();
  ASSERT_TRUE(WaitPlaced({"a=two", "c=one"}));
  EndDeleted();
  ASSERT_TRUE(WaitPlaced({"a=two", "b=two", "c=one"}));
  Run();
  ASSERT_TRUE(WaitPlaced({"a=two", "b=two"}));
  EndDeleted();
  ASSERT_TRUE(WaitPlaced({"a=two", "b=two", "c=two"}));
  Run();
  EXPECT_TRUE(WaitStatus("updatedNumberScheduled", 3));
  EXPECT_TRUE(WaitStatus("observedGeneration", 2));
  EXPECT_THAT(Revisions(), SizeIs(2));
}

TEST_F(DaemonSetsTest, WithSurgeTheSuccessorIsThereFirst) {
  AddNodes({"a"});
  AddSet({{"spec",
           {{"updateStrategy", {{"rollingUpdate", {{"maxSurge", 1}, {"maxUnavailable", 0}}}}}}}});
  Begin();
  ASSERT_TRUE(WaitPlaced({"a=one"}));
  Run();
  ASSERT_TRUE(WaitStatus("numberAvailable", 1));
  ChangeTemplate("two");
  ASSERT_TRUE(WaitPlaced({"a=one", "a=two"}));
  EXPECT_TRUE(Never([&] { return Placed().size() != 2; }));
  Run();
  ASSERT_TRUE(WaitPlaced({"a=two"}));
  EndDeleted();
  EXPECT_TRUE(WaitStatus("updatedNumberScheduled", 1));
}

TEST_F(DaemonSetsTest, OnDeleteWaitsForAPerson) {
  AddNodes({"a"});
  AddSet({{"spec", {{"updateStrategy", {{"type", "OnDelete"}, {"rollingUpdate", nullptr}}}}}});
  Begin();
  ASSERT_TRUE(WaitPlaced({"a=one"}));
  Run();
  ChangeTemplate("two");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Revisions().size() == 2; }));
  EXPECT_TRUE(WaitStatus("updatedNumberScheduled", 0));
  EXPECT_TRUE(Never([&] { return Placed() != std::multiset<std::string>{"a=one"}; }));
  cluster_.client.Remove(api::kinds::kPod, "default", Pods().at(0).name());
  EXPECT_TRUE(WaitPlaced({"a=two"}));
}

TEST_F(DaemonSetsTest, APodThatIsReadyForTooShortHoldsTheUpdate) {
  AddNodes({"a", "b"});
  AddSet({{"spec", {{"minReadySeconds", 1}}}});
  Begin();
  ASSERT_TRUE(WaitPlaced({"a=one", "b=one"}));
  Run();
  ASSERT_TRUE(WaitStatus("numberReady", 2));
  EXPECT_TRUE(WaitStatus("numberAvailable", 0));
  cluster_.clock.Advance(std::chrono::seconds(2));
  // Nothing tells the controller but the time that it set itself.
  EXPECT_TRUE(WaitStatus("numberAvailable", 2));
}

TEST_F(DaemonSetsTest, AFailedPodIsReplacedAfterAPauseThatGrows) {
  AddNodes({"a"});
  AddSet();
  Begin();
  ASSERT_TRUE(WaitPlaced({"a=one"}));
  const auto began = std::chrono::steady_clock::now();
  for (int failures = 1; failures <= 3; ++failures) {
    Run("Failed");
    ASSERT_TRUE(cluster_.events.WaitFor("Warning FailedDaemonPod default/log", failures));
    EndDeleted();
    ASSERT_TRUE(cluster_.WaitUntil([&] {
      const auto pods = Pods();
      return pods.size() == 1 && pods[0].phase() == "Pending";
    }));
  }
  // The first at once, the second after 50 ms, the third after 100 ms more.
  EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds(150));
}

TEST_F(DaemonSetsTest, ARefusedPodIsToldOfAndTriedAgain) {
  AddNodes({"a"});
  cluster_.client.FailNext("create", "pods",
                           base::Error(StatusCode::kPermissionDenied, "over the quota"));
  AddSet();
  Begin();
  EXPECT_TRUE(
      cluster_.events.WaitFor("Warning FailedCreate default/log: Error creating: over the quota"));
  EXPECT_TRUE(WaitPlaced({"a=one"}));
}

TEST_F(DaemonSetsTest, AnAnswerThatIsLostLeavesOnePodANode) {
  AddNodes({"a"});
  cluster_.client.LoseNextAnswer("create", "pods", base::Error(StatusCode::kUnavailable, "lost"));
  AddSet();
  Begin();
  ASSERT_TRUE(WaitPlaced({"a=one"}));
  EXPECT_TRUE(Never([&] { return Placed().size() != 1; }));
}

TEST_F(DaemonSetsTest, GoingBackTakesUpTheOldRevision) {
  AddNodes({"a"});
  AddSet();
  Begin();
  ASSERT_TRUE(WaitPlaced({"a=one"}));
  ASSERT_THAT(Revisions(), SizeIs(1));
  const std::string first = Revisions()[0].name();
  EXPECT_EQ(Revisions()[0].revision(), 1);
  EXPECT_EQ(first, "log-" + Pods().at(0).label("controller-revision-hash"));
  ChangeTemplate("two");
  ASSERT_TRUE(WaitPlaced({"a=two"}));  // the old one ran nowhere, and is gone
  ChangeTemplate("one");
  ASSERT_TRUE(WaitPlaced({"a=one"}));
  ASSERT_THAT(Revisions(), SizeIs(2));
  EXPECT_EQ(cluster_.Get<api::ControllerRevision>("default", first).revision(), 3);
  EXPECT_EQ("log-" + Pods().at(0).label("controller-revision-hash"), first);
}

TEST_F(DaemonSetsTest, OldRevisionsBeyondTheLimitGoUnlessAPodIsOfOne) {
  AddNodes({"a"});
  AddSet({{"spec", {{"revisionHistoryLimit", 1}, {"updateStrategy", {{"type", "OnDelete"}}}}}});
  Begin();
  ASSERT_TRUE(WaitPlaced({"a=one"}));
  Run();
  const std::string in_use = Revisions().at(0).name();
  for (const char* image : {"two", "three", "four"}) {
    ChangeTemplate(image);
    ASSERT_TRUE(cluster_.WaitUntil([&] {
      for (const auto& revision : Revisions()) {
        if (base::json::Dump(revision.data()).find(image) != std::string::npos) return true;
      }
      return false;
    }));
  }
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Revisions().size() == 2; }));
  EXPECT_TRUE(cluster_.Has<api::ControllerRevision>("default", in_use));
}

TEST_F(DaemonSetsTest, ANameThatIsTakenIsPassedBy) {
  AddNodes({"a"});
  AddSet();
  {
    // Learns the name that the template's revision will want.
    FakeCluster other;
    other.Add<DaemonSets>();
    other.client.Add(MakeDaemonSet("log"));
    other.Start();
    ASSERT_TRUE(other.WaitUntil(
        [&] { return !other.client.PeekAll(api::kinds::kControllerRevision).empty(); }));
    Json taken = other.client.PeekAll(api::kinds::kControllerRevision)[0];
    taken["data"] = {{"spec", "of somebody else"}};
    taken["metadata"].erase("ownerReferences");
    taken["metadata"]["labels"] = {{"app", "somebody"}};
    cluster_.Put(taken);
  }
  Begin();
  ASSERT_TRUE(WaitPlaced({"a=one"}));
  EXPECT_EQ(GetSet().collision_count(), 1);
  EXPECT_THAT(Revisions(), SizeIs(2));
}

TEST_F(DaemonSetsTest, TwoRevisionsOfOneTemplateBecomeOne) {
  AddNodes({"a"});
  AddSet();
  Begin();
  ASSERT_TRUE(WaitPlaced({"a=one"}));
  Json twin = Revisions().at(0).json();
  twin["metadata"]["name"] = "log-twin";
  twin["metadata"].erase("uid");
  twin["metadata"]["labels"]["controller-revision-hash"] = "twin";
  twin["revision"] = 2;
  cluster_.Put(twin);
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Revisions().size() == 1; }));
  EXPECT_EQ(Revisions()[0].name(), "log-twin");
  EXPECT_TRUE(
      cluster_.WaitUntil([&] { return Pods().at(0).label("controller-revision-hash") == "twin"; }));
  EXPECT_TRUE(Never([&] { return Placed() != std::multiset<std::string>{"a=one"}; }));
}

}  // namespace
}  // namespace berth::controllers::daemonset
