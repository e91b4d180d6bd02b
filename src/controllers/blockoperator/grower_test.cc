#include <gmock/gmock.h>

#include "api/quantity.h"
#include "controllers/blockoperator/block_operator_fixture.h"
#include "controllers/claim_growth.h"

namespace berth::controllers::blockoperator {
namespace {

using base::Json;
using base::StatusCode;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kGiB = int64_t{1} << 30;

class GrowerTest : public BlockOperatorTest {
 protected:
  // With a bound claim of 1Gi and its image.
  void BeginBound(const Json& more_of_class = nullptr) {
    PutBound("data");
    Begin(more_of_class);
    cluster_.informers.Of<Volume>().AddHandler([this](const auto& change) {
      if (change.before == nullptr || change.after == nullptr) return;
      const auto before = api::ParseBytes(change.before->capacity());
      const auto after = api::ParseBytes(change.after->capacity());
      if (*after < *before) ++shrinks_;
    });
  }
  // The operator of this cluster stops, and another one starts later.
  void Restart(const std::function<void()>& meanwhile) {
    cluster_.Stop();
    stopped_ = true;
    meanwhile();
    next_ = std::make_unique<FakeCluster>();
    for (const api::KindInfo* kind :
         {&api::kinds::kVolumeFence, &api::kinds::kNodeCleanup, &api::kinds::kStorageCluster}) {
      next_->client.Serve(*kind);
    }
    next_->client.Add(GetCluster().json());
    next_->client.Add(cluster_.Get<api::StorageClass>("", "fast").json());
    next_->client.Add(GetVolume().json());
    next_->client.Add(GetClaim("data").json());
    next_->Add<BlockOperator>(options_);
    next_->Start();
  }
  ~GrowerTest() override {
    if (next_ != nullptr) next_->Stop();
  }

  Volume GetVolume() { return cluster_.Get<Volume>("", "pvc-uid-data"); }
  // As another program writes, also while no operator runs.
  void Write(const api::Object& object) {
    if (stopped_) {
      cluster_.client.Add(object.json());
    } else {
      cluster_.Put(object);
    }
  }
  void RequestSize(const std::string& size) {
    Claim claim = GetClaim("data");
    claim.Set({"spec", "resources", "requests", "storage"}, size);
    Write(claim);
  }
  bool WaitImage(int64_t bytes) {
    return cluster_.WaitUntil([&] { return store_->SizeOf("pvc-uid-data") == bytes; });
  }
  bool WaitTold(const std::string& size) {
    return cluster_.WaitUntil([&] { return GetVolume().annotation(kImageSize) == size; });
  }

  // The writes of kube-controller-manager 1.36 for a Flexvolume whose claim grows, in their order
  // (expandAndRecoverFunction of operation_generator.go).
  void ManagerBegins(const std::string& size) {
    Claim claim = GetClaim("data");
    claim.set_annotation("volume.kubernetes.io/storage-resizer", "berth.dev/block");
    claim.Set({"status", "allocatedResources", "storage"}, size);
    claim.Set({"status", "allocatedResourceStatuses", "storage"}, "ControllerResizeInProgress");
    claim.Set({"status", "conditions"}, Json::array({{{"type", "Resizing"}, {"status", "True"}}}));
    Write(claim);
  }
  void ManagerWritesCapacity(const std::string& size) {
    Volume volume = GetVolume();
    volume.Set({"spec", "capacity", "storage"}, size);
    Write(volume);
  }
  void ManagerLeavesItToTheNode() {
    Claim claim = GetClaim("data");
    claim.Set({"status", "allocatedResourceStatuses", "storage"}, "NodeResizePending");
    claim.Set({"status", "conditions"},
              Json::array({{{"type", "Resizing"}, {"status", "True"}},
                           {{"type", "FileSystemResizePending"}, {"status", "True"}}}));
    Write(claim);
  }
  // The kubelet's last write.
  void NodeFinishes(const std::string& size) {
    Claim claim = GetClaim("data");
    claim.Set({"status"}, Json{{"phase", "Bound"}, {"capacity", {{"storage", size}}}});
    Write(claim);
  }
  // The operator has written neither the claim nor the capacity of its volume.
  void ExpectOnlyTheAnnotation(FakeCluster& cluster) {
    const std::vector<std::string> actions = cluster.client.TakeActions();
    EXPECT_THAT(actions, Not(Contains(HasSubstr("persistentvolumeclaims"))));
    EXPECT_THAT(actions, Not(Contains(HasSubstr("\"capacity\""))));
    EXPECT_THAT(actions, Contains(HasSubstr(std::string(kImageSize))));
    EXPECT_EQ(shrinks_, 0);
  }

