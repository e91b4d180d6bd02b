#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <bit>
#include <set>
#include <vector>

#include "api/codecs/protobuf.h"
#include "api/time.h"
#include "base/base64.h"
#include "base/json_scan.h"

namespace berth::api {
namespace {

using base::Json;
using google::protobuf::internal::WireFormatLite;

// Field numbers of messages that have no schema.
constexpr int kRawExtensionRaw = 1;
constexpr int kMapKey = 1;
constexpr int kMapValue = 2;

void AppendVarint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

void AppendTag(std::string& out, int number, WireFormatLite::WireType type) {
  AppendVarint(out, WireFormatLite::MakeTag(number, type));
}

void AppendInteger(std::string& out, int number, uint64_t value) {
  AppendTag(out, number, WireFormatLite::WIRETYPE_VARINT);
  AppendVarint(out, value);
}

void AppendDouble(std::string& out, int number, double value) {
  AppendTag(out, number, WireFormatLite::WIRETYPE_FIXED64);
  auto bits = std::bit_cast<uint64_t>(value);
  for (int i = 0; i < 8; ++i, bits >>= 8) out += static_cast<char>(bits);
}

// Whether the envelope has the field, in place of the message.
bool IsTypeMeta(const Field& field) {
  return field.number == 0 && (field.name == "apiVersion" || field.name == "kind");
}

// Converts the events of a scan of JSON text into protobuf fields. The length of a message stands
// before its content, but is known only after it. So OpenMessage reserves one byte for the length,
// and CloseMessage makes room if the length needs more.
class Writer {
 public:
  Writer(const Schema& schema, std::string& out) : root_(schema), out_(out) {}

  bool Null() {
    if (raw_depth_ > 0) return AppendRawValue("null");
    // A null member means that there is none; an item or entry that is null cannot be written.
    if (!frames_.empty() && frames_.back().schema != nullptr &&
        frames_.back().schema->type != FieldType::kObject) {
      whole_ = false;
    }
    return true;
  }
  bool Boolean(bool value) {
    if (raw_depth_ > 0) return AppendRawValue(value ? "true" : "false");
    BeginValue();
    if (slot_.type == nullptr) return EndValue();
    if (slot_.type->type == FieldType::kBoolean) {
      AppendInteger(out_, slot_.number, value ? 1 : 0);
    } else if (slot_.type->type == FieldType::kUnion) {
      if (const Field* field = FindAlternative(FieldType::kBoolean)) {
        OpenMessage(slot_.number);
        AppendInteger(out_, field->number, value ? 1 : 0);
        CloseMessage();
      } else {
        whole_ = false;
      }
    } else if (slot_.type->type == FieldType::kAny) {
      WriteRawScalar(value ? "true" : "false");
    } else {
      whole_ = false;
    }
    return EndValue();
  }
  bool Integer(int64_t value) {
    if (raw_depth_ > 0) return AppendRawValue(std::to_string(value));
    BeginValue();
    if (slot_.type != nullptr) WriteInteger(value);
    return EndValue();
  }
  bool Number(double value, std::string_view text) {
    if (raw_depth_ > 0) return AppendRawValue(text);
    BeginValue();
    if (slot_.type == nullptr) return EndValue();
    if (slot_.type->type == FieldType::kNumber) {
      AppendDouble(out_, slot_.number, value);
    } else if (slot_.type->type == FieldType::kQuantity) {
      WriteQuantity(text);
    } else if (slot_.type->type == FieldType::kAny) {
      WriteRawScalar(text);
    } else {
      whole_ = false;
    }
    return EndValue();
  }
  bool String(std::string_view value) {
    if (raw_depth_ > 0) return AppendRawValue(base::json::Dump(Json(value)));
    BeginValue();
    if (slot_.type != nullptr) WriteText(value);
    return EndValue();
  }

