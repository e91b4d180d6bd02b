// Random text through the JSON parser: what was read is written and read again.
#include <cstdlib>
#include <string_view>

#include "base/json.h"

namespace {

void Try(std::string_view text) {
  const auto value = berth::base::json::Parse(text);
  if (!value.ok()) return;
  // What was read is written and read again as the same.
  const auto again = berth::base::json::Parse(berth::base::json::Dump(*value));
  if (!again.ok()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Try({reinterpret_cast<const char*>(data), size});
  return 0;
}
