// berth-oci as containerd's shim calls it, for containers that run in a guest: their processes are
// those of a real runc, and the handler between both is one of this test.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

#include "base/files/whole_file.h"
#include "base/ipc/container_call.h"
#include "base/ipc/crust_call.h"
#include "base/ipc/server.h"
#include "base/json.h"
#include "guest/containers/container_service.h"
#include "guest/containers/fake_stand_in.h"

namespace berth::guest {
namespace {

namespace ipc = base::ipc;
namespace call = base::ipc::container;
namespace crust = base::ipc::crust;
using base::Json;
using base::UniqueFd;
using testing::HasSubstr;

struct PipeEnds {
  PipeEnds() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    read.Reset(ends[0]);
    write.Reset(ends[1]);
  }
  UniqueFd read, write;
};

// Reads to the end of the pipe.
std::string ReadToEnd(const UniqueFd& fd) {
  std::string text;
  pollfd polled = {.fd = fd.get(), .events = POLLIN, .revents = 0};
  char bytes[65536];
  while (poll(&polled, 1, 60'000) == 1) {
    const ssize_t n = read(fd.get(), bytes, sizeof(bytes));
    if (n <= 0) return text;
    text.append(bytes, static_cast<size_t>(n));
  }
  ADD_FAILURE() << "the pipe does not end after '" << text << "'";
  return text;
}

std::string ReadUntil(const UniqueFd& fd, const std::string& end) {
  std::string text;
  pollfd polled = {.fd = fd.get(), .events = POLLIN, .revents = 0};
  while (text.find(end) == std::string::npos && poll(&polled, 1, 60'000) == 1) {
    char byte;
    if (read(fd.get(), &byte, 1) <= 0) break;
    text += byte;
  }
  EXPECT_THAT(text, HasSubstr(end));
  return text;
}

class StandInTest : public testing::Test {
 protected:
  void SetUp() override {
    signal(SIGPIPE, SIG_IGN);
    char name[] = "/tmp/berth-stand-in-XXXXXX";
    folder_ = mkdtemp(name);
    MakeBusyboxRoot(folder_ + "/rootfs");
    program_ = folder_ + "/berth-oci";
    const auto self = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    std::filesystem::copy_file(self / "berth-oci", program_);
    std::ofstream(program_ + ".json")
        << Json{{"socket", folder_ + "/oci.sock"}, {"run", folder_}, {"pods", "all"}};
    service_.emplace(
        ContainerService::Options{.runc = {.root = folder_ + "/guest-runc"},
                                  .folder = folder_ + "/guest",
                                  .open_port = [this](const std::string&) -> ipc::Result<UniqueFd> {
                                    return std::move(guest_end_);
                                  },
                                  .has_ports = false});
    StartHandler();
  }
  void TearDown() override {
    server_.reset();
    service_.reset();
    if (machine_ > 0) {
      kill(machine_, SIGKILL);
      waitpid(machine_, nullptr, 0);
    }
    RemoveCgroups(Group());
    std::filesystem::remove_all(folder_);
  }
  std::string Group() const { return std::filesystem::path(folder_).filename(); }

  // The handler, as far as the containers of a guest need it.
  void StartHandler() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = folder_ + "/oci.sock";
    memcpy(address.sun_path, path.data(), path.size());
    UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(listen(listener.get(), 8), 0);
    std::map<std::string, ipc::Method> methods;
    methods[std::string(crust::kCreate)] = [this](const ipc::Request& request) {
      return HandleCreate(request);
    };
    methods[std::string(crust::kEnd)] = [this](const ipc::Request&) -> base::StatusOr<ipc::Reply> {
      ++ended_sandboxes_;
      return ipc::Reply(ipc::Message());
    };
    for (const std::string_view method :
         {call::kStart, call::kExec, call::kDelete, call::kState, call::kProcesses, call::kStats,
          call::kUpdate, call::kPause, call::kResume}) {
      methods[std::string(method)] = [this](const ipc::Request& request) {
        return HandOn(request.message, request.message.FindText(call::kSpec) != nullptr);
      };
    }
    server_.emplace(ipc::Server::Options{
        .name = "handler", .listener = std::move(listener), .methods = std::move(methods)});
  }
  base::StatusOr<ipc::Reply> HandOn(const ipc::Message& request, bool has_stream) {
    UniqueFd host_end;
    if (has_stream) {
      int ends[2];
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
      host_end.Reset(ends[0]);
      guest_end_.Reset(ends[1]);
    }
    const auto answer = service_->Handle(request);
    if (!answer.ok()) {
      const bool gone = answer.failure().code == "NOT_FOUND";
      return base::Error(gone ? base::StatusCode::kNotFound : base::StatusCode::kFailedPrecondition,
                         "{}", answer.failure().text);
    }
    ipc::Reply reply(*answer);
    if (has_stream) reply.descriptors.push_back(std::move(host_end));
    return reply;
  }
  base::StatusOr<ipc::Reply> HandleCreate(const ipc::Request& request) {
    if (*request.message.FindText(crust::kKind) == "sandbox") {
      StartMachine();
      ipc::Reply reply(ipc::Message().Set(crust::kGuest, 1));
      reply.descriptors.emplace_back(static_cast<int>(syscall(SYS_pidfd_open, machine_, 0)));
      return reply;
    }
    std::string config;
    EXPECT_EQ(base::ReadAll(request.descriptors.at(0).get(), 1 << 20, config), 0);
    auto reply = HandOn(ipc::Message()
                            .Set(ipc::kMethod, std::string(call::kCreate))
                            .Set(call::kContainer, *request.message.FindText(call::kContainer))
                            .Set(call::kTerminal, *request.message.FindNumber(call::kTerminal))
                            .Set(call::kConfig, config),
                        true);
    if (reply.ok()) reply->message.Set(crust::kGuest, 1);
    return reply;
  }
  void StartMachine() {
    std::string words[] = {"/bin/sleep", "1000"};
    char* argv[] = {words[0].data(), words[1].data(), nullptr};
    ASSERT_EQ(posix_spawn(&machine_, argv[0], nullptr, nullptr, argv, nullptr), 0);
  }

  // Runs berth-oci with these standard descriptors, and returns its exit code.
  int Run(const std::vector<std::string>& arguments, int input = -1, int output = -1,
          int errors = -1) {
    std::vector<std::string> words = {
        program_, "--root", folder_ + "/root", "--log", folder_ + "/log", "--log-format", "json"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const int given[] = {input, output, errors};
    for (int fd = 0; fd < 3; ++fd) {
      posix_spawn_file_actions_adddup2(&actions, given[fd] < 0 ? null.get() : given[fd], fd);
    }
    pid_t pid = -1;
    EXPECT_EQ(posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::string Ask(const std::vector<std::string>& arguments, int input = -1) {
    PipeEnds out;
    EXPECT_EQ(Run(arguments, input, out.write.get()), 0) << Log();
    out.write.Reset();
    return ReadToEnd(out.read);
  }
  std::string Log() const {
    std::string text;
    static_cast<void>(base::ReadWholeFile(folder_ + "/log", 1 << 20, text));
    return text;
  }
  std::string Bundle(const std::string& id, Json config, const std::string& kind) {
    const std::string bundle = folder_ + "/bundles/" + id;
    std::filesystem::create_directories(bundle);
    config["annotations"] = {{std::string(crust::kKindAnnotation), kind},
                             {std::string(crust::kSandboxAnnotation), "s"},
                             {std::string(crust::kPodUidAnnotation), "u"}};
    std::ofstream(bundle + "/config.json") << config;
    return bundle;
  }
  // Creates container "c" as the shim does, and returns the pid that was written.
  pid_t Create(const Json& config, const std::vector<std::string>& flags = {}) {
    const std::string bundle = Bundle("c", config, "container");
    std::vector<std::string> words = {"create", "--bundle", bundle, "--pid-file", bundle + "/pid"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.push_back("c");
    const bool terminal = !flags.empty();
    EXPECT_EQ(Run(words, terminal ? -1 : in_.read.get(), terminal ? -1 : out_.write.get(),
                  terminal ? -1 : err_.write.get()),
              0)
        << Log();
    in_.read.Reset();
    out_.write.Reset();
    err_.write.Reset();
    return ReadPid(bundle + "/pid");
  }
  static pid_t ReadPid(const std::string& path) {
    pid_t pid = 0;
    std::ifstream(path) >> pid;
    EXPECT_GT(pid, 0);
    return pid;
  }
  Json Shell(const std::string& script) const {
    return MakeConfig(folder_ + "/rootfs", Group(), {"/bin/sh", "-c", script});
  }
  pid_t Start(const std::string& script) {
    const pid_t pid = Create(Shell(script));
    EXPECT_EQ(Run({"start", "c"}), 0) << Log();
    return pid;
  }
  // The exit code of a stand-in, of which this process is the reaper as the shim is.
  static int WaitFor(pid_t pid) {
    const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    pollfd polled = {.fd = process.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&polled, 1, 60'000), 1) << "it does not end";
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, WNOHANG), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  std::string Status() { return Json::parse(Ask({"state", "c"}))["status"]; }
  pid_t GuestPid() {
    const auto state = service_->Handle(ipc::Message()
                                            .Set(ipc::kMethod, std::string(call::kState))
                                            .Set(call::kContainer, std::string("c")));
    return state.ok() ? static_cast<pid_t>(*state->FindNumber(call::kPid)) : 0;
  }

  std::string folder_, program_;
  UniqueFd guest_end_;
  pid_t machine_ = -1;
  std::atomic<int> ended_sandboxes_ = 0;
  PipeEnds in_, out_, err_;
  std::optional<ContainerService> service_;
  std::optional<ipc::Server> server_;
};

TEST_F(StandInTest, IsForContainerdWhatTheProcessInTheGuestIs) {
  const pid_t pid = Create(Shell("cat; echo err >&2; exit 7"));
  EXPECT_EQ(Status(), "created");
  EXPECT_EQ(Json::parse(Ask({"state", "c"}))["pid"], pid);
  EXPECT_EQ(Run({"start", "c"}), 0);
  EXPECT_EQ(Status(), "running");
  EXPECT_EQ(Run({"delete", "c"}), 1);
  EXPECT_THAT(Log(), HasSubstr("not stopped"));
  ASSERT_EQ(write(in_.write.get(), "abc", 3), 3);
  EXPECT_EQ(ReadUntil(out_.read, "abc"), "abc");
  in_.write.Reset();
  EXPECT_EQ(WaitFor(pid), 7);
  EXPECT_EQ(ReadToEnd(out_.read), "");
  EXPECT_EQ(ReadToEnd(err_.read), "err\n");
  EXPECT_EQ(Status(), "stopped");
  EXPECT_EQ(Run({"kill", "c", "9"}), 1);
  EXPECT_THAT(Log(), HasSubstr("container not running"));
  EXPECT_EQ(Run({"delete", "c"}), 0) << Log();
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/root"));
  EXPECT_EQ(GuestPid(), 0);
}

TEST_F(StandInTest, EndsAlthoughNobodyReadsAndTheRestOfTheOutputFollows) {
  const pid_t pid = Start("head -c 300000 /dev/zero; exit 4");
  EXPECT_EQ(WaitFor(pid), 4);
  EXPECT_EQ(ReadToEnd(out_.read).size(), 300000u);
  EXPECT_EQ(Run({"delete", "c"}), 0) << Log();
}

TEST_F(StandInTest, PassesSignalsOn) {
  pid_t pid = Start("trap 'echo got; exit 5' TERM; echo ready; while :; do sleep 0.05; done");
  ReadUntil(out_.read, "ready\n");
  EXPECT_EQ(Run({"kill", "c", "SIGTERM"}), 0) << Log();
  EXPECT_EQ(WaitFor(pid), 5);
  EXPECT_EQ(ReadToEnd(out_.read), "got\n");
  EXPECT_EQ(Run({"delete", "c"}), 0) << Log();

  in_ = PipeEnds();
  out_ = PipeEnds();
  err_ = PipeEnds();
  pid = Start("trap '' TERM; echo ready; while :; do sleep 1; done");
  ReadUntil(out_.read, "ready\n");
  EXPECT_EQ(Run({"kill", "c", "NONE"}), 1);
  EXPECT_EQ(Run({"kill", "--all", "c", "9"}), 0) << Log();
  EXPECT_EQ(WaitFor(pid), 137);
}

TEST_F(StandInTest, TakesItsProcessAlongWhenItDies) {
  const pid_t pid = Start("echo ready; while :; do sleep 1; done");
  ReadUntil(out_.read, "ready\n");
  const pid_t in_guest = GuestPid();
  kill(pid, SIGKILL);
  EXPECT_EQ(WaitFor(pid), -SIGKILL);
  WaitUntil([&] { return kill(in_guest, 0) != 0; });
  EXPECT_EQ(Status(), "stopped");
  EXPECT_EQ(Run({"delete", "c"}), 0) << Log();
}

TEST_F(StandInTest, OfAContainerThatRunsEndsWithAForcedDelete) {
  const pid_t pid = Start("trap '' TERM; echo ready; while :; do sleep 1; done");
  ReadUntil(out_.read, "ready\n");
  EXPECT_EQ(Run({"delete", "--force", "c"}), 0) << Log();
  EXPECT_NE(WaitFor(pid), 0);
  EXPECT_EQ(GuestPid(), 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/root"));
}

// A socket at which the shim waits for the master of a terminal.
class ShimConsole {
 public:
  explicit ShimConsole(const std::string& path) {
    auto listening = ConsoleSocket::Listen(path);
    EXPECT_TRUE(listening.ok()) << listening.failure().text;
    socket_ = std::move(*listening);
  }
  UniqueFd Receive() {
    auto master = socket_.Receive(ipc::DeadlineIn(kTestTime));
    EXPECT_TRUE(master.ok()) << master.failure().text;
    return std::move(*master);
  }

 private:
  ConsoleSocket socket_;
};

TEST_F(StandInTest, RelaysATerminalAndItsSize) {
  Json config = Shell(
      "trap 'stty size; exit 6' WINCH; echo ready; read line; echo \"<$line>\"; "
      "while :; do sleep 0.05; done");
  config["process"]["terminal"] = true;
  ShimConsole console(folder_ + "/console.sock");
  const pid_t pid = Create(config, {"--console-socket", folder_ + "/console.sock"});
  const UniqueFd master = console.Receive();
  EXPECT_EQ(Run({"start", "c"}), 0) << Log();
  ReadUntil(master, "ready\r\n");
  ASSERT_EQ(write(master.get(), "typed\n", 6), 6);
  EXPECT_EQ(ReadUntil(master, "<typed>\r\n"), "typed\r\n<typed>\r\n");
  const winsize size = {.ws_row = 33, .ws_col = 77, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(ioctl(master.get(), TIOCSWINSZ, &size), 0);
  EXPECT_EQ(ReadUntil(master, "\r\n"), "33 77\r\n");
  EXPECT_EQ(WaitFor(pid), 6);
}

TEST_F(StandInTest, StandsInForFurtherProcesses) {
  Start("echo ready; while :; do sleep 1; done");
  ReadUntil(out_.read, "ready\n");
  const auto exec = [&](const std::string& script, const PipeEnds& in, const PipeEnds& out) {
    std::ofstream(folder_ + "/process.json") << Shell(script)["process"];
    EXPECT_EQ(Run({"exec", "--process", folder_ + "/process.json", "--detach", "--pid-file",
                   folder_ + "/exec.pid", "c"},
                  in.read.get(), out.write.get()),
              0)
        << Log();
    return ReadPid(folder_ + "/exec.pid");
  };
  PipeEnds in, out;
  pid_t pid = exec("cat; exit 9", in, out);
  in.read.Reset();
  out.write.Reset();
  ASSERT_EQ(write(in.write.get(), "x", 1), 1);
  in.write.Reset();
  EXPECT_EQ(WaitFor(pid), 9);
  EXPECT_EQ(ReadToEnd(out.read), "x");

  // The shim sends signals to processes of exec by itself.
  PipeEnds in2, out2;
  pid = exec("trap 'exit 3' TERM; echo go; while :; do sleep 0.05; done", in2, out2);
  ReadUntil(out2.read, "go\n");
  kill(pid, SIGTERM);
  EXPECT_EQ(WaitFor(pid), 3);
  PipeEnds in3, out3;
  pid = exec("echo go; while :; do sleep 0.05; done", in3, out3);
  ReadUntil(out3.read, "go\n");
  const pid_t init = GuestPid();
  WaitUntil([&] { return CountProcesses(init) == 2; });
  kill(pid, SIGKILL);
  EXPECT_EQ(WaitFor(pid), -SIGKILL);
  WaitUntil([&] { return CountProcesses(init) == 1; });
  EXPECT_EQ(Status(), "running");

  PipeEnds out4;
  std::ofstream(folder_ + "/process.json") << Shell("echo foreground; exit 8")["process"];
  EXPECT_EQ(Run({"exec", "--process", folder_ + "/process.json", "c"}, -1, out4.write.get()), 8);
  out4.write.Reset();
  EXPECT_EQ(ReadToEnd(out4.read), "foreground\n");
}

TEST_F(StandInTest, LeavesTheRestToRuncInTheGuest) {
  Start("echo ready; while :; do sleep 1; done");
  ReadUntil(out_.read, "ready\n");
  EXPECT_THAT(Ask({"ps", "--format", "json", "c"}), HasSubstr(std::to_string(GuestPid())));
  EXPECT_EQ(Run({"pause", "c"}), 0) << Log();
  EXPECT_EQ(Status(), "paused");
  EXPECT_EQ(Run({"resume", "c"}), 0) << Log();
  PipeEnds limits;
  const std::string text = R"({"memory":{"limit":67108864}})";
  ASSERT_EQ(write(limits.write.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  limits.write.Reset();
  Ask({"update", "--resources=-", "c"}, limits.read.get());
  EXPECT_THAT(Ask({"events", "--stats", "c"}), HasSubstr("67108864"));
  EXPECT_EQ(Run({"checkpoint", "c"}), 1);
  EXPECT_THAT(Log(), HasSubstr("has no 'checkpoint'"));
}

TEST_F(StandInTest, OfAContainerThatCannotBeCreatedIsNotLeftBehind) {
  Json config = Shell("");
  config["process"]["args"] = {"/none"};
  config["root"]["path"] = folder_ + "/no-rootfs";
  const std::string bundle = Bundle("c", config, "container");
  EXPECT_EQ(Run({"create", "--bundle", bundle, "--pid-file", bundle + "/pid", "c"}), 1);
  EXPECT_THAT(Log(), HasSubstr("no-rootfs"));
  EXPECT_FALSE(std::filesystem::exists(bundle + "/pid"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/root/c"));
  EXPECT_EQ(GuestPid(), 0);
}

TEST_F(StandInTest, OfASandboxEndsWithItsMachine) {
  const std::string bundle = Bundle("s", Shell("true"), "sandbox");
  const std::vector<std::string> create = {"create",     "--bundle",      bundle,
                                           "--pid-file", bundle + "/pid", "s"};
  ASSERT_EQ(Run(create), 0) << Log();
  EXPECT_EQ(Run(create), 1);
  EXPECT_THAT(Log(), HasSubstr("already exists"));
  EXPECT_EQ(Run({"start", "s"}), 0);
  EXPECT_EQ(Json::parse(Ask({"state", "s"}))["status"], "running");
  kill(machine_, SIGKILL);
  EXPECT_EQ(WaitFor(ReadPid(bundle + "/pid")), 137);
  EXPECT_EQ(Json::parse(Ask({"state", "s"}))["status"], "stopped");
  EXPECT_EQ(Run({"delete", "s"}), 0) << Log();
  EXPECT_EQ(ended_sandboxes_, 1);

  waitpid(machine_, nullptr, 0);
  ASSERT_EQ(Run(create), 0) << Log();
  const pid_t pid = ReadPid(bundle + "/pid");
  EXPECT_EQ(Run({"kill", "s", "TERM"}), 0);
  EXPECT_EQ(WaitFor(pid), 143);
  EXPECT_EQ(Run({"delete", "--force", "s"}), 0) << Log();
  EXPECT_EQ(ended_sandboxes_, 2);
}

}  // namespace
}  // namespace berth::guest
