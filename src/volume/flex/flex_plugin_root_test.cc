// The plugin and the attach side with a real driver: examples/flexvolume/images.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/assert_ok.h"
#include "platform/devices/loop_device.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "volume/fake_host.h"
#include "volume/flex/fake_flex_driver.h"
#include "volume/flex/flex_attach.h"
#include "volume/flex/flex_plugin.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::IsEmpty;
namespace fs = std::filesystem;

class RealFlexHost : public FakeHost {
 public:
  explicit RealFlexHost(const std::string& kubelet_folder) : FakeHost(kubelet_folder) {
    UseMounter(platform::NewMounter());
  }
  platform::Exec& exec(std::string_view) override { return *exec_; }

 private:
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
};

class FlexPluginRootTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "skipped: mounting needs root";
    fs::create_directory(backing_);
    Install("1", "");
  }
  void TearDown() override {
    if (geteuid() != 0) return;
    const auto table = host_.mounter().List();
    ASSERT_TRUE(table.ok());
    for (const auto& entry : *table) {
      EXPECT_FALSE(entry.mount_point.starts_with(folder_.path())) << entry.mount_point;
    }
    ExpectNoLoops();
  }

  // One that was detached stays while another process's mounts, copied meanwhile, have it.
  void ExpectNoLoops() const {
    for (int i = 0; i < 100 && !Loops().empty(); ++i) usleep(100'000);
    EXPECT_THAT(Loops(), IsEmpty());
  }

  // A version of the driver that does `first` before all else.
  void Install(const std::string& id, const std::string& first) {
    const fs::path source =
        fs::path(__FILE__).parent_path().parent_path().parent_path().parent_path() /
        "examples/flexvolume/images/images";
    const auto script = platform::ReadFile(source);
    ASSERT_TRUE(script.ok()) << script.status();
    const std::string folder = folder_ / ("version-" + id);
    fs::create_directory(folder);
    ASSERT_OK(platform::WriteDurably<"test.file">(folder + "/images",
                                                  "#!/bin/sh\n" + first + "\n" + *script, 0755));
    driver_->Set(
        DriverVersion{.driver = "example.com/images", .executable = folder + "/images", .id = id});
    plugin_ = std::make_unique<FlexPlugin>(host_, driver_, versions_);
    ASSERT_OK(plugin_->Init());
    attach_ = std::make_unique<FlexAttach>(host_.exec(""), host_.paths(), driver_, versions_);
    ASSERT_OK(attach_->Init());
  }

  VolumeSpec Spec(const Json& more = Json::object()) {
    Json source = {{"driver", "example.com/images"},
                   {"fsType", "ext4"},
                   {"options", {{"folder", backing_}, {"size", "16M"}}}};
    source.merge_patch(more);
    return {.name = "data",
            .pod_volume = api::PodVolume(Json{{"name", "data"}}),
            .claim = std::make_shared<api::PersistentVolumeClaim>(),
            .pv = std::make_shared<api::PersistentVolume>(
                Json{{"metadata", {{"name", "pv-1"}}}, {"spec", {{"flexVolume", source}}}})};
  }
  static api::Pod Pod(const std::string& uid) {
    return api::Pod({{"metadata", {{"name", "web"}, {"namespace", "shop"}, {"uid", uid}}},
                     {"spec", {{"securityContext", {{"fsGroup", 4321}}}}}});
  }
  PodVolumeRecord PodRecord(const std::string& uid) {
    return {.plugin = "example.com/images",
            .pod_uid = uid,
            .folder_name = "pv-1",
            .state = *plugin_->PodState(Pod(uid), Spec())};
  }
  DeviceRecord DeviceRecordOf() {
    return {.plugin = "example.com/images",
            .device_name = **plugin_->DeviceName(Spec()),
            .pv_name = "pv-1",
            .state = *plugin_->DeviceState(Spec())};
  }
  // Attached, as the controller and the node agent do it.
  api::Labels Attach(const VolumeSpec& spec) {
    const auto device = attach_->Attach(spec, api::NodeName("node-a"));
    EXPECT_TRUE(device.ok()) << device.status();
    return {{"devicePath", device.value_or("")}};
  }
  std::vector<std::string> Loops() const {
    std::vector<std::string> loops;
    for (const auto& image : fs::directory_iterator(backing_)) {
      const auto backing = platform::IdentifyFile(image.path());
      if (!backing.ok()) continue;
      const auto found = platform::FindLoops(*backing, image.path().filename().string());
      if (!found.ok()) continue;
      for (const platform::LoopDevice& loop : *found) loops.push_back(loop.path);
    }
    return loops;
  }

  const platform::TempFolder folder_;
  const std::string backing_ = folder_ / "backing";
  RealFlexHost host_{folder_ / "kubelet"};
  const std::shared_ptr<FakeFlexDriver> driver_ =
      std::make_shared<FakeFlexDriver>("example.com/images");
  const std::shared_ptr<FakeDriverVersions> versions_ = std::make_shared<FakeDriverVersions>();
  std::unique_ptr<FlexPlugin> plugin_;
  std::unique_ptr<FlexAttach> attach_;
};

