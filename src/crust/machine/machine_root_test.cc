// Real guests with files that virtiofsd shares, and with the network of a sandbox.
#include <arpa/inet.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <thread>

#include "base/fault.h"
#include "crust/containers/shared_folder.h"
#include "crust/machine/cpio.h"
#include "crust/machine/guest_fixture.h"
#include "crust/machine/machine.h"
#include "crust/machine/network_fixture.h"
#include "crust/machine/sandbox_network.h"
#include "crust/mount_namespace.h"
#include "platform/processes/marked_processes.h"

namespace berth::crust {
namespace {

using testing::HasSubstr;

// The first program of a guest that looks at its share, in place of berth-guest. It makes a file in
// a folder of the host, waits until the host has shared another file, writes the words of both into
// the folder, and ends, with which its machine ends.
constexpr const char* kReader = R"sh(#!/bin/busybox sh
PATH=/bin
for module in $(busybox cat /modules/boot.list /modules/virtiofs.list); do
  busybox insmod $module
done
busybox mount -t virtiofs berth /shared || exit
: >/shared/c1/m2/ready
left=6000
while [ ! -e /shared/c1/m1 ] && [ $left -gt 0 ]; do
  busybox usleep 20000
  left=$((left - 1))
done
busybox cat /shared/c1/m0 /shared/c1/m1 >/shared/c1/m2/answer
)sh";

class MachineTest : public GuestFixture {
 protected:
  void SetUp() override {
    GuestFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    for (const char* name : {"pins", "share"}) {
      std::filesystem::create_directories(folder_ / name);
    }
    ASSERT_OK(PreparePins(*mounter_, folder_ / "pins"));
    auto shared = SharedFolder::Open(*mounter_, folder_ / "pins/s", folder_ / "share");
    ASSERT_OK(shared);
    shared_ = *std::move(shared);
    records_.emplace(Records());
  }
  void TearDown() override {
    if (records_.has_value()) {
      EXPECT_TRUE(Find().End().ok());
    }
    shared_ = SharedFolder();
    EXPECT_TRUE(UnpinNamespace(*mounter_, folder_ / "pins/s").ok());
    umount2((folder_ / "pins").c_str(), MNT_DETACH);
    GuestFixture::TearDown();
  }

  // As a handler that knows nothing of earlier ones.
  Machine Find() {
    return Machine(settings_, *records_, "s1", MachinePaths(folder_ / "machines/m"));
  }
  MachineNeeds Needs() {
    return {.share = MachineShare{.space = shared_.space().get(), .folder = folder_ / "share"}};
  }
  std::vector<pid_t> ProcessesOf(const MachineRecord& record) {
    return platform::ListMarkedProcesses(fmt::format("{}={}", kMachineMark, record.mark));
  }

  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  SharedFolder shared_;
  std::optional<MachineRecords> records_;
};

TEST_F(MachineTest, AGuestSeesWhatIsSharedAlsoWhatComesLater) {
  const auto modules = KernelModules::Read(FindGuestKernel().modules);
  ASSERT_OK(modules);
  std::ofstream(folder_ / "reader") << kReader;
  auto image = MakeGuestImage(folder_ / "reader", *modules, {"virtiofs"});
  ASSERT_OK(image);
  // The kernel unpacks one archive after the other.
  CpioWriter more;
  more.AddFolder("bin");
  more.AddFolder("shared");
  const auto busybox = platform::ReadFile("/bin/busybox", size_t{16} << 20);
  ASSERT_OK(busybox);
  more.AddFile("bin/busybox", *busybox, 0755);
  std::ofstream(folder_ / "reader.cpio") << *image << more.Finish();
  settings_.image = folder_ / "reader.cpio";
  std::ofstream(folder_ / "one") << "one";
  std::ofstream(folder_ / "two") << "two";
  std::filesystem::create_directory(folder_ / "out");
  ASSERT_OK(shared_.Add("c1", "m0", folder_ / "one"));
  ASSERT_OK(shared_.Add("c1", "m2", folder_ / "out"));

  bool added = false;
  std::jthread host([&](const std::stop_token& stop) {
    while (!stop.stop_requested() && !added) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (!std::filesystem::exists(folder_ / "out/ready")) continue;
      added = shared_.Add("c1", "m1", folder_ / "two").ok();
    }
  });
  const base::Status started = Find().Start(Needs());
  host.request_stop();
  host.join();
  EXPECT_TRUE(added);
  EXPECT_EQ(started.code(), base::StatusCode::kUnavailable) << started;
  EXPECT_EQ(platform::ReadFile(folder_ / "out/answer").value_or(""), "onetwo");
  EXPECT_EQ(Find().FindState().value(), MachineState::kAbsent);
}

