// Random bytes as protobuf: envelopes, events of a watch, and messages of each kind. A message that
// is read and written several times must no longer change after the second time.
#include <cstdlib>
#include <string_view>

#include "api/codecs/protobuf.h"

namespace {

using namespace berth;

// Reads a message, writes it, and returns what was written.
std::string Again(const api::Schema& schema, std::string_view message) {
  const auto object = api::DecodeMessage(schema, message);
  if (!object.ok()) std::abort();
  std::string written;
  api::AppendMessage(schema, base::json::Dump(*object), written);
  return written;
}

void Try(const api::Schema& schema, std::string_view message) {
  const auto object = api::DecodeMessage(schema, message);
  if (!object.ok()) return;
  // A reader that refuses unknown fields gets the same object or none.
  const auto strict = api::DecodeMessage(schema, message, {.refuse_unknown = true});
  if (strict.ok() && *strict != *object) std::abort();
  // The first time drops what JSON cannot express. The second time drops what then has no meaning
  // (a time less than a second after the beginning of 1970).
  const std::string settled = Again(schema, Again(schema, message));
  if (Again(schema, settled) != settled) std::abort();
}

}  // namespace

// The first byte chooses the kind.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  (void)api::OpenEnvelope(bytes);
  (void)api::OpenWatchFrame(bytes);
  const auto kinds = api::BuiltInKinds();
  const api::Schema* schema = api::SchemaOf(*kinds[data[0] % kinds.size()]);
  if (schema != nullptr) Try(*schema, bytes);
  return 0;
}
