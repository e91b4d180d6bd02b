#include "controllers/binder/binder.h"

#include <gmock/gmock.h>

#include "controllers/fake_cluster.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::binder {
namespace {

using base::Json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Claim = api::PersistentVolumeClaim;
using Volume = api::PersistentVolume;

class BinderTest : public ::testing::Test {
 protected:
  BinderTest() { cluster_.Add<Binder>(); }

  Claim GetClaim(const std::string& name) { return cluster_.Get<Claim>("default", name); }
  Volume GetVolume(const std::string& name) { return cluster_.Get<Volume>("", name); }
  bool WaitBound(const std::string& claim, const std::string& volume) {
    return cluster_.WaitUntil(
        [&] { return GetClaim(claim).phase() == "Bound" && GetVolume(volume).phase() == "Bound"; });
  }

  FakeCluster cluster_;
};

TEST_F(BinderTest, BindsAClaimToAFreeVolumeReservingTheVolumeFirst) {
  cluster_.Put(MakeClass("fast", {{"provisioner", "kubernetes.io/no-provisioner"}}));
  cluster_.Put(MakeVolume("pv-1", {{"spec", {{"capacity", {{"storage", "2Gi"}}}}}}));
  cluster_.Put(MakeClaim("data"));
  cluster_.Start();
  ASSERT_TRUE(WaitBound("data", "pv-1"));

  const Volume volume = GetVolume("pv-1");
  EXPECT_EQ(volume.claim_uid(), "uid-data");
  EXPECT_EQ(volume.annotation(kBoundByController), "yes");
  const Claim claim = GetClaim("data");
  EXPECT_EQ(claim.volume_name(), "pv-1");
  EXPECT_EQ(claim.annotation(kBindCompleted), "yes");
  EXPECT_EQ(claim.annotation(kBoundByController), "yes");
  EXPECT_EQ(claim.capacity(), "2Gi");
  const std::vector<std::string> names = cluster_.client.ActionNames();
  ASSERT_EQ(names.size(), 4u);
  EXPECT_EQ(names[0], "patch persistentvolumes/pv-1");
  EXPECT_EQ(names[1], "patch persistentvolumeclaims/default/data");
  EXPECT_THAT(std::vector<std::string>(names.begin() + 2, names.end()),
              UnorderedElementsAre("patch persistentvolumeclaims/default/data/status",
                                   "patch persistentvolumes/pv-1/status"));
}

TEST_F(BinderTest, ANewVolumeBecomesAvailableAndIsTakenByAWaitingClaim) {
  cluster_.Put(MakeClass("fast", {{"provisioner", "kubernetes.io/no-provisioner"}}));
  cluster_.Put(MakeClaim("data"));
  cluster_.Start();
  ASSERT_TRUE(cluster_.events.WaitFor("Warning FailedBinding default/data"));
  cluster_.Put(MakeVolume("pv-1", {{"status", {{"phase", "Pending"}}}}));
  EXPECT_TRUE(WaitBound("data", "pv-1"));
}

TEST_F(BinderTest, AProvisionedVolumeIsBoundWithThreeWritesAndTheProvisioningHoldEnds) {
  cluster_.Put(MakeClass("fast"));
  Claim held(MakeClaim("data"));
  held.add_finalizer(kProvisioningFinalizer);
  cluster_.Put(held);
  cluster_.Start();
  ASSERT_TRUE(
      cluster_.events.WaitFor("Normal ExternalProvisioning default/data: Waiting for a volume"));
  EXPECT_EQ(GetClaim("data").annotation(kStorageProvisioner), "fake.csi.example.com");
  EXPECT_EQ(GetClaim("data").annotation(kBetaStorageProvisioner), "fake.csi.example.com");

  cluster_.client.TakeActions();
  Json volume = MakeVolume("pvc-uid-data", BoundVolume("data"));
  volume["status"]["phase"] = "Pending";
  volume["metadata"]["annotations"][std::string(kProvisionedBy)] = "fake.csi.example.com";
  cluster_.Put(volume);
  ASSERT_TRUE(WaitBound("data", "pvc-uid-data"));
  EXPECT_THAT(GetClaim("data").finalizers(), ElementsAre("kubernetes.io/pvc-protection"));
  std::vector<std::string> names;
  for (const std::string& action : cluster_.client.TakeActions()) {
    names.push_back(action.substr(0, action.find(" {")));
  }
  EXPECT_THAT(names, UnorderedElementsAre("patch persistentvolumeclaims/default/data",
                                          "patch persistentvolumeclaims/default/data/status",
                                          "patch persistentvolumes/pvc-uid-data/status"));
}

TEST_F(BinderTest, AClaimThatTookAnotherVolumeIsHeldForTheOneInTheMaking) {
  cluster_.Put(MakeClass("fast"));
  Claim held(MakeClaim("data"));
  held.add_finalizer(kProvisioningFinalizer);
  cluster_.Put(held);
  cluster_.Put(MakeVolume("pv-by-hand"));
  cluster_.Start();
  ASSERT_TRUE(WaitBound("data", "pv-by-hand"));
  EXPECT_TRUE(GetClaim("data").has_finalizer(kProvisioningFinalizer));
}

TEST_F(BinderTest, AClaimThatWaitsForAConsumerIsLeftAloneUntilANodeIsSelected) {
  cluster_.Put(MakeClass("fast", {{"volumeBindingMode", "WaitForFirstConsumer"}}));
  cluster_.Put(MakeVolume("pv-free"));
  cluster_.Put(MakeClaim("data"));
  cluster_.Start();
  ASSERT_TRUE(cluster_.events.WaitFor("WaitForFirstConsumer default/data"));
  EXPECT_THAT(cluster_.client.ActionNames(), IsEmpty());

  Claim selected = GetClaim("data");
  selected.set_annotation(kSelectedNode, "node-a");
  cluster_.Put(selected);
  EXPECT_TRUE(cluster_.WaitUntil(
      [&] { return GetClaim("data").annotation(kStorageProvisioner) == "fake.csi.example.com"; }));
  EXPECT_FALSE(GetVolume("pv-free").has_claim_ref());
}

TEST_F(BinderTest, TellsWhichPodAClaimWaitsFor) {
  cluster_.Put(MakeClass("fast", {{"volumeBindingMode", "WaitForFirstConsumer"}}));
  cluster_.Put(MakePod("web", "data"));
  cluster_.Put(MakeClaim("data"));
  cluster_.Start();
  EXPECT_TRUE(cluster_.events.WaitFor(
      "WaitForPodScheduled default/data: waiting for pod web to be scheduled"));
}

TEST_F(BinderTest, AClaimWithoutClassTakesTheDefaultOneAlsoWhenItComesLater) {
  cluster_.Put(MakeClaim("data", {{"spec", {{"storageClassName", nullptr}}}}));
  cluster_.Start();
  ASSERT_TRUE(cluster_.events.WaitFor("no storage class is set"));
  cluster_.Put(
      MakeClass("standard",
                {{"metadata",
                  {{"annotations", {{"storageclass.kubernetes.io/is-default-class", "true"}}}}}}));
  ASSERT_TRUE(
      cluster_.WaitUntil([&] { return GetClaim("data").has_annotation(kStorageProvisioner); }));
  EXPECT_EQ(GetClaim("data").storage_class_name(), "standard");
}

TEST_F(BinderTest, AMissingClassIsSaidAndItsAppearanceHelps) {
  cluster_.Put(MakeClaim("data"));
  cluster_.Start();
  ASSERT_TRUE(cluster_.events.WaitFor(
      "Warning ProvisioningFailed default/data: storageclass.storage.k8s.io \"fast\" not found"));
  cluster_.Put(MakeClass("fast"));
  EXPECT_TRUE(
      cluster_.WaitUntil([&] { return GetClaim("data").has_annotation(kStorageProvisioner); }));
}

TEST_F(BinderTest, AVolumeThatAPersonKeptForAClaimGetsItsUidAndNoAnnotation) {
  cluster_.Put(MakeClass("fast"));
  cluster_.Put(MakeVolume(
      "pv-kept", {{"spec", {{"claimRef", {{"namespace", "default"}, {"name", "data"}}}}}}));
  cluster_.Put(MakeVolume("pv-smaller"));
  cluster_.Put(MakeClaim("data"));
  cluster_.Start();
  ASSERT_TRUE(WaitBound("data", "pv-kept"));
  EXPECT_EQ(GetVolume("pv-kept").claim_uid(), "uid-data");
  EXPECT_FALSE(GetVolume("pv-kept").has_annotation(kBoundByController));
  EXPECT_FALSE(GetVolume("pv-smaller").has_claim_ref());
}

TEST_F(BinderTest, AVolumeThatAPersonNamedInTheClaimMustFit) {
  cluster_.Put(MakeVolume("pv-block", {{"spec", {{"volumeMode", "Block"}}}}));
  cluster_.Put(MakeClaim("data", {{"spec", {{"volumeName", "pv-block"}}}}));
  cluster_.Start();
  EXPECT_TRUE(cluster_.events.WaitFor(
      "Warning VolumeMismatch default/data: Cannot bind to requested volume \"pv-block\": "
      "incompatible volumeMode"));
  EXPECT_FALSE(GetVolume("pv-block").has_claim_ref());
}

TEST_F(BinderTest, AVolumeOfAnotherClaimIsNotTaken) {
  cluster_.Put(MakeClaim("other", BoundClaim("pv-1")));
  cluster_.Put(MakeVolume("pv-1", BoundVolume("other")));
  cluster_.Put(MakeClaim("data", {{"spec", {{"volumeName", "pv-1"}}}}));
  cluster_.Start();
  EXPECT_TRUE(cluster_.events.WaitFor("already bound to a different claim"));
  EXPECT_EQ(GetVolume("pv-1").claim_uid(), "uid-other");
}

TEST_F(BinderTest, OfTwoClaimsThatWantAVolumeOneGetsIt) {
  cluster_.Put(MakeClass("fast", {{"provisioner", "kubernetes.io/no-provisioner"}}));
  cluster_.Put(MakeClaim("a"));
  cluster_.Put(MakeClaim("b"));
  cluster_.Put(MakeVolume("pv-1"));
  cluster_.Start();
  ASSERT_TRUE(cluster_.events.WaitFor("Warning FailedBinding default/"));
  ASSERT_TRUE(cluster_.WaitUntil(
      [&] { return (GetClaim("a").phase() == "Bound") != (GetClaim("b").phase() == "Bound"); }));
  const std::string winner = GetClaim("a").phase() == "Bound" ? "uid-a" : "uid-b";
  EXPECT_EQ(GetVolume("pv-1").claim_uid(), winner);
}

TEST_F(BinderTest, AConflictIsComputedAnewAtOnce) {
  cluster_.Put(MakeClass("fast", {{"provisioner", "kubernetes.io/no-provisioner"}}));
  cluster_.Put(MakeVolume("pv-1"));
  cluster_.Put(MakeClaim("data"));
  cluster_.client.FailNext("patch", "persistentvolumes",
                           base::Error(base::StatusCode::kAborted, "changed"));
  cluster_.client.FailNext("patch", "persistentvolumeclaims",
                           base::Error(base::StatusCode::kAborted, "changed"));
  cluster_.Start();
  EXPECT_TRUE(WaitBound("data", "pv-1"));
}

TEST_F(BinderTest, ALostAnswerEndsInTheSameBinding) {
  cluster_.Put(MakeClass("fast", {{"provisioner", "kubernetes.io/no-provisioner"}}));
  cluster_.Put(MakeVolume("pv-1"));
  cluster_.Put(MakeVolume("pv-2"));
  cluster_.Put(MakeClaim("data"));
  cluster_.client.LoseNextAnswer("patch", "persistentvolumes",
                                 base::Error(base::StatusCode::kUnavailable, "lost"));
  cluster_.Start();
  ASSERT_TRUE(WaitBound("data", "pv-1"));
  EXPECT_FALSE(GetVolume("pv-2").has_claim_ref());
}

TEST_F(BinderTest, AClaimWhoseVolumeVanishedIsLost) {
  cluster_.Put(MakeVolume("pv-1", BoundVolume("data")));
  cluster_.Put(MakeClaim("data", BoundClaim("pv-1")));
  cluster_.Start();
  cluster_.client.Remove(Volume::kInfo, "", "pv-1");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetClaim("data").phase() == "Lost"; }));
  EXPECT_TRUE(cluster_.events.WaitFor("Warning ClaimLost default/data"));
  EXPECT_EQ(GetClaim("data").capacity(), "");
}

