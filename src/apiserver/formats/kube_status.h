// Kubernetes' `Status` errors, carried inside base::Status.
//
// A KubeError is an ordinary base::Status with the Status object as a payload. Therefore it passes
// through every function that returns base::Status, and the client gets the object unchanged.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/kind_info.h"
#include "base/json.h"
#include "base/status.h"
#include "http/message.h"

namespace berth::apiserver {

// Status.reason; each has its HTTP code.
enum class Reason {
  kBadRequest,
  kUnauthorized,
  kForbidden,
  kNotFound,
  kMethodNotAllowed,
  kNotAcceptable,
  kAlreadyExists,
  kConflict,
  kExpired,
  kRequestEntityTooLarge,
  kUnsupportedMediaType,
  kInvalid,
  kTooManyRequests,
  kInternalError,
  kUnknown,  // an error of code 500 that Kubernetes does not classify: it has no reason
  kServiceUnavailable,
  kTimeout,
};

// Status.details; members left empty are omitted.
struct ErrorDetails {
  // An answer names at most this many causes, because an object can have hundreds of thousands.
  static constexpr size_t kMaxCauses = 100;
  struct Cause {
    std::string reason;
    std::string message;
    std::string field;
  };
  std::string name;
  std::string group;
  std::string kind;  // the plural resource name; for kInvalid the Kind
  std::string uid;
  std::vector<Cause> causes;
  int retry_after_seconds = 0;
  std::string continue_token;  // a new token, in metadata, in place of one that has expired
};

// Makes the error. Its StatusCode follows from the reason.
base::Status KubeError(Reason reason, std::string_view message, const ErrorDetails& details = {});

base::Status BadRequestError(std::string_view message);
base::Status NotFoundError(const api::KindInfo& kind, std::string_view name);
base::Status AlreadyExistsError(const api::KindInfo& kind, std::string_view name);
// "Operation cannot be fulfilled on ...: WHY".
base::Status ConflictError(const api::KindInfo& kind, std::string_view name, std::string_view why);
// ConflictError for an object that changed since it was read.
base::Status StaleError(const api::KindInfo& kind, std::string_view name);
base::Status ForbiddenError(const api::KindInfo& kind, std::string_view name, std::string_view why,
                            std::vector<ErrorDetails::Cause> causes = {});

// Whether `status` was made by one of the functions above.
bool IsKubeError(const base::Status& status);

// The Status object for the client. A status that is no KubeError is translated by its code.
base::Json StatusObject(const base::Status& status);
// The same as an answer in JSON, with Retry-After for 429 and 503.
http::Response ToResponse(const base::Status& status);

// {kind: Status, status: Success, details}: the answer to a DELETE that has no object to return.
base::Json SuccessObject(const api::KindInfo& kind, std::string_view name, std::string_view uid);

}  // namespace berth::apiserver
