#include "controllers/attacher/attacher.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <future>

#include "controllers/fake_cluster.h"

namespace berth::controllers::attacher {
namespace {

[[maybe_unused]] const auto* const kRights =
    CheckRightsOf("attacher", "csi/base/rbac/attacher.yaml",
                  {"get csinodes.storage.k8s.io", "get volumeattachments.storage.k8s.io"});

using base::Json;
using base::StatusCode;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using Attachment = api::VolumeAttachment;
using Volume = api::PersistentVolume;

constexpr char kFinalizer[] = "external-attacher/fake-csi-example-com";

Json MakeAttachment(const std::string& name, const Json& more = nullptr) {
  return Merged({{"apiVersion", "storage.k8s.io/v1"},
                 {"kind", "VolumeAttachment"},
                 {"metadata", {{"name", name}}},
                 {"spec",
                  {{"attacher", "fake.csi.example.com"},
                   {"nodeName", "node-a"},
                   {"source", {{"persistentVolumeName", "pv-1"}}}}}},
                more);
}

class AttacherTest : public ::testing::Test {
 protected:
  void Begin(rpc::FakeCsiDriver::Options driver = {}, Options options = Fast()) {
    cluster_.Add<Attacher>(cluster_.AddDriver(std::move(driver)), std::move(options));
    cluster_.AddVolume("pv-1");
    cluster_.Put(MakeCsiNode("node-a"));
    cluster_.Start();
  }
  static Options Fast() {
    Options options;
    options.retry_start = std::chrono::milliseconds(5);
    options.retry_max = std::chrono::milliseconds(50);
    return options;
  }

  rpc::CallScript& script() { return cluster_.driver->script(); }
  Attachment Get(const std::string& name) { return cluster_.Get<Attachment>("", name); }
  bool WaitAttached(const std::string& name) {
    return cluster_.WaitUntil([&] { return Get(name).attached(); });
  }
  bool WaitGone(const std::string& name) {
    return cluster_.WaitUntil([&] { return !cluster_.Has<Attachment>("", name); });
  }
  std::string Handle() { return cluster_.Get<Volume>("", "pv-1").csi().volume_handle(); }
  void Delete(const std::string& name) {
    ASSERT_TRUE(cluster_.client.Delete(Attachment::kInfo, "", name, {}).ok());
  }

