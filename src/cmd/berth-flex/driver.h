// The Flexvolume driver that passes each call to the block agent of its node, and prints the reply.
//
//   init              checks the protocol version of the agent, and prints the capabilities
//   mount DIR JSON    attaches and mounts the volume
//   unmount DIR
//   expandfs JSON DEVICE DIR NEW OLD    grows the file system, if the image has NEW bytes
//   other calls       "Not supported": the kubelet then uses its own default for the call
//
// It prints one JSON object and nothing else, because the kubelet also reads standard error. If the
// agent does not run, the driver waits for it, because an upgrade of the agent takes only a moment.
// If the agent ends during a call, the driver waits and repeats the call, because all calls may be
// repeated.
//
// init does not wait for an agent that does not run: the kubelet calls init under the lock that all
// its volumes need, and again at each look at any volume until it succeeds. An agent that starts
// installs the driver, and the kubelet then finds it anew.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/ipc/message.h"
#include "base/ipc/result.h"

namespace berth::flex {

struct Reply {
  int exit_code = 0;
  std::string text;  // one line of JSON
};

// How long a call waits for the agent and its answer; init, for the answer alone.
struct Patience {
  std::chrono::milliseconds init;
  std::chrono::milliseconds call;
};
Patience DefaultPatience();

// Makes one call. `arguments` are those of the program, without its name; `executable` is its file.
Reply RunDriver(const std::vector<std::string>& arguments, const std::string& executable,
                Patience patience = DefaultPatience());

}  // namespace berth::flex
