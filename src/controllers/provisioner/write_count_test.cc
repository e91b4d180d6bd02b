// How many writes a volume costs the API, events included.
#include "controllers/provisioner/provisioner_fixture.h"
#include "kube/event_recorder.h"

namespace berth::controllers::provisioner {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

// Events go to the API here, as they do in a cluster.
class WriteCountTest : public ProvisionerTest {
 protected:
  void BeginCounted() {
    recorder_ = std::make_unique<kube::EventRecorder>(cluster_.client, cluster_.clock,
                                                      "provisioner", "host");
    provisioner_ = std::make_unique<Provisioner>(
        Context{cluster_.client, cluster_.informers, *recorder_, cluster_.clock},
        cluster_.AddDriver(NoTopology()), Fast());
    cluster_.Put(MakeClass("fast"));
    cluster_.Start();
    provisioner_->Start();
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

TEST_F(WriteCountTest, AVolumeThatIsMadeAtOnceCostsThree) {
  BeginCounted();
  cluster_.Put(MakeClaim("data", Asked()));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_THAT(Writes(), ElementsAre("update persistentvolumeclaims/default/data",
                                    "create persistentvolumes/pvc-uid-data",
                                    StartsWith("create events/default/data.")));
}

TEST_F(WriteCountTest, AClaimThatIsHeldAlreadyCostsTwo) {
  BeginCounted();
  Json claim = MakeClaim("data", Asked());
  claim["metadata"]["finalizers"] = {std::string(kProvisioningFinalizer)};
  cluster_.Put(claim);
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_THAT(Writes(), ElementsAre("create persistentvolumes/pvc-uid-data",
                                    StartsWith("create events/default/data.")));
}

TEST_F(WriteCountTest, ADeletionCostsTwo) {
  BeginCounted();
  csi::v1::CreateVolumeRequest request;
  cluster_.AddVolume("pv-1", {{"metadata",
                               {{"annotations", {{std::string(kProvisionedBy), kDriver}}},
                                {"finalizers", {std::string(kVolumeFinalizer)}}}},
                              {"spec", {{"persistentVolumeReclaimPolicy", "Delete"}}},
                              {"status", {{"phase", "Released"}}}});
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pv-1"); }));
  EXPECT_THAT(Writes(),
              ElementsAre("patch persistentvolumes/pv-1", "delete persistentvolumes/pv-1"));
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
