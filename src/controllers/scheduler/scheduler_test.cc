#include "controllers/scheduler/scheduler.h"

#include <gmock/gmock.h>

#include "api/kinds/csi_names.h"
#include "controllers/fake_snapshots.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::scheduler {
namespace {

using base::Json;
using base::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Claim = api::PersistentVolumeClaim;
using Volume = api::PersistentVolume;

Json Zone(const std::string& zone) { return {{"metadata", {{"labels", {{"zone", zone}}}}}}; }

Json InZone(const std::string& zone) {
  return {{"spec",
           {{"nodeAffinity",
             {{"required",
               {{"nodeSelectorTerms",
                 {{{"matchExpressions",
                    {{{"key", "zone"}, {"operator", "In"}, {"values", {zone}}}}}}}}}}}}}}};
}

class SchedulerTest : public ::testing::Test {
 protected:
  void Begin() {
    Options options;
    options.retry_start = std::chrono::milliseconds(5);
    options.retry_max = std::chrono::milliseconds(20);
    cluster_.Add<Scheduler>(options);
    cluster_.Put(MakeClass("late", {{"volumeBindingMode", "WaitForFirstConsumer"}}));
    cluster_.Put(MakeClass("by-hand", {{"volumeBindingMode", "WaitForFirstConsumer"},
                                       {"provisioner", std::string(api::kNoProvisioner)}}));
    cluster_.Start();
  }
  void AddNodes() {
    cluster_.Put(MakeNode("node-a", Zone("a")));
    cluster_.Put(MakeNode("node-b", Zone("b")));
  }
  static Json Late() { return {{"spec", {{"storageClassName", "late"}}}}; }

  api::Pod GetPod(const std::string& name) { return cluster_.Get<api::Pod>("default", name); }
  Claim GetClaim(const std::string& name) { return cluster_.Get<Claim>("default", name); }
  std::string WaitNode(const std::string& pod) {
    EXPECT_TRUE(cluster_.WaitUntil([&] { return !GetPod(pod).node_name().empty(); })) << pod;
    return GetPod(pod).node_name();
  }
  std::string WaitSelected(const std::string& claim) {
    EXPECT_TRUE(cluster_.WaitUntil([&] { return GetClaim(claim).has_annotation(kSelectedNode); }));
    return GetClaim(claim).annotation(kSelectedNode);
  }
  // The message of condition PodScheduled, once it holds `text`.
  bool WaitUnschedulable(const std::string& pod, const std::string& text) {
    const bool found = cluster_.WaitUntil([&] {
      const api::Pod object = GetPod(pod);
      const Json* condition = object.condition("PodScheduled");
      return condition != nullptr &&
             base::json::String(*condition, {"message"}).find(text) != std::string::npos;
    });
    const api::Pod object = GetPod(pod);
    const Json* condition = object.condition("PodScheduled");
    EXPECT_TRUE(found) << (condition == nullptr ? "no condition" : condition->dump());
    return found;
  }
  // What binder and provisioner do for a claim with a selected node.
  void BindClaim(const std::string& claim, const Json& volume_more = nullptr) {
    cluster_.Put(MakeVolume("pv-" + claim, Merged(BoundVolume(claim), volume_more)));
    Claim object = GetClaim(claim);
    object.mutable_json().merge_patch(BoundClaim("pv-" + claim));
    cluster_.Put(object);
  }

