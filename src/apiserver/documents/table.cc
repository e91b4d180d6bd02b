#include "apiserver/documents/table.h"

#include "api/time.h"
#include "apiserver/documents/table_columns.h"

namespace berth::apiserver {

using base::json::Find;
using base::json::String;

std::string TextOr(std::string text, std::string_view fallback) {
  return text.empty() ? std::string(fallback) : text;
}

std::string JoinTexts(const Json& list) {
  std::string out;
  for (const Json& item : list) {
    if (!item.is_string()) continue;
    out += fmt::format("{}{}", out.empty() ? "" : ",", item.get_ref<const std::string&>());
  }
  return out;
}

Json NameCell(const Json& object, base::WallTime) { return String(object, {"metadata", "name"}); }

Json AgeCell(const Json& object, base::WallTime now) {
  return api::AgeSince(String(object, {"metadata", "creationTimestamp"}), now);
}

Json PhaseOrTerminatingCell(const Json& object, base::WallTime) {
  return Find(object, {"metadata", "deletionTimestamp"}) != nullptr
             ? "Terminating"
             : String(object, {"status", "phase"});
}

namespace {

const std::vector<Column>& FindColumns(const api::KindInfo& info) {
  static const ColumnMap all = [] {
    ColumnMap columns;
    AddCoreColumns(columns);
    AddPodColumns(columns);
    AddStorageColumns(columns);
    return columns;
  }();
  static const std::vector<Column> plain = {{"Name", NameCell}, {"Age", AgeCell}};
  const auto it = all.find(&info.stored());
  return it == all.end() ? plain : it->second;
}

}  // namespace

Json TableColumns(const api::KindInfo& info) {
  Json columns = Json::array();
  for (const Column& column : FindColumns(info)) {
    columns.push_back({{"name", std::string(column.name)},
                       {"type", std::string(column.type)},
                       {"format", column.name == "Name" ? "name" : ""},
                       {"description", ""},
                       {"priority", column.wide ? 1 : 0}});
  }
  return columns;
}

Json TableCells(const api::KindInfo& info, const Json& object, base::WallTime now) {
  Json cells = Json::array();
  for (const Column& column : FindColumns(info)) cells.push_back(column.cell(object, now));
  return cells;
}

}  // namespace berth::apiserver
