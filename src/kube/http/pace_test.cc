#include "kube/http/pace.h"

#include <gtest/gtest.h>

namespace berth::kube {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using std::chrono::steady_clock;

TEST(PaceTest, ABurstGoesAtOnceAndTheNextHasItsTurn) {
  Pace pace(1.0 / 3600, 3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(pace.WaitForTurn(steady_clock::now() + seconds(1)).ok());
  EXPECT_EQ(pace.WaitForTurn(steady_clock::now() + seconds(1)).code(),
            base::StatusCode::kDeadlineExceeded);
  // A refused request has used up no turn.
  EXPECT_EQ(pace.WaitForTurn(steady_clock::now() + seconds(1)).code(),
            base::StatusCode::kDeadlineExceeded);
}

TEST(PaceTest, ATurnIsWaitedFor) {
  Pace pace(50, 1);
  const auto began = steady_clock::now();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(pace.WaitForTurn(began + hours(1)).ok());
  EXPECT_GE(steady_clock::now() - began, std::chrono::milliseconds(60));
}

TEST(PaceTest, WithoutALimitNobodyWaits) {
  Pace pace(0, 0);
  EXPECT_TRUE(pace.WaitForTurn(steady_clock::time_point()).ok());
}

}  // namespace
}  // namespace berth::kube