  FakeCluster cluster_;
};

TEST_F(AttacherTest, HoldsVolumeAndAttachmentThenPublishesAndSaysSo) {
  Begin();
  cluster_.Put(MakeAttachment("va"));
  ASSERT_TRUE(WaitAttached("va"));
  const auto request =
      script().LastRequest<csi::v1::ControllerPublishVolumeRequest>("ControllerPublishVolume");
  EXPECT_EQ(request.volume_id(), Handle());
  EXPECT_EQ(request.node_id(), "id-of-node-a");
  EXPECT_EQ(request.volume_capability().mount().fs_type(), "ext4");
  EXPECT_FALSE(request.readonly());
  EXPECT_THAT(Get("va").finalizers(), ElementsAre(kFinalizer));
  EXPECT_EQ(Get("va").annotation("csi.alpha.kubernetes.io/node-id"), "id-of-node-a");
  EXPECT_TRUE(cluster_.Get<Volume>("", "pv-1").has_finalizer(kFinalizer));
  EXPECT_THAT(cluster_.client.ActionNames(),
              ElementsAre("patch persistentvolumes/pv-1", "patch volumeattachments/va",
                          "patch volumeattachments/va/status"));
}

TEST_F(AttacherTest, TheHoldsAreDurableBeforeTheDriverIsAsked) {
  Begin();
  script().Hang("ControllerPublishVolume");
  cluster_.Put(MakeAttachment("va"));
  ASSERT_TRUE(script().WaitFor("ControllerPublishVolume"));
  EXPECT_TRUE(Get("va").has_finalizer(kFinalizer));
  EXPECT_TRUE(cluster_.Get<Volume>("", "pv-1").has_finalizer(kFinalizer));
  EXPECT_FALSE(Get("va").attached());
  script().Release("ControllerPublishVolume");
  EXPECT_TRUE(WaitAttached("va"));
}

TEST_F(AttacherTest, AFailureIsWrittenWithItsCodeAndTriedAgain) {
  Begin();
  script().Fail("ControllerPublishVolume", base::Error(StatusCode::kResourceExhausted, "too many"));
  cluster_.Put(MakeAttachment("va"));
  ASSERT_TRUE(WaitAttached("va"));
  EXPECT_EQ(Get("va").attach_error(), "");
  bool seen = false;
  for (const std::string& action : cluster_.client.TakeActions()) {
    seen |= action.find(R"("errorCode":8)") != std::string::npos &&
            action.find("too many") != std::string::npos;
  }
  EXPECT_TRUE(seen);
}

TEST_F(AttacherTest, ItsOwnErrorWritesDoNotShortenTheBackoff) {
  Options slow;
  slow.retry_start = std::chrono::minutes(10);
  slow.retry_max = std::chrono::minutes(10);
  Begin({}, slow);
  script().Fail("ControllerPublishVolume", base::Error(StatusCode::kInternal, "no"),
                rpc::CallScript::kAlways);
  cluster_.Put(MakeAttachment("va"));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !Get("va").attach_error().empty(); }));
  cluster_.AddVolume("pv-2");
  cluster_.Put(
      MakeAttachment("other", {{"spec", {{"source", {{"persistentVolumeName", "pv-2"}}}}}}));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !Get("other").attach_error().empty(); }));
  EXPECT_EQ(script().Count("ControllerPublishVolume"), 2);
  // Its deletion does.
  Delete("va");
  EXPECT_TRUE(WaitGone("va"));
}

TEST_F(AttacherTest, DetachesAndThenTakesTheFinalizerOff) {
  Begin();
  cluster_.Put(MakeAttachment("va"));
  ASSERT_TRUE(WaitAttached("va"));
  cluster_.client.TakeActions();
  Delete("va");
  ASSERT_TRUE(WaitGone("va"));
  const auto request =
      script().LastRequest<csi::v1::ControllerUnpublishVolumeRequest>("ControllerUnpublishVolume");
  EXPECT_EQ(request.volume_id(), Handle());
  EXPECT_EQ(request.node_id(), "id-of-node-a");
}

TEST_F(AttacherTest, AnAttachmentThatPerhapsExistsIsDetached) {
  Begin();
  script().Fail("ControllerPublishVolume", base::Error(StatusCode::kDeadlineExceeded, "slow"),
                rpc::CallScript::kAlways);
  cluster_.Put(MakeAttachment("va"));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !Get("va").attach_error().empty(); }));
  Delete("va");
  ASSERT_TRUE(WaitGone("va"));
  EXPECT_GE(script().Count("ControllerUnpublishVolume"), 1);
}

TEST_F(AttacherTest, AFailedDetachKeepsTheObjectAndSaysWhy) {
  Begin();
  cluster_.Put(MakeAttachment("va"));
  ASSERT_TRUE(WaitAttached("va"));
  script().Fail("ControllerUnpublishVolume", base::Error(StatusCode::kInternal, "busy"),
                rpc::CallScript::kAlways);
  Delete("va");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !Get("va").detach_error().empty(); }));
  EXPECT_THAT(Get("va").detach_error(), HasSubstr("busy"));
  EXPECT_TRUE(Get("va").attached());
  script().Fail("ControllerUnpublishVolume", base::OkStatus(), 0);
  EXPECT_TRUE(WaitGone("va"));
}

