#include "crust/containers/bundle_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::crust {
namespace {

using base::Json;
using base::StatusCode;

const std::vector<KnownTarget> kTargets = {{.path = "/kubelet/pods/u/volumes/p/v/mount",
                                            .resolved = "/disk/kubelet/pods/u/volumes/p/v/mount"},
                                           {.path = "/kubelet/pods/u/volumes/p/v2/mount",
                                            .resolved = "/kubelet/pods/u/volumes/p/v2/mount"}};

Json ConfigWith(const std::vector<std::string>& sources) {
  Json config = {{"ociVersion", "1.0.2"}, {"mounts", Json::array()}};
  for (const std::string& source : sources) {
    config["mounts"].push_back({{"source", source}, {"destination", "/d"}, {"options", {"rbind"}}});
  }
  return config;
}

auto Find(const Json& config) { return FindDeferredMounts(config, kTargets, "/run/graft"); }

TEST(BundleConfigTest, FindsMountsBelowTargets) {
  const auto found = Find(ConfigWith({"/etc", kTargets[1].path + "/a/b", kTargets[0].path,
                                      kTargets[0].path + "2", kTargets[0].resolved + "/x"}));
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 3u);
  EXPECT_EQ((*found)[0].mount, 1u);
  EXPECT_EQ((*found)[0].target, 1u);
  EXPECT_EQ((*found)[0].sub_path, "a/b");
  EXPECT_EQ((*found)[1].mount, 2u);
  EXPECT_EQ((*found)[1].sub_path, "");
  EXPECT_EQ((*found)[2].target, 0u);
  EXPECT_EQ((*found)[2].sub_path, "x");
}

TEST(BundleConfigTest, FindsMountsOfTheKubeletsSubPaths) {
  std::vector<KnownTarget> targets = kTargets;
  targets[0].sub_paths = "/kubelet/pods/u/volume-subpaths/v";
  targets[0].resolved_sub_paths = "/disk/kubelet/pods/u/volume-subpaths/v";
  const auto found = FindDeferredMounts(
      ConfigWith({"/kubelet/pods/u/volume-subpaths/v/c/0", "/kubelet/pods/u/volume-subpaths/v2/c/0",
                  "/disk/kubelet/pods/u/volume-subpaths/v/../v/c/1",
                  "/kubelet/pods/u/volume-subpaths/v", kTargets[0].path}),
      targets, "/run/graft");
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 3u);
  EXPECT_EQ((*found)[0].mount, 0u);
  EXPECT_EQ((*found)[0].bound, "/disk/kubelet/pods/u/volume-subpaths/v/c/0");
  EXPECT_EQ((*found)[1].mount, 2u);
  EXPECT_EQ((*found)[1].bound, "/disk/kubelet/pods/u/volume-subpaths/v/c/1");
  EXPECT_EQ((*found)[2].mount, 4u);
  EXPECT_EQ((*found)[2].bound, "");
}

TEST(BundleConfigTest, IsNotFooledBySpelling) {
  const auto found = Find(ConfigWith(
      {"/kubelet/./pods//u/volumes/q/../p/v/mount/", kTargets[0].path + "/../../v2/mount/a/../b"}));
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[0].target, 0u);
  EXPECT_EQ((*found)[1].target, 1u);
  EXPECT_EQ((*found)[1].sub_path, "b");
}

TEST(BundleConfigTest, LeavesOtherKindsOfMountsAlone) {
  const Json config = {{"mounts",
                        {{{"type", "tmpfs"}, {"source", kTargets[0].path}, {"destination", "/d"}},
                         {{"type", "bind"}, {"source", kTargets[0].path}, {"destination", "/e"}},
                         "odd",
                         {{"type", "bind"}, {"source", 7}}}}};
  const auto found = Find(config);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ((*found)[0].mount, 1u);
}

TEST(BundleConfigTest, RefusesAConfigThatWasMadeReadyBefore) {
  EXPECT_EQ(Find(ConfigWith({"/run/graft/m0"})).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Find(ConfigWith({"/run/graft2/m0"})).ok());
}

TEST(BundleConfigTest, RefusesWhatIsNoConfig) {
  EXPECT_FALSE(ReadConfig("").ok());
  EXPECT_FALSE(ReadConfig("[]").ok());
  EXPECT_FALSE(ReadConfig(R"({"mounts": {}})").ok());
  EXPECT_TRUE(ReadConfig(R"({"mounts": null})").ok());
  EXPECT_TRUE(ReadConfig("{}").ok());
  EXPECT_EQ(Find(ConfigWith(std::vector<std::string>(2000, kTargets[0].path))).status().code(),
            StatusCode::kResourceExhausted);
}

TEST(BundleConfigTest, ChangesTheSourceAndNothingElse) {
  Json config = ConfigWith({"/etc", kTargets[0].path});
  Json expected = config;
  expected["mounts"][1]["source"] = "/run/graft/m0";
  SetSource(config, 1, "/run/graft/m0");
  EXPECT_EQ(config, expected);
}

}  // namespace
}  // namespace berth::crust
