#include "kube/http/http_client.h"

#include <set>
#include <thread>

#include "api/codecs/protobuf.h"
#include "api/names.h"
#include "base/log.h"
#include "http/url.h"
#include "kube/http/http_status.h"
#include "kube/http/http_transport.h"
#include "kube/http/object_format.h"
#include "kube/http/watch_reader.h"
#include "kube/http/write_points.h"

namespace berth::kube {
namespace {

using base::Error;
using base::StatusCode;

constexpr long kNotAcceptable = 406;
constexpr long kUnsupportedMediaType = 415;
// How long a watch may outlive the time after which the server should have ended it.
constexpr std::chrono::seconds kWatchGrace{30};
// The limits of a list whose pages the caller wants. The objects of a page in JSON are decoded
// together, and each takes many times the size of its text, so such a page has few objects.
constexpr int64_t kMostInJsonPage = 500;
constexpr size_t kMaxPageBytes = 16 * 1024 * 1024;

// Returns "?a=b&c=d". Parameters with an empty value are left out.
std::string MakeQuery(std::initializer_list<std::pair<std::string_view, std::string>> parameters) {
  std::string out;
  for (const auto& [name, value] : parameters) {
    if (!value.empty())
      out += fmt::format("{}{}={}", out.empty() ? '?' : '&', name, http::PercentEncode(value));
  }
  return out;
}

// Returns the URL's path of a collection (`name` is empty), an object, or a subresource.
StatusOr<std::string> MakeTarget(const api::KindInfo& kind, std::string_view ns,
                                 std::string_view name, std::string_view subresource) {
  for (const std::string_view segment : {ns, name, subresource}) {
    if (const Status valid = api::CheckPathSegment(segment); !valid.ok()) {
      return Error(StatusCode::kInvalidArgument, "{} {}: {}", kind.plural, base::Quote(segment),
                   base::Message(valid));
    }
  }
  std::string target = kind.url(http::PercentEncode(ns));
  if (!name.empty()) target += "/" + http::PercentEncode(name);
  if (!subresource.empty()) target += "/" + http::PercentEncode(subresource);
  return target;
}

StatusOr<std::string> MakeObjectTarget(const api::KindInfo& kind, std::string_view ns,
                                       std::string_view name, std::string_view subresource) {
  // Without this check the URL would be that of the collection.
  if (name.empty() || kind.namespaced == ns.empty()) {
    return Error(StatusCode::kInvalidArgument,
                 "{} {} in namespace {}: a name is missing, or a namespace {}", kind.plural,
                 base::Quote(name), base::Quote(ns), kind.namespaced ? "too" : "does not apply");
  }
  return MakeTarget(kind, ns, name, subresource);
}

bool IsSuccess(const HttpAnswer& answer) { return answer.code >= 200 && answer.code <= 299; }

std::string_view ContentTypeOf(PatchType type) {
  switch (type) {
    case PatchType::kJson:
      return "application/json-patch+json";
    case PatchType::kMerge:
      return "application/merge-patch+json";
    case PatchType::kStrategicMerge:
      return "application/strategic-merge-patch+json";
  }
  return kJsonType;
}

Json MakeDeleteBody(const DeleteOptions& options) {
  Json body{{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
  if (options.grace_period_seconds) body["gracePeriodSeconds"] = *options.grace_period_seconds;
  if (!options.uid.empty()) body["preconditions"]["uid"] = options.uid;
  if (!options.resource_version.empty()) {
    body["preconditions"]["resourceVersion"] = options.resource_version;
  }
  if (!options.propagation.empty()) body["propagationPolicy"] = options.propagation;
  return body;
}

class HttpClient : public Client {
 public:
  HttpClient(std::unique_ptr<Transport> transport, bool protobuf)
      : transport_(std::move(transport)), formats_(protobuf) {}

  StatusOr<Json> Get(const api::KindInfo& kind, std::string_view ns,
                     std::string_view name) override {
    ASSIGN_OR_RETURN(const std::string target, MakeObjectTarget(kind, ns, name, ""));
    return ReadObject(kind, [&](bool /*protobuf*/) { return target; }, AnswerForm::kObject,
                      {.max_bytes = transport_->options().max_body_bytes});
  }

  StatusOr<ListResult> List(const api::KindInfo& kind, std::string_view ns,
                            const ListOptions& options) override {
    ASSIGN_OR_RETURN(const std::string path, MakeTarget(kind, ns, "", ""));
    bool passed = false;  // an object was passed on
    const auto make_target = [&](bool protobuf) -> StatusOr<std::string> {
      // A first page that is read again shows a later state. An object that was deleted in between
      // would stay among those that were passed on. A later page shows the state of the first.
      if (passed && options.continue_token.empty()) {
        return Error(StatusCode::kUnavailable,
                     "{}: the list has to begin anew, because its first page failed in protobuf",
                     path);
      }
      const bool together = !protobuf || !options.on_item;
      const int64_t limit = together ? std::min(options.limit, kMostInJsonPage) : options.limit;
      return path + MakeQuery({{"labelSelector", options.label_selector},
                               {"fieldSelector", options.field_selector},
                               {"resourceVersion", options.resource_version},
                               {"limit", limit > 0 ? fmt::format("{}", limit) : ""},
                               {"continue", options.continue_token}});
    };
    const size_t max_bytes = transport_->options().max_body_bytes;
    DecodeLimits limits{
        .max_bytes = options.limit > 0 ? std::min(max_bytes, kMaxPageBytes) : max_bytes,
        .without_managed_fields = true};
    const auto pass_on = [&](Json item) {
      passed = true;
      item["apiVersion"] = kind.api_version();
      item["kind"] = kind.kind;
      options.on_item(std::move(item));
    };
    if (options.on_item) limits.on_item = pass_on;
    ASSIGN_OR_RETURN(Json list, ReadObject(kind, make_target,
                                           options.metadata_only ? AnswerForm::kMetadataList
                                                                 : AnswerForm::kObject,
                                           limits));
    ListResult result{.items = {},
                      .resource_version = base::json::String(list, {"metadata", "resourceVersion"}),
                      .continue_token = base::json::String(list, {"metadata", "continue"})};
    const auto items = list.find("items");
    if (items == list.end() || !items->is_array())
      return result;  // a Go server writes null for an empty list
    if (!options.on_item) result.items.reserve(items->size());
    for (Json& item : *items) {
      if (!item.is_object()) continue;
      if (options.on_item) {  // a list in JSON
        pass_on(std::move(item));
        continue;
      }
      item["apiVersion"] = kind.api_version();
      item["kind"] = kind.kind;
      result.items.push_back(std::move(item));
    }
    return result;
  }

  int64_t MostInPage(const api::KindInfo& kind) const override {
    return formats_.UsesProtobuf(kind) ? INT64_MAX : kMostInJsonPage;
  }

  StatusOr<Json> Create(const api::KindInfo& kind, std::string_view ns,
                        const Json& object) override {
    ASSIGN_OR_RETURN(std::string target, MakeTarget(kind, ns, "", ""));
    ASSIGN_OR_RETURN(const std::string body,
                     SendWrite(FindWritePoints("create", kind), kind, "POST", std::move(target),
                               [&](bool protobuf) { return EncodeBody(kind, object, protobuf); }));
    return DecodeWritten(kind, ns, body);
  }

  StatusOr<Json> Update(const api::KindInfo& kind, const Json& object,
                        std::string_view subresource) override {
    const std::string ns = base::json::String(object, {"metadata", "namespace"});
    ASSIGN_OR_RETURN(
        std::string target,
        MakeObjectTarget(kind, ns, base::json::String(object, {"metadata", "name"}), subresource));
    ASSIGN_OR_RETURN(
        const std::string body,
        SendWrite(FindWritePoints("update", kind, subresource), kind, "PUT", std::move(target),
                  [&](bool protobuf) { return EncodeBody(kind, object, protobuf); }));
    return DecodeWritten(kind, ns, body);
  }

  StatusOr<Json> Patch(const api::KindInfo& kind, std::string_view ns, std::string_view name,
                       PatchType type, const Json& patch, std::string_view subresource) override {
    ASSIGN_OR_RETURN(std::string target, MakeObjectTarget(kind, ns, name, subresource));
    ASSIGN_OR_RETURN(const std::string body,
                     SendWrite(FindWritePoints("patch", kind, subresource), kind, "PATCH",
                               std::move(target), [&](bool /*protobuf*/) {
                                 return BodyText{.type = std::string(ContentTypeOf(type)),
                                                 .text = base::json::Dump(patch)};
                               }));
    return DecodeWritten(kind, ns, body);
  }

  Status Delete(const api::KindInfo& kind, std::string_view ns, std::string_view name,
                const DeleteOptions& options) override {
    ASSIGN_OR_RETURN(std::string target, MakeObjectTarget(kind, ns, name, ""));
    return SendDelete(kind, std::move(target), options);
  }

  Status DeleteCollection(const api::KindInfo& kind, std::string_view ns,
                          const DeleteOptions& options) override {
    // Without this check the objects of all namespaces would be deleted.
    if (kind.namespaced == ns.empty()) {
      return Error(StatusCode::kInvalidArgument, "{}: a namespace {}", kind.plural,
                   kind.namespaced ? "is missing" : "does not apply");
    }
    ASSIGN_OR_RETURN(std::string target, MakeTarget(kind, ns, "", ""));
    return SendDelete(kind, std::move(target), options);
  }

  StatusOr<Json> CreateSubresource(const api::KindInfo& kind, std::string_view ns,
                                   std::string_view name, std::string_view subresource,
                                   const Json& body) override {
    ASSIGN_OR_RETURN(std::string target, MakeObjectTarget(kind, ns, name, subresource));
    HttpRequest request{.method = "POST",
                        .target = std::move(target),
                        // These bodies and answers are of many kinds and rare, so they stay JSON.
                        .content_type = std::string(kJsonType),
                        .body = base::json::Dump(body)};
    const base::CallPoints points = FindWritePoints("create", kind, subresource);
    RETURN_IF_ERROR(points.before->PassPoint());
    ASSIGN_OR_RETURN(const HttpAnswer answer, PerformWithRetries(request, MakeDeadline(), {429}));
    RETURN_IF_ERROR_WITH(points.after->PassPoint(), request.ToText());
    if (!IsSuccess(answer)) return StatusFromHttp(answer.code, answer.body, request.ToText());
    return DecodeWritten(kind, ns, answer.body);
  }

  Status Watch(const api::KindInfo& kind, std::string_view ns, const ListOptions& options,
               std::stop_token stop,
               const std::function<bool(WatchEvent event)>& on_event) override {
    ASSIGN_OR_RETURN(std::string target, MakeTarget(kind, ns, "", ""));
    const size_t max_bytes = transport_->options().max_event_bytes;
    std::string version = options.resource_version;
    if (formats_.UsesProtobuf(kind)) {
      WatchReader reader(kind, {.max_bytes = max_bytes}, on_event);
      const Status status = StreamEvents(target, options, version, true, stop, reader);
      // Only an answer of 406 is this error when no event was at fault.
      const bool refused = status.code() == StatusCode::kUnimplemented;
      if (reader.protobuf_failure().ok() && !refused) return status;
      formats_.UseJson(kind, base::Message(status));
      // The watch goes on behind the last event that was passed on.
      if (!reader.version().empty()) version = reader.version();
    }
    WatchReader reader(kind, {.max_bytes = max_bytes, .may_be_frames = false}, on_event);
    return StreamEvents(target, options, version, false, stop, reader);
  }

  Status GetStream(std::string_view target, std::string_view accept, std::stop_token stop,
                   const std::function<bool(std::string_view chunk)>& on_chunk) override {
    return transport_->StreamResponse({.method = "GET",
                                       .target = std::string(target),
                                       .content_type = {},
                                       .body = {},
                                       .accept = std::string(accept)},
                                      stop, Transport::Time::max(),
                                      [&](std::string& received) -> StatusOr<bool> {
                                        const bool more = on_chunk(received);
                                        received.clear();
                                        return more;
                                      });
  }

 private:
  Transport::Time MakeDeadline() const {
    return std::chrono::steady_clock::now() + transport_->options().request_timeout;
  }

  Status StreamEvents(const std::string& target, const ListOptions& options,
                      const std::string& version, bool protobuf, const std::stop_token& stop,
                      WatchReader& reader) {
    const bool timed = options.timeout.count() > 0;
    const std::string query =
        MakeQuery({{"watch", "true"},
                   {"allowWatchBookmarks", "true"},
                   {"labelSelector", options.label_selector},
                   {"fieldSelector", options.field_selector},
                   {"resourceVersion", version},
                   {"timeoutSeconds", timed ? fmt::format("{}", options.timeout.count()) : ""}});
    return transport_->StreamResponse(
        {.method = "GET",
         .target = target + query,
         .content_type = {},
         .body = {},
         .accept = AcceptHeader(options.metadata_only ? AnswerForm::kMetadata : AnswerForm::kObject,
                                protobuf)},
        stop,
        timed ? std::chrono::steady_clock::now() + options.timeout + kWatchGrace
              : Transport::Time::max(),
        [&](std::string& received) { return reader.ConsumeEvents(received); });
  }

  // Gets an object or list in the kind's format. If protobuf fails, it is asked for again as JSON.
  // `make_target` gives the request's target for the format that it is called with, or an error
  // that ends the reading.
  StatusOr<Json> ReadObject(const api::KindInfo& kind,
                            const std::function<StatusOr<std::string>(bool protobuf)>& make_target,
                            AnswerForm form, const DecodeLimits& limits) {
    HttpRequest request{.method = "GET", .target = {}, .content_type = {}, .body = {}};
    request.max_answer_bytes = limits.max_bytes;
    const auto deadline = MakeDeadline();
    while (true) {
      const bool protobuf = formats_.UsesProtobuf(kind);
      ASSIGN_OR_RETURN(request.target, make_target(protobuf));
      request.accept = AcceptHeader(form, protobuf);
      ASSIGN_OR_RETURN(const HttpAnswer answer, PerformWithRetries(request, deadline, {429, 503}));
      if (!IsSuccess(answer)) {
        const Status status = StatusFromHttp(answer.code, answer.body, request.ToText());
        if (!protobuf || answer.code != kNotAcceptable) return status;
        formats_.UseJson(kind, base::Message(status));
        continue;
      }
      auto decoded = DecodeObject(answer.body, limits);
      if (decoded.ok()) return decoded;
      if (!protobuf || !api::HasEnvelope(answer.body)) {
        return Error(StatusCode::kUnavailable, "{}: the answer is not an object: {}",
                     request.ToText(), base::Message(decoded.status()));
      }
      formats_.UseJson(kind, base::Message(decoded.status()));
    }
  }

  Status SendDelete(const api::KindInfo& kind, std::string target, const DeleteOptions& options) {
    const BodyText body{.type = std::string(kJsonType),
                        .text = base::json::Dump(MakeDeleteBody(options))};
    return SendWrite(FindWritePoints("delete", kind), kind, "DELETE", std::move(target),
                     [&](bool /*protobuf*/) { return body; })
        .status();
  }

  // Makes the request, and makes it again while the server answers with one of the codes `busy` and
  // a Retry-After that ends before the deadline.
  StatusOr<HttpAnswer> PerformWithRetries(const HttpRequest& request, Transport::Time deadline,
                                          const std::set<long>& busy) {
    while (true) {
      ASSIGN_OR_RETURN(HttpAnswer answer, transport_->PerformRequest(request, deadline));
      const auto retry_at =
          std::chrono::steady_clock::now() + answer.retry_after.value_or(std::chrono::seconds(0));
      if (!busy.contains(answer.code) || !answer.retry_after || retry_at >= deadline) return answer;
      std::this_thread::sleep_until(retry_at);
    }
  }

  // Makes a write between its two fault points (write_points.h), and returns the answer's body.
  // `encode` gives the request's body in the format that it is called with. A server that refuses a
  // format has done nothing, so the write is then sent again as JSON.
  StatusOr<std::string> SendWrite(const base::CallPoints& points, const api::KindInfo& kind,
                                  std::string_view method, std::string target,
                                  const std::function<BodyText(bool protobuf)>& encode) {
    HttpRequest request{.method = std::string(method), .target = std::move(target)};
    const auto deadline = MakeDeadline();
    RETURN_IF_ERROR(points.before->PassPoint());
    while (true) {
      const bool protobuf = formats_.UsesProtobuf(kind);
      BodyText body = encode(protobuf);
      request.content_type = std::move(body.type);
      request.body = std::move(body.text);
      request.accept = AcceptHeader(AnswerForm::kObject, protobuf);
      ASSIGN_OR_RETURN(HttpAnswer answer, PerformWithRetries(request, deadline, {429}));
      const bool refused = answer.code == kNotAcceptable || answer.code == kUnsupportedMediaType;
      if (protobuf && refused) {
        formats_.UseJson(kind, fmt::format("{}: HTTP {}", request.ToText(), answer.code));
        continue;
      }
      RETURN_IF_ERROR_WITH(points.after->PassPoint(), request.ToText());
      if (IsSuccess(answer)) return std::move(answer.body);
      return StatusFromHttp(answer.code, answer.body, request.ToText());
    }
  }

  // Decodes the object that a write returned. If protobuf does not give all of it, the object is
  // read as JSON, because a later PUT of it must not lose a field.
  StatusOr<Json> DecodeWritten(const api::KindInfo& kind, std::string_view ns,
                               std::string_view body) {
    DecodeLimits limits{.max_bytes = transport_->options().max_body_bytes};
    auto decoded = DecodeObject(body, limits);
    if (decoded.ok()) return decoded;
    if (api::HasEnvelope(body)) {
      formats_.UseJson(kind, base::Message(decoded.status()));
      limits.refuse_unknown = false;
      decoded = DecodeObject(body, limits);
      if (decoded.ok()) {
        auto whole = Get(kind, ns, base::json::String(*decoded, {"metadata", "name"}));
        // An account that may not read the object cannot put it back whole in any case, and a
        // deleted object is not put back.
        if (whole.status().code() == StatusCode::kPermissionDenied ||
            whole.status().code() == StatusCode::kNotFound) {
          return decoded;
        }
        if (whole.ok()) return whole;
        // After another failure the part must not stand for the object, so the caller gets the
        // error of an answer that was lost.
        return Error(StatusCode::kUnavailable, "{}: the written object cannot be read whole: {}",
                     kind.group_resource(), base::Message(whole.status()));
      }
    }
    return Error(StatusCode::kUnavailable, "{}: the answer to a write is not an object: {}",
                 kind.group_resource(), base::Message(decoded.status()));
  }

  const std::unique_ptr<Transport> transport_;
  ObjectFormats formats_;
};

}  // namespace

StatusOr<std::unique_ptr<Client>> NewHttpClient(const Config& config,
                                                const HttpClientOptions& options) {
  ASSIGN_OR_RETURN(auto transport, HttpTransport::New(config, options));
  // A server on a UNIX socket is Berth's own, which stores JSON and sends its text as it is.
  const bool protobuf = options.format == ObjectFormat::kProtobuf ||
                        (options.format == ObjectFormat::kByServer && config.socket.empty());
  return std::make_unique<HttpClient>(std::move(transport), protobuf);
}

std::unique_ptr<Client> NewClientOver(std::unique_ptr<Transport> transport) {
  return std::make_unique<HttpClient>(std::move(transport), /*protobuf=*/false);
}

}  // namespace berth::kube
