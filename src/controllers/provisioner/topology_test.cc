#include "controllers/provisioner/topology.h"

#include <gmock/gmock.h>

#include "controllers/fake_cluster.h"

namespace berth::controllers::provisioner {
namespace {

using base::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Zones(const google::protobuf::RepeatedPtrField<csi::v1::Topology>& terms) {
  std::vector<std::string> out;
  for (const csi::v1::Topology& term : terms) out.push_back(term.segments().at("zone"));
  return out;
}

class TopologyTest : public ::testing::Test {
 protected:
  TopologyTest() {
    question_.driver = "fake.csi.example.com";
    question_.claim_name = "data";
    for (const auto& [node, zone] :
         std::map<std::string, std::string>{{"n1", "a"}, {"n2", "b"}, {"n3", "c"}, {"n4", "b"}}) {
      question_.nodes.push_back(std::make_shared<const api::Node>(
          MakeNode(node, {{"metadata", {{"labels", {{"zone", zone}}}}}})));
      question_.csi_nodes.push_back(
          std::make_shared<const api::CsiNode>(MakeCsiNode(node, {"zone"})));
    }
  }

  csi::v1::TopologyRequirement MakeRequirement() {
    auto answer = RequireTopology(question_);
    EXPECT_TRUE(answer.ok()) << base::ToString(answer.status());
    return answer.ok() && answer->has_value() ? **answer : csi::v1::TopologyRequirement();
  }

  TopologyQuestion question_;
};

TEST_F(TopologyTest, DelayedPrefersTheSelectedNodesTopologyAmongAll) {
  question_.selected_node = "n2";
  const auto answer = MakeRequirement();
  EXPECT_THAT(Zones(answer.requisite()), ElementsAre("a", "b", "c"));
  EXPECT_THAT(Zones(answer.preferred()), ElementsAre("b", "c", "a"));
}

TEST_F(TopologyTest, StrictAsksForTheSelectedNodesTopologyAlone) {
  question_.selected_node = "n3";
  question_.strict = true;
  const auto answer = MakeRequirement();
  EXPECT_THAT(Zones(answer.requisite()), ElementsAre("c"));
  EXPECT_THAT(Zones(answer.preferred()), ElementsAre("c"));
}

TEST_F(TopologyTest, AllowedTopologiesReplaceTheNodes) {
  const Json allowed =
      Json::parse(R"([{"matchLabelExpressions":[{"key":"zone","values":["c","b","b"]}]}])");
  question_.allowed = &allowed;
  question_.selected_node = "n2";
  EXPECT_THAT(Zones(MakeRequirement().preferred()), ElementsAre("b", "c"));

  question_.selected_node = "n1";
  const auto outside = RequireTopology(question_);
  EXPECT_EQ(outside.status().code(), base::StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::ToString(outside.status()), HasSubstr("outside the class's allowedTopologies"));
  question_.strict = true;
  EXPECT_EQ(RequireTopology(question_).status().code(), base::StatusCode::kFailedPrecondition);
}

TEST_F(TopologyTest, AllowedTopologiesCombineWithinATerm) {
  const Json allowed = Json::parse(
      R"([{"matchLabelExpressions":[{"key":"zone","values":["a","b"]},
                                    {"key":"rack","values":["1","2"]}]}])");
  question_.allowed = &allowed;
  EXPECT_EQ(MakeRequirement().requisite_size(), 4);
}

TEST_F(TopologyTest, ImmediateClaimsOfAStatefulSetSpreadOverZones) {
  std::vector<std::string> first;
  for (const char* name : {"data-web-0", "data-web-1", "data-web-2", "data-web-3"}) {
    question_.claim_name = name;
    first.push_back(Zones(MakeRequirement().preferred())[0]);
  }
  EXPECT_EQ(first[0], first[3]);
  EXPECT_THAT(std::set<std::string>(first.begin(), first.end()), ElementsAre("a", "b", "c"));
}

TEST_F(TopologyTest, HashesLikeFnv1) {
  // FNV-1, 32 bits: published values of "a" and "foobar".
  EXPECT_EQ(SpreadIndex("a"), 0x050c5d7eu);
  EXPECT_EQ(SpreadIndex("foobar"), 0x31f0b262u);
  EXPECT_EQ(SpreadIndex("x-foobar-2"), 0x31f0b262u + 2);
  EXPECT_EQ(SpreadIndex("x-foobar-2x"), SpreadIndex("x-foobar-2x"));
  EXPECT_NE(SpreadIndex("x-foobar-2x"), 0x31f0b262u + 2);
}

