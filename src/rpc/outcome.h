// Final or unknown: what the failure of an RPC tells about its effect (DESIGN rule 3).
#pragma once

#include <grpcpp/support/status.h>

#include <chrono>

#include "base/status.h"

namespace berth::rpc {

// gRPC's status with the same code. An empty message becomes the code's name.
base::Status FromGrpc(const grpc::Status& status);
grpc::Status ToGrpc(const base::Status& status);

// True if a failed call certainly had no effect and may be undone or dropped. CANCELLED,
// DEADLINE_EXCEEDED, UNAVAILABLE, ABORTED and (for node calls, as in the kubelet)
// RESOURCE_EXHAUSTED leave the outcome unknown: the caller repeats the same call.
bool IsFinal(const base::Status& status);

// Marks a failure that happened before the call: nothing was sent, whatever the code is, so the
// outcome of an earlier call is not changed by it.
base::Status NotSent(base::Status status);
bool WasNotSent(const base::Status& status);

using Timeout = std::chrono::milliseconds;

}  // namespace berth::rpc
