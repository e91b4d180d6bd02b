#include "base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <latch>
#include <thread>

namespace berth::base {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(MetricsTest, TextHoldsWhatWasWritten) {
  Metrics metrics;
  const Metrics::Description seconds{.name = "call_seconds", .help = "Time", .buckets = {0.1, 1}};
  metrics.Observe(seconds, {{"method", "a\"b"}}, 0.1);  // on the bound: in its bucket
  metrics.Observe(seconds, {{"method", "a\"b"}}, 0.5);
  metrics.Observe(seconds, {{"method", "a\"b"}}, 7);
  metrics.Count({.name = "done_total", .help = "Done"}, {}, 2);
  metrics.Count({.name = "done_total", .help = "Done"}, {});
  metrics.Set({.name = "depth", .help = "Depth"}, {}, 4);
  metrics.Set({.name = "depth", .help = "Depth"}, {}, 3);
  const std::string text = metrics.RenderText();
  EXPECT_THAT(text, HasSubstr("# TYPE call_seconds histogram\n"));
  EXPECT_THAT(text, HasSubstr("call_seconds_bucket{method=\"a\\\"b\",le=\"0.1\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("call_seconds_bucket{method=\"a\\\"b\",le=\"1\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("call_seconds_bucket{method=\"a\\\"b\",le=\"+Inf\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("call_seconds_count{method=\"a\\\"b\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("# HELP done_total Done\n"));
  EXPECT_THAT(text, HasSubstr("done_total 3\n"));
  EXPECT_THAT(text, HasSubstr("depth 3\n"));
}

TEST(MetricsTest, CollectedGaugesAreComputedForEachTextUntilTheirCollectorEnds) {
  Metrics metrics;
  const Metrics::Description age{.name = "age_seconds", .help = "Age"};
  const Metrics::Description sum{.name = "sum", .help = "Sum"};
  int age_now = 1;
  auto one = metrics.CollectWith([&](Metrics::Gauges& gauges) {
    gauges.Raise(age, {{"of", "both"}}, age_now);
    gauges.Add(sum, {{"of", "both"}}, 3);
  });
  auto other = metrics.CollectWith([&](Metrics::Gauges& gauges) {
    gauges.Raise(age, {{"of", "both"}}, 2);
    gauges.Add(sum, {{"of", "both"}}, 4);
    gauges.Add(sum, {{"of", "other"}}, 0);
  });
  std::string text = metrics.RenderText();
  EXPECT_THAT(text, HasSubstr("# HELP age_seconds Age\n# TYPE age_seconds gauge\n"
                              "age_seconds{of=\"both\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("sum{of=\"both\"} 7\nsum{of=\"other\"} 0\n"));
  age_now = 5;
  text = metrics.RenderText();
  EXPECT_THAT(text, HasSubstr("age_seconds{of=\"both\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("sum{of=\"both\"} 7\n")) << "each text begins with 0";
  other.reset();
  text = metrics.RenderText();
  EXPECT_THAT(text, HasSubstr("sum{of=\"both\"} 3\n"));
  EXPECT_THAT(text, Not(HasSubstr("of=\"other\"")));
  one.reset();
  EXPECT_EQ(metrics.RenderText(), "");
}

TEST(MetricsTest, TheEndOfACollectorWaitsForItsCall) {
  Metrics metrics;
  std::latch inside(1), ending(1);
  std::promise<void> ended;
  auto collector = metrics.CollectWith([&](Metrics::Gauges&) {
    inside.count_down();
    ending.wait();
    // An end that does not wait for this call needs only microseconds.
    EXPECT_EQ(ended.get_future().wait_for(std::chrono::milliseconds(200)),
              std::future_status::timeout);
  });
  std::jthread render([&] { metrics.RenderText(); });
  inside.wait();
  std::jthread end([&] {
    ending.count_down();
    collector.reset();
    ended.set_value();
  });
}

}  // namespace
}  // namespace berth::base
