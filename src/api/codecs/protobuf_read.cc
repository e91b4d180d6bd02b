#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <bit>
#include <chrono>

#include "api/codecs/protobuf.h"
#include "api/time.h"
#include "base/base64.h"
#include "base/utf8.h"

namespace berth::api {
namespace {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using WireType = WireFormatLite::WireType;

// The same depth as for JSON (base/json.h).
constexpr int kMaxDepth = 64;

Status Malformed(std::string_view what) {
  return Error(StatusCode::kInvalidArgument, "proto: {}", what);
}

Status WrongType(std::string_view field, WireType type) {
  return Error(StatusCode::kInvalidArgument, "proto: wrong wireType = {} for field {}",
               static_cast<int>(type), field);
}

// Whether `value` is the value that a scalar has if it is never set.
bool IsZero(FieldType type, const Json& value) {
  switch (type) {
    case FieldType::kString:
    case FieldType::kDuration:
    case FieldType::kBytes:
      return value.get_ref<const std::string&>().empty();
    case FieldType::kBoolean:
      return !value.get<bool>();
    case FieldType::kInteger:
      return value.get<int64_t>() == 0;
    case FieldType::kNumber:
      return value.get<double>() == 0;
    default:
      return false;
  }
}

// Reads the fields of one message, one after the other.
class Fields {
 public:
  explicit Fields(std::string_view bytes)
      : in_(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size())) {}

  // Reads the tag of the next field. False: the message has ended, or is malformed here; CheckEnd
  // tells which.
  bool NextField() {
    tag_ = in_.ReadTag();
    return tag_ != 0;
  }
  Status CheckEnd() {
    return in_.ConsumedEntireMessage() ? base::OkStatus() : Malformed("illegal tag");
  }
  int number() const { return WireFormatLite::GetTagFieldNumber(tag_); }
  WireType type() const { return WireFormatLite::GetTagWireType(tag_); }

  // These read the content of the field, whose wire type must be that of the function.
  StatusOr<std::string_view> ReadBytes() {
    uint32_t size = 0;
    const void* data = nullptr;
    int left = 0;
    if (!in_.ReadVarint32(&size)) return Malformed("a length is cut off");
    if (size == 0) return std::string_view();
    if (!in_.GetDirectBufferPointer(&data, &left) || size > static_cast<uint32_t>(left)) {
      return Malformed("unexpected EOF");
    }
    in_.Skip(static_cast<int>(size));
    return std::string_view(static_cast<const char*>(data), size);
  }
  StatusOr<uint64_t> ReadVarint() {
    uint64_t value = 0;
    if (!in_.ReadVarint64(&value)) return Malformed("a number is cut off");
    return value;
  }
  StatusOr<double> ReadDouble() {
    uint64_t value = 0;
    if (!in_.ReadLittleEndian64(&value)) return Malformed("a number is cut off");
    return std::bit_cast<double>(value);
  }
  Status SkipField() {
    return WireFormatLite::SkipField(&in_, tag_) ? base::OkStatus()
                                                 : Malformed("an unknown field is cut off");
  }

