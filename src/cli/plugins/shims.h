// `berth install-shims` and `berth remove-shims`: berth-shim under the names of mount utilities,
// for a kubelet that runs them on the host.
//
//   /sbin/mount.glusterfs                     a copy of berth-shim
//   /etc/berth/shims/mount.glusterfs.json     whom it asks (base/ipc/utility_call.h), and by which
//                                             content it is known as a shim
//
// A file is a shim by its content, which its record names, or which is that of the present
// berth-shim; whatever else has the name is somebody's utility, and is never touched. The record is
// written first, so that after a crash every shim has one; each command can be repeated.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace berth::cli {

struct ShimOptions {
  // Volume types (glusterfs, cephfs, nfs), or utilities; to remove: none are all.
  std::vector<std::string> names;
  std::string plugin;  // of utilities that no type has; empty: the type's
  std::string sbin = "/sbin";
  std::string records = "/etc/berth/shims";
  std::string program;                               // berth-shim; empty: beside this program
  std::string socket = "/run/berth/utilities.sock";  // of the node agent
};

// What was done, a line each.
using Tell = std::function<void(std::string_view line)>;

// ALREADY_EXISTS: a real utility has one of the names, and nothing was installed. INVALID_ARGUMENT:
// a name that is none, or of which the plugin is not known.
base::Status InstallShims(const ShimOptions& options, const Tell& tell);
base::Status RemoveShims(const ShimOptions& options, const Tell& tell);

}  // namespace berth::cli