  FakeCluster cluster_;
};

TEST_F(SchedulerTest, SpreadsPodsAndThenGoesByName) {
  AddNodes();
  Begin();
  cluster_.Put(MakePod("one", ""));
  EXPECT_EQ(WaitNode("one"), "node-a");
  cluster_.Put(MakePod("two", ""));
  EXPECT_EQ(WaitNode("two"), "node-b");
  cluster_.Put(MakePod("three", ""));
  EXPECT_EQ(WaitNode("three"), "node-a");
  EXPECT_TRUE(cluster_.events.WaitFor(
      "Normal Scheduled default/one: Successfully assigned default/one to node-a"));
}

TEST_F(SchedulerTest, LeavesAloneWhatIsNotItsOwn) {
  AddNodes();
  Begin();
  cluster_.Put(MakePod("placed", "", {{"spec", {{"nodeName", "elsewhere"}}}}));
  cluster_.Put(MakePod("theirs", "", {{"spec", {{"schedulerName", "another"}}}}));
  cluster_.Put(MakePod("gated", "", {{"spec", {{"schedulingGates", {{{"name", "wait"}}}}}}}));
  cluster_.Put(MakePod("one", ""));
  WaitNode("one");
  EXPECT_EQ(GetPod("placed").node_name(), "elsewhere");
  EXPECT_EQ(GetPod("theirs").node_name(), "");
  EXPECT_EQ(GetPod("gated").node_name(), "");
}

TEST_F(SchedulerTest, SaysWhyNoNodeWillDoAndPlacesThePodWhenOneDoes) {
  cluster_.Put(MakeNode(
      "node-down", {{"status", {{"conditions", {{{"type", "Ready"}, {"status", "False"}}}}}}}));
  cluster_.Put(MakeNode("node-cordoned", {{"spec", {{"unschedulable", true}}}}));
  cluster_.Put(MakeNode(
      "node-tainted",
      {{"spec", {{"taints", {{{"key", "gpu"}, {"value", "yes"}, {"effect", "NoSchedule"}}}}}}}));
  Begin();
  cluster_.Put(MakePod("web", ""));
  const std::string message =
      "0/3 nodes are available: 1 node(s) had untolerated taint {gpu: yes}, 1 node(s) were not "
      "ready, 1 node(s) were unschedulable.";
  ASSERT_TRUE(WaitUnschedulable("web", message));
  EXPECT_TRUE(cluster_.events.WaitFor("Warning FailedScheduling default/web: " + message));
  const api::Pod pod = GetPod("web");
  EXPECT_EQ(base::json::String(*pod.condition("PodScheduled"), {"reason"}), "Unschedulable");
  EXPECT_EQ(base::json::String(*pod.condition("PodScheduled"), {"status"}), "False");

  cluster_.Put(MakeNode("node-down"));
  EXPECT_EQ(WaitNode("web"), "node-down");
}

TEST_F(SchedulerTest, WithoutNodesThePodWaitsForOne) {
  Begin();
  cluster_.Put(MakePod("web", ""));
  ASSERT_TRUE(WaitUnschedulable("web", "0/0 nodes are available: no node is registered."));
  AddNodes();
  EXPECT_EQ(WaitNode("web"), "node-a");
}

TEST_F(SchedulerTest, TolerationsSelectorsAndAffinityCount) {
  cluster_.Put(MakeNode(
      "node-a",
      Merged(Zone("a"),
             {{"spec",
               {{"taints", {{{"key", "gpu"}, {"value", "yes"}, {"effect", "NoSchedule"}}}}}}})));
  cluster_.Put(MakeNode("node-b", Zone("b")));
  cluster_.Put(MakeNode("node-c", Zone("c")));
  Begin();
  cluster_.Put(MakePod("tolerant", "",
                       {{"spec", {{"tolerations", {{{"key", "gpu"}, {"operator", "Exists"}}}}}}}));
  EXPECT_EQ(WaitNode("tolerant"), "node-a");
  cluster_.Put(MakePod("selected", "", {{"spec", {{"nodeSelector", {{"zone", "c"}}}}}}));
  EXPECT_EQ(WaitNode("selected"), "node-c");
  const Json affinity = Json::parse(
      R"({"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":
         {"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"NotIn",
          "values":["a","b"]}]}]}}}}})");
  cluster_.Put(MakePod("affine", "", affinity));
  EXPECT_EQ(WaitNode("affine"), "node-c");
  cluster_.Put(MakePod("nowhere", "", {{"spec", {{"nodeSelector", {{"zone", "x"}}}}}}));
  EXPECT_TRUE(WaitUnschedulable("nowhere", "2 node(s) didn't match Pod's node affinity/selector"));
}

