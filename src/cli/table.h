// Prints the tables that the API server renders (meta.k8s.io/v1 Table).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/json.h"

namespace berth::cli {

class TablePrinter {
 public:
  // `wide` shows columns of priority 1 too; `with_namespace` puts the object's namespace first, and
  // `kind_prefix` ("pod/") goes before each name, for lists of several kinds.
  TablePrinter(bool wide, bool with_namespace, std::string kind_prefix)
      : wide_(wide), with_namespace_(with_namespace), kind_prefix_(std::move(kind_prefix)) {}

  // The text of a table; its header only in the first call.
  std::string Render(const base::Json& table);

 private:
  std::vector<std::string> Row(const base::Json& row) const;

  const bool wide_;
  const bool with_namespace_;
  const std::string kind_prefix_;
  base::Json columns_;
  std::vector<size_t> widths_;
  bool header_done_ = false;
};

}  // namespace berth::cli
