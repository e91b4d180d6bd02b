#include "kube/event_recorder.h"

#include <map>

#include "api/time.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/record_pool.h"
#include "base/utf8.h"
#include "base/workers/keyed_workers.h"

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
constexpr size_t kSuffixBytes = 15;  // of an Event's name, which std::string keeps without malloc
constexpr std::chrono::seconds kFlushTime{2};
// Events wait a little before they are written, because the writes that they report go first, and
// repetitions are merged.
constexpr std::chrono::milliseconds kGatherTime{100};
// With more waiting events than these, it is a burst, and each waits longer.
constexpr size_t kBurst = 20;
constexpr std::chrono::milliseconds kGatherTimeInBurst{2000};

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
                [this](const std::string& key) { return WriteEvent(key); }) {
    writer_.Start();
  }

  ~Impl() {
    {
      MutexLock lock(mutex_);
      for (const auto& [key, entry] : entries_) {
        if (entry.waiting > 0) writer_.AddNow(std::string(key));
      }
    }
    writer_.WaitIdle(kFlushTime);
    {
      MutexLock lock(mutex_);
      stopping_ = true;  // from now on no queued event is written
      for (const auto& [key, entry] : entries_) dropped_ += entry.waiting;
    }
    writer_.Stop();
    MutexLock lock(mutex_);
    if (dropped_ > 0) LOG_WARNING("{} events were dropped", dropped_);
  }

  void Record(const base::ObjectReference& object, base::EventType type, std::string_view reason,
              std::string_view message) {
    const std::string text = Shorten(message);
    const std::string key = KeyOf(object, type, reason, text);
    const WallTime now = clock_.Now();
    bool first_waiting = false;
    std::chrono::milliseconds gather = kGatherTime;
    {
      MutexLock lock(mutex_);
      auto found = entries_.find(std::string_view(key));
      if (found == entries_.end()) found = entries_.emplace(std::string_view(key), Entry()).first;
      Entry& entry = found->second;
      if (entry.waiting == 0 && waiting_ >= kMaxWaiting) {
        CountDropped(1);
        if (entry.written == 0) entries_.erase(found);
        return;
      }
      if (entry.suffix.empty() || (entry.waiting == 0 && now - entry.last >= kWindow)) {
        entry = {.suffix = base::RandomSuffix(kSuffixBytes), .first = now};
      }
      if (entry.report == nullptr) {
        entry.report = std::make_shared<const Report>(
            Report{.object = object, .type = type, .reason = std::string(reason), .message = text});
      }
      first_waiting = entry.waiting++ == 0;
      if (first_waiting) ++waiting_;
      entry.last = now;
      if (entries_.size() > kMaxRemembered) ForgetWritten(now);
      // Warnings are written soon, and if the queue could get full, all events are.
      if (type == base::EventType::kNormal && IsBurst() && waiting_ < kMaxWaiting / 2) {
        gather = kGatherTimeInBurst;
      }
    }
    if (first_waiting) writer_.AddAfter(key, gather);
  }

  void Withdraw(const base::ObjectReference& object, base::EventType type, std::string_view reason,
                std::string_view message) {
    const std::string key = KeyOf(object, type, reason, Shorten(message));
    MutexLock lock(mutex_);
    const auto it = entries_.find(std::string_view(key));
    if (it == entries_.end() || !IsBurst()) return;
    Entry& entry = it->second;
    if (entry.waiting == 0 || entry.written > 0 || entry.sending) return;
    --waiting_;
    entries_.erase(it);  // the writer finds nothing to write
  }

 private:
  struct Report {
    base::ObjectReference object;
    base::EventType type = base::EventType::kNormal;
    std::string reason;
    std::string message;
  };
  struct Entry {
    // Null as long as nothing waits, because thousands of entries are remembered, and a repetition
    // brings its report.
    std::shared_ptr<const Report> report = nullptr;
    std::string suffix;  // of the Event's name
    WallTime first;
    WallTime last;
    int64_t waiting = 0;  // occurrences that the API does not know yet
    int64_t written = 0;
    bool sending = false;
  };

  static std::string Shorten(std::string_view message) {
    return std::string(message.substr(0, base::CharacterEnd(message, kMaxMessageBytes)));
  }

  // The key begins with the text that a log line should show.
  static std::string KeyOf(const base::ObjectReference& object, base::EventType type,
                           std::string_view reason, const std::string& text) {
    return fmt::format("{} of {} {} {}", reason, object.kind, object.name,
                       base::Sha256Hex(fmt::format("{}\n{}\n{}\n{}\n{}", object.api_version,
                                                   object.ns, object.uid, TypeName(type), text)));
  }

  bool IsBurst() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return waiting_ > kBurst; }

  static std::string NameOf(const Entry& entry) {
    const std::string suffix = "." + entry.suffix;
    std::string name = entry.report->object.name.substr(0, kMaxNameBytes - suffix.size());
    while (!name.empty() && (name.back() == '.' || name.back() == '-')) name.pop_back();
    return name + suffix;
  }

  void CountDropped(int64_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (dropped_ == 0)
      LOG_WARNING(
          "events are dropped: there are too many at once, or the API refuses them, or it does not "
          "answer in time");
    dropped_ += count;
  }

  // Makes room in entries_: it drops the entries that are too old to count a repetition, and if
  // these are not enough, all that are written.
  void ForgetWritten(WallTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::erase_if(entries_, [&](const auto& item) {
      return item.second.waiting == 0 && now - item.second.last >= kWindow;
    });
    if (entries_.size() <= kMaxRemembered) return;
    std::erase_if(entries_, [](const auto& item) { return item.second.waiting == 0; });
  }

  Json MakeEvent(const Entry& entry) const {
    const auto& [object, type, reason, message] = *entry.report;
    Json involved{{"apiVersion", object.api_version}, {"kind", object.kind}, {"name", object.name}};
    if (!object.ns.empty()) involved["namespace"] = object.ns;
    if (!object.uid.empty()) involved["uid"] = object.uid;
    Json source{{"component", component_}};
    if (!host_.empty()) source["host"] = host_;
    return {{"apiVersion", "v1"},
            {"kind", "Event"},
            {"metadata", {{"name", NameOf(entry)}, {"namespace", NamespaceOf(entry)}}},
            {"involvedObject", std::move(involved)},
            {"reason", reason},
            {"message", message},
            {"type", TypeName(type)},
            {"source", std::move(source)},
            {"reportingComponent", component_},
            {"reportingInstance", host_},
            {"firstTimestamp", api::FormatTime(entry.first)},
            {"lastTimestamp", api::FormatTime(entry.last)},
            {"count", entry.written + entry.waiting}};
  }

  // Events about cluster-scoped objects live in "default", as in Kubernetes.
  static std::string NamespaceOf(const Entry& entry) {
    const std::string& ns = entry.report->object.ns;
    return ns.empty() ? "default" : ns;
  }

  // Patches the count of an Event that was written before, or creates the Event.
  Status SendEvent(const Entry& entry) {
    if (entry.written > 0) {
      const Json patch{{"count", entry.written + entry.waiting},
                       {"lastTimestamp", api::FormatTime(entry.last)}};
      const Status patched = client_
                                 .Patch(api::kinds::kEvent, NamespaceOf(entry), NameOf(entry),
                                        PatchType::kMerge, patch, "")
                                 .status();
      // The Event has expired in the API, so this repetition creates a new one with the same name.
      if (patched.code() != StatusCode::kNotFound) return patched;
    }
    const Status created =
        client_.Create(api::kinds::kEvent, NamespaceOf(entry), MakeEvent(entry)).status();
    // The name is random, so it was created by an earlier attempt whose answer was lost.
    return created.code() == StatusCode::kAlreadyExists ? base::OkStatus() : created;
  }

  // The work of writer_ on a key of entries_.
  base::KeyedWorkers::Outcome WriteEvent(const std::string& key) {
    Entry entry;
    {
      MutexLock lock(mutex_);
      const auto it = entries_.find(std::string_view(key));
      if (stopping_ || it == entries_.end() || it->second.waiting == 0) {
        return base::KeyedWorkers::Outcome::Done();
      }
      it->second.sending = true;
      entry = it->second;
    }
    const Status status = SendEvent(entry);
    MutexLock lock(mutex_);
    // It is there: while it waits or is sent, nothing removes it.
    const auto it = entries_.find(std::string_view(key));
    Entry& current = it->second;
    if (status.code() == StatusCode::kUnavailable ||
        status.code() == StatusCode::kDeadlineExceeded) {
      return base::KeyedWorkers::Outcome::Retry(status);  // it may be written all the same
    }
    current.sending = false;
    current.waiting -= entry.waiting;
    if (current.waiting == 0) {
      --waiting_;
      current.report = nullptr;
    }
    if (status.ok()) {
      current.written += entry.waiting;
    } else {
      LOG_DEBUG("event {} of {} is refused: {}", base::Quote(entry.report->reason),
                base::Quote(entry.report->object.name), base::ToString(status));
      CountDropped(entry.waiting);
    }
    if (current.waiting > 0) return base::KeyedWorkers::Outcome::After(kGatherTime);
    if (current.written == 0) entries_.erase(it);
    return base::KeyedWorkers::Outcome::Done();
  }

  Client& client_;
  const base::Clock& clock_;
  const std::string component_;
  const std::string host_;

  base::Mutex mutex_;
  base::RecordPool memory_ ABSL_GUARDED_BY(mutex_);
  std::pmr::map<std::pmr::string, Entry, std::less<>> entries_ ABSL_GUARDED_BY(mutex_){&memory_};
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // entries that have something to write
  int64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  base::KeyedWorkers writer_;  // last: it uses all of the above
};

EventRecorder::EventRecorder(Client& client, const base::Clock& clock, std::string component,
                             std::string host)
    : impl_(std::make_unique<Impl>(client, clock, std::move(component), std::move(host))) {}

EventRecorder::~EventRecorder() = default;

void EventRecorder::Withdraw(const base::ObjectReference& object, base::EventType type,
                             std::string_view reason, std::string_view message) {
  impl_->Withdraw(object, type, reason, message);
}

void EventRecorder::Record(const base::ObjectReference& object, base::EventType type,
                           std::string_view reason, std::string_view message) {
  impl_->Record(object, type, reason, message);
}

}  // namespace berth::kube
