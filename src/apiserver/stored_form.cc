#include "apiserver/stored_form.h"

#include <utility>

namespace berth::apiserver {

using base::Json;

namespace {

// Members of an Event that events.k8s.io names anew: there, and in core.
constexpr std::pair<const char*, const char*> kEventNames[] = {
    {"regarding", "involvedObject"},
    {"note", "message"},
    {"reportingController", "reportingComponent"},
    {"deprecatedSource", "source"},
    {"deprecatedFirstTimestamp", "firstTimestamp"},
    {"deprecatedLastTimestamp", "lastTimestamp"},
    {"deprecatedCount", "count"},
};

void Rename(Json& object, const char* from, const char* to) {
  const auto it = object.find(from);
  if (it == object.end()) return;
  object[to] = std::move(*it);
  object.erase(from);
}

// Whether the stored `text` opens with another apiVersion than that of `info`.
bool OtherForm(const api::KindInfo& info, std::string_view text) {
  if (info.stored_as == nullptr) return false;
  constexpr std::string_view kOpening = R"({"apiVersion":")";
  if (!text.starts_with(kOpening)) return false;
  text.remove_prefix(kOpening.size());
  return text.substr(0, text.find('"')) != info.api_version();
}

}  // namespace

void ConvertFromStored(const api::KindInfo& info, Json& object) {
  if (info.stored_as == nullptr) return;
  object["apiVersion"] = info.api_version();
  if (&info != &api::kinds::kEventsEvent) return;
  for (const auto& [here, core] : kEventNames) Rename(object, core, here);
}

void ConvertToStored(const api::KindInfo& info, Json& object) {
  if (info.stored_as == nullptr) return;
  object["apiVersion"] = info.stored_as->api_version();
  if (&info != &api::kinds::kEventsEvent) return;
  for (const auto& [here, core] : kEventNames) Rename(object, here, core);
}

base::StatusOr<Json> DecodeStoredAs(const api::KindInfo& info, std::string_view text) {
  ASSIGN_OR_RETURN(Json object, DecodeStored(text));
  ConvertFromStored(info, object);
  return object;
}

base::StatusOr<Json> DecodeRecordAs(const api::KindInfo& info, const store::Record& record) {
  ASSIGN_OR_RETURN(Json object, DecodeRecord(record));
  ConvertFromStored(info, object);
  return object;
}

std::string EncodeStored(const api::KindInfo& info, Json object) {
  ConvertToStored(info, object);
  return EncodeObject(object);
}

void AppendAs(const api::KindInfo& info, std::string& out, std::string_view text,
              store::Revision revision) {
  if (!OtherForm(info, text)) return AppendWithRevision(out, text, revision);
  const auto object = DecodeStoredAs(info, text);
  AppendWithRevision(out, object.ok() ? EncodeObject(*object) : std::string(text), revision);
}

std::string TextAs(const api::KindInfo& info, std::string_view text, store::Revision revision) {
  std::string out;
  out.reserve(text.size() + 48);
  AppendAs(info, out, text, revision);
  return out;
}

}  // namespace berth::apiserver
