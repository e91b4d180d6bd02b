#include "crust/kata/device_use.h"

#include <algorithm>
#include <thread>

#include "base/log.h"
#include "crust/device.h"
#include "platform/devices/device_users.h"

namespace berth::crust::kata {
namespace {

using std::chrono::milliseconds;

// The kernel reports no event when a process closes a device, so the processes are looked through.
constexpr milliseconds kPollInterval(100);

}  // namespace

base::Status WaitUntilDeviceIsUnused(const Device& device, milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (true) {
    const auto left =
        std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
    RETURN_IF_ERROR(WaitUntilDeviceIsFree(device, std::max(left, milliseconds(0))));
    ASSIGN_OR_RETURN(const auto users, platform::FindDeviceUsers(device.number));
    if (users.empty()) return base::OkStatus();
    if (std::chrono::steady_clock::now() >= deadline) {
      return base::Error(base::StatusCode::kFailedPrecondition,
                         "device {} is still in use, because it is open in {}",
                         base::Quote(device.source), platform::DescribeProcesses(users));
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

}  // namespace berth::crust::kata
