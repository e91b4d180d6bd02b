#include "volume/exec/container_exec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <thread>

#include "platform/processes/error_lines.h"
#include "volume/exec/fake_mount_pod.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using platform::Command;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

std::string Slurp(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Whether the process, that a shell wrote the number of, has ended.
bool HasEnded(const std::string& pid_file) {
  const std::string pid = Slurp(pid_file);
  const std::string stat = Slurp("/proc/" + std::to_string(std::stoi(pid)) + "/stat");
  return stat.empty() || stat.find(") Z ") != std::string::npos;
}

class ContainerExecTest : public testing::TestWithParam<rpc::FakeRuntime> {
 protected:
  base::StatusOr<std::optional<platform::CommandResult>> Run(const Command& command) {
    return exec_.Run(container_, command);
  }
  platform::CommandResult RunWell(const Command& command) {
    const auto result = Run(command);
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result.ok() && result->has_value());
    return result.ok() ? result->value_or(platform::CommandResult{.exit_code = -1})
                       : platform::CommandResult{.exit_code = -1};
  }
  bool NothingLeft() const {
    const std::string runs = pods_.paths().PluginRuns();
    return !std::filesystem::exists(runs) || std::filesystem::is_empty(runs);
  }

  FakeMountPods pods_{GetParam()};
  RunFolders folders_{pods_.paths(), pods_.mounter()};
  ContainerExec exec_{pods_.client(), folders_};
  const PodContainer container_{FakeMountPods::PodOf("uid-1"), pods_.StartPod("uid-1")};
};

INSTANTIATE_TEST_SUITE_P(Runtime, ContainerExecTest,
                         testing::Values(rpc::FakeRuntime::kContainerd, rpc::FakeRuntime::kCrio),
                         [](const auto& info) { return NameOf(info.param); });

TEST_P(ContainerExecTest, GivesExitCodeAndBothStreams) {
  const auto result = RunWell({.argv = {"sh", "-c", "echo out; echo err >&2; exit 7"}});
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.out, "out\n");
  EXPECT_EQ(result.err, "err\n");
}

TEST_P(ContainerExecTest, PassesOnLinesOfStandardErrorWhileTheProgramRuns) {
  const platform::TempFolder folder;
  const std::string seen = folder / "seen";
  std::vector<std::string> lines;
  const platform::ErrorLines listening([&](std::string_view line) {
    lines.emplace_back(line);
    std::ofstream(seen).close();
  });
  // It ends only if its first line was passed on before.
  RunWell({.argv = {"sh", "-c",
                    "echo one >&2; until [ -e " + seen +
                        " ]; do sleep 0.01; done; printf 'two\nrest' >&2"}});
  EXPECT_THAT(lines, testing::ElementsAre("one", "two"));
}

TEST_P(ContainerExecTest, TheEnvironmentIsTheCommands) {
  const auto result = RunWell({.argv = {"sh", "-c", "echo $LC_ALL $A"}, .env = {"A=b c"}});
  EXPECT_EQ(result.out, "C b c\n");
  // A name that no shell takes.
  const auto strange = RunWell({.argv = {"env"}, .env = {"BASH_FUNC_f%%=() { :; }", "A=b"}});
  EXPECT_THAT(strange.out, AllOf(HasSubstr("BASH_FUNC_f%%=() { :; }\n"), HasSubstr("A=b\n")));
}

TEST_P(ContainerExecTest, NamesTheProgramThatIsNotThere) {
  for (const bool leaves_daemon : {false, true}) {
    const auto result = Run({.argv = {"mount.nothing", "x"}, .leaves_daemon = leaves_daemon});
    EXPECT_EQ(result.status().code(), StatusCode::kNotFound);
    EXPECT_EQ(base::Message(result.status()),
              "no program 'mount.nothing' in container 'gluster' of pod kube-system/gluster-x7");
  }
}

TEST_P(ContainerExecTest, AProgramThatEndsWith127IsNoMissingOne) {
  EXPECT_EQ(RunWell({.argv = {"sh", "-c", "echo 'sh: x: not found' >&2; exit 127"}}).exit_code,
            127);
}

TEST_P(ContainerExecTest, KeepsNoMoreOutputThanAsked) {
  const auto result =
      RunWell({.argv = {"sh", "-c", "head -c 100000 /dev/zero; echo e >&2"}, .max_output = 1000});
  EXPECT_EQ(result.out.size(), 1000u);
  EXPECT_EQ(result.err, "e\n");
}

