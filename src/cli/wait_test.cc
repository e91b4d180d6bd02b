#include "cli/wait.h"

#include <gtest/gtest.h>

#include "api/kinds/kinds.h"
#include "kube/fake_client.h"

namespace berth::cli {
namespace {

using base::Status;
using base::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;

const Status kAway = base::Error(StatusCode::kUnavailable, "connection refused");

TEST(WaitTest, AnApiThatGoesAwayDuringAWaitIsWaitedFor) {
  kube::FakeClient client;
  client.Add(Json{{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", "n1"}}}});
  std::jthread restart;
  int calls = 0;
  const Status waited = WaitFor(client, api::kinds::kNode, "", "n1", seconds(30), {},
                                [&](const std::optional<api::Object>& object) {
                                  EXPECT_TRUE(object.has_value());
                                  if (++calls > 1) return true;
                                  client.SetOutage(kAway);
                                  restart = std::jthread([&client] {
                                    std::this_thread::sleep_for(milliseconds(50));
                                    client.SetOutage(base::OkStatus());
                                  });
                                  return false;
                                });
  EXPECT_TRUE(waited.ok()) << base::ToString(waited);
  EXPECT_EQ(calls, 2);
}

TEST(WaitTest, AnApiThatIsAwayFromTheStartIsAnErrorAtOnce) {
  kube::FakeClient client;
  client.SetOutage(kAway);
  const Status waited = WaitFor(client, api::kinds::kNode, "", "n1", seconds(30), {},
                                [](const std::optional<api::Object>&) { return true; });
  EXPECT_EQ(waited.code(), StatusCode::kUnavailable);
}

TEST(WaitTest, AnApiThatIsAwayIsNotCalledInALoop) {
  kube::FakeClient client;
  client.SetOutage(kAway);
  int calls = 0;  // one for each list
  const auto begun = std::chrono::steady_clock::now();
  const Status waited = WaitForChange(client, api::kinds::kNode, {}, milliseconds(700), {}, [&] {
    ++calls;
    return false;
  });
  EXPECT_EQ(waited.code(), StatusCode::kDeadlineExceeded);
  // One call, and one more after each pause of 500 ms. The time is measured, because a loaded
  // machine may end the wait late.
  const auto took = std::chrono::steady_clock::now() - begun;
  EXPECT_LE(calls, 1 + took / milliseconds(500));
}

}  // namespace
}  // namespace berth::cli
