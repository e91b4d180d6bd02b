// What a delete says of dependents, over HTTP: the finalizers that ask the garbage collector.

#include "apiserver/api_fixture.h"

namespace berth::apiserver {
namespace {

using testing::HasSubstr;

class PropagationTest : public ApiTest {
 protected:
  void Make(const Json& finalizers = Json::array()) {
    Json object = ConfigMap("a");
    if (!finalizers.empty()) object["metadata"]["finalizers"] = finalizers;
    ASSERT_EQ(Post(kConfigMaps, object).code, 201);
  }
  Json Finalizers() { return Get(At(kConfigMaps, "a")).json["metadata"]["finalizers"]; }
};

TEST_F(PropagationTest, EachPolicyLeavesItsFinalizer) {
  const struct {
    Json before;
    Json options;
    Json after;  // null: gone
  } cases[] = {
      {Json::array(), nullptr, nullptr},
      {Json::array(), {{"propagationPolicy", "Background"}}, nullptr},
      {Json::array(), {{"propagationPolicy", "Foreground"}}, {"foregroundDeletion"}},
      {Json::array(), {{"propagationPolicy", "Orphan"}}, {"orphan"}},
      {Json::array(), {{"orphanDependents", true}}, {"orphan"}},
      {Json::array(), {{"orphanDependents", false}}, nullptr},
      {{"x.dev/y"}, {{"propagationPolicy", "Foreground"}}, {"x.dev/y", "foregroundDeletion"}},
      {{"x.dev/y"}, nullptr, {"x.dev/y"}},
      // What the object has already is its default.
      {{"orphan"}, nullptr, {"orphan"}},
      {{"foregroundDeletion"}, nullptr, {"foregroundDeletion"}},
      {{"orphan"}, {{"propagationPolicy", "Background"}}, nullptr},
      {{"orphan"}, {{"propagationPolicy", "Foreground"}}, {"foregroundDeletion"}},
      {{"foregroundDeletion"}, {{"orphanDependents", false}}, nullptr},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.before.dump() + one.options.dump());
    Make(one.before);
    const auto deleted = one.options.is_null() ? Delete(At(kConfigMaps, "a"))
                                               : Delete(At(kConfigMaps, "a"), one.options);
    EXPECT_EQ(deleted.code, 200) << deleted.body;
    if (one.after.is_null()) {
      EXPECT_EQ(Get(At(kConfigMaps, "a")).code, 404);
      continue;
    }
    EXPECT_EQ(Finalizers(), one.after);
    EXPECT_TRUE(Get(At(kConfigMaps, "a")).json["metadata"].contains("deletionTimestamp"));
    ASSERT_EQ(Patch(At(kConfigMaps, "a"), {{"metadata", {{"finalizers", nullptr}}}}).code, 200);
  }
}

TEST_F(PropagationTest, TheQueryOfADeleteWithoutBodyCountsToo) {
  Make();
  EXPECT_EQ(Delete(At(kConfigMaps, "a") + "?propagationPolicy=Foreground").code, 200);
  EXPECT_EQ(Finalizers(), Json::array({"foregroundDeletion"}));
}

TEST_F(PropagationTest, AnotherDeleteChangesTheMindOfTheFirst) {
  Make();
  const auto first = Delete(At(kConfigMaps, "a"), {{"propagationPolicy", "Foreground"}});
  EXPECT_EQ(Delete(At(kConfigMaps, "a")).json["metadata"]["resourceVersion"],
            first.json["metadata"]["resourceVersion"]);
  EXPECT_EQ(Delete(At(kConfigMaps, "a"), {{"propagationPolicy", "Orphan"}}).code, 200);
  EXPECT_EQ(Finalizers(), Json::array({"orphan"}));
  EXPECT_EQ(Delete(At(kConfigMaps, "a"), {{"propagationPolicy", "Background"}}).code, 200);
  EXPECT_EQ(Get(At(kConfigMaps, "a")).code, 404);
}

TEST_F(PropagationTest, APodsForegroundDeletionWaitsForItsGraceAndItsDependents) {
  ASSERT_EQ(Post(kPods, PodNamed("p")).code, 201);
  ASSERT_EQ(Post(At(kPods, "p") + "/binding", {{"target", {{"name", "n"}}}}).code, 201);
  EXPECT_EQ(Delete(At(kPods, "p"), {{"propagationPolicy", "Foreground"}}).code, 200);
  const Json pod = Get(At(kPods, "p")).json;
  EXPECT_EQ(pod["metadata"]["finalizers"], Json::array({"foregroundDeletion"}));
  EXPECT_EQ(pod["metadata"]["deletionGracePeriodSeconds"], 30);
}

TEST_F(PropagationTest, RefusesWhatItDoesNotKnow) {
  Make();
  const auto unknown = Delete(At(kConfigMaps, "a"), {{"propagationPolicy", "Sideways"}});
  EXPECT_EQ(unknown.code, 422);
  EXPECT_THAT(unknown.message(), HasSubstr("propagationPolicy: Unsupported value: \"Sideways\""));
  const auto both =
      Delete(At(kConfigMaps, "a"), {{"propagationPolicy", "Orphan"}, {"orphanDependents", true}});
  EXPECT_EQ(both.code, 422);
  EXPECT_THAT(both.message(),
              HasSubstr("orphanDependents and deletionPropagation cannot be both set"));
  EXPECT_EQ(Get(At(kConfigMaps, "a")).code, 200);
}

}  // namespace
}  // namespace berth::apiserver