TEST_F(TopologyTest, WithoutImmediateTopologyAnywhereIsFine) {
  question_.immediate_topology = false;
  const auto answer = RequireTopology(question_);
  ASSERT_TRUE(answer.ok());
  EXPECT_FALSE(answer->has_value());
}

// A driver may say that it has topology, and name no keys on any node.
TEST_F(TopologyTest, AnImmediateClaimNeedsNoKeysWhereNoNodesAreAskedFor) {
  question_.csi_nodes = {std::make_shared<const api::CsiNode>(MakeCsiNode("n1"))};
  EXPECT_EQ(RequireTopology(question_).status().code(), base::StatusCode::kFailedPrecondition);
  const Json allowed =
      Json::parse(R"([{"matchLabelExpressions":[{"key":"zone","values":["a","b"]}]}])");
  question_.allowed = &allowed;
  EXPECT_EQ(MakeRequirement().requisite_size(), 2);
  question_.allowed = nullptr;
  question_.immediate_topology = false;
  const auto anywhere = RequireTopology(question_);
  ASSERT_TRUE(anywhere.ok()) << anywhere.status();
  EXPECT_FALSE(anywhere->has_value());
}

TEST_F(TopologyTest, ANodeThatIsGoneAsksForAnother) {
  question_.selected_node = "n9";
  EXPECT_EQ(RequireTopology(question_).status().code(), base::StatusCode::kNotFound);
}

TEST_F(TopologyTest, ADriverThatIsNotRegisteredIsWaitedFor) {
  question_.csi_nodes = {std::make_shared<const api::CsiNode>(MakeCsiNode("n1"))};
  EXPECT_EQ(RequireTopology(question_).status().code(), base::StatusCode::kFailedPrecondition);
  question_.selected_node = "n1";
  EXPECT_EQ(RequireTopology(question_).status().code(), base::StatusCode::kFailedPrecondition);
}

TEST_F(TopologyTest, ANodeWithoutTheDriversLabelIsNoPlace) {
  question_.nodes.push_back(std::make_shared<const api::Node>(MakeNode("n5")));
  question_.csi_nodes.push_back(std::make_shared<const api::CsiNode>(MakeCsiNode("n5", {"zone"})));
  question_.selected_node = "n5";
  EXPECT_THAT(base::ToString(RequireTopology(question_).status()), HasSubstr("lacks a label"));
}

TEST_F(TopologyTest, AnEmptyAllowedTopologyCountsForNothing) {
  const Json some =
      Json::parse(R"([{}, {"matchLabelExpressions":[{"key":"zone","values":["b"]}]}])");
  question_.allowed = &some;
  EXPECT_THAT(Zones(MakeRequirement().requisite()), ElementsAre("b"));
  const Json none = Json::parse("[{}]");
  question_.allowed = &none;
  question_.selected_node = "n2";
  EXPECT_FALSE((*RequireTopology(question_)).has_value()) << "the volume may be anywhere";
  question_.strict = true;
  EXPECT_EQ(RequireTopology(question_).status().code(), base::StatusCode::kFailedPrecondition);
}

TEST_F(TopologyTest, RefusesTopologiesWithoutBound) {
  Json expressions = Json::array();
  for (int key = 0; key < 20; ++key) {
    expressions.push_back({{"key", fmt::format("k{}", key)}, {"values", {"a", "b"}}});
  }
  const Json allowed = Json::array({{{"matchLabelExpressions", expressions}}});
  question_.allowed = &allowed;
  EXPECT_EQ(RequireTopology(question_).status().code(), base::StatusCode::kInvalidArgument);
}

TEST(NodeAffinityTest, IsOneTermPerTopology) {
  csi::v1::Volume volume;
  EXPECT_TRUE(NodeAffinity(volume.accessible_topology()).is_null());
  (*volume.add_accessible_topology()->mutable_segments())["zone"] = "a";
  (*volume.add_accessible_topology()->mutable_segments())["zone"] = "b";
  EXPECT_EQ(NodeAffinity(volume.accessible_topology()),
            Json::parse(R"({"required":{"nodeSelectorTerms":[
              {"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]},
              {"matchExpressions":[{"key":"zone","operator":"In","values":["b"]}]}]}})"));
}

TEST(NodeAffinityTest, LeavesOutATopologyWithoutSegments) {
  csi::v1::Volume volume;
  volume.add_accessible_topology();
  EXPECT_TRUE(NodeAffinity(volume.accessible_topology()).is_null());
  (*volume.add_accessible_topology()->mutable_segments())["zone"] = "a";
  EXPECT_EQ(NodeAffinity(volume.accessible_topology())["required"]["nodeSelectorTerms"].size(), 1U);
}

}  // namespace
}  // namespace berth::controllers::provisioner
