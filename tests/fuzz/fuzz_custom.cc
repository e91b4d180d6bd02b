// Random schemas of custom resources with random objects, and random rules in CEL, paths and
// formats. Each input is tried as a text, and as the choices that make a schema and objects.

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "api/cel/program.h"
#include "apiserver/custom/formats.h"
#include "apiserver/custom/json_path.h"
#include "apiserver/custom/object_check.h"
#include "apiserver/custom/object_rules.h"
#include "apiserver/custom/object_shape.h"
#include "apiserver/custom/schema_check.h"
#include "apiserver/custom/schema_tree.h"
#include "choices.h"

namespace {

using namespace berth;
using base::Json;
using fuzz::trying;

class Maker : fuzz::Choices {
 public:
  using fuzz::Choices::Choices;

  Json Schema(int depth = 0) {
    Json schema = Json::object();
    static const char* const kTypes[] = {"object",  "object", "array",   "string",
                                         "integer", "number", "boolean", ""};
    const std::string type = depth == 0 ? "object" : kTypes[Choose(8)];
    if (!type.empty()) schema["type"] = type;
    if (type == "object" && depth < 4) {
      if (depth > 0 && Choose(4) == 0) {
        schema["additionalProperties"] = Choose(3) == 0 ? Json(true) : Schema(depth + 1);
      } else {
        for (uint8_t left = Choose(4); left > 0; --left) {
          schema["properties"][Word()] = Schema(depth + 1);
        }
      }
      if (Choose(4) == 0) schema["required"] = Json::array({Word()});
    }
    if (type == "array") schema["items"] = Schema(std::min(depth + 1, 5));
    if (type == "array" && Choose(3) == 0) {
      schema["x-kubernetes-list-type"] = Choose(2) == 0 ? "set" : "map";
      if (Choose(2) == 0) schema["x-kubernetes-list-map-keys"] = Json::array({Word()});
    }
    Extras(schema, depth);
    return schema;
  }

  Json Value(int depth = 0) {
    switch (depth > 5 ? 3 : Choose(7)) {
      case 0: {
        Json out = Json::object();
        for (uint8_t left = Choose(4); left > 0; --left) out[Word()] = Value(depth + 1);
        return out;
      }
      case 1: {
        Json out = Json::array();
        for (uint8_t left = Choose(4); left > 0; --left) out.push_back(Value(depth + 1));
        return out;
      }
      case 2:
        return nullptr;
      case 3:
        return Word();
      case 4:
        return Choose(4);
      case 5:
        return Choose(4) + 0.5;
      default:
        return Choose(2) == 0;
    }
  }

 private:
  void Extras(Json& schema, int depth) {
    static const char* const kRules[] = {"self == oldSelf", "has(self.a)",
                                         "size(self) > 1",  "self.all(x, x == self[0])",
                                         "self.a < self.b", "self.exists(k, k in self)"};
    if (depth > 0 && Choose(5) == 0) schema["default"] = Value(4);
    if (depth > 0 && Choose(6) == 0) schema["nullable"] = true;
    if (Choose(6) == 0) schema["x-kubernetes-preserve-unknown-fields"] = true;
    if (Choose(12) == 0) schema["x-kubernetes-int-or-string"] = true;
    if (Choose(12) == 0) schema["x-kubernetes-embedded-resource"] = true;
    if (Choose(6) == 0) schema["enum"] = Json::array({Value(4), Value(4)});
    if (Choose(6) == 0) schema["minimum"] = Choose(3);
    if (Choose(6) == 0) schema["maxLength"] = Choose(3);
    if (Choose(6) == 0) schema["pattern"] = Word();
    if (Choose(6) == 0) schema["x-kubernetes-validations"] = {{{"rule", kRules[Choose(6)]}}};
    if (Choose(8) == 0) schema["anyOf"] = Json::array({{{"required", {Word()}}}, {{"minimum", 1}}});
    if (Choose(8) == 0) schema["not"] = {{"required", Json::array({Word()})}};
  }
};

void TryText(std::string_view text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view rest = text.substr(end);
  (void)apiserver::JsonPath::Parse(text);
  (void)apiserver::HasFormat(text.substr(0, end), rest);
  const auto program = api::cel::Program::Compile(text, nullptr, api::cel::Kind::kAny);
  if (!program.ok()) return;
  static const Json self = Json::parse(
      R"({"a":1,"b":"text","c":[1,2,{"a":null}],"d":{"e":1.5},"t":"2026-01-01T00:00:00Z"})");
  api::cel::Budget budget(10000);
  (void)program->Run(self, &self, nullptr, budget);
}

void TrySchema(std::string_view choices) {
  Maker maker(choices);
  const Json schema = maker.Schema();
  Json object = maker.Value();
  const Json old = maker.Value();
  trying = {{"schema", schema}, {"object", object}, {"old", old}};

  apiserver::FieldErrors errors;
  apiserver::CheckSchema(schema, "s", false, errors);
  // A refused schema must do no harm either, because an older store may contain it.
  const bool accepted = errors.empty();
  const apiserver::StructuralPtr read = apiserver::ReadSchema(schema);
  api::SchemaArena arena;
  apiserver::MakeSchemaTree(*read, "", arena);
  apiserver::CompileRules(*read, "s", errors);
  apiserver::CheckDefaults(*read, "s", errors);

  apiserver::PruneUnknown(*read, object, true);
  Json again = object;
  apiserver::PruneUnknown(*read, again, true);
  CHECK_THAT(again == object);
  apiserver::DropNulls(*read, object);
  apiserver::ApplyDefaults(*read, object);
  again = object;
  apiserver::ApplyDefaults(*read, again);
  CHECK_THAT(!accepted || !errors.empty() || again == object);

  apiserver::FieldErrors failures;
  apiserver::CheckObject(*read, object, nullptr, "", failures);
  apiserver::CheckRules(*read, object, nullptr, failures);
  apiserver::CheckObject(*read, object, &old, "", failures);
  apiserver::CheckRules(*read, object, &old, failures);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  TryText(input);
  TrySchema(input);
  return 0;
}
