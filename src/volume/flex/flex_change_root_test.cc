// A driver is updated, replaced by one of the other kind, broken or removed in the midst of each of
// its calls: what is under way ends well or fails cleanly, and whatever was mounted is unmounted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/mutex.h"
#include "platform/files/fake_temp_folder.h"
#include "volume/fake_host.h"
#include "volume/flex/fake_driver_folder.h"
#include "volume/flex/flex_plugin.h"
#include "volume/flex/flex_prober.h"

namespace berth::volume {
namespace {

using base::MutexLock;
using base::StatusCode;
namespace fs = std::filesystem;

constexpr char kFolder[] = "example.com~binder";

class RealExecHost : public FakeHost {
 public:
  explicit RealExecHost(const std::string& kubelet_folder) : FakeHost(kubelet_folder) {
    UseMounter(platform::NewMounter());
  }
  platform::Exec& exec(std::string_view) override { return *exec_; }

 private:
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
};

struct Change {
  std::string name;
  std::string init;    // what the new version says; empty: there is none, the driver is removed
  bool mounts = true;  // new volumes, afterwards
};

const std::vector<Change>& Changes() {
  static const std::vector<Change> changes = {
      {"update", R"({"status": "Success"})"},
      {"no_attach", R"({"status": "Success", "capabilities": {"attach": false}})"},
      {"broken", R"({"status": "Failure", "message": "broken"})", false},
      {"removed", "", false}};
  return changes;
}

class FlexChangeRootTest : public testing::TestWithParam<std::tuple<std::string, const Change*>> {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "skipped: mounting needs root";
    fs::create_directory(temp_ / "backing");
    fs::create_directory(temp_ / "changes");
    drivers_.Put("example.com~binder/binder", Script(1, R"({"status": "Success"})"));
    prober_ = std::make_unique<FlexProber>(
        FlexProber::Options{.drivers = drivers_.path(),
                            .store = {.folder = temp_ / "store", .users = host_.paths().root()},
                            .make =
                                [this](const std::shared_ptr<const FlexDriver>& driver,
                                       const std::shared_ptr<DriverVersions>& versions) {
                                  driver_ = driver;
                                  return std::make_shared<FlexPlugin>(host_, driver, versions);
                                },
                            .window = std::chrono::milliseconds(50)});
    prober_->SetOnChange([this] {
      MutexLock lock(mutex_);
      ++news_;
      changed_.NotifyAll();
    });
    ASSERT_TRUE(prober_->Init().ok());
    RefreshList();
    ASSERT_NE(plugin_, nullptr);
    ASSERT_TRUE(ready_.ok()) << ready_;
    first_ = driver_->Current()->id;
  }
  void TearDown() override { prober_.reset(); }

  // A driver that binds a folder, and does before a call what lies in "changes" under its name.
  std::string Script(int version, const std::string& init) const {
    return fmt::format(R"(#!/bin/sh
# version {0}
changes={1}
if [ -e "$changes/$1" ]; then
  mv "$changes/$1" "$changes/.now"
  sh "$changes/.now"
fi
ok() {{ echo '{{"status": "Success"}}'; exit 0; }}
fail() {{ echo '{{"status": "Failure", "message": "it failed"}}'; exit 1; }}
case $1 in
  init) echo '{2}' ;;
  waitforattach) ok ;;
  mount | mountdevice) mountpoint -q "$2" || mount --bind {3} "$2" || fail; ok ;;
  unmount | unmountdevice) if mountpoint -q "$2"; then umount "$2" || fail; fi; ok ;;
  *) echo '{{"status": "Not supported"}}'; exit 1 ;;