TEST_F(BinderTest, AClaimWhoseVolumeIsAnothersIsLost) {
  cluster_.Put(MakeClaim("owner", BoundClaim("pv-1")));
  cluster_.Put(MakeVolume("pv-1", BoundVolume("owner")));
  cluster_.Put(MakeClaim("data", BoundClaim("pv-1")));
  cluster_.Start();
  EXPECT_TRUE(cluster_.events.WaitFor("Warning ClaimMisbound default/data"));
  EXPECT_TRUE(cluster_.WaitUntil([&] { return GetClaim("data").phase() == "Lost"; }));
  EXPECT_EQ(GetClaim("owner").phase(), "Bound");
}

TEST_F(BinderTest, AVolumeIsReleasedWhenTheApiItselfSaysThatItsClaimIsGone) {
  cluster_.Put(MakeVolume("pv-1", BoundVolume("data")));
  cluster_.Put(MakeClaim("data", BoundClaim("pv-1")));
  cluster_.Start();
  // The volume is released only after the API has answered that the claim is gone.
  cluster_.client.FailNext("get", "persistentvolumeclaims",
                           base::Error(base::StatusCode::kUnavailable, "down"));
  cluster_.client.Remove(Claim::kInfo, "default", "data");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetVolume("pv-1").phase() == "Released"; }));
  EXPECT_EQ(GetVolume("pv-1").claim_uid(), "uid-data");
  EXPECT_THAT(cluster_.client.ActionNames(), ElementsAre("patch persistentvolumes/pv-1/status"));
}

