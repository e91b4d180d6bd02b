// Claims that are filled from another claim, a snapshot, or by another program.
#include "controllers/provisioner/provisioner_fixture.h"

namespace berth::controllers::provisioner {
namespace {

using ::testing::SizeIs;

constexpr std::string_view kCloning = "provisioner.storage.kubernetes.io/cloning-protection";

Json CloneOf(const std::string& source, const std::string& size = "1Gi") {
  return MakeClaim("copy",
                   Asked({{"spec",
                           {{"dataSource", {{"kind", "PersistentVolumeClaim"}, {"name", source}}},
                            {"resources", {{"requests", {{"storage", size}}}}}}}}));
}

class CloneTest : public ProvisionerTest {
 protected:
  // The claim "source" as if it were deleted while only `finalizer` keeps it.
  void PutDeletedSource(std::string_view finalizer) {
    Claim source = GetClaim("source");
    source.mutable_json()["metadata"]["finalizers"] = {finalizer};
    source.mutable_json()["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
    cluster_.Put(source);
  }
};

TEST_F(CloneTest, ACopyIsMadeFromTheSourcesVolumeAndTheSourceIsHeldMeanwhile) {
  Begin();
  AddSource();
  script().Hang("CreateVolume");
  cluster_.Put(CloneOf("source"));
  ASSERT_TRUE(script().WaitFor("CreateVolume", 2));
  EXPECT_TRUE(GetClaim("source").has_finalizer(kCloning));
  script().Release("CreateVolume");
  ASSERT_TRUE(WaitVolume("pvc-uid-copy"));
  EXPECT_EQ(CreateRequests().back().volume_content_source().volume().volume_id(),
            GetVolume("pvc-uid-source").csi().volume_handle());
  BindClaim("copy");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !GetClaim("source").has_finalizer(kCloning); }));
}

// As after a kill between the copy's binding and its source's release: no claim changes any more.
TEST_F(CloneTest, ASourceThatIsStillHeldWhenTheDriverBecomesKnownIsReleased) {
  Json source = MakeClaim("source", Asked(BoundClaim("pv-source")));
  source["metadata"]["finalizers"] = {kCloning};
  Json copy = CloneOf("source");
  copy.merge_patch(BoundClaim("pv-copy"));
  cluster_.Put(MakeVolume("pv-source", BoundVolume("source")));
  cluster_.Put(MakeVolume("pv-copy", BoundVolume("copy")));
  cluster_.Put(source);
  cluster_.Put(copy);
  Begin();
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !GetClaim("source").has_finalizer(kCloning); }));
}

TEST_F(CloneTest, ACopySmallerThanItsSourceIsRefused) {
  Begin();
  AddSource();
  cluster_.Put(CloneOf("source", "512Mi"));
  EXPECT_TRUE(cluster_.events.WaitFor("the copy must have at least its size, 1Gi"));
  EXPECT_EQ(script().Count("CreateVolume"), 1);
}

TEST_F(CloneTest, ASourceThatAppearsLaterIsNoticed) {
  Options slow = Fast();
  slow.retry_start = slow.retry_max = std::chrono::minutes(10);
  Begin(NoTopology(), slow);
  cluster_.Put(CloneOf("source"));
  ASSERT_TRUE(cluster_.events.WaitFor("clone claim 'source': it is not there"));
  AddSource();
  EXPECT_TRUE(WaitVolume("pvc-uid-copy"));
}

TEST_F(CloneTest, ASourceThatIsDeletedWhileTheOutcomeIsUnknownStaysUntilItIsKnown) {
  Begin();
  AddSource();
  script().LoseAnswer("CreateVolume");
  script().Hang("CreateVolume");
  cluster_.Put(CloneOf("source"));
  ASSERT_TRUE(script().WaitFor("CreateVolume", 2));
  Delete(Claim::kInfo, "default", "source");
  script().Release("CreateVolume");
  EXPECT_TRUE(WaitVolume("pvc-uid-copy"));
  EXPECT_THAT(cluster_.driver->state().VolumeIds(), SizeIs(2));
}