  bool stopped_ = false;
  std::unique_ptr<FakeCluster> next_;
  std::atomic<int> shrinks_ = 0;
};

TEST_F(GrowerTest, TheImageGrowsBeforeTheControllerManagerHasSeenTheClaim) {
  BeginBound();
  RequestSize("2Gi");
  ASSERT_TRUE(WaitTold("2Gi"));
  EXPECT_EQ(store_->SizeOf("pvc-uid-data"), 2 * kGiB);
  EXPECT_EQ(GetVolume().capacity(), "1Gi") << "the controller manager writes it";
  EXPECT_TRUE(GetClaim("data").conditions().empty());
  ManagerBegins("2Gi");
  ManagerWritesCapacity("2Gi");
  ManagerLeavesItToTheNode();
  NodeFinishes("2Gi");
  ExpectOnlyTheAnnotation(cluster_);
  EXPECT_EQ(GetVolume().capacity(), "2Gi");
}

TEST_F(GrowerTest, TheImageGrowsAfterTheControllerManagerHasFinishedItsPart) {
  PutBound("data");
  RequestSize("2Gi");
  ManagerBegins("2Gi");
  ManagerWritesCapacity("2Gi");
  ManagerLeavesItToTheNode();
  Begin();
  ASSERT_TRUE(WaitTold("2Gi"));
  EXPECT_EQ(store_->SizeOf("pvc-uid-data"), 2 * kGiB);
  ExpectOnlyTheAnnotation(cluster_);
  EXPECT_EQ(GetClaim("data").String({"status", "allocatedResourceStatuses", "storage"}),
            "NodeResizePending");
}

TEST_F(GrowerTest, TheCapacityNeverGoesBackWhenAClaimGrowsTwiceAtOnce) {
  BeginBound();
  RequestSize("2Gi");
  ManagerBegins("2Gi");
  RequestSize("3Gi");
  ASSERT_TRUE(WaitTold("3Gi"));
  // The controller manager finishes the first size before it takes the second one.
  ManagerWritesCapacity("2Gi");
  ManagerLeavesItToTheNode();
  NodeFinishes("2Gi");
  ManagerBegins("3Gi");
  ManagerWritesCapacity("3Gi");
  ManagerLeavesItToTheNode();
  NodeFinishes("3Gi");
  EXPECT_EQ(store_->SizeOf("pvc-uid-data"), 3 * kGiB);
  EXPECT_EQ(GetVolume().capacity(), "3Gi");
  ExpectOnlyTheAnnotation(cluster_);
}

TEST_F(GrowerTest, WhatTheControllerManagerDidWhileNoOperatorRanIsCaughtUp) {
  BeginBound();
  Restart([&] {
    RequestSize("2Gi");
    ManagerBegins("2Gi");
    ManagerWritesCapacity("2Gi");
    ManagerLeavesItToTheNode();
  });
  ASSERT_TRUE(next_->WaitUntil([&] { return store_->SizeOf("pvc-uid-data") == 2 * kGiB; }));
  ASSERT_TRUE(next_->WaitUntil(
      [&] { return next_->Get<Volume>("", "pvc-uid-data").annotation(kImageSize) == "2Gi"; }));
  ExpectOnlyTheAnnotation(*next_);
}

TEST_F(GrowerTest, AnImageWhoseSizeWasNotToldIsToldAfterARestart) {
  BeginBound();
  Restart([&] {
    RequestSize("2Gi");
    block::FakeBackend(store_->images, "operator").Grow("pvc-uid-data", 2 * kGiB).IgnoreError();
  });
  EXPECT_TRUE(next_->WaitUntil(
      [&] { return next_->Get<Volume>("", "pvc-uid-data").annotation(kImageSize) == "2Gi"; }));
}

TEST_F(GrowerTest, ARequestThatWasReducedLeavesTheSizeThatTheNodeStillAsksFor) {
  BeginBound();
  store_->SetOutage(base::Error(StatusCode::kResourceExhausted, "no room"));
  RequestSize("3Gi");
  ManagerBegins("3Gi");
  ManagerWritesCapacity("3Gi");
  ManagerLeavesItToTheNode();
  ASSERT_TRUE(cluster_.events.WaitFor(
      "VolumeResizeFailed default/data: the image of the volume cannot grow to 3Gi: no room"));
  RequestSize("2Gi");
  store_->SetOutage(base::OkStatus());
  EXPECT_TRUE(WaitImage(3 * kGiB));
}

TEST_F(GrowerTest, AGrowthWhoseAnswerIsLostIsTriedAgain) {
  BeginBound();
  store_->LoseNextAnswer("grow", base::Error(StatusCode::kUnavailable, "no answer"));
  RequestSize("2Gi");
  ASSERT_TRUE(WaitTold("2Gi"));
  EXPECT_TRUE(cluster_.events.WaitFor("VolumeResizeFailed default/data"));
  EXPECT_EQ(store_->SizeOf("pvc-uid-data"), 2 * kGiB);
}

TEST_F(GrowerTest, AWriteThatFailsIsTriedAgain) {
  BeginBound();
  cluster_.client.FailNext("patch", "persistentvolumes",
                           base::Error(StatusCode::kAborted, "the object has been modified"));
  RequestSize("2Gi");
  EXPECT_TRUE(WaitTold("2Gi"));
  EXPECT_EQ(cluster_.events.Count("VolumeResizeFailed"), 0);
}

TEST_F(GrowerTest, AVolumeOfWhichThePersistentVolumeSaysMoreGrows) {
  BeginBound();
  ManagerWritesCapacity("2Gi");
  EXPECT_TRUE(WaitImage(2 * kGiB));
}

TEST_F(GrowerTest, AVolumeWhoseClassForbidsItDoesNotGrow) {
  BeginBound({{"allowVolumeExpansion", false}});
  RequestSize("2Gi");
  ASSERT_TRUE(cluster_.events.WaitFor("StorageClass 'fast' does not allow volumes to grow"));
  EXPECT_EQ(store_->SizeOf("pvc-uid-data"), kGiB);
  EXPECT_FALSE(GetVolume().has_annotation(kImageSize));
}

}  // namespace
}  // namespace berth::controllers::blockoperator
