#include "base/files/process_stat.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace berth::base {
namespace {

TEST(ProcessStatTest, ReadsALineWhoseNameHoldsAnything) {
  const auto stat = ParseProcessStat(
      "7 (a) (b) R) S 3 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 8192 2 9 1 1 1 0 0 0 0 0 0 "
      "0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 9\n");
  ASSERT_TRUE(stat.has_value());
  EXPECT_EQ(stat->name, "a) (b) R");
  EXPECT_EQ(stat->state, 'S');
  EXPECT_EQ(stat->parent, 3);
  EXPECT_EQ(stat->user_ticks, 5u);
  EXPECT_EQ(stat->system_ticks, 6u);
  EXPECT_EQ(stat->start_ticks, 4711u);
  EXPECT_EQ(stat->virtual_bytes, 8192u);
  EXPECT_EQ(stat->resident_pages, 2u);
  EXPECT_FALSE(stat->exit_code.has_value());  // it lives
  EXPECT_FALSE(ParseProcessStat("7 S 3 7").has_value());
  EXPECT_FALSE(ParseProcessStat(") 7 (").has_value());
}

TEST(ProcessStatusTest, ReadsANameThatHoldsAnything) {
  const auto status = ParseProcessStatus(
      "Name:\ta\\nState:\\\\b\nUmask:\t0022\nState:\tD (disk sleep)\nTgid:\t7\nPPid:\t3\n");
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ(status->name, "a\nState:\\b");
  EXPECT_EQ(status->state, 'D');
  EXPECT_EQ(status->parent, 3);
  EXPECT_FALSE(ParseProcessStatus("Name:\ta\nState:\tS (sleeping)\n").has_value());
  const auto own = ReadProcessStatus(getpid());
  ASSERT_TRUE(own.has_value());
  EXPECT_EQ(own->name, ReadProcessStat(getpid())->name);
  EXPECT_EQ(own->parent, getppid());
  EXPECT_FALSE(ReadProcessStatus(1 << 30).has_value());
}

TEST(ProcessStatTest, KnowsTheLivingAndHowTheDeadEnded) {
  const auto own = ReadProcessStat(getpid());
  ASSERT_TRUE(own.has_value());
  EXPECT_EQ(own->parent, getppid());
  EXPECT_NE(own->start_ticks, 0u);
  EXPECT_EQ(ReadStartTicks(getpid()), own->start_ticks);
  EXPECT_FALSE(ReadProcessStat(1 << 30).has_value());
  EXPECT_EQ(ReadStartTicks(1 << 30), 0u);

  const pid_t child = fork();
  if (child == 0) _exit(3);
  siginfo_t ended;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  const auto zombie = ReadProcessStat(child);
  ASSERT_TRUE(zombie.has_value());
  EXPECT_EQ(zombie->state, 'Z');
  ASSERT_TRUE(zombie->exit_code.has_value());
  EXPECT_EQ(WEXITSTATUS(*zombie->exit_code), 3);
  waitpid(child, nullptr, 0);
}

TEST(ProcessStatTest, ReadsTheBootId) { EXPECT_EQ(ReadBootId().size(), 36u); }

}  // namespace
}  // namespace berth::base