TEST_F(AttacherTest, NoStatusIsWrittenWhileTheWatchStillShowsAnObjectThatIsGone) {
  Begin();
  cluster_.Put(MakeAttachment("va"));
  ASSERT_TRUE(WaitAttached("va"));
  script().Hang("ControllerUnpublishVolume");
  Delete("va");
  ASSERT_TRUE(script().WaitFor("ControllerUnpublishVolume"));
  cluster_.client.FailNext("watch", "volumeattachments",
                           base::Error(StatusCode::kUnavailable, "no watch"));
  cluster_.client.EndWatches();
  Attachment gone = Get("va");
  script().Release("ControllerUnpublishVolume");
  ASSERT_TRUE(WaitGone("va"));
  // Berth's API answers the write that ends an object with the version of its end, so the copy
  // changes, which queues the attachment again.
  gone.mutable_json()["metadata"].erase("finalizers");
  gone.mutable_json()["metadata"]["resourceVersion"] =
      fmt::format("{}", std::stoi(gone.resource_version()) + 1);
  cluster_.informers.Of<Attachment>().Observe(gone.json());
  cluster_.Put(MakeAttachment("vb"));
  ASSERT_TRUE(WaitAttached("vb"));
  EXPECT_EQ(std::ranges::count(cluster_.client.ActionNames(), "patch volumeattachments/va/status"),
            1);  // that it is attached
}

TEST_F(AttacherTest, AnotherFinalizerKeepsAnObjectThatSaysDetached) {
  Begin();
  cluster_.Put(MakeAttachment("va", {{"metadata", {{"finalizers", {"example.com/hold"}}}}}));
  ASSERT_TRUE(WaitAttached("va"));
  Delete("va");
  ASSERT_TRUE(cluster_.WaitUntil(
      [&] { return !Get("va").attached() && !Get("va").has_finalizer(kFinalizer); }));
  EXPECT_THAT(Get("va").finalizers(), ElementsAre("example.com/hold"));
}

TEST_F(AttacherTest, TheNodesIdIsKnownAfterTheNodeIsGone) {
  Begin();
  cluster_.Put(MakeAttachment("va"));
  ASSERT_TRUE(WaitAttached("va"));
  cluster_.client.Remove(api::CsiNode::kInfo, "", "node-a");
  Delete("va");
  ASSERT_TRUE(WaitGone("va"));
  EXPECT_EQ(script()
                .LastRequest<csi::v1::ControllerUnpublishVolumeRequest>("ControllerUnpublishVolume")
                .node_id(),
            "id-of-node-a");
}

TEST_F(AttacherTest, ANodeThatRegistersLaterIsNoticed) {
  Options slow;
  slow.retry_start = std::chrono::minutes(10);
  slow.retry_max = std::chrono::minutes(10);
  Begin({}, slow);
  cluster_.Put(MakeAttachment("va", {{"spec", {{"nodeName", "node-late"}}}}));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !Get("va").attach_error().empty(); }));
  EXPECT_THAT(Get("va").attach_error(),
              HasSubstr("csinode.storage.k8s.io \"node-late\" not found"));
  cluster_.Put(MakeCsiNode("node-late"));
  EXPECT_TRUE(WaitAttached("va"));
}

TEST_F(AttacherTest, AVolumeThatIsBeingDeletedIsNotAttached) {
  Begin();
  ASSERT_TRUE(cluster_.client.Delete(Volume::kInfo, "", "pv-1", {}).ok());
  cluster_.Put(MakeAttachment("va"));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !Get("va").attach_error().empty(); }));
  EXPECT_THAT(Get("va").attach_error(), HasSubstr("marked for deletion"));
  EXPECT_EQ(script().Count("ControllerPublishVolume"), 0);
}

TEST_F(AttacherTest, ADeletedVolumeIsLetGoWhenNoAttachmentNamesIt) {
  Begin();
  cluster_.Put(MakeAttachment("va"));
  ASSERT_TRUE(WaitAttached("va"));
  ASSERT_TRUE(cluster_.client.Delete(Volume::kInfo, "", "pv-1", {}).ok());
  Delete("va");
  EXPECT_TRUE(cluster_.WaitUntil(
      [&] { return !cluster_.Get<Volume>("", "pv-1").has_finalizer(kFinalizer); }));
  EXPECT_EQ(script().Count("ControllerUnpublishVolume"), 1);
}

