#include "volume/flex/flex_prober.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/mutex.h"
#include "platform/files/durable_file.h"
#include "volume/flex/fake_driver_folder.h"
#include "volume/flex/fake_flex_plugin.h"

namespace berth::volume {
namespace {

using base::MutexLock;
using base::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;

constexpr char kProbedUser[] = "pods/1234/volumes/example~nfs/data";

class FlexProberTest : public testing::Test {
 protected:
  FlexProberTest() { Start(); }
  ~FlexProberTest() override { prober_.reset(); }

  void Start() {
    prober_.reset();
    prober_ = std::make_unique<FlexProber>(FlexProber::Options{
        .drivers = folder_.path(),
        .store = {.folder = temp_ / "store", .users = temp_ / "kubelet"},
        .make = FakeFlexPlugin::Make,
        .on_left_out = [this](const std::string& folder,
                              const Status& why) { told_.emplace_back(folder, why.code()); },
        .window = std::chrono::milliseconds(50),
        .retry = std::chrono::milliseconds(200)});
    prober_->SetOnChange([this] {
      MutexLock lock(mutex_);
      ++news_;
      changed_.NotifyAll();
    });
    ASSERT_TRUE(prober_->Init().ok());
  }

  // Probes until `done` holds, each time when there is news; false after 10 s.
  bool ProbeUntil(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    for (int seen = -1;;) {
      {
        MutexLock lock(mutex_);
        while (news_ == seen) {
          if (!changed_.WaitUntil(mutex_, deadline)) return false;
        }
        seen = news_;
      }
      RefreshList();
      if (done()) return true;
    }
  }
  void RefreshList() {
    auto list = prober_->ListPlugins();
    // While the driver folder is not there, the last list holds.
    if (list.ok() && list->has_value()) list_ = **std::move(list);
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& plugin : list_) names.emplace_back(plugin->name());
    return names;
  }
  const FakeFlexPlugin* Plugin(std::string_view name) const {
    for (const auto& plugin : list_) {
      if (plugin->name() == name) return static_cast<const FakeFlexPlugin*>(plugin.get());
    }
    return nullptr;
  }
  StatusOr<DriverVersion> Current(std::string_view name) const {
    const FakeFlexPlugin* plugin = Plugin(name);
    if (plugin == nullptr) return base::Error(StatusCode::kNotFound, "not listed");
    return plugin->driver().Current();
  }
  std::string Output(std::string_view name) const {
    const auto current = Current(name);
    return current.ok() ? OutputOf(current->executable) : base::ToString(current.status());
  }
  std::string ExplainMissing(const std::string& driver) const {
    return prober_->ExplainMissing({.name = "data",
                                    .pod_volume = api::PodVolume(Json{
                                        {"name", "data"}, {"flexVolume", {{"driver", driver}}}})});
  }

