// Gives the memory of a text back, where a buffer stays for long after a burst has filled it.
#pragma once

#include <string>

namespace berth::base {

// Empties `text` and frees its memory. An assignment of an empty string would keep the memory,
// because the library reuses it.
inline void FreeText(std::string& text) { std::string().swap(text); }

}  // namespace berth::base
