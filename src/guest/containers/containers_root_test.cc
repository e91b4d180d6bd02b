// Containers of a real runc, as they run in a guest, with both ends of their streams on this
// machine.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "base/files/whole_file.h"
#include "base/ipc/container_call.h"
#include "base/json.h"
#include "guest/containers/container_server.h"
#include "guest/containers/container_service.h"
#include "guest/containers/fake_stand_in.h"

namespace berth::guest {
namespace {

namespace ipc = base::ipc;
namespace call = base::ipc::container;
using base::Json;
using ipc::Message;
using testing::HasSubstr;

class ContainersTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/berth-guest-XXXXXX";
    folder_ = mkdtemp(name);
    MakeBusyboxRoot(folder_ + "/rootfs");
    service_.emplace(ContainerService::Options{
        .runc = {.root = folder_ + "/runc"},
        .folder = folder_ + "/bundles",
        .open_port = [this](const std::string& port) -> ipc::Result<base::UniqueFd> {
          const auto found = ports_.find(port);
          if (found == ports_.end()) {
            return ipc::Failure{ipc::Problem::kSystem, "there is no port '" + port + "'", ""};
          }
          base::UniqueFd line = std::move(found->second);
          ports_.erase(found);
          return line;
        },
        .has_ports = false});
  }
  void TearDown() override {
    service_.reset();
    RemoveCgroups(Group());
    std::filesystem::remove_all(folder_);
  }

  std::string Group() const { return std::filesystem::path(folder_).filename(); }
  // Adds a port, and returns its host's end.
  base::UniqueFd AddPort(const std::string& name) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ports_[name].Reset(ends[1]);
    return base::UniqueFd(ends[0]);
  }
  Json Config(const std::vector<std::string>& args) const {
    return MakeConfig(folder_ + "/rootfs", Group(), args);
  }
  ipc::Result<Message> Handle(std::string_view method, Message request = {},
                              const std::string& id = "c") {
    request.Set(ipc::kMethod, std::string(method)).Set(call::kContainer, id);
    return service_->Handle(request);
  }
  void MustHandle(std::string_view method, Message request = {}) {
    const auto reply = Handle(method, std::move(request));
    ASSERT_TRUE(reply.ok()) << method << ": " << reply.failure().text;
  }
  std::unique_ptr<FakeStandIn> Create(const Json& config, bool terminal = false) {
    auto stand_in = std::make_unique<FakeStandIn>(AddPort("p"), "c", terminal);
    MustHandle(call::kCreate, Message()
                                  .Set(call::kConfig, config.dump())
                                  .Set(call::kPort, std::string("p"))
                                  .Set(call::kTerminal, terminal ? 1 : 0));
    return stand_in;
  }
  std::unique_ptr<FakeStandIn> Start(const Json& config, bool terminal = false) {
    auto stand_in = Create(config, terminal);
    MustHandle(call::kStart);
    return stand_in;
  }
  std::unique_ptr<FakeStandIn> Shell(const std::string& script) {
    return Start(Config({"/bin/sh", "-c", script}));
  }
  std::unique_ptr<FakeStandIn> Exec(const std::string& name, const std::string& script,
                                    bool terminal = false) {
    auto stand_in = std::make_unique<FakeStandIn>(AddPort("e"), "c/" + name, terminal);
    Json spec = Config({"/bin/sh", "-c", script})["process"];
    spec["terminal"] = terminal;
    MustHandle(call::kExec, Message()
                                .Set(call::kProcess, name)
                                .Set(call::kSpec, spec.dump())
                                .Set(call::kPort, std::string("e"))
                                .Set(call::kTerminal, terminal ? 1 : 0));
    return stand_in;
  }
  std::string Status() {
    const auto reply = Handle(call::kState);
    return reply.ok() ? *reply->FindText(call::kStatus) : reply.failure().code;
  }
  pid_t Pid() { return static_cast<pid_t>(*Handle(call::kState)->FindNumber(call::kPid)); }

  std::string folder_;
  std::map<std::string, base::UniqueFd> ports_;
  std::optional<ContainerService> service_;
};