TEST_F(SchedulerTest, ABoundVolumeDecidesWhere) {
  AddNodes();
  cluster_.Put(MakeVolume("pv-1", Merged(BoundVolume("data"), InZone("b"))));
  cluster_.Put(MakeClaim("data", BoundClaim("pv-1")));
  Begin();
  cluster_.Put(MakePod("web", "data"));
  EXPECT_EQ(WaitNode("web"), "node-b");
  cluster_.Put(MakePod("stuck", "data", {{"spec", {{"nodeSelector", {{"zone", "a"}}}}}}));
  EXPECT_TRUE(WaitUnschedulable(
      "stuck",
      "1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had volume node affinity "
      "conflict"));
}

TEST_F(SchedulerTest, ClaimsThatAreNotThereOrNotBoundAreWaitedFor) {
  AddNodes();
  Begin();
  cluster_.Put(MakePod("web", "data"));
  ASSERT_TRUE(WaitUnschedulable("web", "persistentvolumeclaim \"data\" not found"));
  cluster_.Put(MakeClass("fast"));
  cluster_.Put(MakeClaim("data"));
  ASSERT_TRUE(WaitUnschedulable("web", "pod has unbound immediate PersistentVolumeClaims"));
  BindClaim("data");
  EXPECT_EQ(WaitNode("web"), "node-a");
}

TEST_F(SchedulerTest, AWaitingClaimGetsTheNodeAndThePodFollowsWhenItIsBound) {
  AddNodes();
  Begin();
  cluster_.Put(MakeClaim("data", Late()));
  cluster_.Put(MakePod("web", "data"));
  EXPECT_EQ(WaitSelected("data"), "node-a");
  EXPECT_EQ(GetPod("web").node_name(), "");
  // Pods that come meanwhile see the reservation.
  cluster_.Put(MakePod("other", ""));
  EXPECT_EQ(WaitNode("other"), "node-b");
  BindClaim("data");
  EXPECT_EQ(WaitNode("web"), "node-a");
}

TEST_F(SchedulerTest, ACopyIsMadeWhereItsSourceIs) {
  AddNodes();
  ServeSnapshots(cluster_.client);
  cluster_.Put(MakeCsiNode("node-a", {"zone"}));
  cluster_.Put(MakeCsiNode("node-b", {"zone"}));
  cluster_.Put(MakeVolume("pv-1", Merged(BoundVolume("data"), InZone("b"))));
  cluster_.Put(MakeClaim("data", BoundClaim("pv-1")));
  cluster_.Put(MakeSnapshot(
      "monday", {{"status", {{"boundVolumeSnapshotContentName", "snapcontent-uid-monday"}}}}));
  cluster_.Put(
      MakeContent("monday", "handle", {{"metadata", {{"labels", {{kManagedByNode, "node-b"}}}}}}));
  Begin();
  const Json of_claim = {{"kind", "PersistentVolumeClaim"}, {"name", "data"}};
  const Json of_snapshot = {
      {"apiGroup", "snapshot.storage.k8s.io"}, {"kind", "VolumeSnapshot"}, {"name", "monday"}};
  cluster_.Put(MakeClaim("clone", Merged(Late(), {{"spec", {{"dataSource", of_claim}}}})));
  cluster_.Put(MakeClaim("restored", Merged(Late(), {{"spec", {{"dataSource", of_snapshot}}}})));
  cluster_.Put(MakePod("one", "clone"));
  EXPECT_EQ(WaitSelected("clone"), "node-b");
  cluster_.Put(MakePod("two", "restored"));
  EXPECT_EQ(WaitSelected("restored"), "node-b");
  // A node of the same zone would do as well, another would not.
  cluster_.Put(MakeClaim("elsewhere", Merged(Late(), {{"spec", {{"dataSource", of_snapshot}}}})));
  cluster_.Put(MakePod("three", "elsewhere", {{"spec", {{"nodeSelector", {{"zone", "a"}}}}}}));
  EXPECT_TRUE(WaitUnschedulable("three", "cannot reach what the volume is to be filled from"));
}

