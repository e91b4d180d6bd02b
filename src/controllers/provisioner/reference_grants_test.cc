// Claims that are filled from a source in another namespace, which a ReferenceGrant allows.
#include "controllers/provisioner/reference_grants.h"

#include "base/assert_ok.h"
#include "controllers/provisioner/provisioner_fixture.h"

namespace berth::controllers::provisioner {
namespace {

constexpr std::string_view kCloneProtection =
    "provisioner.storage.kubernetes.io/cloning-protection";

// Claims of namespace "other" that are filled from claim "source" of namespace "default".
class CrossNamespaceTest : public ProvisionerTest {
 protected:
  void BeginWithGate() {
    Options options = Fast();
    options.cross_namespace_sources = true;
    Begin(NoTopology(), std::move(options));
    AddSource();
  }
  static Json Foreign(const std::string& kind = "PersistentVolumeClaim") {
    Json reference = {{"kind", kind}, {"name", "source"}, {"namespace", "default"}};
    if (kind != "PersistentVolumeClaim") reference["apiGroup"] = "example.com";
    return MakeClaim("copy", Asked({{"metadata", {{"namespace", "other"}}},
                                    {"spec", {{"dataSourceRef", std::move(reference)}}}}));
  }
  void PutGrant(const Json& from, const Json& to) {
    cluster_.client.Serve(ReferenceGrant::kInfo);
    cluster_.client.Add({{"apiVersion", "gateway.networking.k8s.io/v1beta1"},
                         {"kind", "ReferenceGrant"},
                         {"metadata", {{"name", "grant"}, {"namespace", "default"}}},
                         {"spec", {{"from", Json::array({from})}, {"to", Json::array({to})}}}});
  }
  static Json FromOther() {
    return {{"group", ""}, {"kind", "PersistentVolumeClaim"}, {"namespace", "other"}};
  }
  static Json ToClaims() { return {{"group", ""}, {"kind", "PersistentVolumeClaim"}}; }
  bool IsHeld() { return GetClaim("source").has_finalizer(kCloneProtection); }
};

constexpr char kNotAllowed[] =
    "accessing default/source of PersistentVolumeClaim dataSource from other/copy isn't allowed";

TEST_F(CrossNamespaceTest, WithoutTheGateAnotherNamespacesDataIsRefused) {
  Begin();
  AddSource();
  PutGrant(FromOther(), ToClaims());
  cluster_.Put(Foreign());
  EXPECT_TRUE(
      cluster_.events.WaitFor("dataSourceRef namespace specified but the "
                              "CrossNamespaceVolumeDataSource feature is disabled"));
  EXPECT_EQ(script().Count("CreateVolume"), 1);
}

TEST_F(CrossNamespaceTest, WithAGrantTheCopyIsMadeAndTheSourceIsHeldMeanwhile) {
  BeginWithGate();
  PutGrant(FromOther(), ToClaims());
  script().Hang("CreateVolume");
  cluster_.Put(Foreign());
  ASSERT_TRUE(script().WaitFor("CreateVolume", 2));
  EXPECT_TRUE(IsHeld());
  script().Release("CreateVolume");
  ASSERT_TRUE(WaitVolume("pvc-uid-copy"));
  EXPECT_EQ(CreateRequests().back().volume_content_source().volume().volume_id(),
            GetVolume("pvc-uid-source").csi().volume_handle());
  Claim copy = cluster_.Get<Claim>("other", "copy");
  copy.mutable_json().merge_patch(BoundClaim("pvc-uid-copy"));
  cluster_.Put(copy);
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !IsHeld(); }));
}

TEST_F(CrossNamespaceTest, AGrantThatComesLaterIsNoticed) {
  BeginWithGate();
  cluster_.client.Serve(ReferenceGrant::kInfo);
  cluster_.Put(Foreign());
  ASSERT_TRUE(cluster_.events.WaitFor(kNotAllowed));
  EXPECT_FALSE(IsHeld());
  PutGrant(FromOther(), ToClaims());
  EXPECT_TRUE(WaitVolume("pvc-uid-copy"));
}

TEST_F(CrossNamespaceTest, AClusterWithoutTheKindGrantsNothing) {
  BeginWithGate();
  cluster_.client.FailNext("list", "referencegrants",
                           base::Error(StatusCode::kNotFound, "there is no such kind"));
  cluster_.Put(Foreign());
  EXPECT_TRUE(cluster_.events.WaitFor(
      "error getting ReferenceGrants in default namespace from api server"));
  EXPECT_EQ(script().Count("CreateVolume"), 1);
}

