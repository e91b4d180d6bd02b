// Answers /healthz, /livez and /readyz, which tell whether the server works and run the same
// checks.
//
//   GET /readyz                    "ok", or 500 with all checks
//   GET /readyz?verbose            all checks; exclude=NAME leaves one out
//   GET /readyz/store              one check
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "http/message.h"

namespace berth::apiserver {

// `run` returns an error if the part that it checks does not work.
struct HealthCheck {
  std::string_view name;
  std::function<base::Status()> run;
};

// Runs the checks that `path` (without query) names, and returns the answer; nullopt if `path` is
// no health path. A failed check gives code 500.
std::optional<http::Response> AnswerHealthPath(const std::vector<HealthCheck>& checks,
                                               std::string_view path, const http::Query& query);

// The paths of the health documents, for the index at "/".
std::vector<std::string> ListHealthPaths(const std::vector<HealthCheck>& checks);

}  // namespace berth::apiserver
