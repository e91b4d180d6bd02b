#include "platform/processes/marked_processes.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

#include "base/ids.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/processes/exec.h"

namespace berth::platform {
namespace {

TEST(KillMarkedTest, EndsTheMarkedAndWhatDescendsFromThemAndNobodyElse) {
  const TempFolder folder;
  const std::string mark = "BERTH_RUN=" + base::NewUuid();
  const auto exec = NewHostExec();
  const auto start = [&](const std::string& variable, const std::string& name,
                         const std::string& prefix) {
    const auto ran =
        exec->Run({.argv = {"sh", "-c",
                            fmt::format("{} sh -c 'trap \"\" TERM; {} sleep 600 & "
                                        "echo $! >{}; wait' >/dev/null 2>&1 & "
                                        "while [ ! -s {} ]; do sleep 0.01; done",
                                        variable, prefix, folder / name, folder / name)},
                   .leaves_daemon = true});
    EXPECT_TRUE(ran.ok() && ran->exit_code == 0);
    pid_t pid = 0;
    std::ifstream(folder / name) >> pid;
    return pid;
  };
  const auto lives = [](pid_t pid) {
    std::string line;
    std::getline(std::ifstream(fmt::format("/proc/{}/stat", pid)), line);
    return !line.empty() && line.find(") Z ") == std::string::npos;
  };
  const pid_t own = start(mark, "own", "");
  const pid_t without = start(mark, "without", "env -i");  // it cleared its environment
  const pid_t other = start(mark + "x", "other", "");      // a mark that only begins so
  EXPECT_EQ(KillMarkedProcesses(mark, std::chrono::seconds(60)), 0u);
  EXPECT_FALSE(lives(own));
  EXPECT_FALSE(lives(without));
  EXPECT_TRUE(lives(other));
  EXPECT_EQ(KillMarkedProcesses(mark + "x", std::chrono::seconds(60)), 0u);
  EXPECT_FALSE(lives(other));
}

TEST(KillMarkedTest, NothingMarkedIsNothingToDo) {
  EXPECT_EQ(KillMarkedProcesses("BERTH_RUN=" + base::NewUuid(), std::chrono::seconds(1)), 0u);
}

}  // namespace
}  // namespace berth::platform
