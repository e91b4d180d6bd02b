// Limits how many pages of a driver's list are read. A driver says at the end of each page whether
// another one follows; a driver that never stops saying so must not hold a worker or delay its
// stop.
//
//   Pages pages("snapshots", stop);
//   while (true) {
//     ... call, look at the entries ...
//     if (response.next_token().empty()) break;
//     RETURN_IF_ERROR(pages.TurnPage(response.next_token()));
//     request.set_starting_token(response.next_token());
//   }
//
// The client limits the length of a token (rpc/csi_limits.h). An object serves one list and one
// thread.
#pragma once

#include <chrono>
#include <set>
#include <stop_token>
#include <string>

#include "base/status.h"

namespace berth::controllers {

class Pages {
 public:
  struct Limits {
    size_t pages = 5000;
    std::chrono::milliseconds time = std::chrono::minutes(10);
  };

  // `what` names the listed things in error messages: "snapshots".
  Pages(std::string what, std::stop_token stop, Limits limits);

  // OK if the caller may ask for the page at `next_token`. INTERNAL: the pages go in a circle, do
  // not end, or take too long. ABORTED: a stop was requested.
  base::Status TurnPage(const std::string& next_token);

 private:
  const std::string what_;
  const std::stop_token stop_;
  const Limits limits_;
  const std::chrono::steady_clock::time_point deadline_;
  std::set<std::string> tokens_;  // all that TurnPage got
};

}  // namespace berth::controllers