// The answer of the guest's kernel to a connection from outside; 0: it took it.
int ConnectFrom(const HeldNetwork& network, const char* address) {
  const pid_t child = fork();
  if (child == 0) {
    const base::UniqueFd space(open(network.path().c_str(), O_RDONLY | O_CLOEXEC));
    if (setns(space.get(), CLONE_NEWNET) != 0) _exit(errno);
    const base::UniqueFd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(9)};
    inet_pton(AF_INET, address, &to.sin_addr);
    _exit(connect(client.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0 ? 0 : errno);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WEXITSTATUS(status);
}

TEST_F(MachineTest, AGuestTakesOverTheSandboxesNetworkAndNothingIsLeftWhereverAHandlerIsKilled) {
  const TwoNetworks networks;
  MachineNeeds needs = Needs();
  needs.network = networks.inside.path();
  for (const char* point :
       {"crust.machine.connected", "crust.machine.shared", "crust.machine.started"}) {
    SCOPED_TRACE(point);
    const pid_t handler = fork();
    if (handler == 0) {
      setenv("BERTH_FAULTS", fmt::format("{}=crash", point).c_str(), 1);
      if (base::InitFaultPoints().ok()) static_cast<void>(Find().Start(needs));
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(handler, &status, 0), handler);
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    const auto record = records_->ReadRecord("s1");
    ASSERT_OK(record);
    EXPECT_EQ(Find().FindState().value(), MachineState::kAbsent);
    EXPECT_THAT(ProcessesOf(*record), testing::IsEmpty());
  }

  ASSERT_OK(Find().Start(needs));
  const auto record = records_->ReadRecord("s1");
  ASSERT_OK(record);
  EXPECT_THAT(ProcessesOf(*record), testing::IsSupersetOf({record->daemon.pid, record->share.pid}));
  const auto network = ReadSandboxNetwork(needs.network);
  ASSERT_OK(network);
  // So that nobody but the guest can answer.
  networks.inside.Ip("addr flush dev eth0");
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(Find().CallGuest(NetworkRequest(**network),
                               std::chrono::steady_clock::now() + std::chrono::minutes(2)));
  }
  EXPECT_EQ(ConnectFrom(networks.outside, "10.99.0.2"), ECONNREFUSED);
  EXPECT_EQ(Find().FindState().value(), MachineState::kRunning);

  ASSERT_EQ(kill(record->share.pid, SIGKILL), 0);
  // A process ends some time after the signal.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (Find().FindState().value() == MachineState::kRunning &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(Find().FindState().value(), MachineState::kEnded);
  const base::Status ended = Find().Start(needs);
  EXPECT_EQ(ended.code(), base::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(base::Message(ended)),
              HasSubstr("the process that shares the containers' files with the guest has ended"));
  ASSERT_OK(Find().KillProcess());
  EXPECT_THAT(ProcessesOf(*record), testing::IsEmpty());
  EXPECT_EQ(Find().FindState().value(), MachineState::kEnded);
  ASSERT_OK(Find().End());
  EXPECT_EQ(Find().FindState().value(), MachineState::kAbsent);
}

}  // namespace
}  // namespace berth::crust
