#include "apiserver/watch_service.h"

#include <atomic>
#include <random>

#include "apiserver/event_cache.h"
#include "apiserver/formats/object_text.h"
#include "apiserver/renderer.h"
#include "apiserver/requests/list_options.h"
#include "apiserver/resource_reader.h"

namespace berth::apiserver {

using base::Status;
using base::StatusCode;
using Clock = std::chrono::steady_clock;

namespace {

constexpr size_t kWatchPage = 500;
// A watch yields its worker after this many records, because a selector may match few of them.
constexpr size_t kWatchTurn = 2000;
constexpr size_t kWatchChunk = 256 * 1024;
constexpr std::chrono::seconds kBookmarkInterval{60};
// A last bookmark is sent this long before the end, so that the client knows where its next watch
// starts.
constexpr std::chrono::seconds kBookmarkBeforeEnd{2};
constexpr std::chrono::seconds kDefaultTimeout{1800};

// The timeout if the client names none: 30 to 60 minutes. It is random, so that the watches do not
// all end at once.
std::chrono::seconds RandomTimeout() {
  static thread_local std::minstd_rand random{std::random_device{}()};
  return kDefaultTimeout + std::chrono::seconds(std::uniform_int_distribution<int>(
                               0, kDefaultTimeout.count())(random));
}

// The last part of the keys that a selection by name can match ("/web"); "" if it names no object.
std::string KeySuffixOf(const Selection& selection) {
  const auto name = selection.fields.RequiredValue("metadata.name");
  return name.has_value() ? "/" + *name : "";
}

}  // namespace

class Watch : public store::Watcher, public std::enable_shared_from_this<Watch> {
 public:
  Watch(WatchService& service, const ResourceRequest& request, WatchQuery query, Renderer renderer)
      : service_(service),
        context_(service.context_),
        kind_(request.rules),
        exchange_(request.exchange),
        query_(std::move(query)),
        renderer_(std::move(renderer)),
        prefix_(KeyPrefix(request.info(), request.ns)),
        only_name_(KeySuffixOf(query_.selection)),
        deadline_(Clock::now() + (query_.timeout.count() > 0 ? query_.timeout : RandomTimeout())),
        next_bookmark_(NextBookmark(Clock::now())) {}

  // Runs on a worker.
  void StartSending() {
    revision_ = query_.revision;
    if (revision_ > context_.store.current() || revision_ < 0)
      return SendErrorAndEnd(OutOfHistoryError());
    if (query_.send_initial_events) {
      OpenStream();
      return SendInitial();
    }
    if (revision_ == 0) revision_ = context_.store.current();
    SendHistory();
  }

  const KindPtr& kind() const { return kind_; }

  void Tick(Clock::time_point now) {
    if (drop_is_due_.exchange(false)) DropSubscriptionLater();
    if (now >= deadline_) return End();
    if (!query_.bookmarks || now < next_bookmark_) return;
    next_bookmark_ = NextBookmark(now);
    base::MutexLock lock(order_);
    if (progress_ == 0) return;  // past events are still being sent, so no revision is complete
    PushFrame(http::MakeFrame(renderer_.RenderBookmark(progress_, false)));
  }

  // May be called on any thread, also during a delivery. A worker drops the subscription, because
  // dropping it waits for running deliveries.
  void End() {
    {
      base::MutexLock lock(mutex_);
      if (ended_) return;
      ended_ = true;
    }
    exchange_->EndStream();
    DropSubscriptionLater();
  }

  void EndSubscription() {
    std::shared_ptr<void> subscription;
    {
      base::MutexLock lock(mutex_);
      ended_ = true;
      subscription.swap(subscription_);
    }
    subscription.reset();
    service_.RemoveWatch(shared_from_this());
  }

  void OnChange(const store::Change& change) override {
    const auto cached = service_.events_->FindOrAdd(change);
    base::MutexLock lock(order_);
    const auto frame = FrameFor(change, *cached);
    progress_ = change.record.revision;
    if (frame) PushFrame(*frame);
  }

  void OnProgress(store::Revision revision) override {
    base::MutexLock lock(order_);
    progress_ = std::max(progress_, revision);
  }

  // The client lists again, as after a compaction.
  void OnLost(const Status&) override {
    base::MutexLock lock(order_);
    PushFrame(http::MakeFrame(renderer_.RenderErrorEvent(KubeError(
        Reason::kExpired,
        fmt::format("the changes after resource version {} could not be read", progress_)))));
    End();
  }

 private:
  // If no worker takes it, the next Tick tries again, or EndAll does it on its own thread.
  void DropSubscriptionLater() {
    if (!context_.workers.Post([self = shared_from_this()] { self->EndSubscription(); })) {
      drop_is_due_ = true;
    }
  }

