// How the static programs report failures: they do not link absl (DESIGN, "Programs").
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace berth::base::ipc {

enum class Problem {
  kNone,
  kNobody,      // nobody listens at the socket
  kNotAllowed,  // the peer is not who it has to be
  kTimeout,
  kClosed,    // the peer left before the message was whole
  kBroken,    // what came is no message
  kVersion,   // the peer speaks another version of the protocol
  kTooLarge,  // a message beyond the bound
  kRefused,   // the peer answered with an error; the text is its own
  kSystem,    // the kernel refused; the text says what
};

struct [[nodiscard]] Failure {
  Problem problem = Problem::kNone;
  std::string text;

  bool ok() const { return problem == Problem::kNone; }
};

inline Failure Ok() { return {}; }

// "CONTEXT: No such file or directory"; `error` is an errno value.
Failure SystemFailure(std::string_view context, int error);

// A value, or why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}              // NOLINT(google-explicit-constructor)
  Result(Failure failure) : failure_(std::move(failure)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return failure_.ok(); }
  const Failure& failure() const { return failure_; }
  // Only of a result that is ok.
  T& operator*() { return value_; }
  const T& operator*() const { return value_; }
  T* operator->() { return &value_; }
  const T* operator->() const { return &value_; }

 private:
  T value_{};
  Failure failure_;
};

}  // namespace berth::base::ipc
