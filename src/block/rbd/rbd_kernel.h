// The kernel's RBD client (krbd), by /sys/bus/rbd.
//
// Every device has a client of its own (option noshare), so that a fence of one image shuts out
// nothing else of the node, and takes the image's exclusive lock when it appears and keeps it
// (option exclusive), so that it gives the lock to nobody who asks.
//
// The key of the storage goes into the keyring of the short-lived process that writes to sysfs, and
// ends with it; the kernel's client has a copy of its own by then. All calls end within a time-out.
// Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "block/rbd/rbd_settings.h"

namespace berth::block {

// Whether the kernel has an RBD client now. Does not load its module.
bool HasKernelRbd();

struct RbdDevice {
  uint32_t id = 0;   // /sys/bus/rbd/devices/ID
  std::string path;  // "/dev/rbd0"
  uint64_t device_number = 0;
  std::string image;
  std::string client;  // the address by which the storage knows it: "10.0.0.5:0/3712435"
  uint64_t size_bytes = 0;
  bool read_only = false;
};

struct RbdMapRequest {
  std::string image;
  std::string mark;  // how ListRbdDevices finds the device again: letters, digits, '.', '-'
  std::string key;   // of Ceph, as text
  bool read_only = false;
  bool shared_writers = false;  // without the exclusive lock
};

// Maps the image. FAILED_PRECONDITION: another client has its lock. NOT_FOUND: there is no such
// image. PERMISSION_DENIED: the key is wrong. DEADLINE_EXCEEDED: the monitors do not answer.
base::Status MapRbdDevice(const RbdSettings& settings, const RbdMapRequest& request,
                          std::chrono::milliseconds timeout);
// Has the device read the size of its image now.
base::Status RefreshRbdDevice(uint32_t id, std::chrono::milliseconds timeout);
// Removes the device. FAILED_PRECONDITION: something has it open, and `force` is false. By force,
// requests that wait fail, and so do all later ones.
base::Status UnmapRbdDevice(uint32_t id, bool force, std::chrono::milliseconds timeout);

// The devices that were mapped with `mark`.
base::StatusOr<std::vector<RbdDevice>> ListRbdDevices(const std::string& mark);

}  // namespace berth::block
