#include "bench/measure.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/unique_fd.h"

namespace berth::bench {

double Samples::Quantile(double q) const {
  if (milliseconds_.empty()) return 0;
  std::vector<double> sorted = milliseconds_;
  std::sort(sorted.begin(), sorted.end());
  const auto rank = static_cast<size_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[std::min(sorted.size() - 1, rank == 0 ? 0 : rank - 1)];
}

base::Json Samples::ToJson() const {
  return {{"median_ms", Median()}, {"p99_ms", P99()}, {"runs", milliseconds_.size()}};
}

base::StatusOr<double> MeasureDurableFileMs(const std::string& folder) {
  const base::UniqueFd dir(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  Samples samples;
  for (int i = 0; i < 50; ++i) {
    const auto start = Clock::now();
    base::UniqueFd file(openat(dir.get(), ".bench.tmp", O_WRONLY | O_CREAT | O_TRUNC, 0600));
    const std::string record(512, 'r');
    const bool written =
        write(file.get(), record.data(), record.size()) == 512 && fsync(file.get()) == 0 &&
        renameat(dir.get(), ".bench.tmp", dir.get(), ".bench") == 0 && fsync(dir.get()) == 0;
    if (!written) {
      return base::Error(base::StatusCode::kInternal, "no durable file can be written in '{}'",
                         folder);
    }
    samples.Add(Clock::now() - start);
  }
  unlinkat(dir.get(), ".bench", 0);
  return samples.Median();
}

base::StatusOr<double> MeasureDurableLogRecordMs(const std::string& folder) {
  constexpr int kRecords = 50;
  const std::string page(4096, 'r');
  const std::string path = folder + "/.bench.log";
  const base::UniqueFd log(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const auto write_page = [&](int i) {
    return pwrite(log.get(), page.data(), page.size(), i * static_cast<off_t>(page.size())) ==
           static_cast<ssize_t>(page.size());
  };
  bool written = true;
  for (int i = 0; i < kRecords; ++i) written = written && write_page(i);
  written = written && fsync(log.get()) == 0;
  Samples samples;
  for (int i = 0; i < kRecords && written; ++i) {
    const auto start = Clock::now();
    written = write_page(i) && fdatasync(log.get()) == 0;
    samples.Add(Clock::now() - start);
  }
  unlink(path.c_str());
  if (!written) {
    return base::Error(base::StatusCode::kInternal, "no log can be written in '{}'", folder);
  }
  return samples.Median();
}

int PrintResult(const base::StatusOr<base::Json>& result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", base::ToString(result.status()).c_str());
    return 1;
  }
  std::printf("%s\n", base::json::Dump(*result).c_str());
  return 0;
}

}  // namespace berth::bench
