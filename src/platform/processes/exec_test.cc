#include "platform/processes/exec.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/processes/child.h"
#include "platform/processes/endable_exec.h"
#include "platform/processes/error_lines.h"
#include "platform/processes/exec_parts.h"

namespace berth::platform {
namespace {

using base::StatusCode;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

class ExecTest : public testing::Test {
 protected:
  CommandResult Sh(const std::string& script) {
    const auto result = exec_->Run({.argv = {"sh", "-c", script}});
    EXPECT_TRUE(result.ok()) << base::ToString(result.status());
    return result.ok() ? *result : CommandResult{};
  }
  const std::unique_ptr<Exec> exec_ = NewHostExec();
};

TEST_F(ExecTest, GivesExitCodeAndBothOutputs) {
  const CommandResult result = Sh("echo out; echo err >&2; exit 3");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "out\n");
  EXPECT_EQ(result.err, "err\n");
}

TEST_F(ExecTest, PassesOnLinesOfStandardErrorWhileTheProgramRuns) {
  const TempFolder folder;
  const std::string seen = folder / "seen";
  std::vector<std::string> lines;
  {
    const ErrorLines listening([&](std::string_view line) {
      lines.emplace_back(line);
      std::ofstream(seen).close();
    });
    // It ends only if its first line was passed on before.
    Sh("echo one >&2; until [ -e " + seen + " ]; do sleep 0.01; done; printf 'two\nrest' >&2");
    const ErrorLines inner([](std::string_view) {});
    Sh("echo for the inner one >&2");
  }
  EXPECT_THAT(lines, testing::ElementsAre("one", "two"));
  Sh("echo nobody listens >&2");
  EXPECT_EQ(lines.size(), 2U);
}

TEST_F(ExecTest, GivesTheSignalThatEndedIt) {
  EXPECT_EQ(Sh("kill -9 $$").exit_code, 128 + SIGKILL);
}

TEST_F(ExecTest, FeedsStandardInput) {
  const std::string data(1 << 20, 'x');
  const auto result = exec_->Run({.argv = {"wc", "-c"}, .stdin_data = data});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->out, "1048576\n");
}

TEST_F(ExecTest, GivesSecretsByFilesThatHaveNoNameOnADisk) {
  const auto result = exec_->Run(
      {.argv = {"sh", "-c", "cat $1 $2; stat -L -c %a $1; tr '\\0' ' ' < /proc/$$/cmdline", "sh",
                "{key}", "{pass}"},
       .secrets = {{"key", "AQBD"}, {"pass", "hunter2\n"}}});
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(result->out, testing::StartsWith("AQBDhunter2\n600\n"));
  EXPECT_THAT(result->out.substr(sizeof("AQBDhunter2\n600\n") - 1),
              testing::Not(testing::HasSubstr("AQBD")));
  EXPECT_EQ(exec_->Run({.argv = {"true"}, .secrets = {{"key", std::string((1 << 20) + 1, 'x')}}})
                .status()
                .code(),
            StatusCode::kInvalidArgument);
}

TEST_F(ExecTest, RunsWithAMinimalEnvironment) {
  setenv("BERTH_SECRET", "1", 1);
  const auto result = exec_->Run({.argv = {"env"}, .env = {"A=b", "LC_ALL=C.UTF-8"}});
  unsetenv("BERTH_SECRET");
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->out,
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nA=b\n"
            "LC_ALL=C.UTF-8\n");
}

TEST_F(ExecTest, FindsProgramsInThePathOfTheCommand) {
  const TempFolder folder;
  ASSERT_TRUE(
      WriteDurably<"test.file">(folder / "frobnicate", "#!/bin/sh\necho found\n", 0755).ok());
  const auto result =
      exec_->Run({.argv = {"frobnicate"}, .env = {"PATH=/nowhere:" + folder.path()}});
  ASSERT_TRUE(result.ok()) << base::ToString(result.status());
  EXPECT_EQ(result->out, "found\n");
}

