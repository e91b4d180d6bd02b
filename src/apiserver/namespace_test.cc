// The end of a namespace: marked first, gone when its content and then its finalizer are.

#include "apiserver/api_fixture.h"

namespace berth::apiserver {
namespace {

using testing::HasSubstr;

constexpr std::string_view kNamespaces = "/api/v1/namespaces";

TEST_F(ApiTest, ANamespaceWaitsForItsFinalizers) {
  const auto created = Post(kNamespaces, {{"metadata", {{"name", "x"}}}});
  ASSERT_EQ(created.code, 201) << created.body;
  EXPECT_EQ(created.json["spec"]["finalizers"], Json::array({"kubernetes"}));
  EXPECT_EQ(created.json["status"]["phase"], "Active");
  ASSERT_EQ(Post(At(kNamespaces, "x") + "/configmaps", ConfigMap("a")).code, 201);

  const auto marked = Delete(At(kNamespaces, "x"));
  EXPECT_EQ(marked.code, 200);
  EXPECT_EQ(marked.json["status"]["phase"], "Terminating");
  EXPECT_TRUE(marked.json["metadata"].contains("deletionTimestamp"));
  EXPECT_FALSE(marked.json["metadata"].contains("deletionGracePeriodSeconds"));
  EXPECT_EQ(Delete(At(kNamespaces, "x")).json["metadata"]["resourceVersion"],
            marked.json["metadata"]["resourceVersion"]);
  // What is in it can still be read and deleted.
  EXPECT_EQ(Delete(At(kNamespaces, "x") + "/configmaps/a").code, 200);

  // An ordinary write does not change the finalizers, even if its object has others.
  Json without = marked.json;
  without["spec"]["finalizers"] = Json::array();
  EXPECT_EQ(Put(At(kNamespaces, "x"), without).json["spec"]["finalizers"],
            Json::array({"kubernetes"}));
  without["metadata"].erase("resourceVersion");
  EXPECT_EQ(Patch(At(kNamespaces, "x") + "/finalize", without).code, 405);
  EXPECT_EQ(Put(At(kNamespaces, "x") + "/finalize", without).code, 200);
  EXPECT_EQ(Get(At(kNamespaces, "x")).code, 404);
}

TEST_F(ApiTest, AnEmptiedFinalizerListDoesNotEndALivingNamespace) {
  ASSERT_EQ(Post(kNamespaces, {{"metadata", {{"name", "x"}}}}).code, 201);
  const Json empty = {{"metadata", {{"name", "x"}}}, {"spec", {{"finalizers", Json::array()}}}};
  EXPECT_EQ(Put(At(kNamespaces, "x") + "/finalize", empty).code, 200);
  EXPECT_EQ(Get(At(kNamespaces, "x")).code, 200);
  EXPECT_EQ(Delete(At(kNamespaces, "x")).code, 200);
  EXPECT_EQ(Get(At(kNamespaces, "x")).code, 404);
}

TEST_F(ApiTest, ANamespacesPhaseFollowsItsMark) {
  ASSERT_EQ(Post(kNamespaces, {{"metadata", {{"name", "x"}}}}).code, 201);
  const Json ending = {{"status", {{"phase", "Terminating"}}}};
  const auto early = Patch(At(kNamespaces, "x") + "/status", ending);
  EXPECT_EQ(early.code, 422);
  EXPECT_THAT(early.message(), HasSubstr("may only be 'Active' if `deletionTimestamp` is empty"));
  ASSERT_EQ(Delete(At(kNamespaces, "x")).code, 200);
  EXPECT_EQ(Patch(At(kNamespaces, "x") + "/status", {{"status", {{"phase", "Active"}}}}).code, 422);
  const auto condition =
      Patch(At(kNamespaces, "x") + "/status",
            {{"status",
              {{"conditions", {{{"type", "NamespaceContentRemaining"}, {"status", "True"}}}}}}});
  EXPECT_EQ(condition.code, 200) << condition.body;
}

TEST_F(ApiTest, NamespacesThatTheApiLivesByStay) {
  for (const char* name : {"default", "kube-system", "kube-public", "kube-node-lease"}) {
    const auto refused = Delete(At(kNamespaces, name));
    EXPECT_EQ(refused.code, 403) << name;
    EXPECT_EQ(refused.message(), fmt::format("namespaces \"{}\" is forbidden: this namespace may "
                                             "not be deleted",
                                             name));
  }
}

}  // namespace
}  // namespace berth::apiserver