TEST_F(CrossNamespaceTest, APopulatorsSourceNeedsAGrantToo) {
  BeginWithGate();
  cluster_.client.Serve(ReferenceGrant::kInfo);
  cluster_.Put(Foreign("Hello"));
  ASSERT_TRUE(cluster_.events.WaitFor("accessing default/source of Hello dataSource"));
  PutGrant(FromOther(), {{"group", "example.com"}, {"kind", "Hello"}});
  EXPECT_TRUE(cluster_.events.WaitFor("Assuming an external populator"));
}

// Else a stranger could keep anyone's claim from being deleted.
TEST_F(CrossNamespaceTest, AClaimWithoutAGrantKeepsNoSource) {
  BeginWithGate();
  cluster_.client.Serve(ReferenceGrant::kInfo);
  cluster_.Put(Foreign());
  ASSERT_TRUE(cluster_.events.WaitFor(kNotAllowed));
  Claim source = GetClaim("source");
  source.add_finalizer(kCloneProtection);
  cluster_.Put(source);
  cluster_.Put(MakeClaim(
      "own", Asked({{"spec",
                     {{"dataSource", {{"kind", "PersistentVolumeClaim"}, {"name", "source"}}}}}})));
  ASSERT_TRUE(WaitVolume("pvc-uid-own"));
  BindClaim("own");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !IsHeld(); }));
}

class RevokedGrantTest : public CrossNamespaceTest {
 protected:
  // Makes the provisioner look whether "source" is needed, and waits until it has looked. A claim
  // that nobody provisions comes and goes; another source, which is released, shows the end.
  void LookAtSource() {
    for (const std::string name : {"source", "barrier"}) {
      Json passing = MakeClaim(
          "passing",
          {{"spec", {{"dataSource", {{"kind", "PersistentVolumeClaim"}, {"name", name}}}}}});
      passing["metadata"].erase("finalizers");
      if (name == "barrier") {
        Json barrier = MakeClaim("barrier", Asked(BoundClaim("pv-barrier")));
        barrier["metadata"]["finalizers"] = {kCloneProtection};
        cluster_.Put(MakeVolume("pv-barrier", BoundVolume("barrier")));
        cluster_.Put(barrier);
      }
      cluster_.Put(passing);
      cluster_.client.Remove(Claim::kInfo, "default", "passing");
    }
    ASSERT_TRUE(
        cluster_.WaitUntil([&] { return !GetClaim("barrier").has_finalizer(kCloneProtection); }));
  }
};

TEST_F(RevokedGrantTest, TheSourceOfAnOpenCallStaysHeld) {
  BeginWithGate();
  PutGrant(FromOther(), ToClaims());
  script().Hang("CreateVolume");
  cluster_.Put(Foreign());
  ASSERT_TRUE(script().WaitFor("CreateVolume", 2));
  cluster_.client.Remove(ReferenceGrant::kInfo, "default", "grant");
  LookAtSource();
  EXPECT_TRUE(IsHeld());
  script().Release("CreateVolume");
  EXPECT_TRUE(WaitVolume("pvc-uid-copy"));
}

TEST_F(RevokedGrantTest, AnUnknownOutcomeIsStillLearnedForADeletedClaim) {
  BeginWithGate();
  PutGrant(FromOther(), ToClaims());
  script().LoseAnswer("CreateVolume");
  script().Hang("CreateVolume");
  cluster_.Put(Foreign());
  ASSERT_TRUE(script().WaitFor("CreateVolume", 2));
  cluster_.client.Remove(ReferenceGrant::kInfo, "default", "grant");
  Delete(Claim::kInfo, "other", "copy");
  script().Release("CreateVolume");
  EXPECT_TRUE(WaitVolume("pvc-uid-copy"));
  EXPECT_TRUE(WaitNoIntent("uid-copy"));
}

TEST_F(RevokedGrantTest, AListThatTheApiRefusesReleasesNothing) {
  BeginWithGate();
  cluster_.client.Serve(ReferenceGrant::kInfo);
  cluster_.Put(Foreign());
  ASSERT_TRUE(cluster_.events.WaitFor(kNotAllowed));
  PutGrant(FromOther(), ToClaims());
  ASSERT_TRUE(WaitVolume("pvc-uid-copy"));
  ASSERT_TRUE(IsHeld());
  cluster_.client.FailNext("list", "referencegrants",
                           base::Error(StatusCode::kInvalidArgument, "said the API"));
  LookAtSource();
  EXPECT_TRUE(IsHeld());
}