TEST_F(ExecTest, SaysThatAProgramIsMissing) {
  const auto result = exec_->Run({.argv = {"berth-no-such-program"}});
  EXPECT_EQ(base::ToString(result.status()),
            "NOT_FOUND: program 'berth-no-such-program' is not in the PATH");
  EXPECT_EQ(exec_->Run({.argv = {"/no/such"}}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(exec_->Run({}).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(ExecTest, DropsOutputBeyondTheLimitAndReadsOn) {
  const auto result =
      exec_->Run({.argv = {"sh", "-c", "yes | head -c 1000000; echo end >&2"}, .max_output = 10});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->out, "y\ny\ny\ny\ny\n");
  EXPECT_EQ(result->err, "end\n");
}

TEST_F(ExecTest, OutputWithoutEndKeepsNobodyWaiting) {
  const base::UniqueFd endless(open("/dev/zero", O_RDONLY | O_CLOEXEC));
  std::string kept;
  EXPECT_TRUE(DrainPipe(endless.get(), kept, 10));
  EXPECT_EQ(kept, std::string(10, '\0'));
  const auto late = exec_->Run({.argv = {"cat", "/dev/zero"}, .timeout = milliseconds(300)});
  EXPECT_EQ(late.status().code(), StatusCode::kDeadlineExceeded);
  // A daemon that the program left writes on.
  const CommandResult result = Sh("yes & echo $! >&2");
  EXPECT_EQ(kill(std::stoi(result.err), SIGKILL), 0);
}

TEST_F(ExecTest, KillsTheWholeGroupAtTheTimeOut) {
  const TempFolder folder;
  // The grandchild holds the FIFO open; when it dies, the reader sees the end of file.
  const std::string fifo = folder / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const base::UniqueFd reader(open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const auto result = exec_->Run(
      {.argv = {"sh", "-c", "(echo up; exec sleep 1000) > " + fifo}, .timeout = milliseconds(300)});
  EXPECT_EQ(result.status().code(), StatusCode::kDeadlineExceeded);
  fcntl(reader.get(), F_SETFL, 0);
  char buffer[16];
  EXPECT_EQ(read(reader.get(), buffer, sizeof(buffer)), 3);
  EXPECT_EQ(read(reader.get(), buffer, sizeof(buffer)), 0);
}

// A script that runs while its caller is told to end. It writes to the FIFO $1, by which the test
// sees that it has begun, and when the last process that holds it has ended.
class RunToEnd {
 public:
  explicit RunToEnd(Exec& exec) : exec_([&exec]() -> Exec& { return exec; }) {}

  // Starts the script, and waits until it has written "up".
  void Begin(const std::string& script) {
    ASSERT_EQ(mkfifo(fifo_.c_str(), 0600), 0);
    reader_.Reset(open(fifo_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    runner_ = std::jthread([this, script] {
      result_ = exec_.Run({.argv = {"sh", "-c", script, "sh", fifo_}, .timeout = minutes(10)});
    });
    ASSERT_EQ(ReadWord(), "up\n");
  }
  void End() {
    exec_.EndRuns();
    runner_.join();
    EXPECT_EQ(base::ToString(result_.status()),
              "CANCELLED: sh was ended, because its caller is to end");
  }
  // Returns what the FIFO has next; "": nobody has it open any more.
  std::string ReadWord() {
    if (!WaitReadable(reader_.get(), std::chrono::steady_clock::now() + seconds(60))) {
      return "nothing came in time";
    }
    char buffer[16];
    const ssize_t size = read(reader_.get(), buffer, sizeof(buffer));
    return size < 0 ? "unreadable" : std::string(buffer, static_cast<size_t>(size));
  }

 private:
  EndableExec exec_;
  const TempFolder folder_;
  const std::string fifo_ = folder_ / "fifo";
  base::UniqueFd reader_;
  base::StatusOr<CommandResult> result_ = CommandResult{};
  std::jthread runner_;
};

TEST_F(ExecTest, AProgramMayEndInOrder) {
  RunToEnd run(*exec_);
  run.Begin("exec >$1; trap 'echo told; exit 1' TERM; echo up; while :; do sleep 0.01; done");
  run.End();
  EXPECT_EQ(run.ReadWord(), "told\n");
  EXPECT_EQ(run.ReadWord(), "");
}

TEST_F(ExecTest, WhatAProgramHasStartedMayEndInOrderToo) {
  RunToEnd run(*exec_);
  run.Begin(
      "(trap 'sleep 0.3; echo told; exit 1' TERM; echo up; while :; do sleep 0.01; done) >$1 & "
      "wait");
  run.End();
  EXPECT_EQ(run.ReadWord(), "told\n");
  EXPECT_EQ(run.ReadWord(), "");
}

TEST_F(ExecTest, AGroupThatIgnoresTheSignalIsKilled) {
  RunToEnd run(*exec_);
  run.Begin("trap '' TERM; (echo up; exec sleep 1000) >$1");
  run.End();
  EXPECT_EQ(run.ReadWord(), "");
}

TEST_F(ExecTest, WhatOutlivesItsProgramIsKilled) {
  RunToEnd run(*exec_);
  run.Begin("(trap '' TERM; echo up; exec sleep 1000) >$1 & wait");
  run.End();
  EXPECT_EQ(run.ReadWord(), "");
}

TEST_F(ExecTest, ADaemonOfAnEarlierRunLivesOnAndNothingRunsLater) {
  const TempFolder folder;
  const int daemon = std::stoi(Sh("sleep 1000 >/dev/null 2>&1 & echo $!").out);
  EndableExec role([this]() -> Exec& { return *exec_; });
  role.EndRuns();
  EXPECT_EQ(base::ToString(role.Run({.argv = {"touch", folder / "made"}}).status()),
            "CANCELLED: touch was not run, because its caller is to end");
  EXPECT_EQ(Sh("echo others").out, "others\n");
  EXPECT_NE(access((folder / "made").c_str(), F_OK), 0);
  EXPECT_EQ(kill(daemon, 0), 0);
  EXPECT_EQ(kill(daemon, SIGKILL), 0);
}

// A FUSE helper leaves a daemon that keeps its output open.
TEST_F(ExecTest, ReturnsWhenTheProgramEndsThoughItsDaemonHoldsTheOutput) {
  const auto start = std::chrono::steady_clock::now();
  const CommandResult result = Sh("sleep 20 & echo $!");
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10));
  const int daemon = std::stoi(result.out);
  EXPECT_EQ(kill(daemon, SIGKILL), 0);
}

TEST_F(ExecTest, PassesOnNoDescriptor) {
  const int leak = open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  ASSERT_GE(leak, 3);
  const CommandResult result = Sh("ls /proc/self/fd | wc -l");
  close(leak);
  EXPECT_EQ(result.out, "4\n");  // 0, 1, 2 and the folder itself
}

TEST_F(ExecTest, RunOkQuotesTheErrorOutput) {
  const auto out = RunOk(*exec_, {.argv = {"sh", "-c", "echo fine"}});
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(*out, "fine\n");
  const auto failed = RunOk(*exec_, {.argv = {"sh", "-c", "echo bad superblock >&2; exit 1"}});
  EXPECT_EQ(base::ToString(failed.status()), "INTERNAL: sh exited with 1: bad superblock");
}

}  // namespace
}  // namespace berth::platform
