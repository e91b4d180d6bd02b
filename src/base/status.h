// Status and StatusOr: the results of all functions that can fail.
//
// The codes are gRPC's, which the CSI specification mandates. An RPC's answer, an errno and a
// Kubernetes `Status` are converted to a Status once, where they enter the program (rpc/outcome.h,
// platform/errno.h, kube/client.h). Messages: operation, quoted object, cause; no full stop.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace berth::base {

using Status = absl::Status;
using StatusCode = absl::StatusCode;
template <typename T>
using StatusOr = absl::StatusOr<T>;

inline Status OkStatus() { return absl::OkStatus(); }

// absl in Debian 12 has a string_view of its own that std::string_view does not convert to.
inline absl::string_view ToAbsl(std::string_view s) { return {s.data(), s.size()}; }

inline std::string_view Message(const Status& status) {
  return {status.message().data(), status.message().size()};
}

// A failure with a formatted message: Error(StatusCode::kNotFound, "pool '{}' does not exist",
// name).
template <typename... Args>
Status Error(StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, ToAbsl(fmt::format(format, std::forward<Args>(args)...)));
}

// `status` with "context: " before its message; OK stays OK.
Status Annotate(const Status& status, std::string_view context);

// "NOT_FOUND: pool 'x' does not exist", for logs and events.
std::string ToString(const Status& status);

// The upper-case gRPC name of a code, as in "NOT_FOUND".
std::string_view CodeName(StatusCode code);
// The code of such a name; INTERNAL for a text that is no name of an error's code.
StatusCode ParseCodeName(std::string_view name);

inline const Status& AsStatus(const Status& status) { return status; }
template <typename T>
const Status& AsStatus(const StatusOr<T>& result) {
  return result.status();
}

}  // namespace berth::base

#define BERTH_CONCAT_INNER(a, b) a##b
#define BERTH_CONCAT(a, b) BERTH_CONCAT_INNER(a, b)

// Returns from the enclosing function if `expr` (a Status or StatusOr) failed.
#define RETURN_IF_ERROR(expr)                                  \
  do {                                                         \
    if (const auto& berth_result = (expr); !berth_result.ok()) \
      return ::berth::base::AsStatus(berth_result);            \
  } while (false)

// As RETURN_IF_ERROR, with a context: RETURN_IF_ERROR_WITH(Mount(t), fmt::format("stage '{}'",
// id)).
#define RETURN_IF_ERROR_WITH(expr, context)                                             \
  do {                                                                                  \
    if (const auto& berth_result = (expr); !berth_result.ok())                          \
      return ::berth::base::Annotate(::berth::base::AsStatus(berth_result), (context)); \
  } while (false)

// ASSIGN_OR_RETURN(auto fd, Open(path)): declares or assigns `lhs` from a StatusOr, or returns its
// status.
#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_INNER(BERTH_CONCAT(berth_value_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_INNER(value, lhs, expr) \
  auto value = (expr);                           \
  if (!value.ok()) return value.status();        \
  lhs = *std::move(value)
