// Every transition of an attachment: objects in, writes and CSI calls out.
#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <thread>

#include "controllers/attacher/attacher.h"
#include "controllers/fake_cluster.h"

namespace berth::controllers::attacher {
namespace {

using base::Error;
using base::Json;
using base::StatusCode;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using Rpc = DriverInfo::Rpc;

constexpr char kAttacherFinalizer[] = "external-attacher/fake-csi-example-com";
constexpr char kNodeIdKey[] = "csi.alpha.kubernetes.io/node-id";

// "va" of volume pv-1 to node-a; `more` is merged over it.
Json AttachmentOfVolume1(const Json& more = nullptr) {
  return Merged({{"apiVersion", "storage.k8s.io/v1"},
                 {"kind", "VolumeAttachment"},
                 {"metadata", {{"name", "va"}, {"uid", "uid-va"}}},
                 {"spec",
                  {{"attacher", "fake.csi.example.com"},
                   {"nodeName", "node-a"},
                   {"source", {{"persistentVolumeName", "pv-1"}}}}}},
                more);
}
Json Held(const std::string& node_id = "id-of-node-a") {
  return {{"metadata",
           {{"finalizers", {kAttacherFinalizer}}, {"annotations", {{kNodeIdKey, node_id}}}}}};
}
Json Deleting(Json more = Json::object()) {
  more["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  return more;
}
Json Attached(Json more) {
  more["status"] = {{"attached", true}, {"attachmentMetadata", {{"device", "/dev/vol-1"}}}};
  return more;
}
Json Source(Json source) { return {{"spec", {{"source", std::move(source)}}}}; }
Json Inline() {
  return Source({{"persistentVolumeName", nullptr},
                 {"inlineVolumeSpec",
                  {{"accessModes", {"ReadWriteOnce"}},
                   {"capacity", {{"storage", "1Gi"}}},
                   {"csi", {{"driver", "fake.csi.example.com"}, {"volumeHandle", "vol-1"}}}}}});
}
Json Both(Json a, const Json& b) {
  a.merge_patch(b);
  return a;
}
Json HeldVolume(Json more = Json::object()) {
  more["metadata"]["finalizers"] = {"kubernetes.io/pv-protection", kAttacherFinalizer};
  return more;
}
Json InTree(const Json& more = Json::object()) {
  return Both({{"spec", {{"csi", nullptr}, {"gcePersistentDisk", {{"pdName", "x"}}}}}}, more);
}

// A write: its name, and parts that its body holds.
struct Write {
  std::string name;
  std::vector<std::string> parts;
};
const Write kHoldVolume{"patch persistentvolumes/pv-1", {kAttacherFinalizer, "resourceVersion"}};
const Write kHold{"patch volumeattachments/va",
                  {kAttacherFinalizer, R"("csi.alpha.kubernetes.io/node-id":"id-of-node-a")"}};
const Write kSayAttached{
    "patch volumeattachments/va/status",
    {R"("attached":true)", R"("attachError":null)", R"("device":"/dev/vol-1")"}};
const Write kFree{"patch volumeattachments/va", {R"("finalizers":[])", "resourceVersion"}};
const Write kSayDetached{
    "patch volumeattachments/va/status",
    {R"("attached":false)", R"("attachmentMetadata":null)", R"("detachError":null)"}};
Write Says(const std::string& field, const std::string& message,
           std::vector<std::string> more = {}) {
  more.push_back(fmt::format(R"("{}":{{)", field));
  more.push_back(message);
  return {"patch volumeattachments/va/status", std::move(more)};
}
Write AttachError(const std::string& message) {
  return Says("attachError", message, {R"("attached":false)"});
}

const std::string kPublish = "ControllerPublishVolume vol-1 id-of-node-a";
const std::string kUnpublish = "ControllerUnpublishVolume vol-1 id-of-node-a";

struct Case {
  std::string name;
  Json attachment;  // null: none
  Json volume;      // over pv-1
  std::vector<Write> writes;
  std::vector<std::string> calls;
  std::vector<std::string> events;
  std::function<void(FakeCluster&)> given;  // what else is so, before the attacher starts
};

void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

std::function<void(FakeCluster&)> Fails(const char* method, StatusCode code,
                                        const std::string& message) {
  return [=](FakeCluster& cluster) {
    cluster.driver->script().Fail(method, Error(code, "{}", message), rpc::CallScript::kAlways);
  };
}

std::function<void(FakeCluster&)> RefusesPatch(const char* resource, StatusCode code,
                                               const std::string& message) {
  return [=](FakeCluster& cluster) {
    cluster.client.FailNext("patch", resource, Error(code, "{}", message));
  };
}

class AttacherTableTest : public ::testing::TestWithParam<Case> {
 protected:
  static Options OnceOnly() {
    Options options;
    options.workers = 1;  // the sentinel comes after what is queued
    options.retry_start = options.retry_max = std::chrono::minutes(10);
    return options;
  }

  static bool IsOfSentinel(const std::string& text) {
    return text.find("sentinel") != std::string::npos;
  }

  std::vector<std::string> Writes() {
    std::vector<std::string> names = cluster_.client.ActionNames();
    std::erase_if(names, IsOfSentinel);
    return names;
  }

  std::vector<std::string> Calls() const {
    std::vector<std::string> calls;
    rpc::CallScript& script = cluster_.driver->script();
    size_t published = 0;
    size_t unpublished = 0;
    const auto publish =
        script.Requests<csi::v1::ControllerPublishVolumeRequest>("ControllerPublishVolume");
    const auto unpublish =
        script.Requests<csi::v1::ControllerUnpublishVolumeRequest>("ControllerUnpublishVolume");
    for (const std::string& method : script.Methods()) {
      std::string call;
      if (method == "ControllerPublishVolume") {
        const auto& request = publish[published++];
        call = fmt::format("{} {} {}", method, request.volume_id(), request.node_id());
      } else if (method == "ControllerUnpublishVolume") {
        const auto& request = unpublish[unpublished++];
        call = fmt::format("{} {} {}", method, request.volume_id(), request.node_id());
      }
      if (!call.empty() && call.find("sentinel") == std::string::npos) calls.push_back(call);
    }
    return calls;
  }

  // The attacher has gone through its queue.
  void WaitForSentinel() {
    cluster_.Put(MakeCsiNode("sentinel"));
    cluster_.Put(AttachmentOfVolume1(
        {{"metadata", {{"name", "sentinel"}, {"uid", "uid-sentinel"}}},
         {"spec",
          {{"nodeName", "sentinel"}, {"source", {{"persistentVolumeName", "pv-sentinel"}}}}}}));
    ASSERT_TRUE(cluster_.WaitUntil([&] {
      const auto sentinel = cluster_.Get<api::VolumeAttachment>("", "sentinel");
      return sentinel.attached() || !sentinel.attach_error().empty();
    }));
  }

  FakeCluster cluster_;
};

TEST_P(AttacherTableTest, WritesAndCalls) {
  const Case& test = GetParam();
  rpc::FakeCsiDriver::Options driver;
  DriverConnection& connection = cluster_.AddDriver(driver);
  cluster_.Add<Attacher>(connection, OnceOnly());
  std::atomic<bool> ready = false;  // and the attacher was told
  connection.OnReady([&] { ready = true; });
  // As older roles of the Go program grant it: the node's annotation is asked for where it may be.
  cluster_.allowed.Grant({{{"apiGroups", {""}}, {"resources", {"nodes"}}, {"verbs", {"get"}}}});
  cluster_.AddVolume("pv-1", test.volume);
  if (test.volume.contains("spec") && test.volume["spec"].contains("gcePersistentDisk")) {
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
       AttachmentOfVolume1(
           Both(Held(), {{"status",
                          {{"attached", false},
                           {"attachError",
                            {{"message",
                              "rpc error: code = Internal desc = ControllerPublishVolume: "
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
       InTree(),
       {AttachError("no CSI volume")},
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
      {"TheNodesAnnotationHasTheIdWhereCsiNodeHasNot",
       AttachmentOfVolume1({{"spec", {{"nodeName", "node-b"}}}}),
       HeldVolume(),
       {{"patch volumeattachments/va", {R"("csi.alpha.kubernetes.io/node-id":"b-of-old")"}},
        kSayAttached},
       {"ControllerPublishVolume vol-1 b-of-old"},
       {},
       [](FakeCluster& cluster) {
         cluster.Put(MakeNode("node-b", {{"metadata",
                                          {{"annotations",
                                            {{"csi.volume.kubernetes.io/nodeid",
                                              R"({"fake.csi.example.com":"b-of-old"})"}}}}}}));
       }},
      {"ACsiNodeThatVanishedLeavesTheIdOnTheAttachment",
       AttachmentOfVolume1(Both(Held("remembered"), {{"spec", {{"nodeName", "node-b"}}}})),
       HeldVolume(),
       {kSayAttached},
       {"ControllerPublishVolume vol-1 remembered"},
       {},
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
       {AttachError("ControllerUnpublishVolume: busy")},
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

std::vector<Case> DetachCases() {
  return {
      {"AnAttachedOneIsDetachedAndLetGo",
       AttachmentOfVolume1(Deleting(Attached(Held()))),
       HeldVolume(),
       {kFree},
       {kUnpublish},
       {},
       {}},
      {"OneThatPerhapsIsAttachedToo",
       AttachmentOfVolume1(Deleting(Held())),
       HeldVolume(),
       {kFree},
       {kUnpublish},
       {},
       {}},
      {"OneThatWasNeverHeldIsNot",
       AttachmentOfVolume1(Deleting({{"metadata", {{"finalizers", {"example.com/hold"}}}}})),
       nullptr,
       {},
       {},
       {},
       {}},
      {"WhatSomebodyElseKeepsSaysDetached",
       AttachmentOfVolume1(
           Deleting(Attached({{"metadata",
                               {{"finalizers", {kAttacherFinalizer, "example.com/hold"}},
                                {"annotations", {{kNodeIdKey, "id-of-node-a"}}}}}}))),
       HeldVolume(),
       {{"patch volumeattachments/va", {R"("finalizers":["example.com/hold"])"}}, kSayDetached},
       {kUnpublish},
       {},
       {}},
      {"WhatCouldNotBeSaidAfterTheFinalizerWentIsSaidLater",
       AttachmentOfVolume1(
           Deleting(Attached({{"metadata",
                               {{"finalizers", {kAttacherFinalizer, "example.com/hold"}},
                                {"annotations", {{kNodeIdKey, "id-of-node-a"}}}}}}))),
       HeldVolume(),
       {{"patch volumeattachments/va", {R"("finalizers":["example.com/hold"])"}},
        {"patch volumeattachments/va/status", {R"("attached":false)"}},
        kSayDetached},
       {kUnpublish},
       {},
       RefusesPatch("volumeattachments/status", StatusCode::kUnavailable, "refused")},
      {"AForbiddenReleaseIsSaid",
       AttachmentOfVolume1(Deleting(Attached(Held()))),
       HeldVolume(),
       {{"patch volumeattachments/va", {}},
        Says("detachError", "could not remove VolumeAttachment finalizer: forbidden")},
       {kUnpublish},
       {"Warning FailedDetachVolume va: could not remove VolumeAttachment finalizer: forbidden"},
       RefusesPatch("volumeattachments", StatusCode::kPermissionDenied, "forbidden")},
      {"AFailureIsSaidAndKeepsIt",
       AttachmentOfVolume1(Deleting(Attached(Held()))),
       HeldVolume(),
       {Says("detachError", "rpc error: code = Internal desc = ", {R"("errorCode":13)"})},
       {kUnpublish},
       {"Warning FailedDetachVolume va: rpc error: code = Internal"},
       Fails("ControllerUnpublishVolume", StatusCode::kInternal, "busy")},
      {"AnUnknownOutcomeKeepsIt",
       AttachmentOfVolume1(Deleting(Attached(Held()))),
       HeldVolume(),
       {Says("detachError", "DeadlineExceeded")},
       {kUnpublish},
       {"Warning FailedDetachVolume va"},
       Fails("ControllerUnpublishVolume", StatusCode::kDeadlineExceeded, "slow")},
      {"ItLeavesTheIdThatTheDriverWasGiven",
       AttachmentOfVolume1(Deleting(Attached(Held("id-of-the-old-node")))),
       HeldVolume(),
       {kFree},
       {"ControllerUnpublishVolume vol-1 id-of-the-old-node"},
       {},
       {}},
      {"AnIdFromCsiNodeWhereNoneIsRecorded",
       AttachmentOfVolume1(Deleting({{"metadata", {{"finalizers", {kAttacherFinalizer}}}}})),
       HeldVolume(),
       {kFree},
       {kUnpublish},
       {},
       {}},
      {"AMissingVolumeIsSaid",
       AttachmentOfVolume1(Deleting(Both(Held(), Source({{"persistentVolumeName", "pv-none"}})))),
       nullptr,
       {Says("detachError", "pv-none")},
       {},
       {"Warning FailedDetachVolume va"},
       {}},
      {"AnInlineVolumeIsDetached",
       Merged(AttachmentOfVolume1(Deleting(Held())), Inline()),
       nullptr,
       {kFree},
       {kUnpublish},
       {},
       {}},
      {"AConflictAsksTheDriverAgain",
       AttachmentOfVolume1(Deleting(Attached(Held()))),
       HeldVolume(),
       {{"patch volumeattachments/va", {}}, kFree},
       {kUnpublish, kUnpublish},
       {},
       [](FakeCluster& cluster) {
         cluster.client.FailNext("patch", "volumeattachments",
                                 Error(StatusCode::kAborted, "conflict"));
       }},
  };
}

std::vector<Case> VolumeCases() {
  const Write free{"patch persistentvolumes/pv-1",
                   {R"("finalizers":["kubernetes.io/pv-protection"])"}};
  return {
      {"ADeletedOneWithoutAttachmentIsLetGo", nullptr, Deleting(HeldVolume()), {free}, {}, {}, {}},
      {"ADeletedOneWithAttachmentIsHeld",
       AttachmentOfVolume1(Attached(Held())),
       Deleting(HeldVolume()),
       {},
       {},
       {},
       {}},
      {"OneThatIsNotDeletedIsHeld", nullptr, HeldVolume(), {}, {}, {}, {}},
      {"OneOfAPluginGoesBackToIt", nullptr, InTree(HeldVolume()), {free}, {}, {}, {}},
      {"OneThatWasMigratedToTheDriverIsHeld",
       nullptr,
       InTree(HeldVolume(
           {{"metadata",
             {{"annotations", {{"pv.kubernetes.io/migrated-to", "fake.csi.example.com"}}}}}})),
       {},
       {},
       {},
       {}},
      {"OneThatWasMigratedToAnotherDriverIsNot",
       nullptr,
       InTree(HeldVolume(
           {{"metadata",
             {{"annotations", {{"pv.kubernetes.io/migrated-to", "another.example.com"}}}}}})),
       {free},
       {},
       {},
       {}},
  };
}

// A driver that has nothing to attach.
std::vector<Case> TrivialCases() {
  const auto trivial = [](FakeCluster& cluster) {
    cluster.driver->state().options().controller_capabilities = {Rpc::CREATE_DELETE_VOLUME};
  };
  return {
      {"IsAttachedAtOnce",
       AttachmentOfVolume1(),
       nullptr,
       {{"patch volumeattachments/va/status", {R"("attached":true)"}}},
       {},
       {},
       trivial},
      {"NeedsNoVolume",
       AttachmentOfVolume1(Source({{"persistentVolumeName", "pv-none"}})),
       nullptr,
       {{"patch volumeattachments/va/status", {R"("attached":true)"}}},
       {},
       {},
       trivial},
      {"IsLetGoIfAnEarlierDriverHeldIt",
       AttachmentOfVolume1(Deleting(Attached(Held()))),
       HeldVolume(),
       {kFree},
       {},
       {},
       trivial},
  };
}

std::string NameOf(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Attach, AttacherTableTest, ::testing::ValuesIn(AttachCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Detach, AttacherTableTest, ::testing::ValuesIn(DetachCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Volume, AttacherTableTest, ::testing::ValuesIn(VolumeCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Trivial, AttacherTableTest, ::testing::ValuesIn(TrivialCases()), NameOf);

}  // namespace
}  // namespace berth::controllers::attacher
