// Containers in a real guest, and what the guest has to do for them, as the handler asks for it
// over the control port. The containers' root is a volume.
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "base/ipc/container_call.h"
#include "base/ipc/guest_call.h"
#include "base/ipc/stream_peer.h"
#include "base/json.h"
#include "crust/machine/guest_fixture.h"
#include "crust/machine/machine.h"

namespace berth::crust {
namespace {

namespace calls = base::ipc::guest;
namespace container = base::ipc::container;
using base::Json;
using base::StatusCode;
using base::StatusOr;
using base::ipc::Message;
using testing::HasSubstr;

constexpr std::chrono::minutes kTestTime(3);

// The host's end of a process's stream.
class StandIn {
 public:
  StandIn(const std::string& socket, const std::string& name)
      : peer_({.line = Connect(socket), .name = name}) {
    signal(SIGPIPE, SIG_IGN);
    int input[2], output[2];
    EXPECT_EQ(pipe2(input, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(output, O_CLOEXEC | O_NONBLOCK), 0);
    peer_.AddSource(base::ipc::Channel::kInput, base::UniqueFd(input[0]));
    peer_.AddSink(base::ipc::Channel::kErrors,
                  base::UniqueFd(fcntl(output[1], F_DUPFD_CLOEXEC, 3)));
    peer_.AddSink(base::ipc::Channel::kOutput, base::UniqueFd(output[1]));
    input_ = base::UniqueFd(input[1]);
    output_fd_ = base::UniqueFd(output[0]);
  }

  void Input(const std::string& text) {
    ASSERT_EQ(write(input_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ASSERT_TRUE(peer_.Move({}).ok());
  }
  void WaitForOutput(const std::string& text) {
    Pump([&] { return output_.find(text) != std::string::npos; });
  }
  // Waits for the exit code and all output.
  int WaitForExit() {
    Pump([&] { return code_ >= 0 && ended_; });
    return code_;
  }
  const std::string& output() const { return output_; }

 private:
  static base::UniqueFd Connect(const std::string& path) {
    base::UniqueFd line(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(connect(line.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0)
        << path;
    return line;
  }
  void Pump(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + kTestTime;
    while (!done()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "waited in vain after " << output_;
      std::vector<pollfd> polled = {{.fd = output_fd_.get(), .events = POLLIN, .revents = 0}};
      peer_.AddPolled(polled);
      poll(polled.data(), polled.size(), 1000);
      const auto moved = peer_.Move(std::span<const pollfd>(polled).subspan(1));
      ASSERT_TRUE(moved.ok()) << moved.text;
      char bytes[4096];
      ssize_t size = 0;
      while (!ended_ && (size = read(output_fd_.get(), bytes, sizeof bytes)) > 0) {
        output_.append(bytes, static_cast<size_t>(size));
      }
      if (!ended_ && size == 0) {
        ended_ = true;
        output_fd_.Reset();
      }
      while (const auto frame = peer_.NextControl()) {
        if (frame->type == base::ipc::FrameType::kExit) code_ = static_cast<int>(frame->first);
      }
    }
  }

  base::ipc::StreamPeer peer_;
  base::UniqueFd input_, output_fd_;
  std::string output_;
  bool ended_ = false;
  int code_ = -1;
};

class GuestContainersTest : public GuestFixture {
 protected:
  void SetUp() override {
    // An emulated guest beside other tests may be slow.
    limits_.unmount = std::chrono::minutes(4);
    GuestFixture::SetUp();
  }

  // Writes the root of containers into the volume, and files to which subPaths lead.
  void FillVolume(const platform::LoopDevice& device) {
    OnHost(device, "ext4", [](const std::string& root) {
      namespace fs = std::filesystem;
      for (const char* folder :
           {"rootfs/bin", "rootfs/proc", "rootfs/dev", "rootfs/data", "data"}) {
        fs::create_directories(fs::path(root) / folder);
      }
      chmod(root.c_str(), 0751);
      fs::copy_file("/bin/busybox", root + "/rootfs/bin/busybox");
      for (const char* name : {"sh", "cat", "hostname", "ls", "sleep", "kill"}) {
        fs::create_symlink("busybox", root + "/rootfs/bin/" + name);
      }
      std::ofstream(root + "/rootfs/file") << "";
      std::ofstream(root + "/file") << "of the volume\n";
      fs::create_symlink("/proc", root + "/absolute");
      fs::create_symlink("../../proc", root + "/relative");
      fs::create_symlink("data", root + "/within");
      ASSERT_EQ(mknod((root + "/device").c_str(), S_IFCHR | 0666, makedev(1, 3)), 0);
    });
  }
  // Takes up the machine of the sandbox, whose sockets nobody else may use meanwhile.
  void OpenMachine() {
    const auto folder = std::filesystem::directory_iterator(folder_ / "machines");
    records_.emplace(Records());
    machine_.emplace(settings_, *records_, "s1", MachinePaths(folder->path()));
    const auto state = machine_->FindState();
    ASSERT_OK(state);
    ASSERT_EQ(*state, MachineState::kRunning);
  }
  StatusOr<Message> Call(std::string_view method, Message request) {
    return machine_->CallGuest(request.Set(base::ipc::kMethod, std::string(method)),
                               std::chrono::steady_clock::now() + kTestTime);
  }
  StatusOr<std::string> Graft(const std::string& path, const std::string& volume = "v0") {
    ASSIGN_OR_RETURN(
        const Message reply,
        Call(calls::kGraft, Message().Set(calls::kName, volume).Set(calls::kPath, path)));
    const std::string* place = reply.FindText(calls::kPlace);
    return place != nullptr ? *place : std::string("no place");
  }
  std::string MustGraft(const std::string& path) {
    const auto place = Graft(path);
    EXPECT_TRUE(place.ok()) << path << ": " << place.status();
    return place.ok() ? *place : "";
  }
  void ExpectNoGraft(const std::string& path, StatusCode code) {
    const auto place = Graft(path);
    EXPECT_EQ(place.status().code(), code) << path << ": " << place.status();
  }

  Json Config(const std::string& script) {
    Json config;
    config["ociVersion"] = "1.0.2";
    config["root"] = {{"path", MustGraft("rootfs")}};
    config["process"] = {{"args", {"/bin/sh", "-c", script}},
                         {"cwd", "/"},
                         {"env", {"PATH=/bin"}},
                         {"user", {{"uid", 0}, {"gid", 0}}},
                         {"terminal", false}};
    config["mounts"] = {{{"destination", "/proc"}, {"type", "proc"}, {"source", "proc"}}};
    config["linux"] = {{"cgroupsPath", "/berth/" + std::to_string(++containers_)},
                       {"resources", {{"memory", {{"limit", 64 << 20}}}}},
                       {"namespaces", {{{"type", "mount"}}}}};
    return config;
  }
  static void Bind(Json& config, const std::string& source, const std::string& destination) {
    config["mounts"].push_back({{"destination", destination},
                                {"type", "bind"},
                                {"source", source},
                                {"options", {"rbind", "rw"}}});
  }
  // Creates and starts a container.
  std::unique_ptr<StandIn> Run(const std::string& id, const Json& config) {
    const auto socket = machine_->AddPort(id);
    EXPECT_TRUE(socket.ok()) << socket.status();
    if (!socket.ok()) return nullptr;
    const auto created = Call(container::kCreate, Message()
                                                      .Set(container::kContainer, id)
                                                      .Set(container::kConfig, config.dump())
                                                      .Set(container::kPort, id)
                                                      .Set(container::kTerminal, 0));
    EXPECT_TRUE(created.ok()) << created.status();
    if (!created.ok()) return nullptr;
    auto stand_in = std::make_unique<StandIn>(*socket, id);
    const auto started = Call(container::kStart, Message().Set(container::kContainer, id));
    EXPECT_TRUE(started.ok()) << started.status();
    return stand_in;
  }

  std::optional<MachineRecords> records_;
  std::optional<Machine> machine_;
  int containers_ = 0;
};

TEST_F(GuestContainersTest, AVolumesFilesAreTheContainersAndItIsFreeWhenTheyAreGone) {
  const platform::LoopDevice device = MakeDevice("ext4");
  FillVolume(device);
  const MountPlan plan = Plan(device, "ext4");
  ASSERT_OK(Open()->PublishVolume(plan, {}));
  ProcessOf();
  OpenMachine();

  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(Call(
        calls::kBegin,
        Message()
            .Set(calls::kHostname, std::string("pod-a"))
            .Set(calls::kSysctls, base::ipc::Strings{"net.ipv4.ip_forward=1", "kernel/shmmni=4000"})
            .Set(calls::kShare, std::string())));
  }
  for (const char* sysctl : {"kernel.no_such=1", "kernel/../../self/comm=x", "kernel.shmmni"}) {
    const auto begun =
        Call(calls::kBegin, Message().Set(calls::kSysctls, base::ipc::Strings{sysctl}));
    EXPECT_EQ(begun.status().code(), StatusCode::kInvalidArgument) << sysctl;
  }

  const auto serial = machine_->FindDisk("v0");
  ASSERT_OK(serial);
  const auto numbers = Call(calls::kDisk, Message().Set(calls::kSerial, serial->value_or("none")));
  ASSERT_OK(numbers);
  EXPECT_EQ(numbers->FindNumber(calls::kMajor), 8);
  EXPECT_EQ(numbers->FindNumber(calls::kMinor), 0);
  const auto none = Call(calls::kDisk, Message().Set(calls::kSerial, std::string("none")));
  EXPECT_EQ(none.status().code(), StatusCode::kUnavailable);

  EXPECT_EQ(MustGraft(""), calls::VolumePath("v0"));
  const std::string made = MustGraft("data/a/b"), file = MustGraft("file");
  EXPECT_NE(made, file);
  EXPECT_EQ(MustGraft("data/a/b"), made);
  EXPECT_NE(MustGraft("within/c"), made);
  for (const char* path : {"absolute/self", "relative", "../v0", "/data", "device"}) {
    ExpectNoGraft(path, StatusCode::kPermissionDenied);
  }
  EXPECT_EQ(Graft("data", "v9").status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(Graft("file/below").ok());

  Json config =
      Config("hostname; cat /proc/sys/net/ipv4/ip_forward /file; echo x >/data/made; exit 7");
  Bind(config, made, "/data");
  Bind(config, file, "/file");
  auto first = Run("c1", config);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->WaitForExit(), 7);
  EXPECT_EQ(first->output(), "pod-a\n1\nof the volume\n");
  ASSERT_OK(Call(container::kDelete, Message().Set(container::kContainer, std::string("c1"))));
  EXPECT_EQ(Call(container::kState, Message().Set(container::kContainer, std::string("c1")))
                .status()
                .code(),
            StatusCode::kNotFound);

  // It shares the guest's processes, and its parent is the one that serves the containers.
  auto second = Run("c2", Config("echo ready; read line; kill -9 $PPID; sleep 3600"));
  ASSERT_NE(second, nullptr);
  second->WaitForOutput("ready");
  machine_.reset();
  const base::Status busy = Open()->UnpublishVolume(plan);
  EXPECT_EQ(busy.code(), StatusCode::kFailedPrecondition) << busy;
  EXPECT_THAT(std::string(base::Message(busy)), HasSubstr("in use in the guest"));
  EXPECT_FALSE(IsFree(device));

  second->Input("\n");
  OpenMachine();
  const Message state = Message().Set(container::kContainer, std::string("c2"));
  const auto deadline = std::chrono::steady_clock::now() + kTestTime;
  StatusOr<Message> gone = Call(container::kState, state);
  while (gone.ok() && std::chrono::steady_clock::now() < deadline) {
    gone = Call(container::kState, state);
  }
  EXPECT_EQ(gone.status().code(), StatusCode::kUnavailable) << gone.status();
  ASSERT_OK(machine_->Ping());
  machine_.reset();
  // The processes were killed that nobody serves any more, so nothing uses the volume.
  ASSERT_OK(Open()->UnpublishVolume(plan));
  EXPECT_TRUE(IsFree(device));
  ASSERT_OK(Open()->RemoveSandbox());
  OnHost(device, "ext4", [](const std::string& root) {
    EXPECT_TRUE(std::filesystem::exists(root + "/data/a/b/made"));
    struct stat st = {};
    ASSERT_EQ(stat((root + "/data/a").c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 07777, 0751u) << "a folder is made with the mode of the volume's root";
  });
}

}  // namespace
}  // namespace berth::crust
