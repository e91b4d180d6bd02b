#include "apiserver/api_context.h"

#include "apiserver/formats/object_text.h"
#include "apiserver/formats/reply_encoder.h"
#include "apiserver/formats/reply_format.h"

namespace berth::apiserver {

using base::StatusCode;

void Reply(http::Exchange& exchange, http::Response response) {
  for (const std::string& warning : exchange.TakeWarnings()) {
    response.headers.emplace_back("Warning", warning);
  }
  EncodeReply(exchange.request(), response);
  exchange.Reply(response);
}

void ReplyObject(http::Exchange& exchange, int code, std::string json) {
  Reply(exchange, ObjectResponse(exchange.request(), code, std::move(json)));
}

void ReplyError(http::Exchange& exchange, const base::Status& status) {
  http::Response failure = ToResponse(status);
  // A client that accepts none of the formats gets the error in JSON.
  if (failure.code == 406) return Reply(exchange, std::move(failure));
  http::Response response =
      ObjectResponse(exchange.request(), failure.code, std::move(failure.body));
  response.headers = std::move(failure.headers);
  Reply(exchange, std::move(response));
}

base::StatusOr<bool> IsDryRun(const http::Query& query) {
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