 private:
  CodedInputStream in_;
  uint32_t tag_ = 0;
};

// Calls `read` for each field of a message. `read` returns false for a field whose number and wire
// type it does not know; that field is skipped.
template <typename Read>
Status ForEachField(std::string_view message, const Read& read) {
  Fields fields(message);
  while (fields.NextField()) {
    ASSIGN_OR_RETURN(const bool known, read(fields));
    if (!known) RETURN_IF_ERROR(fields.SkipField());
  }
  return fields.CheckEnd();
}

StatusOr<std::string> ReadText(std::string_view bytes) {
  if (!base::IsUtf8(bytes)) return Malformed("a string is not UTF-8");
  return std::string(bytes);
}

// Reads a message that has only field 1, with bytes or text. If the field is there several times,
// the last one counts.
StatusOr<std::string_view> ReadOnlyField(std::string_view message) {
  std::string_view content;
  RETURN_IF_ERROR(ForEachField(message, [&](Fields& fields) -> StatusOr<bool> {
    if (fields.number() != 1) return false;
    if (fields.type() != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      return WrongType("raw", fields.type());
    }
    ASSIGN_OR_RETURN(content, fields.ReadBytes());
    return true;
  }));
  return content;
}

// The numbers of fields 1 and 2 and the text of field 3. Times and IntOrStrings consist of these.
struct Triple {
  uint64_t first = 0;
  uint64_t second = 0;
  std::string_view third;
};

StatusOr<Triple> ReadTriple(std::string_view message) {
  Triple triple;
  RETURN_IF_ERROR(ForEachField(message, [&](Fields& fields) -> StatusOr<bool> {
    const int number = fields.number();
    if (number < 1 || number > 3) return false;
    const WireType wanted =
        number == 3 ? WireFormatLite::WIRETYPE_LENGTH_DELIMITED : WireFormatLite::WIRETYPE_VARINT;
    if (fields.type() != wanted) return WrongType(std::to_string(number), fields.type());
    if (number == 3) {
      ASSIGN_OR_RETURN(triple.third, fields.ReadBytes());
    } else {
      ASSIGN_OR_RETURN((number == 1 ? triple.first : triple.second), fields.ReadVarint());
    }
    return true;
  }));
  return triple;
}

// Returns null for 0, which Kubernetes writes for a time that was never set.
StatusOr<Json> ReadTime(std::string_view message, bool micro) {
  ASSIGN_OR_RETURN(const Triple parts, ReadTriple(message));
  const auto seconds = static_cast<int64_t>(parts.first);
  const auto nanos = static_cast<int64_t>(static_cast<int32_t>(parts.second));
  if (seconds == 0 && nanos == 0) return Json();
  // The most seconds that nanoseconds in 64 bits can hold (api/time.h).
  constexpr int64_t kMost = INT64_MAX / 1'000'000'000 - 1;
  if (seconds < -kMost || seconds > kMost || nanos < 0 || nanos >= 1'000'000'000) {
    return Malformed("a time is out of range");
  }
  const base::WallTime time{std::chrono::seconds(seconds) + std::chrono::nanoseconds(nanos)};
  return Json(micro ? FormatMicroTime(time) : FormatTime(time));
}

StatusOr<Json> ReadIntOrString(std::string_view message) {
  ASSIGN_OR_RETURN(const Triple parts, ReadTriple(message));
  if (parts.first > 1) return Malformed("an IntOrString is neither");
  if (parts.first == 0) return Json(static_cast<int32_t>(parts.second));
  ASSIGN_OR_RETURN(std::string text, ReadText(parts.third));
  return Json(std::move(text));
}

StatusOr<Json> ReadAny(std::string_view message) {
  ASSIGN_OR_RETURN(const std::string_view raw, ReadOnlyField(message));
  if (raw.empty()) return Json();
  return base::json::Parse(raw);
}

WireType WireTypeOf(FieldType type) {
  switch (type) {
    case FieldType::kInteger:
    case FieldType::kBoolean:
      return WireFormatLite::WIRETYPE_VARINT;
    case FieldType::kNumber:
      return WireFormatLite::WIRETYPE_FIXED64;
    default:
      return WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
  }
}

Json ToInteger(const Schema& type, uint64_t value) {
  return type.format == "int32" ? Json(static_cast<int32_t>(value))
                                : Json(static_cast<int64_t>(value));
}

// What the caller wants of a message, and how deep its part that is being read stands in it.
struct Place {
  const DecodeOptions& options;
  int depth;

