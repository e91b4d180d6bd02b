#include "cli/table.h"

#include <cctype>

#include "base/utf8.h"

namespace berth::cli {
namespace {

std::string CellText(const base::Json& cell) {
  if (cell.is_string()) return cell.get<std::string>();
  if (cell.is_null()) return "<none>";
  return base::json::Dump(cell);
}

std::string UpperCase(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// Counts the terminal columns of UTF-8 text; each code point counts as one.
size_t CountColumns(const std::string& text) { return base::CountCharacters(text); }

}  // namespace

std::vector<std::string> TablePrinter::MakeRow(const base::Json& row) const {
  std::vector<std::string> cells;
  if (with_namespace_) {
    cells.push_back(base::json::String(row, {"object", "metadata", "namespace"}));
  }
  const base::Json& values = base::json::Array(row, {"cells"});
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (!wide_ && base::json::Int(columns_[i], {"priority"}) > 0) continue;
    std::string text = i < values.size() ? CellText(values[i]) : "";
    if (i == 0) text = kind_prefix_ + text;
    cells.push_back(std::move(text));
  }
  return cells;
}

std::string TablePrinter::RenderTable(const base::Json& table) {
  const base::Json& columns = base::json::Array(table, {"columnDefinitions"});
  if (!columns.empty()) columns_ = columns;
  std::vector<std::vector<std::string>> lines;
  if (!header_done_) {
    std::vector<std::string> header;
    if (with_namespace_) header.push_back("NAMESPACE");
    for (const base::Json& column : columns_) {
      if (!wide_ && base::json::Int(column, {"priority"}) > 0) continue;
      header.push_back(UpperCase(base::json::String(column, {"name"})));
    }
    lines.push_back(std::move(header));
    header_done_ = true;
  }
  for (const base::Json& row : base::json::Array(table, {"rows"})) lines.push_back(MakeRow(row));
  for (const auto& line : lines) {
    widths_.resize(std::max(widths_.size(), line.size()));
    for (size_t i = 0; i < line.size(); ++i)
      widths_[i] = std::max(widths_[i], CountColumns(line[i]));
  }
  std::string out;
  for (const auto& line : lines) {
    std::string text;
    for (size_t i = 0; i < line.size(); ++i) {
      text += line[i];
      if (i + 1 < line.size()) text.append(widths_[i] - CountColumns(line[i]) + 3, ' ');
    }
    out += text + "\n";
  }
  return out;
}

}  // namespace berth::cli
