// Tests how the provisioner deletes a released PersistentVolume.
#include "controllers/provisioner/provisioner_fixture.h"

namespace berth::controllers::provisioner {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class DeleteTest : public ProvisionerTest {
 protected:
  // Adds a PersistentVolume whose claim is gone.
  std::string Release(const Json& more = nullptr) {
    cluster_.Put(Unprotected("data"));
    EXPECT_TRUE(WaitVolume("pvc-uid-data"));
    cluster_.client.Remove(Claim::kInfo, "default", "data");
    Volume volume = GetVolume("pvc-uid-data");
    volume.Set({"status", "phase"}, "Released");
    if (!more.is_null()) volume.mutable_json().merge_patch(more);
    cluster_.Put(volume);
    return volume.csi().volume_handle();
  }

  // A PersistentVolume that a person made, without the annotations of a provisioner.
  static Json ReleasedByHand(const std::string& storage_class) {
    return MakeVolume("by-hand", {{"metadata", {{"finalizers", nullptr}}},
                                  {"spec",
                                   {{"persistentVolumeReclaimPolicy", "Delete"},
                                    {"storageClassName", storage_class},
                                    {"claimRef", {{"namespace", "default"}, {"name", "data"}}},
                                    {"csi", {{"driver", kDriver}, {"volumeHandle", "of-driver"}}}}},
                                  {"status", {{"phase", "Released"}}}});
  }

  // Puts a VolumeAttachment of the claim's volume.
  void Attach() {
    cluster_.Put({{"apiVersion", "storage.k8s.io/v1"},
                  {"kind", "VolumeAttachment"},
                  {"metadata", {{"name", "va"}}},
                  {"spec",
                   {{"attacher", kDriver},
                    {"nodeName", "node-a"},
                    {"source", {{"persistentVolumeName", "pvc-uid-data"}}}}}});
    ASSERT_TRUE(cluster_.client.WaitForWatches(api::VolumeAttachment::kInfo, 1));
  }

