// The calls that the agent of a node makes to its `berth io-proxy` (base/ipc).
//
//   open    store, image, then path (with device and inode, which identify the file), or server
//           and export (and path, if this node reaches the server's file), or program and settings
//           (export_record.h); readOnly, shared
//             → path (a file that shows the volume), device (of its file system), size
//   resize  store, image, size: grows the volume to at least `size` bytes
//             → path, device, size
//   close   store, image: ends the export. Refused while a loop device shows its file
//   kill    store, image: ends the export even if its file is open: reads and writes then fail
//   list    image ("": all)
//             → exports: one JSON object for each export of all stores: store, image, state
//             ("starting", "serving", "quarantined", "closing" or "killing"), reason, path, server,
//             program, readOnly, shownOn (device of the file system that shows it; 0: it does not
//             serve yet), pid
#pragma once

#include <chrono>
#include <string_view>

namespace berth::block::proxy {

inline constexpr std::string_view kOpen = "proxy.open";
inline constexpr std::string_view kResize = "proxy.resize";
inline constexpr std::string_view kClose = "proxy.close";
inline constexpr std::string_view kKill = "proxy.kill";
inline constexpr std::string_view kList = "proxy.list";

inline constexpr std::string_view kStore = "store";
inline constexpr std::string_view kImage = "image";
inline constexpr std::string_view kPath = "path";
inline constexpr std::string_view kDevice = "device";
inline constexpr std::string_view kInode = "inode";
inline constexpr std::string_view kServer = "server";
inline constexpr std::string_view kExport = "export";
inline constexpr std::string_view kProgram = "program";
inline constexpr std::string_view kSettings = "settings";
inline constexpr std::string_view kReadOnly = "readOnly";
inline constexpr std::string_view kShared = "shared";
inline constexpr std::string_view kSize = "size";
inline constexpr std::string_view kExports = "exports";

inline constexpr const char* kFolder = "/run/berth/io-proxy";
inline constexpr std::chrono::seconds kCallTime{60};

}  // namespace berth::block::proxy
