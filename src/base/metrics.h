// The figures of a process for Prometheus: counters, gauges and histograms, and their text form.
//
// A figure exists from its first write on. The caller bounds the number of labels and of their
// values. This is a wrapper, so that only one file includes prometheus-cpp. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace berth::base {

class Metrics {
 public:
  using Labels = std::map<std::string, std::string>;
  // The name and the help text of a family of figures and, for a histogram, the upper bounds of its
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

  // Returns all figures in the text exposition format 0.0.4, which every Prometheus reads.
  std::string RenderText() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace berth::base