  // Waits until the queue came past what was added to it before.
  void PassQueue() {
    // The finalizer of a volume whose policy changed tells.
    cluster_.Put(MakeVolume(
        "barrier", {{"metadata", {{"annotations", {{std::string(kProvisionedBy), kDriver}}}}},
                    {"spec", {{"persistentVolumeReclaimPolicy", "Delete"}}},
                    {"status", {{"phase", "Bound"}}}}));
    ASSERT_TRUE(
        cluster_.WaitUntil([&] { return GetVolume("barrier").has_finalizer(kVolumeFinalizer); }));
  }
};

TEST_F(DeleteTest, AReleasedVolumeIsDeletedInTheDriverFirst) {
  Begin();
  const std::string handle = Release();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pvc-uid-data"); }));
  EXPECT_EQ(script().LastRequest<csi::v1::DeleteVolumeRequest>("DeleteVolume").volume_id(), handle);
  EXPECT_THAT(cluster_.driver->state().VolumeIds(), IsEmpty());
}

TEST_F(DeleteTest, TheDriverIsAskedOnceWhileOthersHoldTheObject) {
  Begin();
  Release({{"metadata", {{"finalizers", {"kubernetes.io/pv-protection"}}}}});
  const auto deleting = [&] { return GetVolume("pvc-uid-data").deleting(); };
  ASSERT_TRUE(cluster_.WaitUntil(deleting));
  Volume volume = GetVolume("pvc-uid-data");
  volume.Set({"metadata", "annotations", "touched"}, "yes");
  cluster_.Put(volume);
  PassQueue();
  EXPECT_EQ(script().Count("DeleteVolume"), 1);
  cluster_.client.Remove(Volume::kInfo, "", "pvc-uid-data");
}

TEST_F(DeleteTest, AFinalizerThatIsWrittenBackAfterTheDeletionIsRemovedAgain) {
  Begin();
  Release({{"metadata", {{"finalizers", {"kubernetes.io/pv-protection"}}}}});
  ASSERT_TRUE(cluster_.WaitUntil([&] { return GetVolume("pvc-uid-data").deleting(); }));
  PassQueue();
  Volume volume = GetVolume("pvc-uid-data");
  volume.add_finalizer(kVolumeFinalizer);
  cluster_.Put(volume);
  EXPECT_TRUE(cluster_.WaitUntil(
      [&] { return !GetVolume("pvc-uid-data").has_finalizer(kVolumeFinalizer); }));
  PassQueue();
  EXPECT_EQ(script().Count("DeleteVolume"), 1);
  EXPECT_THAT(cluster_.metrics.RenderText(),
              HasSubstr("controller_persistentvolume_delete_total{class=\"fast\"} 1\n"))
      << "it is one deletion";
  cluster_.client.Remove(Volume::kInfo, "", "pvc-uid-data");
}

TEST_F(DeleteTest, AfterARestartWhatWasDeletedIsNotDeletedAgain) {
  // The finalizer was removed with the volume. A finalizer of another program keeps the object.
  cluster_.Put(MakeVolume("old", {{"metadata",
                                   {{"annotations", {{std::string(kProvisionedBy), kDriver}}},
                                    {"deletionTimestamp", "2026-01-01T00:00:00Z"},
                                    {"finalizers", {"example.com/hold"}}}},
                                  {"spec", {{"persistentVolumeReclaimPolicy", "Delete"}}},
                                  {"status", {{"phase", "Released"}}}}));
  Begin();
  PassQueue();
  EXPECT_EQ(script().Count("DeleteVolume"), 0);
}

TEST_F(DeleteTest, AFailureOfTheApiIsNotToldAsTheDrivers) {
  Begin();
  cluster_.client.FailNext("delete", "persistentvolumes",
                           base::Error(StatusCode::kPermissionDenied, "forbidden"));
  Release();
  EXPECT_TRUE(cluster_.events.WaitFor(
      "Warning VolumeFailedDelete pvc-uid-data: the volume is deleted, its PersistentVolume is "
      "not: forbidden"));
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pvc-uid-data"); }));
}

TEST_F(DeleteTest, AFailedDeletionIsSaidAndTriedAgainAndTheObjectStays) {
  Begin();
  script().Fail("DeleteVolume", base::Error(StatusCode::kFailedPrecondition, "in use"));
  Release();
  EXPECT_TRUE(
      cluster_.events.WaitFor("Warning VolumeFailedDelete pvc-uid-data: rpc error: code = "
                              "FailedPrecondition desc = in use"));
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pvc-uid-data"); }));
}

TEST_F(DeleteTest, AnAttachedVolumeIsNotDeletedUntilItsAttachmentIsGone) {
  Begin();
  Attach();
  Release();
  EXPECT_TRUE(
      cluster_.events.WaitFor("Warning VolumeFailedDelete pvc-uid-data: persistentvolume "
                              "pvc-uid-data is still attached to node node-a"));
  EXPECT_EQ(script().Count("DeleteVolume"), 0);
  cluster_.client.Remove(api::VolumeAttachment::kInfo, "", "va");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pvc-uid-data"); }));
}

TEST_F(DeleteTest, TheVolumeOfADriverThatAttachesNothingIsDeletedWithItsAttachmentThere) {
  rpc::FakeCsiDriver::Options driver = NoTopology();
  driver.controller_capabilities.erase(DriverInfo::Rpc::PUBLISH_UNPUBLISH_VOLUME);
  Begin(driver);
  Attach();
  Release();
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pvc-uid-data"); }));
}

TEST_F(DeleteTest, AVolumeThatIsAnothersTooIsNotDeleted) {
  Begin();
  // The first volume of the driver is known as "vol-1".
  cluster_.Put(
      MakeVolume("twin", {{"spec", {{"csi", {{"driver", kDriver}, {"volumeHandle", "vol-1"}}}}}}));
  cluster_.Put(Unprotected("data"));
  EXPECT_TRUE(cluster_.events.WaitFor("which belongs to PersistentVolume 'twin'"));
  EXPECT_FALSE(cluster_.Has<Volume>("", "pvc-uid-data"));
  EXPECT_EQ(script().Count("DeleteVolume"), 0);
}

TEST_F(DeleteTest, AVolumeWithTwoObjectsOutlivesTheFirst) {
  Begin();
  cluster_.Put(Unprotected("data"));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  Volume volume = GetVolume("pvc-uid-data");
  cluster_.Put(MakeVolume(
      "twin",
      {{"spec",
        {{"csi", {{"driver", kDriver}, {"volumeHandle", volume.csi().volume_handle()}}}}}}));
  ASSERT_TRUE(cluster_.client.WaitForWatches(Volume::kInfo, 1));
  PassQueue();
  cluster_.client.Remove(Claim::kInfo, "default", "data");
  volume.Set({"status", "phase"}, "Released");
  cluster_.Put(volume);
  EXPECT_TRUE(cluster_.events.WaitFor("is PersistentVolume 'twin', too"));
  EXPECT_EQ(script().Count("DeleteVolume"), 0);
  cluster_.client.Remove(Volume::kInfo, "", "twin");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pvc-uid-data"); }));
}

TEST_F(DeleteTest, AVolumeThatIsRetainedLosesTheFinalizerAndStays) {
  Begin();
  Release({{"spec", {{"persistentVolumeReclaimPolicy", "Retain"}}}});
  ASSERT_TRUE(cluster_.WaitUntil(
      [&] { return !GetVolume("pvc-uid-data").has_finalizer(kVolumeFinalizer); }));
  EXPECT_EQ(script().Count("DeleteVolume"), 0);
}

TEST_F(DeleteTest, AVolumeThatAPersonMadeIsProtectedWhileBoundAndDeletedWhenReleased) {
  Begin();
  Volume volume(
      MakeVolume("static", {{"metadata", {{"finalizers", nullptr}}},
                            {"spec",
                             {{"persistentVolumeReclaimPolicy", "Delete"},
                              {"csi", {{"driver", kDriver}, {"volumeHandle", "by-hand"}}}}},
                            {"status", {{"phase", "Available"}}}}));
  cluster_.Put(volume);
  PassQueue();
  EXPECT_FALSE(GetVolume("static").has_finalizer(kVolumeFinalizer));
  volume.Set({"status", "phase"}, "Bound");
  cluster_.Put(volume);
  ASSERT_TRUE(
      cluster_.WaitUntil([&] { return GetVolume("static").has_finalizer(kVolumeFinalizer); }));
  volume = GetVolume("static");
  volume.Set({"status", "phase"}, "Released");
  cluster_.Put(volume);
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "static"); }));
  EXPECT_EQ(script().LastRequest<csi::v1::DeleteVolumeRequest>("DeleteVolume").volume_id(),
            "by-hand");
}