TEST_F(ContainersTest, RunAndTellTheirOutputAndExitCode) {
  auto stand_in = Create(Config({"/bin/sh", "-c", "echo out; echo err >&2; exit 7"}));
  EXPECT_EQ(Status(), "created");
  EXPECT_THAT(Handle(call::kDelete).failure().text, HasSubstr("not stopped"));
  MustHandle(call::kStart);
  stand_in->WaitForExit();
  EXPECT_EQ(stand_in->code(), 7);
  EXPECT_EQ(stand_in->signal(), 0);
  EXPECT_EQ(stand_in->output(), "out\n");
  EXPECT_EQ(stand_in->errors(), "err\n");
  EXPECT_EQ(Status(), "stopped");
  MustHandle(call::kDelete);
  EXPECT_EQ(Status(), "NOT_FOUND");
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/bundles"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/runc"));
}

TEST_F(ContainersTest, HaveTheirUserFolderEnvironmentLimitsAndCapabilities) {
  Json config = Config({"/bin/sh", "-c",
                        "id -u; id -g; id -G; pwd; echo $A; ulimit -n; "
                        "grep CapEff /proc/self/status"});
  config["process"]["user"] = {{"uid", 12}, {"gid", 34}, {"additionalGids", {56}}};
  config["process"]["cwd"] = "/tmp";
  config["process"]["env"].push_back("A=b c");
  config["process"]["rlimits"] = {{{"type", "RLIMIT_NOFILE"}, {"soft", 77}, {"hard", 99}}};
  auto stand_in = Start(config);
  stand_in->WaitForExit();
  EXPECT_EQ(stand_in->output(), "12\n34\n34 56\n/tmp\nb c\n77\nCapEff:\t0000000000000000\n");
}

TEST_F(ContainersTest, OfAProgramThatIsMissingAreRefusedWithRuncsOwnWords) {
  const auto reply = Handle(call::kCreate, Message()
                                               .Set(call::kConfig, Config({"/none"}).dump())
                                               .Set(call::kPort, std::string("p"))
                                               .Set(call::kTerminal, 0));
  EXPECT_THAT(reply.failure().text, HasSubstr("there is no port"));
  auto stand_in = std::make_unique<FakeStandIn>(AddPort("p"), "c", false);
  const auto refused = Handle(
      call::kCreate,
      Message().Set(call::kConfig, Config({"/none"}).dump()).Set(call::kPort, std::string("p")));
  ASSERT_TRUE(refused.ok() || refused.failure().code == "FAILED_PRECONDITION");
  const auto started = refused.ok() ? Handle(call::kStart) : refused;
  EXPECT_THAT(started.failure().text, HasSubstr("/none"));
  EXPECT_THAT(started.failure().text, HasSubstr("no such file"));
  static_cast<void>(Handle(call::kDelete, Message().Set(call::kForce, 1)));
  EXPECT_EQ(Status(), "NOT_FOUND");
}

TEST_F(ContainersTest, GetSignalsAndTellByWhichTheyEnd) {
  auto stand_in = Shell("trap 'echo got; exit 5' TERM; echo ready; while :; do sleep 0.05; done");
  stand_in->WaitForOutput("ready\n");
  stand_in->SendSignal(SIGTERM, false);
  stand_in->WaitForExit();
  EXPECT_EQ(stand_in->output(), "ready\ngot\n");
  EXPECT_EQ(stand_in->code(), 5);
  MustHandle(call::kDelete);

  stand_in = Shell("echo ready; while :; do sleep 1; done");
  stand_in->WaitForOutput("ready\n");
  stand_in->SendSignal(SIGKILL, true);
  stand_in->WaitForExit();
  EXPECT_EQ(stand_in->code(), 137);
  EXPECT_EQ(stand_in->signal(), SIGKILL);
  EXPECT_EQ(Handle(call::kKill, Message().Set(call::kSignal, SIGTERM)).failure().code, "NOT_FOUND");
}

