#include "platform/host_lookup.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <memory>
#include <system_error>
#include <thread>

#include "base/log.h"

namespace berth::platform {

using base::Error;
using base::StatusCode;
using base::StatusOr;
using Addresses = std::vector<std::string>;

namespace {

constexpr int kMostLookUps = 8;

StatusOr<Addresses> LookUpUntil(const std::string& host,
                                std::chrono::steady_clock::time_point deadline,
                                const LookUp& look_up) {
  static std::atomic<int> running{0};
  if (running >= kMostLookUps) {
    return Error(StatusCode::kResourceExhausted, "{} look-ups of names have not ended yet",
                 kMostLookUps);
  }
  std::promise<StatusOr<Addresses>> promise;
  auto answered = promise.get_future();
  ++running;
  // Nobody can join this thread in time, because getaddrinfo has no deadline and cannot be called
  // off. It owns all that it touches, and `running` bounds the number of such threads.
  try {
    std::thread([host, look_up, promise = std::move(promise)]() mutable {
      auto found = look_up(host);
      --running;
      promise.set_value(std::move(found));
    }).detach();
  } catch (const std::system_error& error) {
    --running;
    return Error(StatusCode::kResourceExhausted, "no thread: {}", error.what());
  }
  if (answered.wait_until(deadline) == std::future_status::ready) return answered.get();
  return Error(StatusCode::kDeadlineExceeded, "the look-up of {} did not end in time",
               base::Quote(host));
}

}  // namespace

StatusOr<Addresses> LookUpBySystem(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &raw); error != 0) {
    return Error(StatusCode::kUnavailable, "look up {}: {}", base::Quote(host),
                 gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> found(raw, &freeaddrinfo);
  Addresses addresses;
  for (const addrinfo* one = raw; one != nullptr; one = one->ai_next) {
    char text[NI_MAXHOST];
    const int error =
        getnameinfo(one->ai_addr, one->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
    if (error == 0) addresses.emplace_back(text);
  }
  return addresses;
}

bool IsIpAddress(const std::string& host) {
  in6_addr any;
  return inet_pton(AF_INET, host.c_str(), &any) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &any) == 1;
}

StatusOr<Addresses> ResolveHost(const std::string& host,
                                std::chrono::steady_clock::time_point deadline,
                                const LookUp& look_up) {
  if (IsIpAddress(host)) return Addresses{host};
  ASSIGN_OR_RETURN(Addresses found, LookUpUntil(host, deadline, look_up));
  if (found.empty()) {
    return Error(StatusCode::kUnavailable, "the name {} has no address", base::Quote(host));
  }
  return found;
}

}  // namespace berth::platform