  void OpenStream() {
    if (!opened_) exchange_->StartStream({.content_type = renderer_.watch_content_type()});
    opened_ = true;
  }

  void PushFrame(const http::Frame& frame) {
    if (!exchange_->Push(frame)) End();
  }

  // The type of the event that the client gets for `change`; "" if it does not see the change.
  std::string_view TypeFor(const store::Change& change, CachedChange& cached) const {
    using Type = store::Change::Type;
    if (query_.selection.selects_all()) {
      return change.type == Type::kCreated   ? "ADDED"
             : change.type == Type::kUpdated ? "MODIFIED"
                                             : "DELETED";
    }
    // Objects with another name are skipped without parsing, because a name never changes.
    if (!only_name_.empty() && !change.record.key.ends_with(only_name_)) return "";
    const bool now = query_.selection.Matches(cached.after());
    switch (change.type) {
      case Type::kCreated:
        return now ? "ADDED" : "";
      case Type::kDeleted:
        return now ? "DELETED" : "";
      case Type::kUpdated:
        break;
    }
    const bool before = query_.selection.Matches(cached.before());
    return now ? (before ? "MODIFIED" : "ADDED") : (before ? "DELETED" : "");
  }

  Clock::time_point NextBookmark(Clock::time_point now) const {
    const auto last = deadline_ - kBookmarkBeforeEnd;
    const auto next = now + kBookmarkInterval;
    return now < last ? std::min(next, last) : next;
  }

  // Sends `out`, and runs `step` on a worker when it is written. Ends the watch if the client is
  // gone.
  void SendThen(std::string out, void (Watch::*step)()) {
    if (!out.empty() && !exchange_->PushPage(http::MakeFrame(std::move(out)))) return End();
    exchange_->OnDrained([self = shared_from_this(), step] {
      // The client watches again from what it has got.
      if (!self->context_.workers.Post(self->exchange_->request(),
                                       [self, step] { ((*self).*step)(); })) {
        self->End();
      }
    });
  }

  // Sends the existing objects in pages, each after the client has received the previous one. Then
  // sends the later events.
  void SendInitial() {
    std::string out;
    size_t looked_at = 0;
    bool listed = false;
    while (!listed && out.size() < kWatchChunk && looked_at < kWatchTurn) {
      auto page = context_.store.List(prefix_, after_, kWatchPage, at_);
      if (!page.ok()) return SendErrorAndEnd(page.status());
      at_ = page->revision;
      looked_at += page->records.size();
      for (const store::Record& record : page->records) {
        after_ = record.key;
        if (!query_.selection.selects_all()) {
          const auto object = DecodeStored(*record.value);
          if (!object.ok() || !query_.selection.Matches(*object)) continue;
        }
        out += renderer_.RenderEvent("ADDED", record, !columns_sent_);
        columns_sent_ = true;
      }
      listed = !page->more;
    }
    if (!listed) return SendThen(std::move(out), &Watch::SendInitial);
    if (query_.bookmarks) {
      out += renderer_.RenderBookmark(at_, true);
    }
    revision_ = at_;
    SendThen(std::move(out), &Watch::SendHistory);
  }

  // Sends in pages the events after the revision that the client knows, then subscribes to live
  // events.
  void SendHistory() {
    auto history = context_.store.ReadChanges(prefix_, revision_, kWatchPage);
    if (!history.ok()) return SendErrorAndEnd(history.status());
    OpenStream();
    std::string out;
    for (const store::Change& change : history->changes) {
      CachedChange cached(change);
      if (const auto frame = FrameFor(change, cached)) out += **frame;
    }
    revision_ = history->through;
    if (history->changes.empty()) return Subscribe();
    SendThen(std::move(out), &Watch::SendHistory);
  }

  void Subscribe() {
    {
      base::MutexLock lock(order_);
      progress_ = revision_;
    }
    // The changes since `revision_` are delivered before Watch returns.
    auto subscription = context_.store.Watch(prefix_, revision_, shared_from_this());
    if (!subscription.ok()) return SendErrorAndEnd(subscription.status());
    bool ended;
    {
      base::MutexLock lock(mutex_);
      ended = ended_;
      if (!ended) subscription_ = *std::move(subscription);
    }
    if (ended) EndSubscription();
  }

