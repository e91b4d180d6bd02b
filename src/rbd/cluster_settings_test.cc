#include "rbd/cluster_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::rbd {
namespace {

using base::Json;
using base::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kKey[] = "AQDdGKxnAAAAABAAsecretsecretsecret0Q==";

Json ClusterJson() {
  return {{"monitors", {"10.0.0.1:6789", "[v2:10.0.0.2:3300,v1:10.0.0.2:6789]"}},
          {"pool", "berth"},
          {"namespace", "team"},
          {"user", "berth"},
          {"key", kKey}};
}

std::string SettingsFailure(const Json& cluster) {
  const auto parsed = ParseClusterSettings(cluster);
  EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
  return std::string(base::Message(parsed.status()));
}

TEST(ClusterSettingsTest, ReadsEveryMember) {
  const auto parsed = ParseClusterSettings(ClusterJson());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->monitors,
              ElementsAre("10.0.0.1:6789", "[v2:10.0.0.2:3300,v1:10.0.0.2:6789]"));
  EXPECT_EQ(parsed->pool, "berth");
  EXPECT_EQ(parsed->pool_namespace, "team");
  EXPECT_EQ(parsed->user, "berth");
  EXPECT_EQ(parsed->key, kKey);
}

TEST(ClusterSettingsTest, APoolNeedsNoNamespace) {
  Json cluster = ClusterJson();
  cluster.erase("namespace");
  const auto parsed = ParseClusterSettings(cluster);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->pool_namespace, "");
}

TEST(ClusterSettingsTest, ALineEndAfterTheKeyIsNoPartOfIt) {
  Json cluster = ClusterJson();
  cluster["key"] = std::string(kKey) + "\n";
  const auto parsed = ParseClusterSettings(cluster);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->key, kKey);
}

TEST(ClusterSettingsTest, AWrongKeyIsNotQuoted) {
  Json cluster = ClusterJson();
  cluster["key"] = "se cret";
  EXPECT_THAT(SettingsFailure(cluster), AllOf(HasSubstr("cluster.key"), Not(HasSubstr("cret"))));
}

TEST(ClusterSettingsTest, NamesTheMemberThatIsWrong) {
  for (const char* member : {"monitors", "pool", "user", "key"}) {
    Json cluster = ClusterJson();
    cluster.erase(member);
    EXPECT_THAT(SettingsFailure(cluster), HasSubstr(member));
  }
  Json cluster = ClusterJson();
  cluster["pool"] = 7;
  EXPECT_THAT(SettingsFailure(cluster), HasSubstr("cluster.pool is not a string"));
  cluster = ClusterJson();
  cluster["user"] = "client.berth";
  EXPECT_THAT(SettingsFailure(cluster), HasSubstr("leave out 'client.'"));
  cluster = ClusterJson();
  cluster["pool"] = std::string(kLongestName + 1, 'p');
  EXPECT_THAT(SettingsFailure(cluster), HasSubstr("cluster.pool is longer"));
}

// librados would take what follows a blank or a comma for further monitors or options.
TEST(ClusterSettingsTest, AMonitorIsOneAddress) {
  for (const char* monitor : {"", "10.0.0.1 10.0.0.2", "10.0.0.1,10.0.0.2", "a\nb", "a;b"}) {
    Json cluster = ClusterJson();
    cluster["monitors"] = Json::array({monitor});
    EXPECT_THAT(SettingsFailure(cluster), HasSubstr("cluster.monitors")) << monitor;
  }
  Json cluster = ClusterJson();
  cluster["monitors"] = std::vector<std::string>(kMostMonitors + 1, "10.0.0.1");
  EXPECT_THAT(SettingsFailure(cluster), HasSubstr("33 members"));
}

TEST(ClusterSettingsTest, ChecksNamesOfImagesAndNodes) {
  EXPECT_TRUE(CheckImageName("pvc-0.a").ok());
  EXPECT_TRUE(CheckNodeName("Node-1.example").ok());
  for (const char* name : {"", "-a", ".a", "a/b", "A", "a b", "a@b"}) {
    EXPECT_EQ(CheckImageName(name).code(), StatusCode::kInvalidArgument) << name;
  }
  for (const std::string& name : {std::string(), std::string("a/b"), std::string(254, 'a')}) {
    EXPECT_EQ(CheckNodeName(name).code(), StatusCode::kInvalidArgument) << name;
  }
}

}  // namespace
}  // namespace berth::rbd
