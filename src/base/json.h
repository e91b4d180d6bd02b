// JSON values, and short ways to read and write deep members.
//
// The functions that read never throw: if a member is missing or has another type, they return the
// default. Text from outside is parsed with Parse, which is bounded.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace berth::base {

using Json = nlohmann::json;

namespace json {

using Path = std::initializer_list<std::string_view>;

struct ParseLimits {
  size_t max_bytes = 3 * 1024 * 1024;
  int max_depth = 64;
};

// INVALID_ARGUMENT with the byte offset for malformed text; RESOURCE_EXHAUSTED beyond the limits.
// Duplicate keys: the last one wins, as in Kubernetes.
StatusOr<Json> Parse(std::string_view text, const ParseLimits& limits = {});

// Compact text. Bytes that are not UTF-8 are replaced by U+FFFD.
std::string Dump(const Json& value);

// The member at `path`, or nullptr: Find(pod, {"spec", "nodeName"}).
const Json* Find(const Json& value, Path path);

std::string String(const Json& value, Path path, std::string_view fallback = "");
bool Bool(const Json& value, Path path, bool fallback = false);
int64_t Int(const Json& value, Path path, int64_t fallback = 0);

// The array or object at `path`; an empty one, which lives as long as the process, if there is
// none.
const Json& Array(const Json& value, Path path);
const Json& Map(const Json& value, Path path);

// The strings among the items of the array `list`; other items are left out.
std::vector<std::string> Strings(const Json& list);

// Sets the member at `path`. A value on the way that is missing or is not an object becomes an
// object.
void Set(Json& value, Path path, Json member);

// Whether `value` nests deeper than `levels`. It asks `skip` of each value that it comes to; those
// for which it returns true do not count, nor what is in them.
bool IsDeeperThan(const Json& value, int levels, const std::function<bool(const Json&)>& skip);

// Removes the member at `path` if it is there.
void Remove(Json& value, Path path);

}  // namespace json
}  // namespace berth::base
