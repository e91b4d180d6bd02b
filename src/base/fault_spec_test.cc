#include "base/fault_spec.h"

#include <gtest/gtest.h>

#include <set>

namespace berth::base {
namespace {

FaultSpec One(std::string_view text) {
  const auto specs = ParseFaults(text);
  EXPECT_TRUE(specs.ok()) << specs.status();
  EXPECT_EQ(specs->size(), 1u) << text;
  return specs->front();
}

TEST(FaultSpecTest, ReadsActionsAndPassages) {
  const FaultSpec crash = One("a.b=crash");
  EXPECT_EQ(crash.name, "a.b");
  EXPECT_EQ(crash.role, "");
  EXPECT_EQ(crash.action, FaultSpec::Action::kCrash);
  EXPECT_TRUE(crash.ActsAt("a.b", 1));
  EXPECT_TRUE(crash.ActsAt("a.b", 7));
  const FaultSpec error = One("csi-driver/a.b=error:DEADLINE_EXCEEDED@3");
  EXPECT_EQ(error.role, "csi-driver");
  EXPECT_EQ(error.code, StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(error.ActsAt("a.b", 2));
  EXPECT_TRUE(error.ActsAt("a.b", 3));
  EXPECT_FALSE(error.ActsAt("a.b", 4));
  EXPECT_EQ(One("a.b=delay:1500").delay, std::chrono::milliseconds(1500));
  EXPECT_EQ(One("a.b=cut@1").action, FaultSpec::Action::kCut);
  EXPECT_EQ(ParseFaults("a=crash,b=error,c=cut")->size(), 3u);
  EXPECT_TRUE(ParseFaults("")->empty());
}

TEST(FaultSpecTest, APatternNamesMany) {
  const FaultSpec spec = One("rpc.csi.*.after=crash");
  EXPECT_TRUE(spec.MatchesName("rpc.csi.NodeStageVolume.after"));
  EXPECT_FALSE(spec.MatchesName("rpc.csi.NodeStageVolume.before"));
}

std::set<uint64_t> Chosen(const FaultSpec& spec, std::string_view point) {
  std::set<uint64_t> passages;
  for (uint64_t i = 1; i <= 1000; ++i) {
    if (spec.ActsAt(point, i)) passages.insert(i);
  }
  return passages;
}

TEST(FaultSpecTest, ASeedChoosesTheSamePassagesEachTime) {
  const std::set<uint64_t> chosen = Chosen(One("a=error@10%42"), "a");
  EXPECT_EQ(chosen, Chosen(One("a=error@10%42"), "a"));
  EXPECT_GT(chosen.size(), 60u);
  EXPECT_LT(chosen.size(), 140u);
  EXPECT_NE(chosen, Chosen(One("a=error@10%43"), "a"));
  EXPECT_NE(chosen, Chosen(One("*=error@10%42"), "b"));
}

TEST(FaultSpecTest, RefusesWhatItDoesNotKnowAndSaysWhatItDoes) {
  for (const char* text :
       {"a", "a=", "a=explode", "a=error:NO_SUCH_CODE", "a=error:OK", "a=delay", "a=delay:long",
        "a=delay:-1", "a=crash:1", "a=cut:1", "a=crash@0", "a=crash@", "a=crash@x", "a=crash@1x",
        "a=error@0%1", "a=error@101%1", "a=error@5%", "a=error@%1", ",a=crash"}) {
    const auto specs = ParseFaults(text);
    EXPECT_EQ(specs.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(specs.status().message().find("known "), absl::string_view::npos) << specs.status();
  }
}

}  // namespace
}  // namespace berth::base
