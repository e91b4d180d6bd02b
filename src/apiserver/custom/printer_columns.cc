#include "apiserver/custom/printer_columns.h"

#include "api/time.h"

namespace berth::apiserver {

using base::Json;
using base::json::Int;
using base::json::String;

namespace {

// The cell for a value. It is null if the value has another type than the column.
Json PrintCell(const std::string& type, const Json& value, base::WallTime now) {
  if (value.is_null()) return nullptr;
  if (type == "string") {
    return value.is_string() ? value : Json(base::json::Dump(value));
  }
  if (type == "integer" && value.is_number()) {
    return value.is_number_float() ? Json(static_cast<int64_t>(value.get<double>())) : value;
  }
  if (type == "number" && value.is_number()) return value;
  if (type == "boolean" && value.is_boolean()) return value;
  if (type == "date" && value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    return api::ParseTime(text).ok() ? api::AgeSince(text, now) : "<invalid>";
  }
  return nullptr;
}

}  // namespace

PrinterColumns::PrinterColumns(const Json& columns) {
  static const Json age_only = Json::array(
      {{{"name", "Age"}, {"type", "date"}, {"jsonPath", ".metadata.creationTimestamp"}}});
  for (const Json& column : columns.empty() ? age_only : columns) {
    const std::string path = String(column, {"jsonPath"});
    std::string description = String(column, {"description"});
    if (description.empty()) {
      description = fmt::format("Custom resource definition column (in JSONPath format): {}", path);
    }
    auto parsed = JsonPath::Parse(path);
    columns_.push_back({.definition = {{"name", String(column, {"name"})},
                                       {"type", String(column, {"type"})},
                                       {"format", String(column, {"format"})},
                                       {"description", std::move(description)},
                                       {"priority", Int(column, {"priority"})}},
                        .type = String(column, {"type"}),
                        .path = parsed.ok() ? std::optional(*std::move(parsed)) : std::nullopt});
  }
}

Json PrinterColumns::MakeDefinitions() const {
  Json all = Json::array({{{"name", "Name"},
                           {"type", "string"},
                           {"format", "name"},
                           {"description", "Unique within a namespace."},
                           {"priority", 0}}});
  for (const Column& column : columns_) all.push_back(column.definition);
  return all;
}

Json PrinterColumns::MakeCells(const Json& object, base::WallTime now) const {
  Json cells = Json::array({String(object, {"metadata", "name"})});
  for (const Column& column : columns_) {
    const Json* value = column.path ? column.path->FindFirst(object) : nullptr;
    cells.push_back(value != nullptr ? PrintCell(column.type, *value, now) : Json());
  }
  return cells;
}

}  // namespace berth::apiserver
