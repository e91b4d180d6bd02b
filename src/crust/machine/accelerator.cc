#include "crust/machine/accelerator.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#ifdef __x86_64__
#include <x86intrin.h>
#endif

#include "base/log.h"
#include "base/unique_fd.h"

namespace berth::crust {
namespace {

// No sandbox has such an id, because ids do not begin with a full stop.
constexpr const char* kTry = ".kvm-try";
constexpr std::chrono::seconds kTryTime(20);

}  // namespace

base::StatusOr<std::string> ChooseAccelerator(MachineSettings settings,
                                              const MachineRecords& records,
                                              const std::string& machines,
                                              const std::string& device) {
  settings.accelerator = "kvm";
  settings.boot_within = kTryTime;
  Machine machine(settings, records, kTry, MachinePaths(machines + "/try"));
  RETURN_IF_ERROR(machine.End());
  const base::UniqueFd kvm(open(device.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!kvm.valid()) {
    LOG_INFO("guests run in software emulation, because {} cannot be opened", base::Quote(device));
    return std::string("tcg");
  }
  const base::Status started = machine.Start();
  RETURN_IF_ERROR(machine.End());
  if (started.ok()) return std::string("kvm");
  LOG_WARNING("guests run in software emulation, because none came up with KVM: {}",
              base::ToString(started));
  return std::string("tcg");
}

int64_t MeasureTscKhz() {
#ifdef __x86_64__
  using std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kTime(50);
  const auto began = steady_clock::now();
  const uint64_t first = __rdtsc();
  std::this_thread::sleep_for(kTime);
  const auto ended = steady_clock::now();
  const uint64_t last = __rdtsc();
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(ended - began).count();
  return micros <= 0 ? 0 : static_cast<int64_t>(last - first) * 1000 / micros;
#else
  return 0;
#endif
}

}  // namespace berth::crust
