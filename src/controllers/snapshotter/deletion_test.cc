// The transitions of contents that share a snapshot, and of those that end: objects in, what the
// driver is asked, and what becomes of both.
#include <algorithm>

#include "controllers/snapshotter/snapshotter_fixture.h"

namespace berth::controllers::snapshotter {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Values;
using Answer = csi::v1::CreateSnapshotResponse;

// -- one snapshot, several contents

TEST_F(SnapshotterTest, ASnapshotIsGivenToOneContentOnly) {
  struct Case {
    std::string owner;
    std::function<Json(const std::string&)> more;
  };
  for (const Case& one : {Case{"taken", ReadyContent}, Case{"imported a moment ago", Existing}}) {
    SCOPED_TRACE(one.owner);
    Bed fresh;
    fresh.Begin();
    const std::string taken = fresh.AddToDriver();
    // Nobody has adopted it yet: what a person wrote is enough.
    fresh.script().Fail("ListSnapshots", base::Error(StatusCode::kInternal, "no"),
                        CallScript::kAlways);
    fresh.cluster_.driver->state().options().on_snapshot = [taken](Answer& answer) {
      answer.mutable_snapshot()->set_snapshot_id(taken);
    };
    fresh.cluster_.Put(MakeContent("owner", fresh.handle_, one.more(taken)));
    ASSERT_TRUE(fresh.cluster_.WaitUntil([&] {
      return fresh.cluster_.informers.Of<Content>().Get("snapcontent-uid-owner") != nullptr;
    }));
    fresh.Add();
    ASSERT_TRUE(fresh.WaitError("belongs to VolumeSnapshotContent 'snapcontent-uid-owner'"));
    EXPECT_EQ(fresh.Get().snapshot_handle(), "");
  }
}

// The first one has it, although its object does not say so yet.
TEST_F(SnapshotterTest, OfTwoWorkersThatGetTheSameSnapshotOneHasIt) {
  rpc::FakeCsiDriver::Options driver;
  driver.on_snapshot = [](Answer& answer) {
    answer.mutable_snapshot()->set_snapshot_id("snap-shared");
  };
  Begin(driver);
  // The write of the first is tried again after a second.
  cluster_.client.FailNext("patch", "volumesnapshotcontents/status",
                           base::Error(StatusCode::kUnavailable, "the API is away"));
  Add();
  ASSERT_TRUE(cluster_.WaitUntil([&] {
    const auto actions = cluster_.client.ActionNames();
    return std::ranges::count(actions,
                              "patch volumesnapshotcontents/snapcontent-uid-monday/status") == 1;
  }));
  cluster_.Put(MakeContent("tuesday", handle_));
  const auto tuesday = [&] { return cluster_.Get<Content>("", "snapcontent-uid-tuesday"); };
  ASSERT_TRUE(cluster_.WaitUntil([&] { return tuesday().has_status(); }));
  ASSERT_TRUE(WaitReady());
  EXPECT_EQ(Get().snapshot_handle(), "snap-shared");
  EXPECT_EQ(tuesday().snapshot_handle(), "");
  EXPECT_THAT(tuesday().error(), HasSubstr("belongs to VolumeSnapshotContent"));
}

TEST_F(SnapshotterTest, AContentThatWentGivesItsSnapshotFree) {
  rpc::FakeCsiDriver::Options driver;
  driver.on_snapshot = [](Answer& answer) {
    answer.mutable_snapshot()->set_snapshot_id("snap-shared");
  };
  Begin(driver);
  Add();
  ASSERT_TRUE(WaitReady());
  cluster_.Put(MakeContent("tuesday", handle_));
  const auto tuesday = [&] { return cluster_.Get<Content>("", "snapcontent-uid-tuesday"); };
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !tuesday().error().empty(); }));
  Write(kContent, {{"metadata", {{"finalizers", nullptr}}}});
  Delete();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return tuesday().ready(); }));
}

// -- deletion: by policy, by whose decision it is, and by who else stands for the snapshot

