#include "base/workers/queue_metrics.h"

#include <algorithm>

namespace berth::base {

namespace {

using Description = Metrics::Description;

// client-go's ExponentialBuckets(10e-9, 10, 10), multiplied in the same way, so that the bounds are
// the same to the last digit.
std::vector<double> MakeBuckets() {
  std::vector<double> buckets;
  double bound = 10e-9;
  for (int i = 0; i < 10; ++i) {
    buckets.push_back(bound);
    bound *= 10;
  }
  return buckets;
}

struct Descriptions {
  Description depth{.name = "workqueue_depth", .help = "[BETA] Current depth of workqueue"};
  Description adds{.name = "workqueue_adds_total",
                   .help = "[BETA] Total number of adds handled by workqueue"};
  Description waited{
      .name = "workqueue_queue_duration_seconds",
      .help = "[BETA] How long in seconds an item stays in workqueue before being requested.",
      .buckets = MakeBuckets()};
  Description worked{.name = "workqueue_work_duration_seconds",
                     .help = "[BETA] How long in seconds processing an item from workqueue takes.",
                     .buckets = MakeBuckets()};
  Description unfinished{
      .name = "workqueue_unfinished_work_seconds",
      .help =
          "[BETA] How many seconds of work has done that is in progress and hasn't been observed "
          "by work_duration. Large values indicate stuck threads. One can deduce the number of "
          "stuck threads by observing the rate at which this increases."};
  Description longest{.name = "workqueue_longest_running_processor_seconds",
                      .help =
                          "[BETA] How many seconds has the longest running processor for "
                          "workqueue been running."};
  Description retries{.name = "workqueue_retries_total",
                      .help = "[BETA] Total number of retries handled by workqueue"};
};

const Descriptions& All() {
  static const Descriptions& descriptions = *new Descriptions;
  return descriptions;
}

double Seconds(QueueMetrics::Time since, QueueMetrics::Time now) {
  return std::chrono::duration<double>(std::max(now - since, QueueMetrics::Time::duration::zero()))
      .count();
}

}  // namespace

QueueMetrics::QueueMetrics(Metrics& metrics, const std::string& queue)
    : metrics_(metrics), labels_{{"name", queue}} {
  metrics_.Count(All().adds, labels_, 0);
  metrics_.Count(All().retries, labels_, 0);
}

void QueueMetrics::NoteAdded(const std::string& key, Time since) {
  if (waiting_.try_emplace(key, since).second) metrics_.Count(All().adds, labels_);
}

void QueueMetrics::NotePutOff(const std::string& key) { waiting_.erase(key); }

void QueueMetrics::NoteBegun(const std::string& key, Time due, Time now) {
  NoteAdded(key, due);
  const auto waited = waiting_.find(key);
  metrics_.Observe(All().waited, labels_, Seconds(waited->second, now));
  waiting_.erase(waited);
  running_[key] = now;
}

void QueueMetrics::NoteEnded(const std::string& key, Time now) {
  const auto began = running_.find(key);
  if (began == running_.end()) return;
  metrics_.Observe(All().worked, labels_, Seconds(began->second, now));
  running_.erase(began);
}

void QueueMetrics::CountRetry() { metrics_.Count(All().retries, labels_); }

void QueueMetrics::Collect(Metrics::Gauges& gauges, Time now) const {
  gauges.Add(All().depth, labels_, static_cast<double>(waiting_.size()));
  double unfinished = 0;
  double longest = 0;
  for (const auto& [key, began] : running_) {
    const double age = Seconds(began, now);
    unfinished += age;
    longest = std::max(longest, age);
  }
  gauges.Add(All().unfinished, labels_, unfinished);
  gauges.Raise(All().longest, labels_, longest);
}

}  // namespace berth::base
