// What a process serves at its HTTP address: metrics, and health at /healthz paths.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/metrics.h"
#include "roles/http_endpoint.h"
#include "roles/process_options.h"

namespace berth::roles {

// Serves `health` at http_address (or at health_port) beside the metrics, and the metrics alone at
// metrics_address; nothing where no address is given. INVALID_ARGUMENT if both are.
base::StatusOr<std::vector<std::unique_ptr<HttpEndpoint>>> ServeHealth(
    const ProcessOptions& options, const base::Metrics& metrics,
    const std::map<std::string, HttpEndpoint::Handler>& health);

// Records the metric process_start_time_seconds, because each of the Go programs has it.
void RecordStart(base::Metrics& metrics);

}  // namespace berth::roles
