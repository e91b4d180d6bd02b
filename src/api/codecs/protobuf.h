// Objects of the built-in kinds as Kubernetes' protobuf, `application/vnd.kubernetes.protobuf`:
//
//   "k8s\0" Unknown{ typeMeta{apiVersion kind}  raw = the message }          an object, or a list
//   <length, 4 bytes> WatchEvent{ type  object{ raw = "k8s\0" Unknown{} } }  a change, in a watch
//
// The messages are those of proto/k8s, read and written by their Schema. Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "api/schema/schema.h"
#include "base/json.h"
#include "base/status.h"

namespace berth::api {

inline constexpr std::string_view kProtobufType = "application/vnd.kubernetes.protobuf";

// Each object in protobuf begins with these bytes. No JSON text does.
inline constexpr std::string_view kEnvelopeMagic("k8s\0", 4);
inline bool HasEnvelope(std::string_view body) { return body.starts_with(kEnvelopeMagic); }

// Whether Kubernetes has a protobuf message for the objects of `schema`. False for nullptr.
bool HasProtobuf(const Schema* schema);
// Whether the message has all fields of the objects. False where a field exists in JSON only, and
// for nullptr.
bool IsWholeInProtobuf(const Schema* schema);

// Appends the message for the JSON text of an object, in one pass over the text. Members that the
// schema does not know, or that have another type, are left out. If the text is malformed, the
// members before the mistake are written. Returns whether the message has all that the text has;
// null members and empty lists and maps do not count, because they mean the same as absent ones.
bool AppendMessage(const Schema& schema, std::string_view json, std::string& out);

// Appends a length-delimited field: a string, bytes or a message.
void AppendField(int number, std::string_view content, std::string& out);
// Makes the bytes that stand before the `size` bytes of content of such a field.
std::string MakeFieldHead(int number, size_t size);

// Makes the envelope of an object's or list's message.
std::string MakeEnvelope(std::string_view api_version, std::string_view kind,
                         std::string_view message);
// Make the bytes that stand before and after the message in its envelope.
std::string MakeEnvelopeHead(std::string_view api_version, std::string_view kind,
                             size_t message_size);
std::string_view MakeEnvelopeTail();

// Makes the frame in which a watch sends one change. `object` is an envelope.
std::string MakeWatchFrame(std::string_view type, std::string_view object);

// The content of an envelope. The views point into the body.
struct Envelope {
  std::string_view api_version;
  std::string_view kind;
  std::string_view message;
};
// INVALID_ARGUMENT: `body` is not an envelope.
base::StatusOr<Envelope> OpenEnvelope(std::string_view body);

// One change of a watch. The views point into the event.
struct WatchFrame {
  std::string_view type;    // "ADDED" ...
  std::string_view object;  // an envelope
};
// INVALID_ARGUMENT: `event`, a frame without its length, is not a WatchEvent.
base::StatusOr<WatchFrame> OpenWatchFrame(std::string_view event);

struct DecodeOptions {
  // A field that is left out without being read, such as that of managedFields; null: none.
  const Field* unwanted = nullptr;
  // A list of messages, such as `items`, that does not become part of the result: each of its items
  // is passed to `on_item` as soon as it is read, so that they are not in memory together. If the
  // message is malformed, the items before the mistake were passed on. Null: none.
  const Field* passed_on = nullptr;
  std::function<void(base::Json item)> on_item = {};
  // A field that the schema does not know is an error. Otherwise it is skipped.
  bool refuse_unknown = false;
};

// Returns the object of a message, without apiVersion and kind. INVALID_ARGUMENT: the message is
// malformed, nests deeper than 64 levels, or has a string that is not UTF-8. UNIMPLEMENTED: it has
// a field that the schema does not know, and `options` refuse that.
base::StatusOr<base::Json> DecodeMessage(const Schema& schema, std::string_view message,
                                         const DecodeOptions& options = {});

}  // namespace berth::api
