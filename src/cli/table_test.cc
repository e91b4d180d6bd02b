#include "cli/table.h"

#include <gtest/gtest.h>

namespace berth::cli {
namespace {

const base::Json kTable = base::Json::parse(R"({
  "columnDefinitions": [{"name": "Name"}, {"name": "Status"}, {"name": "Node", "priority": 1}],
  "rows": [{"cells": ["web", "Running", "node-a"], "object": {"metadata": {"namespace": "shop"}}},
           {"cells": ["a-long-name", null, "ü"], "object": {"metadata": {"namespace": "x"}}}]})");

TEST(TablePrinterTest, AlignsColumnsAndHidesWideOnes) {
  EXPECT_EQ(TablePrinter(false, false, "").RenderTable(kTable),
            "NAME          STATUS\n"
            "web           Running\n"
            "a-long-name   <none>\n");
}

TEST(TablePrinterTest, ShowsNamespaceKindAndWideColumns) {
  EXPECT_EQ(TablePrinter(true, true, "pod/").RenderTable(kTable),
            "NAMESPACE   NAME              STATUS    NODE\n"
            "shop        pod/web           Running   node-a\n"
            "x           pod/a-long-name   <none>    ü\n");
}

TEST(TablePrinterTest, PrintsTheHeaderOnce) {
  TablePrinter printer(false, false, "");
  printer.RenderTable(kTable);
  const base::Json more = base::Json::parse(R"({"rows": [{"cells": ["db", "Pending", "n"]}]})");
  EXPECT_EQ(printer.RenderTable(more), "db            Pending\n");
}

}  // namespace
}  // namespace berth::cli