TEST_F(FlexPluginRootTest, DataOutlivesThePodAndNothingIsLeftOfTheVolume) {
  const VolumeSpec spec = Spec();
  for (const std::string uid : {"u-1", "u-2"}) {
    const api::Labels context = Attach(spec);
    EXPECT_TRUE(*attach_->IsAttached(spec, api::NodeName("node-a")));
    ASSERT_OK(plugin_->MountDevice(Pod(uid), spec, context));
    const auto published = plugin_->SetUp(Pod(uid), spec, context);
    ASSERT_OK(published.status());
    struct stat st{};
    ASSERT_EQ(stat(published->path.c_str(), &st), 0);
    EXPECT_EQ(st.st_gid, 4321u);
    if (uid == "u-1") {
      ASSERT_OK(platform::WriteDurably<"test.file">(published->path + "/letter", "hello"));
    } else {
      EXPECT_EQ(platform::ReadFile(published->path + "/letter").value_or(""), "hello");
    }
    EXPECT_GT(plugin_->GetStats(PodRecord(uid))->total_bytes, 8 << 20);
    ASSERT_OK(plugin_->TearDown(PodRecord(uid)));
    ASSERT_OK(plugin_->UnmountDevice(DeviceRecordOf()));
    ASSERT_OK(attach_->Detach(api::VolumeName("pv-1"), api::NodeName("node-a")));
    ExpectNoLoops();
    EXPECT_THAT(versions_->holds(), IsEmpty());
  }
}

TEST_F(FlexPluginRootTest, WhatIsToBeReadOnlyCannotBeWritten) {
  const api::Labels context = Attach(Spec());
  ASSERT_OK(plugin_->SetUp(Pod("u-1"), Spec(), context).status());  // makes the file system
  ASSERT_OK(plugin_->TearDown(PodRecord("u-1")));
  ASSERT_OK(plugin_->UnmountDevice(DeviceRecordOf()));
  const auto published = plugin_->SetUp(Pod("u-2"), Spec({{"readOnly", true}}), context);
  ASSERT_OK(published.status());
  EXPECT_TRUE(published->read_only);
  const base::UniqueFd fd(
      open((published->path + "/x").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  EXPECT_FALSE(fd.valid());
  EXPECT_EQ(errno, EROFS);
  ASSERT_OK(plugin_->TearDown(PodRecord("u-2")));
  ASSERT_OK(plugin_->UnmountDevice(DeviceRecordOf()));
}

TEST_F(FlexPluginRootTest, AVolumeOfADriverThatWasRemovedIsUnmountedByTheVersionThatMountedIt) {
  const api::Labels context = Attach(Spec());
  ASSERT_OK(plugin_->SetUp(Pod("u-1"), Spec(), context).status());
  const PodVolumeRecord pod = PodRecord("u-1");
  const DeviceRecord device = DeviceRecordOf();
  driver_->Remove();
  plugin_ = std::make_unique<FlexPlugin>(host_, driver_, versions_);
  ASSERT_OK(plugin_->Init());
  EXPECT_EQ(plugin_->SetUp(Pod("u-2"), Spec(), context).status().code(), StatusCode::kNotFound);
  ASSERT_OK(plugin_->TearDown(pod));
  ASSERT_OK(plugin_->UnmountDevice(device));
  ASSERT_OK(attach_->Detach(api::VolumeName("pv-1"), api::NodeName("node-a")));
}

TEST_F(FlexPluginRootTest, InPlaceOfMountDeviceABlankDeviceIsFormattedAndNoOther) {
  Install("2", R"([ "$1" != mountdevice ] || { echo '{"status": "Not supported"}'; exit 1; })");
  const api::Labels context = Attach(Spec());
  ASSERT_OK(plugin_->SetUp(Pod("u-1"), Spec(), context).status());
  ASSERT_OK(plugin_->TearDown(PodRecord("u-1")));
  ASSERT_OK(plugin_->UnmountDevice(DeviceRecordOf()));
  // Something that is no file system, and not nothing.
  const std::string image = backing_ + "/pv-1.img";
  const base::UniqueFd fd(open(image.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  ASSERT_EQ(write(fd.get(), "precious", 8), 8);
  ASSERT_EQ(ftruncate(fd.get(), 16 << 20), 0);
  const base::Status refused = plugin_->SetUp(Pod("u-2"), Spec(), context).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused;
  const auto content = platform::ReadFile(image, 32 << 20);
  ASSERT_OK(content.status());
  EXPECT_TRUE(content->starts_with("precious"));
  for (const std::string& loop : Loops()) {
    ASSERT_OK(platform::RunOk(host_.exec(""), {.argv = {"losetup", "-d", loop}}).status());
  }
}

TEST_F(FlexPluginRootTest, ADriverThatHangsIsKilledAndItsCallIsRepeated) {
  Install("2", R"([ "$1" != mountdevice ] || [ ! -e "$0.hang" ] || exec sleep 1000)");
  const std::string hang = folder_ / "version-2/images.hang";
  ASSERT_OK(platform::WriteDurably<"test.file">(hang, ""));
  plugin_ = std::make_unique<FlexPlugin>(
      host_, driver_, versions_, DriverCalls::Deadlines{.slow = std::chrono::milliseconds(3000)});
  ASSERT_OK(plugin_->Init());
  const api::Labels context = Attach(Spec());
  const base::Status mounted = plugin_->MountDevice(Pod("u-1"), Spec(), context);
  EXPECT_EQ(mounted.code(), StatusCode::kDeadlineExceeded) << mounted;
  ASSERT_TRUE(fs::remove(hang));
  plugin_ = std::make_unique<FlexPlugin>(host_, driver_, versions_);
  ASSERT_OK(plugin_->Init());
  ASSERT_OK(plugin_->MountDevice(Pod("u-1"), Spec(), context));
  ASSERT_OK(plugin_->UnmountDevice(DeviceRecordOf()));
}

}  // namespace
}  // namespace berth::volume