  // The event for `change`; none if the client does not see the change. The first event of a table
  // carries the columns.
  std::optional<http::Frame> FrameFor(const store::Change& change, CachedChange& cached) {
    const std::string_view type = TypeFor(change, cached);
    if (type.empty()) return std::nullopt;
    const bool first = renderer_.form() == Renderer::Form::kTable && !columns_sent_;
    columns_sent_ = true;
    if (first) {
      return http::MakeFrame(renderer_.RenderEvent(type, cached.ShownRecord(type), true));
    }
    return cached.RenderEvent(type, renderer_);
  }

  Status OutOfHistoryError() const {
    return base::Error(StatusCode::kOutOfRange, "revision {} is not in the history", revision_);
  }

  void SendErrorAndEnd(const Status& status) {
    const bool expired = status.code() == StatusCode::kOutOfRange;
    const Status error =
        !expired ? status
        : revision_ > context_.store.current()
            ? TooLargeRevisionError(revision_, context_.store.current())
            : KubeError(Reason::kExpired, fmt::format("too old resource version: {} ({})",
                                                      revision_, context_.store.compacted()));
    if (!opened_) {
      ReplyError(*exchange_, error);
    } else {
      PushFrame(http::MakeFrame(renderer_.RenderErrorEvent(error)));
    }
    End();
  }

  WatchService& service_;
  ApiContext& context_;
  const KindPtr kind_;
  const std::shared_ptr<http::Exchange> exchange_;
  const WatchQuery query_;
  const Renderer renderer_;
  const std::string prefix_;
  const std::string only_name_;  // the end of keys that can match; "": any key
  const Clock::time_point deadline_;
  Clock::time_point next_bookmark_;  // used on Tick's thread only

  // Before the subscription, only the one running job uses these; afterwards only the store's
  // delivery does.
  bool opened_ = false;
  bool columns_sent_ = false;
  std::string after_;             // the last key of the existing objects that was sent
  store::Revision at_ = 0;        // the revision of the existing objects; 0: not read yet
  store::Revision revision_ = 0;  // the events up to this one were sent

  // Held while an event or bookmark is pushed, so that they are sent in the order of their
  // revisions.
  base::Mutex order_;
  // All events up to this revision were sent; 0 before the subscription.
  store::Revision progress_ ABSL_GUARDED_BY(order_) = 0;
  std::atomic<bool> drop_is_due_{false};  // the watch has ended and no worker was free to drop it
  base::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<void> subscription_ ABSL_GUARDED_BY(mutex_);
};

WatchService::WatchService(ApiContext& context)
    : context_(context), events_(std::make_shared<EventCache>()) {}

WatchService::~WatchService() { EndAll(); }

void WatchService::StartWatch(const ResourceRequest& request) {
  const auto start = [&]() -> Status {
    ASSIGN_OR_RETURN(Renderer renderer, Renderer::ForRequest(request, context_.clock));
    ASSIGN_OR_RETURN(WatchQuery query, ParseWatchQuery(request));
    const auto watch =
        std::make_shared<Watch>(*this, request, std::move(query), std::move(renderer));
    {
      base::MutexLock lock(mutex_);
      if (ended_) return KubeError(Reason::kServiceUnavailable, "the server is shutting down");
      watches_.insert(watch);
    }
    request.exchange->OnOver([watch] { watch->End(); });
    watch->StartSending();
    // Checks again, because the kind may have been removed after the request was routed and before
    // the watch was added to watches_.
    if (!context_.kinds.Current()->Contains(request.rules)) watch->End();
    return base::OkStatus();
  };
  if (const Status status = start(); !status.ok()) ReplyError(*request.exchange, status);
}

void WatchService::Tick() {
  std::vector<std::shared_ptr<Watch>> watches;
  {
    base::MutexLock lock(mutex_);
    watches.assign(watches_.begin(), watches_.end());
  }
  const auto now = Clock::now();
  for (const auto& watch : watches) watch->Tick(now);
}

void WatchService::EndUnserved(const ServedKinds& kinds) {
  std::vector<std::shared_ptr<Watch>> ending;
  {
    base::MutexLock lock(mutex_);
    for (const auto& watch : watches_) {
      if (!kinds.Contains(watch->kind())) ending.push_back(watch);
    }
  }
  for (const auto& watch : ending) watch->End();
}

void WatchService::EndAll() {
  std::vector<std::shared_ptr<Watch>> watches;
  {
    base::MutexLock lock(mutex_);
    ended_ = true;
    watches.assign(watches_.begin(), watches_.end());
  }
  for (const auto& watch : watches) {
    watch->End();
    watch->EndSubscription();
  }
}

void WatchService::RemoveWatch(const std::shared_ptr<Watch>& watch) {
  base::MutexLock lock(mutex_);
  watches_.erase(watch);
}

}  // namespace berth::apiserver
