// The columns that `kubectl get` shows of custom resources (additionalPrinterColumns).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apiserver/custom/json_path.h"
#include "base/clock.h"
#include "base/json.h"

namespace berth::apiserver {

// Immutable and thread-safe.
class PrinterColumns {
 public:
  // `columns` is a version's additionalPrinterColumns; if there are none, the only column besides
  // the name is the age. A column whose path cannot be parsed stays empty.
  explicit PrinterColumns(const base::Json& columns);

  // As TableColumns and TableCells (table.h).
  base::Json MakeDefinitions() const;
  base::Json MakeCells(const base::Json& object, base::WallTime now) const;

 private:
  struct Column {
    base::Json definition;
    std::string type;
    std::optional<JsonPath> path;
  };
  std::vector<Column> columns_;
};

}  // namespace berth::apiserver