TEST_F(BinderTest, AClaimOfTheSameNameIsAnotherClaim) {
  cluster_.Put(MakeVolume("pv-1", BoundVolume("data")));
  cluster_.Put(MakeClaim("data", {{"metadata", {{"uid", "uid-second"}}}}));
  cluster_.Start();
  EXPECT_TRUE(cluster_.WaitUntil([&] { return GetVolume("pv-1").phase() == "Released"; }));
  EXPECT_EQ(GetClaim("data").phase(), "Pending");
}

TEST_F(BinderTest, AReleasedVolumeThatNobodyCanDeleteHasFailed) {
  Json volume = MakeVolume("pv-1", BoundVolume("data"));
  volume["spec"]["persistentVolumeReclaimPolicy"] = "Delete";
  volume["spec"].erase("csi");
  volume["spec"]["nfs"] = {{"server", "server"}, {"path", "/data"}};
  cluster_.Put(volume);
  cluster_.Start();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetVolume("pv-1").phase() == "Failed"; }));
  EXPECT_TRUE(cluster_.events.WaitFor("Warning VolumeFailedDelete pv-1: no provisioner made"));
}

// The driver's provisioner deletes it, as the controller manager of Kubernetes expects, too.
TEST_F(BinderTest, AReleasedVolumeOfACsiDriverIsLeftToItsProvisioner) {
  Json volume = MakeVolume("pv-1", BoundVolume("data"));
  volume["spec"]["persistentVolumeReclaimPolicy"] = "Delete";
  volume["spec"]["csi"] = {{"driver", "driver"}, {"volumeHandle", "by-hand"}};
  cluster_.Put(volume);
  cluster_.Start();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetVolume("pv-1").phase() == "Released"; }));
  // The binder looks at the volume once more before it looks at the next one.
  cluster_.Put(MakeVolume("pv-2", BoundVolume("other")));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetVolume("pv-2").phase() == "Released"; }));
  EXPECT_EQ(GetVolume("pv-1").phase(), "Released");
  EXPECT_EQ(cluster_.events.Count("VolumeFailedDelete"), 0);
}

