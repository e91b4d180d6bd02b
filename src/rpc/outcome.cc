#include "rpc/outcome.h"

#include <absl/strings/cord.h>

namespace berth::rpc {

base::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return base::OkStatus();
  const int number = static_cast<int>(status.error_code());
  const bool known = number > 0 && number <= static_cast<int>(base::StatusCode::kUnauthenticated);
  const auto code = known ? static_cast<base::StatusCode>(number) : base::StatusCode::kUnknown;
  const std::string message = status.error_message();
  return base::Status(code, base::ToAbsl(message.empty() ? base::CodeName(code) : message));
}

grpc::Status ToGrpc(const base::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  // CSI requires a message, and forbids details.
  const std::string_view message = base::Message(status);
  return {static_cast<grpc::StatusCode>(status.code()),
          std::string(message.empty() ? base::CodeName(status.code()) : message)};
}

namespace {
constexpr char kNotSent[] = "berth.dev/not-sent";
constexpr char kMethod[] = "berth.dev/method";
}  // namespace

base::Status NotSent(base::Status status) {
  status.SetPayload(kNotSent, absl::Cord());
  return status;
}

bool WasNotSent(const base::Status& status) { return status.GetPayload(kNotSent).has_value(); }

base::Status WithMethod(const base::Status& status, std::string_view method) {
  base::Status named = base::Annotate(status, method);
  named.SetPayload(kMethod, absl::Cord(absl::string_view(method.data(), method.size())));
  return named;
}

std::string_view SentMessage(const base::Status& status) {
  const std::string_view message = base::Message(status);
  const auto method = status.GetPayload(kMethod);
  if (!method.has_value()) return message;
  const std::string prefix = std::string(*method) + ": ";
  return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
}

bool IsFinal(const base::Status& status) {
  switch (status.code()) {
    case base::StatusCode::kOk:
    case base::StatusCode::kCancelled:
    case base::StatusCode::kDeadlineExceeded:
    case base::StatusCode::kUnavailable:
    case base::StatusCode::kAborted:
    case base::StatusCode::kResourceExhausted:
      return false;
    default:
      return true;
  }
}

}  // namespace berth::rpc