TEST_F(DeleteTest, AVolumeOfAnotherProvisionerIsLeftAlone) {
  Begin();
  cluster_.Put(MakeVolume(
      "foreign", {{"metadata", {{"annotations", {{std::string(kProvisionedBy), "other"}}}}},
                  {"spec",
                   {{"persistentVolumeReclaimPolicy", "Delete"},
                    {"csi", {{"driver", kDriver}, {"volumeHandle", "foreign"}}}}},
                  {"status", {{"phase", "Released"}}}}));
  PassQueue();
  EXPECT_TRUE(cluster_.Has<Volume>("", "foreign"));
  EXPECT_EQ(script().Count("DeleteVolume"), 0);
}

TEST_F(DeleteTest, AVolumeWhoseSecretIsGoneIsDeletedWithoutIt) {
  Begin();
  Release({{"metadata",
            {{"annotations",
              {{std::string(kDeletionSecretName), "gone"},
               {std::string(kDeletionSecretNamespace), "default"}}}}}});
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pvc-uid-data"); }));
  EXPECT_TRUE(script().LastRequest<csi::v1::DeleteVolumeRequest>("DeleteVolume").secrets().empty());
}

TEST_F(DeleteTest, AVolumeWithoutAnnotationsIsDeletedWithTheSecretOfItsClass) {
  cluster_.Put(MakeClass(
      "secret", {{"parameters",
                  {{"csi.storage.k8s.io/provisioner-secret-name", "creds-${pvc.name}"},
                   {"csi.storage.k8s.io/provisioner-secret-namespace", "${pvc.namespace}"}}}}));
  cluster_.Put({{"apiVersion", "v1"},
                {"kind", "Secret"},
                {"metadata", {{"name", "creds-data"}, {"namespace", "default"}}},
                {"data", {{"password", "aHVudGVyMg=="}}}});
  Begin();
  cluster_.Put(ReleasedByHand("secret"));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "by-hand"); }));
  EXPECT_THAT(script().LastRequest<csi::v1::DeleteVolumeRequest>("DeleteVolume").secrets(),
              ElementsAre(Pair("password", "hunter2")));
}

TEST_F(DeleteTest, AVolumeWhoseClassIsGoneIsDeletedWithoutASecret) {
  Begin();
  cluster_.Put(ReleasedByHand("gone"));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "by-hand"); }));
  EXPECT_TRUE(script().LastRequest<csi::v1::DeleteVolumeRequest>("DeleteVolume").secrets().empty());
}

// The roles of drivers that attach nothing may lack the right to list attachments.
TEST_F(DeleteTest, WithoutTheRightToListAttachmentsADriverThatAttachesKeepsItsVolumes) {
  cluster_.client.StopServing(api::kinds::kVolumeAttachment);
  Begin();
  Release();
  EXPECT_TRUE(cluster_.events.WaitFor("volumeattachments.storage.k8s.io are not listed"));
  EXPECT_EQ(script().Count("DeleteVolume"), 0);
  cluster_.client.Serve(api::kinds::kVolumeAttachment);
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pvc-uid-data"); }));
}

TEST_F(DeleteTest, WithoutTheRightToListAttachmentsADriverWithoutThemDeletesItsVolumes) {
  cluster_.client.StopServing(api::kinds::kVolumeAttachment);
  rpc::FakeCsiDriver::Options driver = NoTopology();
  driver.controller_capabilities.erase(DriverInfo::Rpc::PUBLISH_UNPUBLISH_VOLUME);
  Begin(driver);
  Release();
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pvc-uid-data"); }));
}

}  // namespace
}  // namespace berth::controllers::provisioner
