// Failure and Result: Status and StatusOr for the static programs, which do not link absl.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace berth::base::ipc {

enum class Problem {
  kNone,
  kNobody,      // no process listens at the socket
  kNotAllowed,  // the peer runs as another user than expected
  kTimeout,
  kClosed,    // the peer left before the message was whole
  kBroken,    // the peer sent something that is not a message
  kVersion,   // the peer uses another version of the protocol
  kTooLarge,  // a message is longer than allowed
  kRefused,   // the peer answered with an error, which is the text
  kSystem,    // a system call failed; the text has the call and its errno
};

struct [[nodiscard]] Failure {
  Problem problem = Problem::kNone;
  std::string text;
  // kRefused: the name of the error's code (base/status.h). Empty: the peer gives none, as earlier
  // versions of Berth do.
  std::string code;

  bool ok() const { return problem == Problem::kNone; }
};

inline Failure Ok() { return {}; }

// "CONTEXT: No such file or directory"; `error` is an errno value.
Failure SystemFailure(std::string_view context, int error);

// A value, or the failure because of which there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}              // NOLINT(google-explicit-constructor)
  Result(Failure failure) : failure_(std::move(failure)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return failure_.ok(); }
  const Failure& failure() const { return failure_; }
  // Use these only if ok().
  T& operator*() { return value_; }
  const T& operator*() const { return value_; }
  T* operator->() { return &value_; }
  const T* operator->() const { return &value_; }

 private:
  T value_{};
  Failure failure_;
};

}  // namespace berth::base::ipc
