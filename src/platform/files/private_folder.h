// Folders of durable records and secrets, which only their owner may use.
#pragma once

#include <string>

#include "base/status.h"

namespace berth::platform {

// Makes a folder with mode 0700, and its missing parents. If it exists, all rights of group and
// others are taken away, which is logged (base/files/private_mode.h). FAILED_PRECONDITION: it is a
// folder that all users share, such as /tmp.
base::Status MakePrivateFolder(const std::string& path);

}  // namespace berth::platform
