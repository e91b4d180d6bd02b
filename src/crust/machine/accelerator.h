// Chooses how guests run: by the processor's own virtualisation (KVM), or by QEMU's emulation
// (TCG).
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "crust/machine/machine.h"

namespace berth::crust {

// "kvm" if the host has it and a guest of these settings, booted for a try, answers in time; else
// "tcg". Many virtual hosts have a /dev/kvm with which no guest comes up, so the device's file
// alone proves nothing. `device`: the path of the kernel's device. The machine of the try is ended,
// also one that an earlier process left. Error: one such machine cannot be ended.
base::StatusOr<std::string> ChooseAccelerator(MachineSettings settings,
                                              const MachineRecords& records,
                                              const std::string& machines,
                                              const std::string& device = "/dev/kvm");

// Measures the frequency of the time stamp counter for 50 ms; 0: this processor has none.
int64_t MeasureTscKhz();

}  // namespace berth::crust
