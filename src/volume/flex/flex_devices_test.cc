#include "volume/flex/flex_devices.h"

#include "volume/flex/flex_plugin_fixture.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(FlexPluginTest, ADeviceIsMountedOnceAndThenForEachPod) {
  InitAttachable();
  says_["waitforattach"] = R"({"status": "Success", "device": "/dev/real"})";
  const VolumeSpec spec = Persistent();
  EXPECT_TRUE(*plugin_->NeedsAttach(spec));
  const api::Labels context = {{"devicePath", "/dev/attached"}};
  ASSERT_TRUE(plugin_->MountDevice(Pod(), spec, context).ok());
  ASSERT_TRUE(plugin_->MountDevice(Pod(), spec, context).ok());
  EXPECT_EQ(plugin_->DevicePath(DeviceRecordOf(spec)), DeviceFolder("pv-1"));
  EXPECT_TRUE(IsMounted(DeviceFolder("pv-1")));
  EXPECT_THAT(calls_, ElementsAre("1 getvolumename", "1 waitforattach", "1 mountdevice"));
  const auto commands = host_.fake_exec().commands();
  EXPECT_EQ(commands[2].argv[2], "/dev/attached");
  EXPECT_EQ(commands[3].argv[3], "/dev/real");

  ASSERT_TRUE(plugin_->SetUp(Pod(), spec, context).ok());
  ASSERT_TRUE(plugin_->SetUp(Pod("u-2"), spec, context).ok());
  ASSERT_TRUE(plugin_->TearDown(RecordOf(spec)).ok());
  ASSERT_TRUE(plugin_->TearDown(RecordOf(spec, "u-2")).ok());
  const DeviceRecord record = DeviceRecordOf(spec);
  ASSERT_TRUE(plugin_->UnmountDevice(record).ok());
  ASSERT_TRUE(plugin_->UnmountDevice(record).ok());
  EXPECT_THAT(calls_, ElementsAre("1 getvolumename", "1 waitforattach", "1 mountdevice", "1 mount",
                                  "1 mount", "1 unmount", "1 unmount", "1 unmountdevice"));
  EXPECT_FALSE(Exists(DeviceFolder("pv-1")));
  EXPECT_THAT(plugin_->FindOnNode()->devices, IsEmpty());
  EXPECT_THAT(versions_->holds(), IsEmpty());
}

TEST_F(FlexPluginTest, InPlaceOfMountTheDeviceIsBound) {
  InitAttachable();
  says_["mount"] = kNotSupported;
  const VolumeSpec spec = Persistent({{"readOnly", true}});
  ASSERT_TRUE(plugin_->SetUp(Pod(), spec, {{"devicePath", "/dev/x"}}).ok());
  const auto bind = host_.fake_mounter().requests().back();
  EXPECT_EQ(bind.source, DeviceFolder("pv-1"));
  EXPECT_EQ(bind.target, PodFolder("pv-1"));
  EXPECT_THAT(bind.options, ElementsAre("bind", "ro"));
}

TEST_F(FlexPluginTest, InPlaceOfMountDeviceNothingIsMountedWithoutADevice) {
  InitAttachable();
  says_["mountdevice"] = kNotSupported;
  ASSERT_TRUE(plugin_->MountDevice(Pod(), Persistent(), {}).ok());
  EXPECT_FALSE(IsMounted(DeviceFolder("pv-1")));
  ASSERT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(Persistent())).ok());
  EXPECT_THAT(calls_, ElementsAre("1 getvolumename", "1 waitforattach", "1 mountdevice"));
  EXPECT_FALSE(Exists(DeviceFolder("pv-1")));
}

TEST_F(FlexPluginTest, WhatIsNoDeviceIsNotFormatted) {
  InitAttachable();
  says_["mountdevice"] = kNotSupported;
  const std::string file = folder_.SparseFile("image", 1 << 20);
  EXPECT_THAT(base::ToString(plugin_->MountDevice(Pod(), Persistent(), {{"devicePath", file}})),
              HasSubstr("is no device"));
  EXPECT_FALSE(Exists(DeviceFolder("pv-1")));
}

