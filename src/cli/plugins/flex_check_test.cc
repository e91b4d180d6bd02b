#include "cli/plugins/flex_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;
using volume::Finding;

TEST(FlexCheck, PairsAreNameAndValue) {
  EXPECT_THAT(*ParsePairs({"folder=/a=b", "empty="}),
              ElementsAre(Pair("empty", ""), Pair("folder", "/a=b")));
  for (const char* wrong : {"hunter2", "=hunter2"}) {
    const auto pairs = ParsePairs({wrong});
    EXPECT_EQ(pairs.status().code(), base::StatusCode::kInvalidArgument);
    EXPECT_THAT(base::ToString(pairs.status()), Not(HasSubstr("hunter2")));
  }
}

TEST(FlexCheck, PrintsEachFindingAndTheirNumber) {
  EXPECT_EQ(FormatCheck("acme/nfs", {.findings = {}, .calls = {"init", "mount"}}),
            "acme/nfs: no faults; it supports init mount\n");
  volume::DriverCheckReport report;
  report.findings = {{.weight = Finding::Weight::kFault,
                      .rule = "mount-again",
                      .call = "mount",
                      .words = "it fails"},
                     {.weight = Finding::Weight::kRemark,
                      .rule = "slow-init",
                      .call = "init",
                      .words = "it took 3000 ms"}};
  EXPECT_EQ(FormatCheck("acme/nfs", report),
            "FAULT  mount (mount-again): it fails\n"
            "remark init (slow-init): it took 3000 ms\n"
            "acme/nfs: 1 fault, 1 remark; it supports nothing\n");
}

}  // namespace
}  // namespace berth::cli
