// Small files, without exceptions and other rooms.
#pragma once

#include <string>
#include <string_view>

#include "base/ipc/result.h"

namespace berth::oci {

// kNobody: there is no such file; kTooLarge.
base::ipc::Result<std::string> ReadFile(const std::string& path, size_t largest);

// All of it; to a file or a terminal that nobody reads any more, as much as there is.
void Write(int fd, std::string_view text);

}  // namespace berth::oci
