// The kernel's NBD client, by generic netlink (linux/nbd-netlink.h).
//
// UNIMPLEMENTED: this kernel has no NBD client, or this process is in a network namespace that does
// not see it. All calls end within a time-out. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "block/nbd/nbd_handshake.h"

namespace berth::block {

// Whether the kernel has an NBD client now, and this process can reach it. Does not load its
// module.
bool HasKernelNbd();

// The time that the server has to take and to answer a request; the connection then counts as dead.
inline constexpr std::chrono::seconds kNbdRequestTime{30};

struct NbdConnectOptions {
  // Identifies the device later (/sys/block/nbdN/backend, Linux 5.14).
  std::string identifier;
  std::chrono::seconds timeout = kNbdRequestTime;
  bool read_only = false;
};

// Gives the connection to a free device, and returns the number of the device.
base::StatusOr<uint32_t> ConnectNbdDevice(const NbdConnection& connection,
                                          const NbdConnectOptions& options);
base::Status ResizeNbdDevice(uint32_t index, const std::string& identifier, uint64_t size_bytes);
// Disconnects the device even if something has it open. OK if it is not connected. While a request
// is being sent, the kernel waits for its end first, for kNbdRequestTime at most: a server that
// hangs takes no more than what fits into the socket.
base::Status DisconnectNbdDevice(uint32_t index, const std::string& identifier,
                                 std::chrono::milliseconds timeout);

struct NbdDevice {
  uint32_t index = 0;
  std::string path;  // "/dev/nbd0"
  uint64_t device_number = 0;
  std::string identifier;
  uint64_t size_bytes = 0;
  bool read_only = false;
};

// The size that a device gets when it is forced off. It marks the device, because the kernel keeps
// the device's settings while a process has it open. It is less than a block.
inline constexpr uint64_t kForcedNbdSize = 512;

// Lists the devices that are connected and have an identifier, except those that were forced off.
// Makes their device nodes in /dev where they are missing.
base::StatusOr<std::vector<NbdDevice>> ListNbdDevices();

}  // namespace berth::block
