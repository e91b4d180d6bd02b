#include "controllers/ownergc/graph.h"

#include <gmock/gmock.h>

namespace berth::controllers::ownergc {
namespace {

using base::Json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

KindPtr Kind(const std::string& kind, const std::string& plural) {
  return kube::ServedKind::FromDiscovery(
      "", "v1",
      {{"resource", plural}, {"responseKind", {{"kind", kind}}}, {"scope", "Namespaced"}});
}
const KindPtr kMap = Kind("ConfigMap", "configmaps");
const KindPtr kPod = Kind("Pod", "pods");

Json OwnedBy(const std::string& owner, bool block = false) {
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"name", owner},
          {"uid", "uid-" + owner},
          {"blockOwnerDeletion", block}};
}

api::Object Make(const std::string& name, const std::vector<Json>& owners = {},
                 const std::string& finalizer = "") {
  Json object = {
      {"metadata",
       {{"name", name}, {"namespace", "a"}, {"uid", "uid-" + name}, {"ownerReferences", owners}}}};
  if (!finalizer.empty()) {
    object["metadata"]["finalizers"] = {finalizer};
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  }
  return api::Object(object);
}

TEST(GraphTest, RemembersOnlyWhatHasToDoWithOwnership) {
  Graph graph;
  EXPECT_THAT(graph.Put(kMap, Make("alone")), IsEmpty());
  EXPECT_EQ(graph.size(), 0U);
  // The owner that nobody has seen makes the dependent worth a look.
  EXPECT_THAT(graph.Put(kPod, Make("pod", {OwnedBy("owner")})), ElementsAre("uid-pod"));
  EXPECT_EQ(graph.size(), 2U);
  EXPECT_FALSE(graph.Find("uid-owner")->present);
  EXPECT_THAT(graph.Put(kMap, Make("owner")), IsEmpty());
  EXPECT_THAT(graph.Put(kPod, Make("pod", {OwnedBy("owner")})), IsEmpty());
  graph.Remove("uid-pod");
  EXPECT_EQ(graph.size(), 0U);
}

TEST(GraphTest, AnOwnersEndIsTheDependentsBusiness) {
  Graph graph;
  graph.Put(kPod, Make("one", {OwnedBy("owner")}));
  graph.Put(kPod, Make("two", {OwnedBy("owner")}));
  graph.Put(kMap, Make("owner"));
  EXPECT_THAT(graph.Remove("uid-owner"), UnorderedElementsAre("uid-one", "uid-two"));
  EXPECT_FALSE(graph.AllOwnersStay(*graph.Find("uid-one")));
  graph.Remove("uid-one");
  graph.Remove("uid-two");
  EXPECT_EQ(graph.size(), 0U);
}

TEST(GraphTest, WhatBlocksIsTheOnesThatSaySo) {
  Graph graph;
  graph.Put(kMap, Make("owner", {}, "foregroundDeletion"));
  EXPECT_EQ(graph.size(), 1U);
  graph.Put(kPod, Make("blocks", {OwnedBy("owner", true)}));
  graph.Put(kPod, Make("not", {OwnedBy("owner")}));
  EXPECT_THAT(graph.BlockingDependents("uid-owner"), ElementsAre("uid-blocks"));
  // No longer blocking, no longer owned, gone: each time the owner is worth a look.
  EXPECT_THAT(graph.Put(kPod, Make("blocks", {OwnedBy("owner")})), Contains("uid-owner"));
  graph.Put(kPod, Make("blocks", {OwnedBy("owner", true)}));
  EXPECT_THAT(graph.Put(kPod, Make("blocks")), Contains("uid-owner"));
  graph.Put(kPod, Make("blocks", {OwnedBy("owner", true)}));
  EXPECT_THAT(graph.Remove("uid-blocks"), Contains("uid-owner"));
}

TEST(GraphTest, TheBeginOfAForegroundDeletionCallsAllDependents) {
  Graph graph;
  graph.Put(kPod, Make("one", {OwnedBy("owner", true)}));
  graph.Put(kPod, Make("two", {OwnedBy("owner")}));
  graph.Put(kMap, Make("owner"));
  EXPECT_THAT(graph.Put(kMap, Make("owner", {}, "foregroundDeletion")),
              UnorderedElementsAre("uid-owner", "uid-one", "uid-two"));
  EXPECT_THAT(graph.Put(kMap, Make("owner", {}, "foregroundDeletion")), IsEmpty());
}

TEST(GraphTest, AReferenceNamesAnOwnerByAllItsParts) {
  Graph graph;
  graph.Put(kMap, Make("owner", {OwnedBy("other")}));
  const GraphNode& owner = *graph.Find("uid-owner");
  const api::OwnerReference right{
      .api_version = "v1", .kind = "ConfigMap", .name = "owner", .uid = "uid-owner"};
  EXPECT_TRUE(Graph::NamesOwner(right, "a", owner));
  EXPECT_FALSE(Graph::NamesOwner(right, "b", owner));
  api::OwnerReference wrong = right;
  wrong.kind = "Pod";
  EXPECT_FALSE(Graph::NamesOwner(wrong, "a", owner));
  wrong = right;
  wrong.api_version = "apps/v1";
  EXPECT_FALSE(Graph::NamesOwner(wrong, "a", owner));
  wrong = right;
  wrong.name = "another";
  EXPECT_FALSE(Graph::NamesOwner(wrong, "a", owner));
}

TEST(GraphTest, WhatANewListDoesNotHoldIsGone) {
  Graph graph;
  graph.Put(kMap, Make("owner"), 1);
  graph.Put(kPod, Make("pod", {OwnedBy("owner")}), 1);
  graph.Put(kMap, Make("owner"), 1);
  graph.Put(kPod, Make("pod", {OwnedBy("owner")}), 2);
  EXPECT_THAT(graph.RemoveUnlisted(kPod->info(), 2), IsEmpty());
  EXPECT_THAT(graph.RemoveUnlisted(kMap->info(), 2), ElementsAre("uid-pod"));
}

TEST(GraphTest, AKindThatIsNotWatchedAnyMoreIsNoWordOnItsObjects) {
  Graph graph;
  graph.Put(kPod, Make("pod", {OwnedBy("owner")}));
  graph.Put(kMap, Make("owner"));
  graph.Forget(kMap->info());
  EXPECT_FALSE(graph.Find("uid-owner")->present);
  graph.Forget(kPod->info());
  EXPECT_EQ(graph.size(), 0U);
}

TEST(GraphTest, AnObjectMayOwnItself) {
  Graph graph;
  graph.Put(kMap, Make("owner", {OwnedBy("owner")}));
  EXPECT_TRUE(graph.AllOwnersStay(*graph.Find("uid-owner")));
  graph.Remove("uid-owner");
  EXPECT_EQ(graph.size(), 0U);
}

}  // namespace
}  // namespace berth::controllers::ownergc
