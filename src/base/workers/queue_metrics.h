// The metrics workqueue_* of a queue of keys, with the names, help texts, buckets and meaning that
// they have in Kubernetes' Go programs (client-go's workqueue), so that dashboards still work:
//
//   workqueue_adds_total                          keys that were added, or whose delay ended
//   workqueue_depth                               those of them that wait
//   workqueue_queue_duration_seconds              how long a key waited until it ran
//   workqueue_work_duration_seconds               how long it ran
//   workqueue_unfinished_work_seconds             how long the running keys have run, together
//   workqueue_longest_running_processor_seconds   the longest of these times
//   workqueue_retries_total                       keys that were queued with a delay
//
// Queues that share a name share their metrics. A key that is added while it waits is not counted
// again. The caller holds one lock for all calls. `metrics` is borrowed and must outlive this.
#pragma once

#include <chrono>
#include <string>
#include <unordered_map>

#include "base/metrics.h"

namespace berth::base {

class QueueMetrics {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `queue` is the label "name".
  QueueMetrics(Metrics& metrics, const std::string& queue);

  // The key is to run as soon as it can, since `since`. It may be running.
  void NoteAdded(const std::string& key, Time since);
  // The key waits no more, because it is to run after a delay.
  void NotePutOff(const std::string& key);
  // The key begins to run. It is counted as added at `due`, if it is not yet.
  void NoteBegun(const std::string& key, Time due, Time now);
  void NoteEnded(const std::string& key, Time now);
  void CountRetry();
  // Writes the gauges, which change with time.
  void Collect(Metrics::Gauges& gauges, Time now) const;

 private:
  Metrics& metrics_;
  const Metrics::Labels labels_;
  std::unordered_map<std::string, Time> waiting_;  // by key, since when
  std::unordered_map<std::string, Time> running_;
};

}  // namespace berth::base