TEST_F(AttacherTest, ADriverThatHasNothingToAttachAttachesAtOnce) {
  rpc::FakeCsiDriver::Options driver;
  driver.controller_capabilities = {DriverInfo::Rpc::CREATE_DELETE_VOLUME};
  Begin(driver);
  cluster_.Put(MakeAttachment("va"));
  ASSERT_TRUE(WaitAttached("va"));
  EXPECT_THAT(Get("va").finalizers(), IsEmpty());
  EXPECT_EQ(script().Count("ControllerPublishVolume"), 0);
  EXPECT_THAT(cluster_.client.ActionNames(), ElementsAre("patch volumeattachments/va/status"));
}

TEST_F(AttacherTest, AnErrorFromWhenTheDriverCouldAttachIsTakenOff) {
  rpc::FakeCsiDriver::Options driver;
  driver.controller_capabilities = {DriverInfo::Rpc::CREATE_DELETE_VOLUME};
  Begin(driver);
  cluster_.Put(MakeAttachment(
      "va", {{"status", {{"attached", false}, {"attachError", {{"message", "of before"}}}}}}));
  ASSERT_TRUE(WaitAttached("va"));
  EXPECT_EQ(Get("va").attach_error(), "");
}

TEST_F(AttacherTest, OtherDriversAttachmentsAreLeftAlone) {
  Begin();
  cluster_.Put(MakeAttachment("theirs", {{"spec", {{"attacher", "another.example.com"}}}}));
  cluster_.Put(MakeAttachment("va"));
  ASSERT_TRUE(WaitAttached("va"));
  EXPECT_FALSE(Get("theirs").attached());
  EXPECT_THAT(Get("theirs").finalizers(), IsEmpty());
}

TEST_F(AttacherTest, AReadOnlyVolumeIsPublishedReadOnlyWhereTheDriverCan) {
  rpc::FakeCsiDriver::Options driver;
  driver.controller_capabilities.insert(DriverInfo::Rpc::PUBLISH_READONLY);
  Begin(driver);
  cluster_.AddVolume("pv-ro", {{"spec", {{"csi", {{"readOnly", true}}}}}});
  cluster_.Put(MakeAttachment("va", {{"spec", {{"source", {{"persistentVolumeName", "pv-ro"}}}}}}));
  ASSERT_TRUE(WaitAttached("va"));
  EXPECT_TRUE(script()
                  .LastRequest<csi::v1::ControllerPublishVolumeRequest>("ControllerPublishVolume")
                  .readonly());
}

TEST_F(AttacherTest, ALostAnswerOfTheApiIsRepairedByAskingAgain) {
  Begin();
  cluster_.client.LoseNextAnswer("patch", "volumeattachments",
                                 base::Error(StatusCode::kAborted, "lost"));
  cluster_.client.FailNext("patch", "volumeattachments/status",
                           base::Error(StatusCode::kAborted, "conflict"));
  cluster_.Put(MakeAttachment("va"));
  EXPECT_TRUE(WaitAttached("va"));
}

TEST_F(AttacherTest, ADriverThatIsThereAndSaysUnavailableKeepsTheBackoff) {
  Options slow;
  slow.retry_start = slow.retry_max = std::chrono::minutes(10);
  Begin({}, slow);
  rpc::CallScript& script = cluster_.driver->script();
  script.Fail("ControllerPublishVolume", base::Error(StatusCode::kUnavailable, "later"),
              rpc::CallScript::kAlways);
  cluster_.Put(MakeAttachment("va"));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !Get("va").attach_error().empty(); }));
  ASSERT_TRUE(script.WaitFor("ControllerGetCapabilities", 2)) << "its identity is read again";
  cluster_.Put(MakeAttachment("vb"));
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !Get("vb").attach_error().empty(); }));
  ASSERT_TRUE(script.WaitFor("ControllerGetCapabilities", 3));
  EXPECT_EQ(script.Count("ControllerPublishVolume"), 2);
}

