// What the provisioner does with the intents that an earlier process left.
#include "controllers/provisioner/intents/intent.h"
#include "controllers/provisioner/provisioner_fixture.h"

namespace berth::controllers::provisioner {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class AdoptionTest : public ProvisionerTest {
 protected:
  // An earlier process was killed during its CreateVolume for the claim "data". If `made`, the
  // driver has made the volume.
  void BeKilled(bool made = true, const std::string& lineage = "first") {
    connection_ = &cluster_.AddDriver(NoTopology());
    Plan plan;
    plan.volume_name = "pvc-uid-data";
    plan.request.set_name(plan.volume_name);
    plan.request.mutable_capacity_range()->set_required_bytes(int64_t{1} << 30);
    plan.request.add_volume_capabilities()->mutable_mount()->set_fs_type("ext4");
    (*plan.request.mutable_parameters())["as"] = "it was";
    if (made) {
      csi::v1::CreateVolumeResponse response;
      ASSERT_TRUE(cluster_.driver->state().Handle(plan.request, response).ok());
    }
    Json claim = MakeClaim("data", Asked());
    claim["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z";
    const Intent intent{.claim = std::make_shared<const Claim>(claim),
                        .storage_class = std::make_shared<const api::StorageClass>(
                            MakeClass("fast", {{"mountOptions", {"noatime"}}})),
                        .plan = std::make_shared<const Plan>(plan),
                        .inherited = false,
                        .given_up = nullptr,
                        .since = cluster_.clock.Now()};
    IntentRecord record(cluster_.client, {.ns = "storage", .lineage = lineage});
    ASSERT_TRUE(record.Load(api::ProvisioningIntentsLease(kDriver, api::NodeName())).ok());
    ASSERT_TRUE(record.HoldIntent("uid-data", intent).ok());
    cluster_.client.TakeActions();
  }
  void Restart() {
    cluster_.Add<Provisioner>(*connection_, Fast());
    cluster_.Put(MakeClass("fast"));
    cluster_.Start();
  }
  void PutEvent(const std::string& reason) {
    cluster_.Put({{"apiVersion", "v1"},
                  {"kind", "Event"},
                  {"metadata", {{"name", "data.1"}, {"namespace", "default"}}},
                  {"involvedObject",
                   {{"kind", "PersistentVolumeClaim"},
                    {"namespace", "default"},
                    {"name", "data"},
                    {"uid", "uid-data"}}},
                  {"reason", reason}});
  }

  DriverConnection* connection_ = nullptr;
};

TEST_F(AdoptionTest, TheSameRequestIsMadeAgain) {
  BeKilled();
  cluster_.Put(MakeClaim("data", Asked()));
  Restart();
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_EQ(CreateRequests()[0].parameters().at("as"), "it was");
  EXPECT_THAT(GetVolume("pvc-uid-data").mount_options(), ::testing::ElementsAre("noatime"))
      << "the class is as it was";
  EXPECT_TRUE(WaitNoIntent("uid-data"));
}

TEST_F(AdoptionTest, TheVolumeOfAClaimThatIsGoneGetsAnObjectAlsoWithoutItsClass) {
  BeKilled();
  cluster_.Add<Provisioner>(*connection_, Fast());
  cluster_.Start();
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_EQ(GetVolume("pvc-uid-data").claim_uid(), "uid-data");
  EXPECT_EQ(GetVolume("pvc-uid-data").reclaim_policy(), "Delete");
  EXPECT_THAT(cluster_.driver->state().VolumeIds(), SizeIs(1));
  EXPECT_TRUE(WaitNoIntent("uid-data"));
}

TEST_F(AdoptionTest, AnotherClaimOfTheNameGetsItsOwnVolume) {
  BeKilled();
  cluster_.Put(MakeClaim("data", Asked({{"metadata", {{"uid", "uid-second"}}}})));
  Restart();
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  ASSERT_TRUE(WaitVolume("pvc-uid-second"));
  EXPECT_EQ(GetVolume("pvc-uid-data").claim_uid(), "uid-data");
}

TEST_F(AdoptionTest, AVolumeWithItsObjectIsLeftAlone) {
  BeKilled();
  Json volume = MakeVolume("pvc-uid-data", BoundVolume("data"));
  cluster_.Put(volume);
  Restart();
  EXPECT_TRUE(WaitNoIntent("uid-data"));
  EXPECT_EQ(script().Count("CreateVolume"), 0);
}

TEST_F(AdoptionTest, NothingIsAskedForBeforeTheRecordWasRead) {
  BeKilled();
  cluster_.client.FailNext("get", "leases", base::Error(StatusCode::kUnavailable, "away"));
  cluster_.Put(MakeClaim("data", Asked()));
  Restart();
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_EQ(CreateRequests()[0].parameters().at("as"), "it was");
}

// Another program has led since, and could have made and kept the volume.
class DisputedTest : public AdoptionTest {};

TEST_F(DisputedTest, AClaimThatWaitsIsServedBySameRequest) {
  BeKilled(/*made=*/true, "earlier");
  cluster_.Put(MakeClaim("data", Asked()));
  Restart();
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_EQ(CreateRequests()[0].parameters().at("as"), "it was");
}

TEST_F(DisputedTest, AVolumeThatTheOtherProgramProvisionedIsLeftAlone) {
  BeKilled(/*made=*/true, "earlier");
  PutEvent("ProvisioningSucceeded");
  Restart();
  EXPECT_TRUE(WaitNoIntent("uid-data"));
  EXPECT_EQ(script().Count("CreateVolume"), 0);
  EXPECT_THAT(cluster_.driver->state().VolumeIds(), SizeIs(1)) << "somebody kept it";
}

TEST_F(DisputedTest, AVolumeThatNobodyElseProvisionedIsFound) {
  BeKilled(/*made=*/true, "earlier");
  PutEvent("Provisioning");
  Restart();
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
}

TEST_F(DisputedTest, WhatIsOlderThanTheEventsIsLeftAlone) {
  BeKilled(/*made=*/true, "earlier");
  cluster_.clock.Advance(std::chrono::hours(1));
  Restart();
  EXPECT_TRUE(WaitNoIntent("uid-data"));
  EXPECT_EQ(script().Count("CreateVolume"), 0);
}

TEST_F(DisputedTest, WithoutTheRightToReadEventsItIsLeftAlone) {
  BeKilled(/*made=*/true, "earlier");
  cluster_.client.FailNext("list", "events",
                           base::Error(StatusCode::kPermissionDenied, "forbidden"));
  Restart();
  EXPECT_TRUE(WaitNoIntent("uid-data"));
  EXPECT_EQ(script().Count("CreateVolume"), 0);
}

TEST_F(DisputedTest, AnApiThatIsAwayIsAskedAgain) {
  BeKilled(/*made=*/true, "earlier");
  cluster_.client.FailNext("list", "events", base::Error(StatusCode::kUnavailable, "away"));
  Restart();
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
}

}  // namespace
}  // namespace berth::controllers::provisioner
