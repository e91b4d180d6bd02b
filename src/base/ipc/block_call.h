// The protocol between berth-flex, the Flexvolume driver, and the block agent of its node.
//
//   init     the handshake: `version` of each side (kProtocol), which must be the same; before the
//            first one the agent serves no other request
//   mount    mountDir, options (the JSON object that the kubelet gave)
//   unmount  mountDir
//   expand   mountDir, newBytes (the size that the volume must have)
//
// The agent waits some seconds until the image of an expand has its size, and fails while the image
// is smaller. Requests and replies always have `version`. A reply has nothing else, except an
// `error` if the request failed, with what failed and why. If a driver is killed, the agent still
// finishes what the driver asked for, and a repeated request finds it done.
//
// The driver reads the path of the agent's socket from its own executable: the installer appends a
// trailer to the executable, because a copy of it may be run from any folder and with any
// environment:
//
//   ELF  {"socket": "/run/berth/block-agent.sock", ...}  length of the JSON (4 bytes)  "BERTHFLX"
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace berth::base::ipc::block {

inline constexpr std::string_view kInit = "block.init";
inline constexpr std::string_view kMount = "block.mount";
inline constexpr std::string_view kUnmount = "block.unmount";
inline constexpr std::string_view kExpand = "block.expand";
inline constexpr std::string_view kVersion = "version";
// The version of this protocol: a whole number.
inline constexpr int64_t kProtocol = 1;
inline constexpr std::string_view kMountDir = "mountDir";
inline constexpr std::string_view kOptions = "options";
inline constexpr std::string_view kNewBytes = "newBytes";

// The trailer's members. An absent kTrailerFsGroup or kTrailerRelabel means "true".
inline constexpr std::string_view kTrailerSocket = "socket";
inline constexpr std::string_view kTrailerFsGroup = "fsGroup";
inline constexpr std::string_view kTrailerRelabel = "selinuxRelabel";

inline constexpr const char* kSocket = "/run/berth/block-agent.sock";
inline constexpr std::string_view kTrailerMagic = "BERTHFLX";
inline constexpr size_t kLargestTrailer = 4096;

// How long a driver waits for an agent that is not running and for the agent's answer together; an
// init waits for the answer only. It is less than the two minutes after which Berth ends a driver's
// call, so that people read the driver's own message.
inline constexpr std::chrono::seconds kInitTime{10};
inline constexpr std::chrono::seconds kCallTime{110};

}  // namespace berth::base::ipc::block
