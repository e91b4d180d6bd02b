#include "apiserver/formats/reply_format.h"

#include <algorithm>

#include "api/codecs/protobuf.h"
#include "api/codecs/yaml.h"
#include "apiserver/formats/kube_status.h"
#include "base/json_scan.h"

namespace berth::apiserver {
namespace {

using base::Json;

constexpr std::string_view kJsonType = "application/json";
constexpr std::string_view kYamlType = "application/yaml";

// Reads apiVersion and kind of an object's text, and stops as soon as it has both.
class TypeMetaReader {
 public:
  std::string api_version;
  std::string kind;

  static bool Null() { return true; }
  static bool Boolean(bool /*value*/) { return true; }
  static bool Integer(int64_t /*value*/) { return true; }
  static bool Number(double /*value*/, std::string_view /*text*/) { return true; }
  bool String(std::string_view value) {
    if (depth_ != 1) return true;
    if (key_ == "apiVersion") api_version = value;
    if (key_ == "kind") kind = value;
    return api_version.empty() || kind.empty();
  }
  bool Key(std::string_view name) {
    if (depth_ == 1) key_ = name;
    return true;
  }
  bool StartObject() { return ++depth_ > 0; }
  bool StartArray() { return ++depth_ > 0; }
  bool EndObject() { return --depth_ >= 0; }
  bool EndArray() { return --depth_ >= 0; }

 private:
  int depth_ = 0;
  std::string key_;
};

TypeMetaReader TypeMetaOf(std::string_view json) {
  TypeMetaReader reader;
  base::json::Scan(json, reader);
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

std::optional<Format> FormatFor(const http::Request& request, const api::Schema* schema) {
  for (const MediaRange& range : ParseAccept(request.Header("Accept"))) {
    if (const auto format = FormatIn(range, schema)) return format;
  }
  return std::nullopt;
}

base::Status NotAcceptableError(const http::Request& request, const api::Schema* schema,
                                bool list) {
  // Protobuf is among them also where the objects have no messages, because their metadata has one.
  const std::string types = fmt::format("{}, {}, {}", kJsonType, kYamlType, api::kProtobufType);
  // kube-apiserver's words depend on whether the client accepts one of the media types, in some
  // other form. They are always the first for custom resources.
  const std::vector<MediaRange> accepted = ParseAccept(request.Header("Accept"));
  if (!api::HasProtobuf(schema) ||
      std::any_of(accepted.begin(), accepted.end(),
                  [&](const MediaRange& range) { return FormatIn(range, schema).has_value(); })) {
    return KubeError(Reason::kNotAcceptable,
                     fmt::format("only the following media types are accepted: {}", types));
  }
  return KubeError(Reason::kNotAcceptable,
                   fmt::format("406: Not Acceptable\n\nAvailable representations: {}{}", types,
                               list ? fmt::format(", {};stream=watch, {};stream=watch", kJsonType,
                                                  api::kProtobufType)
                                    : ""));
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
  return api::MakeEnvelope(type.api_version, type.kind, message);
}

http::Response ObjectResponse(const http::Request& request, int code, std::string json) {
  http::Response response{.code = code};
  const TypeMetaReader type = TypeMetaOf(json);
  const auto format = FormatFor(request, api::SchemaOf(type.api_version, type.kind));
  std::optional<std::string> body;
  if (format && *format != Format::kJson) body = WriteObject(*format, json);
  if (body) response.content_type = MediaType(*format);
  response.body = body ? *std::move(body) : std::move(json);
  return response;
}

}  // namespace berth::apiserver
