// The columns of one kind's Table, and the cells that several kinds share.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/kind_info.h"
#include "base/clock.h"
#include "base/json.h"

namespace berth::apiserver {

using base::Json;

using Cell = Json (*)(const Json& object, base::WallTime now);

struct Column {
  std::string_view name;
  Cell cell;
  bool wide = false;  // only with -o wide
  std::string_view type = "string";
};

using ColumnMap = std::map<const api::KindInfo*, std::vector<Column>>;

// Each adds the columns of one group of kinds.
void AddCoreColumns(ColumnMap& columns);
void AddPodColumns(ColumnMap& columns);
void AddStorageColumns(ColumnMap& columns);

inline constexpr std::string_view kNone = "<none>";
inline constexpr std::string_view kUnset = "<unset>";

// `text`, or `fallback` if it is empty.
std::string TextOr(std::string text, std::string_view fallback);
// The strings of a list, separated by commas. Items of other types are skipped.
std::string JoinTexts(const Json& list);

Json NameCell(const Json& object, base::WallTime now);
Json AgeCell(const Json& object, base::WallTime now);
// status.phase, but "Terminating" while it is being deleted.
Json PhaseOrTerminatingCell(const Json& object, base::WallTime now);

// A string literal as a template argument: the path of a cell's member.
template <size_t N>
struct Literal {
  char text[N];
  constexpr Literal(const char (&from)[N]) { std::copy_n(from, N, text); }
};

template <Literal... kPath>
Json TextCell(const Json& object, base::WallTime) {
  return base::json::String(object, {std::string_view(kPath.text)...});
}

template <Literal kFallback, Literal... kPath>
Json TextOrCell(const Json& object, base::WallTime) {
  return TextOr(base::json::String(object, {std::string_view(kPath.text)...}), kFallback.text);
}

template <Literal... kPath>
Json FlagCell(const Json& object, base::WallTime) {
  return base::json::Bool(object, {std::string_view(kPath.text)...});
}

template <Literal... kPath>
Json NumberCell(const Json& object, base::WallTime) {
  return base::json::Int(object, {std::string_view(kPath.text)...});
}

// The number of members of an object, or of items of a list; 0 if it is absent.
template <Literal... kPath>
Json CountCell(const Json& object, base::WallTime) {
  const Json* value = base::json::Find(object, {std::string_view(kPath.text)...});
  return value == nullptr ? size_t{0} : value->size();
}

}  // namespace berth::apiserver
