// Calls berth-guest in a sandbox's virtual machine over its control port (base/ipc/guest_call.h).
//
// What the guest answers is not trusted: each answer has a bound, and its words are quoted. Not
// thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/ipc/guest_call.h"
#include "base/ipc/line_reader.h"
#include "base/ipc/message.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace berth::crust {

class GuestClient {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  // Asked a few times a second while a call waits. The call fails with the status unless it is OK.
  using Watch = std::function<base::Status()>;

  // `socket`: the path of the port's socket on the host.
  explicit GuestClient(std::string socket) : socket_path_(std::move(socket)) {}

  // Sends a request and returns its reply. The connection is made if there is none. UNAVAILABLE:
  // the machine has ended. DEADLINE_EXCEEDED: the guest does not answer. In both cases the guest
  // may have done what was asked. Else the code is the guest's, and the message quotes the guest's.
  base::StatusOr<base::ipc::Message> Call(base::ipc::Message request, Deadline deadline,
                                          const Watch& watch = nullptr);

 private:
  base::Status Connect();
  base::Status SendAll(const std::string& text, Deadline deadline, const Watch& watch);
  base::StatusOr<base::ipc::Message> Receive(const std::string& id, Deadline deadline,
                                             const Watch& watch);
  base::Status WaitFor(short events, Deadline deadline, const Watch& watch) const;

  std::string socket_path_;
  base::UniqueFd socket_;
  base::ipc::LineReader reader_{base::ipc::guest::kLargestLine};
};

}  // namespace berth::crust
