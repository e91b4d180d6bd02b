// A provisioner of one node, which knows its node from the driver alone.
#include "controllers/provisioner/own_node_client.h"

#include "controllers/provisioner/provisioner_fixture.h"

namespace berth::controllers::provisioner {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kNode[] = "node-a";

class OwnNodeTest : public ProvisionerTest {
 protected:
  // The API has no nodes.
  void BeginOwn(rpc::FakeCsiDriver::Options driver = {}) {
    driver.topology = {{"zone", "a"}, {"rack", "1"}};
    Options options = Fast();
    options.strict_topology = true;
    options.node_deployment = {
        .node_name = kNode, .base_delay = milliseconds(20), .max_delay = milliseconds(60)};
    connection_ = &cluster_.AddDriver(std::move(driver));
    ShowOwnNode(cluster_.context(), *connection_, kNode, std::chrono::seconds(10));
    cluster_.Add<Provisioner>(*connection_, options);
    cluster_.Put(MakeClass("fast"));
    cluster_.Put(MakeClass("late", {{"volumeBindingMode", "WaitForFirstConsumer"}}));
    cluster_.Start();
  }
  void PutClaim(const std::string& name) {
    cluster_.Put(MakeClaim(
        name, Asked({{"metadata", {{"annotations", {{std::string(kSelectedNode), kNode}}}}},
                     {"spec", {{"storageClassName", "late"}}}})));
  }
  std::map<std::string, std::string> LastPlace() {
    const auto request = script().LastRequest<csi::v1::CreateVolumeRequest>("CreateVolume");
    const auto& places = request.accessibility_requirements().requisite();
    if (places.size() != 1) return {};
    return {places[0].segments().begin(), places[0].segments().end()};
  }
  // Nodes and CSINodes were neither read nor watched.
  void ExpectNoCallForNodes() {
    for (const std::string& right : cluster_.allowed.used()) {
      EXPECT_THAT(right, Not(HasSubstr("nodes")));
    }
  }

  DriverConnection* connection_ = nullptr;
};

TEST_F(OwnNodeTest, AVolumeIsMadeWhereTheDriverSaysThatTheNodeIs) {
  BeginOwn();
  PutClaim("data");
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_EQ(LastPlace(), (std::map<std::string, std::string>{{"rack", "1"}, {"zone", "a"}}));
  ExpectNoCallForNodes();
}

TEST_F(OwnNodeTest, TheNodeIsTheOneThatTheDriverDescribes) {
  BeginOwn();
  const auto& nodes = cluster_.informers.Of<api::Node>();
  ASSERT_EQ(nodes.List().size(), 1u);
  EXPECT_EQ(nodes.Get(kNode)->labels(),
            (std::map<std::string, std::string>{{"rack", "1"}, {"zone", "a"}}));
  const auto csi_node = cluster_.informers.Of<api::CsiNode>().Get(kNode);
  ASSERT_NE(csi_node, nullptr);
  EXPECT_EQ(csi_node->json()["spec"]["drivers"],
            Json::parse(R"([{"name": "fake.csi.example.com", "nodeID": "node-a",
                             "topologyKeys": ["rack", "zone"]}])"));
}

TEST_F(OwnNodeTest, ADriverThatDoesNotAnswerYetIsWaitedFor) {
  connection_ = &cluster_.AddDriver();
  ShowOwnNode(cluster_.context(), *connection_, kNode, std::chrono::seconds(10));
  script().Fail("NodeGetInfo", base::Error(StatusCode::kNotFound, "no metadata"),
                rpc::CallScript::kAlways);
  cluster_.informers.OfOptional<api::Node>();
  connection_->Start();
  cluster_.informers.Start();
  ASSERT_TRUE(script().WaitFor("NodeGetInfo", 1));
  const auto waits = cluster_.informers.WaitForSync(milliseconds(50));
  EXPECT_THAT(base::ToString(waits),
              AllOf(HasSubstr("does not describe the node"), HasSubstr("no metadata")));
  script().Fail("NodeGetInfo", base::OkStatus(), 0);
  EXPECT_TRUE(cluster_.informers.WaitForSync(std::chrono::seconds(10)).ok());
}

TEST_F(OwnNodeTest, ADriverThatCameBackIsAskedAnew) {
  BeginOwn();
  PutClaim("one");
  ASSERT_TRUE(WaitVolume("pvc-uid-one"));
  cluster_.driver->GoAway();
  // A call that fails makes the connection read the driver anew.
  const auto lost = connection_->Call(&rpc::CsiClient::GetCapacity, csi::v1::GetCapacityRequest(),
                                      milliseconds(100));
  EXPECT_EQ(lost.status().code(), StatusCode::kUnavailable);
  cluster_.driver->state().options().topology = {{"zone", "b"}, {"rack", "1"}};
  ASSERT_TRUE(cluster_.driver->ComeBack().ok());
  const auto& nodes = cluster_.informers.Of<api::Node>();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (nodes.Get(kNode)->labels().at("zone") != "b") {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(milliseconds(1));
  }
  PutClaim("two");
  ASSERT_TRUE(WaitVolume("pvc-uid-two"));
  EXPECT_EQ(LastPlace().at("zone"), "b");
  ExpectNoCallForNodes();
}

TEST_F(OwnNodeTest, AnImmediateClaimIsCompetedForBecauseOtherNodesMayHaveTheDriver) {
  rpc::FakeCsiDriver::Options driver;
  driver.capacity_bytes = int64_t{1} << 29;  // half of what the claim asks for
  BeginOwn(driver);
  cluster_.Put(MakeClaim("data", Asked()));
  ASSERT_TRUE(cluster_.events.WaitFor("node \"node-a\" has no room for 1Gi"));
  EXPECT_FALSE(GetClaim("data").has_annotation(kSelectedNode));
  cluster_.Put(
      MakeClaim("small", Asked({{"spec", {{"resources", {{"requests", {{"storage", "1Mi"}}}}}}}})));
  ASSERT_TRUE(WaitVolume("pvc-uid-small"));
  EXPECT_EQ(GetClaim("small").annotation(kSelectedNode), kNode);
  ExpectNoCallForNodes();
}

TEST_F(OwnNodeTest, OnlyVolumesWithinReachAreDeleted) {
  BeginOwn();
  ExpectDeletesWithin("zone", "a", "b");
  ExpectNoCallForNodes();
}

TEST_F(OwnNodeTest, TheClientLeavesOtherKindsToTheApi) {
  DriverConnection& connection = cluster_.AddDriver();
  OwnNodeClient client(cluster_.client, connection, kNode, std::chrono::seconds(10));
  cluster_.client.Add(MakeClass("fast"));
  EXPECT_TRUE(kube::Get<api::StorageClass>(client, "", "fast").ok());
  EXPECT_EQ(client.List(api::StorageClass::kInfo, "", {})->items.size(), 1u);
  EXPECT_EQ(kube::Get<api::Node>(client, "", "node-b").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(kube::Get<api::Node>(client, "", kNode).status().code(), StatusCode::kUnavailable)
      << "the driver's name is not known";
}

}  // namespace
}  // namespace berth::controllers::provisioner
