#include "kube/event_recorder.h"

#include <unordered_map>

#include "api/time.h"
#include "base/ids.h"
#include "base/keyed_workers.h"
#include "base/log.h"
#include "base/utf8.h"

namespace berth::kube {

using base::MutexLock;
using base::StatusCode;
using base::WallTime;

namespace {

constexpr std::chrono::minutes kWindow{10};
constexpr size_t kMaxWaiting = 1000;
// Events that are remembered so that their repetitions are counted.
constexpr size_t kMaxRemembered = 4096;
constexpr size_t kMaxMessageBytes = 1024;  // Kubernetes refuses longer ones
constexpr size_t kMaxNameBytes = 253;
constexpr std::chrono::seconds kFlushTime{2};
// Events wait a little before they are written, because the writes that they report go first, and
// repetitions are merged.
constexpr std::chrono::milliseconds kGatherTime{100};

std::string_view TypeName(base::EventType type) {
  return type == base::EventType::kNormal ? "Normal" : "Warning";
}

}  // namespace

class EventRecorder::Impl {
 public:
  Impl(Client& client, const base::Clock& clock, std::string component, std::string host)
      : client_(client),
        clock_(clock),
        component_(std::move(component)),
        host_(std::move(host)),
        writer_({.name = "events",
                 .workers = 1,
                 .retry_start = std::chrono::seconds(1),
                 .retry_max = std::chrono::seconds(30)},
                [this](const std::string& key) { return Write(key); }) {
    writer_.Start();
  }

  ~Impl() {
    {
      MutexLock lock(mutex_);
      for (const auto& [key, entry] : entries_) {
        if (entry.waiting > 0) writer_.AddNow(key);
      }
    }
    writer_.WaitIdle(kFlushTime);
    {
      MutexLock lock(mutex_);
      stopping_ = true;  // queued events are not begun any more
      for (const auto& [key, entry] : entries_) dropped_ += entry.waiting;
    }
    writer_.Stop();
    MutexLock lock(mutex_);
    if (dropped_ > 0) LOG_WARNING("{} events were dropped", dropped_);
  }

  void Record(const base::ObjectReference& object, base::EventType type, std::string_view reason,
              std::string_view message) {
    const std::string text(message.substr(0, base::CharacterEnd(message, kMaxMessageBytes)));
    // The key begins with the text that a log line should show.
    const std::string key =
        fmt::format("{} of {} {} {}", reason, object.kind, object.name,
                    base::Sha256Hex(fmt::format("{}\n{}\n{}\n{}\n{}", object.api_version, object.ns,
                                                object.uid, TypeName(type), text)));
    const WallTime now = clock_.Now();
    bool first_waiting = false;
    {
      MutexLock lock(mutex_);
      Entry& entry = entries_[key];
      if (entry.waiting == 0 && waiting_ >= kMaxWaiting) {
        CountDropped(1);
        if (entry.written == 0) entries_.erase(key);
        return;
      }
      if (entry.name.empty() || (entry.waiting == 0 && now - entry.last >= kWindow)) {
        entry = {.object = object,
                 .type = type,
                 .reason = std::string(reason),
                 .message = text,
                 .name = NameOf(object),
                 .first = now};
      }
      first_waiting = entry.waiting++ == 0;
      if (first_waiting) ++waiting_;
      entry.last = now;
      if (entries_.size() > kMaxRemembered) Forget(now);
    }
    if (first_waiting) writer_.AddAfter(key, kGatherTime);
  }

 private:
  struct Entry {
    base::ObjectReference object;
    base::EventType type = base::EventType::kNormal;
    std::string reason;
    std::string message;
    std::string name;  // of the Event
    WallTime first;
    WallTime last;
    int64_t waiting = 0;  // occurrences that the API does not know yet
    int64_t written = 0;
  };

  static std::string NameOf(const base::ObjectReference& object) {
    const std::string suffix = "." + base::RandomSuffix(16);
    std::string name = object.name.substr(0, kMaxNameBytes - suffix.size());
    while (!name.empty() && (name.back() == '.' || name.back() == '-')) name.pop_back();
    return name + suffix;
  }

  void CountDropped(int64_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (dropped_ == 0)
      LOG_WARNING("events are dropped: the API does not take them, or not in time");
    dropped_ += count;
  }