  Place Inner() const { return {options, depth + 1}; }
};

Status ReadMessage(const Schema& schema, std::string_view message, const Place& place,
                   Json& object);

// Reads a union, and returns the value of its field.
StatusOr<Json> ReadUnion(const Schema& schema, std::string_view message, const Place& place) {
  Json members = Json::object();
  RETURN_IF_ERROR(ReadMessage(schema, message, place, members));
  Json chosen = false;  // protobuf may omit a lone boolean
  for (const Field& field : schema.fields) {
    const auto it = members.find(field.name);
    if (it == members.end()) continue;
    if (!it->is_boolean()) return std::move(*it);
    chosen = *it;
  }
  return chosen;
}

// Reads a value that is neither a list nor a map, and whose wire type was checked. `present` is the
// object that earlier parts of the same message gave (null: none); it is moved into the result.
StatusOr<Json> ReadValue(const Schema& type, Fields& fields, const Place& place, Json* present) {
  switch (type.type) {
    case FieldType::kInteger: {
      ASSIGN_OR_RETURN(const uint64_t value, fields.ReadVarint());
      return ToInteger(type, value);
    }
    case FieldType::kBoolean: {
      ASSIGN_OR_RETURN(const uint64_t value, fields.ReadVarint());
      return Json(value != 0);
    }
    case FieldType::kNumber: {
      ASSIGN_OR_RETURN(const double value, fields.ReadDouble());
      return Json(value);
    }
    default:
      break;
  }
  ASSIGN_OR_RETURN(const std::string_view bytes, fields.ReadBytes());
  switch (type.type) {
    case FieldType::kBytes:
      return Json(base::EncodeBase64(bytes));
    case FieldType::kQuantity: {
      ASSIGN_OR_RETURN(const std::string_view text, ReadOnlyField(bytes));
      ASSIGN_OR_RETURN(std::string quantity, ReadText(text));
      return Json(quantity.empty() ? "0" : std::move(quantity));
    }
    case FieldType::kIntOrString:
      return ReadIntOrString(bytes);
    case FieldType::kTime:
      return ReadTime(bytes, false);
    case FieldType::kMicroTime:
      return ReadTime(bytes, true);
    case FieldType::kAny:
      return ReadAny(bytes);
    case FieldType::kUnion:
      return ReadUnion(type, bytes, place.Inner());
    case FieldType::kObject: {
      Json object = present != nullptr ? std::move(*present) : Json::object();
      RETURN_IF_ERROR(ReadMessage(type, bytes, place.Inner(), object));
      return object;
    }
    default: {
      ASSIGN_OR_RETURN(std::string text, ReadText(bytes));
      return Json(std::move(text));
    }
  }
}

// The value of a map entry that has none: the zero value of its type.
Json ZeroOf(FieldType type) {
  switch (type) {
    case FieldType::kQuantity:
      return "0";
    case FieldType::kObject:
      return Json::object();
    case FieldType::kInteger:
      return 0;
    case FieldType::kBoolean:
    case FieldType::kUnion:
      return false;
    case FieldType::kString:
    case FieldType::kBytes:
      return "";
    default:
      return {};
  }
}

Status ReadMapEntry(const Schema& map, std::string_view entry, const Place& place, Json& out) {
  std::string key;
  Json value = ZeroOf(map.element->type);
  RETURN_IF_ERROR(ForEachField(entry, [&](Fields& fields) -> StatusOr<bool> {
    if (fields.number() != 1 && fields.number() != 2) return false;
    const WireType wanted = fields.number() == 1 ? WireFormatLite::WIRETYPE_LENGTH_DELIMITED
                                                 : WireTypeOf(map.element->type);
    if (fields.type() != wanted) return WrongType("of a map", fields.type());
    if (fields.number() == 1) {
      ASSIGN_OR_RETURN(const std::string_view bytes, fields.ReadBytes());
      ASSIGN_OR_RETURN(key, ReadText(bytes));
    } else {
      ASSIGN_OR_RETURN(value, ReadValue(*map.element, fields, place, nullptr));
    }
    return true;
  }));
  if (!out.is_object()) out = Json::object();
  out[key] = std::move(value);
  return base::OkStatus();
}

// Reads one item of a list, or several numbers that are packed into one field.
Status ReadListItem(const Field& field, Fields& fields, const Place& place, Json& out) {
  const Schema& element = *field.type->element;
  if (!out.is_array()) out = Json::array();
  if (fields.type() == WireFormatLite::WIRETYPE_LENGTH_DELIMITED &&
      element.type == FieldType::kInteger) {
    ASSIGN_OR_RETURN(const std::string_view packed, fields.ReadBytes());
    CodedInputStream numbers(reinterpret_cast<const uint8_t*>(packed.data()),
                             static_cast<int>(packed.size()));
    while (numbers.CurrentPosition() < static_cast<int>(packed.size())) {
      uint64_t value = 0;
      if (!numbers.ReadVarint64(&value)) return Malformed("a number is cut off");
      out.push_back(ToInteger(element, value));
    }
    return base::OkStatus();
  }
  if (fields.type() != WireTypeOf(element.type)) return WrongType(field.name, fields.type());
  ASSIGN_OR_RETURN(Json value, ReadValue(element, fields, place, nullptr));
  out.push_back(std::move(value));
  return base::OkStatus();
}

Status PassItemOn(const Field& field, Fields& fields, const Place& place) {
  const Schema& element = *field.type->element;
  if (fields.type() != WireTypeOf(element.type)) return WrongType(field.name, fields.type());
  ASSIGN_OR_RETURN(Json item, ReadValue(element, fields, place, nullptr));
  place.options.on_item(std::move(item));
  return base::OkStatus();
}

Status ReadField(const Field& field, Fields& fields, const Place& place, Json& object) {
  if (&field == place.options.passed_on) return PassItemOn(field, fields, place);
  const FieldType type = field.type->type;
  if (type == FieldType::kList) return ReadListItem(field, fields, place, object[field.name]);
  if (fields.type() != WireTypeOf(type)) return WrongType(field.name, fields.type());
  if (type == FieldType::kMap) {
    ASSIGN_OR_RETURN(const std::string_view entry, fields.ReadBytes());
    return ReadMapEntry(*field.type, entry, place, object[field.name]);
  }
  if (field.inlined) {
    ASSIGN_OR_RETURN(const std::string_view bytes, fields.ReadBytes());
    return ReadMessage(*field.type, bytes, place.Inner(), object);
  }
  const auto present = object.find(field.name);
  ASSIGN_OR_RETURN(Json value, ReadValue(*field.type, fields, place,
                                         present == object.end() ? nullptr : &*present));
  // A zero means "absent", because Kubernetes writes all scalars that it holds by value.
  if (value.is_null() || (IsZero(type, value) && !field.has_presence && !field.required)) {
    object.erase(field.name);
  } else {
    object[field.name] = std::move(value);
  }
  return base::OkStatus();
}

Status ReadMessage(const Schema& schema, std::string_view message, const Place& place,
                   Json& object) {
  if (place.depth > kMaxDepth) return Malformed("messages nest too deep");
  return ForEachField(message, [&](Fields& fields) -> StatusOr<bool> {
    for (const Field& field : schema.fields) {
      if (field.number != fields.number() || field.number == 0) continue;
      if (&field == place.options.unwanted) return false;
      RETURN_IF_ERROR(ReadField(field, fields, place, object));
      return true;
    }
    if (!place.options.refuse_unknown) return false;
    return Error(StatusCode::kUnimplemented, "proto: {} has an unknown field {}",
                 schema.name.empty() ? "a message" : schema.name, fields.number());
  });
}

// Reads a field of one of the messages around objects, which consists of bytes.
StatusOr<std::string_view> ReadOuterField(Fields& fields) {
  if (fields.type() != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
    return WrongType("of the envelope", fields.type());
  }
  return fields.ReadBytes();
}

}  // namespace

