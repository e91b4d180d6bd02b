// Random text through the YAML reader: what was read is written and read again.
#include <cstdlib>
#include <string_view>

#include "api/codecs/yaml.h"

namespace {

void Try(std::string_view text) {
  const auto documents = berth::api::ParseYaml(text);
  if (!documents.ok()) return;
  for (const auto& document : *documents) {
    if (!berth::api::ParseYaml(berth::api::ToYaml(document)).ok()) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Try({reinterpret_cast<const char*>(data), size});
  return 0;
}
