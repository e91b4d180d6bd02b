#include "crust/pods/pod_volumes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/assert_ok.h"
#include "crust/pods/plan_file.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/files/record_files.h"
#include "volume/fake_host.h"

namespace berth::crust {
namespace {

using base::Status;
using base::StatusCode;
using base::StatusOr;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const api::PodUid kPod("uid-1");

class PodVolumesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(paths_.PlanFolder());
    Restart();
  }

  // As a new handler does.
  void Restart() {
    auto pods = PodVolumes::Open(paths_, mounter_, std::chrono::milliseconds(1));
    ASSERT_OK(pods);
    pods_ = *std::move(pods);
  }

  platform::TargetPath Target(const std::string& name) const {
    return platform::TargetPath(
        fmt::format("{}/pods/{}/volumes/kubernetes.io~csi/{}/mount", kubelet_, kPod.text(), name));
  }
  VolumeRecord VolumeOf(const std::string& name, const std::string& type = "xfs") const {
    return {.host_volume_id = "/dev/" + name,
            .target = Target(name),
            .plan = {.device = {.source = "/dev/" + name},
                     .steps = {MountFileSystem{.type = type}, PlaceInSandbox{"v0"}}}};
  }
  Status Publish(VolumeRecord volume, bool used = false) {
    return pods_->PublishVolume(kPod, std::move(volume), [=]() -> StatusOr<bool> { return used; });
  }
  Status Unpublish(
      const std::string& name,
      const std::function<Status()>& take_out = [] { return base::OkStatus(); }) {
    return pods_->UnpublishVolume(kPod, Target(name), "/dev/" + name, take_out);
  }
  std::vector<platform::TargetPath> Planned() const {
    const auto plan = ReadPlan(paths_.run(), kPod);
    return plan.ok() ? *plan : std::vector<platform::TargetPath>();
  }
  // The file systems of the volumes that a sandbox gets.
  std::vector<std::string> Types() {
    std::vector<std::string> types;
    const auto volumes = pods_->ListVolumes(kPod);
    EXPECT_TRUE(volumes.ok()) << volumes.status();
    for (const VolumeRecord& volume : *volumes) types.emplace_back(volume.plan.fs_type());
    return types;
  }
  bool IsMounted(const std::string& name) const { return mounter_.IsMounted(Target(name).text()); }
  std::string Record() const { return paths_.PodFolder() + "/" + kPod.text() + ".json"; }

  void ExpectNothingLeft() const {
    EXPECT_TRUE(std::filesystem::is_empty(paths_.PodFolder()));
    EXPECT_TRUE(std::filesystem::is_empty(paths_.PlanFolder()));
    EXPECT_FALSE(IsMounted("a"));
  }

  const platform::TempFolder folder_;
  const Paths paths_{folder_ / "data", folder_ / "run"};
  const std::string kubelet_ = folder_ / "kubelet";
  volume::FakeMounter mounter_;
  std::unique_ptr<PodVolumes> pods_;
};

TEST_F(PodVolumesTest, ARepeatedPublishMakesWhatIsMissing) {
  ASSERT_OK(Publish(VolumeOf("a")));
  ASSERT_OK(Publish(VolumeOf("b", "ext4")));
  EXPECT_THAT(Types(), ElementsAre("xfs", "ext4"));
  EXPECT_THAT(Planned(), ElementsAre(Target("a"), Target("b")));
  ASSERT_EQ(mounter_.requests().size(), 2u);
  EXPECT_EQ(mounter_.requests()[0].fs_type, "tmpfs");
  EXPECT_TRUE(std::filesystem::is_directory(Target("a").text()));

  ASSERT_OK(mounter_.Unmount(Target("a").text()));
  std::filesystem::remove_all(paths_.PlanFolder());
  std::filesystem::create_directory(paths_.PlanFolder());
  ASSERT_OK(Publish(VolumeOf("a")));
  EXPECT_TRUE(IsMounted("a"));
  EXPECT_THAT(Planned(), ElementsAre(Target("a"), Target("b")));
  ASSERT_OK(Publish(VolumeOf("a")));
  EXPECT_EQ(mounter_.requests().size(), 3u) << "one placeholder is enough";
}

