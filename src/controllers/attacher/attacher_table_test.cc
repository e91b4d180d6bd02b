// Every transition of an attachment that is to be attached.
#include <atomic>
#include <thread>

#include "controllers/attacher/attacher_table_fixture.h"

namespace berth::controllers::attacher {
namespace {

using base::Error;
using base::StatusCode;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

TEST_P(AttacherTableTest, WritesAndCalls) {
  const Case& test = GetParam();
  rpc::FakeCsiDriver::Options driver;
  DriverConnection& connection = cluster_.AddDriver(driver);
  cluster_.Add<Attacher>(connection, OnceOnly());
  std::atomic<bool> ready = false;  // and the attacher was told
  connection.OnReady([&] { ready = true; });
  cluster_.AddVolume("pv-1", test.volume);
  if (test.volume.contains("spec") &&
      (test.volume["spec"].contains("gcePersistentDisk") || test.volume["spec"].contains("nfs"))) {
    api::PersistentVolume volume = cluster_.Get<api::PersistentVolume>("", "pv-1");
    volume.mutable_json()["spec"].erase("csi");
    cluster_.Put(volume);
  }
  cluster_.AddVolume("pv-sentinel");
  cluster_.Put(MakeCsiNode("node-a"));
  const auto put_attachment = [&] {
    if (!test.attachment.is_null()) cluster_.Put(test.attachment);
  };
  // What happens to a volume that goes depends on what is attached when it is first looked at.
  const bool goes = cluster_.Get<api::PersistentVolume>("", "pv-1").deleting();
  if (goes) put_attachment();
  if (test.given) test.given(cluster_);
  cluster_.Start();
  // A driver that becomes ready has all attachments tried anew: not while one is looked at.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!ready) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "the driver never became ready";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (!goes) put_attachment();

  cluster_.WaitUntil([&] { return Writes().size() >= test.writes.size(); });
  if (test.writes.empty() && !test.calls.empty()) {
    cluster_.driver->script().WaitFor(test.calls.back().substr(0, test.calls.back().find(' ')));
  }
  WaitForSentinel();
  const std::vector<std::string> calls = Calls();
  const std::vector<std::string> names = Writes();
  std::vector<std::string> bodies = cluster_.client.TakeActions();
  std::erase_if(bodies, IsOfSentinel);

  EXPECT_THAT(calls, ElementsAreArray(test.calls));
  ASSERT_EQ(names.size(), test.writes.size()) << ::testing::PrintToString(bodies);
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(names[i], test.writes[i].name);
    for (const std::string& part : test.writes[i].parts) EXPECT_THAT(bodies[i], HasSubstr(part));
  }
  for (const std::string& event : test.events) EXPECT_GE(cluster_.events.Count(event), 1) << event;
  if (test.events.empty()) EXPECT_EQ(cluster_.events.Count(" va: "), 0);
}

std::vector<Case> AttachCases() {
  return {
      {"TheFirstAttachmentOfAVolumeTakesThreeWrites",
       AttachmentOfVolume1(),
       nullptr,
       {kHoldVolume, kHold, kSayAttached},
       {kPublish},
       {},
       {}},
      {"TheNextOneTakesTwo",
       AttachmentOfVolume1(),
       HeldVolume(),
       {kHold, kSayAttached},
       {kPublish},
       {},
       {}},
      {"OneThatWasHeldBeforeAStopIsPublished",
       AttachmentOfVolume1(Held()),
       HeldVolume(),
       {kSayAttached},
       {kPublish},
       {},
       {}},
      {"OneThatIsAttachedIsLeftAlone",
       AttachmentOfVolume1(Attached(Held())),
       HeldVolume(),
       {},
       {},
       {},
       {}},
      {"AnotherDriversIsLeftAlone",
       AttachmentOfVolume1({{"spec", {{"attacher", "another.example.com"}}}}),
       nullptr,
       {},
       {},
       {},
       {}},
      {"AFinalFailureIsSaidWithItsCode",
       AttachmentOfVolume1(),
       nullptr,
       {kHoldVolume, kHold,
        Says("attachError", "rpc error: code = InvalidArgument desc = ",
             {R"("errorCode":3)", R"("attached":false)"})},
       {kPublish},
       {"Warning FailedAttachVolume va: rpc error: code = InvalidArgument"},
       Fails("ControllerPublishVolume", StatusCode::kInvalidArgument, "no such mode")},
      {"AnUnknownOutcomeIsSaidAndStaysHeld",
       AttachmentOfVolume1(),
       nullptr,
       {kHoldVolume, kHold, Says("attachError", "DeadlineExceeded", {R"("errorCode":4)"})},
       {kPublish},
       {"Warning FailedAttachVolume va"},
       Fails("ControllerPublishVolume", StatusCode::kDeadlineExceeded, "slow")},
      {"TheSameFailureIsNotWrittenAgain",
       AttachmentOfVolume1(Both(Held(), {{"status",
                                          {{"attached", false},
                                           {"attachError",
                                            {{"message",
                                              "rpc error: code = Internal desc = "
                                              "no"}}}}}})),
       HeldVolume(),
       {},
       {kPublish},
       {"Warning FailedAttachVolume va"},
       Fails("ControllerPublishVolume", StatusCode::kInternal, "no")},
      {"ALongMessageIsCut",
       AttachmentOfVolume1(Held()),
       HeldVolume(),
       {AttachError(R"(xxx...")")},
       {kPublish},
       {"Warning FailedAttachVolume va"},
       Fails("ControllerPublishVolume", StatusCode::kInternal, std::string(3000, 'x'))},
      {"AMissingVolumeIsSaid",
       AttachmentOfVolume1(Source({{"persistentVolumeName", "pv-none"}})),
       nullptr,
       {Says("attachError", "pv-none", {R"("errorCode":null)"})},
       {},
       {"Warning FailedAttachVolume va"},
       {}},
      {"AVolumeThatGoesIsNotAttached",
       AttachmentOfVolume1(),
       Deleting({{"metadata", {{"finalizers", {"kubernetes.io/pv-protection"}}}}}),
       {AttachError("marked for deletion")},
       {},
       {"Warning FailedAttachVolume va"},
       {}},
      {"AnotherDriversVolumeIsSaid",
       AttachmentOfVolume1(),
       {{"spec", {{"csi", {{"driver", "another.example.com"}}}}}},
       {AttachError("is of driver 'another.example.com'")},
       {},
       {"Warning FailedAttachVolume va"},
       {}},
      {"AVolumeThatIsNoCsiVolumeIsSaid",
       AttachmentOfVolume1(),
       {{"spec", {{"csi", nullptr}, {"nfs", {{"server", "s"}, {"path", "/"}}}}}},
       {AttachError("no CSI volume")},
       {},
       {"Warning FailedAttachVolume va"},
       {}},
      {"AVolumeOfAPluginThatAnotherDriverReplacesIsSaid",
       AttachmentOfVolume1(),
       InTree(),
       {AttachError("is of driver 'pd.csi.storage.gke.io'")},
       {},
       {"Warning FailedAttachVolume va"},
       {}},
      {"ASourceOfNoneIsSaid",
       AttachmentOfVolume1(Source({{"persistentVolumeName", nullptr}})),
       nullptr,
       {AttachError("neither")},
       {},
       {"Warning FailedAttachVolume va"},
       {}},
      {"ASourceOfTwoIsSaid",
       AttachmentOfVolume1(Both(Inline(), Source({{"persistentVolumeName", "pv-1"}}))),
       nullptr,
       {AttachError("both")},
       {},
       {"Warning FailedAttachVolume va"},
       {}},
      {"ModesThatDoNotGoTogetherAreSaid",
       AttachmentOfVolume1(),
       {{"spec", {{"accessModes", {"ReadOnlyMany", "ReadWriteOnce"}}}}},
       {AttachError("ReadOnlyMany and ReadWriteOnce")},
       {},
       {"Warning FailedAttachVolume va"},
       {}},
      {"AMissingSecretIsSaidBeforeAnythingIsHeld",
       AttachmentOfVolume1(),
       {{"spec",
         {{"csi", {{"controllerPublishSecretRef", {{"name", "keys"}, {"namespace", "vault"}}}}}}}},
       {AttachError("read secret 'vault/keys'")},
       {},
       {"Warning FailedAttachVolume va"},
       {}},
      {"ANodeWithoutTheDriverIsSaid",
       AttachmentOfVolume1({{"spec", {{"nodeName", "node-b"}}}}),
       nullptr,
       {AttachError("CSINode node-b does not contain driver fake.csi.example.com")},
       {},
       {"Warning FailedAttachVolume va"},
       [](FakeCluster& cluster) {
         Json node = MakeCsiNode("node-b");
         node["spec"]["drivers"] = Json::array();
         cluster.Put(node);
       }},
      {"ANodeWithoutCsiNodeIsSaidWhateverIsRecorded",
       AttachmentOfVolume1(Both(Held("remembered"), {{"spec", {{"nodeName", "node-b"}}}})),
       HeldVolume(),
       {AttachError(R"(csinode.storage.k8s.io \"node-b\" not found)")},
       {},
       {"Warning FailedAttachVolume va"},
       {}},
      {"ANodeMadeAnewIsLeftUnderItsOldIdFirst",
       AttachmentOfVolume1(Held("id-of-the-old-node")),
       HeldVolume(),
       {kHold, kSayAttached},
       {"ControllerUnpublishVolume vol-1 id-of-the-old-node", kPublish},
       {},
       {}},
      {"WhatCannotLeaveItsOldNodeIsNotForgotten",
       AttachmentOfVolume1(Held("id-of-the-old-node")),
       HeldVolume(),
       {AttachError("desc = busy")},
       {"ControllerUnpublishVolume vol-1 id-of-the-old-node"},
       {"Warning FailedAttachVolume va"},
       Fails("ControllerUnpublishVolume", StatusCode::kInternal, "busy")},
      {"AnInlineVolumeIsAttachedWithoutAPersistentVolume",
       AttachmentOfVolume1(Inline()),
       nullptr,
       {kHold, kSayAttached},
       {kPublish},
       {},
       {}},
      {"AnInlineVolumeThatIsNoCsiVolumeIsSaid",
       AttachmentOfVolume1(
           Source({{"persistentVolumeName", nullptr},
                   {"inlineVolumeSpec", {{"gcePersistentDisk", {{"pdName", "x"}}}}}})),
       nullptr,
       {AttachError("the inline volume is no CSI volume")},
       {},
       {"Warning FailedAttachVolume va"},
       {}},
      {"AnEarlierPublicationsContextIsReplaced",
       AttachmentOfVolume1(Both(
           Held(),
           {{"status",
             {{"attached", false}, {"attachmentMetadata", {{"old", "x"}, {"device", "y"}}}}}})),
       HeldVolume(),
       {{"patch volumeattachments/va/status",
         {R"("attachmentMetadata":{"device":"/dev/vol-1","old":null})"}}},
       {kPublish},
       {},
       {}},
      {"AContextThatTheApiRefusesIsSaid",
       AttachmentOfVolume1(Held()),
       HeldVolume(),
       {{"patch volumeattachments/va/status", {R"("attached":true)"}},
        AttachError("metadata: Too long")},
       {kPublish},
       {"Warning FailedAttachVolume va"},
       [](FakeCluster& cluster) {
         cluster.client.FailNext("patch", "volumeattachments/status",
                                 Error(StatusCode::kInvalidArgument, "metadata: Too long"));
       }},
      {"AConflictIsComputedAnew",
       AttachmentOfVolume1(),
       HeldVolume(),
       {{"patch volumeattachments/va", {}}, kHold, kSayAttached},
       {kPublish},
       {},
       [](FakeCluster& cluster) {
         cluster.client.FailNext("patch", "volumeattachments",
                                 Error(StatusCode::kAborted, "conflict"));
       }},
      {"AForbiddenHoldOfTheVolumeIsSaidAndNothingCalled",
       AttachmentOfVolume1(),
       nullptr,
       {{"patch persistentvolumes/pv-1", {}},
        AttachError("could not add PersistentVolume finalizer: forbidden")},
       {},
       {"Warning FailedAttachVolume va: could not add PersistentVolume finalizer: forbidden"},
       RefusesPatch("persistentvolumes", StatusCode::kPermissionDenied, "forbidden")},
      {"AnInvalidHoldOfTheVolumeIsSaid",
       AttachmentOfVolume1(),
       nullptr,
       {{"patch persistentvolumes/pv-1", {}},
        AttachError("could not add PersistentVolume finalizer: not so")},
       {},
       {"Warning FailedAttachVolume va: could not add PersistentVolume finalizer: not so"},
       RefusesPatch("persistentvolumes", StatusCode::kInvalidArgument, "not so")},
      {"ABrokenWebhookIsSaid",
       AttachmentOfVolume1(),
       nullptr,
       {{"patch persistentvolumes/pv-1", {}},
        AttachError("could not add PersistentVolume finalizer: webhook")},
       {},
       {"Warning FailedAttachVolume va: could not add PersistentVolume finalizer: webhook"},
       RefusesPatch("persistentvolumes", StatusCode::kInternal, "webhook")},
      {"AForbiddenHoldOfTheAttachmentIsSaidAndNothingCalled",
       AttachmentOfVolume1(),
       HeldVolume(),
       {{"patch volumeattachments/va", {}},
        AttachError("could not add VolumeAttachment finalizer: forbidden")},
       {},
       {"Warning FailedAttachVolume va: could not add VolumeAttachment finalizer: forbidden"},
       RefusesPatch("volumeattachments", StatusCode::kPermissionDenied, "forbidden")},
      {"AnInvalidHoldOfTheAttachmentIsSaid",
       AttachmentOfVolume1(),
       HeldVolume(),
       {{"patch volumeattachments/va", {}},
        AttachError("could not add VolumeAttachment finalizer: not so")},
       {},
       {"Warning FailedAttachVolume va: could not add VolumeAttachment finalizer: not so"},
       RefusesPatch("volumeattachments", StatusCode::kInvalidArgument, "not so")},
      {"AnAttachmentThatVanishedWhileItWasPublishedNeedsNothingMore",
       AttachmentOfVolume1(Held()),
       HeldVolume(),
       {{"patch volumeattachments/va/status", {R"("attached":true)", R"("uid":"uid-va")"}}},
       {kPublish},
       {},
       RefusesPatch("volumeattachments/status", StatusCode::kNotFound, "gone")},
      {"AnApiThatIsAwayIsNoErrorOfTheAttachment",
       AttachmentOfVolume1(),
       HeldVolume(),
       {{"patch volumeattachments/va", {}}, kHold, kSayAttached},
       {kPublish},
       {},
       [](FakeCluster& cluster) {
         cluster.client.FailNext("patch", "volumeattachments",
                                 Error(StatusCode::kUnavailable, "refused"));
       }},
  };
}

INSTANTIATE_TEST_SUITE_P(Attach, AttacherTableTest, ::testing::ValuesIn(AttachCases()), NameOf);

}  // namespace
}  // namespace berth::controllers::attacher
