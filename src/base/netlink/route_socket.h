// A socket for the kernel's network interfaces, addresses and routes (rtnetlink(7)). It stays in
// the network namespace in which it was opened. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "base/netlink/message.h"
#include "base/unique_fd.h"

namespace berth::base::netlink {

class RouteSocket {
 public:
  // A descriptor for the constructor, or a negative errno. Async-signal-safe: a child process that
  // has entered another namespace may call it, and hand the descriptor out.
  static int Open();
  explicit RouteSocket(UniqueFd fd) : fd_(std::move(fd)) {}

  // Sends a request and waits until the kernel has carried it out. Returns 0 or an errno.
  int Change(const Message& request);

  // Asks for all objects of a kind (RTM_GETLINK and the like) and calls `each` with the type of
  // each answer and what follows its header. Returns 0 or an errno; EINTR: they changed meanwhile.
  using Each = std::function<void(uint16_t type, std::string_view body)>;
  template <typename Head>
  int List(uint16_t type, const Head& head, const Each& each) {
    return Exchange(Message(type, NLM_F_DUMP, head), each);
  }

 private:
  int Exchange(const Message& request, const Each& each);

  UniqueFd fd_;
  uint32_t sequence_ = 0;
};

}  // namespace berth::base::netlink