TEST_F(BinderTest, AProvisionedVolumeWhoseClaimTookAnotherIsReleased) {
  Json volume = MakeVolume("pvc-uid-data", BoundVolume("data"));
  volume["spec"]["persistentVolumeReclaimPolicy"] = "Delete";
  volume["metadata"]["annotations"][std::string(kProvisionedBy)] = "fake.csi.example.com";
  volume["status"]["phase"] = "Available";
  cluster_.Put(volume);
  cluster_.Put(MakeVolume("pv-1", BoundVolume("data")));
  cluster_.Put(MakeClaim("data", BoundClaim("pv-1")));
  cluster_.Start();
  EXPECT_TRUE(cluster_.WaitUntil([&] { return GetVolume("pvc-uid-data").phase() == "Released"; }));
  EXPECT_EQ(GetClaim("data").volume_name(), "pv-1");
}

TEST_F(BinderTest, AVolumeReservedForAClaimThatTookAnotherIsFreeAgain) {
  Json volume = MakeVolume("pv-2", BoundVolume("data"));
  volume["metadata"]["annotations"][std::string(kBoundByController)] = "yes";
  volume["status"]["phase"] = "Available";
  cluster_.Put(volume);
  cluster_.Put(MakeVolume("pv-1", BoundVolume("data")));
  cluster_.Put(MakeClaim("data", BoundClaim("pv-1")));
  cluster_.Start();
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !GetVolume("pv-2").has_claim_ref(); }));
  EXPECT_FALSE(GetVolume("pv-2").has_annotation(kBoundByController));
}

