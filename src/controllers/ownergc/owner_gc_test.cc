#include "controllers/ownergc/owner_gc.h"

#include <gmock/gmock.h>

#include "controllers/fake_cluster.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::ownergc {
namespace {

using base::Json;
using base::StatusCode;
using std::chrono::milliseconds;

const api::KindInfo kWidget{.group = "example.com",
                            .version = "v1",
                            .kind = "Widget",
                            .plural = "widgets",
                            .singular = "widget",
                            .namespaced = true};

Json MakeMap(const std::string& name, const std::string& ns = "default") {
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata", {{"name", name}, {"namespace", ns}, {"uid", "uid-" + name}}}};
}

Json Reference(const Json& owner, bool block = false) {
  return {{"apiVersion", owner.at("apiVersion")},
          {"kind", owner.at("kind")},
          {"name", owner.at("metadata").at("name")},
          {"uid", owner.at("metadata").at("uid")},
          {"blockOwnerDeletion", block}};
}

Json Owned(Json object, const std::vector<Json>& references) {
  object["metadata"]["ownerReferences"] = references;
  return object;
}

class OwnerGcTest : public ::testing::Test {
 protected:
  void Begin() {
    // The collector uses the informer of another controller, and watches the metadata of other
    // kinds.
    cluster_.informers.Of<api::Pod>();
    gc_ = &cluster_.Add<OwnerGc>(Options{.discovery_delay = milliseconds(10)});
    cluster_.Start();
  }
  Json Add(const Json& object) { return cluster_.client.Add(object); }
  bool Has(const std::string& map, const std::string& ns = "default") {
    return cluster_.Has<api::ConfigMap>(ns, map);
  }
  bool HasPod(const std::string& pod) { return cluster_.Has<api::Pod>("default", pod); }
  void Delete(const std::string& map, const std::string& propagation = "") {
    ASSERT_TRUE(
        cluster_.client.Delete(api::kinds::kConfigMap, "default", map, {.propagation = propagation})
            .ok());
  }
  bool WaitUntil(const std::function<bool()>& condition) { return cluster_.WaitUntil(condition); }
  bool StaysFalse(const std::function<bool()>& condition) {
    return !cluster_.client.WaitUntil(condition, milliseconds(300));
  }

