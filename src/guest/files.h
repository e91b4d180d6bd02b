// Small files of the guest: /proc, /sys and the lists of the initramfs.
#pragma once

#include <string>
#include <string_view>

namespace berth::guest {

// The content, at most 1 MiB of it; "": it cannot be read.
std::string ReadFile(const std::string& path);
// "": written; else the error in words.
std::string WriteFile(const std::string& path, std::string_view text);
// "CONTEXT: No such file or directory"; `error` is an errno value.
std::string Describe(std::string_view context, int error);

}  // namespace berth::guest
