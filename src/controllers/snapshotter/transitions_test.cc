// Each transition of a content until it is ready: objects in, what the driver is asked, and what
// becomes of both.
#include "controllers/snapshotter/creation_record.h"
#include "controllers/snapshotter/driver_answers.h"
#include "controllers/snapshotter/snapshotter_fixture.h"

namespace berth::controllers::snapshotter {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::Values;
using Answer = csi::v1::CreateSnapshotResponse;

// -- a failed CreateSnapshot: whether the driver may be at work from then on

// What was open when the driver was asked.
enum class Open {
  kNothing,  // the first call
  kSame,     // the same call, whose outcome is not known
  kOther,    // one with other parameters
  kForeign,  // one of another program
};

struct FailureRow {
  std::string name;
  Open open;
  StatusCode code;
  bool kept;  // it may be at work: "being-created" stays
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

TEST_P(FailureTest, EndsTheRecordIfItIsFinal) {
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

  // Its end: what may be at work is asked until it answers, and its snapshot is deleted.
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
           FailureRow{"first already exists", Open::kNothing, StatusCode::kAlreadyExists, false},
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
           FailureRow{"same already exists", Open::kSame, StatusCode::kAlreadyExists, false},
           FailureRow{"same denied", Open::kSame, StatusCode::kPermissionDenied, false},
           FailureRow{"same unauthenticated", Open::kSame, StatusCode::kUnauthenticated, false},
           FailureRow{"other internal", Open::kOther, StatusCode::kInternal, false},
           FailureRow{"other aborted", Open::kOther, StatusCode::kAborted, true},
           FailureRow{"other already exists", Open::kOther, StatusCode::kAlreadyExists, false},
           FailureRow{"foreign internal", Open::kForeign, StatusCode::kInternal, false},
           FailureRow{"foreign not found", Open::kForeign, StatusCode::kNotFound, false}),
    RowName<::testing::TestParamInfo<FailureRow>>);

// It does not wait for the backoff either.
TEST_F(SnapshotterTest, ADeletedContentGoesWithTheFinalAnswerForWhichItWaited) {
  Begin({}, Slow());
  script().Hang("CreateSnapshot");
  script().Fail("CreateSnapshot", base::Error(StatusCode::kAlreadyExists, "another volume's"));
  Add(kDeleted);
  ASSERT_TRUE(script().WaitFor("CreateSnapshot"));
  Delete();
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Get().deleting(); }));
  script().Release("CreateSnapshot");
  ASSERT_TRUE(WaitGone());
  EXPECT_EQ(script().Count("CreateSnapshot"), 1);
  EXPECT_EQ(script().Count("DeleteSnapshot"), 0);
}

// What an earlier version noted beside the record goes with it.
TEST_F(SnapshotterTest, TheNoteOfAnEarlierVersionIsRemoved) {
  Begin();
  Add({{"metadata", {{"annotations", {{kBeingCreated, "yes"}, {kCreateRequest, "several"}}}}}});
  ASSERT_TRUE(WaitReady());
  EXPECT_FALSE(Get().has_annotation(kCreateRequest));
}

// -- an answer of CreateSnapshot

struct AnswerRow {
  std::string name;
  std::function<void(csi::v1::Snapshot&)> wrong;
  std::string told;  // in an event; empty: nothing
};

class AnswerTest : public SnapshotterTest, public ::testing::WithParamInterface<AnswerRow> {};

TEST_P(AnswerTest, IsTakenAndCanBeDeleted) {
  const AnswerRow& row = GetParam();
  rpc::FakeCsiDriver::Options driver;
  driver.on_snapshot = [&](Answer& answer) { row.wrong(*answer.mutable_snapshot()); };
  Begin(driver);
  Add();
  if (!row.told.empty()) {
    ASSERT_TRUE(cluster_.events.WaitFor(row.told));
  }
  ASSERT_TRUE(WaitReady());
  EXPECT_GE(Get().creation_nanoseconds(), 0);
  EXPECT_LE(Get().creation_nanoseconds(), 9'200'000'000 * 1'000'000'000);
  EXPECT_GE(Get().restore_bytes(), 0);
  EXPECT_EQ(Get().error(), "");
  Write(kContent, kDeleted);
  Delete();
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
    Values(AnswerRow{"right", [](auto&) {}, ""},
           AnswerRow{"without time", [](auto& it) { it.clear_creation_time(); },
                     "Warning SnapshotCreationTimeMissing"},
           AnswerRow{"of a far time", [](auto& it) { SetTime(it, 9'300'000'000, 0); },
                     "9300000000 s and 0 ns is no time"},
           AnswerRow{"of the last time", [](auto& it) { SetTime(it, INT64_MAX, INT32_MAX); },
                     "is no time"},
           AnswerRow{"of another source", [](auto& it) { it.set_source_volume_id("another"); },
                     ""}),
    RowName<::testing::TestParamInfo<AnswerRow>>);

// It could not be deleted by anything, so it does not hold the content either.
TEST_F(SnapshotterTest, ASnapshotWithoutAnIdIsRefusedAndItsContentCanGo) {
  rpc::FakeCsiDriver::Options driver;
  driver.on_snapshot = [](Answer& answer) { answer.mutable_snapshot()->clear_snapshot_id(); };
  Begin(driver, Slow());
  Add(kDeleted);
  ASSERT_TRUE(WaitError("Failed to create snapshot: the driver gave the snapshot no id"));
  EXPECT_FALSE(Get().ready());
  EXPECT_FALSE(Get().has_annotation(kBeingCreated));
  Delete();
  ASSERT_TRUE(WaitGone());
  EXPECT_EQ(script().Count("DeleteSnapshot"), 0);
}

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

TEST(PollDelayTest, DoublesUpToTheLongestWait) {
  using std::chrono::seconds;
  EXPECT_EQ(PollDelay(0, seconds(1), seconds(300)), seconds(1));
  EXPECT_EQ(PollDelay(6, seconds(1), seconds(300)), seconds(64));
  EXPECT_EQ(PollDelay(40, seconds(1), seconds(300)), seconds(300));
}

}  // namespace
}  // namespace berth::controllers::snapshotter
