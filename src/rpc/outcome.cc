#include "rpc/outcome.h"

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
}  // namespace

base::Status NotSent(base::Status status) {
  status.SetPayload(kNotSent, absl::Cord());
  return status;
}

bool WasNotSent(const base::Status& status) { return status.GetPayload(kNotSent).has_value(); }

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
