// Files and folders that only their owner may use. Thread-safe.
#pragma once

#include <string>

#include "base/status.h"

namespace berth::base {

// Takes all rights of group and others away from the file or folder at `path`, and logs which mode
// it had if others had any. A program cannot rely on the umask alone, because the path may have
// been made before. Follows symlinks, because an administrator may have put a data folder elsewhere
// by one. NOT_FOUND: there is no such path. FAILED_PRECONDITION: it is a folder that all users
// share, such as /tmp, which must stay open. PERMISSION_DENIED: this process may not change the
// mode, as root may not on NFS with root_squash.
Status TightenMode(const std::string& path);

// As TightenMode, but a path that is not there is OK.
Status TightenModeIfThere(const std::string& path);

}  // namespace berth::base
