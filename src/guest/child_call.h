// Calls that run in a child process of berth-guest, because the kernel may block in them for ever.
#pragma once

#include <sys/types.h>

#include <functional>

#include "base/ipc/message.h"
#include "guest/control.h"
#include "guest/loop.h"

namespace berth::guest {

// Runs `body` in a child, and `reply` with what it returned, or with an error, when the child has
// ended. Returns the child; 0: none could be started, and `reply` was called at once. The answer is
// short: at most the capacity of a pipe.
pid_t CallInChild(Loop& loop, const std::function<base::ipc::Message()>& body, Reply reply);

}  // namespace berth::guest
