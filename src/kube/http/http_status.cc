#include "kube/http/http_status.h"

#include "base/log.h"
#include "kube/http/object_format.h"

namespace berth::kube {
namespace {

using base::Json;
using base::Status;
using base::StatusCode;

constexpr size_t kMaxStatusBytes = 3 * 1024 * 1024;

StatusCode CodeOf(int64_t http, std::string_view reason) {
  switch (http) {
    case 400:
    case 415:
    case 422:
      return StatusCode::kInvalidArgument;
    case 401:
      return StatusCode::kUnauthenticated;
    case 403:
      return StatusCode::kPermissionDenied;
    case 404:
      return StatusCode::kNotFound;
    case 405:
    case 406:
      return StatusCode::kUnimplemented;
    case 409:
      return reason == "AlreadyExists" ? StatusCode::kAlreadyExists : StatusCode::kAborted;
    case 410:
      return StatusCode::kOutOfRange;
    case 413:
      return StatusCode::kResourceExhausted;
    case 429:
      return StatusCode::kUnavailable;
    case 500:  // the server works and reports a fault, such as that of a webhook or of its store
      return StatusCode::kInternal;
    default:
      return http >= 500 ? StatusCode::kUnavailable : StatusCode::kUnknown;
  }
}

}  // namespace

Status StatusFromHttp(long code, std::string_view body, std::string_view request) {
  const auto parsed = DecodeObject(body, {.max_bytes = kMaxStatusBytes, .refuse_unknown = false});
  if (parsed.ok() && base::json::String(*parsed, {"kind"}) == "Status") {
    const std::string message = base::json::String(*parsed, {"message"});
    const StatusCode status_code = CodeOf(code, base::json::String(*parsed, {"reason"}));
    if (!message.empty()) return Status(status_code, base::ToAbsl(message));
  }
  return base::Error(CodeOf(code, ""), "{}: HTTP {}{}{}", request, code, body.empty() ? "" : ": ",
                     body.empty() ? "" : base::Quote(body));
}

Status StatusFromObject(const Json& status) {
  return base::Error(
      CodeOf(base::json::Int(status, {"code"}), base::json::String(status, {"reason"})), "{}",
      base::json::String(status, {"message"}, "the watch failed without a message"));
}

}  // namespace berth::kube
