// Berth's programs are in one folder, which need not be in PATH.
#pragma once

#include <string>
#include <string_view>

namespace berth::platform {

// The path of the program of that name in the folder of this process's own program; "": there is
// none that can be run.
std::string FindInOwnFolder(std::string_view name);

}  // namespace berth::platform
