// What `kubectl get apiservices` lists: the groups that are served, custom ones included.

#include "apiserver/custom/custom_test_client.h"

namespace berth::apiserver {
namespace {

constexpr std::string_view kServices = "/apis/apiregistration.k8s.io/v1/apiservices";

TEST_F(CustomTest, ServedGroupsAreListedAndStayAsTheyAre) {
  const auto apps = Get(At(kServices, "v1.apps"));
  ASSERT_EQ(apps.code, 200) << apps.body;
  EXPECT_EQ(apps.json["spec"]["group"], "apps");
  EXPECT_EQ(apps.json["status"]["conditions"][0]["reason"], "Local");
  EXPECT_EQ(Get(At(kServices, "v1.")).json["spec"]["version"], "v1");
  EXPECT_EQ(Delete(At(kServices, "v1.apps")).code, 405);
  EXPECT_EQ(Post(kServices, apps.json).code, 405);
}

TEST_F(CustomTest, ACustomGroupIsListedWhileItIsServed) {
  EXPECT_EQ(Get(At(kServices, "v1.example.com")).code, 404);
  Define(DefinitionWith({{"type", "object"}}));
  const auto service = Get(At(kServices, "v1.example.com"));
  ASSERT_EQ(service.code, 200) << service.body;
  EXPECT_EQ(service.json["spec"]["groupPriorityMinimum"], 1000);
  EXPECT_EQ(service.json["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"],
            "true");
  ASSERT_EQ(Delete(At(kDefinitions, "widgets.example.com")).code, 200);
  WaitUntilGone(kServices, "v1.example.com");
  EXPECT_EQ(Get(At(kServices, "v1.example.com")).code, 404);
  EXPECT_EQ(Get(At(kServices, "v1.apps")).code, 200);
}

}  // namespace
}  // namespace berth::apiserver
