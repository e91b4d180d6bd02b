#include "kube/fake_client.h"

#include <charconv>

#include "api/selector.h"
#include "api/time.h"
#include "base/ids.h"
#include "kube/fake_client_rules.h"

namespace berth::kube {

using api::KindInfo;
using base::Error;
using base::MutexLock;
using base::StatusCode;
using fake::Meta;
using fake::NotFound;

namespace {

api::Labels LabelsOf(const Json& object) {
  api::Labels labels;
  for (const auto& [key, value] : base::json::Map(object, {"metadata", "labels"}).items()) {
    if (value.is_string()) labels.emplace(key, value.get<std::string>());
  }
  return labels;
}

Json MetadataOf(const Json& object) {
  return {{"apiVersion", object.at("apiVersion")},
          {"kind", object.at("kind")},
          {"metadata", object.at("metadata")}};
}

}  // namespace

struct FakeClient::Filter {
  std::string ns;
  api::LabelSelector labels;
  api::FieldSelector fields;

  static StatusOr<Filter> From(const KindInfo& kind, std::string_view ns,
                               const ListOptions& options) {
    Filter filter;
    filter.ns = ns;
    ASSIGN_OR_RETURN(filter.labels, api::LabelSelector::Parse(options.label_selector));
    ASSIGN_OR_RETURN(filter.fields, api::FieldSelector::Parse(kind, options.field_selector));
    return filter;
  }

  bool Matches(const Json& object) const {
    return !object.is_null() && (ns.empty() || Meta(object, "namespace") == ns) &&
           labels.Matches(LabelsOf(object)) && fields.Matches(object);
  }
};

std::string FakeClient::Now() const { return api::FormatTime(clock_->Now()); }

const Json* FakeClient::FindLocked(const KindInfo& kind, const std::string& key) const {
  const auto objects = objects_.find(&kind);
  if (objects == objects_.end()) return nullptr;
  const auto it = objects->second.find(key);
  return it == objects->second.end() ? nullptr : &it->second;
}

Json FakeClient::CommitChange(const KindInfo& kind, const std::string& key, Json object) {
  ++version_;
  HistoryEntry entry{.version = version_, .kind = &kind, .before = {}, .after = {}};
  if (const Json* before = FindLocked(kind, key); before != nullptr) entry.before = *before;
  const bool deletion = object.is_null();
  if (deletion) object = entry.before;
  base::json::Set(object, {"metadata", "resourceVersion"}, fmt::format("{}", version_));
  if (deletion) {
    objects_[&kind].erase(key);
  } else {
    entry.after = object;
    objects_[&kind][key] = object;
  }
  history_.push_back(std::move(entry));
  changed_.NotifyAll();
  return object;
}

Json FakeClient::Add(Json object) {
  const std::string version = base::json::String(object, {"apiVersion"});
  const std::string kind_name = base::json::String(object, {"kind"});
  const KindInfo* kind = api::FindKind(version, kind_name);
  {
    MutexLock lock(mutex_);
    for (const KindInfo* custom : custom_) {
      if (custom->kind == kind_name && custom->api_version() == version) kind = custom;
    }
  }
  // This is a programmer's error in a test, so it stops where it is made.
  if (kind == nullptr || Meta(object, "name").empty()) {
    throw std::invalid_argument("FakeClient::Add: unknown kind or no name: " +
                                base::json::Dump(object));
  }
  if (kind->namespaced && Meta(object, "namespace").empty()) {
    base::json::Set(object, {"metadata", "namespace"}, "default");
  }
  if (Meta(object, "uid").empty()) base::json::Set(object, {"metadata", "uid"}, base::NewUuid());
  if (Meta(object, "creationTimestamp").empty()) {
    base::json::Set(object, {"metadata", "creationTimestamp"}, Now());
  }
  MutexLock lock(mutex_);
  return CommitChange(*kind, api::ObjectKey(Meta(object, "namespace"), Meta(object, "name")),
                      object);
}

bool FakeClient::Remove(const KindInfo& kind, std::string_view ns, std::string_view name) {
  MutexLock lock(mutex_);
  const std::string key = api::ObjectKey(ns, name);
  if (FindLocked(kind, key) == nullptr) return false;
  CommitChange(kind, key, nullptr);
  return true;
}

Json FakeClient::Peek(const KindInfo& kind, std::string_view ns, std::string_view name) const {
  MutexLock lock(mutex_);
  const Json* object = FindLocked(kind, api::ObjectKey(ns, name));
  return object == nullptr ? Json() : *object;
}

std::vector<Json> FakeClient::PeekAll(const KindInfo& kind) const {
  MutexLock lock(mutex_);
  std::vector<Json> out;
  const auto objects = objects_.find(&kind);
  if (objects == objects_.end()) return out;
  for (const auto& [key, object] : objects->second) out.push_back(object);
  return out;
}

void FakeClient::FailNext(std::string_view verb, std::string_view resource, Status status) {
  MutexLock lock(mutex_);
  failures_.push_back({std::string(verb), std::string(resource), std::move(status), false});
}

void FakeClient::LoseNextAnswer(std::string_view verb, std::string_view resource, Status status) {
  MutexLock lock(mutex_);
  failures_.push_back({std::string(verb), std::string(resource), std::move(status), true});
}

void FakeClient::SetOutage(Status status) {
  MutexLock lock(mutex_);
  outage_ = std::move(status);
  changed_.NotifyAll();
}

void FakeClient::EndWatches() {
  MutexLock lock(mutex_);
  ++watch_generation_;
  changed_.NotifyAll();
}

void FakeClient::Compact() {
  MutexLock lock(mutex_);
  // The present resourceVersion is forgotten, too, as after many changes of other kinds.
  compacted_ = version_++;
  history_.clear();
}

Status FakeClient::TakeFailure(std::string_view verb, std::string_view resource, Status& after) {
  if (!outage_.ok()) return outage_;
  for (const KindInfo* kind : unserved_) {
    if (resource.substr(0, resource.find('/')) == kind->plural) {
      return Error(StatusCode::kNotFound, "the server could not find the requested resource");
    }
  }
  for (auto it = failures_.begin(); it != failures_.end(); ++it) {
    if (it->verb != verb || it->resource != resource) continue;
    const Failure failure = std::move(*it);
    failures_.erase(it);
    if (!failure.after) return failure.status;
    after = failure.status;
    break;
  }
  return base::OkStatus();
}

void FakeClient::RecordAction(std::string_view verb, const KindInfo& kind, std::string_view ns,
                              std::string_view name, std::string_view subresource,
                              std::string body) {
  std::string action = fmt::format("{} {}/{}", verb, kind.plural, api::ObjectKey(ns, name));
  if (!subresource.empty()) action += fmt::format("/{}", subresource);
  action_names_.push_back(action);
  actions_.push_back(body.empty() ? action : fmt::format("{} {}", action, body));
}

std::vector<std::string> FakeClient::TakeActions() {
  MutexLock lock(mutex_);
  action_names_.clear();
  return std::exchange(actions_, {});
}

std::vector<std::string> FakeClient::ActionNames() const {
  MutexLock lock(mutex_);
  return action_names_;
}

bool FakeClient::WaitUntil(const std::function<bool()>& condition,
                           std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    if (condition()) return true;
    const auto now = std::chrono::steady_clock::now();
    if (now >= deadline) return false;
    MutexLock lock(mutex_);
    // A condition may depend on more than objects, so it is also evaluated now and then without a
    // change.
    changed_.WaitUntil(mutex_, std::min(deadline, now + std::chrono::milliseconds(10)));
  }
}

