#include "apiserver/requests/body_decoder.h"

#include "api/codecs/protobuf.h"
#include "api/codecs/yaml.h"
#include "apiserver/kinds/object_meta.h"
#include "base/log.h"

namespace berth::apiserver {

using base::Status;
using base::StatusOr;

namespace {

enum class FieldValidation { kIgnore, kWarn, kStrict };

StatusOr<FieldValidation> FieldValidationOf(const ResourceRequest& request) {
  const std::string& value = request.query.Get("fieldValidation");
  if (value.empty() || value == "Warn") return FieldValidation::kWarn;
  if (value == "Ignore") return FieldValidation::kIgnore;
  if (value == "Strict") return FieldValidation::kStrict;
  const std::string_view options = request.verb == "create"   ? "CreateOptions"
                                   : request.verb == "update" ? "UpdateOptions"
                                                              : "PatchOptions";
  return KubeError(
      Reason::kInvalid,
      fmt::format("{}.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"{}\": "
                  "supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
                  options, value),
      {.group = "meta.k8s.io", .kind = std::string(options)});
}

// The media type of the body, without parameters.
std::string_view ContentType(const http::Request& request) {
  std::string_view type = request.Header("Content-Type");
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  return type;
}

Status UnsupportedTypeError(const api::Schema* schema) {
  return KubeError(Reason::kUnsupportedMediaType,
                   fmt::format("the body of the request was in an unknown format - accepted media "
                               "types include: application/json, application/yaml{}{}",
                               api::HasProtobuf(schema) ? ", " : "",
                               api::HasProtobuf(schema) ? api::kProtobufType : ""));
}

StatusOr<Json> ReadJson(std::string_view text, api::StrictErrors& strict) {
  ASSIGN_OR_RETURN(Json object, base::json::Parse(text));
  api::FindDuplicates(text, object, strict);
  return object;
}

StatusOr<Json> ReadYaml(std::string_view text, api::StrictErrors& strict) {
  std::vector<std::string> duplicates;
  ASSIGN_OR_RETURN(auto documents, api::ParseYaml(text, {}, &duplicates));
  if (documents.size() != 1) {
    return base::Error(base::StatusCode::kInvalidArgument,
                       "the body must be one YAML document, not {}", documents.size());
  }
  AddYamlDuplicates(duplicates, strict);
  return std::move(documents.front());
}

StatusOr<Json> ReadProtobuf(std::string_view body, const api::Schema& schema,
                            std::string_view kind) {
  ASSIGN_OR_RETURN(const api::Envelope envelope, api::OpenEnvelope(body));
  if (!envelope.kind.empty() && envelope.kind != kind) {
    return base::Error(base::StatusCode::kInvalidArgument, "the message is a {} of {}",
                       envelope.kind, envelope.api_version);
  }
  ASSIGN_OR_RETURN(Json object, api::DecodeMessage(schema, envelope.message));
  if (!envelope.api_version.empty()) object["apiVersion"] = std::string(envelope.api_version);
  if (!envelope.kind.empty()) object["kind"] = std::string(envelope.kind);
  return object;
}

// Parses the body by its Content-Type. INVALID_ARGUMENT for a malformed body, a KubeError for an
// unknown type.
StatusOr<Json> ReadBody(const ResourceRequest& request, const api::Schema* schema,
                        std::string_view kind, api::StrictErrors& strict) {
  const std::string_view type = ContentType(request.exchange->request());
  const std::string body = request.exchange->TakeBody();
  if (type.empty() || http::EqualsIgnoreCase(type, "application/json"))
    return ReadJson(body, strict);
  if (http::EqualsIgnoreCase(type, "application/yaml")) return ReadYaml(body, strict);
  if (http::EqualsIgnoreCase(type, api::kProtobufType) && api::HasProtobuf(schema)) {
    return ReadProtobuf(body, *schema, kind);
  }
  return UnsupportedTypeError(schema);
}

Status BadBodyError(std::string_view kind, std::string_view version, const Status& status) {
  if (IsKubeError(status)) return status;
  return KubeError(Reason::kBadRequest,
                   fmt::format("{} in version \"{}\" cannot be handled as a {}: {}", kind, version,
                               kind, base::Message(status)));
}

void AddWarnings(const ResourceRequest& request, const api::StrictErrors& strict) {
  for (const std::string& error : strict.all()) request.exchange->AddWarning(error);
}

std::string BadBodyText(const api::KindInfo& info) {
  return fmt::format("{} in version \"{}\" cannot be handled as a {}", info.kind, info.version,
                     info.kind);
}

Status ConformTo(const KindRules& rules, Json& object, api::StrictErrors& strict) {
  if (rules.schema == nullptr) return base::OkStatus();
  RETURN_IF_ERROR(api::Conform(*rules.schema, object, {.custom = rules.custom}, strict));
  if (rules.shape != nullptr) rules.shape(object);
  return base::OkStatus();
}

}  // namespace

StatusOr<Json> DecodeObject(const ResourceRequest& request) {
  const api::KindInfo& info = request.info();
  RETURN_IF_ERROR(FieldValidationOf(request).status());
  api::StrictErrors strict;
  auto object = ReadBody(request, request.rules->schema, info.kind, strict);
  if (!object.ok()) return BadBodyError(info.kind, info.version, object.status());
  RETURN_IF_ERROR(CheckShape(info, *object));
  if (const Status status = ConformTo(*request.rules, *object, strict); !status.ok()) {
    return BadBodyError(info.kind, info.version, status);
  }
  RETURN_IF_ERROR(ReportStrictErrors(request, strict, BadBodyText(info)));
  return object;
}

Status ConformObject(const KindRules& rules, Json& object) {
  api::StrictErrors ignored;
  const Status status = ConformTo(rules, object, ignored);
  return status.ok() ? status : BadBodyError(rules.info->kind, rules.info->version, status);
}

Status ReportStrictErrors(const ResourceRequest& request, const api::StrictErrors& strict,
                          std::string_view context) {
  ASSIGN_OR_RETURN(const FieldValidation validation, FieldValidationOf(request));
  if (strict.empty() || validation == FieldValidation::kIgnore) return base::OkStatus();
  if (validation == FieldValidation::kStrict) {
    return KubeError(Reason::kBadRequest, fmt::format("{}: {}", context, strict.Message()));
  }
  AddWarnings(request, strict);
  return base::OkStatus();
}

void AddYamlDuplicates(const std::vector<std::string>& duplicates, api::StrictErrors& strict) {
  if (duplicates.empty()) return;
  std::string lines;
  for (const std::string& one : duplicates) lines += "\n  " + one;
  strict.Add("error converting YAML to JSON: yaml: unmarshal errors:" + lines);
}

StatusOr<Json> DecodeBody(const ResourceRequest& request, const api::Schema* schema,
                          std::string_view kind) {
  if (request.exchange->request().body.empty()) return Json();
  api::StrictErrors ignored;
  auto object = ReadBody(request, schema, kind, ignored);
  Status status = object.status();
  if (status.ok() && !object->is_object()) {
    status = base::Error(base::StatusCode::kInvalidArgument, "the body is not a JSON object");
  }
  const std::string named = status.ok() ? base::json::String(*object, {"kind"}) : "";
  if (!named.empty() && named != kind) {
    status =
        base::Error(base::StatusCode::kInvalidArgument, "the body is a {}", base::Quote(named));
  }
  if (status.ok() && schema != nullptr) status = api::Conform(*schema, *object, {}, ignored);
  if (!status.ok()) return BadBodyError(kind, "v1", status);
  return object;
}

StatusOr<Json> DecodePatch(std::string_view text, api::StrictErrors& strict) {
  auto patch = ReadJson(text, strict);
  if (!patch.ok()) return KubeError(Reason::kBadRequest, base::Message(patch.status()));
  return patch;
}

Status ConformPatched(const ResourceRequest& request, Json& object, api::StrictErrors& strict) {
  RETURN_IF_ERROR(CheckShape(request.info(), object));
  ASSIGN_OR_RETURN(const FieldValidation validation, FieldValidationOf(request));
  const Json patched = object;
  Status status = ConformTo(*request.rules, object, strict);
  if (status.ok() && !strict.empty() && validation == FieldValidation::kStrict) {
    status = base::Error(base::StatusCode::kInvalidArgument, "{}", strict.Message());
  }
  if (!status.ok()) {
    FieldErrors errors;
    errors.Invalid("patch", base::json::Dump(patched), base::Message(status));
    return errors.ToStatus(api::KindInfo{}, "");
  }
  if (validation == FieldValidation::kWarn) AddWarnings(request, strict);
  return base::OkStatus();
}

}  // namespace berth::apiserver
