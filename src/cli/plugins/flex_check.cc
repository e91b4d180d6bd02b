#include "cli/plugins/flex_check.h"

#include <algorithm>

#include "cli/output.h"
#include "platform/processes/exec.h"

namespace berth::cli {

using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using volume::DriverCheckReport;
using volume::Finding;

namespace {

size_t CountFindings(const DriverCheckReport& report, Finding::Weight weight) {
  return static_cast<size_t>(
      std::count_if(report.findings.begin(), report.findings.end(),
                    [weight](const Finding& finding) { return finding.weight == weight; }));
}

std::string FormatCount(size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

StatusOr<std::map<std::string, std::string>> ParsePairs(const std::vector<std::string>& pairs) {
  std::map<std::string, std::string> parsed;
  for (const std::string& pair : pairs) {
    const size_t equals = pair.find('=');
    if (equals == 0 || equals == std::string::npos) {
      // The error does not repeat the pair, because it may be a secret.
      return Error(StatusCode::kInvalidArgument, "an option or a secret is given as NAME=VALUE");
    }
    parsed[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return parsed;
}

std::string FormatCheck(const std::string& driver, const DriverCheckReport& report) {
  std::string text;
  for (const Finding& finding : report.findings) {
    text += fmt::format("{} {} ({}): {}\n",
                        finding.weight == Finding::Weight::kFault ? "FAULT " : "remark",
                        finding.call, finding.rule, finding.words);
  }
  const size_t faults = CountFindings(report, Finding::Weight::kFault);
  const size_t remarks = CountFindings(report, Finding::Weight::kRemark);
  text += fmt::format(
      "{}: {}{}; it supports {}\n", driver,
      faults == 0 ? "no faults" : FormatCount(faults, "fault"),
      remarks == 0 ? "" : ", " + FormatCount(remarks, "remark"),
      report.calls.empty() ? "nothing" : fmt::format("{}", fmt::join(report.calls, " ")));
  return text;
}

Status RunFlexCheck(const volume::DriverCheckOptions& options) {
  const auto exec = platform::NewHostExec();
  ASSIGN_OR_RETURN(const DriverCheckReport report, volume::CheckDriver(*exec, options));
  const std::string driver =
      options.driver.empty() ? volume::DriverNameOf(options.executable) : options.driver;
  Print(FormatCheck(driver, report));
  const size_t faults = CountFindings(report, Finding::Weight::kFault);
  if (faults == 0) return base::OkStatus();
  return Error(StatusCode::kFailedPrecondition, "driver '{}' has {}", driver,
               FormatCount(faults, "fault"));
}

}  // namespace berth::cli
