// Claims that wait for a node, and give it up.
#include "controllers/provisioner/provisioner_fixture.h"

namespace berth::controllers::provisioner {
namespace {

using ::testing::SizeIs;

class DelayedTest : public ProvisionerTest {
 protected:
  void BeginDelayed() {
    rpc::FakeCsiDriver::Options driver;
    driver.topology = {{"zone", "a"}};
    for (const auto& [node, zone] : {std::pair{"node-a", "a"}, std::pair{"node-b", "b"}}) {
      cluster_.Put(MakeNode(node, {{"metadata", {{"labels", {{"zone", zone}}}}}}));
      cluster_.Put(MakeCsiNode(node, {"zone"}));
    }
    Begin(driver);
    cluster_.Put(MakeClass("late", {{"volumeBindingMode", "WaitForFirstConsumer"}}));
  }
  Json Late(const std::string& node) {
    Json more = Asked({{"spec", {{"storageClassName", "late"}}}});
    if (!node.empty()) more["metadata"]["annotations"][std::string(kSelectedNode)] = node;
    return MakeClaim("data", more);
  }
};

TEST_F(DelayedTest, ProvisionsWhenANodeIsSelectedAndForItsTopology) {
  BeginDelayed();
  cluster_.Put(Late(""));
  cluster_.Put(MakeClaim("barrier", Asked()));
  ASSERT_TRUE(WaitVolume("pvc-uid-barrier"));
  EXPECT_EQ(script().Count("CreateVolume"), 1);
  cluster_.Put(Late("node-b"));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  const auto request = script().LastRequest<csi::v1::CreateVolumeRequest>("CreateVolume");
  EXPECT_EQ(request.accessibility_requirements().requisite_size(), 2);
  EXPECT_EQ(request.accessibility_requirements().preferred(0).segments().at("zone"), "b");
  EXPECT_NE(GetVolume("pvc-uid-data").node_affinity(), nullptr);
}

TEST_F(DelayedTest, ANodeWithoutCapacityIsGivenUpForAnother) {
  BeginDelayed();
  script().Fail("CreateVolume", base::Error(StatusCode::kResourceExhausted, "full"));
  cluster_.Put(Late("node-b"));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !GetClaim("data").has_annotation(kSelectedNode); }));
  EXPECT_EQ(script().Count("CreateVolume"), 1);
  // The scheduler's turn; then it works.
  Claim again = GetClaim("data");
  again.set_annotation(kSelectedNode, "node-a");
  cluster_.Put(again);
  EXPECT_TRUE(WaitVolume("pvc-uid-data"));
}

TEST_F(DelayedTest, ANodeThatIsFullAfterAnUnknownOutcomeIsGivenUpAndWhatWasMadeThereTakenBack) {
  BeginDelayed();
  // The first call makes the volume and its answer is lost; the second says that there is no room.
  script().AfterEffect("CreateVolume", [this](const google::protobuf::Message&) {
    if (script().Count("CreateVolume") > 1) return base::OkStatus();
    script().Fail("CreateVolume", base::Error(StatusCode::kResourceExhausted, "full"));
    return base::Error(StatusCode::kDeadlineExceeded, "slow");
  });
  cluster_.Put(Late("node-b"));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !GetClaim("data").has_annotation(kSelectedNode); }));
  EXPECT_EQ(script().Count("CreateVolume"), 2);
  EXPECT_TRUE(HasIntent("uid-data")) << "the volume on the first node is nobody's";
  Claim again = GetClaim("data");
  again.set_annotation(kSelectedNode, "node-a");
  cluster_.Put(again);
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_EQ(script().Count("DeleteVolume"), 1);
  EXPECT_THAT(cluster_.driver->state().VolumeIds(), SizeIs(1));
  EXPECT_TRUE(WaitNoIntent("uid-data"));
}

TEST_F(DelayedTest, AClaimDeletedAfterItsNodeWasGivenUpLeavesNoVolumeWithoutObject) {
  BeginDelayed();
  script().AfterEffect("CreateVolume", [this](const google::protobuf::Message&) {
    if (script().Count("CreateVolume") > 1) return base::OkStatus();
    script().Fail("CreateVolume", base::Error(StatusCode::kResourceExhausted, "full"));
    return base::Error(StatusCode::kDeadlineExceeded, "slow");
  });
  Json claim = Late("node-b");
  claim["metadata"].erase("finalizers");
  cluster_.Put(claim);
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !GetClaim("data").has_annotation(kSelectedNode); }));
  Delete(Claim::kInfo, "default", "data");
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_TRUE(WaitNoIntent("uid-data"));
}

TEST_F(DelayedTest, ANodeThatIsGoneIsGivenUp) {
  BeginDelayed();
  cluster_.Put(Late("node-gone"));
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !GetClaim("data").has_annotation(kSelectedNode); }));
  EXPECT_TRUE(cluster_.events.WaitFor("CSINode 'node-gone' is not there"));
  EXPECT_EQ(script().Count("CreateVolume"), 0);
}

TEST_F(DelayedTest, AClaimThatAnOlderVersionMarkedIsNotGivenUpWithItsNode) {
  // An earlier process may have made the volume. The node was deleted while no process ran.
  BeginDelayed();
  Json claim = Late("node-gone");
  claim["metadata"]["finalizers"] = {std::string(kProvisioningFinalizer)};
  cluster_.Put(claim);
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_EQ(CreateRequests().back().accessibility_requirements().requisite_size(), 2);
}

TEST_F(DelayedTest, WithAnUnknownOutcomeTheNodeIsKeptAlsoIfItVanishes) {
  BeginDelayed();
  script().LoseAnswer("CreateVolume");
  script().Hang("CreateVolume");
  cluster_.Put(Late("node-b"));
  ASSERT_TRUE(script().WaitFor("CreateVolume"));
  cluster_.client.Remove(api::Node::kInfo, "", "node-b");
  cluster_.client.Remove(api::CsiNode::kInfo, "", "node-b");
  script().Release("CreateVolume");
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_EQ(GetClaim("data").annotation(kSelectedNode), "node-b");
  const auto requests = script().Requests<csi::v1::CreateVolumeRequest>("CreateVolume");
  ASSERT_THAT(requests, SizeIs(2));
  EXPECT_EQ(requests[0].accessibility_requirements().SerializeAsString().size(),
            requests[1].accessibility_requirements().SerializeAsString().size());
}

TEST_F(DelayedTest, ADriverThatRegistersLaterIsNoticed) {
  BeginDelayed();
  cluster_.Put(MakeNode("node-c", {{"metadata", {{"labels", {{"zone", "c"}}}}}}));
  cluster_.Put(Json{{"apiVersion", "storage.k8s.io/v1"},
                    {"kind", "CSINode"},
                    {"metadata", {{"name", "node-c"}}},
                    {"spec", {{"drivers", Json::array()}}}});
  cluster_.Put(Late("node-c"));
  ASSERT_TRUE(cluster_.events.WaitFor("not registered there (yet)"));
  cluster_.Put(MakeCsiNode("node-c", {"zone"}));
  EXPECT_TRUE(WaitVolume("pvc-uid-data"));
}

}  // namespace
}  // namespace berth::controllers::provisioner