TEST_F(FlexPluginTest, AnotherVolumeOfTheSameNameIsRefused) {
  InitAttachable();
  ASSERT_TRUE(plugin_->MountDevice(Pod(), Inline({{"options", {{"disk", "a"}}}}), {}).ok());
  const base::Status other =
      plugin_->MountDevice(Pod("u-2"), Inline({{"options", {{"disk", "b"}}}}), {});
  EXPECT_EQ(other.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::ToString(other), HasSubstr("give one of them another name"));
  // The same one, to be read, is not another.
  EXPECT_TRUE(
      plugin_
          ->MountDevice(Pod("u-2"), Inline({{"options", {{"disk", "a"}}}, {"readOnly", true}}), {})
          .ok());
}

TEST_F(FlexPluginTest, AMountOfSomebodyElsesInTheDevicesPlaceIsRefused) {
  InitAttachable();
  host_.fake_mounter().Add(DeviceFolder("pv-1"), "tmpfs", "tmpfs");
  EXPECT_EQ(plugin_->MountDevice(Pod(), Persistent(), {}).code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(calls_, IsEmpty());
}

TEST_F(FlexPluginTest, ADeviceThatIsRefusedLeavesNothing) {
  InitAttachable();
  for (const char* verb : {"waitforattach", "mountdevice"}) {
    says_[verb] = kFailure;
    EXPECT_EQ(plugin_->MountDevice(Pod(), Persistent(), {}).code(), StatusCode::kInternal);
    EXPECT_FALSE(Exists(DeviceFolder("pv-1")));
    EXPECT_THAT(plugin_->FindOnNode()->devices, IsEmpty());
    EXPECT_THAT(versions_->holds(), IsEmpty());
    says_.erase(verb);
  }
}

TEST_F(FlexPluginTest, AVolumeGrowsByTheDriverOnce) {
  InitAttachable();
  const VolumeSpec spec = Persistent();
  ASSERT_TRUE(plugin_->SetUp(Pod(), spec, {{"devicePath", "/dev/x"}}).ok());
  ASSERT_TRUE(plugin_->Expand(RecordOf(spec), spec, 4096).ok());
  const auto argv = host_.fake_exec().commands().back().argv;
  EXPECT_THAT(std::vector<std::string>({argv[1], argv[3], argv[4], argv[5], argv[6]}),
              ElementsAre("expandfs", "/dev/x", DeviceFolder("pv-1"), "4096", "1024"));
  says_["init"] = R"({"status": "Success", "capabilities": {"requiresFSResize": false}})";
  Init();
  EXPECT_EQ(plugin_->Expand(RecordOf(spec), spec, 4096).code(), StatusCode::kUnimplemented);
}

// ---- lost records, reboots

TEST_F(FlexPluginTest, WhatIsThereIsFoundWithoutRecords) {
  InitAttachable();
  ASSERT_TRUE(plugin_->SetUp(Pod(), Persistent(), {}).ok());
  const auto found = plugin_->FindOnNode();
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->devices.size(), 1u);
  EXPECT_EQ(found->devices[0].device_name, "flexvolume-acme/nfs/pv-1");
  ASSERT_EQ(found->pod_volumes.size(), 1u);
  EXPECT_EQ(found->pod_volumes[0].device_name, "flexvolume-acme/nfs/pv-1");
  ASSERT_TRUE(plugin_->TearDown(found->pod_volumes[0]).ok());
  ASSERT_TRUE(plugin_->UnmountDevice(found->devices[0]).ok());
  EXPECT_FALSE(Exists(DeviceFolder("pv-1")));
}

TEST_F(FlexPluginTest, AMarkThatACrashCutShortGoesWithItsVolumeAndNoOther) {
  InitAttachable();
  const std::string marks = folder_ / "plugins/kubernetes.io/flexvolume/acme/nfs/volumes/";
  ASSERT_TRUE(platform::MakeFolders(marks, 0750).ok());
  for (const char* torn : {".pv-1.json.tmp-AAAAAA", ".pv-2.json.tmp-BBBBBB"}) {
    ASSERT_TRUE(platform::WriteDurably<"test.file">(marks + torn, "{").ok());
  }
  EXPECT_THAT(plugin_->FindOnNode()->devices, IsEmpty());
  ASSERT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(Persistent())).ok());
  EXPECT_FALSE(Exists(marks + ".pv-1.json.tmp-AAAAAA"));
  EXPECT_TRUE(Exists(marks + ".pv-2.json.tmp-BBBBBB"));
}