  // Makes room: it first drops entries that are too old for repetitions, then any that are written.
  void Forget(WallTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::erase_if(entries_, [&](const auto& item) {
      return item.second.waiting == 0 && now - item.second.last >= kWindow;
    });
    if (entries_.size() <= kMaxRemembered) return;
    std::erase_if(entries_, [](const auto& item) { return item.second.waiting == 0; });
  }

  Json Object(const Entry& entry) const {
    const std::string& ns = entry.object.ns;
    Json involved{{"apiVersion", entry.object.api_version},
                  {"kind", entry.object.kind},
                  {"name", entry.object.name}};
    if (!ns.empty()) involved["namespace"] = ns;
    if (!entry.object.uid.empty()) involved["uid"] = entry.object.uid;
    Json source{{"component", component_}};
    if (!host_.empty()) source["host"] = host_;
    return {{"apiVersion", "v1"},
            {"kind", "Event"},
            {"metadata", {{"name", entry.name}, {"namespace", Namespace(entry)}}},
            {"involvedObject", std::move(involved)},
            {"reason", entry.reason},
            {"message", entry.message},
            {"type", TypeName(entry.type)},
            {"source", std::move(source)},
            {"reportingComponent", component_},
            {"reportingInstance", host_},
            {"firstTimestamp", api::FormatTime(entry.first)},
            {"lastTimestamp", api::FormatTime(entry.last)},
            {"count", entry.written + entry.waiting}};
  }

  // Events about cluster-scoped objects live in "default", as in Kubernetes.
  static std::string Namespace(const Entry& entry) {
    return entry.object.ns.empty() ? "default" : entry.object.ns;
  }

  Status Send(const Entry& entry) {
    if (entry.written > 0) {
      const Json patch{{"count", entry.written + entry.waiting},
                       {"lastTimestamp", api::FormatTime(entry.last)}};
      const Status patched =
          client_
              .Patch(api::kinds::kEvent, Namespace(entry), entry.name, PatchType::kMerge, patch, "")
              .status();
      // The API's Event has expired: this repetition starts a new one under the same name.
      if (patched.code() != StatusCode::kNotFound) return patched;
    }
    const Status created =
        client_.Create(api::kinds::kEvent, Namespace(entry), Object(entry)).status();
    // The name is random and ours, so an earlier attempt, whose answer was lost, created it.
    return created.code() == StatusCode::kAlreadyExists ? base::OkStatus() : created;
  }

  base::KeyedWorkers::Outcome Write(const std::string& key) {
    Entry entry;
    {
      MutexLock lock(mutex_);
      const auto it = entries_.find(key);
      if (stopping_ || it == entries_.end() || it->second.waiting == 0) {
        return base::KeyedWorkers::Outcome::Done();
      }
      entry = it->second;
    }
    const Status status = Send(entry);
    if (status.code() == StatusCode::kUnavailable ||
        status.code() == StatusCode::kDeadlineExceeded) {
      return base::KeyedWorkers::Outcome::Retry(status);
    }
    MutexLock lock(mutex_);
    Entry& now = entries_[key];
    now.waiting -= entry.waiting;
    if (now.waiting == 0) --waiting_;
    if (status.ok()) {
      now.written += entry.waiting;
    } else {
      LOG_DEBUG("event {} of {} is refused: {}", base::Quote(entry.reason),
                base::Quote(entry.object.name), base::ToString(status));
      CountDropped(entry.waiting);
    }
    if (now.waiting > 0) return base::KeyedWorkers::Outcome::After(kGatherTime);
    if (now.written == 0) entries_.erase(key);
    return base::KeyedWorkers::Outcome::Done();
  }

  Client& client_;
  const base::Clock& clock_;
  const std::string component_;
  const std::string host_;

  base::Mutex mutex_;
  std::unordered_map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // entries that have something to write
  int64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  base::KeyedWorkers writer_;  // last: it uses all of the above
};

EventRecorder::EventRecorder(Client& client, const base::Clock& clock, std::string component,
                             std::string host)
    : impl_(std::make_unique<Impl>(client, clock, std::move(component), std::move(host))) {}

EventRecorder::~EventRecorder() = default;

void EventRecorder::Record(const base::ObjectReference& object, base::EventType type,
                           std::string_view reason, std::string_view message) {
  impl_->Record(object, type, reason, message);
}

}  // namespace berth::kube
