#include "apiserver/formats/kube_status.h"

namespace berth::apiserver {

using base::Json;
using base::Status;
using base::StatusCode;

namespace {

constexpr std::string_view kPayload = "berth.dev/kube-status";

struct ReasonRow {
  Reason reason;
  int http;
  std::string_view name;
  StatusCode code;
};

constexpr ReasonRow kReasons[] = {
    {Reason::kBadRequest, 400, "BadRequest", StatusCode::kInvalidArgument},
    {Reason::kUnauthorized, 401, "Unauthorized", StatusCode::kUnauthenticated},
    {Reason::kForbidden, 403, "Forbidden", StatusCode::kPermissionDenied},
    {Reason::kNotFound, 404, "NotFound", StatusCode::kNotFound},
    {Reason::kMethodNotAllowed, 405, "MethodNotAllowed", StatusCode::kUnimplemented},
    {Reason::kNotAcceptable, 406, "NotAcceptable", StatusCode::kUnimplemented},
    {Reason::kAlreadyExists, 409, "AlreadyExists", StatusCode::kAlreadyExists},
    {Reason::kConflict, 409, "Conflict", StatusCode::kFailedPrecondition},
    {Reason::kExpired, 410, "Expired", StatusCode::kOutOfRange},
    {Reason::kRequestEntityTooLarge, 413, "RequestEntityTooLarge", StatusCode::kResourceExhausted},
    {Reason::kUnsupportedMediaType, 415, "UnsupportedMediaType", StatusCode::kUnimplemented},
    {Reason::kInvalid, 422, "Invalid", StatusCode::kInvalidArgument},
    {Reason::kTooManyRequests, 429, "TooManyRequests", StatusCode::kUnavailable},
    {Reason::kInternalError, 500, "InternalError", StatusCode::kInternal},
    {Reason::kUnknown, 500, "", StatusCode::kUnknown},
    {Reason::kServiceUnavailable, 503, "ServiceUnavailable", StatusCode::kUnavailable},
    {Reason::kTimeout, 504, "Timeout", StatusCode::kDeadlineExceeded},
};

const ReasonRow& FindRow(Reason reason) {
  for (const ReasonRow& row : kReasons) {
    if (row.reason == reason) return row;
  }
  return kReasons[13];
}

Json DetailsJson(const ErrorDetails& details) {
  Json out = Json::object();
  if (!details.name.empty()) out["name"] = details.name;
  if (!details.group.empty()) out["group"] = details.group;
  if (!details.kind.empty()) out["kind"] = details.kind;
  if (!details.uid.empty()) out["uid"] = details.uid;
  for (const auto& cause : details.causes) {
    Json one = {{"reason", cause.reason}, {"message", cause.message}};
    if (!cause.field.empty()) one["field"] = cause.field;
    out["causes"].push_back(std::move(one));
  }
  if (details.retry_after_seconds > 0) out["retryAfterSeconds"] = details.retry_after_seconds;
  return out;
}

Json FailureObject(const ReasonRow& row, std::string_view message, const ErrorDetails& details) {
  Json object = {{"kind", "Status"},
                 {"apiVersion", "v1"},
                 {"metadata", Json::object()},
                 {"status", "Failure"},
                 {"message", std::string(message)},
                 {"code", row.http}};
  if (!row.name.empty()) object["reason"] = std::string(row.name);
  if (!details.continue_token.empty()) object["metadata"]["continue"] = details.continue_token;
  if (Json extra = DetailsJson(details); !extra.empty()) object["details"] = std::move(extra);
  return object;
}

// The reason that a client gets for an error that is no KubeError.
Reason ReasonOf(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
      return Reason::kBadRequest;
    case StatusCode::kNotFound:
      return Reason::kNotFound;
    case StatusCode::kAlreadyExists:
      return Reason::kAlreadyExists;
    case StatusCode::kAborted:
      return Reason::kConflict;
    case StatusCode::kOutOfRange:
      return Reason::kExpired;
    case StatusCode::kPermissionDenied:
      return Reason::kForbidden;
    case StatusCode::kUnavailable:
      return Reason::kServiceUnavailable;
    case StatusCode::kDeadlineExceeded:
      return Reason::kTimeout;
    default:
      return Reason::kInternalError;
  }
}

ErrorDetails DetailsFor(const api::KindInfo& kind, std::string_view name) {
  return {.name = std::string(name),
          .group = std::string(kind.group),
          .kind = std::string(kind.plural)};
}

}  // namespace