esac
)",
                       version, temp_ / "changes", init, temp_ / "backing");
  }

  // As the registry does: what is new is initialised, and used once it is.
  void RefreshList() {
    auto list = prober_->ListPlugins();
    if (!list.ok() || !list->has_value() || (**list).empty()) return;
    auto plugin = std::static_pointer_cast<FlexPlugin>((**list).front());
    if (plugin == plugin_) return;
    plugin_ = std::move(plugin);
    ready_ = plugin_->Init();
  }

  // Has the driver changed when `command` is called.
  void ChangeAt(const std::string& command, const Change& change) {
    const std::string folder = drivers_ / kFolder;
    std::ofstream script(temp_ / ("changes/" + command));
    if (change.init.empty()) {
      script << "rm -rf " << folder << "\n";
      return;
    }
    std::ofstream(temp_ / "new") << Script(2, change.init);
    script << "cp " << (temp_ / "new") << " " << folder << "/.new\n"
           << "chmod 755 " << folder << "/.new\n"
           << "mv " << folder << "/.new " << folder << "/binder\n";
  }

  // If the change was made, goes on once the prober knows of it.
  void Notice() {
    if (!fs::exists(temp_ / "changes/.now")) return;
    const auto noticed = [this] {
      RefreshList();
      const auto current = driver_->Current();
      return current.ok() ? current->id != first_
                          : current.status().code() != StatusCode::kUnavailable;
    };
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (int seen = -1;;) {
      {
        MutexLock lock(mutex_);
        while (news_ == seen) {
          ASSERT_TRUE(changed_.WaitUntil(mutex_, deadline)) << "the change was not noticed";
        }
        seen = news_;
      }
      if (noticed()) return;
    }
  }

  static VolumeSpec Spec() {
    return {.name = "data",
            .pod_volume = api::PodVolume(Json{{"name", "data"}}),
            .claim = std::make_shared<api::PersistentVolumeClaim>(),
            .pv = std::make_shared<api::PersistentVolume>(
                Json{{"metadata", {{"name", "pv-1"}}},
                     {"spec", {{"flexVolume", {{"driver", "example.com/binder"}}}}}})};
  }
  static api::Pod Pod() {
    return api::Pod({{"metadata", {{"name", "web"}, {"namespace", "shop"}, {"uid", "u-1"}}},
                     {"spec", Json::object()}});
  }
  bool IsBelow(const std::string& folder) {
    const auto table = host_.mounter().List();
    EXPECT_TRUE(table.ok());
    return std::any_of(table->begin(), table->end(), [&folder](const auto& entry) {
      return entry.mount_point.starts_with(folder + "/");
    });
  }

  const platform::TempFolder temp_;
  const FakeDriverFolder drivers_;
  RealExecHost host_{temp_ / "kubelet"};
  base::Mutex mutex_;
  base::CondVar changed_;
  int news_ = 0;
  std::shared_ptr<const FlexDriver> driver_;
  std::shared_ptr<FlexPlugin> plugin_;
  base::Status ready_;
  std::string first_;
  std::unique_ptr<FlexProber> prober_;
};

TEST_P(FlexChangeRootTest, WhatIsUnderWayEndsWellOrFailsCleanly) {
  const auto& [command, change] = GetParam();
  ChangeAt(command, *change);
  const DeviceRecord device{.plugin = "example.com/binder",
                            .device_name = **plugin_->DeviceName(Spec()),
                            .pv_name = "pv-1",
                            .state = *plugin_->DeviceState(Spec())};
  const PodVolumeRecord pod{.plugin = "example.com/binder",
                            .pod_uid = "u-1",
                            .folder_name = "pv-1",
                            .state = *plugin_->PodState(Pod(), Spec())};
  // The call that runs has its copy, whatever becomes of the driver.
  const base::Status mounted = plugin_->MountDevice(Pod(), Spec(), {});
  EXPECT_TRUE(mounted.ok()) << mounted;
  Notice();
  const bool changed = fs::exists(temp_ / "changes/.now");
  if (ready_.ok()) {
    const auto published = plugin_->SetUp(Pod(), Spec(), {});
    EXPECT_EQ(published.ok(), !changed || change->mounts) << published.status();
    if (!published.ok()) EXPECT_EQ(published.status().code(), StatusCode::kNotFound);
  }
  Notice();
  const base::Status torn_down = plugin_->TearDown(pod);
  EXPECT_TRUE(torn_down.ok()) << torn_down;
  Notice();
  const base::Status unmounted = plugin_->UnmountDevice(device);
  EXPECT_TRUE(unmounted.ok()) << unmounted;
  EXPECT_FALSE(IsBelow(temp_.path()));
  EXPECT_FALSE(fs::exists(
      host_.paths().PodVolume(api::PodUid("u-1"), "example.com/binder", api::VolumeName("pv-1"))));
  EXPECT_FALSE(
      fs::exists(host_.paths().FlexMount("example.com/binder", api::VolumeName("pv-1")).text()));
}

std::vector<const Change*> ChangePointers() {
  std::vector<const Change*> pointers;
  for (const Change& change : Changes()) pointers.push_back(&change);
  return pointers;
}

INSTANTIATE_TEST_SUITE_P(All, FlexChangeRootTest,
                         testing::Combine(testing::Values("getvolumename", "waitforattach",
                                                          "mountdevice", "mount", "unmount",
                                                          "unmountdevice"),
                                          testing::ValuesIn(ChangePointers())),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<0>(test.param),
                                              std::get<1>(test.param)->name);
                         });

}  // namespace
}  // namespace berth::volume
