// Asks the shim of a Kata sandbox about a volume: HTTP on a UNIX socket that the shim of Kata's Go
// runtime serves as long as the sandbox lives (<run>/vc/sbs/<sandbox>/shim-monitor.sock). The shim
// hands the request on to the agent in the virtual machine.
//
// What the shim says comes from the virtual machine, so it is bounded and checked. Stateless;
// thread-safe.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/status.h"
#include "proto/crust.pb.h"

namespace berth::crust::kata {

// `device` is the host's path of the device, as mountInfo.json has it. Errors of both calls:
// NOT_FOUND: no shim listens there. DEADLINE_EXCEEDED: it did not answer within `timeout`.
// UNAVAILABLE: it refused, which its text in the message explains, or broke its answer off.
// UNIMPLEMENTED: the agent says that it cannot do this. INTERNAL: its answer makes no sense.

// Reads the numbers of the volume's file system.
base::StatusOr<::crust::v1alpha1::RuntimeGetVolumeStatsResponse> AskForStats(
    const std::string& socket, const std::string& device, std::chrono::milliseconds timeout);

// Has the file system grow to `bytes`. OK says only that the shim said so.
base::Status AskToGrow(const std::string& socket, const std::string& device, int64_t bytes,
                       std::chrono::milliseconds timeout);

// Reads the text of an answer with numbers. INTERNAL: they make no sense.
base::StatusOr<::crust::v1alpha1::RuntimeGetVolumeStatsResponse> ParseStats(std::string_view text);

}  // namespace berth::crust::kata
