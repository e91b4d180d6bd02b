#include "base/workers/queue_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>

#include "base/workers/keyed_workers.h"

namespace berth::base {
namespace {

using namespace std::chrono_literals;
using Outcome = KeyedWorkers::Outcome;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class QueueMetricsTest : public testing::Test {
 protected:
  QueueMetricsTest()
      : collector_(
            metrics_.CollectWith([this](auto& gauges) { queue_metrics_.Collect(gauges, now_); })) {}

  static auto Has(const std::string& metric, double value, const std::string& name = "claims") {
    return HasSubstr(fmt::format("\n{}{{name=\"{}\"}} {}\n", metric, name, value));
  }
  std::string Text() const { return metrics_.RenderText(); }

  Metrics metrics_;
  QueueMetrics queue_metrics_{metrics_, "claims"};
  QueueMetrics::Time now_{1000s};
  std::unique_ptr<Metrics::Collector> collector_;
};

TEST_F(QueueMetricsTest, AQueueThatDidNothingHasItsCountersAndGauges) {
  EXPECT_THAT(Text(), AllOf(Has("workqueue_adds_total", 0), Has("workqueue_retries_total", 0),
                            Has("workqueue_depth", 0), Has("workqueue_unfinished_work_seconds", 0),
                            Has("workqueue_longest_running_processor_seconds", 0)));
}

TEST_F(QueueMetricsTest, AKeyIsCountedOnceWhileItWaitsAndMeasuredWhenItRuns) {
  queue_metrics_.NoteAdded("a", now_);
  queue_metrics_.NoteAdded("a", now_ + 1s);
  queue_metrics_.NoteAdded("b", now_);
  EXPECT_THAT(Text(), AllOf(Has("workqueue_adds_total", 2), Has("workqueue_depth", 2)));
  now_ += 3s;
  queue_metrics_.NoteBegun("a", now_, now_);
  EXPECT_THAT(Text(),
              AllOf(Has("workqueue_depth", 1), Has("workqueue_queue_duration_seconds_sum", 3),
                    Has("workqueue_queue_duration_seconds_count", 1)));
  now_ += 2s;
  queue_metrics_.NoteBegun("b", now_, now_);
  now_ += 5s;
  EXPECT_THAT(Text(), AllOf(Has("workqueue_unfinished_work_seconds", 12),
                            Has("workqueue_longest_running_processor_seconds", 7),
                            Not(HasSubstr("workqueue_work_duration_seconds"))));
  queue_metrics_.NoteEnded("a", now_);
  EXPECT_THAT(Text(), AllOf(Has("workqueue_unfinished_work_seconds", 5),
                            Has("workqueue_longest_running_processor_seconds", 5),
                            Has("workqueue_work_duration_seconds_sum", 7),
                            Has("workqueue_work_duration_seconds_count", 1)));
}

TEST_F(QueueMetricsTest, AKeyWithADelayCountsFromWhenItIsDue) {
  queue_metrics_.CountRetry();
  EXPECT_THAT(Text(), AllOf(Has("workqueue_adds_total", 0), Has("workqueue_retries_total", 1)));
  queue_metrics_.NoteBegun("a", now_, now_ + 4s);
  EXPECT_THAT(Text(), AllOf(Has("workqueue_adds_total", 1),
                            Has("workqueue_queue_duration_seconds_sum", 4)));
  queue_metrics_.NoteAdded("a", now_ + 5s);  // while it runs
  EXPECT_THAT(Text(), AllOf(Has("workqueue_adds_total", 2), Has("workqueue_depth", 1)));
  queue_metrics_.NoteEnded("a", now_ + 6s);
  queue_metrics_.NotePutOff("a");
  EXPECT_THAT(Text(), Has("workqueue_depth", 0));
}

TEST_F(QueueMetricsTest, QueuesOfOneNameShareTheMetrics) {
  QueueMetrics second(metrics_, "claims");
  QueueMetrics other(metrics_, "volumes");
  const auto collector = metrics_.CollectWith([&](auto& gauges) {
    second.Collect(gauges, now_);
    other.Collect(gauges, now_);
  });
  queue_metrics_.NoteBegun("a", now_, now_);
  second.NoteBegun("a", now_, now_);
  second.NoteAdded("b", now_);
  now_ += 2s;
  EXPECT_THAT(Text(), AllOf(Has("workqueue_adds_total", 3), Has("workqueue_depth", 1),
                            Has("workqueue_unfinished_work_seconds", 4),
                            Has("workqueue_longest_running_processor_seconds", 2),
                            Has("workqueue_depth", 0, "volumes")));
}

// What a Go program serves (component-base 0.36, its histogram bounds included).
TEST_F(QueueMetricsTest, TheTextIsThatOfTheGoPrograms) {
  queue_metrics_.NoteBegun("a", now_, now_ + 5ms);
  queue_metrics_.NoteEnded("a", now_ + 5ms);
  const std::string text = Text();
  EXPECT_THAT(
      text,
      HasSubstr("# HELP workqueue_queue_duration_seconds [BETA] How long in seconds an item stays "
                "in workqueue before being requested.\n"
                "# TYPE workqueue_queue_duration_seconds histogram\n"));
  for (const char* bucket : {"1e-08\"} 0", "1e-07\"} 0", "1e-06\"} 0", "9.999999999999999e-06\"} 0",
                             "9.999999999999999e-05\"} 0", "0.001\"} 0", "0.01\"} 1", "0.1\"} 1",
                             "1\"} 1", "10\"} 1", "+Inf\"} 1"}) {
    EXPECT_THAT(text,
                HasSubstr(fmt::format(
                    "workqueue_queue_duration_seconds_bucket{{name=\"claims\",le=\"{}\n", bucket)));
  }
  for (const char* line : {"# TYPE workqueue_depth gauge", "# TYPE workqueue_adds_total counter",
                           "# TYPE workqueue_work_duration_seconds histogram",
                           "# TYPE workqueue_unfinished_work_seconds gauge",
                           "# TYPE workqueue_longest_running_processor_seconds gauge",
                           "# TYPE workqueue_retries_total counter",
                           "# HELP workqueue_depth [BETA] Current depth of workqueue"}) {
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  }
}

TEST(KeyedWorkersMetricsTest, AQueueCountsWhatItsKeysGoThrough) {
  Metrics metrics;
  std::latch inside(1), release(1);
  std::atomic<int> runs{0};
  {
    KeyedWorkers workers({.name = "test",
                          .retry_start = 1ms,
                          .retry_max = 1ms,
                          .metrics = &metrics,
                          .metrics_name = "claims"},
                         [&](const std::string& key) {
                           if (key == "fails" && runs++ == 0) {
                             return Outcome::Retry(Error(StatusCode::kInternal, "once"));
                           }
                           if (key == "hangs") {
                             inside.count_down();
                             release.wait();
                           }
                           return Outcome::Done();
                         });
    workers.Start();
    workers.Add("hangs");
    inside.wait();
    workers.Add("hangs");  // runs once more afterwards
    std::string text = metrics.RenderText();
    EXPECT_THAT(text, HasSubstr("workqueue_adds_total{name=\"claims\"} 2\n"));
    EXPECT_THAT(text, HasSubstr("workqueue_depth{name=\"claims\"} 1\n"));
    EXPECT_THAT(text, Not(HasSubstr("workqueue_unfinished_work_seconds{name=\"claims\"} 0\n")));
    release.count_down();
    ASSERT_TRUE(workers.WaitIdle(10s));
    text = metrics.RenderText();
    EXPECT_THAT(text, HasSubstr("workqueue_work_duration_seconds_count{name=\"claims\"} 2\n"));
    EXPECT_THAT(text, HasSubstr("workqueue_queue_duration_seconds_count{name=\"claims\"} 2\n"));
    EXPECT_THAT(text, HasSubstr("workqueue_depth{name=\"claims\"} 0\n"));
    EXPECT_THAT(text, HasSubstr("workqueue_unfinished_work_seconds{name=\"claims\"} 0\n"));
    EXPECT_THAT(text, HasSubstr("workqueue_retries_total{name=\"claims\"} 0\n"));

    workers.Add("fails");
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (runs < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    ASSERT_TRUE(workers.WaitIdle(10s));
    workers.AddAfter("later", 0ms);
    ASSERT_TRUE(workers.WaitIdle(10s));
    workers.AddAfter("never", 1h);
    text = metrics.RenderText();
    EXPECT_THAT(text, HasSubstr("workqueue_adds_total{name=\"claims\"} 5\n"));
    EXPECT_THAT(text, HasSubstr("workqueue_retries_total{name=\"claims\"} 3\n"));
    EXPECT_THAT(text, HasSubstr("workqueue_depth{name=\"claims\"} 0\n"));
  }
  EXPECT_THAT(metrics.RenderText(), Not(HasSubstr("workqueue_depth")));
}

TEST(KeyedWorkersMetricsTest, AKeyThatIsDueCountsBeforeAWorkerTakesIt) {
  Metrics metrics;
  KeyedWorkers workers({.name = "test", .metrics = &metrics, .metrics_name = "claims"},
                       [](const std::string&) { return Outcome::Done(); });
  workers.AddAfter("due", 0ms);  // no worker runs
  const std::string text = metrics.RenderText();
  EXPECT_THAT(text, HasSubstr("workqueue_depth{name=\"claims\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("workqueue_adds_total{name=\"claims\"} 1\n"));
}

TEST(KeyedWorkersMetricsTest, AQueueWithoutANameCountsNothing) {
  Metrics metrics;
  KeyedWorkers workers({.name = "test", .metrics = &metrics},
                       [](const std::string&) { return Outcome::Done(); });
  workers.Start();
  workers.Add("key");
  ASSERT_TRUE(workers.WaitIdle(10s));
  EXPECT_EQ(metrics.RenderText(), "");
}

}  // namespace
}  // namespace berth::base