bool FakeClient::WaitForWatches(const KindInfo& kind, int count,
                                std::chrono::milliseconds timeout) {
  return WaitUntil(
      [&] {
        MutexLock lock(mutex_);
        return watches_[&kind] >= count;
      },
      timeout);
}

StatusOr<Json> FakeClient::Get(const KindInfo& named, std::string_view ns, std::string_view name) {
  MutexLock lock(mutex_);
  const KindInfo& kind = FindServedKind(named);
  Status after;
  RETURN_IF_ERROR(TakeFailure("get", kind.plural, after));
  RETURN_IF_ERROR(after);
  const Json* object = FindLocked(kind, api::ObjectKey(ns, name));
  if (object == nullptr) return NotFound(kind, name);
  return *object;
}

StatusOr<ListResult> FakeClient::List(const KindInfo& named, std::string_view ns,
                                      const ListOptions& options) {
  MutexLock lock(mutex_);
  const KindInfo& kind = FindServedKind(named);
  Status after;
  RETURN_IF_ERROR(TakeFailure("list", kind.plural, after));
  RETURN_IF_ERROR(after);
  ASSIGN_OR_RETURN(const Filter filter, Filter::From(kind, ns, options));
  ListResult result{
      .items = {}, .resource_version = fmt::format("{}", version_), .continue_token = {}};
  for (const auto& [key, object] : objects_[&kind]) {
    if (key <= options.continue_token && !options.continue_token.empty()) continue;
    if (!filter.Matches(object)) continue;
    if (options.limit > 0 && static_cast<int64_t>(result.items.size()) == options.limit) {
      const Json& last = result.items.back();
      result.continue_token = api::ObjectKey(Meta(last, "namespace"), Meta(last, "name"));
      break;
    }
    result.items.push_back(options.metadata_only ? MetadataOf(object) : object);
  }
  return result;
}

