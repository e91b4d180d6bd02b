#include "controllers/snapshotcontroller/operation_times.h"

#include <gmock/gmock.h>

#include <set>
#include <sstream>

#include "controllers/fake_group_snapshots.h"

namespace berth::controllers::snapshotcontroller {
namespace {

using base::Json;
using ::testing::HasSubstr;
using ::testing::Not;

class OperationTimesTest : public ::testing::Test {
 protected:
  static api::VolumeSnapshot Snapshot(const Json& more = nullptr) {
    return api::VolumeSnapshot(MakeSnapshot("monday", more));
  }
  static auto Counted(const char* operation, const char* status, const char* type = "dynamic",
                      const char* driver = "d.example.com") {
    return HasSubstr(
        fmt::format("snapshot_controller_operation_total_seconds_count{{driver_name=\"{}\","
                    "operation_name=\"{}\",operation_status=\"{}\",snapshot_type=\"{}\"}} 1\n",
                    driver, operation, status, type));
  }
  static auto InFlight(int count) {
    return HasSubstr(fmt::format("snapshot_controller_operations_in_flight {}\n", count));
  }

  const Json taken_ = {{"status", {{"creationTime", "2026-01-01T00:00:00Z"}}}};
  const Json ready_ = Merged(taken_, {{"status", {{"readyToUse", true}}}});
  const Json deleted_ = {{"metadata", {{"deletionTimestamp", "2026-01-01T00:00:00Z"}}}};
  base::Metrics metrics_;
  OperationTimes times_{&metrics_};
};

TEST_F(OperationTimesTest, TheLifeOfASnapshot) {
  times_.NoteSnapshot(Snapshot(), "");
  EXPECT_THAT(metrics_.RenderText(), InFlight(2));
  times_.NoteSnapshot(Snapshot(taken_), "d.example.com");
  EXPECT_THAT(metrics_.RenderText(), Counted("CreateSnapshot", "success"));
  EXPECT_THAT(metrics_.RenderText(), InFlight(1));
  times_.NoteSnapshot(Snapshot(ready_), "d.example.com");
  times_.NoteSnapshot(Snapshot(ready_), "d.example.com");
  EXPECT_THAT(metrics_.RenderText(), Counted("CreateSnapshotAndReady", "success"));
  times_.NoteSnapshot(Snapshot(Merged(ready_, deleted_)), "d.example.com");
  times_.NoteDeletion(Snapshot(Merged(ready_, deleted_)), "d.example.com");
  EXPECT_THAT(metrics_.RenderText(), Counted("DeleteSnapshot", "success"));
  EXPECT_THAT(metrics_.RenderText(), InFlight(0));
  EXPECT_THAT(metrics_.RenderText(), HasSubstr("le=\"600\""));
}

TEST_F(OperationTimesTest, WhatIsDeletedBeforeItIsReadyIsCancelled) {
  times_.NoteSnapshot(Snapshot(), "");
  times_.NoteSnapshot(Snapshot(deleted_), "");
  times_.NoteDeletion(Snapshot(deleted_), "");
  for (const char* operation : {"CreateSnapshot", "CreateSnapshotAndReady"}) {
    EXPECT_THAT(metrics_.RenderText(), Counted(operation, "cancel", "dynamic", "unknown"));
  }
}

// As in the Go program, which records them together.
TEST_F(OperationTimesTest, WhatIsCancelledGetsTheTimeOfTheDeletion) {
  times_.NoteSnapshot(Snapshot(), "");
  times_.NoteSnapshot(Snapshot(deleted_), "");
  times_.NoteDeletion(Snapshot(deleted_), "");
  std::set<std::string> sums;
  std::istringstream lines(metrics_.RenderText());
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("snapshot_controller_operation_total_seconds_sum")) {
      sums.insert(line.substr(line.rfind(' ')));
    }
  }
  EXPECT_EQ(sums.size(), 1U) << metrics_.RenderText();
}

// One that was there when this process began has nothing to be measured.
TEST_F(OperationTimesTest, WhatIsReadyAlreadyIsNotCounted) {
  times_.NoteSnapshot(Snapshot(ready_), "d.example.com");
  EXPECT_THAT(metrics_.RenderText(), Not(HasSubstr("operation_total_seconds")));
}

TEST_F(OperationTimesTest, OneThatWasTakenElsewhereIsCountedAsPreProvisioned) {
  const Json existing = {
      {"spec",
       {{"source", {{"volumeSnapshotContentName", "c"}, {"persistentVolumeClaimName", nullptr}}}}}};
  times_.NoteSnapshot(Snapshot(existing), "d.example.com");
  times_.NoteSnapshot(Snapshot(Merged(existing, ready_)), "d.example.com");
  for (const char* operation : {"CreateSnapshot", "CreateSnapshotAndReady"}) {
    EXPECT_THAT(metrics_.RenderText(), Counted(operation, "success", "pre-provisioned"));
  }
}

TEST_F(OperationTimesTest, TheLifeOfAGroup) {
  const auto group = [](const Json& more) {
    return api::VolumeGroupSnapshot(MakeGroup("nightly", more));
  };
  times_.NoteGroup(group(nullptr), "");
  EXPECT_THAT(metrics_.RenderText(), InFlight(2));
  times_.NoteGroup(group(ready_), "d.example.com");
  EXPECT_THAT(metrics_.RenderText(), Counted("CreateGroupSnapshot", "success"));
  EXPECT_THAT(metrics_.RenderText(), Counted("CreateGroupSnapshotAndReady", "success"));
  times_.NoteGroup(group(Merged(ready_, deleted_)), "d.example.com");
  times_.NoteGroupDeletion(group(Merged(ready_, deleted_)), "d.example.com");
  EXPECT_THAT(metrics_.RenderText(), Counted("DeleteGroupSnapshot", "success"));
  EXPECT_THAT(metrics_.RenderText(), InFlight(0));
}

}  // namespace
}  // namespace berth::controllers::snapshotcontroller
