#include "apiserver/reply_format.h"

#include "api/protobuf.h"
#include "api/yaml.h"
#include "apiserver/kube_status.h"

namespace berth::apiserver {
namespace {

using base::Json;

constexpr std::string_view kJsonType = "application/json";
constexpr std::string_view kYamlType = "application/yaml";

// Reads apiVersion and kind of an object's text, and no further than it must.
class TypeMetaReader : public nlohmann::json_sax<Json> {
 public:
  std::string api_version;
  std::string kind;

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& value) override {
    if (depth_ != 1) return true;
    if (key_ == "apiVersion") api_version = value;
    if (key_ == "kind") kind = value;
    return api_version.empty() || kind.empty();
  }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_object(size_t /*elements*/) override { return ++depth_ > 0; }
  bool start_array(size_t /*elements*/) override { return ++depth_ > 0; }
  bool end_object() override { return --depth_ >= 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool key(string_t& name) override {
    if (depth_ == 1) key_ = name;
    return true;
  }
  bool parse_error(size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

 private:
  int depth_ = 0;
  std::string key_;
};

TypeMetaReader TypeMetaOf(std::string_view json) {
  TypeMetaReader reader;
  Json::sax_parse(json, &reader);
  return reader;
}

}  // namespace

std::string_view MediaType(Format format) {
  switch (format) {
    case Format::kYaml:
      return kYamlType;
    case Format::kProtobuf:
      return api::kProtobufType;
    case Format::kJson:
      break;
  }
  return kJsonType;
}

std::optional<Format> FormatIn(const MediaRange& range, const api::Schema* schema) {
  if (range.Includes(kJsonType)) return Format::kJson;
  if (range.Includes(kYamlType)) return Format::kYaml;
  if (range.Includes(api::kProtobufType) && api::HasProtobuf(schema)) return Format::kProtobuf;
  return std::nullopt;
}

std::optional<Format> FormatFor(const Request& request, const api::Schema* schema) {
  for (const MediaRange& range : ParseAccept(request.Header("Accept"))) {
    if (const auto format = FormatIn(range, schema)) return format;
  }
  return std::nullopt;
}

base::Status NotAcceptableError(const api::Schema* schema) {
  return KubeError(Reason::kNotAcceptable,
                   fmt::format("only the following media types are accepted: {}, {}{}{}", kJsonType,
                               kYamlType, api::HasProtobuf(schema) ? ", " : "",
                               api::HasProtobuf(schema) ? api::kProtobufType : ""));
}

std::optional<std::string> WriteObject(Format format, std::string_view json) {
  if (format == Format::kJson) return std::string(json);
  if (format == Format::kYaml) {
    const Json object = Json::parse(json, nullptr, false);
    if (object.is_discarded()) return std::nullopt;
    return api::ToYaml(object);
  }
  const TypeMetaReader type = TypeMetaOf(json);
  const api::Schema* schema = api::SchemaOf(type.api_version, type.kind);
  if (!api::HasProtobuf(schema)) return std::nullopt;
  std::string message;
  api::AppendMessage(*schema, json, message);
  return api::Envelop(type.api_version, type.kind, message);
}

Response ObjectResponse(const Request& request, int code, std::string json) {
  Response response{.code = code};
  const TypeMetaReader type = TypeMetaOf(json);
  const auto format = FormatFor(request, api::SchemaOf(type.api_version, type.kind));
  std::optional<std::string> body;
  if (format && *format != Format::kJson) body = WriteObject(*format, json);
  if (body) response.content_type = MediaType(*format);
  response.body = body ? *std::move(body) : std::move(json);
  return response;
}

}  // namespace berth::apiserver
