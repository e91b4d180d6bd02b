#include "kube/http_client.h"

#include <set>
#include <thread>

#include "api/names.h"
#include "base/json_builder.h"
#include "base/log.h"
#include "http/url.h"
#include "kube/http_status.h"
#include "kube/http_transport.h"
#include "kube/write_points.h"

namespace berth::kube {
namespace {

using base::Error;
using base::StatusCode;

constexpr std::string_view kJsonType = "application/json";
constexpr std::string_view kPartialList =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
constexpr std::string_view kPartialObject =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
// The limit is high, because the schemas of custom resources nest deeply.
constexpr int kMaxDepth = 200;
// The parser leaves managedFields out, because only the server needs them, and they are often half
// of an object's size.
constexpr base::json::UnwantedMember kManagedFields{.of = "metadata", .name = "managedFields"};
// How long a watch may outlive the time after which the server should have ended it.
constexpr std::chrono::seconds kWatchGrace{30};

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

StatusOr<WatchEvent> ParseEvent(std::string_view line, size_t max_bytes) {
  auto frame = base::json::ParseWithout(kManagedFields, line,
                                        {.max_bytes = max_bytes, .max_depth = kMaxDepth});
  if (!frame.ok())
    return Error(StatusCode::kUnavailable, "watch: {}", base::Message(frame.status()));
  const std::string type = base::json::String(*frame, {"type"});
  const Json& object = base::json::Map(*frame, {"object"});
  if (type == "ERROR") return StatusFromObject(object);
  WatchEvent event;
  if (type == "ADDED") {
    event.type = WatchEvent::Type::kAdded;
  } else if (type == "MODIFIED") {
    event.type = WatchEvent::Type::kModified;
  } else if (type == "DELETED") {
    event.type = WatchEvent::Type::kDeleted;
  } else if (type == "BOOKMARK") {
    event.type = WatchEvent::Type::kBookmark;
  } else {
    return Error(StatusCode::kUnavailable, "watch: unknown event type {}", base::Quote(type));
  }
  event.object = std::move((*frame)["object"]);
  return event;
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

// Splits the bytes of a watch into lines, and passes the event of each line to a function.
class WatchReader {
 public:
  WatchReader(const api::KindInfo& kind, size_t max_bytes,
              const std::function<bool(WatchEvent event)>& on_event)
      : kind_(kind), max_bytes_(max_bytes), on_event_(on_event) {}

  StatusOr<bool> ConsumeLines(std::string& received) {
    size_t begin = 0;
    size_t end = 0;
    while ((end = received.find('\n', std::max(begin, scanned_))) != std::string::npos) {
      const std::string_view line = std::string_view(received).substr(begin, end - begin);
      begin = end + 1;
      scanned_ = 0;
      if (line.find_first_not_of(" \r\t") == std::string_view::npos) continue;
      ASSIGN_OR_RETURN(WatchEvent event, ParseEvent(line, max_bytes_));
      event.object["apiVersion"] = kind_.api_version();
      event.object["kind"] = kind_.kind;
      if (!on_event_(std::move(event))) return false;
    }
    if (begin == received.size()) {
      received = {};  // frees the memory of a burst
    } else {
      received.erase(0, begin);
    }
    scanned_ = received.size();
    if (received.size() > max_bytes_) {
      return Error(StatusCode::kResourceExhausted, "watch of {}: an event exceeds {} bytes",
                   kind_.plural, max_bytes_);
    }
    return true;
  }

 private:
  const api::KindInfo& kind_;
  const size_t max_bytes_;
  const std::function<bool(WatchEvent event)>& on_event_;
  size_t scanned_ = 0;  // bytes at the front of the rest that have no line feed
};

class HttpClient : public Client {
 public:
  explicit HttpClient(std::unique_ptr<HttpTransport> transport)
      : transport_(std::move(transport)) {}

  StatusOr<Json> Get(const api::KindInfo& kind, std::string_view ns,
                     std::string_view name) override {
    ASSIGN_OR_RETURN(std::string target, MakeObjectTarget(kind, ns, name, ""));
    return ReadObject(std::move(target));
  }

  StatusOr<ListResult> List(const api::KindInfo& kind, std::string_view ns,
                            const ListOptions& options) override {
    ASSIGN_OR_RETURN(std::string target, MakeTarget(kind, ns, "", ""));
    target += MakeQuery({{"labelSelector", options.label_selector},
                         {"fieldSelector", options.field_selector},
                         {"resourceVersion", options.resource_version},
                         {"limit", options.limit > 0 ? fmt::format("{}", options.limit) : ""},
                         {"continue", options.continue_token}});
    ASSIGN_OR_RETURN(Json list,
                     ReadObject(std::move(target), options.metadata_only ? kPartialList : kJsonType,
                                kManagedFields));
    ListResult result{.items = {},
                      .resource_version = base::json::String(list, {"metadata", "resourceVersion"}),
                      .continue_token = base::json::String(list, {"metadata", "continue"})};
    const auto items = list.find("items");
    if (items == list.end() || !items->is_array())
      return result;  // a Go server writes null for an empty list
    result.items.reserve(items->size());
    for (Json& item : *items) {
      if (!item.is_object()) continue;
      item["apiVersion"] = kind.api_version();
      item["kind"] = kind.kind;
      result.items.push_back(std::move(item));
    }
    return result;
  }

  StatusOr<Json> Create(const api::KindInfo& kind, std::string_view ns,
                        const Json& object) override {
    ASSIGN_OR_RETURN(std::string target, MakeTarget(kind, ns, "", ""));
    return WriteObject(FindWritePoints("create", kind), "POST", std::move(target), kJsonType,
                       base::json::Dump(object));
  }

  StatusOr<Json> Update(const api::KindInfo& kind, const Json& object,
                        std::string_view subresource) override {
    ASSIGN_OR_RETURN(
        std::string target,
        MakeObjectTarget(kind, base::json::String(object, {"metadata", "namespace"}),
                         base::json::String(object, {"metadata", "name"}), subresource));
    return WriteObject(FindWritePoints("update", kind, subresource), "PUT", std::move(target),
                       kJsonType, base::json::Dump(object));
  }

  StatusOr<Json> Patch(const api::KindInfo& kind, std::string_view ns, std::string_view name,
                       PatchType type, const Json& patch, std::string_view subresource) override {
    ASSIGN_OR_RETURN(std::string target, MakeObjectTarget(kind, ns, name, subresource));
    return WriteObject(FindWritePoints("patch", kind, subresource), "PATCH", std::move(target),
                       ContentTypeOf(type), base::json::Dump(patch));
  }

  Status Delete(const api::KindInfo& kind, std::string_view ns, std::string_view name,
                const DeleteOptions& options) override {
    ASSIGN_OR_RETURN(std::string target, MakeObjectTarget(kind, ns, name, ""));
    return WriteObject(FindWritePoints("delete", kind), "DELETE", std::move(target), kJsonType,
                       base::json::Dump(MakeDeleteBody(options)))
        .status();
  }

  Status DeleteCollection(const api::KindInfo& kind, std::string_view ns,
                          const DeleteOptions& options) override {
    // Without this check the objects of all namespaces would be deleted.
    if (kind.namespaced == ns.empty()) {
      return Error(StatusCode::kInvalidArgument, "{}: a namespace {}", kind.plural,
                   kind.namespaced ? "is missing" : "does not apply");
    }
    ASSIGN_OR_RETURN(std::string target, MakeTarget(kind, ns, "", ""));
    return WriteObject(FindWritePoints("delete", kind), "DELETE", std::move(target), kJsonType,
                       base::json::Dump(MakeDeleteBody(options)))
        .status();
  }

  StatusOr<Json> CreateSubresource(const api::KindInfo& kind, std::string_view ns,
                                   std::string_view name, std::string_view subresource,
                                   const Json& body) override {
    ASSIGN_OR_RETURN(std::string target, MakeObjectTarget(kind, ns, name, subresource));
    return WriteObject(FindWritePoints("create", kind, subresource), "POST", std::move(target),
                       kJsonType, base::json::Dump(body));
  }

  Status Watch(const api::KindInfo& kind, std::string_view ns, const ListOptions& options,
               std::stop_token stop,
               const std::function<bool(WatchEvent event)>& on_event) override {
    ASSIGN_OR_RETURN(std::string target, MakeTarget(kind, ns, "", ""));
    const bool timed = options.timeout.count() > 0;
    target +=
        MakeQuery({{"watch", "true"},
                   {"allowWatchBookmarks", "true"},
                   {"labelSelector", options.label_selector},
                   {"fieldSelector", options.field_selector},
                   {"resourceVersion", options.resource_version},
                   {"timeoutSeconds", timed ? fmt::format("{}", options.timeout.count()) : ""}});
    WatchReader reader(kind, transport_->options().max_event_bytes, on_event);
    return transport_->StreamResponse(
        {.method = "GET",
         .target = std::move(target),
         .content_type = {},
         .body = {},
         .accept = std::string(options.metadata_only ? kPartialObject : kJsonType)},
        stop,
        timed ? std::chrono::steady_clock::now() + options.timeout + kWatchGrace
              : HttpTransport::Time::max(),
        [&](std::string& received) { return reader.ConsumeLines(received); });
  }

  Status GetStream(std::string_view target, std::string_view accept, std::stop_token stop,
                   const std::function<bool(std::string_view chunk)>& on_chunk) override {
    return transport_->StreamResponse({.method = "GET",
                                       .target = std::string(target),
                                       .content_type = {},
                                       .body = {},
                                       .accept = std::string(accept)},
                                      stop, HttpTransport::Time::max(),
                                      [&](std::string& received) -> StatusOr<bool> {
                                        const bool more = on_chunk(received);
                                        received.clear();
                                        return more;
                                      });
  }

 private:
  HttpTransport::Time MakeDeadline() const {
    return std::chrono::steady_clock::now() + transport_->options().request_timeout;
  }

  StatusOr<Json> ParseAnswer(const HttpRequest& request, const HttpAnswer& answer,
                             base::json::UnwantedMember unwanted = {}) const {
    if (answer.code < 200 || answer.code > 299) {
      return StatusFromHttp(answer.code, answer.body, request.ToText());
    }
    auto parsed = base::json::ParseWithout(
        unwanted, answer.body,
        {.max_bytes = transport_->options().max_body_bytes, .max_depth = kMaxDepth});
    if (!parsed.ok() || !parsed->is_object()) {
      return Error(StatusCode::kUnavailable, "{}: the answer is not a JSON object",
                   request.ToText());
    }
    return parsed;
  }

  StatusOr<Json> ReadObject(std::string target, std::string_view accept = kJsonType,
                            base::json::UnwantedMember unwanted = {}) {
    const HttpRequest request{.method = "GET",
                              .target = std::move(target),
                              .content_type = {},
                              .body = {},
                              .accept = std::string(accept)};
    const auto deadline = MakeDeadline();
    ASSIGN_OR_RETURN(const HttpAnswer answer, PerformWithRetries(request, deadline, {429, 503}));
    return ParseAnswer(request, answer, unwanted);
  }

  // Makes the request, and makes it again while the server answers with one of the codes `busy` and
  // a Retry-After that ends before the deadline.
  StatusOr<HttpAnswer> PerformWithRetries(const HttpRequest& request, HttpTransport::Time deadline,
                                          const std::set<long>& busy) {
    while (true) {
      ASSIGN_OR_RETURN(HttpAnswer answer, transport_->PerformRequest(request, deadline));
      const auto retry_at =
          std::chrono::steady_clock::now() + answer.retry_after.value_or(std::chrono::seconds(0));
      if (!busy.contains(answer.code) || !answer.retry_after || retry_at >= deadline) return answer;
      std::this_thread::sleep_until(retry_at);
    }
  }

  // Makes a write between its two fault points (write_points.h).
  StatusOr<Json> WriteObject(const base::CallPoints& points, std::string_view method,
                             std::string target, std::string_view content_type, std::string body) {
    const HttpRequest request{.method = std::string(method),
                              .target = std::move(target),
                              .content_type = std::string(content_type),
                              .body = std::move(body)};
    RETURN_IF_ERROR(points.before->PassPoint());
    ASSIGN_OR_RETURN(const HttpAnswer answer, PerformWithRetries(request, MakeDeadline(), {429}));
    RETURN_IF_ERROR_WITH(points.after->PassPoint(), request.ToText());
    return ParseAnswer(request, answer);
  }

  const std::unique_ptr<HttpTransport> transport_;
};

}  // namespace

StatusOr<std::unique_ptr<Client>> NewHttpClient(const Config& config,
                                                const HttpClientOptions& options) {
  ASSIGN_OR_RETURN(auto transport, HttpTransport::New(config, options));
  return std::make_unique<HttpClient>(std::move(transport));
}

}  // namespace berth::kube
