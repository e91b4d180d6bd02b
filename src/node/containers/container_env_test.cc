#include "node/containers/container_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/containers/container_backoff.h"
#include "node/containers/container_resources.h"
#include "node/containers/image_auth.h"
#include "node/containers/image_puller.h"

namespace berth::node {
namespace {

using base::Json;
using base::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class EnvironmentTest : public ::testing::Test {
 protected:
  EnvironmentTest()
      : pod_({{"metadata",
               {{"name", "p"}, {"namespace", "n"}, {"uid", "u"}, {"labels", {{"app", "web"}}}}}}) {}

  base::StatusOr<Environment> Make(Json env, Json env_from = Json::array(),
                                   Json resources = Json::object()) {
    const api::Container container(Json{{"name", "c"},
                                        {"env", std::move(env)},
                                        {"envFrom", std::move(env_from)},
                                        {"resources", std::move(resources)}});
    pod_.Set({"spec", "containers"}, Json::array({container.json()}));
    return MakeEnvironment(pod_, container, facts_,
                           [this](const api::KindInfo& kind, std::string_view ns,
                                  std::string_view name) -> base::StatusOr<Json> {
                             const auto it =
                                 objects_.find(fmt::format("{}/{}/{}", kind.kind, ns, name));
                             if (it != objects_.end()) return it->second;
                             return base::Error(StatusCode::kNotFound, "not there");
                           });
  }

  api::Pod pod_;
  PodFacts facts_{.node_name = "node-a",
                  .host_ip = "192.0.2.1",
                  .pod_ips = {"10.0.0.1", "fd00::1"},
                  .cpu_capacity_milli = 2000,
                  .memory_capacity = 1 << 30};
  std::map<std::string, Json> objects_;
};

TEST_F(EnvironmentTest, ExpandsReferencesToWhatWasDefinedBefore) {
  const auto env = Make({{{"name", "A"}, {"value", "1"}},
                         {{"name", "B"}, {"value", "$(A)-$(C)-$$(A)-$(A"}},
                         {{"name", "C"}, {"value", "3"}},
                         {{"name", "A"}, {"value", "again"}}});
  ASSERT_TRUE(env.ok());
  EXPECT_THAT(*env, ElementsAre(Pair("A", "again"), Pair("B", "1-$(C)-$(A)-$(A"), Pair("C", "3")));
}

TEST_F(EnvironmentTest, ReadsFieldsOfThePod) {
  const auto from = [](const char* path) { return Json{{"fieldRef", {{"fieldPath", path}}}}; };
  const auto env = Make({{{"name", "A"}, {"valueFrom", from("metadata.labels['app']")}},
                         {{"name", "B"}, {"valueFrom", from("status.podIPs")}},
                         {{"name", "C"}, {"valueFrom", from("spec.nodeName")}}});
  ASSERT_TRUE(env.ok());
  EXPECT_THAT(*env,
              ElementsAre(Pair("A", "web"), Pair("B", "10.0.0.1,fd00::1"), Pair("C", "node-a")));
  EXPECT_EQ(Make({{{"name", "A"}, {"valueFrom", from("spec.secrets")}}}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(EnvironmentTest, ReadsResourcesInUnitsOfTheirDivisor) {
  const auto from = [](const char* resource, Json divisor) {
    return Json{{"resourceFieldRef", {{"resource", resource}, {"divisor", divisor}}}};
  };
  const auto env =
      Make({{{"name", "A"}, {"valueFrom", from("limits.memory", "1Mi")}},
            {{"name", "B"}, {"valueFrom", from("requests.cpu", "1m")}},
            {{"name", "C"}, {"valueFrom", from("limits.cpu", "1")}}},
           Json::array(), {{"limits", {{"memory", "64Mi"}}}, {"requests", {{"cpu", "1500m"}}}});
  ASSERT_TRUE(env.ok()) << base::ToString(env.status());
  EXPECT_THAT(*env, ElementsAre(Pair("A", "64"), Pair("B", "1500"), Pair("C", "2")));
}

TEST_F(EnvironmentTest, ReadsConfigMapsAndSecrets) {
  objects_["ConfigMap/n/m"] = {{"data", {{"k", "v"}, {"bad name!", "x"}}}};
  objects_["Secret/n/s"] = {{"data", {{"k", "aHVzaA=="}}}};
  const auto env =
      Make({{{"name", "A"}, {"valueFrom", {{"secretKeyRef", {{"name", "s"}, {"key", "k"}}}}}},
            {{"name", "B"},
             {"valueFrom",
              {{"configMapKeyRef", {{"name", "none"}, {"key", "k"}, {"optional", true}}}}}}},
           {{{"prefix", "M_"}, {"configMapRef", {{"name", "m"}}}}});
  ASSERT_TRUE(env.ok()) << base::ToString(env.status());
  EXPECT_THAT(*env, ElementsAre(Pair("M_k", "v"), Pair("A", "hush")));
}

TEST_F(EnvironmentTest, SaysWhatIsMissing) {
  objects_["ConfigMap/n/m"] = {{"data", Json::object()}};
  auto env =
      Make({{{"name", "A"}, {"valueFrom", {{"configMapKeyRef", {{"name", "m"}, {"key", "k"}}}}}}});
  EXPECT_EQ(base::Message(env.status()), "couldn't find key k in ConfigMap n/m");
  env = Make(Json::array(), {{{"secretRef", {{"name", "s"}}}}});
  EXPECT_EQ(base::Message(env.status()), "secret \"s\" not found");
}

// Each level of references multiplies what the spec holds by the number of references in it.
TEST_F(EnvironmentTest, AShortSpecThatMeansALongEnvironmentIsRefused) {
  const auto repeat = [](const std::string& text, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) out += text;
    return out;
  };
  const auto env = Make({{{"name", "A"}, {"value", "0123456789abcdef"}},
                         {{"name", "B"}, {"value", repeat("$(A)", 1000)}},
                         {{"name", "C"}, {"value", repeat("$(B)", 1000)}}});
  EXPECT_EQ(env.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(base::Message(env.status())), HasSubstr("execve takes no more"));
}

TEST_F(EnvironmentTest, AConfigMapThatIsTakenManyTimesIsRefused) {
  objects_["ConfigMap/n/m"] = {{"data", {{"k", std::string(1 << 20, 'x')}}}};
  Json sources = Json::array();
  for (int i = 0; i < 8; ++i) {
    sources.push_back({{"prefix", fmt::format("P{}_", i)}, {"configMapRef", {{"name", "m"}}}});
  }
  EXPECT_EQ(Make(Json::array(), sources).status().code(), StatusCode::kInvalidArgument);
  // A name that is given again has only its last value.
  for (Json& source : sources) source["prefix"] = "P_";
  EXPECT_TRUE(Make(Json::array(), sources).ok());
}

TEST(QosClassTest, FollowsRequestsAndLimits) {
  const auto qos = [](Json resources) {
    return ComputeQosClass(
        api::Pod({{"spec", {{"containers", {{{"name", "a"}, {"resources", resources}}}}}}}));
  };
  EXPECT_EQ(qos(Json::object()), "BestEffort");
  EXPECT_EQ(qos({{"requests", {{"cpu", "100m"}}}}), "Burstable");
  EXPECT_EQ(qos({{"limits", {{"cpu", "1"}, {"memory", "1Gi"}}}}), "Guaranteed");
  EXPECT_EQ(qos({{"limits", {{"cpu", "1"}, {"memory", "1Gi"}}}, {"requests", {{"cpu", "500m"}}}}),
            "Burstable");
}

TEST(ContainerResourcesTest, BecomeSharesQuotaAndLimits) {
  const api::Pod pod(Json{{"spec",
                           {{"containers",
                             {{{"name", "a"},
                               {"resources",
                                {{"limits", {{"cpu", "1500m"}, {"memory", "64Mi"}}},
                                 {"requests", {{"cpu", "250m"}, {"memory", "32Mi"}}}}}}}}}}});
  const auto out = MakeContainerResources(pod, pod.containers()[0], int64_t{320} << 20);
  EXPECT_EQ(out.cpu_shares(), 256);
  EXPECT_EQ(out.cpu_quota(), 150000);
  EXPECT_EQ(out.cpu_period(), 100000);
  EXPECT_EQ(out.memory_limit_in_bytes(), 64 << 20);
  EXPECT_EQ(out.oom_score_adj(), 900);
}

TEST(CrashBackoffTest, DoublesAndForgets) {
  constexpr int64_t kSecond = 1'000'000'000;
  CrashBackoff backoff;
  int64_t now = 1000 * kSecond;
  EXPECT_EQ(backoff.TimeLeft("a", now, now).count(), 0) << "the first restart is at once";
  backoff.NoteStart("a", now, now);
  EXPECT_EQ(backoff.TimeLeft("a", now + kSecond, now + 2 * kSecond), std::chrono::seconds(9));
  EXPECT_EQ(backoff.TimeLeft("a", now + kSecond, now + 12 * kSecond).count(), 0);
  for (int i = 0; i < 10; ++i) backoff.NoteStart("a", now, now);
  EXPECT_EQ(backoff.FullDelay("a"), std::chrono::seconds(300));
  EXPECT_EQ(backoff.TimeLeft("a", now + kSecond, now - 5000 * kSecond), std::chrono::seconds(300))
      << "the clock was set back";
  EXPECT_EQ(backoff.TimeLeft("a", now + 700 * kSecond, now + 700 * kSecond).count(), 0)
      << "it ran long";
}

TEST(ImageRegistryTest, IsTheFirstPartOfAName) {
  EXPECT_EQ(ImageRegistry("busybox"), "docker.io");
  EXPECT_EQ(ImageRegistry("library/busybox:1"), "docker.io");
  EXPECT_EQ(ImageRegistry("ghcr.io/a/b@sha256:0"), "ghcr.io");
  EXPECT_EQ(ImageRegistry("localhost:5000/x"), "localhost:5000");
}

TEST(PullPolicyTest, DefaultsByTag) {
  const auto policy = [](const char* image) {
    return PullPolicy(api::Container(Json{{"image", image}}));
  };
  EXPECT_EQ(policy("busybox"), "Always");
  EXPECT_EQ(policy("busybox:latest"), "Always");
  EXPECT_EQ(policy("host:5000/busybox"), "Always");
  EXPECT_EQ(policy("busybox:1"), "IfNotPresent");
  EXPECT_EQ(policy("busybox@sha256:0"), "IfNotPresent");
}

TEST(PullCredentialsTest, AreThoseOfTheRegistry) {
  const api::Pod pod(
      Json{{"metadata", {{"namespace", "n"}}},
           {"spec", {{"imagePullSecrets", {{{"name", "absent"}}, {{"name", "s"}}}}}}});
  const ObjectReader reader = [](const api::KindInfo&, std::string_view,
                                 std::string_view name) -> base::StatusOr<Json> {
    if (name != "s") return base::Error(StatusCode::kNotFound, "absent");
    // {"auths":{"https://index.docker.io/v1/":{"auth":"dTpw"},"ghcr.io":{"username":"g","password":"h"}}}
    return Json{{"type", "kubernetes.io/dockerconfigjson"},
                {"data",
                 {{".dockerconfigjson",
                   "eyJhdXRocyI6eyJodHRwczovL2luZGV4LmRvY2tlci5pby92MS8iOnsiYXV0aCI6ImRUcHcifSwiZ2h"
                   "jci5pbyI6eyJ1c2VybmFtZSI6ImciLCJwYXNzd29yZCI6ImgifX19"}}}};
  };
  const auto hub = FindPullCredentials(pod, "busybox:1", reader);
  ASSERT_TRUE(hub.has_value());
  EXPECT_EQ(hub->username(), "u");
  EXPECT_EQ(hub->password(), "p");
  EXPECT_EQ(FindPullCredentials(pod, "ghcr.io/x", reader)->username(), "g");
  EXPECT_FALSE(FindPullCredentials(pod, "quay.io/x", reader).has_value());
}

}  // namespace
}  // namespace berth::node
