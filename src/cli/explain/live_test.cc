#include "cli/explain/live.h"

#include <gtest/gtest.h>

#include "base/flight.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::cli::explain {
namespace {

using base::FlightKind;

// The controllers record a CreateSnapshot for a content, and the state is of this content: explain
// looks at the process that serves the call's socket, because that may be what hangs.
TEST(LiveTest, TheSocketBehindASnapshotsCallIsLookedAt) {
  const platform::TempFolder folder;
  {
    const auto recorder = base::FlightRecorder::Open(folder / "controllers.flight", "controllers");
    ASSERT_TRUE(recorder.ok()) << base::ToString(recorder.status());
    const base::FlightScope scope(recorder->get(), "snapshot content-1");
    base::FlightSpan call(FlightKind::kCall, "CreateSnapshot", "/nobody/listens.sock");
    call.End(base::Error(base::StatusCode::kUnavailable, "no answer"));
  }
  State state{.now = base::SystemClock().Now(), .subject = "volumesnapshotcontent/content-1"};
  state.content = api::VolumeSnapshotContent({{"metadata", {{"name", "content-1"}}}});
  state.object = *state.content;
  AddLiveState(state, folder.path());
  EXPECT_EQ(FindRecords(state, SnapshotKey(state)).size(), 1);
  EXPECT_TRUE(state.servers.contains("/nobody/listens.sock"));
}

}  // namespace
}  // namespace berth::cli::explain
