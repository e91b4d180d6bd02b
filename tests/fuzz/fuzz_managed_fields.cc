// Random sets of fields, and random objects and configurations applied to them. The input is four
// lines: a FieldsV1, an object, its successor, a configuration.
#include <cstdlib>
#include <string_view>

#include "api/managed_fields.h"
#include "api/test_schema.h"
#include "api/typed_fields.h"

namespace {

using namespace berth;
using base::Json;

void Check(bool holds) {
  if (!holds) std::abort();
}

std::string_view TakeLine(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return line;
}

Json ObjectOf(std::string_view text) {
  Json object = base::json::Parse(text).value_or(Json::object());
  return object.is_object() ? object : Json::object();
}

// Short names, so that random text finds them.
const api::Schema* SomeSchema() {
  static api::SchemaArena arena;
  static const api::Schema* schema = api::TestSchema(arena, Json::parse(R"({
      "a": "s", "b": "i", "m": {"$map": "s"}, "w": {"$atomic": {"$map": "s"}}, "l": {"$list": "s"},
      "s": {"$set": "i"}, "o": {"a": "s", "s": {"$set": "s"}}, "x": "any",
      "k": {"$keys": ["n", "p"], "$items": {"n": "i", "p": {"$default": 1, "$type": "i"}, "a": "s",
            "k": {"$keys": ["n"], "$items": {"n": "s"}}}}})"));
  return schema;
}

void TryFields(std::string_view text) {
  const auto json = base::json::Parse(text);
  if (!json.ok()) return;
  const auto set = api::FieldSet::FromJson(*json);
  if (!set.ok()) return;
  Check(api::FieldSet::FromJson(set->ToJson()).value() == *set);
  Check(set->Union(*set) == *set && set->Intersection(*set) == *set);
  Check(set->Difference(*set).empty() && set->RecursiveDifference(*set).empty());
  (void)set->Paths();
  (void)api::WithNamedParents(SomeSchema(), *set);
  (void)api::FollowSchema(SomeSchema(), *set, *json);
}

void TryWrites(const api::Schema* schema, const Json& before, const Json& after,
               const Json& config) {
  api::FieldWriter writer{.manager = "one", .api_version = "v1", .time = "2026-01-01T00:00:00Z"};
  Check(api::CompareFields(schema, before, before).same());
  auto managed = api::TrackWrite(schema, nullptr, before, {}, writer);
  writer.manager = "two";
  managed = api::TrackWrite(schema, before, after, managed, writer);
  const Json list = api::ManagedFieldsJson(managed);
  Check(api::ManagedFieldsJson(api::ParseManagedFields(list).value()) == list);
  writer.manager = "kubectl";
  const auto applied = api::ApplyConfiguration(schema, after, config, managed, writer, true);
  if (!applied.ok()) return;
  // The same again changes nothing.
  const auto again =
      api::ApplyConfiguration(schema, applied->object, config, applied->managed, writer, false);
  Check(again.ok() && again->conflicts.empty() && again->object == applied->object);
  Check(api::ManagedFieldsJson(again->managed) == api::ManagedFieldsJson(applied->managed));
  // What it no longer states goes, as far as it is its own.
  Check(api::ApplyConfiguration(schema, applied->object, after, applied->managed, writer, true)
            .status()
            .code() != base::StatusCode::kInternal);
}

void Try(std::string_view text) {
  TryFields(TakeLine(text));
  const Json before = ObjectOf(TakeLine(text));
  const Json after = ObjectOf(TakeLine(text));
  const Json config = ObjectOf(TakeLine(text));
  TryWrites(SomeSchema(), before, after, config);
  TryWrites(nullptr, before, after, config);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Try({reinterpret_cast<const char*>(data), size});
  return 0;
}
