#include "controllers/namespace/namespaces.h"

#include <gmock/gmock.h>

#include "controllers/fake_cluster.h"

namespace berth::controllers::namespaces {
namespace {

using base::Json;
using base::StatusCode;
using base::json::String;
using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

const api::KindInfo kWidget{.group = "example.com",
                            .version = "v1",
                            .kind = "Widget",
                            .plural = "widgets",
                            .singular = "widget",
                            .namespaced = true};

Json MakeNamespace(const std::string& name) {
  return {{"apiVersion", "v1"},
          {"kind", "Namespace"},
          {"metadata", {{"name", name}}},
          {"spec", {{"finalizers", {"kubernetes"}}}},
          {"status", {{"phase", "Active"}}}};
}

class NamespacesTest : public ::testing::Test {
 protected:
  void Begin() {
    cluster_.Add<Namespaces>(Options{
        .root_ca = "PEM", .look_again_start = milliseconds(5), .look_again_max = milliseconds(10)});
    cluster_.Put(MakeNamespace("team"));
    cluster_.Start();
  }
  void DeleteNamespace() {
    ASSERT_TRUE(cluster_.client.Delete(api::kinds::kNamespace, "", "team", {}).ok());
  }
  bool Has() { return cluster_.Has<api::Namespace>("", "team"); }
  bool WaitGone() {
    return cluster_.WaitUntil([&] { return !Has(); });
  }
  // The message of the condition, once its status is `status`.
  std::string WaitCondition(const std::string& type, const std::string& status) {
    std::string message;
    EXPECT_TRUE(cluster_.WaitUntil([&] {
      const auto ns = cluster_.Get<api::Namespace>("", "team");
      for (const Json& one : base::json::Array(ns.json(), {"status", "conditions"})) {
        if (String(one, {"type"}) != type || String(one, {"status"}) != status) continue;
        message = String(one, {"message"});
        return true;
      }
      return false;
    })) << type;
    return message;
  }
  Json InTeam(Json object) {
    base::json::Set(object, {"metadata", "namespace"}, "team");
    return object;
  }

