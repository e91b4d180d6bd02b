#include "controllers/pluginattacher/plugin_attacher.h"

#include <gmock/gmock.h>

#include <atomic>

#include "api/kinds/attachable.h"
#include "controllers/fake_cluster.h"
#include "volume/fake_registry.h"

namespace berth::controllers::pluginattacher {
namespace {

using namespace std::chrono_literals;
using base::Json;
using base::StatusCode;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using Attachment = api::VolumeAttachment;

constexpr char kDriver[] = "acme.io/block";
constexpr char kUnique[] = "flexvolume-acme.io/block/pv-data";

// A pod's way to a volume that a Flexvolume driver attaches: with the controller that decides
// where.
class PluginAttacherTest : public ::testing::Test {
 protected:
  PluginAttacherTest() { driver_->attaches = true; }
  ~PluginAttacherTest() override {
    registry_->Stop();
    cluster_.Stop();
  }

  void Begin(bool with_driver = true, Options options = {.retry_start = 5ms, .retry_max = 40ms}) {
    attacher_ = &cluster_.Add<PluginAttacher>(*registry_, options);
    Json volume = MakeVolume("pv-data", BoundVolume("data"));
    volume["spec"].erase("csi");
    volume["spec"]["flexVolume"] = {{"driver", kDriver}, {"options", {{"size", "1"}}}};
    cluster_.Put(volume);
    cluster_.Put(MakeClaim("data", BoundClaim("pv-data")));
    if (with_driver) registry_.prober().List({driver_});
    cluster_.Start();
    ASSERT_TRUE(registry_->Init().ok());
    // Which has all that waits tried anew: not in the midst of what a test looks at.
    ASSERT_TRUE(cluster_.WaitUntil([&] { return !with_driver || changes_ > 0; }));
  }
  void CreateAttachment(const std::string& node = "node-a") {
    cluster_.Put({{"apiVersion", Attachment::kInfo.api_version()},
                  {"kind", Attachment::kInfo.kind},
                  {"metadata", {{"name", AttachmentName(node)}}},
                  {"spec",
                   {{"attacher", api::kFlexAttacher},
                    {"nodeName", node},
                    {"source", {{"persistentVolumeName", "pv-data"}}}}}});
  }
  void DeleteAttachment(const std::string& node = "node-a") {
    ASSERT_TRUE(kube::Delete(cluster_.client, Get(node)).ok());
  }
  static std::string AttachmentName(const std::string& node) {
    return api::ParseUniqueName(kUnique)->AttachmentName(api::NodeName(node));
  }
  Attachment Get(const std::string& node = "node-a") {
    return cluster_.Get<Attachment>("", AttachmentName(node));
  }
  bool WaitAttached(const std::string& node = "node-a") {
    return cluster_.WaitUntil([&] { return Get(node).attached(); });
  }
  bool WaitGone(const std::string& node = "node-a") {
    return cluster_.WaitUntil([&] { return !cluster_.Has<Attachment>("", AttachmentName(node)); });
  }
  std::atomic<int> changes_ = 0;
  const std::shared_ptr<volume::FakeDriverPlugin> driver_ =
      std::make_shared<volume::FakeDriverPlugin>(kDriver);
  FakeCluster cluster_;
  PluginAttacher* attacher_ = nullptr;
  volume::FakeRegistry registry_{[this](const std::string& plugin) {
    // It is there before the registry begins.
    attacher_->PluginChanged(plugin);
    ++changes_;
  }};
};

TEST_F(PluginAttacherTest, AttachesWithARecordBeforeAndTellsTheDevice) {
  Begin();
  CreateAttachment();
  ASSERT_TRUE(WaitAttached());
  EXPECT_EQ(Get().attacher(), api::kFlexAttacher);
  EXPECT_TRUE(Get().has_finalizer(kFinalizer));
  EXPECT_THAT(Get().attachment_metadata(), ElementsAre(Pair("devicePath", "/dev/pv-data")));
  EXPECT_THAT(driver_->Attached(), ElementsAre("pv-data node-a"));
}

TEST_F(PluginAttacherTest, DetachesWhatIsDeleted) {
  Begin();
  CreateAttachment();
  ASSERT_TRUE(WaitAttached());
  DeleteAttachment();
  ASSERT_TRUE(WaitGone());
  EXPECT_THAT(driver_->Attached(), IsEmpty());
}

TEST_F(PluginAttacherTest, AFailureIsToldAndTriedAgain) {
  Begin();
  driver_->FailNext("attach", base::Error(StatusCode::kInternal, "no room on the array"));
  CreateAttachment();
  ASSERT_TRUE(WaitAttached());
  EXPECT_TRUE(cluster_.events.WaitFor("FailedAttachVolume"));
  EXPECT_TRUE(cluster_.events.WaitFor("no room on the array"));
  EXPECT_EQ(Get().attach_error(), "");
}

TEST_F(PluginAttacherTest, AnAttachWhoseAnswerWasLostIsDetached) {
  Begin(true, {.retry_start = std::chrono::hours(1), .retry_max = std::chrono::hours(1)});
  driver_->FailNext("attach", base::Error(StatusCode::kDeadlineExceeded, "it was killed"),
                    /*takes_effect=*/true);
  CreateAttachment();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !Get().attach_error().empty(); }));
  EXPECT_FALSE(Get().attached());
  DeleteAttachment();
  ASSERT_TRUE(WaitGone());
  EXPECT_THAT(driver_->Attached(), IsEmpty());
}

