#include "roles/health.h"

#include "base/log.h"
#include "roles/process_metrics.h"

namespace berth::roles {

base::StatusOr<std::vector<std::unique_ptr<HttpEndpoint>>> ServeHealth(
    const ProcessOptions& options, const base::Metrics& metrics,
    const std::map<std::string, HttpEndpoint::Handler>& health) {
  const HttpEndpoint::Handler text = [&metrics] {
    return HttpEndpoint::Answer{.body = metrics.RenderText() + RenderProcessMetrics(),
                                .content_type = "text/plain; version=0.0.4; charset=utf-8"};
  };
  std::vector<std::unique_ptr<HttpEndpoint>> endpoints;
  if (!options.http_address.empty()) {
    auto handlers = health;
    handlers[options.metrics_path] = text;
    ASSIGN_OR_RETURN(auto endpoint,
                     HttpEndpoint::Listen(options.http_address, std::move(handlers)));
    LOG_INFO("serving metrics and health at '{}', port {}", options.http_address, endpoint->port());
    endpoints.push_back(std::move(endpoint));
  } else if (options.health_port > 0) {
    ASSIGN_OR_RETURN(auto endpoint,
                     HttpEndpoint::Listen(fmt::format(":{}", options.health_port), health));
    LOG_INFO("serving health at port {}", endpoint->port());
    endpoints.push_back(std::move(endpoint));
  }
  if (!options.metrics_address.empty()) {
    ASSIGN_OR_RETURN(auto endpoint,
                     HttpEndpoint::Listen(options.metrics_address, {{options.metrics_path, text}}));
    LOG_INFO("serving metrics at '{}', port {}", options.metrics_address, endpoint->port());
    endpoints.push_back(std::move(endpoint));
  }
  return endpoints;
}

}  // namespace berth::roles