TEST_F(FlexPluginTest, AMarkWithoutAVersionCountsAndTheNextOneHasOne) {
  InitAttachable();
  const std::string mark = folder_ / "plugins/kubernetes.io/flexvolume/acme/nfs/volumes/pv-1.json";
  ASSERT_TRUE(plugin_->MountDevice(Pod(), Persistent(), {}).ok());
  Json old = *base::json::Parse(*platform::ReadFile(mark));
  EXPECT_EQ(base::json::Int(old, {"version"}), 1);
  old.erase("version");
  ASSERT_TRUE(platform::WriteDurably<"test.file">(mark, base::json::Dump(old)).ok());
  EXPECT_EQ(plugin_->FindOnNode()->devices.size(), 1u);
  EXPECT_EQ(plugin_->MountDevice(Pod(), Persistent({{"options", {{"disk", "b"}}}}), {}).code(),
            StatusCode::kFailedPrecondition);
  ASSERT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(Persistent())).ok());
  EXPECT_FALSE(Exists(mark));
  ASSERT_TRUE(platform::WriteDurably<"test.file">(mark, base::json::Dump(old)).ok());
  ASSERT_TRUE(plugin_->MountDevice(Pod(), Persistent(), {}).ok());
  EXPECT_EQ(base::json::Int(*base::json::Parse(*platform::ReadFile(mark)), {"version"}), 1);
}

TEST_F(FlexPluginTest, ADamagedMarkCountsUntilItsVolumeIsUnmountedAndIsThenSetAside) {
  InitAttachable();
  const std::string marks = folder_ / "plugins/kubernetes.io/flexvolume/acme/nfs/volumes/";
  for (const char* damaged : {"{", "[]", R"({"version": 2, "identity": "x", "device": "y"})"}) {
    ASSERT_TRUE(plugin_->MountDevice(Pod(), Persistent(), {}).ok());
    ASSERT_TRUE(platform::WriteDurably<"test.file">(marks + "pv-1.json", damaged).ok());
    EXPECT_EQ(plugin_->MountDevice(Pod(), Persistent(), {}).code(), StatusCode::kDataLoss);
    EXPECT_EQ(*platform::ReadFile(marks + "pv-1.json"), damaged);
    EXPECT_EQ(plugin_->FindOnNode()->devices.size(), 1u);
    ASSERT_TRUE(plugin_->UnmountDevice(DeviceRecordOf(Persistent())).ok());
    EXPECT_THAT(plugin_->FindOnNode()->devices, IsEmpty());
    const auto left = *platform::ListFolder(marks);
    ASSERT_EQ(left.size(), 1u);
    EXPECT_THAT(left[0], testing::StartsWith("pv-1.json.damaged-"));
    EXPECT_EQ(*platform::ReadFile(marks + left[0]), damaged);
    ASSERT_TRUE(platform::RemoveDurably<"test.file">(marks + left[0]).ok());
  }
}

TEST_F(FlexPluginTest, ADeviceOfAnEarlierBootIsForgottenWithoutTheDriver) {
  InitAttachable();
  ASSERT_TRUE(plugin_->MountDevice(Pod(), Persistent(), {}).ok());
  const DeviceRecord record = DeviceRecordOf(Persistent());
  EXPECT_EQ(plugin_->ForgetDevice(record).code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(host_.fake_mounter().Unmount(DeviceFolder("pv-1")).ok());
  calls_.clear();
  EXPECT_TRUE(plugin_->ForgetDevice(record).ok());
  EXPECT_THAT(calls_, IsEmpty());
  EXPECT_THAT(plugin_->FindOnNode()->devices, IsEmpty());
}

}  // namespace
}  // namespace berth::volume
