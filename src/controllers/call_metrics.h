// csi_sidecar_operations_seconds: how long each call to a driver took, and which code it returned.
// The names, labels and buckets are those of the Go sidecars, so that their dashboards still work.
#pragma once

#include <google/protobuf/descriptor.h>

#include <chrono>
#include <optional>
#include <string>

#include "base/metrics.h"
#include "base/status.h"

namespace berth::controllers {

// A call of a driver.
struct MeasuredCall {
  const std::string& driver;
  const google::protobuf::Descriptor& request;  // such as csi.v1.CreateVolumeRequest
  const base::Status& status;
  std::chrono::nanoseconds took;
  // The label `migrated`, which the Go programs add if the driver replaces an in-tree plugin:
  // whether the call was about a volume of that plugin. nullopt: the metric has no such label.
  std::optional<bool> migrated = std::nullopt;
};
void ObserveCall(base::Metrics& metrics, const MeasuredCall& call);

// The method that takes `request`, as "/csi.v1.Controller/CreateVolume"; the full name of `request`
// if no method of its file takes it.
std::string MethodOf(const google::protobuf::Descriptor& request);

// A code as Go prints it: "OK", "DeadlineExceeded".
std::string_view GoCodeName(base::StatusCode code);

}  // namespace berth::controllers
