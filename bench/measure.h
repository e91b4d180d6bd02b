// The code that the benchmark programs share: samples with their median and p99, and the time that
// a durable record takes on this machine.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace berth::bench {

using Clock = std::chrono::steady_clock;

// Measured times.
class Samples {
 public:
  void Add(Clock::duration took) {
    milliseconds_.push_back(std::chrono::duration<double, std::milli>(took).count());
  }
  // In milliseconds; 0 if there is no sample.
  double Median() const { return Quantile(0.5); }
  double P99() const { return Quantile(0.99); }
  // {"median_ms": .., "p99_ms": .., "runs": ..}
  base::Json ToJson() const;

 private:
  double Quantile(double q) const;
  std::vector<double> milliseconds_;
};

// Returns the median time in milliseconds of one durable record in `folder`: write, fsync, rename,
// fsync of the folder. INTERNAL: it cannot be written.
base::StatusOr<double> MeasureDurableFileMs(const std::string& folder);

// Returns the median time in milliseconds of one durable record in a log: a page is overwritten,
// and fdatasync follows, as in a database. INTERNAL: the log cannot be written.
base::StatusOr<double> MeasureDurableLogRecordMs(const std::string& folder);

// Prints `result` as one line of JSON, or the failure to standard error. Returns the exit code of
// the program.
int PrintResult(const base::StatusOr<base::Json>& result);

}  // namespace berth::bench
