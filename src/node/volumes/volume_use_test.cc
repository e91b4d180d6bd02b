#include "node/volumes/volume_use.h"

#include <gtest/gtest.h>

namespace berth::node {
namespace {

// Every phase and every event: the whole of the drawing in volume_use.h.
TEST(VolumeUse, EachEventLeadsToThePhaseThatIsDrawn) {
  using enum UsePhase;
  struct Row {
    UsePhase from;
    UsePhase mount_stands, want, set_up, release, tear_down;
  };
  constexpr Row kRows[] = {
      {kUnclaimed, kStanding, kWaiting, kUnclaimed, kReleased, kUnclaimed},
      {kStanding, kStanding, kReady, kStanding, kReleased, kUnclaimed},
      {kWaiting, kWaiting, kWaiting, kReady, kReleased, kWaiting},
      {kReady, kReady, kReady, kReady, kReleased, kWaiting},
      {kReleased, kReleased, kWaiting, kReleased, kReleased, kReleased},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(static_cast<int>(row.from));
    EXPECT_EQ(NextPhase(row.from, UseEvent::kMountStands), row.mount_stands);
    EXPECT_EQ(NextPhase(row.from, UseEvent::kWant), row.want);
    EXPECT_EQ(NextPhase(row.from, UseEvent::kSetUp), row.set_up);
    EXPECT_EQ(NextPhase(row.from, UseEvent::kRelease), row.release);
    EXPECT_EQ(NextPhase(row.from, UseEvent::kTearDown), row.tear_down);
  }
}

// A mount of an earlier run is the pod's at once, and counts as a use of the volume before.
TEST(VolumeUse, AVolumeThatStandsIsReadyWhenItsPodWantsIt) {
  UseState state;
  EXPECT_FALSE(state.IsSetUp());
  state.Apply(UseEvent::kMountStands);
  EXPECT_TRUE(state.IsSetUp());
  EXPECT_FALSE(state.IsReady());
  EXPECT_FALSE(state.IsWanted());
  state.Apply(UseEvent::kWant);
  EXPECT_TRUE(state.IsReady());
}

TEST(VolumeUse, APodThatWasReleasedWhileItsVolumeWasSetUpDoesNotGetIt) {
  UseState state;
  state.Apply(UseEvent::kWant);
  state.Apply(UseEvent::kRelease);
  state.Apply(UseEvent::kSetUp);
  EXPECT_TRUE(state.IsReleased());
  EXPECT_FALSE(state.IsReady());
}

}  // namespace
}  // namespace berth::node