TEST_F(ContainersTest, SeeTheEndOfTheirInput) {
  auto stand_in = Shell("cat; echo end");
  stand_in->Input("abc\n");
  stand_in->WaitForOutput("abc\n");
  stand_in->CloseInput();
  stand_in->WaitForExit();
  EXPECT_EQ(stand_in->output(), "abc\nend\n");
}

TEST_F(ContainersTest, LoseNothingOfABigOutputThatIsReadSlowly) {
  auto stand_in = Shell(
      "i=0; while [ $i -lt 64 ]; do head -c 65536 /dev/zero; i=$((i+1)); done; echo done >&2; "
      "exit 3");
  stand_in->HoldOutput(true);
  stand_in->Input("x");  // does not wait
  stand_in->WaitUntilHeldUp();
  EXPECT_EQ(stand_in->errors(), "") << "the container is held up";
  EXPECT_EQ(Status(), "running");
  stand_in->HoldOutput(false);
  stand_in->WaitForExit();
  EXPECT_EQ(stand_in->output().size(), 64u * 65536);
  EXPECT_EQ(stand_in->errors(), "done\n");
  EXPECT_EQ(stand_in->code(), 3);
}

TEST_F(ContainersTest, TellTheirEndAlthoughNobodyReadsTheirOutput) {
  // More than the window of the stream and less than that and the pipes.
  auto stand_in = Shell("head -c 300000 /dev/zero; exit 4");
  stand_in->HoldOutput(true);
  stand_in->WaitForExitAlone();
  EXPECT_EQ(stand_in->code(), 4);
  stand_in->HoldOutput(false);
  stand_in->WaitForExit();
  EXPECT_EQ(stand_in->output().size(), 300000u);
}

TEST_F(ContainersTest, HaveATerminalWhoseSizeChanges) {
  Json config = Config({"/bin/sh", "-c",
                        "tty; trap 'stty size; exit 6' WINCH; echo ready; "
                        "while :; do sleep 0.05; done"});
  config["process"]["terminal"] = true;
  auto stand_in = Start(config, true);
  stand_in->WaitForOutput("ready\r\n");
  EXPECT_THAT(stand_in->output(), testing::StartsWith("/dev/"));
  stand_in->SendResize(33, 77);
  stand_in->WaitForExit();
  EXPECT_THAT(stand_in->output(), HasSubstr("33 77\r\n"));
  EXPECT_EQ(stand_in->code(), 6);
}

TEST_F(ContainersTest, EchoWhatIsTypedAtTheirTerminal) {
  Json config = Config({"/bin/sh", "-c", "read line; echo \"<$line>\""});
  config["process"]["terminal"] = true;
  auto stand_in = Start(config, true);
  stand_in->Input("typed\n");
  stand_in->WaitForExit();
  EXPECT_EQ(stand_in->output(), "typed\r\n<typed>\r\n");
}

TEST_F(ContainersTest, RunFurtherProcesses) {
  auto stand_in = Shell("echo ready; while :; do sleep 1; done");
  stand_in->WaitForOutput("ready\n");
  auto first = Exec("one", "cat; exit 9");
  auto second = Exec("two", "tty; exit 2", true);
  second->WaitForExit();
  EXPECT_EQ(second->code(), 2);
  EXPECT_THAT(second->output(), HasSubstr("/dev/"));
  first->Input("x");
  first->CloseInput();
  first->WaitForExit();
  EXPECT_EQ(first->output(), "x");
  EXPECT_EQ(first->code(), 9);
  auto third = Exec("three", "echo go; while :; do sleep 1; done");
  third->WaitForOutput("go\n");
  EXPECT_THAT(
      Handle(
          call::kExec,
          Message().Set(call::kProcess, std::string("three")).Set(call::kSpec, std::string("{}")))
          .failure()
          .text,
      HasSubstr("already exists"));
  third->SendSignal(SIGKILL, false);
  third->WaitForExit();
  EXPECT_EQ(third->signal(), SIGKILL);
  EXPECT_EQ(Status(), "running");
  const auto processes = Handle(call::kProcesses);
  ASSERT_TRUE(processes.ok()) << processes.failure().text;
  EXPECT_THAT(*processes->FindText(call::kText), HasSubstr(std::to_string(Pid())));
}