TEST_P(ContainerExecTest, AHundredMebibytesAreTakenWhole) {
  const auto result =
      RunWell({.argv = {"sh", "-c", "head -c 104857600 /dev/zero; head -c 17000000 /dev/zero >&2"},
               .timeout = 5min,
               .max_output = 200 << 20});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out.size(), 104'857'600u);
  EXPECT_EQ(result.err.size(), 17'000'000u);
}

TEST_P(ContainerExecTest, AChildThatKeepsTheStreamsIsNotWaitedFor) {
  const std::string pid = pods_.folder() / "pid";
  const auto result =
      RunWell({.argv = {"sh", "-c", fmt::format("sleep 600 & echo $! >{}; echo done", pid)},
               .timeout = 5min});
  EXPECT_EQ(result.out, "done\n");
  kill(std::stoi(Slurp(pid)), SIGKILL);
}

TEST_P(ContainerExecTest, StandardInputGoesByAFile) {
  EXPECT_EQ(RunWell({.argv = {"cat"}, .stdin_data = "what\nis read"}).out, "what\nis read");
  EXPECT_TRUE(NothingLeft());
}

TEST_P(ContainerExecTest, SecretsAreInFilesThatAreGoneAfterwards) {
  const auto result =
      RunWell({.argv = {"sh", "-c", "echo $1; stat -c %a $1; cat $1", "sh", "{key}"},
               .secrets = {{"key", "s3cret"}}});
  std::istringstream lines(result.out);
  std::string path, mode, content;
  std::getline(lines, path);
  std::getline(lines, mode);
  std::getline(lines, content);
  EXPECT_THAT(path, HasSubstr(pods_.paths().PluginRuns()));
  EXPECT_EQ(mode, "600");
  EXPECT_EQ(content, "s3cret");
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(NothingLeft());
  const auto request = pods_.runtime().script().LastRequest<rpc::cri::ExecSyncRequest>("ExecSync");
  EXPECT_THAT(request.ShortDebugString(), Not(HasSubstr("s3cret")));
}

TEST_P(ContainerExecTest, ADaemonThatKeepsItsStreamsIsNotWaitedForAndLivesOn) {
  const std::string pid = pods_.folder() / "pid";
  const auto result = RunWell(
      {.argv = {"sh", "-c", fmt::format("sleep 600 & echo $! >{}; echo mounted; echo w >&2", pid)},
       .timeout = 5min,
       .leaves_daemon = true});
  EXPECT_EQ(result.out, "mounted\n");
  EXPECT_EQ(result.err, "w\n");
  EXPECT_FALSE(HasEnded(pid));
  EXPECT_TRUE(NothingLeft());
  kill(std::stoi(Slurp(pid)), SIGKILL);
}

