// A snapshot that is seen before the binding of its claim, because each kind has its own watch.
#include "controllers/snapshotcontroller/snapshot_controller_fixture.h"

namespace berth::controllers::snapshotcontroller {
namespace {

class OldCopyTest : public SnapshotControllerTest {
 protected:
  // The copy of these objects stays as it is from now on.
  void StopWatching(std::string_view resource) {
    for (const char* verb : {"watch", "list"}) {
      for (int i = 0; i < 20; ++i) {
        cluster_.client.FailNext(verb, resource, base::Error(StatusCode::kUnavailable, ""));
      }
    }
    cluster_.client.EndWatches();
  }
  // Stores the object without waiting for the copy.
  void Store(const Json& object) { cluster_.client.Add(object); }
  // The one attempt that Slow() allows succeeds, and nobody was told of a failure.
  void ExpectBoundAtOnce() {
    ASSERT_TRUE(WaitBound()) << Get().error();
    EXPECT_EQ(Get().error(), "");
    EXPECT_EQ(cluster_.events.Count("Warning"), 0);
    EXPECT_TRUE(GetClaim().has_finalizer(kClaimSourceProtection));
  }
};

TEST_F(OldCopyTest, AClaimIsSnapshottedThoughTheCopyShowsItUnbound) {
  cluster_.Put(MakeClaim("data"));
  Begin(Slow());
  StopWatching("persistentvolumeclaims");
  Store(MakeClaim("data", BoundClaim("pv-1")));
  Add();
  ExpectBoundAtOnce();
}

TEST_F(OldCopyTest, AClaimIsSnapshottedThoughTheCopyDoesNotShowIt) {
  cluster_.client.Remove(Claim::kInfo, "default", "data");
  Begin(Slow());
  StopWatching("persistentvolumeclaims");
  Store(MakeClaim("data", BoundClaim("pv-1")));
  Add();
  ExpectBoundAtOnce();
}

TEST_F(OldCopyTest, AVolumeIsSnapshottedThoughTheCopyDoesNotShowIt) {
  cluster_.client.Remove(api::PersistentVolume::kInfo, "", "pv-1");
  Begin(Slow());
  StopWatching("persistentvolumes");
  Store(MakeVolume("pv-1", BoundVolume("data")));
  Add();
  ExpectBoundAtOnce();
}

TEST_F(OldCopyTest, AVolumeIsSnapshottedThoughTheCopyShowsItOfAnotherClaim) {
  cluster_.Put(MakeVolume("pv-1", BoundVolume("another")));
  Begin(Slow());
  StopWatching("persistentvolumes");
  Store(MakeVolume("pv-1", BoundVolume("data")));
  Add();
  ExpectBoundAtOnce();
}

// The default class is that of the driver of the claim's volume.
TEST_F(OldCopyTest, TheDefaultClassIsFoundThoughTheCopyShowsTheClaimUnbound) {
  cluster_.Put(MakeSnapshotClass(
      "snap", {{"metadata", {{"annotations", {{kDefaultSnapshotClass, "true"}}}}}}));
  cluster_.Put(MakeClaim("data"));
  Begin(Slow());
  StopWatching("persistentvolumeclaims");
  Store(MakeClaim("data", BoundClaim("pv-1")));
  Add({{"spec", {{"volumeSnapshotClassName", nullptr}}}});
  ExpectBoundAtOnce();
}

TEST_F(OldCopyTest, AFailureOfTheApiIsNotTheSnapshots) {
  for (const Json& named : {Json("snap"), Json()}) {
    Bed fresh;
    fresh.cluster_.Put(MakeClaim("data"));
    fresh.Begin(Slow());
    fresh.cluster_.client.FailNext("get", "persistentvolumeclaims",
                                   base::Error(StatusCode::kUnavailable, "later"));
    fresh.Add({{"spec", {{"volumeSnapshotClassName", named}}}});
    // The API is asked again in a second, and then the claim is still not bound.
    ASSERT_TRUE(fresh.WaitError("not yet bound"));
    EXPECT_EQ(fresh.cluster_.events.Count("Warning"), 1) << named;
  }
}

}  // namespace
}  // namespace berth::controllers::snapshotcontroller
