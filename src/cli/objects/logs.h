// `berth logs`: shows what a pod's container wrote.
#pragma once

#include <optional>
#include <string>

#include "cli/arguments.h"
#include "kube/client.h"

namespace berth::cli {

struct LogOptions {
  std::string pod;
  std::string container;  // empty: the only one
  bool follow = false;
  bool previous = false;
  bool timestamps = false;
  std::optional<int64_t> tail;
};

// Prints the log. With `follow` it prints until the container ends or `stop` is requested, which is
// not an error.
Status PrintLogs(kube::Client& client, const ApiOptions& api, const LogOptions& options,
                 std::stop_token stop);

}  // namespace berth::cli
