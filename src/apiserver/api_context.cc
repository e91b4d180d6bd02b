#include "apiserver/api_context.h"

#include "api/yaml.h"
#include "apiserver/object_text.h"
#include "apiserver/reply_encoder.h"

namespace berth::apiserver {

using base::StatusCode;

void Reply(Exchange& exchange, Response response) {
  EncodeFor(exchange.request(), response);
  exchange.Reply(response);
}

void ReplyJson(Exchange& exchange, int code, std::string body) {
  Reply(exchange, {.code = code, .body = std::move(body)});
}

void ReplyError(Exchange& exchange, const base::Status& status) {
  Reply(exchange, ToResponse(status));
}

base::StatusOr<Json> DecodeBody(const ResourceRequest& request) {
  Exchange& exchange = *request.exchange;
  std::string_view type = exchange.request().Header("Content-Type");
  type = type.substr(0, type.find(';'));
  const std::string body = exchange.TakeBody();
  if (type.empty() || EqualsIgnoreCase(type, "application/json")) {
    auto object = base::json::Parse(body);
    if (!object.ok()) return KubeError(Reason::kBadRequest, base::Message(object.status()));
    return object;
  }
  if (EqualsIgnoreCase(type, "application/yaml")) {
    auto documents = api::ParseYaml(body);
    if (!documents.ok()) return KubeError(Reason::kBadRequest, base::Message(documents.status()));
    if (documents->size() != 1) {
      return KubeError(
          Reason::kBadRequest,
          fmt::format("the body must be one YAML document, not {}", documents->size()));
    }
    return std::move(documents->front());
  }
  return KubeError(
      Reason::kUnsupportedMediaType,
      fmt::format("the body of the request was in an unknown format ({}) - accepted media "
                  "types include: application/json, application/yaml",
                  type));
}

base::StatusOr<bool> IsDryRun(const Query& query) {
  const std::string& value = query.Get("dryRun");
  if (value.empty() || value == "All") return !value.empty();
  return KubeError(Reason::kInvalid,
                   fmt::format("dryRun: Unsupported value: \"{}\": supported values: "
                               "\"All\"",
                               value));
}

base::StatusOr<Json> StoreLookup::Get(const api::KindInfo& kind, std::string_view ns,
                                      std::string_view name) {
  ASSIGN_OR_RETURN(const store::Record record, store_.Get(ObjectStoreKey(kind, ns, name)));
  return DecodeStored(*record.value);
}

base::StatusOr<std::vector<Json>> StoreLookup::List(const api::KindInfo& kind) {
  ASSIGN_OR_RETURN(const store::Page page, store_.List(KeyPrefix(kind, ""), "", 0, 0));
  std::vector<Json> objects;
  for (const store::Record& record : page.records) {
    ASSIGN_OR_RETURN(Json object, DecodeStored(*record.value));
    objects.push_back(std::move(object));
  }
  return objects;
}

}  // namespace berth::apiserver