TEST_F(PluginAttacherTest, ADetachThatFailsKeepsTheAttachment) {
  Begin();
  CreateAttachment();
  ASSERT_TRUE(WaitAttached());
  driver_->FailNext("detach", base::Error(StatusCode::kInternal, "the array is away"));
  DeleteAttachment();
  EXPECT_TRUE(cluster_.events.WaitFor("the array is away"));
  ASSERT_TRUE(WaitGone());
  EXPECT_THAT(driver_->Attached(), IsEmpty());
}

TEST_F(PluginAttacherTest, DetachesAVolumeWhoseObjectIsGone) {
  Begin();
  CreateAttachment();
  ASSERT_TRUE(WaitAttached());
  cluster_.client.Remove(api::PersistentVolume::kInfo, "", "pv-data");
  DeleteAttachment();
  ASSERT_TRUE(WaitGone());
  EXPECT_THAT(driver_->Attached(), IsEmpty());
}

TEST_F(PluginAttacherTest, WaitsForADriverThatComesLater) {
  Begin(/*with_driver=*/false);
  CreateAttachment();
  registry_.prober().List({driver_}, /*tell=*/true);
  EXPECT_TRUE(WaitAttached());
}

TEST_F(PluginAttacherTest, ADriverThatWasRemovedIsMissedByName) {
  Begin();
  CreateAttachment();
  ASSERT_TRUE(WaitAttached());
  registry_.prober().List({}, /*tell=*/true);
  ASSERT_TRUE(cluster_.WaitUntil([&] { return registry_->FindByName(kDriver) == nullptr; }));
  DeleteAttachment();
  EXPECT_TRUE(cluster_.events.WaitFor("volume plugin 'acme.io/block', which attached it, is not"));
  registry_.prober().List({driver_}, /*tell=*/true);
  ASSERT_TRUE(WaitGone());
  EXPECT_THAT(driver_->Attached(), IsEmpty());
}

TEST_F(PluginAttacherTest, WhatTheDriverLostIsAttachedAgain) {
  Begin(true, {.retry_start = 5ms, .retry_max = 40ms, .check = 10ms});
  CreateAttachment();
  ASSERT_TRUE(WaitAttached());
  driver_->Lose("pv-data node-a");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !driver_->Attached().empty(); }));
  EXPECT_TRUE(cluster_.events.WaitFor("VolumeNotAttached"));
}

}  // namespace
}  // namespace berth::controllers::pluginattacher
