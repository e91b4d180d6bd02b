#include "platform/processes/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::platform {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CommandLineTest, FlagsAreFoundInAllTheirForms) {
  const std::vector<std::string> words = {"--a=program", "--a=1", "-a", "2",
                                          "--ab=3",      "a=4",   "--a"};
  EXPECT_THAT(FindFlagValues(words, "a"), ElementsAre("1", "2"));
  EXPECT_EQ(FindFlag(words, "a"), "2");
  EXPECT_EQ(FindFlag(words, "b"), "");
}

TEST(CommandLineTest, AProcessHasItsWordsAndAnEndedOneHasNone) {
  EXPECT_THAT(ReadCommandLine("/proc/self"), testing::Not(IsEmpty()));
  EXPECT_THAT(ReadCommandLine("/proc/4194305"), IsEmpty()) << "no process has so large an id";
}

}  // namespace
}  // namespace berth::platform