  FakeCluster cluster_;
  OwnerGc* gc_ = nullptr;
};

TEST_F(OwnerGcTest, DependentsFollowTheirOwnerInTheBackground) {
  const Json owner = Add(MakeMap("owner"));
  Add(Owned(MakeMap("map"), {Reference(owner)}));
  Add(Owned(MakePod("pod", ""), {Reference(owner)}));
  Add(MakeMap("alone"));
  Begin();
  EXPECT_TRUE(StaysFalse([&] { return !Has("map") || !HasPod("pod"); }));
  Delete("owner");
  ASSERT_TRUE(WaitUntil([&] { return !Has("map") && !HasPod("pod"); }));
  EXPECT_TRUE(Has("alone"));
  EXPECT_TRUE(WaitUntil([&] { return gc_->remembered() == 0; }));
}

TEST_F(OwnerGcTest, GrandchildrenFollowToo) {
  const Json owner = Add(MakeMap("owner"));
  const Json child = Add(Owned(MakeMap("child"), {Reference(owner)}));
  Add(Owned(MakePod("grandchild", ""), {Reference(child)}));
  Begin();
  Delete("owner");
  EXPECT_TRUE(WaitUntil([&] { return !Has("child") && !HasPod("grandchild"); }));
}

TEST_F(OwnerGcTest, AnOwnerThatWasNeverThereIsAbsent) {
  Begin();
  Json gone = MakeMap("gone");
  Add(Owned(MakeMap("map"), {Reference(gone)}));
  EXPECT_TRUE(WaitUntil([&] { return !Has("map"); }));
}

TEST_F(OwnerGcTest, AnotherOwnerOfTheSameNameIsNotTheOwner) {
  Json owner = MakeMap("owner");
  Add(owner);
  owner["metadata"]["uid"] = "uid-of-the-one-before";
  Begin();
  Add(Owned(MakeMap("map"), {Reference(owner)}));
  EXPECT_TRUE(WaitUntil([&] { return !Has("map"); }));
  EXPECT_TRUE(Has("owner"));
}

TEST_F(OwnerGcTest, AnOwnerThatStaysKeepsItAndTheAbsentOneIsRemoved) {
  const Json stays = Add(MakeMap("stays"));
  const Json goes = Add(MakeMap("goes"));
  Add(Owned(MakeMap("map"), {Reference(goes), Reference(stays)}));
  Begin();
  Delete("goes");
  ASSERT_TRUE(WaitUntil([&] {
    const auto owners = cluster_.Get<api::ConfigMap>("default", "map").owner_references();
    return owners.size() == 1 && owners[0].name == "stays";
  }));
}

TEST_F(OwnerGcTest, InTheForegroundBlockingDependentsGoFirst) {
  const Json owner = Add(MakeMap("owner"));
  Add(Owned(Merged(MakePod("pod", ""), {{"metadata", {{"finalizers", {"example.com/x"}}}}}),
            {Reference(owner, true)}));
  Add(Owned(MakeMap("map"), {Reference(owner, true)}));
  Begin();
  Delete("owner", "Foreground");
  ASSERT_TRUE(WaitUntil(
      [&] { return !Has("map") && cluster_.Get<api::Pod>("default", "pod").deleting(); }));
  EXPECT_TRUE(StaysFalse([&] { return !Has("owner"); }));
  cluster_.client.Remove(api::kinds::kPod, "default", "pod");
  EXPECT_TRUE(WaitUntil([&] { return !Has("owner"); }));
  EXPECT_TRUE(WaitUntil([&] { return gc_->remembered() == 0; }));
}

TEST_F(OwnerGcTest, WhatDoesNotBlockIsNotWaitedFor) {
  const Json owner = Add(MakeMap("owner"));
  Add(Owned(Merged(MakePod("pod", ""), {{"metadata", {{"finalizers", {"example.com/x"}}}}}),
            {Reference(owner)}));
  Begin();
  Delete("owner", "Foreground");
  EXPECT_TRUE(WaitUntil([&] { return !Has("owner"); }));
  EXPECT_TRUE(WaitUntil([&] { return cluster_.Get<api::Pod>("default", "pod").deleting(); }));
}

TEST_F(OwnerGcTest, ForegroundDeletionGoesDownTheTree) {
  const Json owner = Add(MakeMap("owner"));
  const Json child = Add(Owned(MakeMap("child"), {Reference(owner, true)}));
  Add(Owned(Merged(MakePod("pod", ""), {{"metadata", {{"finalizers", {"example.com/x"}}}}}),
            {Reference(child, true)}));
  Begin();
  Delete("owner", "Foreground");
  ASSERT_TRUE(WaitUntil([&] { return cluster_.Get<api::Pod>("default", "pod").deleting(); }));
  EXPECT_TRUE(StaysFalse([&] { return !Has("child") || !Has("owner"); }));
  cluster_.client.Remove(api::kinds::kPod, "default", "pod");
  EXPECT_TRUE(WaitUntil([&] { return !Has("child") && !Has("owner"); }));
}

TEST_F(OwnerGcTest, ACircleOfOwnersDoesNotWaitForItself) {
  const Json one = MakeMap("one");
  const Json two = MakeMap("two");
  Add(Owned(one, {Reference(two, true)}));
  Add(Owned(two, {Reference(one, true)}));
  Begin();
  Delete("one", "Foreground");
  EXPECT_TRUE(WaitUntil([&] { return !Has("one") && !Has("two"); }));
}

TEST_F(OwnerGcTest, OrphansStayWithoutTheirOwner) {
  const Json owner = Add(MakeMap("owner"));
  const Json other = Add(MakeMap("other"));
  Add(Owned(MakeMap("map"), {Reference(owner), Reference(other)}));
  Add(Owned(MakePod("pod", ""), {Reference(owner, true)}));
  Begin();
  Delete("owner", "Orphan");
  ASSERT_TRUE(WaitUntil([&] { return !Has("owner"); }));
  EXPECT_TRUE(cluster_.Get<api::Pod>("default", "pod").owner_references().empty());
  ASSERT_EQ(cluster_.Get<api::ConfigMap>("default", "map").owner_references().size(), 1U);
  EXPECT_TRUE(StaysFalse([&] { return !Has("map") || !HasPod("pod"); }));
}

TEST_F(OwnerGcTest, AnOwnerInAnotherNamespaceIsAbsentAndReported) {
  const Json owner = Add(MakeMap("owner", "elsewhere"));
  Add(Owned(MakeMap("neighbour", "elsewhere"), {Reference(owner)}));
  Begin();
  // The collector has seen the neighbour and its owner.
  ASSERT_TRUE(WaitUntil([&] { return gc_->remembered() == 2; }));
  EXPECT_TRUE(StaysFalse([&] { return !Has("neighbour", "elsewhere"); }));
  Add(Owned(MakeMap("map"), {Reference(owner)}));
  EXPECT_TRUE(WaitUntil([&] { return !Has("map"); }));
  EXPECT_TRUE(cluster_.events.WaitFor(
      "Warning OwnerRefInvalidNamespace default/map: ownerRef [v1/ConfigMap, namespace: default, "
      "name: owner, uid: uid-owner] does not exist in namespace \"default\""));
  EXPECT_TRUE(Has("neighbour", "elsewhere"));
}

TEST_F(OwnerGcTest, AClusterWideObjectOfANamespacedOwnerIsLeftAlone) {
  const Json owner = Add(MakeMap("owner"));
  Begin();
  Add(Owned(MakeNode("node"), {Reference(owner)}));
  EXPECT_TRUE(cluster_.events.WaitFor("Warning OwnerRefInvalidNamespace node"));
  Delete("owner");
  EXPECT_TRUE(StaysFalse([&] { return !cluster_.Has<api::Node>("", "node"); }));
}

TEST_F(OwnerGcTest, ClusterWideOwnersOwnWhatIsInNamespaces) {
  Json node = MakeNode("node");
  node["metadata"]["uid"] = "uid-node";
  Add(node);
  Add(Owned(MakeMap("map"), {Reference(node)}));
  Begin();
  EXPECT_TRUE(StaysFalse([&] { return !Has("map"); }));
  cluster_.client.Remove(api::kinds::kNode, "", "node");
  EXPECT_TRUE(WaitUntil([&] { return !Has("map"); }));
}

TEST_F(OwnerGcTest, AnApiThatDoesNotAnswerLosesNothing) {
  const Json owner = Add(MakeMap("owner"));
  Begin();
  for (int i = 0; i < 3; ++i) {
    cluster_.client.FailNext("get", "configmaps", base::Error(StatusCode::kUnavailable, "away"));
  }
  Add(Owned(MakePod("pod", ""), {Reference(owner)}));
  EXPECT_TRUE(StaysFalse([&] { return !HasPod("pod"); }));
}

TEST_F(OwnerGcTest, AnUnknownKindOfOwnerIsWaitedFor) {
  Begin();
  const Json widget = {{"apiVersion", "example.com/v1"},
                       {"kind", "Widget"},
                       {"metadata", {{"name", "cog"}, {"uid", "uid-cog"}}}};
  Add(Owned(MakeMap("map"), {Reference(widget)}));
  EXPECT_TRUE(StaysFalse([&] { return !Has("map"); }));
  // Now the API serves the kind and has no such object, so the owner is absent.
  cluster_.client.Serve(kWidget);
  EXPECT_TRUE(WaitUntil([&] { return !Has("map"); }));
}

TEST_F(OwnerGcTest, CustomKindsComeAndGoWithTheirDefinitions) {
  Begin();
  cluster_.client.Serve(kWidget);
  Add({{"apiVersion", "apiextensions.k8s.io/v1"},
       {"kind", "CustomResourceDefinition"},
       {"metadata", {{"name", "widgets.example.com"}}}});
  const Json cog = Add({{"apiVersion", "example.com/v1"},
                        {"kind", "Widget"},
                        {"metadata", {{"name", "cog"}, {"namespace", "default"}}}});
  Add(Owned({{"apiVersion", "example.com/v1"},
             {"kind", "Widget"},
             {"metadata", {{"name", "tooth"}, {"namespace", "default"}}}},
            {Reference(cog)}));
  ASSERT_TRUE(cluster_.client.WaitForWatches(kWidget, 1));
  ASSERT_TRUE(cluster_.client.Delete(kWidget, "default", "cog", {}).ok());
  EXPECT_TRUE(
      WaitUntil([&] { return cluster_.client.Peek(kWidget, "default", "tooth").is_null(); }));
  cluster_.client.StopServing(kWidget);
  ASSERT_TRUE(
      cluster_.client.Delete(api::kinds::kCustomResourceDefinition, "", "widgets.example.com", {})
          .ok());
  // The collector still works for the other kinds.
  const Json owner = Add(MakeMap("owner"));
  Add(Owned(MakeMap("map"), {Reference(owner)}));
  Delete("owner");
  EXPECT_TRUE(WaitUntil([&] { return !Has("map"); }));
}

TEST_F(OwnerGcTest, WhatHappenedWhileTheWatchWasAwayIsFound) {
  const Json owner = Add(MakeMap("owner"));
  Add(Owned(MakeMap("map"), {Reference(owner)}));
  Begin();
  ASSERT_TRUE(cluster_.client.WaitForWatches(api::kinds::kConfigMap, 1));
  ASSERT_TRUE(WaitUntil([&] { return gc_->remembered() == 2; }));
  cluster_.client.SetOutage(base::Error(StatusCode::kUnavailable, "away"));
  cluster_.client.Remove(api::kinds::kConfigMap, "default", "owner");
  cluster_.client.Compact();
  cluster_.client.SetOutage(base::OkStatus());
  EXPECT_TRUE(WaitUntil([&] { return !Has("map"); }));
}

TEST_F(OwnerGcTest, AnObjectThatIsAdoptedInTimeStays) {
  const Json stays = Add(MakeMap("stays"));
  const Json goes = Add(MakeMap("goes"));
  Add(Owned(MakeMap("map"), {Reference(goes)}));
  Begin();
  ASSERT_TRUE(WaitUntil([&] { return gc_->remembered() == 2; }));
  // The first delete fails, because the object has changed: it has another owner by then.
  cluster_.client.FailNext("delete", "configmaps", base::Error(StatusCode::kAborted, "changed"));
  cluster_.client.Remove(api::kinds::kConfigMap, "default", "goes");
  ASSERT_TRUE(WaitUntil([&] {
    const auto names = cluster_.client.ActionNames();
    return std::find(names.begin(), names.end(), "delete configmaps/default/map") != names.end();
  }));
  Add(Owned(MakeMap("map"), {Reference(goes), Reference(stays)}));
  EXPECT_TRUE(StaysFalse([&] { return !Has("map"); }));
}

}  // namespace
}  // namespace berth::controllers::ownergc
