#include "base/fault.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/fake_faults.h"

namespace berth::base {
namespace {

using std::chrono::steady_clock;

FaultSite of_a_table("test.table.row", FaultSite::Kind::kStep);
const FaultFamily family([] {
  static FaultSite made("test.family.member", FaultSite::Kind::kStep);
});

// Never called: its point is known all the same.
[[maybe_unused]] Status Unpassed() { return FaultPoint<"test.unpassed">(); }

constexpr int kRefused = 50;

// The state is the process's: each case runs in a child, whose exit code tells how many of three
// passages failed, or kRefused.
int PassThrice(const char* spec, const char* role = "") {
  setenv("BERTH_FAULTS", spec, 1);
  if (const Status init = InitFaultPoints(role); !init.ok()) {
    fmt::print(stderr, "{}\n", Message(init));
    return kRefused;
  }
  int failed = 0;
  for (int i = 0; i < 3; ++i) failed += FaultPoint<"test.point">().ok() ? 0 : 1;
  return failed;
}

StatusCode PassAnswer(const char* spec) {
  setenv("BERTH_FAULTS", spec, 1);
  if (!InitFaultPoints().ok()) return StatusCode::kUnknown;
  const CallPoints points = CallPointsOf<"test.call">();
  if (const Status before = points.before->PassPoint(); !before.ok()) return StatusCode::kUnknown;
  return points.after->PassPoint().code();
}

auto Exits(int code) { return ::testing::ExitedWithCode(code); }
auto Exits(StatusCode code) { return ::testing::ExitedWithCode(static_cast<int>(code)); }
const auto Killed = ::testing::KilledBySignal(SIGKILL);

class TempFolder {
 public:
  TempFolder() { EXPECT_NE(mkdtemp(path.data()), nullptr); }
  ~TempFolder() { std::filesystem::remove_all(path); }
  std::string path = "/tmp/berth-fault-XXXXXX";
};

TEST(FaultDeathTest, EveryPointIsKnownWithoutBeingPassed) {
  const std::vector<std::string> names = ListFaultPoints();
  EXPECT_EQ(names,
            (std::vector<std::string>{"test.call.after", "test.call.before", "test.family.member",
                                      "test.point", "test.table.row", "test.unpassed"}));
}

TEST(FaultDeathTest, PointsThatAreNotNamedDoNothing) {
  EXPECT_EXIT(std::exit(PassThrice("test.unpassed=crash")), Exits(0), "");
  EXPECT_EXIT(std::exit(PassThrice("")), Exits(0), "");
}

TEST(FaultDeathTest, AnErrorIsReturnedAlwaysOrOnceOrAtAPassage) {
  EXPECT_EXIT(std::exit(PassThrice("test.point=error")), Exits(3), "");
  EXPECT_EXIT(std::exit(PassThrice("test.point=error@1")), Exits(1), "");
  EXPECT_EXIT(std::exit(PassThrice("test.point=error@3")), Exits(1), "");
  EXPECT_EXIT(std::exit(PassThrice("test.point=error@4")), Exits(0), "");
  EXPECT_EXIT(std::exit(PassThrice("test.*=error@1,test.po*=error@2")), Exits(2), "");
}

TEST(FaultDeathTest, AnErrorHasTheCodeThatWasAskedFor) {
  EXPECT_EXIT(std::exit(static_cast<int>(PassAnswer("test.call.after=error"))),
              Exits(StatusCode::kInternal), "");
  EXPECT_EXIT(std::exit(static_cast<int>(PassAnswer("test.call.after=error:NOT_FOUND"))),
              Exits(StatusCode::kNotFound), "");
}

TEST(FaultDeathTest, ACutLosesTheAnswerAlone) {
  EXPECT_EXIT(std::exit(static_cast<int>(PassAnswer("test.call.after=cut"))),
              Exits(StatusCode::kUnavailable), "");
  // A pattern reaches the answers among its points, and leaves the requests alone.
  EXPECT_EXIT(std::exit(static_cast<int>(PassAnswer("test.*=cut"))),
              Exits(StatusCode::kUnavailable), "");
  EXPECT_EXIT(std::exit(PassThrice("test.point=cut")), Exits(kRefused), "could be cut off");
}

TEST(FaultDeathTest, ACrashIsAKill) {
  EXPECT_EXIT(std::exit(PassThrice("test.point=crash")), Killed, "");
  EXPECT_EXIT(std::exit(PassThrice("test.point=crash@2")), Killed, "");
  EXPECT_EXIT(std::exit(PassThrice("test.point=crash@4")), Exits(0), "");
}

TEST(FaultDeathTest, ADelayTakesThatLong) {
  const auto slow = [] {
    const auto start = steady_clock::now();
    const int failed = PassThrice("test.point=delay:60@2");
    return failed == 0 && steady_clock::now() - start >= std::chrono::milliseconds(60);
  };
  EXPECT_EXIT(std::exit(slow() ? 0 : 1), Exits(0), "");
}

TEST(FaultTest, WhatIsInitialisedAgainForgetsWhatItWasTold) {
  {
    const FakeFaults faults("test.point=error");
    EXPECT_EQ(FaultPoint<"test.point">().code(), StatusCode::kInternal);
  }
  EXPECT_TRUE(FaultPoint<"test.point">().ok());
}

TEST(FaultDeathTest, AFaultOfAnotherRoleDoesNothing) {
  EXPECT_EXIT(std::exit(PassThrice("up/test.point=error", "up")), Exits(3), "");
  EXPECT_EXIT(std::exit(PassThrice("up/test.point=error", "csi-driver")), Exits(0), "");
}

TEST(FaultDeathTest, WhatIsUnknownIsRefused) {
  EXPECT_EXIT(std::exit(PassThrice("test.pint=crash")), Exits(kRefused),
              "BERTH_FAULTS: no fault point is called 'test.pint'");
  EXPECT_EXIT(std::exit(PassThrice("up/test.pint=crash", "csi-driver")), Exits(kRefused), "");
  EXPECT_EXIT(std::exit(PassThrice("test.point=explode")), Exits(kRefused),
              "no action 'explode'; known actions are crash, error");
}

TEST(FaultDeathTest, ACrashHappensOnceWhereAFolderIsNamed) {
  const TempFolder folder;
  setenv("BERTH_FAULT_ONCE", folder.path.c_str(), 1);
  EXPECT_EXIT(std::exit(PassThrice("test.point=crash")), Killed, "");
  EXPECT_EXIT(std::exit(PassThrice("test.point=crash")), Exits(0), "");
  unsetenv("BERTH_FAULT_ONCE");
}

TEST(FaultDeathTest, TheLogNamesEachPassedPointOnce) {
  const TempFolder folder;
  setenv("BERTH_FAULT_LOG", (folder.path + "/log").c_str(), 1);
  EXPECT_EXIT(std::exit(PassThrice("test.unpassed=error")), Exits(0), "");
  EXPECT_EXIT(std::exit(PassThrice("test.unpassed=error", "up")), Exits(0), "");
  unsetenv("BERTH_FAULT_LOG");
  std::ifstream log(folder.path + "/log");
  std::string text((std::istreambuf_iterator<char>(log)), {});
  EXPECT_EQ(text, "test.point\nup/test.point\n");
}

}  // namespace
}  // namespace berth::base
