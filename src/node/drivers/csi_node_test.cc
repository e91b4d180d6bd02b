#include "node/drivers/csi_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kube/fake_client.h"

namespace berth::node {
namespace {

using base::Json;
using base::StatusCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kNodeIds = "csi.volume.kubernetes.io/nodeid";

class CsiNodesTest : public ::testing::Test {
 protected:
  CsiNodesTest() {
    client_.Add({{"apiVersion", "v1"},
                 {"kind", "Node"},
                 {"metadata", {{"name", "node-a"}, {"uid", "node-uid"}}}});
  }
  api::CsiNode CsiNode() const { return client_.Peek<api::CsiNode>("", "node-a").value(); }
  api::Node Node() const { return client_.Peek<api::Node>("", "node-a").value(); }

  kube::FakeClient client_;
  CsiNodes nodes_{client_, "node-a"};
  const NodeDriver demo_{.name = "demo.csi.example.com",
                         .node_id = "id-1",
                         .topology = {{"example.com/zone", "z1"}, {"example.com/rack", "r1"}},
                         .max_volumes = 7};
};

TEST_F(CsiNodesTest, WritesNodeAndCsiNode) {
  ASSERT_TRUE(nodes_.AddDriver(demo_).ok());
  EXPECT_EQ(Node().annotation(kNodeIds), R"({"demo.csi.example.com":"id-1"})");
  EXPECT_EQ(Node().label("example.com/zone"), "z1");
  const auto driver = CsiNode().driver("demo.csi.example.com");
  ASSERT_TRUE(driver.has_value());
  EXPECT_EQ(driver->node_id, "id-1");
  EXPECT_THAT(driver->topology_keys, ElementsAre("example.com/rack", "example.com/zone"));
  EXPECT_EQ(driver->allocatable_count, 7);
  ASSERT_EQ(CsiNode().owner_references().size(), 1U);
  EXPECT_EQ(CsiNode().owner_references()[0].uid, "node-uid");
}

TEST_F(CsiNodesTest, ASecondTimeWritesNothing) {
  ASSERT_TRUE(nodes_.AddDriver(demo_).ok());
  client_.TakeActions();
  ASSERT_TRUE(nodes_.AddDriver(demo_).ok());
  EXPECT_THAT(client_.TakeActions(), IsEmpty());
}

TEST_F(CsiNodesTest, OtherDriversAndUnknownFieldsStay) {
  ASSERT_TRUE(nodes_.AddDriver(demo_).ok());
  Json object = client_.Peek(api::kinds::kCsiNode, "", "node-a");
  object["spec"]["drivers"][0]["future"] = "kept";
  client_.Add(object);
  ASSERT_TRUE(nodes_.AddDriver({.name = "other.example.com", .node_id = "o"}).ok());
  EXPECT_EQ(CsiNode().json()["spec"]["drivers"][0]["future"], "kept");
  EXPECT_FALSE(CsiNode().driver("other.example.com")->allocatable_count.has_value());
  EXPECT_EQ(Node().annotation(kNodeIds),
            R"({"demo.csi.example.com":"id-1","other.example.com":"o"})");
  ASSERT_TRUE(nodes_.RemoveDriver("demo.csi.example.com").ok());
  EXPECT_EQ(CsiNode().drivers().size(), 1U);
  EXPECT_EQ(Node().annotation(kNodeIds), R"({"other.example.com":"o"})");
  EXPECT_EQ(Node().label("example.com/zone"), "z1") << "topology labels stay";
  ASSERT_TRUE(nodes_.RemoveDriver("other.example.com").ok());
  EXPECT_FALSE(Node().has_annotation(kNodeIds));
}

TEST_F(CsiNodesTest, ACountChangesInPlaceAndAnIdByRemoval) {
  ASSERT_TRUE(nodes_.AddDriver(demo_).ok());
  client_.TakeActions();
  NodeDriver changed = demo_;
  changed.max_volumes = 8;
  ASSERT_TRUE(nodes_.AddDriver(changed).ok());
  EXPECT_EQ(client_.TakeActions().size(), 1U);
  EXPECT_EQ(CsiNode().driver(demo_.name)->allocatable_count, 8);
  changed.node_id = "id-2";
  ASSERT_TRUE(nodes_.AddDriver(changed).ok());
  // The three writes are the Node's annotation, the removal and the addition.
  EXPECT_EQ(client_.TakeActions().size(), 3U);
  EXPECT_EQ(CsiNode().driver(demo_.name)->node_id, "id-2");
}

TEST_F(CsiNodesTest, ACountIsClampedAndCheckedForSense) {
  NodeDriver driver = demo_;
  driver.max_volumes = int64_t{1} << 40;
  ASSERT_TRUE(nodes_.AddDriver(driver).ok());
  EXPECT_EQ(CsiNode().driver(demo_.name)->allocatable_count, 2147483647);
  driver.max_volumes = -1;
  EXPECT_EQ(nodes_.AddDriver(driver).code(), StatusCode::kInvalidArgument);
  driver = demo_;
  driver.node_id.clear();
  EXPECT_EQ(nodes_.AddDriver(driver).code(), StatusCode::kInvalidArgument);
}

TEST_F(CsiNodesTest, AnotherValueOfATopologyLabelIsRefused) {
  Json node = client_.Peek(api::kinds::kNode, "", "node-a");
  node["metadata"]["labels"] = {{"example.com/zone", "z9"}};
  client_.Add(node);
  const base::Status added = nodes_.AddDriver(demo_);
  EXPECT_EQ(added.code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(client_.Peek(api::kinds::kCsiNode, "", "node-a").is_null());
}

TEST_F(CsiNodesTest, WhatAnEarlierNodeOfThisNameOwnedIsTakenOver) {
  ASSERT_TRUE(nodes_.AddDriver(demo_).ok());
  Json node = client_.Peek(api::kinds::kNode, "", "node-a");
  node["metadata"]["uid"] = "another-uid";
  client_.Add(node);
  ASSERT_TRUE(nodes_.AddDriver(demo_).ok());
  ASSERT_EQ(CsiNode().owner_references().size(), 1U);
  EXPECT_EQ(CsiNode().owner_references()[0].uid, "another-uid");
}

TEST_F(CsiNodesTest, TheCountOfAListedDriverFollowsIt) {
  ASSERT_TRUE(nodes_.AddDriver(demo_).ok());
  NodeDriver now = demo_;
  now.max_volumes = 3;
  now.node_id = "what else it says is left to its registration";
  ASSERT_TRUE(nodes_.UpdateCount(now).ok());
  EXPECT_EQ(CsiNode().driver(demo_.name)->allocatable_count, 3);
  EXPECT_EQ(CsiNode().driver(demo_.name)->node_id, "id-1");
  now.max_volumes = 0;
  ASSERT_TRUE(nodes_.UpdateCount(now).ok());
  EXPECT_FALSE(CsiNode().driver(demo_.name)->allocatable_count.has_value());
  client_.TakeActions();
  ASSERT_TRUE(nodes_.UpdateCount({.name = "unlisted.example.com", .max_volumes = 5}).ok());
  EXPECT_THAT(client_.TakeActions(), IsEmpty());
}

TEST_F(CsiNodesTest, AConflictIsReadAgain) {
  client_.FailNext("patch", "nodes", base::Error(StatusCode::kAborted, "conflict"));
  ASSERT_TRUE(nodes_.AddDriver({.name = "a.example.com", .node_id = "a"}).ok());
  client_.FailNext("update", "csinodes", base::Error(StatusCode::kAborted, "conflict"));
  ASSERT_TRUE(nodes_.AddDriver(demo_).ok());
  EXPECT_EQ(CsiNode().drivers().size(), 2U);
}

TEST_F(CsiNodesTest, RemovingWhatIsNotThereIsFine) {
  EXPECT_TRUE(nodes_.RemoveDriver("demo.csi.example.com").ok());
  client_.Remove(api::kinds::kNode, "", "node-a");
  EXPECT_TRUE(nodes_.RemoveDriver("demo.csi.example.com").ok());
}

}  // namespace
}  // namespace berth::node
