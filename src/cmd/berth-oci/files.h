// Reads and writes small files, without exceptions and without src/platform, so that this program
// stays small.
#pragma once

#include <string>
#include <string_view>

#include "base/ipc/result.h"

namespace berth::oci {

// Reads a file of at most `largest` bytes. kNobody: there is no such file. kTooLarge: it is larger.
base::ipc::Result<std::string> ReadFile(const std::string& path, size_t largest);

// Writes `text`. A failure is ignored.
void WriteText(int fd, std::string_view text);

}  // namespace berth::oci