std::vector<WatchEvent> FakeClient::FindEventsSince(const KindInfo& kind, const Filter& filter,
                                                    int64_t& version) const {
  std::vector<WatchEvent> events;
  const auto first = std::upper_bound(
      history_.begin(), history_.end(), version,
      [](int64_t wanted, const HistoryEntry& entry) { return wanted < entry.version; });
  for (auto entry = first; entry != history_.end(); ++entry) {
    version = entry->version;
    if (entry->kind != &kind) continue;
    const bool was = filter.Matches(entry->before);
    const bool is = filter.Matches(entry->after);
    if (is) {
      events.push_back(
          {was ? WatchEvent::Type::kModified : WatchEvent::Type::kAdded, entry->after});
    } else if (was) {
      Json last = entry->before;
      base::json::Set(last, {"metadata", "resourceVersion"}, fmt::format("{}", entry->version));
      events.push_back({WatchEvent::Type::kDeleted, std::move(last)});
    }
  }
  return events;
}

Status FakeClient::Watch(const KindInfo& named, std::string_view ns, const ListOptions& options,
                         std::stop_token stop,
                         const std::function<bool(WatchEvent event)>& on_event) {
  const KindInfo& kind = [&]() -> const KindInfo& {
    MutexLock lock(mutex_);
    return FindServedKind(named);
  }();
  ASSIGN_OR_RETURN(const Filter filter, Filter::From(kind, ns, options));
  const auto deadline = std::chrono::steady_clock::now() +
                        (options.timeout.count() > 0 ? options.timeout : std::chrono::hours(1));
  const std::stop_callback wake(stop, [this] {
    MutexLock lock(mutex_);
    changed_.NotifyAll();
  });

  std::vector<WatchEvent> events;
  int64_t version = 0;
  int64_t generation = 0;
  {
    MutexLock lock(mutex_);
    Status after;
    RETURN_IF_ERROR(TakeFailure("watch", kind.plural, after));
    RETURN_IF_ERROR(after);
    generation = watch_generation_;
    const std::string& from = options.resource_version;
    if (from.empty() || from == "0") {
      for (const auto& [key, object] : objects_[&kind]) {
        if (filter.Matches(object)) events.push_back({WatchEvent::Type::kAdded, object});
      }
      version = version_;
    } else {
      std::from_chars(from.data(), from.data() + from.size(), version);
      if (version <= compacted_) {
        return Error(StatusCode::kOutOfRange, "too old resource version: {} ({})", version,
                     compacted_ + 1);
      }
    }
    ++watches_[&kind];
    changed_.NotifyAll();
  }

  Status result;
  while (true) {
    bool wanted = true;
    for (WatchEvent& event : events) {
      if (options.metadata_only) event.object = MetadataOf(event.object);
      wanted = !stop.stop_requested() && on_event(std::move(event));
      if (!wanted) break;
    }
    MutexLock lock(mutex_);
    events.clear();
    bool ended = !wanted;
    while (!ended) {
      if (stop.stop_requested() || generation != watch_generation_ || !outage_.ok()) break;
      if (version < compacted_) {
        result = Error(StatusCode::kOutOfRange, "too old resource version: {}", version);
        break;
      }
      events = FindEventsSince(kind, filter, version);
      if (!events.empty()) break;
      ended = !changed_.WaitUntil(mutex_, deadline);
    }
    if (!events.empty()) continue;
    if (result.ok()) result = outage_;
    --watches_[&kind];
    changed_.NotifyAll();
    break;
  }
  if (stop.stop_requested()) return Status(StatusCode::kCancelled, "the watch was stopped");
  return result;
}

Status FakeClient::GetStream(std::string_view target, std::string_view accept, std::stop_token stop,
                             const std::function<bool(std::string_view chunk)>& on_chunk) {
  std::string content;
  {
    MutexLock lock(mutex_);
    RETURN_IF_ERROR(outage_);
    const auto it = streams_.find(target);
    if (it != streams_.end()) {
      content = it->second;
    } else if (target == "/api" || target == "/apis") {
      content = MakeDiscoveryLocked(target == "/api");
    } else {
      return Error(StatusCode::kNotFound, "there is no stream at {}", target);
    }
  }
  if (stop.stop_requested()) return Status(StatusCode::kCancelled, "the stream was stopped");
  on_chunk(content);
  return base::OkStatus();
}

void FakeClient::SetStream(std::string_view target, std::string_view content) {
  MutexLock lock(mutex_);
  streams_[std::string(target)] = content;
}

}  // namespace berth::kube