  FakeCluster cluster_;
};

TEST_F(NamespacesTest, AnAuthorityThatIsThereIsNotMadeAgainBeforeItIsListed) {
  cluster_.Put(InTeam({{"apiVersion", "v1"},
                       {"kind", "ConfigMap"},
                       {"metadata", {{"name", "kube-root-ca.crt"}}},
                       {"data", {{"ca.crt", "OLD"}}}}));
  cluster_.client.FailNext("list", "configmaps", base::Error(StatusCode::kUnavailable, "not yet"));
  Begin();
  ASSERT_TRUE(cluster_.WaitUntil([&] {
    return cluster_.Get<api::ConfigMap>("team", "kube-root-ca.crt").String({"data", "ca.crt"}) ==
           "PEM";
  }));
  EXPECT_THAT(cluster_.client.ActionNames(),
              Not(Contains("create configmaps/team/kube-root-ca.crt")));
}

TEST_F(NamespacesTest, ANewNamespaceGetsItsAccountAndTheAuthority) {
  Begin();
  ASSERT_TRUE(
      cluster_.WaitUntil([&] { return cluster_.Has<api::ServiceAccount>("team", "default"); }));
  ASSERT_TRUE(cluster_.WaitUntil([&] {
    return cluster_.Get<api::ConfigMap>("team", "kube-root-ca.crt").String({"data", "ca.crt"}) ==
           "PEM";
  }));
}

TEST_F(NamespacesTest, WhatWasTakenAwayOrChangedIsMadeAgain) {
  Begin();
  ASSERT_TRUE(cluster_.WaitUntil([&] {
    return cluster_.Has<api::ServiceAccount>("team", "default") &&
           cluster_.Has<api::ConfigMap>("team", "kube-root-ca.crt");
  }));
  auto map = cluster_.Get<api::ConfigMap>("team", "kube-root-ca.crt");
  map.Set({"data", "ca.crt"}, "forged");
  cluster_.Put(map);
  cluster_.client.Remove(api::kinds::kServiceAccount, "team", "default");
  EXPECT_TRUE(cluster_.WaitUntil([&] {
    return cluster_.Has<api::ServiceAccount>("team", "default") &&
           cluster_.Get<api::ConfigMap>("team", "kube-root-ca.crt").String({"data", "ca.crt"}) ==
               "PEM";
  }));
}

TEST_F(NamespacesTest, EverythingGoesBeforeTheNamespaceDoes) {
  cluster_.client.Serve(kWidget);
  Begin();
  cluster_.Put(InTeam(MakePod("web", "")));
  cluster_.Put(InTeam(
      {{"apiVersion", "example.com/v1"}, {"kind", "Widget"}, {"metadata", {{"name", "cog"}}}}));
  cluster_.Put(MakePod("stays", ""));
  ASSERT_TRUE(
      cluster_.WaitUntil([&] { return cluster_.Has<api::ConfigMap>("team", "kube-root-ca.crt"); }));
  DeleteNamespace();
  ASSERT_TRUE(WaitGone());
  EXPECT_FALSE(cluster_.Has<api::Pod>("team", "web"));
  EXPECT_FALSE(cluster_.Has<api::ServiceAccount>("team", "default"));
  EXPECT_TRUE(cluster_.client.Peek(kWidget, "team", "cog").is_null());
  EXPECT_TRUE(cluster_.Has<api::Pod>("default", "stays"));
}

TEST_F(NamespacesTest, APodThatTakesItsTimeHoldsWhatItUses) {
  Begin();
  cluster_.Put(InTeam(MakePod("web", "", {{"spec", {{"nodeName", "node-a"}}}})));
  cluster_.Put(
      InTeam({{"apiVersion", "v1"}, {"kind", "ConfigMap"}, {"metadata", {{"name", "settings"}}}}));
  DeleteNamespace();
  EXPECT_EQ(WaitCondition("NamespaceContentRemaining", "True"),
            "Some resources are remaining: pods. has 1 resource instances");
  EXPECT_TRUE(cluster_.Get<api::Pod>("team", "web").deleting());
  EXPECT_TRUE(cluster_.Has<api::ConfigMap>("team", "settings"));
  cluster_.client.Remove(api::kinds::kPod, "team", "web");
  EXPECT_TRUE(WaitGone());
}

TEST_F(NamespacesTest, AFinalizerThatHoldsIsNamed) {
  cluster_.client.Serve(kWidget);
  Begin();
  cluster_.Put(InTeam({{"apiVersion", "example.com/v1"},
                       {"kind", "Widget"},
                       {"metadata", {{"name", "cog"}, {"finalizers", {"example.com/x"}}}}}));
  DeleteNamespace();
  EXPECT_EQ(WaitCondition("NamespaceFinalizersRemaining", "True"),
            "Some content in the namespace has finalizers remaining: example.com/x in 1 resource "
            "instances");
  EXPECT_EQ(WaitCondition("NamespaceContentRemaining", "True"),
            "Some resources are remaining: widgets.example.com has 1 resource instances");
  Json cog = cluster_.client.Peek(kWidget, "team", "cog");
  ASSERT_TRUE(cluster_.client
                  .Patch(kWidget, "team", "cog", kube::PatchType::kMerge,
                         {{"metadata", {{"finalizers", nullptr}}}}, "")
                  .ok());
  EXPECT_TRUE(WaitGone());
}

TEST_F(NamespacesTest, AFailureIsToldAndNothingIsLetGo) {
  Begin();
  ASSERT_TRUE(
      cluster_.WaitUntil([&] { return cluster_.Has<api::ConfigMap>("team", "kube-root-ca.crt"); }));
  cluster_.client.FailNext("deletecollection", "configmaps",
                           base::Error(StatusCode::kUnavailable, "the disk is full"));
  DeleteNamespace();
  EXPECT_THAT(WaitCondition("NamespaceDeletionContentFailure", "True"),
              HasSubstr("Failed to delete all resource types, 1 remaining: configmaps: the disk is "
                        "full"));
  EXPECT_TRUE(WaitGone());  // by the next try
}

TEST_F(NamespacesTest, WithoutDiscoveryNothingIsLetGo) {
  Begin();
  cluster_.client.SetStream("/apis", "{}");
  DeleteNamespace();
  WaitCondition("NamespaceDeletionDiscoveryFailure", "True");
  EXPECT_TRUE(Has());
}

TEST_F(NamespacesTest, FinalizersOfOthersStay) {
  Begin();
  api::Namespace ns = cluster_.Get<api::Namespace>("", "team");
  ns.Set({"spec", "finalizers"}, {"kubernetes", "example.com/x"});
  cluster_.Put(ns);
  DeleteNamespace();
  ASSERT_TRUE(cluster_.WaitUntil([&] {
    return cluster_.Get<api::Namespace>("", "team").spec_finalizers() ==
           std::vector<std::string>{"example.com/x"};
  }));
  EXPECT_TRUE(Has());
}

}  // namespace
}  // namespace berth::controllers::namespaces
