// What the driver does while its process has no descriptors left: it fails, and takes no volume
// that is in use for a free one.
#include "csidriver/driver_fixture.h"
#include "csidriver/fake_descriptors.h"
#include "csidriver/node_records.h"

namespace berth::csidriver {
namespace {

using Shortage = FakeDescriptors::Shortage;

class DescriptorsTest : public DriverFixture, public testing::WithParamInterface<Shortage> {
 protected:
  static constexpr int kMostCalls = 400;

  // Calls `act` again and again, and each time one call later that makes a descriptor fails, until
  // none of its calls fails. `check` is called after each, with enough descriptors.
  void WalkShortages(const char* what, const std::function<base::Status()>& act,
                     const std::function<void(const base::Status& outcome)>& check) {
    for (int call = 0; call < kMostCalls; ++call) {
      SCOPED_TRACE(fmt::format("{} without descriptors from call {} on", what, call));
      FakeDescriptors::RunOutAt(call, GetParam());
      const base::Status outcome = act();
      const bool failed = FakeDescriptors::End();
      check(outcome);
      if (HasFailure()) return;
      if (!failed) {
        EXPECT_GE(call, 2) << what << " made no descriptors";
        return;
      }
    }
    ADD_FAILURE() << what << " still fails after " << kMostCalls << " calls";
  }

  void ExpectAttachedOnce(const std::string& id) {
    ASSERT_TRUE(std::filesystem::exists(Image(id))) << "the image of a volume in use is deleted";
    EXPECT_EQ(OurLoops().size(), 1u) << "attached more than once, or no longer";
  }
};

TEST_P(DescriptorsTest, AVolumeInUseIsNeitherAttachedTwiceNorDeleted) {
  const VolumeCapability capability = MountCapability("ext4", AccessMode::SINGLE_NODE_MULTI_WRITER);
  const std::string id = Create("pvc", capability, 16 * kMiB);
  Bring(id, capability, "pod");
  Write(Target("pod") + "/file", "of the pod");
  const auto stays_in_use = [&](const base::Status&) {
    ExpectAttachedOnce(id);
    EXPECT_EQ(Read(Target("pod") + "/file"), "of the pod");
  };

  WalkShortages(
      "delete", [&] { return Delete(id); },
      [&](const base::Status& outcome) {
        EXPECT_FALSE(outcome.ok());
        stays_in_use(outcome);
      });
  WalkShortages("stage again", [&] { return Stage(id, capability); }, stays_in_use);
  WalkShortages(
      "publish", [&] { return Publish(id, capability, Target("second")); },
      [&](const base::Status& outcome) {
        stays_in_use(outcome);
        const base::Status again = Publish(id, capability, Target("second"));
        EXPECT_TRUE(again.ok()) << again;
        EXPECT_EQ(Read(Target("second") + "/file"), "of the pod");
        const base::Status gone = Unpublish(id, Target("second"));
        EXPECT_TRUE(gone.ok()) << gone;
      });
  TakeDown(id, "pod");
  EXPECT_TRUE(Delete(id).ok());
}

TEST_P(DescriptorsTest, AVolumeIsStagedOnceAndUnstagedForGood) {
  const VolumeCapability capability = MountCapability("ext4");
  const std::string id = Create("pvc", capability, 16 * kMiB);
  WalkShortages(
      "stage", [&] { return Stage(id, capability); },
      [&](const base::Status&) {
        EXPECT_LE(OurLoops().size(), 1u);
        ASSERT_TRUE(std::filesystem::exists(Image(id)));
        const base::Status again = Stage(id, capability);
        EXPECT_TRUE(again.ok()) << again;
        EXPECT_EQ(OurLoops().size(), 1u);
        const base::Status gone = Unstage(id);
        EXPECT_TRUE(gone.ok()) << gone;
        EXPECT_TRUE(OurLoops().empty());
      });
  ASSERT_TRUE(Stage(id, capability).ok());
  WalkShortages(
      "unstage", [&] { return Unstage(id); },
      [&](const base::Status& outcome) {
        EXPECT_EQ(OurLoops().size(), outcome.ok() ? 0u : OurLoops().size());
        EXPECT_LE(OurLoops().size(), 1u);
        const base::Status again = Unstage(id);
        EXPECT_TRUE(again.ok()) << again;
        EXPECT_TRUE(OurLoops().empty()) << "the device of an unstaged volume stays attached";
        EXPECT_TRUE(Stage(id, capability).ok());
      });
  EXPECT_TRUE(Unstage(id).ok());
  EXPECT_TRUE(Delete(id).ok());
}

TEST_P(DescriptorsTest, ARecordThatCannotBeReadNowIsNotSetAside) {
  const VolumeCapability capability = MountCapability("ext4");
  const std::string id = Create("pvc", capability, 16 * kMiB);
  ASSERT_TRUE(Stage(id, capability).ok());
  const std::string records = options_.pool_folder + "/node";
  WalkShortages(
      "read the records", [&] { return NodeRecords::Open(records).status(); },
      [&](const base::Status&) {
        EXPECT_THAT(*platform::ListFolder(records), testing::ElementsAre(id + ".json"));
      });
  EXPECT_TRUE(Unstage(id).ok());
}

INSTANTIATE_TEST_SUITE_P(Shortages, DescriptorsTest,
                         testing::Values(Shortage::kOnce, Shortage::kForGood),
                         [](const testing::TestParamInfo<Shortage>& info) {
                           return info.param == Shortage::kOnce ? "Once" : "ForGood";
                         });

}  // namespace
}  // namespace berth::csidriver
