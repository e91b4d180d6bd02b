// Folders of durable records and secrets, which only their owner may use.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace berth::platform {

// Makes a folder with mode 0700, and its missing parents. If it exists, all rights of group and
// others are taken away, which is logged (base/files/private_mode.h). FAILED_PRECONDITION: it is a
// folder that all users share, such as /tmp.
base::Status MakePrivateFolder(const std::string& path);

// A folder that a person named for Berth's files: a data folder, or a pool.
struct NamedFolder {
  std::string path;
  // The names that Berth makes in it.
  std::span<const std::string_view> names;
  // Whether Berth may start although other users can write in a folder that stays open. They could
  // then put files of their own in the place of Berth's.
  enum class Writers { kRefused, kTrusted };
  Writers writers = Writers::kRefused;
};

// What Berth's roles make in a data folder: standalone/data_folder.h and blockagent/agent.h.
inline constexpr std::string_view kDataFolderNames[] = {".berth-reserve", "api",
                                                        "api.sock",       "berth.lock",
                                                        "block-agent",    "crust",
                                                        "crust-proxy",    "block-agent.kubeconfig",
                                                        "flight",         "kubeconfig",
                                                        "kubelet",        "node",
                                                        "pod-logs",       "node.kubeconfig",
                                                        "pool",           "run",
                                                        "volume-plugins"};

enum class FolderPrivacy {
  kPrivate,  // others cannot enter the folder
  kOpen,     // they can: what is made in it has to be private by itself
};

// Makes the folder with mode 0700 if it is missing. One that was there and serves only Berth
// becomes private, as with MakePrivateFolder. One that serves others as well keeps its mode,
// because they would lose what they have there, and a warning says so. It does if it
//   - is the root of a mounted file system,
//   - is directly below "/", as /srv is, or
//   - holds a name that is neither in `names` nor a temp file of WriteDurably.
// A folder whose mode this process may not change, as root on NFS with root_squash, stays open too.
//
// FAILED_PRECONDITION: all users share it, such as /tmp; or it stays open, all users can write
// there, and they are kRefused.
base::StatusOr<FolderPrivacy> MakeNamedFolder(const NamedFolder& folder);

}  // namespace berth::platform
