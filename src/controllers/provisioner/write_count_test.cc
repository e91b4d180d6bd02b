// How many writes a volume costs the API, events included.
#include <algorithm>

#include "controllers/provisioner/provisioner_fixture.h"
#include "kube/event_recorder.h"

namespace berth::controllers::provisioner {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

// Events go to the API here, as they do in a cluster.
class WriteCountTest : public ProvisionerTest {
 protected:
  void BeginCounted(rpc::FakeCsiDriver::Options driver = NoTopology()) {
    recorder_ = std::make_unique<kube::EventRecorder>(cluster_.client, cluster_.clock,
                                                      "provisioner", "host");
    provisioner_ = std::make_unique<Provisioner>(
        Context{cluster_.client, cluster_.informers, *recorder_, cluster_.clock},
        cluster_.AddDriver(std::move(driver)), Fast());
    cluster_.Put(MakeClass("fast"));
    cluster_.Start();
    provisioner_->Start();
  }
  void AddReleased(const std::vector<std::string>& finalizers) {
    cluster_.AddVolume(
        "pv-1",
        {{"metadata",
          {{"annotations", {{std::string(kProvisionedBy), kDriver}}}, {"finalizers", finalizers}}},
         {"spec", {{"persistentVolumeReclaimPolicy", "Delete"}}},
         {"status", {{"phase", "Released"}}}});
  }
  // All writes, when the last event is written.
  std::vector<std::string> Writes() {
    End();
    return cluster_.client.ActionNames();
  }
  void End() {
    cluster_.Stop();
    provisioner_.reset();
    recorder_.reset();
  }
  void TearDown() override { End(); }

  std::unique_ptr<kube::EventRecorder> recorder_;
  std::unique_ptr<Provisioner> provisioner_;
};

TEST_F(WriteCountTest, AVolumeThatIsMadeAtOnceCostsThreeAndTheIntent) {
  BeginCounted();
  cluster_.Put(MakeClaim("data", Asked()));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  const std::vector<std::string> writes = Writes();
  EXPECT_THAT(writes, UnorderedElementsAre(
                          "create leases/storage/berth-provisioning-fake-csi-example-com",
                          StartsWith("create events/default/data."),
                          "create persistentvolumes/pvc-uid-data",
                          StartsWith("create events/default/data."),
                          "update leases/storage/berth-provisioning-fake-csi-example-com"));
  EXPECT_EQ(writes.front(), "create leases/storage/berth-provisioning-fake-csi-example-com");
}

TEST_F(WriteCountTest, VolumesThatAreMadeTogetherShareTheWritesOfIntents) {
  BeginCounted();
  constexpr int kClaims = 40;
  script().Hang("CreateVolume");
  for (int i = 0; i < kClaims; ++i) cluster_.Put(MakeClaim(fmt::format("data-{}", i), Asked()));
  ASSERT_TRUE(script().WaitFor("CreateVolume", Fast().workers));
  script().Release("CreateVolume");
  for (int i = 0; i < kClaims; ++i) ASSERT_TRUE(WaitVolume(fmt::format("pvc-uid-data-{}", i)));
  const std::vector<std::string> writes = Writes();
  const auto leases = std::count_if(writes.begin(), writes.end(), [](const std::string& write) {
    return write.find("leases/") != write.npos;
  });
  EXPECT_LE(leases, kClaims + 1) << "each claim alone would cost two";
}

TEST_F(WriteCountTest, ADeletionCostsTwo) {
  BeginCounted();
  AddReleased({std::string(kVolumeFinalizer)});
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pv-1"); }));
  EXPECT_THAT(Writes(),
              ElementsAre("patch persistentvolumes/pv-1", "delete persistentvolumes/pv-1"));
}

TEST_F(WriteCountTest, ADeletionOfAVolumeThatWasAttachedCostsTwo) {
  rpc::FakeCsiDriver::Options driver = NoTopology();
  driver.controller_capabilities.insert(DriverInfo::Rpc::PUBLISH_UNPUBLISH_VOLUME);
  BeginCounted(std::move(driver));
  AddReleased({std::string(kVolumeFinalizer), AttacherFinalizer(kDriver)});
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pv-1"); }));
  EXPECT_THAT(Writes(),
              ElementsAre("patch persistentvolumes/pv-1", "delete persistentvolumes/pv-1"));
}

// An earlier version of the driver attached, and no attacher may run for this one.
TEST_F(WriteCountTest, AFinalizerForAttachmentsGoesAlsoWhereTheDriverAttachesNoMore) {
  rpc::FakeCsiDriver::Options driver = NoTopology();
  driver.controller_capabilities.erase(DriverInfo::Rpc::PUBLISH_UNPUBLISH_VOLUME);
  BeginCounted(std::move(driver));
  AddReleased({std::string(kVolumeFinalizer), AttacherFinalizer(kDriver)});
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pv-1"); }));
}

TEST_F(WriteCountTest, ForbiddenEventsKeepNoVolumeBack) {
  BeginCounted();
  for (int i = 0; i < 8; ++i) {
    cluster_.client.FailNext("create", "events",
                             base::Error(StatusCode::kPermissionDenied, "forbidden"));
  }
  script().Fail("CreateVolume", base::Error(StatusCode::kInternal, "no"));
  cluster_.Put(MakeClaim("data", Asked()));
  EXPECT_TRUE(WaitVolume("pvc-uid-data"));
}

}  // namespace
}  // namespace berth::controllers::provisioner
