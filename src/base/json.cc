#include "base/json.h"

#include <algorithm>

#include "base/json_builder.h"

namespace berth::base::json {

StatusOr<Json> ParseWithout(UnwantedMember unwanted, std::string_view text,
                            const ParseLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return Error(StatusCode::kResourceExhausted, "JSON of {} bytes exceeds the limit of {}",
                 text.size(), limits.max_bytes);
  }
  // JSON must not have a NUL byte. The library takes one for the end of the text and would ignore
  // the rest, but another program might read it.
  if (text.find('\0') != std::string_view::npos) {
    return Error(StatusCode::kInvalidArgument, "malformed JSON: it has a zero byte");
  }
  Builder builder(limits.max_depth, unwanted);
  if (Json::sax_parse(text, &builder)) return builder.TakeDocument();
  if (builder.error().empty()) {
    return Error(StatusCode::kInvalidArgument, "JSON nests deeper than {} levels",
                 limits.max_depth);
  }
  return Error(StatusCode::kInvalidArgument, "malformed JSON: {}", builder.error());
}

StatusOr<Json> Parse(std::string_view text, const ParseLimits& limits) {
  return ParseWithout({}, text, limits);
}

std::string Dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const Json* Find(const Json& value, Path path) {
  const Json* at = &value;
  for (const std::string_view key : path) {
    if (!at->is_object()) return nullptr;
    const auto it = at->find(key);
    if (it == at->end()) return nullptr;
    at = &*it;
  }
  return at;
}

std::string String(const Json& value, Path path, std::string_view fallback) {
  const Json* at = Find(value, path);
  if (at == nullptr || !at->is_string()) return std::string(fallback);
  return at->get_ref<const std::string&>();
}

bool Bool(const Json& value, Path path, bool fallback) {
  const Json* at = Find(value, path);
  return at != nullptr && at->is_boolean() ? at->get<bool>() : fallback;
}

int64_t Int(const Json& value, Path path, int64_t fallback) {
  const Json* at = Find(value, path);
  return at != nullptr && at->is_number_integer() ? at->get<int64_t>() : fallback;
}

const Json& Array(const Json& value, Path path) {
  static const Json empty = Json::array();
  const Json* at = Find(value, path);
  return at != nullptr && at->is_array() ? *at : empty;
}

const Json& Map(const Json& value, Path path) {
  static const Json empty = Json::object();
  const Json* at = Find(value, path);
  return at != nullptr && at->is_object() ? *at : empty;
}

std::vector<std::string> Strings(const Json& list) {
  std::vector<std::string> out;
  for (const Json& one : list) {
    if (one.is_string()) out.push_back(one.get<std::string>());
  }
  return out;
}

void Set(Json& value, Path path, Json member) {
  Json* at = &value;
  for (const std::string_view key : path) {
    if (!at->is_object()) *at = Json::object();
    at = &(*at)[std::string(key)];
  }
  *at = std::move(member);
}

bool IsDeeperThan(const Json& value, int levels, const std::function<bool(const Json&)>& skip) {
  if (skip(value) || !value.is_structured()) return false;
  if (levels <= 0) return true;
  return std::any_of(value.begin(), value.end(),
                     [&](const Json& item) { return IsDeeperThan(item, levels - 1, skip); });
}

void Remove(Json& value, Path path) {
  if (path.size() == 0) return;
  Json* at = &value;
  const std::string_view last = *(path.end() - 1);
  for (auto key = path.begin(); key != path.end() - 1; ++key) {
    if (!at->is_object()) return;
    const auto it = at->find(*key);
    if (it == at->end()) return;
    at = &*it;
  }
  if (at->is_object()) at->erase(std::string(last));
}

}  // namespace berth::base::json
