// What the volume manager makes of its records after it ended at any point, and when the records
// are damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/ids.h"
#include "base/json.h"
#include "node/volumes/fake_volume_world.h"
#include "platform/files/durable_file.h"

namespace berth::node {
namespace {

using base::Json;
using base::StatusCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using World = FakeVolumeWorld;

const base::Status kAgentKilled =
    base::Error(StatusCode::kUnavailable, "the node agent was killed");

// Ends the manager once the call `method` has failed in a way that leaves its outcome unknown.
void EndIn(World& world, const std::string& method) {
  ASSERT_TRUE(world.shared->WaitForCalls(method, 1));
  world.StopManager();
}

struct Cut {
  std::string method;
  bool takes_effect;
};

class VolumeRestart : public ::testing::TestWithParam<Cut> {
 protected:
  // The call fails; or it is done, and its answer is lost.
  static void Prepare(World& world) {
    if (GetParam().takes_effect) {
      world.shared->FailNext(GetParam().method, kAgentKilled, /*takes_effect=*/true);
    } else {
      world.shared->FailAll(GetParam().method, kAgentKilled);
    }
  }

  // What every cut ends with: the pod gets its volume, gives it back, and nothing is left.
  static void RunToTheEnd(World& world) {
    world.manager->WantVolumes(world.ClaimPod("web", "x"));
    ASSERT_TRUE(world.WaitReady("uid-web"));
    EXPECT_THAT(world.shared->Mounted(), UnorderedElementsAre(World::Device("x"), "uid-web/pv-x"));
    ASSERT_TRUE(world.WaitInUse({World::Device("x")}));
    world.manager->ReleaseVolumes("uid-web");
    ASSERT_TRUE(world.WaitReleased("uid-web"));
    ASSERT_TRUE(world.WaitInUse({}));
    EXPECT_THAT(world.shared->Mounted(), IsEmpty());
    EXPECT_THAT(world.RecordFiles("pods"), IsEmpty());
    EXPECT_THAT(world.RecordFiles("devices"), IsEmpty());
  }
};

// The manager ends while the call's outcome is unknown to it; the next one finishes the pod's life.
TEST_P(VolumeRestart, TheNextManagerGoesOn) {
  World world({});
  world.AddBoundClaim("x");
  Prepare(world);
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  const bool going_up = GetParam().method == "MountDevice" || GetParam().method == "SetUp";
  if (!going_up) {
    ASSERT_TRUE(world.WaitReady("uid-web"));
    world.manager->ReleaseVolumes("uid-web");
  }
  EndIn(world, GetParam().method);
  world.shared->FailAll(GetParam().method, base::OkStatus());
  ASSERT_TRUE(world.Start().ok());
  RunToTheEnd(world);
}

// As above, but nobody wants the pod any more.
TEST_P(VolumeRestart, TheNextManagerUndoesIt) {
  World world({});
  world.AddBoundClaim("x");
  Prepare(world);
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  const bool going_up = GetParam().method == "MountDevice" || GetParam().method == "SetUp";
  if (!going_up) {
    ASSERT_TRUE(world.WaitReady("uid-web"));
    ASSERT_TRUE(world.WaitInUse({World::Device("x")}));
    world.manager->ReleaseVolumes("uid-web");
  }
  EndIn(world, GetParam().method);
  world.shared->FailAll(GetParam().method, base::OkStatus());
  ASSERT_TRUE(world.Start().ok());
  for (const std::string& uid : world.manager->KnownPods()) world.manager->ReleaseVolumes(uid);
  ASSERT_TRUE(world.WaitReleased("uid-web"));
  EXPECT_TRUE(world.WaitForgotten());
  world.StopManager();
  EXPECT_THAT(world.shared->Mounted(), IsEmpty());
  EXPECT_THAT(world.RecordFiles("pods"), IsEmpty());
  EXPECT_THAT(world.RecordFiles("devices"), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(EveryCall, VolumeRestart,
                         ::testing::Values(Cut{"MountDevice", false}, Cut{"MountDevice", true},
                                           Cut{"SetUp", false}, Cut{"SetUp", true},
                                           Cut{"TearDown", false}, Cut{"TearDown", true},
                                           Cut{"UnmountDevice", false}, Cut{"UnmountDevice", true}),
                         [](const auto& info) {
                           return info.param.method + (info.param.takes_effect ? "Done" : "Cut");
                         });

TEST(VolumeRestartState, ARunningPodsVolumeIsReadyWithoutItsDriver) {
  World world({});
  world.AddBoundClaim("x");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  ASSERT_TRUE(world.WaitRecorded());
  const auto before = world.shared->Calls();
  world.shared->FailAll("SetUp", kAgentKilled);
  world.shared->FailAll("MountDevice", kAgentKilled);
  world.Restart();
  EXPECT_THAT(world.manager->KnownPods(), ElementsAre("uid-web"));
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  EXPECT_EQ(world.shared->Calls(), before);
  EXPECT_FALSE(world.manager->State("uid-web").published.at("data").path.empty());
}

TEST(VolumeRestartState, AMountThatIsGoneIsMadeAnew) {
  World world({});
  world.AddBoundClaim("x");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  ASSERT_TRUE(world.WaitRecorded());
  const std::string path = world.manager->State("uid-web").published.at("data").path;
  world.StopManager();
  ASSERT_TRUE(world.host->mounter().Unmount(path).ok());
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  EXPECT_EQ(world.shared->CallCount("SetUp"), 2U);
  EXPECT_TRUE(world.host->fake_mounter().IsMounted(path));
}

TEST(VolumeRestartState, AnotherMountInItsPlaceIsNotTakenForIt) {
  World world({});
  world.AddBoundClaim("x");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  ASSERT_TRUE(world.WaitRecorded());
  const std::string path = world.manager->State("uid-web").published.at("data").path;
  world.StopManager();
  ASSERT_TRUE(world.host->mounter().Mount({.source = "other", .target = path}).ok());
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  EXPECT_EQ(world.shared->CallCount("SetUp"), 2U);
}

TEST(VolumeRestartState, NothingIsTornDownBeforeSomebodySaysSo) {
  World world({});
  world.AddBoundClaim("x");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  world.Restart();
  world.AddBoundClaim("y");
  world.manager->WantVolumes(world.ClaimPod("other", "y"));
  ASSERT_TRUE(world.WaitReady("uid-other"));
  EXPECT_EQ(world.shared->CallCount("TearDown"), 0U);
  EXPECT_TRUE(world.WaitInUse({World::Device("x"), World::Device("y")}));
}

TEST(VolumeRestartState, AnUnfinishedTearDownKeepsTheVolumeFromANewPod) {
  World world({});
  world.AddBoundClaim("x");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("a", "x"));
  ASSERT_TRUE(world.WaitReady("uid-a"));
  world.shared->FailAll("TearDown", kAgentKilled);
  world.manager->ReleaseVolumes("uid-a");
  ASSERT_TRUE(world.shared->WaitForCalls("TearDown", 1));
  world.Restart();
  world.manager->WantVolumes(world.ClaimPod("b", "x"));
  ASSERT_TRUE(
      world.WaitReason("uid-b", "waiting until the volume is torn down for pod 'default/a'"));
  EXPECT_EQ(world.shared->CallCount("SetUp uid-b"), 0U);
  // It is finished without anybody asking: that was decided before.
  world.shared->FailAll("TearDown", base::OkStatus());
  EXPECT_TRUE(world.WaitReady("uid-b"));
}

// ---- damaged records ----

void Spoil(World& world, const std::string& folder, const std::string& content) {
  const auto names = world.RecordFiles(folder);
  ASSERT_EQ(names.size(), 1U);
  std::ofstream(world.RecordFolder(folder) + "/" + names.front(), std::ios::trunc) << content;
}

TEST(DamagedRecords, ATornDeviceRecordKeepsTheFenceAndIsRebuilt) {
  World world({});
  world.AddBoundClaim("x");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  ASSERT_TRUE(world.WaitRecorded());
  ASSERT_TRUE(world.WaitInUse({World::Device("x")}));
  world.StopManager();
  Spoil(world, "devices", R"({"version":1,"type":"dev)");
  ASSERT_TRUE(world.Start().ok());
  EXPECT_TRUE(world.host->fake_events().WaitFor({"Node node-a Warning VolumeRecordDamaged"}));
  EXPECT_EQ(world.DamagedFiles().size(), 1U);
  // The pod's record leads to the device.
  world.manager->ReleaseVolumes("uid-web");
  ASSERT_TRUE(world.WaitReleased("uid-web"));
  ASSERT_TRUE(world.WaitInUse({}));
  EXPECT_THAT(world.shared->Mounted(), IsEmpty());
}

TEST(DamagedRecords, AVolumeWhoseRecordsAreAllLostStaysInUse) {
  World world({});
  world.AddBoundClaim("x");
  ASSERT_TRUE(world.Start().ok());
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  ASSERT_TRUE(world.WaitRecorded());
  ASSERT_TRUE(world.WaitInUse({World::Device("x")}));
  world.StopManager();
  Spoil(world, "devices", "");
  Spoil(world, "pods", "[]");
  ASSERT_TRUE(world.Start().ok());
  EXPECT_THAT(world.manager->KnownPods(), IsEmpty());
  EXPECT_EQ(world.DamagedFiles().size(), 2U);
  // Another volume's coming and going does not remove it from the list.
  world.AddBoundClaim("y");
  world.manager->WantVolumes(world.ClaimPod("b", "y"));
  ASSERT_TRUE(world.WaitInUse({World::Device("x"), World::Device("y")}));
  // Once it is used again, its record tells when it is gone.
  world.manager->WantVolumes(world.ClaimPod("web", "x"));
  ASSERT_TRUE(world.WaitReady("uid-web"));
  world.manager->ReleaseVolumes("uid-web");
  ASSERT_TRUE(world.WaitReleased("uid-web"));
  EXPECT_TRUE(world.WaitInUse({World::Device("y")}));
}

struct BadRecord {
  std::string name;
  std::string content;
};

class ForeignRecord : public ::testing::TestWithParam<BadRecord> {};

TEST_P(ForeignRecord, IsSetAside) {
  World world({});
  ASSERT_TRUE(platform::MakeFolders(world.RecordFolder("pods"), 0700).ok());
  std::ofstream(world.RecordFolder("pods") + "/" + base::Sha256Hex("u/p/f") + ".json")
      << GetParam().content;
  ASSERT_TRUE(world.Start().ok());
  EXPECT_THAT(world.RecordFiles("pods"), IsEmpty());
  EXPECT_EQ(world.DamagedFiles().size(), 1U);
  EXPECT_THAT(world.manager->KnownPods(), IsEmpty());
}

std::string RecordWith(const std::string& member, const Json& value) {
  Json json = {{"version", 1},   {"type", "podVolume"},    {"bootId", "b"}, {"step", "mounted"},
               {"plugin", "p"},  {"deviceName", ""},       {"podUid", "u"}, {"folderName", "f"},
               {"names", {"f"}}, {"state", Json::object()}};
  json[member] = value;
  return base::json::Dump(json);
}

INSTANTIATE_TEST_SUITE_P(
    Each, ForeignRecord,
    ::testing::Values(BadRecord{"Empty", ""}, BadRecord{"Zeros", std::string(100, '\0')},
                      BadRecord{"AnotherVersion", RecordWith("version", 2)},
                      BadRecord{"AnotherType", RecordWith("type", "device")},
                      BadRecord{"UnknownStep", RecordWith("step", "flying")},
                      BadRecord{"UidLeadsOut", RecordWith("podUid", "../../etc")},
                      BadRecord{"FolderLeadsOut", RecordWith("folderName", "..")},
                      BadRecord{"NameLeadsOut", RecordWith("names", {"a/b"})},
                      BadRecord{"NamesAreNumbers", RecordWith("names", {1})},
                      BadRecord{"AnotherFilesContent", RecordWith("podUid", "v")},
                      BadRecord{"NoPlugin", RecordWith("plugin", nullptr)},
                      BadRecord{"Deep", std::string(1000, '[')},
                      BadRecord{"Huge", "\"" + std::string(300 * 1024, 'a') + "\""}),
    [](const auto& info) { return info.param.name; });

TEST(DamagedRecords, AHalfWrittenFileIsNoRecord) {
  World world({});
  ASSERT_TRUE(platform::MakeFolders(world.RecordFolder("pods"), 0700).ok());
  std::ofstream(world.RecordFolder("pods") + "/.x.json.tmp-Ab12Cd") << "{";
  ASSERT_TRUE(world.Start().ok());
  EXPECT_THAT(world.RecordFiles("pods"), IsEmpty());
  EXPECT_THAT(world.DamagedFiles(), IsEmpty());
}

}  // namespace
}  // namespace berth::node
