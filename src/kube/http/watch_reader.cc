#include "kube/http/watch_reader.h"

#include "api/codecs/protobuf.h"
#include "base/free_text.h"
#include "base/log.h"
#include "kube/http/http_status.h"
#include "kube/http/object_format.h"

namespace berth::kube {
namespace {

using base::Error;
using base::StatusCode;

constexpr size_t kLengthBytes = 4;

std::optional<WatchEvent::Type> FindType(std::string_view name) {
  if (name == "ADDED") return WatchEvent::Type::kAdded;
  if (name == "MODIFIED") return WatchEvent::Type::kModified;
  if (name == "DELETED") return WatchEvent::Type::kDeleted;
  if (name == "BOOKMARK") return WatchEvent::Type::kBookmark;
  return std::nullopt;
}

StatusOr<WatchEvent> MakeEvent(std::string_view type, Json object) {
  if (type == "ERROR") return StatusFromObject(object);
  const auto known = FindType(type);
  if (!known) {
    return Error(StatusCode::kUnavailable, "watch: unknown event type {}", base::Quote(type));
  }
  return WatchEvent{.type = *known, .object = std::move(object)};
}

}  // namespace

StatusOr<bool> WatchReader::ConsumeEvents(std::string& received) {
  size_t begin = 0;
  while (begin < received.size()) {
    const std::string_view rest = std::string_view(received).substr(begin);
    const bool json = !options_.may_be_frames || rest[0] == '{' || rest[0] == '\n';
    std::string_view content;
    ASSIGN_OR_RETURN(const size_t size, json ? FindLine(rest, content) : FindFrame(rest, content));
    if (size == 0) break;
    begin += size;
    if (json && content.find_first_not_of(" \r\t") == std::string_view::npos) continue;
    ASSIGN_OR_RETURN(WatchEvent event, json ? DecodeLine(content) : DecodeFrame(content));
    event.object["apiVersion"] = kind_.api_version();
    event.object["kind"] = kind_.kind;
    std::string version = base::json::String(event.object, {"metadata", "resourceVersion"});
    if (!on_event_(std::move(event))) return false;
    version_ = std::move(version);
  }
  if (begin == received.size()) {
    base::FreeText(received);  // the memory of a burst
  } else {
    received.erase(0, begin);
  }
  if (received.size() > options_.max_bytes + kLengthBytes) return MakeTooLongError();
  return true;
}

Status WatchReader::MakeTooLongError() const {
  return Error(StatusCode::kResourceExhausted, "watch of {}: an event exceeds {} bytes",
               kind_.plural, options_.max_bytes);
}

StatusOr<size_t> WatchReader::FindLine(std::string_view rest, std::string_view& event) {
  const size_t end = rest.find('\n', scanned_);
  scanned_ = end == std::string_view::npos ? rest.size() : 0;
  if (end == std::string_view::npos) return size_t{0};
  event = rest.substr(0, end);
  return end + 1;
}

StatusOr<size_t> WatchReader::FindFrame(std::string_view rest, std::string_view& event) const {
  if (rest.size() < kLengthBytes) return size_t{0};
  size_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length = length << 8 | static_cast<uint8_t>(rest[i]);
  if (length > options_.max_bytes) return MakeTooLongError();
  if (rest.size() - kLengthBytes < length) return size_t{0};
  event = rest.substr(kLengthBytes, length);
  return kLengthBytes + length;
}

StatusOr<WatchEvent> WatchReader::DecodeLine(std::string_view line) const {
  auto frame =
      DecodeObject(line, {.max_bytes = options_.max_bytes, .without_managed_fields = true});
  if (!frame.ok()) {
    return Error(StatusCode::kUnavailable, "watch: {}", base::Message(frame.status()));
  }
  const std::string type = base::json::String(*frame, {"type"});
  return MakeEvent(type, std::move((*frame)["object"]));
}

StatusOr<WatchEvent> WatchReader::DecodeFrame(std::string_view frame) {
  const auto opened = api::OpenWatchFrame(frame);
  if (!opened.ok()) {
    return Error(StatusCode::kUnavailable, "watch: {}", base::Message(opened.status()));
  }
  auto object = DecodeObject(opened->object,
                             {.max_bytes = options_.max_bytes, .without_managed_fields = true});
  if (!object.ok()) {
    protobuf_failure_ = object.status();
    return Error(StatusCode::kUnavailable, "watch: {}", base::Message(object.status()));
  }
  return MakeEvent(opened->type, *std::move(object));
}

}  // namespace berth::kube
