// Objects of the built-in kinds as Kubernetes' protobuf, `application/vnd.kubernetes.protobuf`:
//
//   "k8s\0" Unknown{ typeMeta{apiVersion kind}  raw = the message }          an object, or a list
//   <length, 4 bytes> WatchEvent{ type  object{ raw = "k8s\0" Unknown{} } }  a change, in a watch
//
// The messages are those of proto/k8s, read and written by their Schema. Pure.
#pragma once

#include <string>
#include <string_view>

#include "api/schema/schema.h"
#include "base/json.h"
#include "base/status.h"

namespace berth::api {

inline constexpr std::string_view kProtobufType = "application/vnd.kubernetes.protobuf";

// Whether Kubernetes has a message for the objects of `schema` (nullptr: no schema at all).
bool HasProtobuf(const Schema* schema);

// Appends the message for the JSON text of an object, in one pass over it. What the message has no
// place for is left out: members that the schema does not know, or that have another type.
void AppendMessage(const Schema& schema, std::string_view json, std::string& out);

// Appends a field whose content is bytes: a text, or a message.
void AppendField(int number, std::string_view content, std::string& out);
// The bytes that stand before the `size` bytes of content of such a field.
std::string FieldHead(int number, size_t size);

// The bytes that stand before and after the message of an object or list in its envelope.
std::string EnvelopeHead(std::string_view api_version, std::string_view kind, size_t message_size);
std::string_view EnvelopeTail();
std::string Envelop(std::string_view api_version, std::string_view kind, std::string_view message);

// One change in a watch; `object` is in its envelope already.
std::string WatchFrame(std::string_view type, std::string_view object);

// The content of an envelope, as views into the body.
struct Envelope {
  std::string_view api_version;
  std::string_view kind;
  std::string_view message;
};
// INVALID_ARGUMENT for what is no envelope.
base::StatusOr<Envelope> OpenEnvelope(std::string_view body);

// The object of a message, without apiVersion and kind. Fields that the schema doesn't know are
// skipped. INVALID_ARGUMENT for what is malformed, nests too deep or is not UTF-8.
base::StatusOr<base::Json> DecodeMessage(const Schema& schema, std::string_view message);

}  // namespace berth::api
