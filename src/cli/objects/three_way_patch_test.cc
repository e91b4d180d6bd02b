#include "cli/objects/three_way_patch.h"

#include <gtest/gtest.h>

namespace berth::cli {
namespace {

using base::Json;

struct Case {
  const char* name;
  const char* last;
  const char* wanted;
  const char* live;
  const char* patch;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class ThreeWayPatchTest : public ::testing::TestWithParam<Case> {};

TEST_P(ThreeWayPatchTest, Gives) {
  const Case& c = GetParam();
  EXPECT_EQ(ThreeWayPatch(Json::parse(c.last), Json::parse(c.wanted), Json::parse(c.live)),
            Json::parse(c.patch));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, ThreeWayPatchTest,
    ::testing::Values(
        Case{"Nothing", R"({"a":1})", R"({"a":1})", R"({"a":1,"b":2})", R"({})"},
        Case{"SetsWhatDiffers", R"({"a":1})", R"({"a":2})", R"({"a":1})", R"({"a":2})"},
        Case{"RemovesWhatWasAppliedOnce", R"({"a":1,"b":1})", R"({"a":1})",
             R"({"a":1,"b":1,"c":1})", R"({"b":null})"},
        Case{"KeepsWhatOthersWrote", R"({"m":{"x":"1"}})", R"({"m":{"x":"1","y":"2"}})",
             R"({"m":{"x":"1","z":"3"}})", R"({"m":{"y":"2"}})"},
        Case{"DefaultsInListsAreNoChange", R"({"l":[{"n":"a"}]})", R"({"l":[{"n":"a"}]})",
             R"({"l":[{"n":"a","policy":"Always"}]})", R"({})"},
        Case{"ListsAreReplaced", R"({"l":[1,2]})", R"({"l":[1]})", R"({"l":[1,2]})",
             R"({"l":[1]})"},
        Case{"AListThatLostAMemberOfAnItemIsReplaced", R"({"l":[{"n":"a","v":1}]})",
             R"({"l":[{"n":"a"}]})", R"({"l":[{"n":"a","v":1}]})", R"({"l":[{"n":"a"}]})"},
        Case{"NeverApplied", R"({})", R"({"a":{"b":1}})", R"({"a":{"c":2}})", R"({"a":{"b":1}})"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace berth::cli
