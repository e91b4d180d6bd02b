// The methods by which berth-oci asks the handler, over base/ipc. Only root can use the socket: the
// server refuses other callers before any work is done. The node agent's calls are in serving/.
#pragma once

#include <map>
#include <string>

#include "base/ipc/server.h"
#include "crust/handler.h"

namespace berth::crust {

// The methods of base/ipc/crust_call.h and of base/ipc/container_call.h. `handler` is borrowed and
// must outlive the result.
std::map<std::string, base::ipc::Method> MakeOciMethods(Handler& handler);

}  // namespace berth::crust
