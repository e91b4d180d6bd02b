// Prints the tables that the API server renders (meta.k8s.io/v1 Table).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/json.h"

namespace berth::cli {

class TablePrinter {
 public:
  // `wide` also shows columns with a priority above 0. `with_namespace` puts the object's namespace
  // first. `kind_prefix` ("pod/") stands before each name, in lists of several kinds.
  TablePrinter(bool wide, bool with_namespace, std::string kind_prefix)
      : wide_(wide), with_namespace_(with_namespace), kind_prefix_(std::move(kind_prefix)) {}

  // Returns the text of a table. Only the first call returns the header. A table without
  // columnDefinitions, as in a watch, has the columns of the last one.
  std::string RenderTable(const base::Json& table);

 private:
  std::vector<std::string> MakeRow(const base::Json& row) const;

  const bool wide_;
  const bool with_namespace_;
  const std::string kind_prefix_;
  base::Json columns_;
  std::vector<size_t> widths_;
  bool header_done_ = false;
};

}  // namespace berth::cli
