#include "controllers/pluginexpander/plugin_expander.h"

#include <gmock/gmock.h>

#include "controllers/claim_conditions.h"
#include "controllers/fake_cluster.h"
#include "volume/fake_registry.h"

namespace berth::controllers::pluginexpander {
namespace {

using namespace std::chrono_literals;
using base::StatusCode;
using ::testing::ElementsAre;
using Claim = api::PersistentVolumeClaim;

constexpr char kDriver[] = "acme.io/block";

class PluginExpanderTest : public ::testing::Test {
 protected:
  ~PluginExpanderTest() override {
    registry_->Stop();
    cluster_.Stop();
  }

  void Begin(bool with_driver = true, const std::string& driver = kDriver) {
    expander_ = &cluster_.Add<PluginExpander>(
        *registry_, Options{.workers = 1, .retry_start = 5ms, .retry_max = 40ms});
    base::Json volume = MakeVolume("pv-data", BoundVolume("data"));
    volume["spec"].erase("csi");
    volume["spec"]["flexVolume"] = {{"driver", driver}};
    cluster_.Put(volume);
    cluster_.Put(MakeClaim("data", BoundClaim("pv-data")));
    if (with_driver) registry_.prober().List({driver_});
    cluster_.Start();
    ASSERT_TRUE(registry_->Init().ok());
  }
  void RequestSize(const std::string& size) {
    Claim claim = GetClaim();
    claim.Set({"spec", "resources", "requests", "storage"}, size);
    cluster_.Put(claim);
  }
  Claim GetClaim() { return cluster_.Get<Claim>("default", "data"); }
  // The volume has its size, and the node is asked for its part.
  bool WaitGrown(const std::string& size) {
    return cluster_.WaitUntil([&] {
      return cluster_.Get<api::PersistentVolume>("", "pv-data").capacity() == size &&
             HasCondition(GetClaim(), kFileSystemResizePending) &&
             !HasCondition(GetClaim(), kResizing);
    });
  }

  const std::shared_ptr<volume::FakeDriverPlugin> driver_ =
      std::make_shared<volume::FakeDriverPlugin>(kDriver);
  FakeCluster cluster_;
  PluginExpander* expander_ = nullptr;
  volume::FakeRegistry registry_{
      [this](const std::string& plugin) { expander_->PluginChanged(plugin); }};
};

TEST_F(PluginExpanderTest, TheDriverGrowsTheVolumeAndTheNodeIsAskedForItsPart) {
  Begin();
  RequestSize("2Gi");
  ASSERT_TRUE(WaitGrown("2Gi"));
  EXPECT_THAT(driver_->Calls(), ElementsAre("expandvolume pv-data 1073741824 2147483648"));
  EXPECT_TRUE(cluster_.events.WaitFor("Normal Resizing default/data"));
}

TEST_F(PluginExpanderTest, AFailureIsToldAndTriedAgain) {
  Begin();
  driver_->FailNext("expandvolume", base::Error(StatusCode::kInternal, "no room on the array"));
  RequestSize("2Gi");
  ASSERT_TRUE(WaitGrown("2Gi"));
  EXPECT_TRUE(cluster_.events.WaitFor("Warning VolumeResizeFailed default/data"));
  EXPECT_TRUE(cluster_.events.WaitFor("no room on the array"));
}

TEST_F(PluginExpanderTest, WaitsForADriverThatComesLater) {
  Begin(/*with_driver=*/false);
  RequestSize("2Gi");
  EXPECT_TRUE(cluster_.events.WaitFor("Warning VolumeResizeFailed default/data"));
  registry_.prober().List({driver_}, /*tell=*/true);
  EXPECT_TRUE(WaitGrown("2Gi"));
}

TEST_F(PluginExpanderTest, WhatACrashLeftBetweenTheTwoWritesIsFinished) {
  base::Json claim = MakeClaim("data", BoundClaim("pv-data"));
  claim["status"]["conditions"] = base::Json::array({{{"type", "Resizing"}, {"status", "True"}}});
  Begin();
  cluster_.client.Remove(Claim::kInfo, "default", "data");
  cluster_.Put(claim);
  EXPECT_TRUE(WaitGrown("1Gi"));
  EXPECT_THAT(driver_->Calls(), ElementsAre());
}

// The block operator grows the images of the block agent's volumes, and says so in an annotation.
class ImageVolumeTest : public PluginExpanderTest {
 protected:
  void SetUp() override { Begin(/*with_driver=*/false, "berth.dev/block"); }
  api::PersistentVolume GetVolume() { return cluster_.Get<api::PersistentVolume>("", "pv-data"); }
  void WriteImageSize(const std::string& size) {
    api::PersistentVolume volume = GetVolume();
    volume.set_annotation(kImageSize, size);
    cluster_.Put(volume);
  }
  // Waits until the worker has looked at everything that was written before: of a second claim,
  // whose image is large enough, it takes all steps afterwards, because there is one worker.
  bool WaitLooked() {
    const std::string name = fmt::format("barrier-{}", ++barriers_);
    base::Json volume = GetVolume().json();
    volume["metadata"] = {{"name", "pv-" + name},
                          {"annotations", {{std::string(kImageSize), "2Gi"}}}};
    volume["spec"]["capacity"]["storage"] = "1Gi";
    cluster_.Put(Merged(volume, BoundVolume(name)));
    base::Json claim = MakeClaim(name, BoundClaim("pv-" + name));
    claim["spec"]["resources"]["requests"]["storage"] = "2Gi";
    cluster_.Put(claim);
    return cluster_.WaitUntil(
        [&] { return cluster_.Get<api::PersistentVolume>("", "pv-" + name).capacity() == "2Gi"; });
  }
  bool WaitResizing() {
    return cluster_.WaitUntil([&] { return HasCondition(GetClaim(), kResizing); });
  }

  int barriers_ = 0;
};

TEST_F(ImageVolumeTest, AClaimWaitsUntilItsImageHasTheSize) {
  RequestSize("2Gi");
  ASSERT_TRUE(WaitResizing());
  WriteImageSize("1536Mi");
  ASSERT_TRUE(WaitLooked());
  EXPECT_EQ(GetVolume().capacity(), "1Gi");
  WriteImageSize("what is this");
  ASSERT_TRUE(WaitLooked());
  EXPECT_EQ(GetVolume().capacity(), "1Gi");
  EXPECT_FALSE(HasCondition(GetClaim(), kFileSystemResizePending));
  WriteImageSize("2Gi");
  EXPECT_TRUE(WaitGrown("2Gi"));
  EXPECT_EQ(cluster_.events.Count("VolumeResizeFailed"), 0);
}

TEST_F(ImageVolumeTest, AnImageThatHadGrownBeforeIsEnough) {
  WriteImageSize("3Gi");
  RequestSize("2Gi");
  EXPECT_TRUE(WaitGrown("3Gi"));
}

TEST_F(ImageVolumeTest, ASizeThatIsSmallerThanTheCapacityChangesNothing) {
  WriteImageSize("2Gi");
  RequestSize("2Gi");
  ASSERT_TRUE(WaitGrown("2Gi"));
  WriteImageSize("1Gi");
  RequestSize("3Gi");
  ASSERT_TRUE(WaitResizing());
  ASSERT_TRUE(WaitLooked());
  EXPECT_EQ(GetVolume().capacity(), "2Gi");
}

}  // namespace
}  // namespace berth::controllers::pluginexpander
