// Random JSON as the body of a write. An object that conforms to a kind must still conform after it
// was written as protobuf and read again. As a patch it must do no harm.
#include <cstdlib>
#include <string_view>

#include "api/codecs/protobuf.h"
#include "api/merging/conform.h"
#include "api/merging/patch.h"

namespace {

using namespace berth;

void Try(const api::KindInfo& kind, std::string_view text) {
  std::string unparsed;  // the writer expects JSON, but other text must do no harm
  api::AppendMessage(*api::SchemaOf(kind), text, unparsed);
  auto object = base::json::Parse(text);
  if (!object.ok()) return;
  api::StrictErrors strict;
  api::FindDuplicates(text, *object, strict);
  (void)api::ApplyStrategicMergePatch(kind, base::Json::object(), *object);
  const api::Schema& schema = *api::SchemaOf(kind);
  if (!api::Conform(schema, *object, {}, strict).ok()) return;
  (void)api::ApplyStrategicMergePatch(kind, *object, *object);
  std::string message;
  api::AppendMessage(schema, base::json::Dump(*object), message);
  auto read = api::DecodeMessage(schema, message);
  if (!read.ok() || !api::Conform(schema, *read, {}, strict).ok()) std::abort();
}

}  // namespace

// The first byte chooses the kind.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto kinds = api::BuiltInKinds();
  Try(*kinds[data[0] % kinds.size()], {reinterpret_cast<const char*>(data + 1), size - 1});
  return 0;
}