struct DeleteRow {
  std::string name;
  bool dynamic;
  bool bound;  // a VolumeSnapshot, whose controller says "being-deleted"
  const char* policy;
  bool gone;
  bool destroyed;
};

class DeleteTest : public SnapshotterTest, public ::testing::WithParamInterface<DeleteRow> {};

TEST_P(DeleteTest, DestroysDataOnlyWhereItIsMeant) {
  const DeleteRow& row = GetParam();
  Begin();
  const std::string old = AddToDriver();
  Json more = row.dynamic ? ReadyContent(old) : Existing(old);
  more["metadata"]["finalizers"] = {kContentProtection};
  more["spec"]["deletionPolicy"] = row.policy;
  if (row.bound) more.merge_patch(kDeleted);
  Add(more);
  ASSERT_TRUE(WaitReady());
  Delete();
  if (row.gone) {
    ASSERT_TRUE(WaitGone());
  } else {
    cluster_.Put(MakeContent("barrier", handle_));
    ASSERT_TRUE(cluster_.WaitUntil(
        [&] { return cluster_.Get<Content>("", "snapcontent-uid-barrier").ready(); }));
    EXPECT_TRUE(cluster_.Has<Content>("", kContent));
  }
  EXPECT_EQ(script().Count("DeleteSnapshot"), row.destroyed ? 1 : 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, DeleteTest,
    Values(DeleteRow{"taken and told", true, true, "Delete", true, true},
           DeleteRow{"taken kept", true, true, "Retain", true, false},
           DeleteRow{"taken by mistake", true, false, "Delete", false, false},
           DeleteRow{"taken kept by mistake", true, false, "Retain", false, false},
           DeleteRow{"imported and told", false, true, "Delete", true, true},
           DeleteRow{"imported kept", false, true, "Retain", true, false},
           DeleteRow{"imported by nobody", false, false, "Delete", true, true},
           DeleteRow{"imported kept by nobody", false, false, "Retain", true, false}),
    RowName<::testing::TestParamInfo<DeleteRow>>);

struct TwinRow {
  std::string name;
  Json twin;       // over an imported one with the same handle, policy Retain
  bool destroyed;  // although it is there
};

class TwinTest : public SnapshotterTest, public ::testing::WithParamInterface<TwinRow> {};

TEST_P(TwinTest, KeepsTheDataOfAnother) {
  Begin();
  const std::string old = AddToDriver();
  Json twin = Existing(old);
  twin["spec"]["deletionPolicy"] = "Retain";
  twin.merge_patch(GetParam().twin);
  cluster_.Put(MakeContent("twin", handle_, twin));
  Json more = ReadyContent(old);
  more.merge_patch(kDeleted);
  Add(more);
  ASSERT_TRUE(cluster_.WaitUntil([&] {
    const auto& contents = cluster_.informers.Of<Content>();
    return contents.Get("snapcontent-uid-twin") != nullptr && contents.Get(kContent) != nullptr;
  }));
  Delete();
  if (!GetParam().destroyed) {
    ASSERT_TRUE(WaitError("is VolumeSnapshotContent 'snapcontent-uid-twin', too"));
    EXPECT_TRUE(cluster_.events.WaitFor(
        "Warning SnapshotDeleteError snapcontent-uid-monday: Failed to delete snapshot: snapshot"));
    EXPECT_EQ(script().Count("DeleteSnapshot"), 0);
    EXPECT_EQ(Get().snapshot_handle(), old);
    Write("snapcontent-uid-twin", {{"metadata", {{"finalizers", nullptr}}}});
    ASSERT_TRUE(cluster_.client.Delete(Content::kInfo, "", "snapcontent-uid-twin", {}).ok());
  }
  ASSERT_TRUE(WaitGone());
  EXPECT_THAT(cluster_.driver->state().SnapshotIds(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    All, TwinTest,
    Values(TwinRow{"imported", Json::object(), false},
           TwinRow{"imported to be deleted with its snapshot",
                   {{"spec", {{"deletionPolicy", "Delete"}}}},
                   false},
           TwinRow{"ready", ReadyContent("snap-2"), false},
           TwinRow{"of another node",
                   {{"metadata", {{"labels", {{kManagedByNode, "node-b"}}}}}},
                   false},
           TwinRow{"of another driver", {{"spec", {{"driver", "other.example.com"}}}}, true}),
    RowName<::testing::TestParamInfo<TwinRow>>);

TEST_F(SnapshotterTest, ADeletionThatWaitedForAnotherGoesOnWhenThatGoes) {
  Begin({}, Slow());
  const std::string old = AddToDriver();
  Json both = ReadyContent(old);
  both.merge_patch(kDeleted);
  cluster_.Put(MakeContent("twin", handle_, both));
  Add(both);
  ASSERT_TRUE(cluster_.WaitUntil(
      [&] { return cluster_.informers.Of<Content>().Get("snapcontent-uid-twin") != nullptr; }));
  Delete();
  ASSERT_TRUE(WaitError("'snapcontent-uid-twin', too"));
  // It is to be deleted itself now: nobody wants the data.
  ASSERT_TRUE(cluster_.client.Delete(Content::kInfo, "", "snapcontent-uid-twin", {}).ok());
  ASSERT_TRUE(WaitGone());
  ASSERT_TRUE(
      cluster_.WaitUntil([&] { return !cluster_.Has<Content>("", "snapcontent-uid-twin"); }));
  EXPECT_THAT(cluster_.driver->state().SnapshotIds(), IsEmpty());
}

// -- a failed DeleteSnapshot: whatever the failure is, the call is repeated until it succeeds

class DeleteFailureTest : public SnapshotterTest,
                          public ::testing::WithParamInterface<StatusCode> {};

TEST_P(DeleteFailureTest, KeepsTheHandleAndIsRepeated) {
  Begin();
  Add(kDeleted);
  ASSERT_TRUE(WaitReady());
  const std::string handle = Get().snapshot_handle();
  script().Fail("DeleteSnapshot", base::Error(GetParam(), "said the driver"), CallScript::kAlways);
  Delete();
  ASSERT_TRUE(WaitError("desc = said the driver"));
  ASSERT_TRUE(script().WaitFor("DeleteSnapshot", 3));
  EXPECT_EQ(Get().snapshot_handle(), handle);
  EXPECT_TRUE(Get().has_finalizer(kContentProtection));
  script().Fail("DeleteSnapshot", base::OkStatus(), 0);
  ASSERT_TRUE(WaitGone());
  EXPECT_THAT(cluster_.driver->state().SnapshotIds(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(All, DeleteFailureTest,
                         Values(StatusCode::kCancelled, StatusCode::kDeadlineExceeded,
                                StatusCode::kUnavailable, StatusCode::kAborted,
                                StatusCode::kNotFound, StatusCode::kFailedPrecondition,
                                StatusCode::kInternal),
                         [](const auto& info) {
                           std::string name(base::CodeName(info.param));
                           std::erase(name, '_');
                           return name;
                         });

TEST_F(SnapshotterTest, ADeletionWhoseAnswerIsLostIsAskedAgain) {
  Begin();
  Add(kDeleted);
  ASSERT_TRUE(WaitReady());
  script().LoseAnswer("DeleteSnapshot");
  Delete();
  ASSERT_TRUE(WaitGone());
  EXPECT_EQ(script().Count("DeleteSnapshot"), 2);
}

// A handle is known, so that the mark holds nothing up; and nothing is taken once more.
TEST_F(SnapshotterTest, AMarkBesideAHandleHoldsNoDeletionUp) {
  Begin({}, Slow());
  const std::string old = AddToDriver();
  script().Fail("CreateSnapshot", base::Error(StatusCode::kInternal, "no"), CallScript::kAlways);
  Json more = ReadyContent(old);
  more.merge_patch(kDeleted);
  more["metadata"]["annotations"][std::string(kBeingCreated)] = "yes";
  Add(more);
  Delete();
  ASSERT_TRUE(WaitGone());
  EXPECT_THAT(cluster_.driver->state().SnapshotIds(), IsEmpty());
}

}  // namespace
}  // namespace berth::controllers::snapshotter
