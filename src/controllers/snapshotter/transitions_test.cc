// Each transition of a content until it is ready: objects in, what the driver is asked, and what
// becomes of both.
#include "controllers/snapshotter/snapshotter_fixture.h"

namespace berth::controllers::snapshotter {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::Values;
using Answer = csi::v1::CreateSnapshotResponse;

// -- a failed CreateSnapshot: whether there may be a snapshot from then on

// What was open when the driver was asked.
enum class Open {
  kNothing,  // the first call
  kSame,     // the same call, whose outcome is not known
  kOther,    // one with other parameters
  kForeign,  // one of another program, or of a version that notes less
};

struct FailureRow {
  std::string name;
  Open open;
  StatusCode code;
  bool kept;  // it may exist: "being-created" stays
};

class FailureTest : public SnapshotterTest, public ::testing::WithParamInterface<FailureRow> {
 protected:
  // A write of it has the class's contents looked at again; `speed` goes to the driver.
  static Json Class(const std::string& speed, const std::string& note) {
    return MakeSnapshotClass("snap", {{"metadata", {{"annotations", {{"note", note}}}}},
                                      {"parameters", {{"speed", speed}}}});
  }
  void Refuse(StatusCode code, const std::string& words) {
    script().Fail("CreateSnapshot", base::Error(code, "{}", words), CallScript::kAlways);
  }
};

TEST_P(FailureTest, LeavesOpenWhatItDoesNotProve) {
  const FailureRow& row = GetParam();
  Begin({}, Slow(), Class("high", "before"));
  Json more = kDeleted;
  if (row.open == Open::kForeign) {
    more["metadata"]["annotations"][std::string(kBeingCreated)] = "yes";
  }
  if (row.open == Open::kSame || row.open == Open::kOther) {
    Refuse(StatusCode::kDeadlineExceeded, "too late");
    Add(more);
    ASSERT_TRUE(WaitError("desc = too late"));
    Refuse(row.code, "said the driver");
    cluster_.Put(Class(row.open == Open::kOther ? "low" : "high", "after"));
  } else {
    Refuse(row.code, "said the driver");
    Add(more);
  }
  ASSERT_TRUE(WaitError("desc = said the driver")) << Get().error();
  EXPECT_EQ(Get().has_annotation(kBeingCreated), row.kept);
  EXPECT_EQ(Get().has_annotation(kCreateRequest), row.kept);

  // Its end: what may exist is asked for until it is known, and deleted.
  const int asked = script().Count("CreateSnapshot");
  script().Fail("CreateSnapshot", base::OkStatus(), 0);
  Delete();
  ASSERT_TRUE(WaitGone());
  EXPECT_EQ(script().Count("DeleteSnapshot"), row.kept ? 1 : 0);
  if (!row.kept) EXPECT_EQ(script().Count("CreateSnapshot"), asked);
  EXPECT_THAT(cluster_.driver->state().SnapshotIds(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    OfTheFirstCall, FailureTest,
    Values(FailureRow{"first cancelled", Open::kNothing, StatusCode::kCancelled, true},
           FailureRow{"first deadline", Open::kNothing, StatusCode::kDeadlineExceeded, true},
           FailureRow{"first unavailable", Open::kNothing, StatusCode::kUnavailable, true},
           FailureRow{"first aborted", Open::kNothing, StatusCode::kAborted, true},
           FailureRow{"first exhausted", Open::kNothing, StatusCode::kResourceExhausted, true},
           FailureRow{"first already exists", Open::kNothing, StatusCode::kAlreadyExists, true},
           FailureRow{"first not found", Open::kNothing, StatusCode::kNotFound, false},
           FailureRow{"first invalid", Open::kNothing, StatusCode::kInvalidArgument, false},
           FailureRow{"first precondition", Open::kNothing, StatusCode::kFailedPrecondition, false},
           FailureRow{"first denied", Open::kNothing, StatusCode::kPermissionDenied, false},
           FailureRow{"first internal", Open::kNothing, StatusCode::kInternal, false}),
    RowName<::testing::TestParamInfo<FailureRow>>);

INSTANTIATE_TEST_SUITE_P(
    AfterAnUnknownOutcome, FailureTest,
    Values(FailureRow{"same internal", Open::kSame, StatusCode::kInternal, false},
           FailureRow{"same not found", Open::kSame, StatusCode::kNotFound, false},
           FailureRow{"same exhausted", Open::kSame, StatusCode::kResourceExhausted, true},
           FailureRow{"same already exists", Open::kSame, StatusCode::kAlreadyExists, true},
           FailureRow{"same denied", Open::kSame, StatusCode::kPermissionDenied, true},
           FailureRow{"same unauthenticated", Open::kSame, StatusCode::kUnauthenticated, true},
           FailureRow{"other internal", Open::kOther, StatusCode::kInternal, true},
           FailureRow{"other invalid", Open::kOther, StatusCode::kInvalidArgument, true},
           FailureRow{"other already exists", Open::kOther, StatusCode::kAlreadyExists, true},
           FailureRow{"foreign internal", Open::kForeign, StatusCode::kInternal, false},
           FailureRow{"foreign not found", Open::kForeign, StatusCode::kNotFound, false}),
    RowName<::testing::TestParamInfo<FailureRow>>);

// -- an answer of CreateSnapshot

struct AnswerRow {
  std::string name;
  std::function<void(csi::v1::Snapshot&)> wrong;
  std::string told;  // in an event; empty: nothing
  bool taken;        // ready, and deleted as any other
  bool has_id;       // if not taken: it can be deleted nevertheless
};

class AnswerTest : public SnapshotterTest, public ::testing::WithParamInterface<AnswerRow> {};

TEST_P(AnswerTest, IsTakenOrRefusedAndCanBeDeleted) {
  const AnswerRow& row = GetParam();
  std::atomic<bool> cured = false;
  rpc::FakeCsiDriver::Options driver;
  driver.on_snapshot = [&](Answer& answer) {
    if (!cured) row.wrong(*answer.mutable_snapshot());
  };
  Begin(driver);
  Add();
  if (!row.told.empty()) {
    ASSERT_TRUE(cluster_.events.WaitFor(row.told));
  }
  if (row.taken) {
    ASSERT_TRUE(WaitReady());
    EXPECT_GE(Get().creation_nanoseconds(), 0);
    EXPECT_LE(Get().creation_nanoseconds(), 9'200'000'000 * 1'000'000'000);
    EXPECT_GE(Get().restore_bytes(), 0);
    EXPECT_EQ(Get().error(), "");
  } else {
    ASSERT_TRUE(script().WaitFor("CreateSnapshot", 2));
    EXPECT_FALSE(Get().ready());
    EXPECT_EQ(Get().annotation(kBeingCreated), "yes");
    EXPECT_EQ(Get().snapshot_handle(), "");
    // Whatever it says next, there is one.
    ASSERT_TRUE(
        cluster_.WaitUntil([&] { return Get().annotation(kCreateRequest) == kSeveralRequests; }));
  }
  Write(kContent, kDeleted);
  Delete();
  if (!row.taken && !row.has_id) {
    ASSERT_TRUE(script().WaitFor("CreateSnapshot", script().Count("CreateSnapshot") + 2));
    EXPECT_EQ(script().Count("DeleteSnapshot"), 0);
    cured = true;
  }
  ASSERT_TRUE(WaitGone());
  EXPECT_EQ(script().Count("DeleteSnapshot"), 1);
  EXPECT_THAT(cluster_.driver->state().SnapshotIds(), IsEmpty());
}

void SetTime(csi::v1::Snapshot& snapshot, int64_t seconds, int32_t nanos) {
  snapshot.mutable_creation_time()->set_seconds(seconds);
  snapshot.mutable_creation_time()->set_nanos(nanos);
}

INSTANTIATE_TEST_SUITE_P(
    All, AnswerTest,
    Values(AnswerRow{"right", [](auto&) {}, "", true, true},
           AnswerRow{"without time", [](auto& it) { it.clear_creation_time(); },
                     "Warning SnapshotCreationTimeMissing", true, true},
           AnswerRow{"of a far time", [](auto& it) { SetTime(it, 9'300'000'000, 0); },
                     "9300000000 s and 0 ns is no time", true, true},
           AnswerRow{"of the last time", [](auto& it) { SetTime(it, INT64_MAX, INT32_MAX); },
                     "is no time", true, true},
           AnswerRow{"of another source", [](auto& it) { it.set_source_volume_id("another"); }, "",
                     true, true},
           AnswerRow{"without id", [](auto& it) { it.clear_snapshot_id(); },
                     "the driver gave the snapshot no id", false, false}),
    RowName<::testing::TestParamInfo<AnswerRow>>);

TEST_F(SnapshotterTest, ASizeThatTheDriverDoesNotKnowIsLeftOut) {
  rpc::FakeCsiDriver::Options driver;
  driver.on_snapshot = [](Answer& answer) { answer.mutable_snapshot()->set_size_bytes(0); };
  Begin(driver);
  Add();
  ASSERT_TRUE(WaitReady());
  EXPECT_FALSE(Get().restore_bytes().has_value());
}

// -- snapshots that exist already

TEST_F(SnapshotterTest, WhatFailsOnTheWayToTheDriverIsNotTheDrivers) {
  Begin();
  Add(Merged(Existing("snap-99"), {{"spec", {{"volumeSnapshotClassName", "none"}}}}));
  ASSERT_TRUE(WaitError("VolumeSnapshotClass 'none' does not exist"));
  EXPECT_EQ(Get().error(),
            "Failed to check and update snapshot content: VolumeSnapshotClass 'none' does not "
            "exist");
}

TEST_F(SnapshotterTest, AnApiThatIsAwayIsNoErrorOfTheSnapshots) {
  for (const bool exists : {false, true}) {
    Bed fresh;
    fresh.Begin();
    fresh.cluster_.Put(MakeSnapshotClass(
        "snap", {{"parameters",
                  {{"csi.storage.k8s.io/snapshotter-list-secret-name", "key"},
                   {"csi.storage.k8s.io/snapshotter-list-secret-namespace", "vault"}}}}));
    ASSERT_TRUE(fresh.cluster_.WaitUntil([&] {
      const auto known = fresh.cluster_.informers.Of<api::VolumeSnapshotClass>().Get("snap");
      return known != nullptr && !known->parameters().empty();
    }));
    fresh.cluster_.Put({{"apiVersion", "v1"},
                        {"kind", "Secret"},
                        {"metadata", {{"name", "key"}, {"namespace", "vault"}}}});
    fresh.cluster_.client.FailNext("get", "secrets",
                                   base::Error(StatusCode::kUnavailable, "the API is away"));
    Json more = exists ? Existing(fresh.AddToDriver()) : Json::object();
    more["metadata"]["annotations"] = {{kSnapshotSecretName, "key"},
                                       {kSnapshotSecretNamespace, "vault"}};
    fresh.Add(more);
    ASSERT_TRUE(fresh.WaitReady());
    EXPECT_THAT(fresh.cluster_.events.All(), IsEmpty());
  }
}

TEST_F(SnapshotterTest, ADriversPagesWithoutEndAreLeft) {
  rpc::FakeCsiDriver::Options driver;
  driver.endless_pages = true;
  Options options = Slow();
  options.pages = {.pages = 20};
  Begin(driver, options);
  Add(Existing("snap-99"));
  ASSERT_TRUE(WaitError("the driver's pages of snapshots do not end: 20 were read"));
  EXPECT_EQ(script().Count("ListSnapshots"), 20);
}

TEST_F(SnapshotterTest, AStopDoesNotWaitForTheLastPage) {
  rpc::FakeCsiDriver::Options driver;
  driver.endless_pages = true;
  Begin(driver, Slow());
  script().Delay("ListSnapshots", std::chrono::milliseconds(20));
  Add(Existing("snap-99"));
  ASSERT_TRUE(script().WaitFor("ListSnapshots", 3));
  cluster_.Stop();
  EXPECT_LT(script().Count("ListSnapshots"), 1000);
}

}  // namespace
}  // namespace berth::controllers::snapshotter
