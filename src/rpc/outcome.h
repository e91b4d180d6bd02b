// Final or unknown: what the failure of an RPC tells about its effect (DESIGN rule 3).
#pragma once

#include <grpcpp/support/status.h>

#include <chrono>

#include "base/status.h"

namespace berth::rpc {

// gRPC's status with the same code. An empty message becomes the code's name.
base::Status FromGrpc(const grpc::Status& status);
grpc::Status ToGrpc(const base::Status& status);

// True if a failed call surely had no effect and may be undone or dropped. CANCELLED,
// DEADLINE_EXCEEDED, UNAVAILABLE, ABORTED and (for node calls, as the kubelet holds it)
// RESOURCE_EXHAUSTED leave the outcome unknown: the same call is to be repeated.
bool IsFinal(const base::Status& status);

// Marks a failure as one of before the call: nothing was sent, whatever the code says, and an
// earlier call's outcome is what it was.
base::Status NotSent(base::Status status);
bool WasNotSent(const base::Status& status);

using Timeout = std::chrono::milliseconds;

}  // namespace berth::rpc
