// A container of a pod whose volume's file system does not answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "node/containers/container_config.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/mounts/fake_lost_mount.h"

namespace berth::node {
namespace {

using base::Json;
using base::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SilentVolumeRootTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "skipped: mounting needs root";
    ASSERT_TRUE(platform::MakeFolders(target_).ok());
    ASSERT_TRUE(platform::MakeFolders(paths_.Pod("u")).ok());
    auto mount = platform::LostMount::Make(target_);
    ASSERT_TRUE(mount.ok()) << mount.status();
    mount_ = *std::move(mount);
  }
  base::StatusOr<rpc::cri::ContainerConfig> Make(volume::Published volume) {
    const api::Pod pod({{"metadata", {{"name", "web"}, {"namespace", "n"}, {"uid", "u"}}},
                        {"spec",
                         {{"containers",
                           {{{"name", "c"},
                             {"image", "i:1"},
                             {"volumeMounts", {{{"name", "data"}, {"mountPath", "/d"}}}}}}}}}});
    const std::map<std::string, volume::Published> volumes = {{"data", std::move(volume)}};
    const ContainerConfigs configs(
        paths_, *mounter_, [](const api::KindInfo&, std::string_view, std::string_view) {
          return base::StatusOr<Json>(base::Error(StatusCode::kNotFound, "none"));
        });
    return configs.MakeConfig({.pod = pod,
                               .container = pod.containers()[0],
                               .image = image_,
                               .facts = facts_,
                               .volumes = volumes,
                               .processes_of = ""});
  }

  const platform::TempFolder folder_;
  const std::string target_ = folder_.path() + "/silent";
  const volume::Paths paths_{folder_.path()};
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  std::unique_ptr<platform::LostMount> mount_;
  const rpc::cri::Image image_;
  const PodFacts facts_;
};

TEST_F(SilentVolumeRootTest, TheRuntimeIsNotAskedToMountIt) {
  const auto config = Make({.path = target_});
  EXPECT_EQ(config.status().code(), StatusCode::kDeadlineExceeded) << config.status();
  EXPECT_THAT(base::ToString(config.status()),
              AllOf(HasSubstr("volume 'data'"), HasSubstr("does not answer")));
}

TEST_F(SilentVolumeRootTest, NorAFolderInIt) {
  EXPECT_EQ(Make({.path = target_ + "/a/b"}).status().code(), StatusCode::kDeadlineExceeded);
}

TEST_F(SilentVolumeRootTest, WhatTheSandboxMountsThereIsNotLookedAt) {
  const auto config =
      Make({.path = target_, .deferred = volume::DeferredMount{.source = "s", .fs_type = "nfs4"}});
  EXPECT_TRUE(config.ok()) << config.status();
}

TEST_F(SilentVolumeRootTest, AnotherVolumeBesideItIsMounted) {
  const std::string beside = target_ + "-too";
  ASSERT_TRUE(platform::MakeFolders(beside).ok());
  const auto config = Make({.path = beside});
  EXPECT_TRUE(config.ok()) << config.status();
}

}  // namespace
}  // namespace berth::node
