#include "controllers/call_metrics.h"

#include <array>

namespace berth::controllers {

namespace {

const base::Metrics::Description& Seconds() {
  static const base::Metrics::Description& description = *new base::Metrics::Description{
      .name = "csi_sidecar_operations_seconds",
      .help = "Container Storage Interface operation duration with gRPC error code status total",
      .buckets = {.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}};
  return description;
}

}  // namespace

std::string MethodOf(const google::protobuf::Descriptor& request) {
  const google::protobuf::FileDescriptor& file = *request.file();
  for (int i = 0; i < file.service_count(); ++i) {
    const google::protobuf::ServiceDescriptor& service = *file.service(i);
    for (int j = 0; j < service.method_count(); ++j) {
      if (service.method(j)->input_type() != &request) continue;
      return fmt::format("/{}/{}", service.full_name(), service.method(j)->name());
    }
  }
  return request.full_name();
}

std::string_view GoCodeName(base::StatusCode code) {
  constexpr std::array<std::string_view, 17> kNames = {
      "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
      "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
      "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
      "DataLoss", "Unauthenticated"};
  const auto place = static_cast<size_t>(code);
  return place < kNames.size() ? kNames[place] : "Unknown";
}

void ObserveCall(base::Metrics& metrics, const MeasuredCall& call) {
  base::Metrics::Labels labels = {
      {"driver_name", call.driver},
      {"method_name", MethodOf(call.request)},
      {"grpc_status_code", std::string(GoCodeName(call.status.code()))}};
  if (call.migrated.has_value()) labels["migrated"] = *call.migrated ? "true" : "false";
  metrics.Observe(Seconds(), labels, std::chrono::duration<double>(call.took).count());
}

}  // namespace berth::controllers
