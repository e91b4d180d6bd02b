// Reads what the block agent appended to a driver's executable when it installed the driver
// (block_call.h).
#pragma once

#include <string>

#include "base/ipc/message.h"
#include "base/ipc/result.h"

namespace berth::base::ipc::block {

// Returns the trailer's members. kBroken: the file has no valid trailer. kSystem: it cannot be
// opened.
Result<Message> ReadTrailer(const std::string& executable);

}  // namespace berth::base::ipc::block
