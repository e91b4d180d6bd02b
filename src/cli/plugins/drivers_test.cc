#include "cli/plugins/drivers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/kinds/flex_reports.h"
#include "cli/table.h"

namespace berth::cli {
namespace {

using base::Json;
using testing::HasSubstr;

TEST(Drivers, OfCsiAndFlexvolumeWithWhatIsWrong) {
  api::CsiNode csi_node;
  csi_node.set_name("node-a");
  csi_node.Set(
      {"spec", "drivers"},
      Json::array({{{"name", "d.example.com"}, {"nodeID", "a"}, {"topologyKeys", nullptr}}}));
  api::Node node;
  node.set_name("node-b");
  node.Set({"metadata", "annotations", std::string(api::kFlexDriversAnnotation)},
           api::WriteFlexReports({{"acme.io/block", {.ready = true, .reason = ""}},
                                  {"acme.io/bad", {.ready = false, .reason = "no JSON"}},
                                  {"acme.io/old", {.removed = true, .reason = "for 'pods/1'"}}}));
  const std::string text =
      TablePrinter(false, false, "").RenderTable(MakeDriverTable({node}, {csi_node}));
  for (const char* line : {"d.example.com   CSI          node-a   Ready",
                           "acme.io/bad     Flexvolume   node-b   Failed    no JSON",
                           "acme.io/old     Flexvolume   node-b   Removed   for 'pods/1'",
                           "acme.io/block   Flexvolume   node-b   Ready"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

}  // namespace
}  // namespace berth::cli
