// Random text through the small parsers: quantities, selectors, times, the mount table.

#include <cstdlib>
#include <string_view>

#include "api/quantity.h"
#include "api/selector.h"
#include "api/time.h"
#include "platform/mounts/mounter.h"

namespace {

using namespace berth;

void Try(std::string_view text) {
  if (const auto quantity = api::Quantity::Parse(text); quantity.ok()) {
    const auto again = api::Quantity::Parse(quantity->ToString());
    // ToString() rounds up to whole units, so the value may have changed, but the text must not.
    if (!again.ok() || again->ToString() != quantity->ToString()) std::abort();
  }
  (void)api::LabelSelector::Parse(text);
  (void)api::FieldSelector::Parse(api::kinds::kPod, text);
  (void)api::ParseTime(text);
  (void)platform::ParseMountInfo(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Try({reinterpret_cast<const char*>(data), size});
  return 0;
}
