#include "base/fault.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace berth::base {
namespace {

// The state is the process's: each case runs in a child, which the exit code or signal speaks for.
int PassTwice(const char* spec) {
  setenv("BERTH_FAULTS", spec, 1);
  if (!InitFaultPoints().ok()) return 2;
  const bool first = FaultPoint("test.point").ok();
  const bool second = FaultPoint("test.point").ok();
  return first && second ? 0 : 1;
}

using FaultDeathTest = ::testing::Test;

TEST(FaultDeathTest, PointsThatAreNotNamedDoNothing) {
  EXPECT_EXIT(std::exit(PassTwice("other.point=crash")), ::testing::ExitedWithCode(0), "");
}

TEST(FaultDeathTest, AnErrorIsReturned) {
  EXPECT_EXIT(std::exit(PassTwice("test.point=error")), ::testing::ExitedWithCode(1), "");
}

TEST(FaultDeathTest, ACrashIsAKill) {
  EXPECT_EXIT(std::exit(PassTwice("test.point=crash")), ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_EXIT(std::exit(PassTwice("test.point=crash@2")), ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_EXIT(std::exit(PassTwice("test.point=crash@3")), ::testing::ExitedWithCode(0), "");
}

TEST(FaultDeathTest, MalformedSettingsAreRefused) {
  for (const char* spec : {"test.point", "test.point=explode", "test.point=crash@0"}) {
    EXPECT_EXIT(std::exit(PassTwice(spec)), ::testing::ExitedWithCode(2), "") << spec;
  }
}

TEST(FaultDeathTest, ACrashHappensOnceWhereAFolderIsNamed) {
  std::string folder = "/tmp/berth-fault-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  setenv("BERTH_FAULT_ONCE", folder.c_str(), 1);
  EXPECT_EXIT(std::exit(PassTwice("test.point=crash")), ::testing::KilledBySignal(SIGKILL), "");
  EXPECT_EXIT(std::exit(PassTwice("test.point=crash")), ::testing::ExitedWithCode(0), "");
  unsetenv("BERTH_FAULT_ONCE");
  std::filesystem::remove_all(folder);
}

TEST(FaultDeathTest, TheLogNamesEachPassedPointOnce) {
  std::string folder = "/tmp/berth-fault-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  setenv("BERTH_FAULT_LOG", (folder + "/log").c_str(), 1);
  EXPECT_EXIT(std::exit(PassTwice("other.point=error")), ::testing::ExitedWithCode(0), "");
  unsetenv("BERTH_FAULT_LOG");
  std::ifstream log(folder + "/log");
  std::string text((std::istreambuf_iterator<char>(log)), {});
  EXPECT_EQ(text, "test.point\n");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace berth::base
