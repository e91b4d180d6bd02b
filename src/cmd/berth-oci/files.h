// Reads and writes small files, without exceptions and without src/platform, because this program
// is to stay small.
#pragma once

#include <string>
#include <string_view>

#include "base/ipc/result.h"

namespace berth::oci {

// kNobody: there is no such file; kTooLarge.
base::ipc::Result<std::string> ReadFile(const std::string& path, size_t largest);

// Writes all of `text`, or as much of it as can be written.
void Write(int fd, std::string_view text);

}  // namespace berth::oci
