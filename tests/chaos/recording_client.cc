#include "recording_client.h"

#include <absl/strings/numbers.h>

namespace berth::chaos {

using base::Json;
using base::MutexLock;
using base::Status;
using base::StatusOr;

namespace {

int64_t Number(const std::string& version) {
  int64_t number = 0;
  return absl::SimpleAtoi(version, &number) ? number : 0;
}

}  // namespace

int64_t VersionOf(const Json& object) {
  return Number(base::json::String(object, {"metadata", "resourceVersion"}));
}

RecordingClient::Tape RecordingClient::tape() const {
  MutexLock lock(mutex_);
  return tape_;
}

size_t RecordingClient::told() const {
  MutexLock lock(mutex_);
  return told_;
}

void RecordingClient::CountIfExpired(const Status& status) {
  if (status.code() != base::StatusCode::kOutOfRange) return;
  MutexLock lock(mutex_);
  ++tape_.expired;
}

StatusOr<kube::ListResult> RecordingClient::List(const api::KindInfo& kind, std::string_view ns,
                                                 const kube::ListOptions& options) {
  auto page = client_.List(kind, ns, options);
  if (!page.ok()) {
    CountIfExpired(page.status());
    return page;
  }
  const int64_t version = Number(page->resource_version);
  MutexLock lock(mutex_);
  if (options.continue_token.empty()) {
    // A list begins a segment with its last page, so a list that breaks off is not recorded.
    if (page->continue_token.empty()) tape_.segments.push_back({version, version, {}});
  } else if (page->continue_token.empty()) {
    tape_.segments.push_back({version, version, {}});
  }
  return page;
}

void RecordingClient::Record(const kube::WatchEvent& event) {
  const int64_t version = VersionOf(event.object);
  MutexLock lock(mutex_);
  Segment& segment = tape_.segments.back();
  const bool bookmark = event.type == kube::WatchEvent::Type::kBookmark;
  if (bookmark ? version < segment.through : version <= segment.through) {
    tape_.breaches.push_back(fmt::format("version {} after {}", version, segment.through));
  }
  segment.through = std::max(segment.through, version);
  if (bookmark) return;
  segment.events.insert(version);
  ++told_;
}

Status RecordingClient::Watch(const api::KindInfo& kind, std::string_view ns,
                              const kube::ListOptions& options, std::stop_token stop,
                              const std::function<bool(kube::WatchEvent event)>& on_event) {
  {
    MutexLock lock(mutex_);
    ++tape_.watches;
    if (tape_.segments.empty() ||
        Number(options.resource_version) != tape_.segments.back().through) {
      tape_.breaches.push_back("a watch from " + options.resource_version +
                               ", which is not where the last one ended");
    }
  }
  const Status ended = client_.Watch(kind, ns, options, stop, [&](kube::WatchEvent event) {
    Record(event);
    return on_event(std::move(event));
  });
  CountIfExpired(ended);
  return ended;
}

StatusOr<Json> RecordingClient::Get(const api::KindInfo& kind, std::string_view ns,
                                    std::string_view name) {
  return client_.Get(kind, ns, name);
}
StatusOr<Json> RecordingClient::Create(const api::KindInfo& kind, std::string_view ns,
                                       const Json& object) {
  return client_.Create(kind, ns, object);
}
StatusOr<Json> RecordingClient::Update(const api::KindInfo& kind, const Json& object,
                                       std::string_view subresource) {
  return client_.Update(kind, object, subresource);
}
StatusOr<Json> RecordingClient::Patch(const api::KindInfo& kind, std::string_view ns,
                                      std::string_view name, kube::PatchType type,
                                      const Json& patch, std::string_view subresource) {
  return client_.Patch(kind, ns, name, type, patch, subresource);
}
Status RecordingClient::Delete(const api::KindInfo& kind, std::string_view ns,
                               std::string_view name, const kube::DeleteOptions& options) {
  return client_.Delete(kind, ns, name, options);
}
Status RecordingClient::DeleteCollection(const api::KindInfo& kind, std::string_view ns,
                                         const kube::DeleteOptions& options) {
  return client_.DeleteCollection(kind, ns, options);
}
StatusOr<Json> RecordingClient::CreateSubresource(const api::KindInfo& kind, std::string_view ns,
                                                  std::string_view name,
                                                  std::string_view subresource, const Json& body) {
  return client_.CreateSubresource(kind, ns, name, subresource, body);
}
Status RecordingClient::GetStream(std::string_view target, std::string_view accept,
                                  std::stop_token stop,
                                  const std::function<bool(std::string_view chunk)>& on_chunk) {
  return client_.GetStream(target, accept, stop, on_chunk);
}

}  // namespace berth::chaos