TEST_F(AttacherTest, AnAbsentDriverIsWaitedForWithoutItsBackoff) {
  Options slow;
  slow.retry_start = std::chrono::minutes(10);
  slow.retry_max = std::chrono::minutes(10);
  Begin({}, slow);
  cluster_.Put(MakeAttachment("va"));
  ASSERT_TRUE(WaitAttached("va"));
  cluster_.driver->GoAway();
  Delete("va");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !Get("va").detach_error().empty(); }));
  ASSERT_TRUE(cluster_.driver->ComeBack().ok());
  EXPECT_TRUE(WaitGone("va"));
}

TEST_F(AttacherTest, ForADriverThatAttachesNothingCsiNodesAreNotAskedFor) {
  rpc::FakeCsiDriver::Options driver;
  driver.controller_capabilities = {DriverInfo::Rpc::CREATE_DELETE_VOLUME};
  Begin(driver);
  cluster_.Put(MakeAttachment("va"));
  ASSERT_TRUE(WaitAttached("va"));
  EXPECT_THAT(cluster_.allowed.used(), Not(Contains(HasSubstr("csinodes"))));
}

// The driver was updated, for example. CSINodes are listed only then, which takes a while.
TEST_F(AttacherTest, ADriverThatCanAttachLaterGetsTheIdOfTheNodeAndNobodySeesAnError) {
  rpc::FakeCsiDriver::Options driver;
  driver.controller_capabilities = {DriverInfo::Rpc::CREATE_DELETE_VOLUME};
  DriverConnection& connection = cluster_.AddDriver(driver);
  cluster_.Add<Attacher>(connection, Fast());
  struct Updates {
    std::atomic<int> ready = 0;
    std::promise<void> updated;
  };
  const auto updates = std::make_shared<Updates>();  // the connection outlives this function
  connection.OnReady([updates] {
    if (++updates->ready == 2) updates->updated.set_value();
  });
  cluster_.AddVolume("pv-1");
  cluster_.Put(MakeCsiNode("node-a"));
  for (int i = 0; i < 2; ++i) {
    cluster_.client.FailNext("list", "csinodes",
                             base::Error(base::StatusCode::kUnavailable, "not now"));
  }
  cluster_.Start();
  cluster_.driver->GoAway();
  cluster_.driver->state().options().controller_capabilities.insert(
      DriverInfo::Rpc::PUBLISH_UNPUBLISH_VOLUME);
  // The connection notices it by a call.
  EXPECT_FALSE(connection
                   .Call(&rpc::CsiClient::DeleteVolume, csi::v1::DeleteVolumeRequest(),
                         std::chrono::seconds(1))
                   .ok());
  ASSERT_TRUE(cluster_.driver->ComeBack().ok());
  ASSERT_EQ(updates->updated.get_future().wait_for(std::chrono::seconds(10)),
            std::future_status::ready);

  cluster_.Put(MakeAttachment("va"));
  ASSERT_TRUE(WaitAttached("va"));
  EXPECT_EQ(script()
                .LastRequest<csi::v1::ControllerPublishVolumeRequest>("ControllerPublishVolume")
                .node_id(),
            "id-of-node-a");
  EXPECT_THAT(cluster_.events.All(), IsEmpty());
  EXPECT_THAT(cluster_.client.ActionNames(),
              ElementsAre("patch persistentvolumes/pv-1", "patch volumeattachments/va",
                          "patch volumeattachments/va/status"));
}

TEST_F(AttacherTest, WithoutTheRightToCsiNodesNothingIsGuessed) {
  for (int i = 0; i < 20; ++i) {
    cluster_.client.FailNext("list", "csinodes",
                             base::Error(base::StatusCode::kPermissionDenied, "forbidden"));
  }
  Begin();
  cluster_.Put(MakeAttachment("va"));
  EXPECT_TRUE(cluster_.events.WaitFor("csinodes.storage.k8s.io are not listed"));
  EXPECT_EQ(script().Count("ControllerPublishVolume"), 0);
}

}  // namespace
}  // namespace berth::controllers::attacher
