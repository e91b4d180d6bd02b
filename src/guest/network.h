// The guest's network: the call guest.network (base/ipc/guest_call.h), by rtnetlink(7).
#pragma once

#include "base/ipc/message.h"

namespace berth::guest {

// Gives the network card what the request says, and returns the reply. It can be repeated.
// INVALID_ARGUMENT: the request is none. NOT_FOUND: the guest has no card with that address.
base::ipc::Message ConfigureNetwork(const base::ipc::Message& request);

}  // namespace berth::guest
