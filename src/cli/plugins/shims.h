// `berth install-shims` and `berth remove-shims`: they install and remove copies of berth-shim
// under the names of mount utilities, for a kubelet that runs these utilities on the host.
//
//   /sbin/mount.glusterfs                     a copy of berth-shim
//   /etc/berth/shims/mount.glusterfs.json     its record: the agent that it asks
//                                             (base/ipc/utility_call.h), and the hashes of contents
//                                             that the shim's file may have
//
// A file counts as a shim if its record has the hash of its content, or if it has the content of
// the present berth-shim. Any other file of that name is a real utility and is never changed. The
// record is written first, so that after a crash every shim has a record. Each command can be
// repeated.
//
// A damaged record counts as none. It is set aside (platform/files/record_files.h) when its shim is
// replaced or removed, and stays where it is if the file beside it may be a shim of a newer Berth.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace berth::cli {

struct ShimOptions {
  // Volume types (glusterfs, cephfs, nfs, rbd, iscsi), or utilities. For a removal, empty means all
  // shims.
  std::vector<std::string> names;
  std::string plugin;  // of all `names`, which are then utilities; empty: the plugin of each type
  std::string sbin = "/sbin";
  std::string records = "/etc/berth/shims";
  std::string program;                               // berth-shim; empty: beside this program
  std::string socket = "/run/berth/utilities.sock";  // of the node agent
};

// Is called with one line for each file that was installed, removed or left.
using ReportLine = std::function<void(std::string_view line)>;

// Installs or renews the shims. ALREADY_EXISTS: a real utility has one of the names, and nothing
// was installed; or another program created a file of that name during the installation.
// INVALID_ARGUMENT: `names` is empty or has a name that no utility can have, or the plugin of a
// utility is not known. NOT_FOUND: there is no berth-shim. Other errors come from the file system.
base::Status InstallShims(const ShimOptions& options, const ReportLine& report);
// Removes the shims and their records; shims that do not exist are not an error. INVALID_ARGUMENT:
// `names` has a name that no utility can have. Other errors come from the file system.
base::Status RemoveShims(const ShimOptions& options, const ReportLine& report);

}  // namespace berth::cli
