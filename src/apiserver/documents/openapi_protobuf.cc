#include "apiserver/documents/openapi_protobuf.h"

#include <bit>
#include <cstdint>

#include "api/codecs/protobuf.h"

namespace berth::apiserver {

using base::Json;

namespace {

// A message under construction. Fields that are absent or have the wrong type are left out.
class Message {
 public:
  void Bytes(int number, std::string_view content) { api::AppendField(number, content, bytes_); }
  void Add(int number, const Message& message) { Bytes(number, message.bytes_); }

  void Text(int number, const Json& json, const char* key) {
    const auto it = json.find(key);
    if (it != json.end() && it->is_string()) Bytes(number, it->get_ref<const std::string&>());
  }
  void Texts(int number, const Json& json, const char* key) {
    const auto it = json.find(key);
    if (it == json.end() || !it->is_array()) return;
    for (const Json& one : *it) {
      if (one.is_string()) Bytes(number, one.get_ref<const std::string&>());
    }
  }
  void Bool(int number, const Json& json, const char* key) {
    const auto it = json.find(key);
    if (it != json.end() && *it == true) Bool(number, true);
  }
  void Bool(int number, bool value) {
    Varint(static_cast<uint64_t>(number) << 3);
    Varint(value ? 1 : 0);
  }
  void Int(int number, const Json& json, const char* key) {
    const auto it = json.find(key);
    if (it == json.end() || !it->is_number_integer()) return;
    Varint(static_cast<uint64_t>(number) << 3);
    Varint(static_cast<uint64_t>(it->get<int64_t>()));
  }
  void Double(int number, const Json& json, const char* key) {
    const auto it = json.find(key);
    if (it == json.end() || !it->is_number()) return;
    Varint(static_cast<uint64_t>(number) << 3 | 1);
    auto bits = std::bit_cast<uint64_t>(it->get<double>());
    for (int i = 0; i < 8; ++i, bits >>= 8) bytes_ += static_cast<char>(bits & 0xff);
  }
  // A value of any type as YAML. It is written as JSON, because JSON is also YAML.
  void Any(int number, const Json& value) {
    Message any;
    any.Bytes(2, base::json::Dump(value));
    Add(number, any);
  }
  // Members "x-...".
  void Extensions(int number, const Json& json) {
    for (const auto& [key, value] : json.items()) {
      if (!key.starts_with("x-")) continue;
      Message named;
      named.Bytes(1, key);
      named.Any(2, value);
      Add(number, named);
    }
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7f) | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

Message Named(std::string_view name, const Message& value) {
  Message out;
  out.Bytes(1, name);
  out.Add(2, value);
  return out;
}

Message SchemaMessage(const Json& schema);

void AddConstraints(const Json& schema, Message& out) {
  out.Double(6, schema, "multipleOf");
  out.Double(7, schema, "maximum");
  out.Bool(8, schema, "exclusiveMaximum");
  out.Double(9, schema, "minimum");
  out.Bool(10, schema, "exclusiveMinimum");
  out.Int(11, schema, "maxLength");
  out.Int(12, schema, "minLength");
  out.Text(13, schema, "pattern");
  out.Int(14, schema, "maxItems");
  out.Int(15, schema, "minItems");
  out.Bool(16, schema, "uniqueItems");
  out.Int(17, schema, "maxProperties");
  out.Int(18, schema, "minProperties");
  out.Texts(19, schema, "required");
  if (schema.contains("enum")) {
    for (const Json& value : schema["enum"]) out.Any(20, value);
  }
}

Message SchemaMessage(const Json& schema) {
  Message out;
  out.Text(1, schema, "$ref");
  out.Text(2, schema, "format");
  out.Text(3, schema, "title");
  out.Text(4, schema, "description");
  if (schema.contains("default")) out.Any(5, schema["default"]);
  AddConstraints(schema, out);
  if (schema.contains("additionalProperties")) {
    const Json& additional = schema["additionalProperties"];
    Message item;
    additional.is_boolean() ? item.Bool(2, additional.get<bool>())
                            : item.Add(1, SchemaMessage(additional));
    out.Add(21, item);
  }
  if (schema.contains("type")) {
    Message type;
    type.Text(1, schema, "type");
    out.Add(22, type);
  }
  if (schema.contains("items")) {
    Message items;
    items.Add(1, SchemaMessage(schema["items"]));
    out.Add(23, items);
  }
  if (schema.contains("properties")) {
    Message properties;
    for (const auto& [name, property] : schema["properties"].items()) {
      properties.Add(1, Named(name, SchemaMessage(property)));
    }
    out.Add(25, properties);
  }
  if (schema.contains("example")) out.Any(30, schema["example"]);
  out.Extensions(31, schema);
  return out;
}

Message BodyParameter(const Json& parameter) {
  Message out;
  out.Text(1, parameter, "description");
  out.Text(2, parameter, "name");
  out.Text(3, parameter, "in");
  out.Bool(4, parameter, "required");
  if (parameter.contains("schema")) out.Add(5, SchemaMessage(parameter["schema"]));
  out.Extensions(6, parameter);
  return out;
}

// A query or path parameter. The two messages differ by the field allow_empty_value, which shifts
// the numbers of the later fields.
Message SimpleParameter(const Json& parameter, bool query) {
  const int shift = query ? 1 : 0;
  Message out;
  out.Bool(1, parameter, "required");
  out.Text(2, parameter, "in");
  out.Text(3, parameter, "description");
  out.Text(4, parameter, "name");
  out.Text(5 + shift, parameter, "type");
  out.Text(6 + shift, parameter, "format");
  out.Bool(19 + shift, parameter, "uniqueItems");
  out.Extensions(22 + shift, parameter);
  return out;
}

void AddParameters(int number, const Json& json, Message& out) {
  if (!json.contains("parameters")) return;
  for (const Json& one : json["parameters"]) {
    const std::string in = base::json::String(one, {"in"});
    Message parameter;
    if (in == "body") {
      parameter.Add(1, BodyParameter(one));
    } else {
      Message simple;
      simple.Add(in == "query" ? 3 : 4, SimpleParameter(one, in == "query"));
      parameter.Add(2, simple);
    }
    Message item;
    item.Add(1, parameter);
    out.Add(number, item);
  }
}

Message Responses(const Json& responses) {
  Message out;
  for (const auto& [code, one] : responses.items()) {
    Message response;
    response.Text(1, one, "description");
    if (one.contains("schema")) {
      Message item;
      item.Add(1, SchemaMessage(one["schema"]));
      response.Add(2, item);
    }
    Message value;
    value.Add(1, response);
    out.Add(1, Named(code, value));
  }
  return out;
}

Message Operation(const Json& operation) {
  Message out;
  out.Texts(1, operation, "tags");
  out.Text(3, operation, "description");
  out.Text(5, operation, "operationId");
  out.Texts(6, operation, "produces");
  out.Texts(7, operation, "consumes");
  AddParameters(8, operation, out);
  if (operation.contains("responses")) out.Add(9, Responses(operation["responses"]));
  out.Extensions(13, operation);
  return out;
}

constexpr std::pair<const char*, int> kMethods[] = {
    {"get", 2}, {"put", 3}, {"post", 4}, {"delete", 5}, {"options", 6}, {"head", 7}, {"patch", 8}};

}  // namespace

void OpenApiMessage::AddPath(std::string_view path, const Json& item) {
  Message out;
  for (const auto& [method, number] : kMethods) {
    if (item.contains(method)) out.Add(number, Operation(item[method]));
  }
  AddParameters(9, item, out);
  out.Extensions(10, item);
  api::AppendField(2, Named(path, out).bytes(), paths_);
}

void OpenApiMessage::AddDefinition(std::string_view name, const Json& schema) {
  api::AppendField(1, Named(name, SchemaMessage(schema)).bytes(), definitions_);
}

std::string OpenApiMessage::Finish(std::string_view title, std::string_view version) const {
  Message info;
  info.Bytes(1, title);
  info.Bytes(2, version);
  Message out;
  out.Bytes(1, "2.0");
  out.Add(2, info);
  out.Bytes(8, paths_);
  out.Bytes(9, definitions_);
  return out.bytes();
}

}  // namespace berth::apiserver
