// The pages of a driver's list: how far they are followed. A driver may say at the end of each page
// that there is another one; one that never stops saying so must not hold a worker, nor its stop.
//
//   Pages pages("snapshots", stop);
//   while (true) {
//     ... call, look at the entries ...
//     if (response.next_token().empty()) break;
//     RETURN_IF_ERROR(pages.Turn(response.next_token()));
//     request.set_starting_token(response.next_token());
//   }
//
// What a token can be long is the client's matter (rpc/csi_limits.h). For one list, by one thread.
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

  // `what` is listed, as a person is told.
  Pages(std::string what, std::stop_token stop, Limits limits);

  // Whether the page at `next_token` is to be asked for. INTERNAL: the pages go in a circle, do not
  // end, or take too long. ABORTED: whoever lists is stopped.
  base::Status Turn(const std::string& next_token);

 private:
  const std::string what_;
  const std::stop_token stop_;
  const Limits limits_;
  const std::chrono::steady_clock::time_point deadline_;
  std::set<std::string> tokens_;  // all that were given
};

}  // namespace berth::controllers
