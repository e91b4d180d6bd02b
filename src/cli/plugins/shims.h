// `berth install-shims` and `berth remove-shims`: berth-shim under the names of mount utilities,
// for a kubelet that runs them on the host.
//
//   /sbin/mount.glusterfs                     a copy of berth-shim
//   /etc/berth/shims/mount.glusterfs.json     which agent it asks (base/ipc/utility_call.h), and
//                                             the hashes of what a shim's file may hold
//
// A file counts as a shim if its content is one that its record names, or is that of the present
// berth-shim. Any other file of that name is a real utility and is never touched. The record is
// written first, so that after a crash every shim has one; each command can be repeated.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace berth::cli {

struct ShimOptions {
  // Volume types (glusterfs, cephfs, nfs), or utilities. For a removal, empty means all shims.
  std::vector<std::string> names;
  std::string plugin;  // of utilities that belong to no type; empty: the type's
  std::string sbin = "/sbin";
  std::string records = "/etc/berth/shims";
  std::string program;                               // berth-shim; empty: beside this program
  std::string socket = "/run/berth/utilities.sock";  // of the node agent
};

// Is called with one line for each thing that was done.
using Tell = std::function<void(std::string_view line)>;

// ALREADY_EXISTS: a real utility has one of the names, and nothing was installed. INVALID_ARGUMENT:
// a name that no utility can have, or a utility whose plugin is not known.
base::Status InstallShims(const ShimOptions& options, const Tell& tell);
base::Status RemoveShims(const ShimOptions& options, const Tell& tell);

}  // namespace berth::cli