  bool StartObject() {
    if (raw_depth_ > 0) return StartRaw('{');
    if (frames_.empty()) {
      frames_.push_back({.schema = &root_});
      return true;
    }
    BeginValue();
    Frame frame{.opened = opened_};
    if (slot_.type != nullptr) {
      if (slot_.type->type == FieldType::kUnion) ChooseAlternative(FieldType::kObject, frame);
      switch (slot_.type->type) {
        case FieldType::kObject:
          frame.schema = slot_.type;
          OpenMessageIn(frame, slot_.number);
          break;
        case FieldType::kMap:
          frame.schema = slot_.type;
          frame.number = slot_.number;
          break;
        case FieldType::kAny:
          OpenMessageIn(frame, slot_.number);
          OpenMessageIn(frame, kRawExtensionRaw);
          frames_.push_back(frame);
          return StartRaw('{');
        default:
          whole_ = false;
          break;
      }
    }
    frames_.push_back(frame);
    return true;
  }
  bool Key(std::string_view name) {
    if (raw_depth_ > 0) {
      AppendRawSeparator();
      out_ += base::json::Dump(Json(name));
      out_ += ':';
      raw_after_key_ = true;
      return true;
    }
    key_ = name;
    return true;
  }
  bool EndObject() {
    if (raw_depth_ > 0 && !EndRaw('}')) return true;
    return EndFrame();
  }
  bool StartArray() {
    if (raw_depth_ > 0) return StartRaw('[');
    BeginValue();
    Frame frame{.opened = opened_};
    if (slot_.type != nullptr) {
      if (slot_.type->type == FieldType::kUnion) ChooseAlternative(FieldType::kList, frame);
      if (slot_.type->type == FieldType::kList) {
        frame.schema = slot_.type;
        frame.number = slot_.number;
      } else if (slot_.type->type == FieldType::kAny) {
        OpenMessageIn(frame, slot_.number);
        OpenMessageIn(frame, kRawExtensionRaw);
        frames_.push_back(frame);
        return StartRaw('[');
      } else {
        whole_ = false;
      }
    }
    frames_.push_back(frame);
    return true;
  }
  bool EndArray() {
    if (raw_depth_ > 0 && !EndRaw(']')) return true;
    return EndFrame();
  }
  // Closes all open messages, because the text ended early. What was written so far stays.
  void CloseAllMessages() {
    whole_ = false;
    while (!starts_.empty()) CloseMessage();
  }
  // Whether all values of the text were written.
  bool whole() const { return whole_; }

 private:
  // An open object, map or list.
  struct Frame {
    const Schema* schema = nullptr;  // null: its content is left out
    int number = 0;                  // of the map or list
    int opened = 0;                  // messages to close with it
  };
  // The field that the next value is written to.
  struct Slot {
    const Schema* type = nullptr;  // null: the value is left out
    int number = 0;
  };

