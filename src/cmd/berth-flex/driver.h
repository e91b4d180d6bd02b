// The Flexvolume driver that hands each call to the block agent of its node, and prints the reply.
//
//   init              the handshake with the agent, and the driver's capabilities
//   mount DIR JSON    attaching is part of it
//   unmount DIR
//   all else          "Not supported": the kubelet then uses its own default for the call
//
// It prints one JSON object and nothing else (the kubelet reads standard error as well). While the
// agent is away, the driver waits, because an agent that is upgraded is back in a moment. If the
// agent ends during a call, the driver waits and repeats the call, because all calls may be
// repeated.
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

// Reads what the agent that installed the driver has appended to its file (base/ipc/block_call.h).
// kBroken: nothing is appended, or something else.
base::ipc::Result<base::ipc::Message> ReadTrailer(const std::string& executable);

struct Patience {
  std::chrono::milliseconds init;
  std::chrono::milliseconds call;
};
Patience DefaultPatience();

// `arguments` without the program's name.
Reply Run(const std::vector<std::string>& arguments, const std::string& executable,
          Patience patience = DefaultPatience());

}  // namespace berth::flex
