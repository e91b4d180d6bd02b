#include "base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::base {
namespace {

using testing::HasSubstr;

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

}  // namespace
}  // namespace berth::base