StatusOr<Envelope> OpenEnvelope(std::string_view body) {
  if (!HasEnvelope(body)) {
    return Error(StatusCode::kInvalidArgument,
                 "provided data does not appear to be a protobuf message, expected prefix "
                 "[107 56 115 0]");
  }
  Envelope envelope;
  const auto read_type = [&](Fields& fields) -> StatusOr<bool> {
    if (fields.number() != 1 && fields.number() != 2) return false;
    ASSIGN_OR_RETURN((fields.number() == 1 ? envelope.api_version : envelope.kind),
                     ReadOuterField(fields));
    return true;
  };
  RETURN_IF_ERROR(
      ForEachField(body.substr(kEnvelopeMagic.size()), [&](Fields& fields) -> StatusOr<bool> {
        if (fields.number() == 1) {
          ASSIGN_OR_RETURN(const std::string_view type_meta, ReadOuterField(fields));
          RETURN_IF_ERROR(ForEachField(type_meta, read_type));
          return true;
        }
        if (fields.number() != 2) return false;
        ASSIGN_OR_RETURN(envelope.message, ReadOuterField(fields));
        return true;
      }));
  if (!base::IsUtf8(envelope.api_version) || !base::IsUtf8(envelope.kind)) {
    return Malformed("a string is not UTF-8");
  }
  return envelope;
}

StatusOr<WatchFrame> OpenWatchFrame(std::string_view event) {
  WatchFrame frame;
  RETURN_IF_ERROR(ForEachField(event, [&](Fields& fields) -> StatusOr<bool> {
    if (fields.number() != 1 && fields.number() != 2) return false;
    ASSIGN_OR_RETURN(const std::string_view content, ReadOuterField(fields));
    if (fields.number() == 1) {
      frame.type = content;
      return true;
    }
    ASSIGN_OR_RETURN(frame.object, ReadOnlyField(content));
    return true;
  }));
  return frame;
}

StatusOr<Json> DecodeMessage(const Schema& schema, std::string_view message,
                             const DecodeOptions& options) {
  Json object = Json::object();
  RETURN_IF_ERROR(ReadMessage(schema, message, {options, 1}, object));
  return object;
}

}  // namespace berth::api
