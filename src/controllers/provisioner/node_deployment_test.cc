// One provisioner a node: who serves a claim, and who deletes a volume.
#include "controllers/provisioner/provisioner_fixture.h"

namespace berth::controllers::provisioner {
namespace {

using std::chrono::milliseconds;

Options OnNode(const std::string& node) {
  Options options = ProvisionerTest::Fast();
  options.node_deployment = {
      .node_name = node, .base_delay = milliseconds(20), .max_delay = milliseconds(60)};
  return options;
}

class NodeDeploymentTest : public ProvisionerTest {
 protected:
  void BeginNodes(const std::vector<Options>& nodes, rpc::FakeCsiDriver::Options driver = {}) {
    driver.topology = {{"host", "node-a"}};
    for (const char* node : {"node-a", "node-b"}) {
      cluster_.Put(MakeNode(node, {{"metadata", {{"labels", {{"host", node}}}}}}));
      cluster_.Put(MakeCsiNode(node, {"host"}));
    }
    DriverConnection& connection = cluster_.AddDriver(std::move(driver));
    for (const Options& options : nodes) cluster_.Add<Provisioner>(connection, options);
    cluster_.Put(MakeClass("fast"));
    cluster_.Put(MakeClass("late", {{"volumeBindingMode", "WaitForFirstConsumer"}}));
    cluster_.Start();
  }
  static Json OnLate(const std::string& name, const std::string& node) {
    return MakeClaim(name,
                     Asked({{"metadata", {{"annotations", {{std::string(kSelectedNode), node}}}}},
                            {"spec", {{"storageClassName", "late"}}}}));
  }
};

TEST_F(NodeDeploymentTest, OneOfTheNodesTakesAnImmediateClaim) {
  BeginNodes({OnNode("node-a"), OnNode("node-b")});
  for (const std::string name : {"one", "two", "three"}) {
    cluster_.Put(MakeClaim(name, Asked()));
    ASSERT_TRUE(WaitVolume("pvc-uid-" + name));
    EXPECT_TRUE(GetClaim(name).has_annotation(kSelectedNode));
  }
  EXPECT_EQ(script().Count("CreateVolume"), 3);
}

TEST_F(NodeDeploymentTest, AClaimOfAnotherNodeIsLeftAlone) {
  BeginNodes({OnNode("node-a")});
  cluster_.Put(OnLate("theirs", "node-b"));
  cluster_.Put(OnLate("ours", "node-a"));
  ASSERT_TRUE(WaitVolume("pvc-uid-ours"));
  EXPECT_EQ(script().Count("CreateVolume"), 1);
  EXPECT_TRUE(GetVolume("pvc-uid-ours")
                  .csi()
                  .volume_attributes()
                  .at(std::string(kIdentityAttribute))
                  .ends_with("-fake.csi.example.com-node-a"));
}

TEST_F(NodeDeploymentTest, ImmediateClaimsAreLeftAloneWhereTheFlagSaysSo) {
  Options options = OnNode("node-a");
  options.node_deployment.immediate_binding = false;
  BeginNodes({options});
  cluster_.Put(MakeClaim("data", Asked()));
  cluster_.Put(OnLate("ours", "node-a"));
  ASSERT_TRUE(WaitVolume("pvc-uid-ours"));
  EXPECT_FALSE(GetClaim("data").has_annotation(kSelectedNode));
}

TEST_F(NodeDeploymentTest, ANodeWithoutRoomDoesNotTakeAClaim) {
  rpc::FakeCsiDriver::Options driver;
  driver.capacity_bytes = int64_t{1} << 29;  // half of what the claim asks for
  BeginNodes({OnNode("node-a")}, driver);
  cluster_.Put(MakeClaim("data", Asked()));
  ASSERT_TRUE(script().WaitFor("GetCapacity", 3));
  EXPECT_FALSE(GetClaim("data").has_annotation(kSelectedNode));
  EXPECT_EQ(script().Count("CreateVolume"), 0);
  EXPECT_GE(cluster_.events.Count("node \"node-a\" has no room for 1Gi"), 1);
}

TEST_F(NodeDeploymentTest, ANodeThatTheClassExcludesDoesNotTakeAClaim) {
  BeginNodes({OnNode("node-a")});
  const auto within = [](const std::string& name, const char* node) {
    return MakeClass(name,
                     {{"allowedTopologies",
                       {{{"matchLabelExpressions", {{{"key", "host"}, {"values", {node}}}}}}}}});
  };
  cluster_.Put(within("there", "node-b"));
  cluster_.Put(within("here", "node-a"));
  cluster_.Put(MakeClaim("theirs", Asked({{"spec", {{"storageClassName", "there"}}}})));
  cluster_.Put(MakeClaim("ours", Asked({{"spec", {{"storageClassName", "here"}}}})));
  ASSERT_TRUE(WaitVolume("pvc-uid-ours"));
  EXPECT_FALSE(GetClaim("theirs").has_annotation(kSelectedNode));
}

TEST_F(NodeDeploymentTest, ANodeThatHasTheDriverAloneTakesWhateverComes) {
  rpc::FakeCsiDriver::Options driver;
  driver.capacity_bytes = int64_t{1} << 29;  // half of what the claim asks for
  driver.topology = {{"host", "node-a"}};
  cluster_.Put(MakeNode("node-a", {{"metadata", {{"labels", {{"host", "node-a"}}}}}}));
  cluster_.Put(MakeCsiNode("node-a", {"host"}));
  Options options = OnNode("node-a");
  options.node_deployment.watch_nodes = true;
  cluster_.Add<Provisioner>(cluster_.AddDriver(std::move(driver)), options);
  cluster_.Put(MakeClass("fast"));
  cluster_.Start();
  cluster_.Put(MakeClaim("data", Asked()));
  ASSERT_TRUE(script().WaitFor("CreateVolume", 1));
}

// Some drivers reach the sources of other nodes, so the driver is asked first.
TEST_F(NodeDeploymentTest, ACopyThatTheNodeRefusesIsMadeWhereItsSourceIs) {
  BeginNodes({OnNode("node-b")});
  script().Fail("CreateVolume", base::Error(StatusCode::kNotFound, "no such source here"));
  const Json at_a = {
      {"spec",
       {{"nodeAffinity",
         {{"required",
           {{"nodeSelectorTerms",
             {{{"matchExpressions",
                {{{"key", "host"}, {"operator", "In"}, {"values", {"node-a"}}}}}}}}}}}}}}};
  cluster_.AddVolume("pv-source", Merged(BoundVolume("source"), at_a));
  cluster_.Put(MakeClaim("source", BoundClaim("pv-source")));
  Json copy = OnLate("copy", "node-b");
  copy["spec"]["dataSource"] = {{"kind", "PersistentVolumeClaim"}, {"name", "source"}};
  cluster_.Put(copy);
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !GetClaim("copy").has_annotation(kSelectedNode); }));
  EXPECT_EQ(cluster_.events.Count("no such source here"), 1);
  EXPECT_EQ(script().Count("CreateVolume"), 1);
}