TEST_F(SchedulerTest, ANodeThatCouldNotHaveTheVolumeIsTriedLast) {
  AddNodes();
  Begin();
  cluster_.Put(MakeClaim("data", Late()));
  cluster_.Put(MakePod("web", "data"));
  ASSERT_EQ(WaitSelected("data"), "node-a");
  Claim given_up = GetClaim("data");
  base::json::Remove(given_up.mutable_json(), {"metadata", "annotations", kSelectedNode});
  cluster_.Put(given_up);
  EXPECT_EQ(WaitSelected("data"), "node-b");
}

TEST_F(SchedulerTest, AVolumeMadeByHandIsGivenToTheClaimOnItsNode) {
  AddNodes();
  cluster_.Put(
      MakeVolume("local-b", Merged(InZone("b"), {{"spec", {{"storageClassName", "by-hand"}}}})));
  Begin();
  cluster_.Put(MakeClaim("data", {{"spec", {{"storageClassName", "by-hand"}}}}));
  cluster_.Put(MakePod("web", "data"));
  ASSERT_TRUE(cluster_.WaitUntil(
      [&] { return cluster_.Get<Volume>("", "local-b").claim_uid() == "uid-data"; }));
  EXPECT_TRUE(cluster_.Get<Volume>("", "local-b").has_annotation(kBoundByController));
  EXPECT_FALSE(GetClaim("data").has_annotation(kSelectedNode));
  Claim claim = GetClaim("data");
  claim.mutable_json().merge_patch(BoundClaim("local-b"));
  cluster_.Put(claim);
  EXPECT_EQ(WaitNode("web"), "node-b");
}

TEST_F(SchedulerTest, TwoClaimsOfAPodGetTwoVolumes) {
  AddNodes();
  const Json by_hand = {{"spec", {{"storageClassName", "by-hand"}}}};
  cluster_.Put(MakeVolume("local-1", by_hand));
  Begin();
  cluster_.Put(MakeClaim("one", by_hand));
  cluster_.Put(MakeClaim("two", by_hand));
  Json pod = MakePod("web", "one");
  pod["spec"]["volumes"].push_back(
      {{"name", "more"}, {"persistentVolumeClaim", {{"claimName", "two"}}}});
  cluster_.Put(pod);
  ASSERT_TRUE(
      WaitUnschedulable("web", "2 node(s) didn't find available persistent volumes to bind"));
  cluster_.Put(MakeVolume("local-2", by_hand));
  EXPECT_TRUE(cluster_.WaitUntil([&] {
    const std::string first = cluster_.Get<Volume>("", "local-1").claim_name();
    const std::string second = cluster_.Get<Volume>("", "local-2").claim_name();
    return !first.empty() && !second.empty() && first != second;
  }));
}

TEST_F(SchedulerTest, PublishedCapacityDecidesWhereAVolumeIsMade) {
  AddNodes();
  cluster_.Put({{"apiVersion", "storage.k8s.io/v1"},
                {"kind", "CSIDriver"},
                {"metadata", {{"name", "fake.csi.example.com"}}},
                {"spec", {{"storageCapacity", true}}}});
  Begin();
  cluster_.Put(MakeClaim("data", Late()));
  cluster_.Put(MakePod("web", "data"));
  ASSERT_TRUE(WaitUnschedulable("web", "2 node(s) did not have enough free storage"));
  const auto capacity = [](const std::string& name, const std::string& zone, const Json& more) {
    return Merged({{"apiVersion", "storage.k8s.io/v1"},
                   {"kind", "CSIStorageCapacity"},
                   {"metadata", {{"name", name}, {"namespace", "berth"}}},
                   {"storageClassName", "late"},
                   {"nodeTopology", {{"matchLabels", {{"zone", zone}}}}}},
                  more);
  };
  cluster_.Put(capacity("small", "a", {{"capacity", "100Gi"}, {"maximumVolumeSize", "512Mi"}}));
  cluster_.Put(capacity("large", "b", {{"capacity", "100Gi"}}));
  EXPECT_EQ(WaitSelected("data"), "node-b");
}

