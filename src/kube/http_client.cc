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
// The limit is higher than what people need, because schemas of custom resources nest deeply.
constexpr int kMaxDepth = 200;
// Only the server needs field ownership, and it is often half of an object's size.
constexpr base::json::UnwantedMember kManagedFields{.of = "metadata", .name = "managedFields"};
// How long a watch may outlive the time after which the server should have ended it.
constexpr std::chrono::seconds kWatchGrace{30};

// "?a=b&c=d"; empty values are left out.
std::string Query(std::initializer_list<std::pair<std::string_view, std::string>> parameters) {
  std::string out;
  for (const auto& [name, value] : parameters) {
    if (!value.empty())
      out += fmt::format("{}{}={}", out.empty() ? '?' : '&', name, http::PercentEncode(value));
  }
  return out;
}

// The URL of a collection (`name` empty), an object, or a subresource.
StatusOr<std::string> Target(const api::KindInfo& kind, std::string_view ns, std::string_view name,
                             std::string_view subresource) {
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

StatusOr<std::string> ObjectTarget(const api::KindInfo& kind, std::string_view ns,
                                   std::string_view name, std::string_view subresource) {
  // Without this check the URL would be that of the collection.
  if (name.empty() || kind.namespaced == ns.empty()) {
    return Error(StatusCode::kInvalidArgument,
                 "{} {} in namespace {}: a name is missing, or a namespace {}", kind.plural,
                 base::Quote(name), base::Quote(ns), kind.namespaced ? "too" : "does not apply");
  }
  return Target(kind, ns, name, subresource);
}

std::string_view ContentType(PatchType type) {
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

Json DeleteBody(const DeleteOptions& options) {
  Json body{{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
  if (options.grace_period_seconds) body["gracePeriodSeconds"] = *options.grace_period_seconds;
  if (!options.uid.empty()) body["preconditions"]["uid"] = options.uid;
  if (!options.resource_version.empty()) {
    body["preconditions"]["resourceVersion"] = options.resource_version;
  }
  if (!options.propagation.empty()) body["propagationPolicy"] = options.propagation;
  return body;
}

// Splits what a watch received into lines, and hands on their events.
class WatchReader {
 public:
  WatchReader(const api::KindInfo& kind, size_t max_bytes,
              const std::function<bool(WatchEvent event)>& on_event)
      : kind_(kind), max_bytes_(max_bytes), on_event_(on_event) {}

  StatusOr<bool> Consume(std::string& received) {
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
  size_t scanned_ = 0;  // of the rest, without a line's end
};

class HttpClient : public Client {
 public:
  explicit HttpClient(std::unique_ptr<HttpTransport> transport)
      : transport_(std::move(transport)) {}

  StatusOr<Json> Get(const api::KindInfo& kind, std::string_view ns,
                     std::string_view name) override {
    ASSIGN_OR_RETURN(std::string target, ObjectTarget(kind, ns, name, ""));
    return Read(std::move(target));
  }

  StatusOr<ListResult> List(const api::KindInfo& kind, std::string_view ns,
                            const ListOptions& options) override {
    ASSIGN_OR_RETURN(std::string target, Target(kind, ns, "", ""));
    target += Query({{"labelSelector", options.label_selector},
                     {"fieldSelector", options.field_selector},
                     {"resourceVersion", options.resource_version},
                     {"limit", options.limit > 0 ? fmt::format("{}", options.limit) : ""},
                     {"continue", options.continue_token}});
    ASSIGN_OR_RETURN(
        Json list,
        Read(std::move(target), options.metadata_only ? kPartialList : kJsonType, kManagedFields));
    ListResult result{.items = {},
                      .resource_version = base::json::String(list, {"metadata", "resourceVersion"}),
                      .continue_token = base::json::String(list, {"metadata", "continue"})};
    const auto items = list.find("items");
    if (items == list.end() || !items->is_array())
      return result;  // a Go server writes null for none
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
    ASSIGN_OR_RETURN(std::string target, Target(kind, ns, "", ""));
    return Write(WritePointsOf("create", kind), "POST", std::move(target), kJsonType,
                 base::json::Dump(object));
  }

  StatusOr<Json> Update(const api::KindInfo& kind, const Json& object,
                        std::string_view subresource) override {
    ASSIGN_OR_RETURN(std::string target,
                     ObjectTarget(kind, base::json::String(object, {"metadata", "namespace"}),
                                  base::json::String(object, {"metadata", "name"}), subresource));
    return Write(WritePointsOf("update", kind, subresource), "PUT", std::move(target), kJsonType,
                 base::json::Dump(object));
  }

  StatusOr<Json> Patch(const api::KindInfo& kind, std::string_view ns, std::string_view name,
                       PatchType type, const Json& patch, std::string_view subresource) override {
    ASSIGN_OR_RETURN(std::string target, ObjectTarget(kind, ns, name, subresource));
    return Write(WritePointsOf("patch", kind, subresource), "PATCH", std::move(target),
                 ContentType(type), base::json::Dump(patch));
  }

  Status Delete(const api::KindInfo& kind, std::string_view ns, std::string_view name,
                const DeleteOptions& options) override {
    ASSIGN_OR_RETURN(std::string target, ObjectTarget(kind, ns, name, ""));
    return Write(WritePointsOf("delete", kind), "DELETE", std::move(target), kJsonType,
                 base::json::Dump(DeleteBody(options)))
        .status();
  }

  Status DeleteCollection(const api::KindInfo& kind, std::string_view ns,
                          const DeleteOptions& options) override {
    // Without this check the objects of all namespaces would be deleted.
    if (kind.namespaced == ns.empty()) {
      return Error(StatusCode::kInvalidArgument, "{}: a namespace {}", kind.plural,
                   kind.namespaced ? "is missing" : "does not apply");
    }
    ASSIGN_OR_RETURN(std::string target, Target(kind, ns, "", ""));
    return Write(WritePointsOf("delete", kind), "DELETE", std::move(target), kJsonType,
                 base::json::Dump(DeleteBody(options)))
        .status();
  }

  StatusOr<Json> CreateSubresource(const api::KindInfo& kind, std::string_view ns,
                                   std::string_view name, std::string_view subresource,
                                   const Json& body) override {
    ASSIGN_OR_RETURN(std::string target, ObjectTarget(kind, ns, name, subresource));
    return Write(WritePointsOf("create", kind, subresource), "POST", std::move(target), kJsonType,
                 base::json::Dump(body));
  }

  Status Watch(const api::KindInfo& kind, std::string_view ns, const ListOptions& options,
               std::stop_token stop,
               const std::function<bool(WatchEvent event)>& on_event) override {
    ASSIGN_OR_RETURN(std::string target, Target(kind, ns, "", ""));
    const bool timed = options.timeout.count() > 0;
    target += Query({{"watch", "true"},
                     {"allowWatchBookmarks", "true"},
                     {"labelSelector", options.label_selector},
                     {"fieldSelector", options.field_selector},
                     {"resourceVersion", options.resource_version},
                     {"timeoutSeconds", timed ? fmt::format("{}", options.timeout.count()) : ""}});
    WatchReader reader(kind, transport_->options().max_event_bytes, on_event);
    return transport_->Stream(
        {.method = "GET",
         .target = std::move(target),
         .content_type = {},
         .body = {},
         .accept = std::string(options.metadata_only ? kPartialObject : kJsonType)},
        stop,
        timed ? std::chrono::steady_clock::now() + options.timeout + kWatchGrace
              : HttpTransport::Time::max(),
        [&](std::string& received) { return reader.Consume(received); });
  }

  Status GetStream(std::string_view target, std::string_view accept, std::stop_token stop,
                   const std::function<bool(std::string_view chunk)>& on_chunk) override {
    return transport_->Stream({.method = "GET",
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
  HttpTransport::Time Deadline() const {
    return std::chrono::steady_clock::now() + transport_->options().request_timeout;
  }

  StatusOr<Json> Parse(const HttpRequest& request, const HttpAnswer& answer,
                       base::json::UnwantedMember unwanted = {}) const {
    if (answer.code < 200 || answer.code > 299) {
      return StatusFromHttp(answer.code, answer.body, request.what());
    }
    auto parsed = base::json::ParseWithout(
        unwanted, answer.body,
        {.max_bytes = transport_->options().max_body_bytes, .max_depth = kMaxDepth});
    if (!parsed.ok() || !parsed->is_object()) {
      return Error(StatusCode::kUnavailable, "{}: the answer is no JSON object", request.what());
    }
    return parsed;
  }

  StatusOr<Json> Read(std::string target, std::string_view accept = kJsonType,
                      base::json::UnwantedMember unwanted = {}) {
    const HttpRequest request{.method = "GET",
                              .target = std::move(target),
                              .content_type = {},
                              .body = {},
                              .accept = std::string(accept)};
    const auto deadline = Deadline();
    ASSIGN_OR_RETURN(const HttpAnswer answer, Perform(request, deadline, {429, 503}));
    return Parse(request, answer, unwanted);
  }

  // Makes the request again if the server asks for that with one of the codes `busy`, while there
  // is time.
  StatusOr<HttpAnswer> Perform(const HttpRequest& request, HttpTransport::Time deadline,
                               const std::set<long>& busy) {
    while (true) {
      ASSIGN_OR_RETURN(HttpAnswer answer, transport_->Perform(request, deadline));
      const auto retry_at =
          std::chrono::steady_clock::now() + answer.retry_after.value_or(std::chrono::seconds(0));
      if (!busy.contains(answer.code) || !answer.retry_after || retry_at >= deadline) return answer;
      std::this_thread::sleep_until(retry_at);
    }
  }

  StatusOr<Json> Write(const base::CallPoints& points, std::string_view method, std::string target,
                       std::string_view content_type, std::string body) {
    const HttpRequest request{.method = std::string(method),
                              .target = std::move(target),
                              .content_type = std::string(content_type),
                              .body = std::move(body)};
    RETURN_IF_ERROR(points.before->PassPoint());
    ASSIGN_OR_RETURN(const HttpAnswer answer, Perform(request, Deadline(), {429}));
    RETURN_IF_ERROR_WITH(points.after->PassPoint(), request.what());
    return Parse(request, answer);
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