TEST_P(ContainerExecTest, AtTheDeadlineTheWholeRunIsGoneThoughItIgnoresSigterm) {
  const std::string pid = pods_.folder() / "pid", child = pods_.folder() / "child";
  const auto result = Run(
      {.argv = {"sh", "-c",
                fmt::format("trap '' TERM; (trap '' TERM; setsid sleep 600 & echo $! >{}; wait) & "
                            "echo $$ >{}; while :; do sleep 600; done",
                            child, pid)},
       .timeout = 3s});
  EXPECT_EQ(result.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(base::Message(result.status()), HasSubstr("sh in container 'gluster'"));
  EXPECT_TRUE(HasEnded(pid));
  EXPECT_TRUE(HasEnded(child));
}

TEST_P(ContainerExecTest, ACallerThatIsToEndEndsItsOwnRuns) {
  const std::string pid = pods_.folder() / "pid", end = pods_.folder() / "end";
  auto of_another = std::async(std::launch::async, [&] {
    return RunWell(
        {.argv = {"sh", "-c", fmt::format("until [ -e {} ]; do sleep 0.01; done; echo done", end)},
         .timeout = 5min});
  });
  std::stop_source ending;
  std::jthread caller([&] {
    while (!Slurp(pid).ends_with('\n')) std::this_thread::sleep_for(1ms);
    ending.request_stop();
  });
  const auto result = Run({.argv = {"sh", "-c", fmt::format("echo $$ >{}; exec sleep 600", pid)},
                           .timeout = 5min,
                           .ending = ending.get_token()});
  EXPECT_EQ(result.status().code(), StatusCode::kCancelled);
  EXPECT_TRUE(HasEnded(pid));
  std::ofstream{end};
  EXPECT_EQ(of_another.get().out, "done\n");
}

TEST_P(ContainerExecTest, ALostAnswerIsAnUnknownOutcome) {
  pods_.runtime().script().LoseAnswer("ExecSync");
  const auto result = Run({.argv = {"true"}});
  EXPECT_EQ(result.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(base::Message(result.status()), HasSubstr("what it did is unknown"));
  EXPECT_FALSE(rpc::WasNotSent(result.status()));
}

TEST_P(ContainerExecTest, ARuntimeThatIsAwayRanNothing) {
  pods_.runtime().GoAway();
  const auto result = Run({.argv = {"true"}});
  EXPECT_EQ(result.status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(rpc::WasNotSent(result.status()));
}

TEST_P(ContainerExecTest, AContainerThatEndedRanNothing) {
  pods_.Exit(container_.id);
  const auto result = Run({.argv = {"true"}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->has_value());
}

// containerd has one code, UNKNOWN, for a container that ended, for one that has no shell and for a
// run of which it does not know how it ended. CRI-O says NOT_FOUND of the first.
TEST_P(ContainerExecTest, WithoutAStartTheFailureIsOfTheContainer) {
  const auto fail = [&](StatusCode code) {
    pods_.runtime().script().Fail("ExecSync", base::Error(code, "words that nobody knows"));
    return Run({.argv = {"mkfs", "x"}});
  };
  for (const StatusCode code : {StatusCode::kUnknown, StatusCode::kInternal}) {
    const auto lacking = fail(code);
    EXPECT_EQ(lacking.status().code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(
        base::Message(lacking.status()),
        "container 'gluster' of pod kube-system/gluster-x7 cannot run 'mkfs': the container "
        "runtime did not start 'sh' there, which it needs: ExecSync: words that nobody knows");
  }
  const auto gone = fail(StatusCode::kNotFound);
  EXPECT_TRUE(gone.ok() && !gone->has_value()) << gone.status();
  pods_.Exit(container_.id);
  const auto ended = fail(StatusCode::kUnknown);
  EXPECT_TRUE(ended.ok() && !ended->has_value()) << ended.status();
}

TEST_P(ContainerExecTest, WithoutAStartALostRuntimeRanNothing) {
  for (const StatusCode code :
       {StatusCode::kUnavailable, StatusCode::kCancelled, StatusCode::kDeadlineExceeded}) {
    pods_.runtime().script().Fail("ExecSync", base::Error(code, "gone"));
    const auto result = Run({.argv = {"true"}});
    EXPECT_EQ(result.status().code(), code);
    EXPECT_TRUE(rpc::WasNotSent(result.status())) << result.status();
  }
}

TEST_P(ContainerExecTest, AfterAStartTheOutcomeIsUnknown) {
  for (const StatusCode code :
       {StatusCode::kUnknown, StatusCode::kNotFound, StatusCode::kFailedPrecondition}) {
    pods_.runtime().script().AfterEffect("ExecSync", [code](const google::protobuf::Message&) {
      return base::Error(code, "container is not running");
    });
    const auto result = Run({.argv = {"true"}});
    EXPECT_EQ(result.status().code(), StatusCode::kUnavailable);
    EXPECT_FALSE(rpc::WasNotSent(result.status()));
    EXPECT_THAT(base::Message(result.status()), HasSubstr("what it did is unknown"));
  }
}

// The runtime of a container may start a run that it was asked for long ago.
TEST_P(ContainerExecTest, ARunThatFailedDoesNotBeginLater) {
  rpc::cri::ExecSyncRequest late;
  std::filesystem::path folder;
  pods_.runtime().state().SetExecSync([&](const rpc::cri::ExecSyncRequest& request) {
    late = request;
    folder = request.cmd(3);
    rpc::cri::ExecSyncResponse answer;
    answer.set_exit_code(126);
    answer.set_stderr("cannot start it now");
    return answer;
  });
  const std::string proof = pods_.folder() / "proof";
  const auto result = Run({.argv = {"touch", proof}});
  EXPECT_EQ(result.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(result.status()), HasSubstr("exit code 126: cannot start it now"));
  // As between the agent's note and the end of the folder.
  std::filesystem::create_directories(folder);
  for (const char* file : {"out", "err", "began"}) std::ofstream(folder / file);
  Command command;
  command.argv.assign(late.cmd().begin(), late.cmd().end());
  const auto ran = platform::NewHostExec()->Run(command);
  ASSERT_TRUE(ran.ok()) << ran.status();
  EXPECT_EQ(ran->exit_code, 125);
  EXPECT_FALSE(std::filesystem::exists(proof));
  std::filesystem::remove(folder / "began");
  EXPECT_TRUE(platform::NewHostExec()->Run(command).ok());
  EXPECT_TRUE(std::filesystem::exists(proof));
}

// CRI-O answers so when its own deadline ends a run.
TEST_P(ContainerExecTest, ANegativeExitCodeIsADeadline) {
  pods_.runtime().state().SetExecSync([&](const rpc::cri::ExecSyncRequest& request) {
    std::ofstream(std::filesystem::path(request.cmd(3)) / "began");
    rpc::cri::ExecSyncResponse answer;
    answer.set_exit_code(-1);
    answer.set_stderr("command timed out");
    return answer;
  });
  const auto result = Run({.argv = {"mount"}});
  EXPECT_EQ(result.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(base::Message(result.status()), HasSubstr("did not end within"));
}

TEST_P(ContainerExecTest, AContainerThatDoesNotSeeTheFilesIsTold) {
  // What the pod's own mount namespace shows there: nothing.
  pods_.runtime().state().SetExecSync([&](const rpc::cri::ExecSyncRequest& request) {
    std::filesystem::remove(request.cmd(3) + "/out");
    rpc::cri::ExecSyncResponse answer;
    Command command;
    command.argv.assign(request.cmd().begin(), request.cmd().end());
    const auto result = platform::NewHostExec()->Run(command);
    if (!result.ok()) return answer;
    answer.set_exit_code(result->exit_code);
    answer.set_stderr(result->err);
    return answer;
  });
  const auto result = Run({.argv = {"cat"}, .stdin_data = "x"});
  EXPECT_EQ(result.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(result.status()), HasSubstr("mountPropagation"));
}

TEST_P(ContainerExecTest, OfManyRunsFewBeginAtOnce) {
  ContainerExec exec(pods_.client(), folders_, {.at_once = 3, .young = 1h});
  std::atomic<int> within = 0, most = 0;
  pods_.runtime().state().SetExecSync([&](const rpc::cri::ExecSyncRequest&) {
    const int now = ++within;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(5ms);
    --within;
    return rpc::cri::ExecSyncResponse();
  });
  std::vector<std::future<int>> runs;
  for (int i = 0; i < 50; ++i) {
    runs.push_back(std::async(std::launch::async, [&] {
      const auto result = exec.Run(container_, {.argv = {"true"}, .timeout = 5min});
      return result.ok() && result->has_value() ? (*result)->exit_code : -1;
    }));
  }
  for (auto& run : runs) EXPECT_EQ(run.get(), 0);
  EXPECT_LE(most, 3);
}

TEST_P(ContainerExecTest, WhoFindsNoRoomInTimeIsNotRun) {
  ContainerExec exec(pods_.client(), folders_, {.at_once = 1, .young = 1h});
  std::promise<void> began, end;
  pods_.runtime().state().SetExecSync([&](const rpc::cri::ExecSyncRequest&) {
    began.set_value();
    end.get_future().wait();
    return rpc::cri::ExecSyncResponse();
  });
  auto first = std::async(std::launch::async, [&] {
    return exec.Run(container_, {.argv = {"true"}, .timeout = 5min}).ok();
  });
  began.get_future().wait();
  const auto late = exec.Run(container_, {.argv = {"late"}, .timeout = 10ms});
  EXPECT_EQ(late.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(rpc::WasNotSent(late.status()));
  EXPECT_THAT(base::Message(late.status()), HasSubstr("'late' was not run: too many others"));
  end.set_value();
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(NothingLeft());
}

TEST_P(ContainerExecTest, WhatIsNoCommandIsNotRun) {
  EXPECT_EQ(Run({.argv = {""}}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Run({.argv = {"true"}, .env = {"--"}}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Run({}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(pods_.runtime().script().Count("ExecSync"), 0);
}

}  // namespace
}  // namespace berth::volume
