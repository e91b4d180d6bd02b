#include "cmd/go_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cmd/flag_setters.h"

namespace berth::cmd {
namespace {

using base::StatusCode;
using roles::ProcessOptions;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<GoFlag> Flags() {
  return {Flag("kubeconfig", "", "path", [](ProcessOptions& o) -> auto& { return o.kubeconfig; }),
          Flag("leader-election", "false", "on",
               [](ProcessOptions& o) -> auto& { return o.election.on; }),
          Flag("v", "0", "verbosity", [](ProcessOptions& o) -> auto& { return o.verbosity; }),
          Flag("probe-timeout", "7s", "time",
               [](ProcessOptions& o) -> auto& { return o.probe_timeout; }),
          Flag(
              "kube-api-qps", "5", "rate",
              [](ProcessOptions& o) -> auto& { return o.queries_per_second; }, GoFlag::Use::kGiven),
          IgnoredFlag("automaxprocs", GoFlag::Type::kBool, "false", "of the Go runtime"),
          IgnoredFlag("resync", GoFlag::Type::kDuration, "10m", "of no use")};
}

struct Parsed {
  base::Status status;
  ProcessOptions options;
  std::vector<std::string> warnings;
};
Parsed Parse(const std::vector<std::string>& arguments) {
  Parsed parsed;
  parsed.status = ParseGoFlags(Flags(), arguments, parsed.options, parsed.warnings);
  return parsed;
}

TEST(GoFlagsTest, TakesEachWayToWriteThem) {
  const Parsed parsed = Parse({"-kubeconfig", "a", "--kubeconfig=b=c", "-leader-election", "-v=5",
                               "--kube-api-qps", "2.5"});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_EQ(parsed.options.kubeconfig, "b=c") << "the last one wins";
  EXPECT_TRUE(parsed.options.election.on);
  EXPECT_EQ(parsed.options.verbosity, 5);
  EXPECT_EQ(parsed.options.queries_per_second, 2.5);
  EXPECT_FALSE(Parse({"--leader-election=false"}).options.election.on);
  EXPECT_EQ(Parse({"--kubeconfig="}).options.kubeconfig, "");
}

TEST(GoFlagsTest, DefaultsAreTheGoProgramsExceptWhereAFlagMustBeGiven) {
  const Parsed parsed = Parse({});
  EXPECT_EQ(parsed.options.probe_timeout, milliseconds(7000));
  EXPECT_EQ(parsed.options.queries_per_second, 0);
}

TEST(GoFlagsTest, WarnsOfWhatHasNoEffect) {
  EXPECT_THAT(Parse({}).warnings, IsEmpty());
  EXPECT_THAT(Parse({"--automaxprocs", "-resync=1m"}).warnings,
              ElementsAre("flag -automaxprocs has no effect: of the Go runtime",
                          "flag -resync has no effect: of no use"));
}

// The Go programs check some values only when they have read all flags, and then end with another
// exit code.
TEST(GoFlagsTest, AMalformedFlagIsReportedBeforeAValueThatIsRefused) {
  std::vector<GoFlag> flags = Flags();
  flags[0].apply = [](ProcessOptions&, const std::string& value) -> base::Status {
    return value == "a" ? base::Error(StatusCode::kFailedPrecondition, "no a")
                        : base::Error(StatusCode::kFailedPrecondition, "no others");
  };
  flags[0].use = GoFlag::Use::kGiven;
  const auto parse = [&](const std::vector<std::string>& arguments) {
    ProcessOptions options;
    std::vector<std::string> warnings;
    return ParseGoFlags(flags, arguments, options, warnings);
  };
  EXPECT_EQ(parse({"--kubeconfig=a", "--unknown"}).code(), StatusCode::kInvalidArgument);
  const base::Status refused = parse({"--kubeconfig=a", "--kubeconfig=b", "-v=1"});
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(refused), HasSubstr("no a"));
}

TEST(GoFlagsTest, RefusesWhatGoRefuses) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--unknown"},
                                             {"--"},
                                             {"-"},
                                             {"word"},
                                             {"--kubeconfig"},
                                             {"-v=x"},
                                             {"-v", "1.5"},
                                             {"--leader-election=maybe"},
                                             {"--probe-timeout=5"},
                                             {"--resync=soon"},
                                             {"--leader-election", "false"},
                                             {"--=x"}}) {
    EXPECT_EQ(Parse(arguments).status.code(), StatusCode::kInvalidArgument) << arguments[0];
  }
  EXPECT_THAT(std::string(base::Message(Parse({"--unknown"}).status)),
              HasSubstr("flag provided but not defined"));
}

TEST(GoFlagsTest, Durations) {
  const std::pair<const char*, int64_t> good[] = {
      {"0", 0},       {"0s", 0},          {"15s", 15000}, {"1m30s", 90000}, {"1.5h", 5400000},
      {"300ms", 300}, {"2h45m", 9900000}, {"1500us", 2},  {".5s", 500}};
  for (const auto& [text, want] : good) {
    const auto parsed = ParseGoDuration(text);
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(parsed->count(), want) << text;
  }
  for (const char* text : {"", "5", "s", "-1s", "1 s", "1x", "1s2", "99999999999999h"}) {
    EXPECT_FALSE(ParseGoDuration(text).ok()) << text;
  }
}

TEST(GoFlagsTest, GatesAndLabels) {
  EXPECT_EQ(*ParseGates("A=true,B=false"),
            (std::map<std::string, bool>{{"A", true}, {"B", false}}));
  EXPECT_EQ(*ParseGates(" A = true ,,B=f,"),
            (std::map<std::string, bool>{{"A", true}, {"B", false}}));
  EXPECT_TRUE(ParseGates("")->empty());
  EXPECT_FALSE(ParseGates("A").ok());
  EXPECT_FALSE(ParseGates("A=x").ok());
  EXPECT_EQ(*ParseLabelFlag("a:b,c:"), (api::Labels{{"a", "b"}, {"c", ""}}));
  EXPECT_FALSE(ParseLabelFlag("a").ok());
  EXPECT_FALSE(ParseLabelFlag(":b").ok());
}

}  // namespace
}  // namespace berth::cmd
