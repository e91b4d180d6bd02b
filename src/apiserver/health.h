// /healthz, /livez and /readyz: whether the server works, and which checks prove it.
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

struct HealthCheck {
  std::string_view name;
  std::function<base::Status()> run;
};

// The answer at `path` (without query); nullopt if it is no health path.
std::optional<http::Response> HealthDocument(const std::vector<HealthCheck>& checks,
                                             std::string_view path, const http::Query& query);

// The paths of the health documents, for the index at "/".
std::vector<std::string> HealthPaths(const std::vector<HealthCheck>& checks);

}  // namespace berth::apiserver