TEST_F(NodeDeploymentTest, AClaimThatTheNodeCannotServeIsOfferedAgain) {
  BeginNodes({OnNode("node-a")});
  script().Fail("CreateVolume", base::Error(StatusCode::kResourceExhausted, "full"));
  cluster_.Put(MakeClaim("data", Asked()));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_EQ(script().Count("CreateVolume"), 2);
}

TEST(NodeElectionTest, TheOnlyNodeWaitsAfterALossAlone) {
  NodeElection election(milliseconds(100), milliseconds(1000));
  const NodeElection::Time now{};
  EXPECT_EQ(election.WaitAfterLoss("a", now), milliseconds(0));
  milliseconds longest{0};
  for (int i = 0; i < 5; ++i) {
    const milliseconds wait = election.NoteLoss("a", now);
    EXPECT_EQ(election.WaitAfterLoss("a", now), wait);
    EXPECT_EQ(election.WaitAfterLoss("a", now + wait), milliseconds(0));
    longest = std::max(longest, wait);
  }
  EXPECT_GE(longest, milliseconds(500));
  election.Forget("a");
  EXPECT_EQ(election.WaitAfterLoss("a", now), milliseconds(0));
}

// The claim goes back without a selected node, and comes to the same node again.
TEST_F(NodeDeploymentTest, ANodeThatIsFullWaitsLongerAfterEachRefusal) {
  BeginNodes({OnNode("node-a")});
  constexpr int kRefusals = 5;
  script().Fail("CreateVolume", base::Error(StatusCode::kResourceExhausted, "full"), kRefusals);
  const auto began = std::chrono::steady_clock::now();
  cluster_.Put(MakeClaim("data", Asked()));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_EQ(script().Count("CreateVolume"), kRefusals + 1);
  // The waits are at least half of 2, 4, 8, 16 and 32 times the base delay.
  const NodeDeployment delays = OnNode("node-a").node_deployment;
  EXPECT_GE(std::chrono::steady_clock::now() - began,
            std::min(delays.base_delay * 31, delays.max_delay));
}

TEST_F(NodeDeploymentTest, ALostRaceIsNoFailure) {
  BeginNodes({OnNode("node-a")});
  cluster_.client.FailNext("update", "persistentvolumeclaims",
                           base::Error(StatusCode::kAborted, "conflict"));
  cluster_.Put(MakeClaim("data", Asked()));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_EQ(cluster_.events.Count("ProvisioningFailed"), 0);
}

TEST_F(NodeDeploymentTest, AVolumeIsDeletedByTheNodeThatReachesIt) {
  BeginNodes({OnNode("node-a")});
  ExpectDeletesWithin("host", "node-a", "node-b");
}

TEST(NodeElectionTest, WaitsAtFirstAndLongerAfterEachLoss) {
  NodeElection election(milliseconds(100), milliseconds(300));
  NodeElection::Time now{};
  EXPECT_LE(election.GetWait("a", now), milliseconds(100));
  EXPECT_EQ(election.GetWait("a", now + milliseconds(100)), milliseconds(0));
  const auto second = election.NoteLoss("a", now);
  EXPECT_GE(second, milliseconds(100));
  EXPECT_LE(second, milliseconds(200));
  EXPECT_EQ(election.GetWait("a", now), second);
  const auto third = election.NoteLoss("a", now);
  EXPECT_GE(third, milliseconds(150));
  EXPECT_LE(third, milliseconds(300));
  election.Forget("a");
  EXPECT_LE(election.GetWait("a", now), milliseconds(100));
}

}  // namespace
}  // namespace berth::controllers::provisioner
