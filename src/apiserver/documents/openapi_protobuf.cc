#include "apiserver/documents/openapi_protobuf.h"

#include <bit>
#include <cstdint>

#include "api/codecs/protobuf.h"

namespace berth::apiserver {

using base::Json;

namespace {

// A protobuf message that is being built. The numbers are those of gnostic's openapi.v2 messages.
// JSON members that are absent or have the wrong type are left out.
class Message {
 public:
  void PutBytes(int number, std::string_view content) { api::AppendField(number, content, bytes_); }
  void Add(int number, const Message& message) { PutBytes(number, message.bytes_); }

  void PutText(int number, const Json& json, const char* key) {
    const auto it = json.find(key);
    if (it != json.end() && it->is_string()) PutBytes(number, it->get_ref<const std::string&>());
  }
  void PutTexts(int number, const Json& json, const char* key) {
    const auto it = json.find(key);
    if (it == json.end() || !it->is_array()) return;
    for (const Json& one : *it) {
      if (one.is_string()) PutBytes(number, one.get_ref<const std::string&>());
    }
  }
  void PutBool(int number, const Json& json, const char* key) {
    const auto it = json.find(key);
    if (it != json.end() && *it == true) PutBool(number, true);
  }
  void PutBool(int number, bool value) {
    PutVarint(static_cast<uint64_t>(number) << 3);
    PutVarint(value ? 1 : 0);
  }
  void PutInt(int number, const Json& json, const char* key) {
    const auto it = json.find(key);
    if (it == json.end() || !it->is_number_integer()) return;
    PutVarint(static_cast<uint64_t>(number) << 3);
    PutVarint(static_cast<uint64_t>(it->get<int64_t>()));
  }
  void PutDouble(int number, const Json& json, const char* key) {
    const auto it = json.find(key);
    if (it == json.end() || !it->is_number()) return;
    PutVarint(static_cast<uint64_t>(number) << 3 | 1);
    auto bits = std::bit_cast<uint64_t>(it->get<double>());
    for (int i = 0; i < 8; ++i, bits >>= 8) bytes_ += static_cast<char>(bits & 0xff);
  }
  // A value of any type as YAML. It is written as JSON, because JSON is also YAML.
  void PutAny(int number, const Json& value) {
    Message any;
    any.PutBytes(2, base::json::Dump(value));
    Add(number, any);
  }
  // Adds the members whose names begin with "x-" (vendor extensions).
  void PutExtensions(int number, const Json& json) {
    for (const auto& [key, value] : json.items()) {
      if (!key.starts_with("x-")) continue;
      Message named;
      named.PutBytes(1, key);
      named.PutAny(2, value);
      Add(number, named);
    }
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void PutVarint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7f) | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

Message EncodeNamed(std::string_view name, const Message& value) {
  Message out;
  out.PutBytes(1, name);
  out.Add(2, value);
  return out;
}

Message EncodeSchema(const Json& schema);

void AddConstraints(const Json& schema, Message& out) {
  out.PutDouble(6, schema, "multipleOf");
  out.PutDouble(7, schema, "maximum");
  out.PutBool(8, schema, "exclusiveMaximum");
  out.PutDouble(9, schema, "minimum");
  out.PutBool(10, schema, "exclusiveMinimum");
  out.PutInt(11, schema, "maxLength");
  out.PutInt(12, schema, "minLength");
  out.PutText(13, schema, "pattern");
  out.PutInt(14, schema, "maxItems");
  out.PutInt(15, schema, "minItems");
  out.PutBool(16, schema, "uniqueItems");
  out.PutInt(17, schema, "maxProperties");
  out.PutInt(18, schema, "minProperties");
  out.PutTexts(19, schema, "required");
  if (schema.contains("enum")) {
    for (const Json& value : schema["enum"]) out.PutAny(20, value);
  }
}

Message EncodeSchema(const Json& schema) {
  Message out;
  out.PutText(1, schema, "$ref");
  out.PutText(2, schema, "format");
  out.PutText(3, schema, "title");
  out.PutText(4, schema, "description");
  if (schema.contains("default")) out.PutAny(5, schema["default"]);
  AddConstraints(schema, out);
  if (schema.contains("additionalProperties")) {
    const Json& additional = schema["additionalProperties"];
    Message item;
    additional.is_boolean() ? item.PutBool(2, additional.get<bool>())
                            : item.Add(1, EncodeSchema(additional));
    out.Add(21, item);
  }
  if (schema.contains("type")) {
    Message type;
    type.PutText(1, schema, "type");
    out.Add(22, type);
  }
  if (schema.contains("items")) {
    Message items;
    items.Add(1, EncodeSchema(schema["items"]));
    out.Add(23, items);
  }
  if (schema.contains("properties")) {
    Message properties;
    for (const auto& [name, property] : schema["properties"].items()) {
      properties.Add(1, EncodeNamed(name, EncodeSchema(property)));
    }
    out.Add(25, properties);
  }
  if (schema.contains("example")) out.PutAny(30, schema["example"]);
  out.PutExtensions(31, schema);
  return out;
}

Message EncodeBodyParameter(const Json& parameter) {
  Message out;
  out.PutText(1, parameter, "description");
  out.PutText(2, parameter, "name");
  out.PutText(3, parameter, "in");
  out.PutBool(4, parameter, "required");
  if (parameter.contains("schema")) out.Add(5, EncodeSchema(parameter["schema"]));
  out.PutExtensions(6, parameter);
  return out;
}

// A query or path parameter. Of the two messages, only that of the query has the field
// allow_empty_value (5), so the numbers of its later fields are larger by one.
Message EncodeSimpleParameter(const Json& parameter, bool query) {
  const int shift = query ? 1 : 0;
  Message out;
  out.PutBool(1, parameter, "required");
  out.PutText(2, parameter, "in");
  out.PutText(3, parameter, "description");
  out.PutText(4, parameter, "name");
  out.PutText(5 + shift, parameter, "type");
  out.PutText(6 + shift, parameter, "format");
  out.PutBool(19 + shift, parameter, "uniqueItems");
  out.PutExtensions(22 + shift, parameter);
  return out;
}

void AddParameters(int number, const Json& json, Message& out) {
  if (!json.contains("parameters")) return;
  for (const Json& one : json["parameters"]) {
    const std::string in = base::json::String(one, {"in"});
    Message parameter;
    if (in == "body") {
      parameter.Add(1, EncodeBodyParameter(one));
    } else {
      Message simple;
      simple.Add(in == "query" ? 3 : 4, EncodeSimpleParameter(one, in == "query"));
      parameter.Add(2, simple);
    }
    Message item;
    item.Add(1, parameter);
    out.Add(number, item);
  }
}

Message EncodeResponses(const Json& responses) {
  Message out;
  for (const auto& [code, one] : responses.items()) {
    Message response;
    response.PutText(1, one, "description");
    if (one.contains("schema")) {
      Message item;
      item.Add(1, EncodeSchema(one["schema"]));
      response.Add(2, item);
    }
    Message value;
    value.Add(1, response);
    out.Add(1, EncodeNamed(code, value));
  }
  return out;
}

Message EncodeOperation(const Json& operation) {
  Message out;
  out.PutTexts(1, operation, "tags");
  out.PutText(3, operation, "description");
  out.PutText(5, operation, "operationId");
  out.PutTexts(6, operation, "produces");
  out.PutTexts(7, operation, "consumes");
  AddParameters(8, operation, out);
  if (operation.contains("responses")) out.Add(9, EncodeResponses(operation["responses"]));
  out.PutExtensions(13, operation);
  return out;
}

constexpr std::pair<const char*, int> kMethods[] = {
    {"get", 2}, {"put", 3}, {"post", 4}, {"delete", 5}, {"options", 6}, {"head", 7}, {"patch", 8}};

}  // namespace

void OpenApiMessage::AddPath(std::string_view path, const Json& item) {
  Message out;
  for (const auto& [method, number] : kMethods) {
    if (item.contains(method)) out.Add(number, EncodeOperation(item[method]));
  }
  AddParameters(9, item, out);
  out.PutExtensions(10, item);
  api::AppendField(2, EncodeNamed(path, out).bytes(), paths_);
}

void OpenApiMessage::AddDefinition(std::string_view name, const Json& schema) {
  api::AppendField(1, EncodeNamed(name, EncodeSchema(schema)).bytes(), definitions_);
}

std::string OpenApiMessage::Finish(std::string_view title, std::string_view version) const {
  Message info;
  info.PutBytes(1, title);
  info.PutBytes(2, version);
  Message out;
  out.PutBytes(1, "2.0");
  out.Add(2, info);
  out.PutBytes(8, paths_);
  out.PutBytes(9, definitions_);
  return out.bytes();
}

}  // namespace berth::apiserver
