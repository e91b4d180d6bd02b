// The protocol between the CRUST handler and berth-guest, the first program of a sandbox's virtual
// machine (src/crust/machine, src/guest), over the virtio-serial port kControlPort.
//
// Each message (message.h) is one line. A request has `method` and `id`; its reply has the same
// `id`, and either the fields of the method, or `error` and `code`. Replies come in any order. Both
// sides skip a line that is not a message, and the first line after the start of a connection may
// be the rest of an earlier one: so each side sends a line's end before it sends a message.
//
//   guest.ping     → release: the guest's kernel. Answered even if every volume hangs
//   guest.mount    name, serial, type, flags (as of mount(2)), data (as of mount(2)); group and
//                  onlyRoot (0 or 1) if the files are given to a group; milliseconds: how long to
//                  wait for the device. Mounts the disk with that serial number at VolumePath(name)
//                  after all files have the group. OK if it is mounted there already
//   guest.unmount  name. OK if it is not mounted
//   guest.stats    name → totalBytes, usedBytes, availableBytes, totalInodes, usedInodes,
//                  availableInodes, readOnly (0 or 1); failure: what the guest knows of errors of
//                  the file system; "": none
//   guest.expand   name, bytes (the size of the disk) → totalBytes. Waits until the guest sees that
//                  size
//
// NOT_FOUND: the volume is not mounted. UNAVAILABLE: an earlier call for the volume still runs.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace berth::base::ipc::guest {

inline constexpr std::string_view kPing = "guest.ping";
inline constexpr std::string_view kMount = "guest.mount";
inline constexpr std::string_view kUnmount = "guest.unmount";
inline constexpr std::string_view kStats = "guest.stats";
inline constexpr std::string_view kExpand = "guest.expand";

inline constexpr std::string_view kId = "id";
inline constexpr std::string_view kRelease = "release";
inline constexpr std::string_view kName = "name";
inline constexpr std::string_view kSerial = "serial";
inline constexpr std::string_view kType = "type";
inline constexpr std::string_view kFlags = "flags";
inline constexpr std::string_view kData = "data";
inline constexpr std::string_view kGroup = "group";
inline constexpr std::string_view kOnlyRoot = "onlyRoot";
inline constexpr std::string_view kMilliseconds = "milliseconds";
inline constexpr std::string_view kBytes = "bytes";
inline constexpr std::string_view kTotalBytes = "totalBytes";
inline constexpr std::string_view kUsedBytes = "usedBytes";
inline constexpr std::string_view kAvailableBytes = "availableBytes";
inline constexpr std::string_view kTotalInodes = "totalInodes";
inline constexpr std::string_view kUsedInodes = "usedInodes";
inline constexpr std::string_view kAvailableInodes = "availableInodes";
inline constexpr std::string_view kReadOnly = "readOnly";
inline constexpr std::string_view kFailure = "failure";

// The name of the port in the guest (/sys/class/virtio-ports/*/name).
inline constexpr std::string_view kControlPort = "berth.control";
// A longer line ends the connection of the side that reads it.
inline constexpr size_t kLargestLine = 1024 * 1024;

// The files of the initramfs. A list has one line for each module, in the order in which they are
// loaded: its path. The modules of kBootList are loaded at the start, and those of ModuleList(type)
// before the first mount of that type.
inline constexpr const char* kBootList = "/modules/boot.list";
inline std::string ModuleList(std::string_view type) {
  return "/modules/" + std::string(type) + ".list";
}
// Where a volume is mounted in the guest.
inline constexpr const char* kVolumeFolder = "/volumes";
inline std::string VolumePath(std::string_view name) {
  return std::string(kVolumeFolder) + "/" + std::string(name);
}
// Volumes have names such as "v0", which are file names.
inline bool IsVolumeName(std::string_view name) {
  if (name.empty() || name.size() > 64) return false;
  for (const char c : name) {
    const bool fits = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-';
    if (!fits) return false;
  }
  return true;
}

}  // namespace berth::base::ipc::guest
