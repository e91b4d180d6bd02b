// Speaks QMP, QEMU's machine protocol, with one qemu-storage-daemon or one virtual machine over its
// UNIX socket: a greeting, then lines of JSON, one for each command's answer and for each event
// (docs/interop/qmp-spec of QEMU).
//
// Not thread-safe. UNAVAILABLE: the process went away; DEADLINE_EXCEEDED: it did not answer. In
// both cases the command may have been executed.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::platform {

// Splits the stream into its JSON objects, one a line. Each line has a bound.
class QmpReader {
 public:
  static constexpr size_t kLongestLine = size_t{1} << 20;

  // Adds received bytes. RESOURCE_EXHAUSTED: a line exceeds the bound.
  base::Status AddBytes(std::string_view bytes);
  // Removes and gives the next whole object; nullopt: there is none yet. INVALID_ARGUMENT: the line
  // is not a JSON object. RESOURCE_EXHAUSTED as above.
  base::StatusOr<std::optional<base::Json>> TakeObject();

 private:
  std::string pending_;
};

class QmpClient {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Connects, reads the greeting and negotiates, so that commands can follow. UNAVAILABLE: no
  // process listens at `socket`. FAILED_PRECONDITION: the greeting is not QMP's.
  static base::StatusOr<QmpClient> Connect(const std::string& socket, Deadline deadline);

  // Runs a command and gives its "return". `descriptor` goes with the command (add-fd); the caller
  // keeps it; -1: none. FAILED_PRECONDITION: QEMU refused the command; the message is QEMU's.
  base::StatusOr<base::Json> Call(std::string_view command, base::Json arguments, Deadline deadline,
                                  int descriptor = -1);

 private:
  explicit QmpClient(base::UniqueFd socket) : socket_(std::move(socket)) {}
  base::StatusOr<base::Json> Receive(Deadline deadline);

  base::UniqueFd socket_;
  QmpReader reader_;
  int64_t next_id_ = 1;
};

}  // namespace berth::platform