Status KubeError(Reason reason, std::string_view message, const ErrorDetails& details) {
  const ReasonRow& row = FindRow(reason);
  Status status(row.code, base::ToAbsl(message));
  status.SetPayload(
      base::ToAbsl(kPayload),
      // Passes a string_view, because Cord's constructor from a string is a template whose symbol
      // name differs between clang and the compiler of the library.
      absl::Cord(base::ToAbsl(base::json::Dump(FailureObject(row, message, details)))));
  return status;
}

Status BadRequestError(std::string_view message) { return KubeError(Reason::kBadRequest, message); }

Status NotFoundError(const api::KindInfo& kind, std::string_view name) {
  return KubeError(Reason::kNotFound,
                   fmt::format("{} \"{}\" not found", kind.group_resource(), name),
                   DetailsFor(kind, name));
}

Status AlreadyExistsError(const api::KindInfo& kind, std::string_view name) {
  return KubeError(Reason::kAlreadyExists,
                   fmt::format("{} \"{}\" already exists", kind.group_resource(), name),
                   DetailsFor(kind, name));
}

Status ConflictError(const api::KindInfo& kind, std::string_view name, std::string_view why) {
  return KubeError(Reason::kConflict,
                   fmt::format("Operation cannot be fulfilled on {} \"{}\": {}",
                               kind.group_resource(), name, why),
                   DetailsFor(kind, name));
}

Status StaleError(const api::KindInfo& kind, std::string_view name) {
  const Status conflict =
      ConflictError(kind, name,
                    "the object has been modified; please apply your changes to the latest version "
                    "and try again");
  // The code ABORTED distinguishes it from failed preconditions.
  Status stale(StatusCode::kAborted, conflict.message());
  stale.SetPayload(base::ToAbsl(kPayload), *conflict.GetPayload(base::ToAbsl(kPayload)));
  return stale;
}

Status ForbiddenError(const api::KindInfo& kind, std::string_view name, std::string_view why,
                      std::vector<ErrorDetails::Cause> causes) {
  ErrorDetails details = DetailsFor(kind, name);
  details.causes = std::move(causes);
  return KubeError(Reason::kForbidden,
                   fmt::format("{} \"{}\" is forbidden: {}", kind.group_resource(), name, why),
                   details);
}

bool IsKubeError(const Status& status) {
  return status.GetPayload(base::ToAbsl(kPayload)).has_value();
}

Json StatusObject(const Status& status) {
  if (const auto payload = status.GetPayload(base::ToAbsl(kPayload))) {
    return Json::parse(std::string(*payload));
  }
  return FailureObject(FindRow(ReasonOf(status.code())), base::Message(status), {});
}

http::Response ToResponse(const Status& status) {
  const Json object = StatusObject(status);
  http::Response response{.code = object["code"].get<int>(), .body = base::json::Dump(object)};
  if (response.code == 429 || response.code == 503) response.headers = {{"Retry-After", "1"}};
  return response;
}

Json SuccessObject(const api::KindInfo& kind, std::string_view name, std::string_view uid) {
  ErrorDetails details = DetailsFor(kind, name);
  details.uid = uid;
  return {{"kind", "Status"},
          {"apiVersion", "v1"},
          {"metadata", Json::object()},
          {"status", "Success"},
          {"details", DetailsJson(details)}};
}

}  // namespace berth::apiserver
