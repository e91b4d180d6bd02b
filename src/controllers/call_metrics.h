// csi_sidecar_operations_seconds: how long each call of a driver took and what it answered. The
// names, labels and buckets are those of the Go sidecars, so that their dashboards still work.
#pragma once

#include <google/protobuf/descriptor.h>

#include <chrono>
#include <string>

#include "base/metrics.h"
#include "base/status.h"

namespace berth::controllers {

// `request` is the type of the call's request, csi.v1.CreateVolumeRequest.
void ObserveCall(base::Metrics& metrics, const std::string& driver,
                 const google::protobuf::Descriptor& request, const base::Status& status,
                 std::chrono::nanoseconds took);

// "/csi.v1.Controller/CreateVolume" for the method that takes `request`; its type if none does.
std::string MethodOf(const google::protobuf::Descriptor& request);

// A code as Go prints it: "OK", "DeadlineExceeded".
std::string_view GoCodeName(base::StatusCode code);

}  // namespace berth::controllers
