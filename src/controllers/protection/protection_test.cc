#include "controllers/protection/protection.h"

#include <gmock/gmock.h>

#include "controllers/fake_cluster.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::protection {
namespace {

using base::Json;
using ::testing::ElementsAre;
using Claim = api::PersistentVolumeClaim;
using Volume = api::PersistentVolume;

Json OnNode() { return {{"spec", {{"nodeName", "node-a"}}}, {"status", {{"phase", "Running"}}}}; }

class ProtectionTest : public ::testing::Test {
 protected:
  ProtectionTest() { cluster_.Add<Protection>(); }

  void Delete(const api::KindInfo& kind, const std::string& ns, const std::string& name) {
    ASSERT_TRUE(cluster_.client.Delete(kind, ns, name, {}).ok());
  }
  bool WaitGone(const std::string& claim) {
    return cluster_.WaitUntil([&] { return !cluster_.Has<Claim>("default", claim); });
  }
  // Returns when the claims' queue came past everything that was there before.
  void Barrier() {
    const std::string name = fmt::format("barrier-{}", ++barriers_);
    cluster_.Put(MakeClaim(name));
    Delete(Claim::kInfo, "default", name);
    ASSERT_TRUE(WaitGone(name));
  }

  FakeCluster cluster_;
  int barriers_ = 0;
};

TEST_F(ProtectionTest, AnUnusedClaimGoes) {
  cluster_.Start();
  cluster_.Put(MakeClaim("data"));
  Delete(Claim::kInfo, "default", "data");
  EXPECT_TRUE(WaitGone("data"));
}

TEST_F(ProtectionTest, AClaimStaysUntilThePodOnANodeIsGone) {
  cluster_.Put(MakeClaim("data"));
  cluster_.Put(MakePod("web", "data", OnNode()));
  cluster_.Start();
  Delete(Claim::kInfo, "default", "data");
  Barrier();
  Barrier();
  EXPECT_TRUE(cluster_.Has<Claim>("default", "data"));
  cluster_.client.Remove(api::Pod::kInfo, "default", "web");
  EXPECT_TRUE(WaitGone("data"));
}

TEST_F(ProtectionTest, AClaimStaysUntilThePodHasTerminated) {
  cluster_.Put(MakeClaim("data"));
  cluster_.Put(MakePod("job", "data", OnNode()));
  cluster_.Start();
  Delete(Claim::kInfo, "default", "data");
  Barrier();
  EXPECT_TRUE(cluster_.Has<Claim>("default", "data"));
  cluster_.Put(MakePod("job", "data", Merged(OnNode(), {{"status", {{"phase", "Succeeded"}}}})));
  EXPECT_TRUE(WaitGone("data"));
}

TEST_F(ProtectionTest, APodWithoutNodeDoesNotHold) {
  cluster_.Put(MakeClaim("data"));
  cluster_.Put(MakePod("web", "data"));
  cluster_.Start();
  Delete(Claim::kInfo, "default", "data");
  EXPECT_TRUE(WaitGone("data"));
}

TEST_F(ProtectionTest, AGenericEphemeralVolumeHoldsItsClaim) {
  cluster_.Put(MakeClaim("web-scratch"));
  Json pod = MakePod("web", "", OnNode());
  pod["spec"]["volumes"] = {
      {{"name", "scratch"}, {"ephemeral", {{"volumeClaimTemplate", {{"spec", {{"a", 1}}}}}}}}};
  cluster_.Put(pod);
  cluster_.Start();
  Delete(Claim::kInfo, "default", "web-scratch");
  Barrier();
  EXPECT_TRUE(cluster_.Has<Claim>("default", "web-scratch"));
}

TEST_F(ProtectionTest, AHostMountHoldsItsClaim) {
  cluster_.Put(MakeClaim("data"));
  cluster_.Put({{"apiVersion", "storage.berth.dev/v1alpha1"},
                {"kind", "HostMount"},
                {"metadata", {{"name", "m"}, {"namespace", "default"}}},
                {"spec", {{"nodeName", "node-a"}, {"claimName", "data"}}}});
  cluster_.Start();
  Delete(Claim::kInfo, "default", "data");
  Barrier();
  EXPECT_TRUE(cluster_.Has<Claim>("default", "data"));
  cluster_.client.Remove(api::HostMount::kInfo, "default", "m");
  EXPECT_TRUE(WaitGone("data"));
}

TEST_F(ProtectionTest, NothingIsLetGoWhileTheApiCannotSayThatItIsUnused) {
  cluster_.Put(MakeClaim("data"));
  cluster_.Start();
  cluster_.client.FailNext("list", "pods", base::Error(base::StatusCode::kInternal, "broken"));
  Delete(Claim::kInfo, "default", "data");
  EXPECT_TRUE(WaitGone("data"));  // only after the second, working list
}

TEST_F(ProtectionTest, AMissingFinalizerIsAdded) {
  Json claim = MakeClaim("data");
  claim["metadata"].erase("finalizers");
  cluster_.Put(claim);
  Json volume = MakeVolume("pv-1");
  volume["metadata"].erase("finalizers");
  cluster_.Put(volume);
  cluster_.Start();
  EXPECT_TRUE(cluster_.WaitUntil([&] {
    return cluster_.Get<Claim>("default", "data").has_finalizer(kClaimProtection) &&
           cluster_.Get<Volume>("", "pv-1").has_finalizer(kVolumeProtection);
  }));
}

TEST_F(ProtectionTest, OnlyABoundVolumeStays) {
  cluster_.Put(MakeVolume("pv-bound", BoundVolume("data")));
  cluster_.Put(MakeVolume("pv-free"));
  cluster_.Start();
  Delete(Volume::kInfo, "", "pv-bound");
  Delete(Volume::kInfo, "", "pv-free");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pv-free"); }));
  EXPECT_TRUE(cluster_.Has<Volume>("", "pv-bound"));
  Volume released = cluster_.Get<Volume>("", "pv-bound");
  released.Set({"status", "phase"}, "Released");
  cluster_.Put(released);
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pv-bound"); }));
}

}  // namespace
}  // namespace berth::controllers::protection