TEST_F(ContainersTest, OfAStandInThatDiesAreKilled) {
  auto stand_in = Shell("echo ready; while :; do sleep 1; done");
  stand_in->WaitForOutput("ready\n");
  auto process = Exec("one", "echo go; while :; do sleep 1; done");
  process->WaitForOutput("go\n");
  const pid_t init = Pid();
  process.reset();
  WaitUntil([&] { return CountProcesses(init) == 1; });  // its sleep is not counted
  EXPECT_EQ(Status(), "running");
  stand_in.reset();
  WaitUntil([&] { return Status() == "stopped"; });
  EXPECT_NE(kill(init, 0), 0);
  MustHandle(call::kDelete);
}

TEST_F(ContainersTest, AreDeletedWhileTheyRunIfThatIsForced) {
  auto stand_in = Shell("trap '' TERM; echo ready; while :; do sleep 1; done");
  stand_in->WaitForOutput("ready\n");
  const pid_t init = Pid();
  EXPECT_THAT(Handle(call::kDelete).failure().text, HasSubstr("not stopped"));
  MustHandle(call::kDelete, Message().Set(call::kForce, 1));
  EXPECT_NE(kill(init, 0), 0);
  EXPECT_EQ(Status(), "NOT_FOUND");
}

TEST_F(ContainersTest, OfWhichAllProcessesGetASignal) {
  auto stand_in = Shell("echo ready; while :; do sleep 1; done");
  stand_in->WaitForOutput("ready\n");
  auto process = Exec("one", "trap 'echo got; exit 3' USR1; echo go; while :; do sleep 0.05; done");
  process->WaitForOutput("go\n");
  MustHandle(call::kKill, Message().Set(call::kSignal, SIGUSR1).Set(call::kAll, 1));
  process->WaitForExit();
  EXPECT_EQ(process->code(), 3);
  EXPECT_EQ(process->output(), "go\ngot\n");
}

TEST_F(ContainersTest, ArePausedMeasuredAndLimited) {
  auto stand_in = Shell("echo ready; while :; do sleep 1; done");
  stand_in->WaitForOutput("ready\n");
  MustHandle(call::kPause);
  EXPECT_EQ(Status(), "paused");
  MustHandle(call::kResume);
  EXPECT_EQ(Status(), "running");
  MustHandle(call::kUpdate,
             Message().Set(call::kText, std::string(R"({"memory":{"limit":67108864}})")));
  const auto stats = Handle(call::kStats);
  ASSERT_TRUE(stats.ok()) << stats.failure().text;
  EXPECT_THAT(*stats->FindText(call::kText), HasSubstr("67108864"));
  EXPECT_EQ(Handle("container.none").failure().code, "UNIMPLEMENTED");
  EXPECT_EQ(Handle(call::kState, {}, "../c").failure().code, "INVALID_ARGUMENT");
}

TEST_F(ContainersTest, LeaveNoZombiesWhereTheyShareThePidNamespace) {
  Json config = Config({"/bin/sh", "-c", "/bin/sh -c 'sleep 0.05 & echo $!'; cat"});
  config["linux"]["namespaces"].erase(0);
  auto stand_in = Start(config);
  stand_in->WaitForOutput("\n");
  const pid_t orphan = std::stoi(stand_in->output());
  WaitUntil([&] {
    service_->ReapOrphans();
    return kill(orphan, 0) != 0;
  });
  EXPECT_EQ(Status(), "running");
  stand_in->CloseInput();
  stand_in->WaitForExit();
  service_->ReapOrphans();
  EXPECT_EQ(stand_in->code(), 0) << "its own end is not an orphan's";
}

