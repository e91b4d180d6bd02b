// What a process serves at its HTTP address: metrics, and health at /healthz paths.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/metrics.h"
#include "roles/http_endpoint.h"
#include "roles/process_options.h"

namespace berth::roles {

// Serves `health` (handlers by path) and the metrics, with those of the process, at http_address;
// the metrics alone at metrics_address; and without http_address health alone at health_port, as
// the Go programs do. Without any of them it serves nothing.
// Errors are those of HttpEndpoint::Listen.
base::StatusOr<std::vector<std::unique_ptr<HttpEndpoint>>> ServeHealth(
    const ProcessOptions& options, const base::Metrics& metrics,
    const std::map<std::string, HttpEndpoint::Handler>& health);

}  // namespace berth::roles
