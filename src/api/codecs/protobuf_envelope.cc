#include "api/codecs/protobuf.h"

namespace berth::api {
namespace {

// The field numbers of the messages around objects.
constexpr int kUnknownTypeMeta = 1;
constexpr int kUnknownRaw = 2;
constexpr int kTypeMetaApiVersion = 1;
constexpr int kTypeMetaKind = 2;
constexpr int kWatchEventType = 1;
constexpr int kWatchEventObject = 2;
constexpr int kRawContent = 1;

}  // namespace

std::string MakeEnvelopeHead(std::string_view api_version, std::string_view kind,
                             size_t message_size) {
  std::string type_meta;
  AppendField(kTypeMetaApiVersion, api_version, type_meta);
  AppendField(kTypeMetaKind, kind, type_meta);
  std::string head(kEnvelopeMagic);
  AppendField(kUnknownTypeMeta, type_meta, head);
  return head + MakeFieldHead(kUnknownRaw, message_size);
}

// contentEncoding and contentType are empty, but Kubernetes always writes them.
std::string_view MakeEnvelopeTail() { return std::string_view("\x1a\0\x22\0", 4); }

std::string MakeEnvelope(std::string_view api_version, std::string_view kind,
                         std::string_view message) {
  std::string out = MakeEnvelopeHead(api_version, kind, message.size());
  out += message;
  out += MakeEnvelopeTail();
  return out;
}

std::string MakeWatchFrame(std::string_view type, std::string_view object) {
  std::string raw;
  AppendField(kRawContent, object, raw);
  std::string event;
  AppendField(kWatchEventType, type, event);
  AppendField(kWatchEventObject, raw, event);
  std::string frame;
  for (int shift = 24; shift >= 0; shift -= 8) frame += static_cast<char>(event.size() >> shift);
  return frame + event;
}

}  // namespace berth::api