// Without it, a container would have the placeholder as its volume.
TEST_F(PodVolumesTest, APlanThatSomebodyRemovedIsThereAfterARestart) {
  ASSERT_OK(Publish(VolumeOf("a")));
  std::filesystem::remove_all(paths_.PlanFolder());
  std::filesystem::create_directory(paths_.PlanFolder());
  Restart();
  EXPECT_THAT(Planned(), ElementsAre(Target("a")));
}

TEST_F(PodVolumesTest, WhatIsMountedAtTheTargetStays) {
  std::filesystem::create_directories(Target("a").text());
  mounter_.Add(Target("a").text());
  EXPECT_EQ(Publish(VolumeOf("a")).code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Types(), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(paths_.PodFolder())) << "nobody may unpublish it";
  EXPECT_TRUE(std::filesystem::is_empty(paths_.PlanFolder()));
  ASSERT_OK(Unpublish("a"));
  EXPECT_TRUE(IsMounted("a"));
}

TEST_F(PodVolumesTest, APlaceholderThatMayComeLaterIsRemembered) {
  mounter_.Fail(Target("a").text(), base::Error(StatusCode::kDeadlineExceeded, "slow"));
  EXPECT_EQ(Publish(VolumeOf("a")).code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(std::filesystem::exists(Record()));
  mounter_.Fail(Target("a").text(), base::OkStatus());
  mounter_.Add(Target("a").text(), "tmpfs", "berth-crust");
  mounter_.Add(Target("a").text(), "tmpfs", "berth-crust");
  ASSERT_OK(Unpublish("a"));
  ExpectNothingLeft();
}

TEST_F(PodVolumesTest, AVolumeThatASandboxHasIsNotReplaced) {
  ASSERT_OK(Publish(VolumeOf("a")));
  EXPECT_EQ(Publish(VolumeOf("a", "ext4"), /*used=*/true).code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Types(), ElementsAre("xfs"));
  ASSERT_OK(pods_->PublishVolume(kPod, VolumeOf("a", "ext4"), [this]() -> StatusOr<bool> {
    EXPECT_THAT(Types(), IsEmpty()) << "no sandbox gets it during the check";
    return false;
  }));
  EXPECT_THAT(Types(), ElementsAre("ext4"));
  Restart();
  EXPECT_THAT(Types(), ElementsAre("ext4"));
}

TEST_F(PodVolumesTest, NoSandboxGetsAVolumeThatIsBeingUnpublished) {
  ASSERT_OK(Publish(VolumeOf("a")));
  ASSERT_OK(Publish(VolumeOf("b", "ext4")));
  const Status busy = Unpublish("a", [this] {
    EXPECT_THAT(Types(), ElementsAre("ext4"));
    return base::Error(StatusCode::kFailedPrecondition, "busy");
  });
  EXPECT_EQ(base::Message(busy), "busy");
  Restart();
  EXPECT_THAT(Types(), ElementsAre("ext4"));
  EXPECT_TRUE(IsMounted("a"));
  // A container must not get the placeholder meanwhile.
  EXPECT_THAT(Planned(), ElementsAre(Target("a"), Target("b")));
  EXPECT_THAT(base::Message(Publish(VolumeOf("a"))), HasSubstr("is being unpublished"));

  ASSERT_OK(Unpublish("a"));
  EXPECT_FALSE(IsMounted("a"));
  EXPECT_THAT(Planned(), ElementsAre(Target("b")));
  EXPECT_EQ(
      pods_->UnpublishVolume(kPod, Target("b"), "/dev/c", [] { return base::OkStatus(); }).code(),
      StatusCode::kFailedPrecondition);
  ASSERT_OK(Unpublish("b"));
  ExpectNothingLeft();
  ASSERT_OK(Unpublish("b"));
}

TEST_F(PodVolumesTest, APlaceholderWithoutARecordIsUnmounted) {
  std::filesystem::create_directories(Target("a").text());
  mounter_.Add(Target("a").text(), "tmpfs", "berth-crust");
  bool taken_out = false;
  ASSERT_OK(Unpublish("a", [&] {
    taken_out = true;
    return base::OkStatus();
  }));
  EXPECT_TRUE(taken_out);
  EXPECT_FALSE(IsMounted("a"));
}

TEST_F(PodVolumesTest, VolumesAreFoundByTheCallersName) {
  ASSERT_OK(Publish(VolumeOf("a")));
  EXPECT_EQ(pods_->FindVolume(kPod, "/dev/a")->target, Target("a"));
  EXPECT_EQ(pods_->FindVolume(kPod, "/dev/b").status().code(), StatusCode::kNotFound);
  VolumeRecord other_name = VolumeOf("a");
  other_name.host_volume_id = "/dev/disk/by-id/a";
  ASSERT_OK(Publish(other_name));
  EXPECT_EQ(pods_->FindVolume(kPod, "/dev/disk/by-id/a")->target, Target("a"));
}

TEST_F(PodVolumesTest, APodHasNotMoreThan256Volumes) {
  PodRecord record{.pod_uid = kPod, .boot_id = *platform::ReadBootId()};
  for (int i = 0; i < 256; ++i) {
    record.volumes.push_back(VolumeOf(fmt::format("v{}", i)));
    record.volumes.back().state = VolumeState::kPublished;
  }
  std::ofstream(Record()) << PodRecordKind::Encode(record);
  Restart();
  EXPECT_EQ(Publish(VolumeOf("a")).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Publish(VolumeOf("v0")).ok());
}

TEST_F(PodVolumesTest, RecordsOfAnotherBootAreDropped) {
  PodRecord old{.pod_uid = kPod, .boot_id = "another-boot"};
  old.volumes.push_back(VolumeOf("a"));
  std::ofstream(Record()) << PodRecordKind::Encode(old);
  Restart();
  EXPECT_THAT(Types(), IsEmpty());
  ExpectNothingLeft();
}

TEST_F(PodVolumesTest, APodWhoseRecordCannotBeReadGetsNoSandbox) {
  ASSERT_OK(Publish(VolumeOf("a")));
  std::ofstream(Record()) << "{}";
  Restart();
  EXPECT_EQ(pods_->ListVolumes(kPod).status().code(), StatusCode::kInternal);
  EXPECT_EQ(pods_->ListTargets(kPod).status().code(), StatusCode::kInternal);
  EXPECT_EQ(Publish(VolumeOf("b")).code(), StatusCode::kInternal);
  // The pod can go nevertheless.
  ASSERT_OK(Unpublish("a"));
  EXPECT_FALSE(IsMounted("a"));
  EXPECT_THAT(Planned(), ElementsAre(Target("a"))) << "it may name other volumes";

  // After a boot there is no plan, and the record says nothing any more.
  std::filesystem::remove_all(paths_.PlanFolder());
  std::filesystem::create_directory(paths_.PlanFolder());
  Restart();
  EXPECT_TRUE(Publish(VolumeOf("b")).ok());
}

TEST_F(PodVolumesTest, APodThatLeftTheNodeIsForgotten) {
  ASSERT_OK(Publish(VolumeOf("a")));
  bool has_sandbox = false;
  const auto forget = [&] {
    Restart();
    pods_->ForgetGonePods(kubelet_, [&](const api::PodUid&) { return has_sandbox; });
    return !std::filesystem::exists(Record());
  };
  EXPECT_FALSE(forget()) << "it is there";
  std::filesystem::remove_all(kubelet_ + "/pods/" + kPod.text());
  EXPECT_FALSE(forget()) << "its placeholder is mounted, so another disk may be mounted over it";
  ASSERT_OK(mounter_.Unmount(Target("a").text()));
  has_sandbox = true;
  EXPECT_FALSE(forget()) << "containers may use the volume";
  has_sandbox = false;
  std::filesystem::rename(kubelet_, kubelet_ + "-elsewhere");
  EXPECT_FALSE(forget()) << "the kubelet's disk is not mounted";
  std::filesystem::rename(kubelet_ + "-elsewhere", kubelet_);
  EXPECT_TRUE(forget());
  ExpectNothingLeft();
}

}  // namespace
}  // namespace berth::crust
