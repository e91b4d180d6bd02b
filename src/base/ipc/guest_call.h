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
//   guest.graft    name, path: a relative path in the volume, without ".."; "": the volume itself
//                  → place: where a container's bind mount finds it. Folders that are missing are
//                  made, and no symlink leads out of the volume. The same place each time
//   guest.disk     serial, milliseconds: how long to wait for it → major, minor: the numbers of the
//                  disk as a device of the guest
//   guest.begin    hostname, sysctls ("NAME=VALUE" each), share: the tag of the virtiofs that is
//                  mounted at kShareFolder; "": none. Prepares the guest for the pod's containers.
//                  OK if it was done already
//   guest.network  mac, mtu, addresses ("10.1.2.3/24" each), routes ("DESTINATION|GATEWAY" each;
//                  an empty gateway: on the link), neighbors ("ADDRESS|MAC" each). Gives the
//                  network card with that address what the sandbox's has on the host, and the name
//                  `name`. OK if it has it already
//   container.*    the calls of base/ipc/container_call.h
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
inline constexpr std::string_view kGraft = "guest.graft";
inline constexpr std::string_view kDisk = "guest.disk";
inline constexpr std::string_view kBegin = "guest.begin";
inline constexpr std::string_view kNetwork = "guest.network";

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
inline constexpr std::string_view kPath = "path";
inline constexpr std::string_view kPlace = "place";
inline constexpr std::string_view kMajor = "major";
inline constexpr std::string_view kMinor = "minor";
inline constexpr std::string_view kHostname = "hostname";
inline constexpr std::string_view kSysctls = "sysctls";
inline constexpr std::string_view kShare = "share";
inline constexpr std::string_view kMac = "mac";
inline constexpr std::string_view kMtu = "mtu";
inline constexpr std::string_view kAddresses = "addresses";
inline constexpr std::string_view kRoutes = "routes";
inline constexpr std::string_view kNeighbors = "neighbors";

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
// Where the guest has runc.
inline constexpr const char* kRunc = "/usr/sbin/runc";
// Where a volume is mounted in the guest.
inline constexpr const char* kVolumeFolder = "/volumes";
inline std::string VolumePath(std::string_view name) {
  return std::string(kVolumeFolder) + "/" + std::string(name);
}
// Where the guest mounts the folder that the host shares by virtiofs
// (crust/containers/shared_folder.h draws it).
inline constexpr const char* kShareFolder = "/shared";
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