// As after a kill of the Go program in CreateVolume: no intent says that a copy may exist.
TEST_F(CloneTest, ADeletedSourceThatAnotherProgramHeldIsCopiedAndLetGo) {
  Begin();
  AddSource();
  // The copy needs the source, and is made only once its class is there.
  cluster_.Put(Merged(CloneOf("source"), {{"spec", {{"storageClassName", "later"}}}}));
  PutDeletedSource(kCloning);
  cluster_.Put(MakeClass("later"));
  ASSERT_TRUE(WaitVolume("pvc-uid-copy"));
  BindClaim("copy");
  EXPECT_TRUE(cluster_.WaitUntil(
      [&] { return cluster_.client.Peek(Claim::kInfo, "default", "source").is_null(); }));
}

// Go's program keeps the finalizer until the source is deleted, whatever became of the copies.
TEST_F(CloneTest, ADeletedSourceWhoseCopiesAreGoneIsLetGo) {
  Begin();
  AddSource();
  PutDeletedSource(kCloning);
  EXPECT_TRUE(cluster_.WaitUntil(
      [&] { return cluster_.client.Peek(Claim::kInfo, "default", "source").is_null(); }));
}

TEST_F(CloneTest, ASourceWithoutAVolumeThatWasDeletedBeforeIsLetGo) {
  cluster_.Put(MakeClaim(
      "source",
      {{"metadata", {{"deletionTimestamp", "2026-01-01T00:00:00Z"}, {"finalizers", {kCloning}}}},
       {"spec", {{"volumeName", "pv-gone"}}},
       {"status", {{"phase", "Lost"}}}}));
  Begin();
  EXPECT_TRUE(cluster_.WaitUntil(
      [&] { return cluster_.client.Peek(Claim::kInfo, "default", "source").is_null(); }));
}

TEST_F(CloneTest, ADeletedSourceThatNobodyHeldIsRefused) {
  Begin();
  AddSource();
  PutDeletedSource("kubernetes.io/pvc-protection");
  cluster_.Put(CloneOf("source"));
  EXPECT_TRUE(cluster_.events.WaitFor("clone claim 'source': it is being deleted"));
  EXPECT_EQ(script().Count("CreateVolume"), 1);
}

TEST_F(CloneTest, SourcesOfOtherKindsAreLeftToPopulators) {
  Begin();
  cluster_.Put(MakeClaim(
      "pop", Asked({{"spec",
                     {{"dataSourceRef",
                       {{"apiGroup", "example.com"}, {"kind", "Hello"}, {"name", "h"}}}}}})));
  EXPECT_TRUE(
      cluster_.events.WaitFor("Normal Provisioning default/pop: Assuming an external populator"));
  EXPECT_EQ(script().Count("CreateVolume"), 0);
  EXPECT_FALSE(HasIntent("uid-pop"));
}

