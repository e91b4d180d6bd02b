// Tests the rules for the way from a claim to a bound volume.
#include "cli/explain/rules_fixture.h"

namespace berth::cli::explain {
namespace {

using base::Json;
using base::StatusCode;

TEST_F(RulesTest, AClaimThatDoesNotExist) {
  state_.claim.reset();
  EXPECT_EQ(First().id, "claim-missing");
  EXPECT_EQ(First().link, Link::kClaim);
}

TEST_F(RulesTest, AClassThatDoesNotExistIsNamedWithThoseThatDo) {
  Unbind();
  state_.class_name = "gone";
  state_.storage_class.reset();
  const Cause cause = First();
  EXPECT_EQ(cause.id, "no-class");
  EXPECT_EQ(cause.summary, "storage class 'gone' does not exist");
  EXPECT_EQ(cause.owner, Owner::kPerson);
  EXPECT_TRUE(Proves(cause, "classes that exist: fast"));
  EXPECT_FALSE(cause.command.empty());
}

TEST_F(RulesTest, NoClassAndNoDefaultOne) {
  Unbind();
  state_.class_name.clear();
  state_.storage_class.reset();
  EXPECT_EQ(First().id, "no-class");
  EXPECT_NE(First().command.find("annotate storageclass fast"), std::string::npos);
}

TEST_F(RulesTest, AStorageClustersImageCannotBeMade) {
  Unbind();
  state_.storage_class->Set({"provisioner"}, "block.berth.dev");
  state_.events = {api::Event({{"reason", "ProvisioningFailed"},
                               {"message", "look at the folder of images: no such folder"},
                               {"involvedObject", {{"kind", "PersistentVolumeClaim"}}}})};
  const Cause cause = First();
  EXPECT_EQ(cause.id, "storage-cluster-error");  // and no CSI driver is missed
  EXPECT_EQ(cause.summary, "look at the folder of images: no such folder");
  EXPECT_EQ(cause.owner, Owner::kPerson);
  EXPECT_EQ(cause.command, "berth get storageclusters");
}

TEST_F(RulesTest, EveryNodeIsFull) {
  Unbind();
  Unschedule("0/2 nodes are available: 2 node(s) did not have enough free storage.");
  Call("provision default/data", "CreateVolume", StatusCode::kResourceExhausted, "pool is full");
  const Cause cause = First();
  EXPECT_EQ(cause.id, "no-capacity");
  EXPECT_EQ(cause.summary, "no node has 1Gi free for claim 'default/data'");
}

TEST_F(RulesTest, NoCapacityByTheDriverAndByTheScheduler) {
  Unbind();
  Call("provision default/data", "CreateVolume", StatusCode::kResourceExhausted, "pool is full")
      .count = 4;
  Cause cause = First();
  EXPECT_EQ(cause.id, "no-capacity");
  EXPECT_EQ(cause.owner, Owner::kPerson);
  EXPECT_TRUE(
      Proves(cause, "failed 4 times in 60s, last 30s ago: RESOURCE_EXHAUSTED: pool is full"))
      << fmt::format("{}", fmt::join(cause.proof, "\n"));
  EXPECT_TRUE(Proves(cause, "asks for 1Gi"));

  state_.logs.clear();
  Unschedule("0/2 nodes are available: 2 node(s) did not have enough free storage.");
  cause = First();
  EXPECT_EQ(cause.id, "no-capacity");
  EXPECT_TRUE(Proves(cause, "scheduler: 0/2"));
}

TEST_F(RulesTest, AClaimThatCannotGrowIsExplainedForItsPodToo) {
  Call("resize default/data", "ControllerExpandVolume", StatusCode::kOutOfRange, "pool is full");
  EXPECT_EQ(First().id, "no-capacity");
  state_.pod.reset();
  state_.object = *state_.claim;
  state_.object.Set({"kind"}, "PersistentVolumeClaim");
  EXPECT_EQ(First().id, "no-capacity");
  EXPECT_TRUE(Proves(First(), "ControllerExpandVolume"));
}

TEST_F(RulesTest, ADriverThatIsNowhere) {
  Unbind();
  state_.csi_nodes[0].Set({"spec", "drivers"}, Json::array());
  EXPECT_EQ(First().id, "driver-absent");
  EXPECT_EQ(First().link, Link::kVolume);
  EXPECT_TRUE(Proves(First(), "no node's CSINode lists the driver"));
}

TEST_F(RulesTest, AVolumeThatAPendingClaimNamesAndThatNeverWas) {
  Unbind();
  state_.claim->Set({"spec", "volumeName"}, "none");
  EXPECT_EQ(First().id, "volume-missing");
  state_.claim->Set({"status", "phase"}, "Lost");
  EXPECT_EQ(First().id, "volume-lost");
}

TEST_F(RulesTest, AVolumeOfAnotherClaimIsTaken) {
  state_.claim->Set({"status", "phase"}, "Pending");
  state_.volume->Set({"spec", "claimRef"},
                     {{"namespace", "default"}, {"name", "other"}, {"uid", "other-uid"}});
  EXPECT_EQ(First().id, "volume-taken");
  EXPECT_NE(First().summary.find("belongs to claim 'default/other'"), std::string::npos);
  // It is about to be bound to this claim.
  state_.volume->Set({"spec", "claimRef"}, {{"namespace", "default"}, {"name", "data"}});
  EXPECT_NE(First().id, "volume-taken");
}

TEST_F(RulesTest, AClaimThatOnlyAPersonsVolumeCanServe) {
  Unbind();
  state_.storage_class->Set({"provisioner"}, "kubernetes.io/no-provisioner");
  EXPECT_EQ(First().id, "no-volume-fits");
  EXPECT_TRUE(Proves(First(), "there is no PersistentVolume of class 'fast'"));
  state_.volumes = {api::PersistentVolume({{"metadata", {{"name", "small"}}},
                                           {"spec",
                                            {{"storageClassName", "fast"},
                                             {"capacity", {{"storage", "1Mi"}}},
                                             {"accessModes", {"ReadWriteOnce"}}}},
                                           {"status", {{"phase", "Available"}}}})};
  EXPECT_TRUE(Proves(First(), "volume 'small': Available, 1Mi, access modes ReadWriteOnce"));
  EXPECT_NE(First().summary.find("asks for 1Gi with ReadWriteOnce"), std::string::npos);
  // The claim waits for something else if a volume fits.
  state_.volumes[0].Set({"spec", "capacity", "storage"}, "2Gi");
  EXPECT_NE(First().id, "no-volume-fits");
  state_.volumes[0].Set({"spec", "claimRef"}, {{"namespace", "default"}, {"name", "other"}});
  EXPECT_EQ(First().id, "no-volume-fits");
  // A claim of class "" never gets the default class.
  state_.claim->Set({"spec", "storageClassName"}, "");
  state_.class_name.clear();
  state_.storage_class.reset();
  EXPECT_EQ(First().id, "no-volume-fits");
}

}  // namespace
}  // namespace berth::cli::explain
