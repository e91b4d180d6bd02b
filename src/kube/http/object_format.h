// In which format objects travel between this program and the API server: Kubernetes' protobuf,
// which costs a kube-apiserver less than half of the time that JSON costs it, or JSON.
//
// A kind is asked for in protobuf if its message has all fields of its objects. Custom resources
// travel as JSON, because no server has messages of them. A kind is asked for as JSON from the
// moment at which protobuf failed:
//
//   [protobuf] ── 406 or 415, an unknown field, a string that is not UTF-8, depth ──▶ [JSON]
//
// So an object of a newer Kubernetes whose fields this program does not know is read as JSON, with
// all its fields, and a PUT of it loses none (docs/adr/0028-objects-travel-as-protobuf.md).
// Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "api/kind_info.h"
#include "api/schema/schema.h"
#include "base/json.h"
#include "base/json_builder.h"
#include "base/mutex.h"
#include "base/status.h"

namespace berth::kube {

inline constexpr std::string_view kJsonType = "application/json";

// managedFields, which readers of many objects leave out, because only the server needs them, and
// they are often half of an object's size.
inline constexpr base::json::UnwantedMember kManagedFields{.of = "metadata",
                                                           .name = "managedFields"};

// Remembers which kinds travel as protobuf.
class ObjectFormats {
 public:
  // If `protobuf` is false, all kinds travel as JSON.
  explicit ObjectFormats(bool protobuf) : protobuf_(protobuf) {}

  bool UsesProtobuf(const api::KindInfo& kind) const;
  // The kind travels as JSON from now on, because of `why`, which is logged.
  void UseJson(const api::KindInfo& kind, std::string_view why);

 private:
  const bool protobuf_;
  mutable base::Mutex mutex_;
  // By group and resource, such as "pods".
  mutable std::map<std::string, bool> known_ ABSL_GUARDED_BY(mutex_);
};

// The form that an answer must have: objects, or lists of objects, with all their fields or reduced
// to their metadata.
enum class AnswerForm { kObject, kMetadata, kMetadataList };

// Returns the Accept header for an answer. With protobuf, the server may still answer in JSON.
std::string AcceptHeader(AnswerForm form, bool protobuf);

struct BodyText {
  std::string type;  // the Content-Type
  std::string text;
};

// Encodes an object of `kind` that is sent: as protobuf if that is wanted and no member of the
// object is lost by it, and otherwise as JSON.
BodyText EncodeBody(const api::KindInfo& kind, const base::Json& object, bool protobuf);

struct DecodeLimits {
  size_t max_bytes = 0;
  bool without_managed_fields = false;
  bool refuse_unknown = true;  // fields in protobuf that this program does not know
  // If it is set, it gets the items of a list in protobuf, one after the other as they are decoded,
  // and the result has no `items`. Those before a mistake are passed on before the error is
  // returned.
  std::function<void(base::Json item)> on_item = {};
};

// Decodes an object or list, in whichever of the two formats `text` is. INVALID_ARGUMENT: it is
// malformed or not an object. RESOURCE_EXHAUSTED: it exceeds the limits. UNIMPLEMENTED: it is
// protobuf of an unknown kind or with an unknown field.
base::StatusOr<base::Json> DecodeObject(std::string_view text, const DecodeLimits& limits);

}  // namespace berth::kube