class RestoreTest : public ProvisionerTest {
 protected:
  void BeginWithSnapshot(Options options = Fast()) {
    cluster_.client.Serve(api::kinds::kVolumeSnapshot);
    cluster_.client.Serve(api::kinds::kVolumeSnapshotContent);
    Begin(NoTopology(), std::move(options));
    AddSource();
    csi::v1::CreateSnapshotRequest request;
    request.set_source_volume_id(GetVolume("pvc-uid-source").csi().volume_handle());
    request.set_name("snapshot-1");
    csi::v1::CreateSnapshotResponse response;
    ASSERT_TRUE(cluster_.driver->state().Handle(request, response).ok());
    handle_ = response.snapshot().snapshot_id();
  }
  void AddSnapshot(const Json& more = nullptr) {
    cluster_.Put(
        Merged({{"apiVersion", "snapshot.storage.k8s.io/v1"},
                {"kind", "VolumeSnapshot"},
                {"metadata", {{"name", "snap"}, {"namespace", "default"}, {"uid", "uid-snap"}}},
                {"status",
                 {{"boundVolumeSnapshotContentName", "content"},
                  {"readyToUse", true},
                  {"restoreSize", "1Gi"}}}},
               more));
  }
  void AddContent(const std::string& driver = kDriver) {
    cluster_.Put({{"apiVersion", "snapshot.storage.k8s.io/v1"},
                  {"kind", "VolumeSnapshotContent"},
                  {"metadata", {{"name", "content"}}},
                  {"spec",
                   {{"driver", driver},
                    {"volumeSnapshotRef",
                     {{"name", "snap"}, {"namespace", "default"}, {"uid", "uid-snap"}}}}},
                  {"status", {{"snapshotHandle", handle_}, {"readyToUse", true}}}});
  }
  static Json Restored(const std::string& name = "restored") {
    return MakeClaim(name, Asked({{"spec",
                                   {{"dataSource",
                                     {{"apiGroup", "snapshot.storage.k8s.io"},
                                      {"kind", "VolumeSnapshot"},
                                      {"name", "snap"}}}}}}));
  }
  bool Held() {
    return api::VolumeSnapshot(cluster_.client.Peek(api::kinds::kVolumeSnapshot, "default", "snap"))
        .has_finalizer(kSnapshotProtection);
  }

  std::string handle_;
};

TEST_F(RestoreTest, AVolumeIsMadeFromTheSnapshotWhichIsHeldMeanwhile) {
  BeginWithSnapshot();
  AddSnapshot();
  AddContent();
  script().Hang("CreateVolume");
  cluster_.Put(Restored());
  ASSERT_TRUE(script().WaitFor("CreateVolume", 2));
  EXPECT_TRUE(Held());
  script().Release("CreateVolume");
  ASSERT_TRUE(WaitVolume("pvc-uid-restored"));
  EXPECT_EQ(CreateRequests().back().volume_content_source().snapshot().snapshot_id(), handle_);
  BindClaim("restored");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !Held(); }));
}

TEST_F(RestoreTest, ASnapshotIsLetGoWhenItsClaimIsDeletedBeforeItHadAVolume) {
  BeginWithSnapshot();
  AddSnapshot();
  AddContent();
  script().Fail("CreateVolume", base::Error(StatusCode::kInternal, "no"), rpc::CallScript::kAlways);
  Json claim = Restored();
  claim["metadata"].erase("finalizers");
  cluster_.Put(claim);
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Held(); }));
  ASSERT_TRUE(cluster_.events.WaitFor("code = Internal"));
  Delete(Claim::kInfo, "default", "restored");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !Held(); }));
}

TEST_F(RestoreTest, ASnapshotThatGetsReadyIsNoticedAtOnce) {
  Options slow = Fast();
  slow.retry_start = slow.retry_max = std::chrono::minutes(10);
  BeginWithSnapshot(slow);
  AddSnapshot({{"status", {{"readyToUse", false}}}});
  AddContent();
  cluster_.Put(Restored());
  ASSERT_TRUE(cluster_.events.WaitFor("snapshot 'default/snap': it is not ready to use"));
  ASSERT_TRUE(cluster_.client.WaitForWatches(api::kinds::kVolumeSnapshot, 1));
  AddSnapshot();
  EXPECT_TRUE(WaitVolume("pvc-uid-restored"));
}

TEST_F(RestoreTest, AConflictingWriteOfTheSnapshotIsMadeAnew) {
  BeginWithSnapshot();
  AddSnapshot();
  AddContent();
  cluster_.client.FailNext("update", "volumesnapshots",
                           base::Error(StatusCode::kAborted, "conflict"));
  cluster_.Put(Restored());
  ASSERT_TRUE(WaitVolume("pvc-uid-restored"));
  EXPECT_EQ(cluster_.events.Count("ProvisioningFailed"), 0);
}

