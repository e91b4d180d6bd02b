#include "apiserver/kinds/stored_form.h"

#include <utility>

namespace berth::apiserver {

using base::Json;

namespace {

// The members of an Event that have another name in events.k8s.io: this name, and the name in core.
constexpr std::pair<const char*, const char*> kEventNames[] = {
    {"regarding", "involvedObject"},
    {"note", "message"},
    {"reportingController", "reportingComponent"},
    {"deprecatedSource", "source"},
    {"deprecatedFirstTimestamp", "firstTimestamp"},
    {"deprecatedLastTimestamp", "lastTimestamp"},
    {"deprecatedCount", "count"},
};

void RenameMember(Json& object, const char* from, const char* to) {
  const auto it = object.find(from);
  if (it == object.end()) return;
  object[to] = std::move(*it);
  object.erase(from);
}

// Whether the stored `text` must be parsed to be shown in the form of `kind`.
bool NeedsConversion(const KindRules& kind, std::string_view text) {
  if (kind.info->stored_as == nullptr) return false;
  constexpr std::string_view kOpening = R"({"apiVersion":")";
  if (kind.reads_through_schema || !text.starts_with(kOpening)) return kind.reads_through_schema;
  text.remove_prefix(kOpening.size());
  return text.substr(0, text.find('"')) != kind.info->api_version();
}

}  // namespace

void ConvertFromStored(const KindRules& kind, Json& object) {
  if (kind.from_stored != nullptr) return kind.from_stored(object);
  const api::KindInfo& info = *kind.info;
  if (info.stored_as == nullptr) return;
  object["apiVersion"] = info.api_version();
  if (&info != &api::kinds::kEventsEvent) return;
  for (const auto& [here, core] : kEventNames) RenameMember(object, core, here);
}

void ConvertToStored(const api::KindInfo& info, Json& object) {
  if (info.stored_as == nullptr) return;
  object["apiVersion"] = info.stored_as->api_version();
  if (&info != &api::kinds::kEventsEvent) return;
  for (const auto& [here, core] : kEventNames) RenameMember(object, here, core);
}

void ConvertToStored(const KindRules& kind, Json& object) {
  if (kind.to_stored != nullptr) return kind.to_stored(object);
  ConvertToStored(*kind.info, object);
}

base::StatusOr<Json> DecodeStoredAs(const KindRules& kind, std::string_view text) {
  ASSIGN_OR_RETURN(Json object, DecodeStored(text));
  ConvertFromStored(kind, object);
  return object;
}

base::StatusOr<Json> DecodeRecordAs(const KindRules& kind, const store::Record& record) {
  ASSIGN_OR_RETURN(Json object, DecodeRecord(record));
  ConvertFromStored(kind, object);
  return object;
}

std::string EncodeStored(const KindRules& kind, Json object) {
  ConvertToStored(kind, object);
  return EncodeObject(object);
}

void AppendAs(const KindRules& kind, std::string& out, std::string_view text,
              store::Revision revision) {
  if (!NeedsConversion(kind, text)) return AppendWithRevision(out, text, revision);
  const auto object = DecodeStoredAs(kind, text);
  AppendWithRevision(out, object.ok() ? EncodeObject(*object) : std::string(text), revision);
}

std::string TextAs(const KindRules& kind, std::string_view text, store::Revision revision) {
  std::string out;
  out.reserve(text.size() + 48);
  AppendAs(kind, out, text, revision);
  return out;
}

}  // namespace berth::apiserver
