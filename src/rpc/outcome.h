// Tells from the failure of an RPC whether its outcome is final or unknown (docs/design.md, rule
// 3).
#pragma once

#include <grpcpp/support/status.h>

#include <chrono>
#include <string_view>

#include "base/status.h"

namespace berth::rpc {

// gRPC's status with the same code. An empty message becomes the code's name.
base::Status FromGrpc(const grpc::Status& status);
grpc::Status ToGrpc(const base::Status& status);

// Whether a failed call certainly had no effect and may be undone or dropped. After CANCELLED,
// DEADLINE_EXCEEDED, UNAVAILABLE, ABORTED and RESOURCE_EXHAUSTED (as in the kubelet, for node
// calls) the outcome is unknown, and the caller repeats the same call. False for OK.
bool IsFinal(const base::Status& status);

// Marks a failure that happened before the request was sent. Whatever its code is, such a failure
// had no effect, and it does not change the outcome of an earlier call.
base::Status NotSent(base::Status status);
bool WasNotSent(const base::Status& status);

// Puts the name of the method before the message of a failed call, for logs.
base::Status WithMethod(const base::Status& status, std::string_view method);
// The message as the other side sent it, without the name that WithMethod put before it.
std::string_view SentMessage(const base::Status& status);

using Timeout = std::chrono::milliseconds;

}  // namespace berth::rpc
