// The metrics of a process for Prometheus: counters, gauges and histograms, and their text form.
//
// A metric exists from its first write on. The caller bounds the number of labels and of their
// values. This is a wrapper, so that only one file includes prometheus-cpp. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace berth::base {

class Metrics {
 public:
  using Labels = std::map<std::string, std::string>;
  // The name and the help text of a family of metrics and, for a histogram, the upper bounds of its
  // buckets. It lives as long as the process.
  struct Description {
    std::string name;
    std::string help;
    std::vector<double> buckets = {};
  };

  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void Observe(const Description& histogram, const Labels& labels, double value);
  void Count(const Description& counter, const Labels& labels, double by = 1);
  void Set(const Description& gauge, const Labels& labels, double value);
  // Removes a gauge, because its object does not exist any more.
  void Remove(const Description& gauge, const Labels& labels);

  // The gauges that are computed for one rendering. Not thread-safe.
  class Gauges {
   public:
    // Add to the gauge, or make it at least `value`. A gauge that nothing was added to is 0.
    void Add(const Description& gauge, const Labels& labels, double value);
    void Raise(const Description& gauge, const Labels& labels, double value);

   private:
    friend class Metrics;
    struct Family {
      const Description* description;
      std::map<Labels, double> values;
    };
    std::map<std::string, Family> families_;  // by name
  };
  // Ends the calls of a function when it is destroyed, which waits for the call that runs.
  class Collector {
   public:
    virtual ~Collector() = default;
  };
  // Calls `collect` for each rendering, for gauges that change with time. They exist as long as a
  // collector writes them, and no other function of this class may write a gauge of their name.
  // `collect` must not call CollectWith or RenderText, nor wait for a thread that destroys a
  // collector. This object must outlive the collector.
  [[nodiscard]] std::unique_ptr<Collector> CollectWith(std::function<void(Gauges&)> collect);

  // Returns all metrics in the text exposition format 0.0.4, which every Prometheus reads.
  std::string RenderText() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace berth::base