TEST_F(RestoreTest, WithoutTheRightToUpdateSnapshotsAVolumeIsMadeAllTheSame) {
  BeginWithSnapshot();
  AddSnapshot();
  AddContent();
  cluster_.client.FailNext("update", "volumesnapshots",
                           base::Error(StatusCode::kPermissionDenied, "forbidden"));
  cluster_.Put(Restored());
  ASSERT_TRUE(WaitVolume("pvc-uid-restored"));
  EXPECT_FALSE(Held());
  EXPECT_EQ(cluster_.events.Count("ProvisioningFailed"), 0);
}

TEST_F(RestoreTest, WithoutTheRightToWatchSnapshotsAVolumeIsMadeAllTheSame) {
  for (int i = 0; i < 20; ++i) {
    cluster_.client.FailNext("list", "volumesnapshots",
                             base::Error(StatusCode::kPermissionDenied, "forbidden"));
  }
  BeginWithSnapshot();
  AddSnapshot();
  AddContent();
  cluster_.Put(Restored());
  ASSERT_TRUE(WaitVolume("pvc-uid-restored"));
}

TEST_F(RestoreTest, AMissingSnapshotIsSaid) {
  BeginWithSnapshot();
  cluster_.Put(Restored());
  EXPECT_TRUE(cluster_.events.WaitFor("snapshot 'default/snap': "));
  EXPECT_EQ(script().Count("CreateVolume"), 1);
}

TEST_F(RestoreTest, AnotherDriversSnapshotIsRefused) {
  BeginWithSnapshot();
  AddSnapshot();
  AddContent("another.example.com");
  cluster_.Put(Restored());
  EXPECT_TRUE(cluster_.events.WaitFor("it is of driver 'another.example.com'"));
  EXPECT_FALSE(Held());
}

TEST_F(RestoreTest, ASnapshotThatIsDeletedWhileTheOutcomeIsUnknownStaysUntilItIsKnown) {
  BeginWithSnapshot();
  AddSnapshot();
  AddContent();
  script().LoseAnswer("CreateVolume");
  script().Hang("CreateVolume");
  cluster_.Put(Restored());
  ASSERT_TRUE(script().WaitFor("CreateVolume", 2));
  Delete(api::kinds::kVolumeSnapshot, "default", "snap");
  script().Release("CreateVolume");
  ASSERT_TRUE(WaitVolume("pvc-uid-restored"));
  BindClaim("restored");
  EXPECT_TRUE(cluster_.WaitUntil([&] {
    return cluster_.client.Peek(api::kinds::kVolumeSnapshot, "default", "snap").is_null();
  }));
}

// As after a kill of the Go program in CreateVolume: no intent says that a volume may exist.
TEST_F(RestoreTest, ADeletedSnapshotThatAnotherProgramHeldIsRestoredAndLetGo) {
  BeginWithSnapshot();
  AddSnapshot({{"metadata",
                {{"finalizers", {std::string(kSnapshotProtection)}},
                 {"deletionTimestamp", "2026-01-01T00:00:00Z"}}}});
  AddContent();
  cluster_.Put(Restored());
  ASSERT_TRUE(WaitVolume("pvc-uid-restored"));
  EXPECT_EQ(CreateRequests().back().volume_content_source().snapshot().snapshot_id(), handle_);
  BindClaim("restored");
  EXPECT_TRUE(cluster_.WaitUntil([&] {
    return cluster_.client.Peek(api::kinds::kVolumeSnapshot, "default", "snap").is_null();
  }));
}

TEST_F(RestoreTest, TheSweepLetsASnapshotGoThatNobodyWaitsFor) {
  // The claim was deleted while no provisioner ran.
  cluster_.client.Serve(api::kinds::kVolumeSnapshot);
  cluster_.client.Serve(api::kinds::kVolumeSnapshotContent);
  AddSnapshot({{"metadata", {{"finalizers", {std::string(kSnapshotProtection)}}}}});
  AddContent();
  Options options = Fast();
  options.snapshot_orphan_sweep_interval = std::chrono::milliseconds(5);
  Begin(NoTopology(), options);
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !Held(); }));
}

}  // namespace
}  // namespace berth::controllers::provisioner
