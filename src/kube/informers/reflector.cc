#include "kube/informers/reflector.h"

#include <pthread.h>

#include <random>

#include "base/log.h"
#include "kube/informers/backoff.h"

namespace berth::kube {

using base::StatusCode;

namespace {

// Most lists are one page, because a kube-apiserver has the objects of the first page in memory,
// and reads those of each further page from etcd, which takes it twice the time. If a page is too
// long for the client, or for the time-out on a slow link, the next ones are shorter, down to
// one object, which may have megabytes. Large objects are often neighbours, and links recover, so
// pages grow again, but only after as many good ones that a failure in between costs little.
constexpr int64_t kPageSize = 10'000;
constexpr int64_t kSmallestPage = 1;
constexpr int64_t kPageFactor = 4;
constexpr int kGoodPages = 8;
// After this many broken watches in a row the objects are listed again, because the resourceVersion
// may belong to a store that no longer exists.
constexpr int kFailuresBeforeList = 5;
// A watch that ends sooner without an event counts as broken, so that a server that ends each watch
// at once is not asked without pause.
constexpr std::chrono::seconds kShortWatch{1};

// From 5 to 10 minutes, so that the watches of a process do not all end at once.
std::chrono::seconds RandomWatchTimeout() {
  static thread_local std::minstd_rand random{std::random_device{}()};
  return std::chrono::seconds(std::uniform_int_distribution<int>(300, 600)(random));
}

}  // namespace

int CompareVersions(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return a.compare(b);
}

Reflector::Reflector(Client& client, const api::KindInfo& kind, InformerOptions options, Sink& sink)
    : client_(client),
      kind_(kind),
      options_(std::move(options)),
      sink_(sink),
      page_size_(kPageSize) {}

void Reflector::Start() {
  if (!thread_.joinable()) thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
}

void Reflector::Stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

void Reflector::Run(const std::stop_token& stop) {
  // A thread's name holds 15 bytes.
  pthread_setname_np(pthread_self(), fmt::format("inf-{}", kind_.plural).substr(0, 15).c_str());
  Backoff backoff(std::chrono::milliseconds(200), std::chrono::seconds(10));
  // For what the API forbids, since a right is seldom given while a program runs. A list does not
  // begin it anew, because the watch that follows may be what is forbidden.
  Backoff forbidden_backoff(std::chrono::milliseconds(500), std::chrono::minutes(2));
  bool forbidden = false;  // since the last watch that was allowed
  bool listed = false;
  int failures = 0;
  while (!stop.stop_requested()) {
    const auto began = std::chrono::steady_clock::now();
    const bool watching = listed;
    bool progress = false;
    Status status;
    if (!listed) {
      status = ListObjects(stop);
      listed = status.ok();
      if (!listed) sink_.OnListFailure(status);
      if (listed && failures == 0) continue;
      progress = listed;
    } else {
      status = WatchObjects(stop, progress);
    }
    if (stop.stop_requested()) return;
    if (progress || (status.ok() && std::chrono::steady_clock::now() - began >= kShortWatch)) {
      failures = 0;
      backoff.Reset();
      if (watching) {
        forbidden_backoff.Reset();
        forbidden = false;
      }
      // A server sends a bookmark each minute. One that sends nothing at all may wait until a
      // restored store reaches the version that it was asked for.
      if (!progress) listed = false;
      if (status.ok()) continue;
    }
    ++failures;
    const bool lost = status.code() == StatusCode::kUnavailable ||
                      status.code() == StatusCode::kDeadlineExceeded || status.ok();
    if (!lost || failures % kFailuresBeforeList == 0) listed = false;
    const bool was_forbidden = forbidden;
    const bool refused = status.code() == StatusCode::kPermissionDenied;
    forbidden = forbidden || refused;
    if (!status.ok()) {
      // Only the first failure is a warning; the repetitions would fill the log while the API is
      // absent, or forbids this.
      const std::string text = fmt::format("watch of {}: {}", kind_.plural, base::ToString(status));
      if (failures == 1 && !was_forbidden && status.code() != StatusCode::kOutOfRange) {
        LOG_WARNING("{}", text);
      } else {
        LOG_DEBUG("{}", text);
      }
    }
    // An expired version is normal after a long sleep, so the objects are listed at once, unless it
    // happens again.
    if (status.code() == StatusCode::kOutOfRange && failures == 1) continue;
    if (!(refused ? forbidden_backoff : backoff).Wait(stop)) return;
  }
}

ListOptions Reflector::MakeRequestOptions() const {
  ListOptions options;
  options.label_selector = options_.label_selector;
  options.field_selector = options_.field_selector;
  options.metadata_only = options_.metadata_only;
  return options;
}

bool Reflector::ShortenPage(const Status& why) {
  const bool too_long =
      why.code() == StatusCode::kResourceExhausted || why.code() == StatusCode::kDeadlineExceeded;
  if (!too_long || page_size_ <= kSmallestPage) return false;
  // The page that was asked for may have been shorter.
  page_size_ =
      std::max(std::min(page_size_, client_.MostInPage(kind_)) / kPageFactor, kSmallestPage);
  good_pages_ = 0;
  return true;
}

void Reflector::CountGoodPage() {
  if (++good_pages_ < kGoodPages) return;
  page_size_ = std::min(page_size_ * kPageFactor, kPageSize);
  good_pages_ = 0;
}

Status Reflector::ListObjects(const std::stop_token& stop) {
  ListOptions options = MakeRequestOptions();
  options.on_item = [this](Json item) { sink_.OnListItem(std::move(item)); };
  std::string version;
  sink_.OnListBegin();
  bool more = true;
  while (more) {
    options.limit = page_size_;
    auto listed = client_.List(kind_, options_.ns, options);
    if (!listed.ok()) {
      // An API that does not answer at all meets the time-out too. So that this is told, and is
      // followed by a pause, a list does not go on if it has no page yet.
      const bool goes_on = listed.status().code() == StatusCode::kResourceExhausted ||
                           !options.continue_token.empty();
      if (ShortenPage(listed.status()) && goes_on && !stop.stop_requested()) continue;
      return listed.status();
    }
    CountGoodPage();
    ListResult page = *std::move(listed);
    // All pages of a list show the state at the first page's version.
    if (version.empty()) version = page.resource_version;
    options.continue_token = page.continue_token;
    for (Json& item : page.items) sink_.OnListItem(std::move(item));
    more = !options.continue_token.empty();
  }
  sink_.OnListEnd(version);
  version_ = version;
  return base::OkStatus();
}

Status Reflector::WatchObjects(const std::stop_token& stop, bool& progress) {
  ListOptions options = MakeRequestOptions();
  options.timeout = RandomWatchTimeout();
  options.resource_version = version_;
  return client_.Watch(kind_, options_.ns, options, stop, [&](WatchEvent event) {
    progress = true;
    const std::string version = base::json::String(event.object, {"metadata", "resourceVersion"});
    if (CompareVersions(version, version_) > 0) version_ = version;
    sink_.OnChange(std::move(event));
    return true;
  });
}

}  // namespace berth::kube
