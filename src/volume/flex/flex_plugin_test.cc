#include "volume/flex/flex_plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>

#include "base/fake_faults.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "volume/fake_host.h"
#include "volume/flex/fake_flex_driver.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kSuccess[] = R"({"status": "Success"})";
constexpr char kFailure[] = R"({"status": "Failure", "message": "broken"})";
constexpr char kNotSupported[] = R"({"status": "Not supported"})";

// A driver whose mounts show in the host's table. What it says to a command a test may change.
class FlexPluginTest : public testing::Test {
 protected:
  FlexPluginTest() {
    SetVersion("1");
    host_.fake_exec().SetAnswer(
        [this](const platform::Command& command) { return AnswerCommand(command); });
    says_["init"] = R"({"status": "Success", "capabilities": {"attach": false}})";
    Make();
  }

  base::StatusOr<platform::CommandResult> AnswerCommand(const platform::Command& command) {
    const std::string id = std::filesystem::path(command.argv[0]).parent_path().filename();
    const std::string& verb = command.argv[1];
    calls_.push_back(id + " " + verb);
    if (const auto failure = fails_.find(verb); failure != fails_.end()) return failure->second;
    const auto said = says_.find(verb);
    const std::string reply = said == says_.end() ? kSuccess : said->second;
    if (reply != kNotSupported && (reply != kFailure || mounts_and_fails_)) Do(command.argv);
    return platform::CommandResult{.exit_code = 0, .out = reply, .err = ""};
  }

  void Do(const std::vector<std::string>& argv) {
    if (argv[1] == "mount" || argv[1] == "mountdevice") {
      host_.fake_mounter().Add(argv[2], "ext4", "/dev/loop7");
    }
    if (argv[1] == "unmount" || argv[1] == "unmountdevice") {
      EXPECT_TRUE(host_.fake_mounter().Unmount(argv[2]).ok());
    }
  }

  void SetVersion(const std::string& id) {
    driver_->Set(
        DriverVersion{.driver = "acme/nfs", .executable = "/copies/" + id + "/nfs", .id = id});
  }
  // As the prober does for another executable.
  void Make() { plugin_ = std::make_unique<FlexPlugin>(host_, driver_, versions_); }
  void Init() {
    const base::Status inited = plugin_->Init();
    ASSERT_TRUE(inited.ok()) << inited;
    calls_.clear();
  }
  void InitAttachable() {
    says_["init"] = kSuccess;
    Init();
  }

  static api::Pod Pod(const std::string& uid = "u-1") {
    return api::Pod({{"metadata", {{"name", "web"}, {"namespace", "shop"}, {"uid", uid}}},
                     {"spec", Json::object()}});
  }
  static VolumeSpec Inline(Json source = Json::object()) {
    source["driver"] = "acme/nfs";
    return {.name = "data",
            .pod_volume = api::PodVolume({{"name", "data"}, {"flexVolume", std::move(source)}})};
  }
  static VolumeSpec Persistent(Json source = Json::object()) {
    source["driver"] = "acme/nfs";
    return {.name = "data",
            .pod_volume = api::PodVolume(Json{{"name", "data"}}),
            .claim = std::make_shared<api::PersistentVolumeClaim>(
                Json{{"status", {{"capacity", {{"storage", "1Ki"}}}}}}),
            .pv = std::make_shared<api::PersistentVolume>(Json{
                {"metadata", {{"name", "pv-1"}}}, {"spec", {{"flexVolume", std::move(source)}}}})};
  }
  std::string PodFolder(const std::string& volume, const std::string& uid = "u-1") const {
    return folder_ / ("pods/" + uid + "/volumes/acme~nfs/" + volume);
  }
  std::string DeviceFolder(const std::string& volume) const {
    return folder_ / ("plugins/kubernetes.io/flexvolume/acme/nfs/mounts/" + volume);
  }
  PodVolumeRecord RecordOf(const VolumeSpec& spec, const std::string& uid = "u-1") {
    return {.plugin = "acme/nfs",
            .pod_uid = uid,
            .folder_name = spec.folder_name(),
            .state = *plugin_->PodState(Pod(uid), spec)};
  }
  DeviceRecord DeviceRecordOf(const VolumeSpec& spec) {
    return {.plugin = "acme/nfs",
            .device_name = **plugin_->DeviceName(spec),
            .pv_name = spec.pv != nullptr ? spec.pv->name() : "",
            .state = *plugin_->DeviceState(spec)};
  }
  bool IsMounted(const std::string& folder) { return host_.fake_mounter().IsMounted(folder); }
  bool Exists(const std::string& path) { return std::filesystem::exists(path); }

  const platform::TempFolder folder_;
  FakeHost host_{folder_.path()};
  const std::shared_ptr<FakeFlexDriver> driver_ = std::make_shared<FakeFlexDriver>("acme/nfs");
  const std::shared_ptr<FakeDriverVersions> versions_ = std::make_shared<FakeDriverVersions>();
  std::map<std::string, std::string> says_;
  std::map<std::string, base::Status> fails_;
  std::vector<std::string> calls_;  // "VERSION COMMAND"
  bool mounts_and_fails_ = false;
  std::unique_ptr<FlexPlugin> plugin_;
};

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

// ---- one that attaches

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
