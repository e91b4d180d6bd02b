#include "volume/flex/flex_plugin.h"

#include "volume/flex/flex_plugin_fixture.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// ---- one that does not attach

TEST_F(FlexPluginTest, AVolumeIsMountedForThePodAndUnmounted) {
  Init();
  const VolumeSpec spec = Inline();
  EXPECT_FALSE(*plugin_->NeedsAttach(spec));
  EXPECT_EQ(*plugin_->DeviceName(spec), std::nullopt);
  const auto published = plugin_->SetUp(Pod(), spec, {});
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_EQ(published->path, PodFolder("data"));
  EXPECT_FALSE(published->read_only);
  EXPECT_TRUE(IsMounted(PodFolder("data")));
  struct stat st;
  ASSERT_EQ(stat(PodFolder("data").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0750u);
  EXPECT_THAT(versions_->holds(), ElementsAre("1 pods/u-1/volumes/acme~nfs/data"));

  // As after a restart: nothing is called.
  EXPECT_TRUE(plugin_->SetUp(Pod(), spec, {}).ok());
  EXPECT_THAT(calls_, ElementsAre("1 mount"));

  const PodVolumeRecord record = RecordOf(spec);
  ASSERT_TRUE(plugin_->TearDown(record).ok());
  EXPECT_FALSE(Exists(PodFolder("data")));
  EXPECT_THAT(versions_->holds(), IsEmpty());
  EXPECT_TRUE(plugin_->TearDown(record).ok());
  EXPECT_THAT(calls_, ElementsAre("1 mount", "1 unmount"));
}

TEST_F(FlexPluginTest, APersistentVolumeIsOneUnitOnTheNode) {
  Init();
  EXPECT_EQ(*plugin_->DeviceName(Persistent()), "flexvolume-acme/nfs/pv-1");
  EXPECT_FALSE(*plugin_->NeedsAttach(Persistent()));
  EXPECT_TRUE(plugin_->MountDevice(Pod(), Persistent(), {}).ok());
  EXPECT_THAT(calls_, IsEmpty());
}

TEST_F(FlexPluginTest, AMountThatTheDriverRefusesLeavesNothing) {
  Init();
  says_["mount"] = kFailure;
  const auto published = plugin_->SetUp(Pod(), Inline(), {});
  EXPECT_EQ(published.status().code(), StatusCode::kInternal);
  EXPECT_THAT(base::ToString(published.status()), HasSubstr("reason: broken"));
  EXPECT_FALSE(Exists(PodFolder("data")));
  EXPECT_THAT(versions_->holds(), IsEmpty());
}

TEST_F(FlexPluginTest, AMountOfUnknownOutcomeStaysAsItIs) {
  Init();
  fails_["mount"] = base::Error(StatusCode::kDeadlineExceeded, "was killed");
  EXPECT_EQ(plugin_->SetUp(Pod(), Inline(), {}).status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(Exists(PodFolder("data")));
  EXPECT_THAT(versions_->holds(), ElementsAre("1 pods/u-1/volumes/acme~nfs/data"));
  // A later refusal says nothing of that call: the driver is told to unmount.
  fails_.clear();
  says_["mount"] = kFailure;
  EXPECT_FALSE(plugin_->SetUp(Pod(), Inline(), {}).ok());
  ASSERT_TRUE(plugin_->TearDown(RecordOf(Inline())).ok());
  EXPECT_THAT(calls_, ElementsAre("1 mount", "1 mount", "1 unmount"));
  EXPECT_FALSE(Exists(PodFolder("data")));
}

TEST_F(FlexPluginTest, WhatAFailedCallMountedIsTakenBack) {
  Init();
  says_["mount"] = kFailure;
  mounts_and_fails_ = true;
  EXPECT_FALSE(plugin_->SetUp(Pod(), Inline(), {}).ok());
  EXPECT_FALSE(IsMounted(PodFolder("data")));
  EXPECT_THAT(calls_, ElementsAre("1 mount", "1 unmount"));
}

TEST_F(FlexPluginTest, NobodyGetsWhatAFailedCallMountedAndCannotBeTakenBack) {
  Init();
  says_["mount"] = kFailure;
  mounts_and_fails_ = true;
  fails_["unmount"] = base::Error(StatusCode::kUnavailable, "stuck");
  EXPECT_THAT(base::ToString(plugin_->SetUp(Pod(), Inline(), {}).status()), HasSubstr("stuck"));
  EXPECT_TRUE(IsMounted(PodFolder("data")));
  says_["mount"] = kSuccess;
  EXPECT_THAT(base::ToString(plugin_->SetUp(Pod(), Inline(), {}).status()), HasSubstr("stuck"));
  fails_.clear();
  EXPECT_TRUE(plugin_->SetUp(Pod(), Inline(), {}).ok());
  EXPECT_THAT(calls_, ElementsAre("1 mount", "1 unmount", "1 unmount", "1 unmount", "1 mount"));
}

TEST_F(FlexPluginTest, AnUnmountThatLeavesTheMountFails) {
  Init();
  ASSERT_TRUE(plugin_->SetUp(Pod(), Inline(), {}).ok());
  says_["unmount"] = kFailure;
  EXPECT_EQ(plugin_->TearDown(RecordOf(Inline())).code(), StatusCode::kInternal);
  host_.fake_mounter().Add(PodFolder("data"));  // twice
  says_["unmount"] = kSuccess;
  EXPECT_THAT(base::ToString(plugin_->TearDown(RecordOf(Inline()))),
              HasSubstr("ext4 from '/dev/loop7' is still mounted at"));
  EXPECT_TRUE(plugin_->TearDown(RecordOf(Inline())).ok());
  EXPECT_FALSE(Exists(PodFolder("data")));
}

TEST_F(FlexPluginTest, WhereUnmountIsNotSupportedItIsUnmountedPlainly) {
  Init();
  ASSERT_TRUE(plugin_->SetUp(Pod(), Inline(), {}).ok());
  says_["unmount"] = kNotSupported;
  EXPECT_TRUE(plugin_->TearDown(RecordOf(Inline())).ok());
  EXPECT_FALSE(IsMounted(PodFolder("data")));
  EXPECT_FALSE(Exists(PodFolder("data")));
}

TEST_F(FlexPluginTest, FilesInAFolderThatIsNotMountedAreNotRemoved) {
  Init();
  ASSERT_TRUE(plugin_->SetUp(Pod(), Inline(), {}).ok());
  ASSERT_TRUE(platform::WriteDurably<"test.file">(PodFolder("data") + "/precious", "x").ok());
  EXPECT_EQ(plugin_->TearDown(RecordOf(Inline())).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Exists(PodFolder("data") + "/precious"));
}

TEST_F(FlexPluginTest, ADriverThatNeitherAttachesNorMountsIsOfNoUse) {
  Init();
  says_["mount"] = kNotSupported;
  EXPECT_THAT(base::ToString(plugin_->SetUp(Pod(), Inline(), {}).status()),
              HasSubstr("does not support mount"));
  EXPECT_FALSE(Exists(PodFolder("data")));
}

TEST_F(FlexPluginTest, WhatIsReadOnlyIsPublishedSo) {
  Init();
  EXPECT_TRUE(plugin_->SetUp(Pod(), Inline({{"readOnly", true}}), {})->read_only);
}

TEST_F(FlexPluginTest, FilesAreRelabelledWhereTheKernelHasLabelsAndTheDriverLetsThem) {
  Init();
  EXPECT_FALSE(plugin_->SetUp(Pod(), Inline(), {})->selinux_relabel);
  host_.SetSelinux(true);
  EXPECT_TRUE(plugin_->SetUp(Pod(), Inline(), {})->selinux_relabel);
  EXPECT_FALSE(plugin_->SetUp(Pod(), Inline({{"readOnly", true}}), {})->selinux_relabel);
  says_["init"] = R"({"status": "Success", "capabilities": {"selinuxRelabel": false}})";
  Init();
  EXPECT_FALSE(plugin_->SetUp(Pod(), Inline(), {})->selinux_relabel);
}

TEST_F(FlexPluginTest, TheFsGroupOwnsWhatIsWritable) {
  Init();
  const auto group_of = [this](const std::string& uid) {
    struct stat st{};
    EXPECT_EQ(stat(PodFolder("data", uid).c_str(), &st), 0);
    return st.st_gid;
  };
  const auto with_group = [](const std::string& uid) {
    Json pod = Pod(uid).json();
    pod["spec"]["securityContext"]["fsGroup"] = getegid() == 0 ? 4321 : getegid();
    return api::Pod(pod);
  };
  if (geteuid() != 0) GTEST_SKIP() << "skipped: another's group needs root";
  ASSERT_TRUE(plugin_->SetUp(with_group("u-1"), Inline(), {}).ok());
  EXPECT_EQ(group_of("u-1"), 4321u);
  ASSERT_TRUE(plugin_->SetUp(with_group("u-2"), Inline({{"readOnly", true}}), {}).ok());
  EXPECT_EQ(group_of("u-2"), getegid());
  says_["init"] = R"({"status": "Success", "capabilities": {"attach": false, "fsGroup": false}})";
  Init();
  ASSERT_TRUE(plugin_->SetUp(with_group("u-3"), Inline(), {}).ok());
  EXPECT_EQ(group_of("u-3"), getegid());
}

TEST_F(FlexPluginTest, StatisticsAreOfTheMountAndOfDriversThatHaveThem) {
  Init();
  ASSERT_TRUE(plugin_->SetUp(Pod(), Inline(), {}).ok());
  EXPECT_EQ(plugin_->GetStats(RecordOf(Inline())).status().code(), StatusCode::kUnimplemented);
  says_["init"] =
      R"({"status": "Success", "capabilities": {"attach": false, "supportsMetrics": true}})";
  Init();
  EXPECT_GT(plugin_->GetStats(RecordOf(Inline()))->total_bytes, 0);
  EXPECT_EQ(plugin_->GetStats(RecordOf(Inline(), "u-9")).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(FlexPluginTest, AMountOfSomebodyElsesInThePodsPlaceIsRefused) {
  Init();
  host_.fake_mounter().Add(PodFolder("data"), "tmpfs", "tmpfs");
  EXPECT_EQ(plugin_->SetUp(Pod(), Inline(), {}).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(calls_, IsEmpty());
  EXPECT_TRUE(IsMounted(PodFolder("data")));
}

// ---- versions

TEST_F(FlexPluginTest, TheNewVersionUnmountsWhatTheOldOneMounted) {
  Init();
  ASSERT_TRUE(plugin_->SetUp(Pod(), Inline(), {}).ok());
  const PodVolumeRecord record = RecordOf(Inline());
  SetVersion("2");
  Make();
  Init();
  ASSERT_TRUE(plugin_->TearDown(record).ok());
  EXPECT_THAT(calls_, ElementsAre("2 unmount"));
  EXPECT_THAT(versions_->holds(), IsEmpty());
}

TEST_F(FlexPluginTest, TheOldVersionUnmountsWhereTheNewOneDoesNotStart) {
  Init();
  ASSERT_TRUE(plugin_->SetUp(Pod(), Inline(), {}).ok());
  const PodVolumeRecord record = RecordOf(Inline());
  SetVersion("2");
  Make();
  says_["init"] = kFailure;
  EXPECT_FALSE(plugin_->Init().ok());
  calls_.clear();
  ASSERT_TRUE(plugin_->TearDown(record).ok());
  EXPECT_THAT(calls_, ElementsAre("1 unmount"));
}

TEST_F(FlexPluginTest, ADriverThatWasRemovedUnmountsAndMountsNoMore) {
  InitAttachable();
  const VolumeSpec spec = Persistent();
  ASSERT_TRUE(plugin_->SetUp(Pod(), spec, {}).ok());
  const PodVolumeRecord pod = RecordOf(spec);
  const DeviceRecord device = DeviceRecordOf(spec);
  driver_->Remove();
  Make();  // as after a restart
  ASSERT_TRUE(plugin_->Init().ok());
  calls_.clear();
  // Who has the volume keeps it; no other gets it.
  EXPECT_TRUE(*plugin_->NeedsAttach(spec));
  EXPECT_TRUE(plugin_->SetUp(Pod(), spec, {}).ok());
  const auto refused = plugin_->SetUp(Pod("u-2"), spec, {});
  EXPECT_EQ(refused.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(base::ToString(refused.status()), HasSubstr("was removed from '/drivers'"));
  EXPECT_FALSE(Exists(PodFolder("pv-1", "u-2")));
  ASSERT_TRUE(plugin_->TearDown(pod).ok());
  ASSERT_TRUE(plugin_->UnmountDevice(device).ok());
  EXPECT_THAT(calls_, ElementsAre("1 unmount", "1 unmountdevice"));
}

TEST_F(FlexPluginTest, WithoutAnyVersionWhatIsMountedStaysAndSaysWhy) {
  Init();
  host_.fake_mounter().Add(PodFolder("data"));
  driver_->Remove();
  Make();
  EXPECT_THAT(base::ToString(plugin_->TearDown(RecordOf(Inline()))), HasSubstr("install it again"));
  EXPECT_TRUE(IsMounted(PodFolder("data")));
}

TEST_F(FlexPluginTest, WhereNothingIsMountedNoVersionIsNeeded) {
  Init();
  driver_->Remove();
  Make();
  ASSERT_TRUE(platform::MakeFolders(PodFolder("data"), 0750).ok());
  EXPECT_TRUE(plugin_->TearDown(RecordOf(Inline())).ok());
  EXPECT_FALSE(Exists(PodFolder("data")));
}

TEST_F(FlexPluginTest, ADriverMayBeginToAttachWhileItsVolumesAreMounted) {
  Init();
  const VolumeSpec spec = Persistent();
  ASSERT_TRUE(plugin_->SetUp(Pod(), spec, {}).ok());
  const PodVolumeRecord first = RecordOf(spec);
  SetVersion("2");
  Make();
  InitAttachable();
  // The device's turn was when there was none: the next pod has it mounted.
  ASSERT_TRUE(plugin_->SetUp(Pod("u-2"), spec, {}).ok());
  ASSERT_TRUE(plugin_->TearDown(first).ok());
  ASSERT_TRUE(plugin_->TearDown(RecordOf(spec, "u-2")).ok());
  ASSERT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(spec)).ok());
  EXPECT_THAT(calls_, ElementsAre("2 getvolumename", "2 waitforattach", "2 mountdevice", "2 mount",
                                  "2 unmount", "2 unmount", "2 unmountdevice"));
}

TEST_F(FlexPluginTest, ADriverMayCeaseToAttachWhileItsDevicesAreMounted) {
  InitAttachable();
  const VolumeSpec spec = Persistent();
  ASSERT_TRUE(plugin_->SetUp(Pod(), spec, {}).ok());
  SetVersion("2");
  Make();
  says_["init"] = R"({"status": "Success", "capabilities": {"attach": false}})";
  Init();
  ASSERT_TRUE(plugin_->TearDown(RecordOf(spec)).ok());
  ASSERT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(spec)).ok());
  // Only a version that attaches knows how a device is unmounted.
  EXPECT_THAT(calls_, ElementsAre("2 unmount", "1 unmountdevice"));
}

TEST_F(FlexPluginTest, ADriverThatIsNotInitialisedSaysSo) {
  EXPECT_EQ(plugin_->NeedsAttach(Inline()).status().code(), StatusCode::kUnavailable);
  says_["init"] = "hello";
  EXPECT_THAT(base::ToString(plugin_->Init()), HasSubstr("it is no JSON"));
  EXPECT_FALSE(plugin_->capabilities().has_value());
}

TEST_F(FlexPluginTest, SupportsVolumesOfItsDriver) {
  EXPECT_TRUE(plugin_->Supports(Inline()));
  EXPECT_TRUE(plugin_->Supports(Persistent()));
  VolumeSpec other = Inline();
  other.pod_volume = api::PodVolume({{"name", "data"}, {"flexVolume", {{"driver", "acme/smb"}}}});
  EXPECT_FALSE(plugin_->Supports(other));
}

}  // namespace
}  // namespace berth::volume
