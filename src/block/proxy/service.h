// Serves what calls.h says, on behalf of this node's agents; only root is answered.
#pragma once

#include <memory>

#include "base/ipc/server.h"
#include "block/proxy/exports.h"

namespace berth::block::proxy {

// `exports` is borrowed; `listener` is a listening UNIX socket.
std::unique_ptr<base::ipc::Server> Serve(Exports& exports, base::UniqueFd listener);

}  // namespace berth::block::proxy