  void OpenMessage(int number) {
    AppendTag(out_, number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
    starts_.push_back(out_.size());
    out_ += '\0';
  }
  void OpenMessageIn(Frame& frame, int number) {
    OpenMessage(number);
    ++frame.opened;
  }
  void CloseMessage() {
    const size_t start = starts_.back();
    starts_.pop_back();
    std::string length;
    AppendVarint(length, out_.size() - start - 1);
    out_[start] = length[0];
    if (length.size() > 1) out_.insert(start + 1, length, 1);
  }

  // Finds the slot of a value, and opens the messages that exist only for it: an inlined one, or a
  // map's entry.
  void BeginValue() {
    slot_ = {};
    opened_ = 0;
    if (frames_.empty() || frames_.back().schema == nullptr) return;
    const Frame& frame = frames_.back();
    switch (frame.schema->type) {
      case FieldType::kObject:
        return FindMember(*frame.schema);
      case FieldType::kMap:
        OpenMessage(frame.number);
        ++opened_;
        AppendField(kMapKey, key_, out_);
        slot_ = {.type = frame.schema->element, .number = kMapValue};
        return;
      case FieldType::kList:
        slot_ = {.type = frame.schema->element, .number = frame.number};
        return;
      default:
        return;
    }
  }

  void FindMember(const Schema& object) {
    for (const Field& field : object.fields) {
      if (!field.inlined) {
        if (field.name != key_) continue;
        if (field.number != 0) {
          slot_ = {.type = field.type, .number = field.number};
        } else if (!IsTypeMeta(field)) {
          whole_ = false;
        }
        return;
      }
      const Field* inner = field.type->Find(key_);
      if (inner == nullptr) continue;
      if (field.number == 0 || inner->number == 0) {
        whole_ = false;
        return;
      }
      OpenMessage(field.number);
      ++opened_;
      slot_ = {.type = inner->type, .number = inner->number};
      return;
    }
    whole_ = false;
  }

  bool EndValue() {
    for (; opened_ > 0; --opened_) CloseMessage();
    return true;
  }
  bool EndFrame() {
    for (int i = frames_.back().opened; i > 0; --i) CloseMessage();
    frames_.pop_back();
    return true;
  }

  const Field* FindAlternative(FieldType type) const {
    for (const Field& field : slot_.type->fields) {
      if (field.type->type == type) return &field;
    }
    return nullptr;
  }
  // For a value of the union slot_ that is an object or array: opens the union's message, and makes
  // the union's field of `type` the slot. The value is left out if the union has no such field.
  void ChooseAlternative(FieldType type, Frame& frame) {
    const Field* field = FindAlternative(type);
    if (field == nullptr) {
      whole_ = false;
      slot_ = {.type = slot_.type};
      return;
    }
    OpenMessageIn(frame, slot_.number);
    // JSONSchemaPropsOrBool: a schema in place of a boolean also sets `allows`, as in Kubernetes.
    if (const Field* allows = FindAlternative(FieldType::kBoolean)) {
      AppendInteger(out_, allows->number, 1);
    }
    slot_ = {.type = field->type, .number = field->number};
  }

  void WriteInteger(int64_t value) {
    switch (slot_.type->type) {
      case FieldType::kInteger:
        if (slot_.type->format == "int32" && value != static_cast<int32_t>(value)) whole_ = false;
        return AppendInteger(out_, slot_.number, static_cast<uint64_t>(value));
      case FieldType::kNumber:
        return AppendDouble(out_, slot_.number, static_cast<double>(value));
      case FieldType::kQuantity:
        return WriteQuantity(std::to_string(value));
      case FieldType::kIntOrString:
        OpenMessage(slot_.number);
        AppendInteger(out_, 1, 0);
        AppendInteger(out_, 2, static_cast<uint64_t>(value));
        AppendField(3, "", out_);
        return CloseMessage();
      case FieldType::kAny:
        return WriteRawScalar(std::to_string(value));
      default:
        whole_ = false;
        return;
    }
  }

  void WriteQuantity(std::string_view text) {
    OpenMessage(slot_.number);
    AppendField(1, text, out_);
    CloseMessage();
  }

  void WriteText(std::string_view value) {
    switch (slot_.type->type) {
      case FieldType::kString:
      case FieldType::kDuration:
        return AppendField(slot_.number, value, out_);
      case FieldType::kBytes:
        if (const auto bytes = base::DecodeBase64(value)) {
          AppendField(slot_.number, *bytes, out_);
        } else {
          whole_ = false;
        }
        return;
      case FieldType::kQuantity:
        return WriteQuantity(value);
      case FieldType::kIntOrString:
        OpenMessage(slot_.number);
        AppendInteger(out_, 1, 1);
        AppendInteger(out_, 2, 0);
        AppendField(3, value, out_);
        return CloseMessage();
      case FieldType::kTime:
      case FieldType::kMicroTime:
        return WriteTime(value);
      case FieldType::kAny:
        return WriteRawScalar(base::json::Dump(Json(value)));
      default:
        whole_ = false;
        return;
    }
  }

  void WriteTime(std::string_view text) {
    const auto time = ParseTime(text);
    if (!time.ok()) {
      whole_ = false;
      return;
    }
    const auto since = time->time_since_epoch();
    const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
    const auto nanos = std::chrono::duration_cast<std::chrono::nanoseconds>(since - seconds);
    OpenMessage(slot_.number);
    AppendInteger(out_, 1, static_cast<uint64_t>(seconds.count()));
    AppendInteger(out_, 2, static_cast<uint64_t>(nanos.count()));
    CloseMessage();
  }

  // A value of type kAny is written as its JSON text; while one is open, events only append to it.
  void WriteRawScalar(std::string_view text) {
    OpenMessage(slot_.number);
    AppendField(kRawExtensionRaw, text, out_);
    CloseMessage();
  }
  void AppendRawSeparator() {
    if (raw_after_key_) {
      raw_after_key_ = false;
    } else if (out_.back() != '{' && out_.back() != '[') {
      out_ += ',';
    }
  }
  bool AppendRawValue(std::string_view text) {
    AppendRawSeparator();
    out_ += text;
    return true;
  }
  bool StartRaw(char bracket) {
    if (raw_depth_++ > 0) AppendRawSeparator();
    out_ += bracket;
    return true;
  }
  // Returns whether the bracket ends the whole value.
  bool EndRaw(char bracket) {
    out_ += bracket;
    return --raw_depth_ == 0;
  }

  const Schema& root_;
  std::string& out_;
  std::vector<Frame> frames_;
  std::vector<size_t> starts_;  // the positions of the lengths of the open messages
  std::string key_;
  Slot slot_;
  int opened_ = 0;     // messages that BeginValue opened for the next value
  int raw_depth_ = 0;  // open brackets of the value of type kAny; 0: none is open
  bool raw_after_key_ = false;
  bool whole_ = true;
};

bool IsWhole(const Schema& schema, std::set<const Schema*>& seen) {
  if (!seen.insert(&schema).second) return true;
  if (schema.element != nullptr && !IsWhole(*schema.element, seen)) return false;
  return std::all_of(schema.fields.begin(), schema.fields.end(), [&](const Field& field) {
    return IsTypeMeta(field) || (field.number != 0 && IsWhole(*field.type, seen));
  });
}

}  // namespace

bool HasProtobuf(const Schema* schema) {
  return schema != nullptr && std::any_of(schema->fields.begin(), schema->fields.end(),
                                          [](const Field& field) { return field.number != 0; });
}

bool IsWholeInProtobuf(const Schema* schema) {
  std::set<const Schema*> seen;
  return HasProtobuf(schema) && IsWhole(*schema, seen);
}

bool AppendMessage(const Schema& schema, std::string_view json, std::string& out) {
  Writer writer(schema, out);
  if (!base::json::Scan(json, writer)) writer.CloseAllMessages();
  return writer.whole();
}

std::string MakeFieldHead(int number, size_t size) {
  std::string head;
  AppendTag(head, number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  AppendVarint(head, size);
  return head;
}

void AppendField(int number, std::string_view content, std::string& out) {
  AppendTag(out, number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  AppendVarint(out, content.size());
  out += content;
}

}  // namespace berth::api