TEST_F(SchedulerTest, AttachLimitsCountVolumesThatAreThereAndOnTheirWay) {
  cluster_.Put(MakeNode("node-a"));
  cluster_.Put(MakeCsiNode("node-a", {}, {{"allocatable", {{"count", 1}}}}));
  for (const char* claim : {"one", "two"}) {
    cluster_.Put(MakeVolume(fmt::format("pv-{}", claim), BoundVolume(claim)));
    cluster_.Put(MakeClaim(claim, BoundClaim(fmt::format("pv-{}", claim))));
  }
  Begin();
  cluster_.Put(MakePod("first", "one"));
  EXPECT_EQ(WaitNode("first"), "node-a");
  cluster_.Put(MakePod("second", "two"));
  ASSERT_TRUE(WaitUnschedulable("second", "1 node(s) exceed max volume count"));
  // The same volume counts once, and a pod without volumes is not concerned.
  cluster_.Put(MakePod("sharing", "one"));
  EXPECT_EQ(WaitNode("sharing"), "node-a");
  cluster_.Put(MakePod("plain", ""));
  EXPECT_EQ(WaitNode("plain"), "node-a");
  cluster_.client.Remove(api::Pod::kInfo, "default", "first");
  cluster_.client.Remove(api::Pod::kInfo, "default", "sharing");
  EXPECT_EQ(WaitNode("second"), "node-a");
}

TEST_F(SchedulerTest, ADriverMayWantItsPodsOnlyWhereItIs) {
  AddNodes();
  cluster_.Put({{"apiVersion", "storage.k8s.io/v1"},
                {"kind", "CSIDriver"},
                {"metadata", {{"name", "fake.csi.example.com"}}},
                {"spec", {{"preventPodSchedulingIfMissing", true}}}});
  cluster_.Put(MakeVolume("pv-1", BoundVolume("data")));
  cluster_.Put(MakeClaim("data", BoundClaim("pv-1")));
  Begin();
  cluster_.Put(MakePod("web", "data"));
  ASSERT_TRUE(WaitUnschedulable("web", "2 node(s) did not have CSI driver fake.csi.example.com"));
  cluster_.Put(MakePod("plain", ""));
  EXPECT_NE(WaitNode("plain"), "");
  cluster_.Put(MakeCsiNode("node-b"));
  EXPECT_EQ(WaitNode("web"), "node-b");
}

TEST_F(SchedulerTest, ReadWriteOncePodIsForOnePod) {
  AddNodes();
  const Json once = {{"spec", {{"accessModes", {"ReadWriteOncePod"}}}}};
  cluster_.Put(MakeVolume("pv-1", Merged(BoundVolume("data"), once)));
  cluster_.Put(MakeClaim("data", Merged(BoundClaim("pv-1"), once)));
  Begin();
  cluster_.Put(MakePod("first", "data"));
  WaitNode("first");
  cluster_.Put(MakePod("second", "data"));
  ASSERT_TRUE(WaitUnschedulable("second", "ReadWriteOncePod access mode"));
  cluster_.client.Remove(api::Pod::kInfo, "default", "first");
  EXPECT_NE(WaitNode("second"), "");
}

TEST_F(SchedulerTest, ALostBindingIsRepaired) {
  AddNodes();
  Begin();
  cluster_.client.LoseNextAnswer("create", "pods/binding",
                                 base::Error(StatusCode::kUnavailable, "lost"));
  cluster_.Put(MakePod("web", ""));
  EXPECT_EQ(WaitNode("web"), "node-a");
  cluster_.client.FailNext("create", "pods/binding", base::Error(StatusCode::kAborted, "conflict"));
  cluster_.Put(MakePod("again", ""));
  EXPECT_EQ(WaitNode("again"), "node-b");
}

TEST_F(SchedulerTest, AHostMountSelectsItsOwnNode) {
  AddNodes();
  Begin();
  cluster_.Put({{"apiVersion", "storage.berth.dev/v1alpha1"},
                {"kind", "HostMount"},
                {"metadata", {{"name", "m"}, {"namespace", "default"}}},
                {"spec", {{"nodeName", "node-b"}, {"claimName", "data"}}}});
  cluster_.Put(MakeClaim("data", Late()));
  EXPECT_EQ(WaitSelected("data"), "node-b");
}

}  // namespace
}  // namespace berth::controllers::scheduler
