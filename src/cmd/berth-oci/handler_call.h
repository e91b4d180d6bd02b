// Calls to the CRUST handler (base/ipc/crust_call.h, base/ipc/container_call.h).
#pragma once

#include <span>
#include <vector>

#include "base/ipc/message.h"
#include "base/ipc/result.h"
#include "base/unique_fd.h"
#include "cmd/berth-oci/oci.h"

namespace berth::oci {

// Sends the request to the handler. If the handler does not answer, waits for its restart and sends
// again, because a pod whose restartPolicy is Never fails if a container cannot be created.
// kRefused: the handler refuses, and the failure has its text and code.
base::ipc::Result<base::ipc::Message> CallHandler(const Config& config,
                                                  const base::ipc::Message& request,
                                                  std::span<const int> descriptors,
                                                  std::vector<base::UniqueFd>* received);

}  // namespace berth::oci