// Its data may be a person's who removed the claimRef to hand it on.
TEST_F(BinderTest, AProvisionedVolumeThatWasOnlyReservedForAClaimThatTookAnotherIsFreeAgain) {
  Json volume = MakeVolume("pv-2", BoundVolume("data"));
  volume["spec"]["persistentVolumeReclaimPolicy"] = "Delete";
  volume["metadata"]["annotations"][std::string(kProvisionedBy)] = "fake.csi.example.com";
  volume["metadata"]["annotations"][std::string(kBoundByController)] = "yes";
  volume["status"]["phase"] = "Available";
  cluster_.Put(volume);
  cluster_.Put(MakeVolume("pv-1", BoundVolume("data")));
  cluster_.Put(MakeClaim("data", BoundClaim("pv-1")));
  cluster_.Start();
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !GetVolume("pv-2").has_claim_ref(); }));
  EXPECT_EQ(GetVolume("pv-2").phase(), "Available");
}

TEST_F(BinderTest, AnAbsentApiPausesTheWorkAndItGoesOn) {
  cluster_.Put(MakeClass("fast", {{"provisioner", "kubernetes.io/no-provisioner"}}));
  cluster_.Put(MakeVolume("pv-1"));
  cluster_.Start();
  cluster_.client.SetOutage(base::Error(base::StatusCode::kUnavailable, "down"));
  cluster_.client.Add(MakeClaim("data"));
  cluster_.client.SetOutage(base::OkStatus());
  EXPECT_TRUE(WaitBound("data", "pv-1"));
}

}  // namespace
}  // namespace berth::controllers::binder
