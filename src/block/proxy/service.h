// Serves the calls of calls.h to the agents of this node. Only root gets an answer.
#pragma once

#include <memory>

#include "base/ipc/server.h"
#include "block/proxy/exports.h"

namespace berth::block::proxy {

// Serves until the server is destroyed. `exports` is borrowed and must outlive the server;
// `listener` is a listening UNIX socket.
std::unique_ptr<base::ipc::Server> ServeExports(Exports& exports, base::UniqueFd listener);

}  // namespace berth::block::proxy
