// The disks of the guest, which the handler plugs in and out. They are found by serial number.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace berth::guest {

// Waits for the disk with that serial number. Returns its name, such as "sda", once it can be
// opened; "": it did not come before the deadline.
std::string AwaitDisk(const std::string& serial, std::chrono::steady_clock::time_point deadline);

// Has the kernel ask for the disk's size until it is at least `bytes`. False: it was not before the
// deadline.
bool AwaitSize(const std::string& disk, uint64_t bytes,
               std::chrono::steady_clock::time_point deadline);

// The size in bytes; 0: it cannot be read.
uint64_t ReadSize(const std::string& disk);

}  // namespace berth::guest