  const platform::TempFolder temp_;
  const FakeDriverFolder folder_;
  std::vector<std::pair<std::string, StatusCode>> told_;
  base::Mutex mutex_;
  base::CondVar changed_;
  int news_ ABSL_GUARDED_BY(mutex_) = 0;
  PluginList list_;
  std::unique_ptr<FlexProber> prober_;
};

TEST_F(FlexProberTest, DriversComeAreUpdatedAndGo) {
  RefreshList();
  EXPECT_THAT(Names(), IsEmpty());
  folder_.Install("example~nfs", "one");
  ASSERT_TRUE(ProbeUntil([&] { return Output("example/nfs") == "one"; }));
  const auto first = list_[0];
  folder_.Install("plain", "other");
  ASSERT_TRUE(ProbeUntil([&] { return list_.size() == 2; }));
  EXPECT_EQ(list_[0], first) << "what did not change is another object";
  folder_.Install("example~nfs", "two");
  ASSERT_TRUE(ProbeUntil([&] { return Output("example/nfs") == "two"; }));
  EXPECT_NE(list_[0], first);
  folder_.Remove("example~nfs");
  ASSERT_TRUE(ProbeUntil([&] { return list_.size() == 1; }));
  EXPECT_THAT(Names(), ElementsAre("plain"));
  EXPECT_THAT(ExplainMissing("example/nfs"),
              HasSubstr("there is no Flexvolume driver 'example/nfs'"));
}

TEST_F(FlexProberTest, NothingNewIsNoList) {
  folder_.Install("nfs", "one");
  ASSERT_TRUE(ProbeUntil([&] { return list_.size() == 1; }));
  // The call at the watch's start, and that of the change, may be one or two.
  while (prober_->ListPlugins()->has_value()) {
  }
  const auto list = prober_->ListPlugins();
  ASSERT_TRUE(list.ok());
  EXPECT_FALSE(list->has_value());
}

TEST_F(FlexProberTest, ASiblingFileIsANewVersionOfTheSamePlugin) {
  folder_.Put("nfs/nfs", "#!/bin/sh\ncat $(dirname $0)/data\n");
  folder_.Put("nfs/data", "one", 0644);
  ASSERT_TRUE(ProbeUntil([&] { return Output("nfs") == "one"; }));
  const auto plugin = list_[0];
  folder_.Put("nfs/data", "two", 0644);
  ASSERT_TRUE(ProbeUntil([&] { return Output("nfs") == "two"; }));
  EXPECT_EQ(list_[0], plugin);
}

TEST_F(FlexProberTest, ATouchedExecutableIsANewPlugin) {
  folder_.Install("nfs", "one");
  ASSERT_TRUE(ProbeUntil([&] { return Output("nfs") == "one"; }));
  const auto plugin = list_[0];
  ASSERT_EQ(utimensat(AT_FDCWD, (folder_ / "nfs/nfs").c_str(), nullptr, 0), 0);
  EXPECT_TRUE(ProbeUntil([&] { return list_[0] != plugin; }));
}

TEST_F(FlexProberTest, WhatIsBeingWrittenIsTakenWhenItIsDone) {
  folder_.Install("nfs", "one");
  ASSERT_TRUE(ProbeUntil([&] { return Output("nfs") == "one"; }));
  const auto plugin = list_[0];
  base::UniqueFd writer(open((folder_ / "nfs/nfs").c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  constexpr std::string_view kHalf = "#!/bin/sh\necho tw";
  ASSERT_EQ(write(writer.get(), kHalf.data(), kHalf.size()), std::ssize(kHalf));
  folder_.Install("other", "x");  // has it looked at
  ASSERT_TRUE(ProbeUntil([&] { return list_.size() == 2; }));
  ASSERT_TRUE(
      ProbeUntil([&] { return Current("nfs").status().code() == StatusCode::kUnavailable; }));
  EXPECT_EQ(list_[0], plugin) << "listed as it was";
  EXPECT_THAT(ExplainMissing("nfs"), HasSubstr("'nfs' is being written"));
  ASSERT_EQ(write(writer.get(), "o\n", 2), 2);
  writer.Reset();
  ASSERT_TRUE(ProbeUntil([&] { return Output("nfs") == "two"; }));
  EXPECT_NE(list_[0], plugin);
}

TEST_F(FlexProberTest, ACopyThatFailsIsToldAndTriedAgainThoughNothingChanges) {
  folder_.Install("good", "good");
  ASSERT_TRUE(ProbeUntil([&] { return Output("good") == "good"; }));
  // What is in the way of the copy goes, as a full disk gets room: not in the driver folder.
  const std::string in_the_way = temp_ / "store/nfs";
  ASSERT_TRUE(platform::WriteDurably<"test.file">(in_the_way, "x").ok());
  folder_.Install("nfs", "one");
  ASSERT_TRUE(ProbeUntil([&] { return prober_->ListLeftOut().contains("nfs"); }));
  EXPECT_THAT(ExplainMissing("nfs"), HasSubstr("cannot be used: rename a copy"));
  EXPECT_EQ(told_.back().first, "nfs");
  EXPECT_EQ(Output("good"), "good");
  ASSERT_EQ(unlink(in_the_way.c_str()), 0);
  ASSERT_TRUE(ProbeUntil([&] { return Output("nfs") == "one"; }));
  EXPECT_EQ(told_.back(), std::pair(std::string("nfs"), StatusCode::kOk));
}

TEST_F(FlexProberTest, ADriverMadeExecutableLaterIsFound) {
  folder_.Put("nfs/nfs", "#!/bin/sh\necho one\n", 0644);
  ASSERT_TRUE(ProbeUntil([&] { return prober_->ListLeftOut().contains("nfs"); }));
  EXPECT_THAT(ExplainMissing("nfs"), HasSubstr("is not executable"));
  ASSERT_EQ(chmod((folder_ / "nfs/nfs").c_str(), 0755), 0);
  ASSERT_TRUE(ProbeUntil([&] { return Output("nfs") == "one"; }));
  EXPECT_EQ(told_.front(), std::pair(std::string("nfs"), StatusCode::kFailedPrecondition));
  EXPECT_EQ(told_.back(), std::pair(std::string("nfs"), StatusCode::kOk));
}

TEST_F(FlexProberTest, OneBadDriverHidesNoOther) {
  folder_.Put("bad/bad", "", 0755);
  folder_.Install("a~b~c", "x");
  ASSERT_EQ(symlink("/bin", (folder_ / "link").c_str()), 0);
  folder_.Install("good", "good");
  ASSERT_TRUE(ProbeUntil([&] { return Output("good") == "good"; }));
  EXPECT_THAT(Names(), ElementsAre("good"));
  EXPECT_THAT(prober_->ListLeftOut(), ElementsAre(Key("a~b~c"), Key("bad"), Key("link")));
}

TEST_F(FlexProberTest, ARemovedDriverIsListedWhileAVersionIsHeld) {
  ASSERT_TRUE(platform::MakeFolders(temp_ / ("kubelet/" + std::string(kProbedUser))).ok());
  folder_.Install("example~nfs", "one");
  ASSERT_TRUE(ProbeUntil([&] { return Output("example/nfs") == "one"; }));
  const DriverVersion version = *Current("example/nfs");
  ASSERT_TRUE(Plugin("example/nfs")->versions().HoldVersion(version, kProbedUser).ok());
  const VolumePlugin* const plugin = list_[0].get();
  folder_.Remove("example~nfs");
  ASSERT_TRUE(
      ProbeUntil([&] { return Current("example/nfs").status().code() == StatusCode::kNotFound; }));
  EXPECT_EQ(list_[0].get(), plugin);
  EXPECT_THAT(Output("example/nfs"), HasSubstr("no folder 'example~nfs'"));
  const Status state = prober_->GetState("example/nfs");
  EXPECT_EQ(state.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::ToString(state), HasSubstr(fmt::format("set up: '{}'", kProbedUser)));
  EXPECT_EQ(OutputOf(version.executable), "one");

  // The same after a restart; then the last volume goes.
  list_.clear();
  Start();
  RefreshList();
  ASSERT_THAT(Names(), ElementsAre("example/nfs"));
  EXPECT_EQ(Current("example/nfs").status().code(), StatusCode::kNotFound);
  const auto kept =
      Plugin("example/nfs")->versions().FindVersion("example/nfs", DriverVersionId(version.id));
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(OutputOf(kept->executable), "one");
  ASSERT_TRUE(Plugin("example/nfs")->versions().ReleaseVersion(*kept, kProbedUser).ok());
  EXPECT_TRUE(ProbeUntil([&] { return list_.empty(); }));
}

TEST_F(FlexProberTest, WhatADriverSetUpThatIsGoneHasAPluginOfItsName) {
  const auto absent = prober_->FindAbsent("example/nfs");
  ASSERT_NE(absent, nullptr);
  EXPECT_EQ(absent->name(), "example/nfs");
  RefreshList();
  EXPECT_THAT(list_, IsEmpty());
  for (const char* name : {"kubernetes.io/csi", "no driver", "a/b/c", "", "../x"}) {
    EXPECT_EQ(prober_->FindAbsent(name), nullptr) << name;
  }
}

TEST_F(FlexProberTest, AnOldCopyGoesSoonAfterTheLastCallThatRunsIt) {
  const auto copies = [this] { return platform::ListFolder(temp_ / "store/nfs")->size(); };
  folder_.Install("nfs", "one");
  ASSERT_TRUE(ProbeUntil([&] { return Output("nfs") == "one"; }));
  std::optional<DriverVersion> runs = *Current("nfs");
  folder_.Install("nfs", "two");
  ASSERT_TRUE(ProbeUntil([&] { return Output("nfs") == "two"; }));
  EXPECT_EQ(OutputOf(runs->executable), "one");
  EXPECT_EQ(copies(), 2u);
  runs.reset();
  EXPECT_TRUE(ProbeUntil([&] { return copies() == 1; }));
}

TEST_F(FlexProberTest, WhatHoldsARemovedDriverIsCountedAnewWhenAVolumeGoes) {
  folder_.Install("nfs", "one");
  ASSERT_TRUE(ProbeUntil([&] { return Output("nfs") == "one"; }));
  const std::shared_ptr<VolumePlugin> plugin = list_[0];
  DriverVersions& versions = Plugin("nfs")->versions();
  for (const char* user : {"pods/1", "pods/2", "pods/3", "pods/4"}) {
    ASSERT_TRUE(versions.HoldVersion(*Current("nfs"), user).ok());
  }
  EXPECT_TRUE(prober_->GetState("nfs").ok());
  folder_.Remove("nfs");
  const auto says = [&](std::string_view what) {
    return base::ToString(prober_->GetState("nfs")).find(what) != std::string::npos;
  };
  ASSERT_TRUE(ProbeUntil([&] { return says("'pods/1', 'pods/2', 'pods/3' and 1 more"); }));
  {
    const auto held = versions.FindHeldVersion("nfs", "pods/1");
    ASSERT_TRUE(held.ok() && held->has_value());
    ASSERT_TRUE(versions.ReleaseVersion(**held, "pods/1").ok());
  }
  EXPECT_TRUE(ProbeUntil([&] { return says("set up: 'pods/2', 'pods/3', 'pods/4'"); }));
}

TEST_F(FlexProberTest, ADriverThatComesBackIsANewPlugin) {
  folder_.Install("nfs", "one");
  ASSERT_TRUE(ProbeUntil([&] { return Output("nfs") == "one"; }));
  const DriverVersion version = *Current("nfs");
  ASSERT_TRUE(Plugin("nfs")->versions().HoldVersion(version, kProbedUser).ok());
  const auto plugin = list_[0];
  folder_.MoveDriver("nfs", ".nfs");
  ASSERT_TRUE(ProbeUntil([&] { return !Current("nfs").ok(); }));
  folder_.MoveDriver(".nfs", "nfs");
  ASSERT_TRUE(ProbeUntil([&] { return Output("nfs") == "one"; }));
  EXPECT_NE(list_[0], plugin);
  EXPECT_EQ(Current("nfs")->id, version.id);
}

TEST_F(FlexProberTest, AFolderThatTookTheOthersPlaceIsScanned) {
  folder_.Install("nfs", "one");
  folder_.Install(".new", "x");
  folder_.Put(".new/nfs", "#!/bin/sh\necho two\n");
  ASSERT_TRUE(ProbeUntil([&] { return Output("nfs") == "one"; }));
  folder_.MoveDriver("nfs", ".old");
  folder_.MoveDriver(".new", "nfs");
  EXPECT_TRUE(ProbeUntil([&] { return Output("nfs") == "two"; }));
}

TEST_F(FlexProberTest, TheDriverFolderIsMadeAgain) {
  folder_.Install("nfs", "one");
  ASSERT_TRUE(ProbeUntil([&] { return Output("nfs") == "one"; }));
  ASSERT_TRUE(platform::RemoveTree(folder_.path()).ok());
  ASSERT_TRUE(ProbeUntil([&] { return list_.empty(); }));
  folder_.Install("nfs", "two");
  EXPECT_TRUE(ProbeUntil([&] { return Output("nfs") == "two"; }));
}

TEST_F(FlexProberTest, AScanThatFailsIsAnErrorAndOnceMore) {
  folder_.Install("nfs", "one");
  ASSERT_TRUE(ProbeUntil([&] { return Output("nfs") == "one"; }));
  ASSERT_TRUE(platform::RemoveTree(folder_.path()).ok());
  // A file in its place: it can't be made again.
  const base::UniqueFd file(open(folder_.path().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  ASSERT_TRUE(file.valid());
  StatusOr<std::optional<PluginList>> list = std::optional<PluginList>();
  {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    MutexLock lock(mutex_);
    for (int seen = news_; list.ok();) {
      while (news_ == seen) ASSERT_TRUE(changed_.WaitUntil(mutex_, deadline));
      seen = news_;
      list = prober_->ListPlugins();
    }
  }
  ASSERT_EQ(unlink(folder_.path().c_str()), 0);
  folder_.Install("nfs", "two");
  EXPECT_TRUE(ProbeUntil([&] { return Output("nfs") == "two"; }));
}

// A storm of events, while a caller asks all the time.
TEST_F(FlexProberTest, AStormIsOneScanAWindow) {
  using std::chrono::milliseconds, std::chrono::steady_clock;
  folder_.Install("nfs", "one");
  folder_.Install("other", "two");
  ASSERT_TRUE(ProbeUntil([&] { return list_.size() == 2; }));
  std::atomic<int> scans = 0;
  std::jthread asks([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const auto list = prober_->ListPlugins();
      if (list.ok() && list->has_value()) ++scans;
    }
  });
  const auto start = steady_clock::now();
  int events = 0;
  while (steady_clock::now() - start < milliseconds(500)) {
    chmod((folder_ / (++events % 2 == 0 ? "nfs/nfs" : "other/other")).c_str(), 0755);
  }
  const auto windows = (steady_clock::now() - start) / milliseconds(50);
  asks.request_stop();
  asks.join();
  // One of what was before, one at each window's end, and that of a window that was cut off.
  EXPECT_LE(scans, windows + 2);
  EXPECT_GT(events, scans);
}

TEST_F(FlexProberTest, NoDescriptorAndNoWatchIsLeft) {
  prober_.reset();
  const int before = OpenDescriptors();
  for (int i = 0; i < 3; ++i) {
    Start();
    folder_.Install(fmt::format("driver-{}", i), "x");
    ASSERT_TRUE(ProbeUntil([&] { return std::ssize(list_) > i && InotifyWatches() == i + 2; }));
    list_.clear();
    prober_.reset();
    EXPECT_EQ(OpenDescriptors(), before);
  }
}

TEST_F(FlexProberTest, APluginOutlivesItsProber) {
  folder_.Install("nfs", "one");
  ASSERT_TRUE(ProbeUntil([&] { return Output("nfs") == "one"; }));
  prober_.reset();
  EXPECT_EQ(Output("nfs"), "one");
  const DriverVersion version = *Current("nfs");
  ASSERT_TRUE(Plugin("nfs")->versions().HoldVersion(version, kProbedUser).ok());
  ASSERT_TRUE(Plugin("nfs")->versions().ReleaseVersion(version, kProbedUser).ok());
}

}  // namespace
}  // namespace berth::volume
