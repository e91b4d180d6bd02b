// The calls that `berth io-proxy` makes to a process that serves one volume (src/blockexport):
//
//   export.status  {} → size, readOnly, flushed: 1 if nothing was written since the last flush that
//                  succeeded
//   export.resize  {} → size. The process asks the storage for the present size, and the FUSE file
//                  has that size when the reply comes
//   export.quit    {} → {}. The process has flushed the volume and unmounted the FUSE file, and
//                  ends after the reply. If the flush failed, it replies with an error of the code
//                  DATA_LOSS and goes on, unless a fence shut it out, after which no flush can
//                  succeed. An error of another code is not about the volume's data
//
// A process that ends after export.quit writes the line kFlushedReport to its output, because its
// caller may not have waited for the reply.
#pragma once

#include <cstddef>
#include <string_view>

namespace berth::base::ipc::volume_export {

inline constexpr std::string_view kStatus = "export.status";
inline constexpr std::string_view kResize = "export.resize";
inline constexpr std::string_view kQuit = "export.quit";

inline constexpr std::string_view kSize = "size";
inline constexpr std::string_view kReadOnly = "readOnly";
inline constexpr std::string_view kFlushed = "flushed";
inline constexpr std::string_view kFlushedReport = R"({"flushed":true})";

// The members of the settings that the process reads from its standard input as one JSON object,
// beside those of its storage: where it listens, the file over which it mounts, and the volume.
inline constexpr std::string_view kSocket = "socket";
inline constexpr std::string_view kFile = "file";
inline constexpr std::string_view kImage = "image";
inline constexpr std::string_view kShared = "shared";
// The settings fit into a pipe, because they are written before the process runs.
inline constexpr size_t kMostSettings = 60'000;

}  // namespace berth::base::ipc::volume_export
