#include "apiserver/health.h"

#include <algorithm>

#include "base/json.h"
#include "base/log.h"

namespace berth::apiserver {
namespace {

constexpr std::string_view kRoots[] = {"/healthz", "/livez", "/readyz"};

http::Response TextResponse(int code, std::string body) {
  return {.code = code,
          .content_type = "text/plain; charset=utf-8",
          .body = std::move(body),
          .headers = {{"X-Content-Type-Options", "nosniff"}}};
}

http::Response RunAllChecks(const std::vector<HealthCheck>& checks, std::string_view name,
                            const http::Query& query) {
  std::vector<std::string> excluded = query.All("exclude");
  std::string report;
  bool failed = false;
  for (const HealthCheck& check : checks) {
    if (std::erase(excluded, check.name) > 0) {
      report += fmt::format("[+]{} excluded: ok\n", check.name);
      continue;
    }
    const base::Status status = check.run();
    if (status.ok()) {
      report += fmt::format("[+]{} ok\n", check.name);
      continue;
    }
    failed = true;
    LOG_WARNING("api: the health check {} failed: {}", check.name, base::ToString(status));
    report += fmt::format("[-]{} failed: reason withheld\n", check.name);
  }
  if (!excluded.empty()) {
    std::string names;
    for (const std::string& one : excluded) {
      names += (names.empty() ? "" : ",") + base::json::Dump(base::Json(one));
    }
    report +=
        fmt::format("warn: some health checks cannot be excluded: no matches for {}\n", names);
  }
  if (failed) return TextResponse(500, fmt::format("{}{} check failed\n", report, name));
  if (!query.Has("verbose")) return TextResponse(200, "ok");
  return TextResponse(200, fmt::format("{}{} check passed\n", report, name));
}

http::Response RunOneCheck(const HealthCheck& check) {
  const base::Status status = check.run();
  if (status.ok()) return TextResponse(200, "ok");
  return TextResponse(500, fmt::format("internal server error: {}\n", base::Message(status)));
}

}  // namespace

std::optional<http::Response> AnswerHealthPath(const std::vector<HealthCheck>& checks,
                                               std::string_view path, const http::Query& query) {
  for (const std::string_view root : kRoots) {
    if (!path.starts_with(root)) continue;
    const std::string_view rest = path.substr(root.size());
    if (rest.empty()) return RunAllChecks(checks, root.substr(1), query);
    for (const HealthCheck& check : checks) {
      if (rest.starts_with('/') && rest.substr(1) == check.name) return RunOneCheck(check);
    }
  }
  return std::nullopt;
}

std::vector<std::string> ListHealthPaths(const std::vector<HealthCheck>& checks) {
  std::vector<std::string> paths;
  for (const std::string_view root : kRoots) {
    paths.emplace_back(root);
    for (const HealthCheck& check : checks) paths.push_back(fmt::format("{}/{}", root, check.name));
  }
  return paths;
}

}  // namespace berth::apiserver
