#include "kube/http/object_format.h"

#include "api/codecs/protobuf.h"
#include "base/log.h"

namespace berth::kube {
namespace {

using base::Error;
using base::Json;
using base::MutexLock;
using base::StatusCode;
using base::StatusOr;

// The limit is high, because the schemas of custom resources nest deeply.
constexpr int kMaxJsonDepth = 200;

// Returns the field of managedFields in all metadata.
const api::Field* FindManagedFields() {
  static const api::Field* const field = api::NamedSchema("ObjectMeta")->Find("managedFields");
  return field;
}

StatusOr<Json> DecodeEnvelope(std::string_view text, const DecodeLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return Error(StatusCode::kResourceExhausted, "{} bytes are more than the limit of {}",
                 text.size(), limits.max_bytes);
  }
  ASSIGN_OR_RETURN(const api::Envelope envelope, api::OpenEnvelope(text));
  const api::Schema* schema = api::SchemaOf(envelope.api_version, envelope.kind);
  if (!api::HasProtobuf(schema)) {
    return Error(StatusCode::kUnimplemented, "protobuf of kind {}, {} is not known",
                 base::Quote(envelope.kind), base::Quote(envelope.api_version));
  }
  ASSIGN_OR_RETURN(
      Json object,
      api::DecodeMessage(*schema, envelope.message,
                         {.unwanted = limits.without_managed_fields ? FindManagedFields() : nullptr,
                          .passed_on = limits.on_item ? schema->Find("items") : nullptr,
                          .on_item = limits.on_item,
                          .refuse_unknown = limits.refuse_unknown}));
  object["apiVersion"] = envelope.api_version;
  object["kind"] = envelope.kind;
  return object;
}

}  // namespace

bool ObjectFormats::UsesProtobuf(const api::KindInfo& kind) const {
  if (!protobuf_) return false;
  const std::string resource = kind.group_resource();
  MutexLock lock(mutex_);
  const auto [place, added] = known_.try_emplace(resource, false);
  if (added) place->second = api::IsWholeInProtobuf(api::SchemaOf(kind));
  return place->second;
}

void ObjectFormats::UseJson(const api::KindInfo& kind, std::string_view why) {
  const std::string resource = kind.group_resource();
  MutexLock lock(mutex_);
  if (!std::exchange(known_[resource], false)) return;
  LOG_INFO("{} are read and written as JSON from now on, because protobuf failed: {}", resource,
           why);
}

std::string AcceptHeader(AnswerForm form, bool protobuf) {
  std::string_view parameters;
  switch (form) {
    case AnswerForm::kObject:
      break;
    case AnswerForm::kMetadata:
      parameters = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
      break;
    case AnswerForm::kMetadataList:
      parameters = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
      break;
  }
  std::string types;
  if (protobuf) types = fmt::format("{}{},", api::kProtobufType, parameters);
  types += fmt::format("{}{}", kJsonType, parameters);
  if (!parameters.empty()) types += fmt::format(",{}", kJsonType);
  return types;
}

BodyText EncodeBody(const api::KindInfo& kind, const Json& object, bool protobuf) {
  BodyText body{.type = std::string(kJsonType), .text = base::json::Dump(object)};
  if (!protobuf) return body;
  const std::string api_version = kind.api_version();
  // An object that says that it is of another kind is sent as it is, and the server refuses it.
  if (base::json::String(object, {"apiVersion"}, api_version) != api_version ||
      base::json::String(object, {"kind"}, kind.kind) != kind.kind) {
    return body;
  }
  const api::Schema* schema = api::SchemaOf(kind);
  std::string message;
  if (!api::HasProtobuf(schema) || !api::AppendMessage(*schema, body.text, message)) return body;
  return {.type = std::string(api::kProtobufType),
          .text = api::MakeEnvelope(api_version, kind.kind, message)};
}

StatusOr<Json> DecodeObject(std::string_view text, const DecodeLimits& limits) {
  if (api::HasEnvelope(text)) return DecodeEnvelope(text, limits);
  ASSIGN_OR_RETURN(
      Json object,
      base::json::ParseWithout(
          limits.without_managed_fields ? kManagedFields : base::json::UnwantedMember{}, text,
          {.max_bytes = limits.max_bytes, .max_depth = kMaxJsonDepth}));
  if (!object.is_object()) return Error(StatusCode::kInvalidArgument, "it is not a JSON object");
  return object;
}

}  // namespace berth::kube