TEST_F(ContainersTest, AreServedToProcessOne) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  std::jthread server([this, &ends] { ServeContainers(base::UniqueFd(ends[1]), *service_); });
  ContainerClient client{base::UniqueFd(ends[0])};
  std::vector<Message> replies;
  const auto ask = [&](std::string_view method, const std::string& id, Message request = {}) {
    request.Set(ipc::kMethod, std::string(method)).Set(call::kContainer, id);
    client.Send(std::move(request), [&](Message reply) { replies.push_back(std::move(reply)); });
  };
  const auto wait = [&](size_t count) {
    while (replies.size() < count) {
      pollfd polled = {.fd = client.fd(), .events = client.Events(), .revents = 0};
      ASSERT_EQ(poll(&polled, 1, 60'000), 1);
      ASSERT_TRUE(client.Move());
    }
  };
  FakeStandIn stand_in(AddPort("p"), "c", false);
  ask(call::kCreate, "c",
      Message()
          .Set(call::kConfig, Config({"/bin/sh", "-c", "exit 3"}).dump())
          .Set(call::kPort, std::string("p")));
  wait(1);
  EXPECT_GT(*replies[0].FindNumber(call::kPid), 0);
  EXPECT_FALSE(replies[0].FindNumber(kCallId));
  ask(call::kStart, "c");
  ask(call::kState, "none");
  wait(3);
  const Message& refused = replies[1].FindText(ipc::kError) != nullptr ? replies[1] : replies[2];
  EXPECT_EQ(*refused.FindText(ipc::kErrorCode), "NOT_FOUND");
  stand_in.WaitForExit();
  EXPECT_EQ(stand_in.code(), 3);

  client.Send(Message().Set(ipc::kMethod, std::string("x")), [&](Message reply) {
    EXPECT_EQ(*reply.FindText(ipc::kErrorCode), "INVALID_ARGUMENT");
    replies.push_back(std::move(reply));
  });
  wait(4);
  shutdown(client.fd(), SHUT_RDWR);
  ask(call::kState, "c");
  EXPECT_FALSE(client.Move());
  EXPECT_EQ(*replies.back().FindText(ipc::kErrorCode), "UNAVAILABLE");
}

TEST_F(ContainersTest, FindTheirPortsByName) {
  const std::string classes = folder_ + "/class", devices = folder_ + "/dev";
  std::filesystem::create_directories(classes + "/vport0p1");
  std::filesystem::create_directories(classes + "/vport0p2");
  std::filesystem::create_directories(devices);
  std::ofstream(classes + "/vport0p1/name") << "one\n";
  std::ofstream(classes + "/vport0p2/name") << "two\n";
  std::ofstream(devices + "/vport0p2") << "content";
  const auto port = OpenVirtioPort(classes, devices, "two", ipc::DeadlineIn(kTestTime));
  ASSERT_TRUE(port.ok()) << port.failure().text;
  std::string content;
  EXPECT_EQ(base::ReadAll(port->get(), 100, content), 0);
  EXPECT_EQ(content, "content");
  const auto none = OpenVirtioPort(classes, devices, "three", ipc::DeadlineIn({}));
  EXPECT_THAT(none.failure().text, HasSubstr("no port 'three'"));
  // Its device comes later than its name.
  std::jthread udev([&] { std::ofstream(devices + "/vport0p1") << "late"; });
  EXPECT_TRUE(OpenVirtioPort(classes, devices, "one", ipc::DeadlineIn(kTestTime)).ok());
}

TEST_F(ContainersTest, WithoutAStandInInTimeAreKilled) {
  service_.reset();
  service_.emplace(ContainerService::Options{
      .runc = {.root = folder_ + "/runc"},
      .folder = folder_ + "/bundles",
      .open_port = [this](const std::string& port) -> ipc::Result<base::UniqueFd> {
        return std::move(ports_[port]);
      },
      .has_ports = false,
      .hello_time = std::chrono::milliseconds(50)});
  const base::UniqueFd silent = AddPort("p");
  MustHandle(
      call::kCreate,
      Message().Set(call::kConfig, Config({"/bin/sh"}).dump()).Set(call::kPort, std::string("p")));
  WaitUntil([&] { return Status() == "stopped"; });
}

}  // namespace
}  // namespace berth::guest
