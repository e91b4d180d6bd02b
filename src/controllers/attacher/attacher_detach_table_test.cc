// Every transition of an attachment or a volume that goes, and of a driver that attaches nothing.
#include "controllers/attacher/attacher_table_fixture.h"

namespace berth::controllers::attacher {
namespace {

using base::Error;
using base::StatusCode;
using Rpc = DriverInfo::Rpc;

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
       {Says("detachError", "rpc error: code = Internal desc = ", {R"("errorCode":null)"})},
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
      {"OneWhoseVolumeIsGoneIsLetGo",
       AttachmentOfVolume1(Deleting(Both(Held(), Source({{"persistentVolumeName", "pv-none"}})))),
       nullptr,
       {kFree},
       {},
       {"Warning FailedDetachVolume va: PersistentVolume \"pv-none\" is gone"},
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

INSTANTIATE_TEST_SUITE_P(Detach, AttacherTableTest, ::testing::ValuesIn(DetachCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Volume, AttacherTableTest, ::testing::ValuesIn(VolumeCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Trivial, AttacherTableTest, ::testing::ValuesIn(TrivialCases()), NameOf);

}  // namespace
}  // namespace berth::controllers::attacher