// The sources alone, while the provisioner that runs leaves the claim "copy" alone.
class OpeningTest : public RevokedGrantTest {
 protected:
  // Begins as the provisioner of `node`, or of all nodes, with a claim that nobody provisions.
  void BeginSources(const std::string& node = "") {
    BeginWithGate();
    options_.cross_namespace_sources = true;
    options_.node_deployment.node_name = node;
    cluster_.client.Serve(ReferenceGrant::kInfo);
    attempts_.emplace(cluster_.client, options_,
                      Attempts::Wake{.claim = [](const auto&) {}, .record = [] {}});
    attempts_->FinishTakeOver();
    sources_.emplace(
        cluster_.context(), options_, *attempts_,
        DataSources::Callbacks{
            .snapshot_changed = [](const auto&) {},
            .source_free = [this](const auto& source) { free_.push_back(source.key); }});
    Json copy = Foreign();
    copy["metadata"]["annotations"] = nullptr;
    cluster_.Put(copy);
    PutGrant(FromOther(), ToClaims());
    LookAtSource();  // the provisioner that runs has done with the claim
  }
  Claim Copy() { return cluster_.Get<Claim>("other", "copy"); }
  static DriverInfo Driver() {
    return {.name = std::string(kDriver),
            .vendor_version = "",
            .services = {},
            .rpcs = {DriverInfo::Rpc::CLONE_VOLUME}};
  }
  void RevokeGrant() { cluster_.client.Remove(ReferenceGrant::kInfo, "default", "grant"); }
  // Looks whether the source is needed, and releases it if it is not.
  void Release() { ASSERT_OK(sources_->ReleaseClone("default/source", Driver()).status); }

  Options options_;
  std::optional<Attempts> attempts_;
  std::optional<DataSources> sources_;
  std::vector<std::string> free_;  // sources that are to be looked at again
};

TEST_F(OpeningTest, ASourceStaysHeldBetweenItsHoldAndTheOpeningOfTheCall) {
  BeginSources();
  {
    const DataSources::Opening opening(*sources_, Copy());
    ASSERT_TRUE(sources_->HoldSource(Copy(), Driver()).ok());
    RevokeGrant();
    Release();
    EXPECT_TRUE(IsHeld());
    EXPECT_THAT(free_, testing::IsEmpty());
  }
  EXPECT_THAT(free_, testing::ElementsAre("default/source")) << "the release was put off";
  Release();
  EXPECT_FALSE(IsHeld()) << "no call was opened";
}

TEST_F(OpeningTest, WithAProvisionerOnEachNodeAnUnboundClaimKeepsItsSource) {
  BeginSources("node-a");
  ASSERT_TRUE(sources_->HoldSource(Copy(), Driver()).ok());
  RevokeGrant();
  Release();
  EXPECT_TRUE(IsHeld()) << "another node's provisioner may have opened a call";
}

TEST(ReferenceGrantTest, WhatAGrantAllows) {
  const Claim claim(MakeClaim("copy", {{"metadata", {{"namespace", "other"}}},
                                       {"spec",
                                        {{"dataSourceRef",
                                          {{"apiGroup", "snapshot.storage.k8s.io"},
                                           {"kind", "VolumeSnapshot"},
                                           {"name", "snap"},
                                           {"namespace", "vault"}}}}}}));
  const Json from = {{"group", ""}, {"kind", "PersistentVolumeClaim"}, {"namespace", "other"}};
  const Json to = {{"group", "snapshot.storage.k8s.io"}, {"kind", "VolumeSnapshot"}};
  const auto allows = [&](const std::string& ns, const Json& from, const Json& to) {
    const std::vector<ReferenceGrant> grants = {
        ReferenceGrant(Json{{"metadata", {{"name", "g"}, {"namespace", ns}}},
                            {"spec", {{"from", Json::array({from})}, {"to", Json::array({to})}}}})};
    return CheckGranted(claim, grants).ok();
  };
  EXPECT_TRUE(allows("vault", from, to));
  EXPECT_TRUE(allows("vault", from, Merged(to, {{"name", "snap"}})));
  EXPECT_TRUE(allows("vault", from, Merged(to, {{"name", ""}})));
  EXPECT_FALSE(allows("vault", from, Merged(to, {{"name", "another"}})));
  EXPECT_FALSE(allows("vault", from, Merged(to, {{"group", ""}})));
  EXPECT_FALSE(allows("vault", from, Merged(to, {{"kind", "PersistentVolumeClaim"}})));
  EXPECT_FALSE(allows("vault", Merged(from, {{"namespace", "third"}}), to));
  EXPECT_FALSE(allows("vault", Merged(from, {{"kind", "Pod"}}), to));
  EXPECT_FALSE(allows("vault", Merged(from, {{"group", "apps"}}), to));
  EXPECT_FALSE(allows("other", from, to)) << "the grant is not in the source's namespace";
}

}  // namespace
}  // namespace berth::controllers::provisioner
