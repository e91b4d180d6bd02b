// Random sets of fields, and random objects to which random configurations are applied. An input is
// a FieldsV1 as text, or the choices that make objects of a schema.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "api/merging/managed_fields.h"
#include "api/merging/typed_fields.h"
#include "api/schema/test_schema.h"
#include "choices.h"

namespace {

using namespace berth;
using base::Json;
using fuzz::trying;

// Makes values of a schema; the input decides.
class Maker : fuzz::Choices {
 public:
  using fuzz::Choices::Choices;

  Json Make(const api::Schema* schema, int depth = 0) {
    if (depth > 5) return "deep";
    const uint8_t oddity = Choose(16);
    if (oddity == 0) return nullptr;
    if (oddity == 1) schema = nullptr;  // a value of another type
    if (schema == nullptr || schema->type == api::FieldType::kAny) return MakeAny(depth);
    switch (schema->type) {
      case api::FieldType::kObject: {
        Json out = Json::object();
        for (const api::Field& field : schema->fields) {
          if (Choose(3) == 0) out[field.name] = Make(field.type, depth + 1);
        }
        return out;
      }
      case api::FieldType::kMap: {
        Json out = Json::object();
        for (uint8_t left = Choose(3); left > 0; --left)
          out[Word()] = Make(schema->element, depth + 1);
        return out;
      }
      case api::FieldType::kList: {
        Json out = Json::array();
        for (uint8_t left = Choose(4); left > 0; --left) {
          out.push_back(Make(schema->element, depth + 1));
        }
        return out;
      }
      case api::FieldType::kInteger:
        return Choose(4);
      default:
        return Word();
    }
  }

 private:
  Json MakeAny(int depth) {
    static const api::Schema word{.type = api::FieldType::kString};
    static const api::Schema any;
    static const api::Schema map{.type = api::FieldType::kMap, .element = &any};
    static const api::Schema list{.type = api::FieldType::kList, .element = &any};
    const api::Schema* const kinds[] = {&word, &map, &list};
    return Make(kinds[Choose(3)], depth + 1);
  }
};

Json Object(const Json& value) { return value.is_object() ? value : Json::object(); }

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
  trying = *json;
  const auto set = api::FieldSet::FromJson(*json);
  if (!set.ok()) return;
  CHECK_THAT(api::FieldSet::FromJson(set->ToJson()).value() == *set);
  CHECK_THAT(set->Union(*set) == *set && set->Intersection(*set) == *set);
  CHECK_THAT(set->Difference(*set).empty() && set->RecursiveDifference(*set).empty());
  (void)set->Paths(100);
  (void)api::WithNamedParents(SomeSchema(), *set);
  api::FieldSet followed = *set;
  api::FieldSet* const sets[] = {&followed};
  api::FollowSchema(SomeSchema(), *json, sets);
}

void TryWrites(const api::Schema* schema, const Json& before, const Json& after,
               const Json& config) {
  trying = {{"typed", schema != nullptr}, {"before", before}, {"after", after}, {"config", config}};
  api::FieldWriter writer{.manager = "one", .api_version = "v1", .time = "2026-01-01T00:00:00Z"};
  CHECK_THAT(api::CompareFields(schema, before, before).same());
  auto managed = api::TrackWrite(schema, nullptr, before, {}, writer);
  writer.manager = "two";
  managed = api::TrackWrite(schema, before, after, managed, writer);
  const Json list = api::ManagedFieldsJson(managed);
  CHECK_THAT(api::ManagedFieldsJson(api::ParseManagedFields(list).value()) == list);
  writer.manager = "kubectl";
  const auto applied = api::ApplyConfiguration(schema, after, config, managed, writer, true);
  // (If the object has no managers, an apply first makes a manager for all existing fields.)
  if (!applied.ok() || applied->managed.empty()) return;
  // Applying the same configuration again must change nothing.
  const auto again =
      api::ApplyConfiguration(schema, applied->object, config, applied->managed, writer, false);
  CHECK_THAT(again.ok() && again->conflicts.empty() && again->object == applied->object);
  CHECK_THAT(api::ManagedFieldsJson(again->managed) == api::ManagedFieldsJson(applied->managed));
  // Another configuration removes the fields that it no longer has and that this manager owned.
  CHECK_THAT(api::ApplyConfiguration(schema, applied->object, after, applied->managed, writer, true)
                 .status()
                 .code() != base::StatusCode::kInternal);
}

void Try(std::string_view input) {
  if (input.empty()) return;
  const bool text = input.front() == '{';
  if (text) return TryFields(input);
  Maker maker(input);
  const Json before = Object(maker.Make(SomeSchema()));
  const Json after = Object(maker.Make(SomeSchema()));
  const Json config = Object(maker.Make(SomeSchema()));
  TryWrites(SomeSchema(), before, after, config);
  TryWrites(nullptr, before, after, config);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Try({reinterpret_cast<const char*>(data), size});
  return 0;
}
