#include "apiserver/formats/object_text.h"

#include <iterator>

#include "base/json_brackets.h"

namespace berth::apiserver {

using base::Json;

namespace {
// A quote inside a JSON string is escaped, so this matches a member and no text within a value.
constexpr std::string_view kMetadata = R"("metadata":{)";
}  // namespace

std::string EncodeObject(const Json& object) {
  std::string out = "{";
  const auto append = [&out](const std::string& key, const Json& value) {
    if (out.size() > 1) out += ',';
    out += base::json::Dump(Json(key));
    out += ':';
    out += base::json::Dump(value);
  };
  for (const char* first : {"apiVersion", "kind", "metadata"}) {
    const auto it = object.find(first);
    if (it == object.end()) continue;
    if (std::string_view(first) == "metadata" && it->contains("resourceVersion")) {
      Json metadata = *it;
      metadata.erase("resourceVersion");
      append(first, metadata);
    } else {
      append(first, *it);
    }
  }
  for (const auto& [key, value] : object.items()) {
    if (key != "apiVersion" && key != "kind" && key != "metadata") append(key, value);
  }
  out += '}';
  return out;
}

void AppendWithRevision(std::string& out, std::string_view text, store::Revision revision) {
  const size_t found = text.find(kMetadata);
  // A text that EncodeObject did not write, or that has no revision (0), is copied unchanged.
  if (found == std::string_view::npos || revision == 0) {
    out.append(text);
    return;
  }
  const size_t brace = found + kMetadata.size();
  out.append(text.substr(0, brace));
  fmt::format_to(std::back_inserter(out), R"("resourceVersion":"{}",)", revision);
  out.append(text.substr(brace));
}

std::string_view StoredMetadata(std::string_view text) {
  const size_t found = text.find(kMetadata);
  if (found == std::string_view::npos) return "{}";
  const size_t begin = found + kMetadata.size() - 1;
  size_t end = begin;  // behind its closing brace
  int depth = 0;
  base::json::VisitBrackets(text.substr(begin), [&](size_t at, char bracket) {
    depth += bracket == '{' || bracket == '[' ? 1 : -1;
    if (depth == 0) end = begin + at + 1;
    return depth > 0;
  });
  return end == begin ? "{}" : text.substr(begin, end - begin);
}

base::StatusOr<Json> DecodeStored(std::string_view text) {
  // The bounds are larger than those of requests, because defaults may have made the object larger.
  auto object = base::json::Parse(text, {.max_bytes = 64 * 1024 * 1024, .max_depth = 128});
  if (!object.ok()) {
    return base::Error(base::StatusCode::kDataLoss, "a stored object is damaged: {}",
                       base::Message(object.status()));
  }
  return object;
}

base::StatusOr<Json> DecodeRecord(const store::Record& record) {
  ASSIGN_OR_RETURN(Json object, DecodeStored(*record.value));
  object["metadata"]["resourceVersion"] = std::to_string(record.revision);
  return object;
}

std::string KeyPrefix(const api::KindInfo& kind, std::string_view ns) {
  return ns.empty() ? fmt::format("/{}/", kind.stored().group_resource())
                    : fmt::format("/{}/{}/", kind.stored().group_resource(), ns);
}

std::string ObjectStoreKey(const api::KindInfo& kind, std::string_view ns, std::string_view name) {
  return KeyPrefix(kind, ns) + std::string(name);
}

}  // namespace berth::apiserver
