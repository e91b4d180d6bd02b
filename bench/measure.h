// What the benchmark programs share: samples, their median and p99, and the cost of a durable file
// here.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace berth::bench {

using Clock = std::chrono::steady_clock;

class Samples {
 public:
  void Add(Clock::duration took) {
    milliseconds_.push_back(std::chrono::duration<double, std::milli>(took).count());
  }
  double Median() const { return Quantile(0.5); }
  double P99() const { return Quantile(0.99); }
  // {"median_ms": .., "p99_ms": .., "runs": ..}
  base::Json ToJson() const;

 private:
  double Quantile(double q) const;
  std::vector<double> milliseconds_;
};

// Median time in milliseconds of one durable record in `folder`: write, fsync, rename, fsync of the
// folder.
base::StatusOr<double> DurableFileMs(const std::string& folder);

// Median time in milliseconds of one durable record in a log that is written over, as a database's
// is: a page and fdatasync.
base::StatusOr<double> DurableLogRecordMs(const std::string& folder);

// Prints `result` as one line of JSON, or the failure to standard error; the program's exit code.
int Finish(const base::StatusOr<base::Json>& result);

}  // namespace berth::bench
