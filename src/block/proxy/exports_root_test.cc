// Images through an I/O proxy with real daemons, FUSE files and loop devices.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "base/assert_ok.h"
#include "block/backend.h"
#include "block/nbd/nbd_kernel.h"
#include "block/proxy/client.h"
#include "block/proxy/fake_listener.h"
#include "block/proxy/service.h"
#include "block/sizes.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/processes/exec.h"

namespace berth::block {
namespace {

using base::StatusCode;
using proxy::Exports;
using proxy::ListenAt;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class ProxyTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(platform::MakeFolders(images_, 0755));
    ASSERT_OK(platform::MakeFolders(mount_, 0755));
    ASSERT_OK(platform::MakeFolders(run_, 0755));
    StartProxy();
    backend_ = Open("Proxy", "one");
    ASSERT_OK(backend_->Create({.name = "pvc-1", .size_bytes = 64 * kMiB}));
  }
  void TearDown() override {
    if (exports_ == nullptr) StartProxy();
    EXPECT_TRUE(mounter_->UnmountLazy(mount_).ok());
    const auto mappings = backend_->ListMappings();
    for (const Mapping& mapping : *mappings) {
      EXPECT_TRUE(backend_->ForceUnmap(mapping, seconds(5)).ok()) << mapping.device;
    }
    for (const proxy::Export& record : exports_->List()) {
      EXPECT_TRUE(exports_->Kill(record.volume.store, record.volume.image).ok());
    }
  }
  void StartProxy(Exports::Options options = {}) {
    options.folder = run_;
    auto exports = Exports::Open(std::move(options));
    ASSERT_OK(exports);
    exports_ = *std::move(exports);
    server_ = proxy::ServeExports(*exports_, ListenAt(run_ + "/sock"));
  }
  void StopProxy() {
    server_.reset();
    exports_.reset();
  }
  std::unique_ptr<Backend> Open(const std::string& access, const std::string& node) {
    auto backend = OpenBackend(
        {{"images", {{"folder", images_}, {"access", access}}}},
        {.exec = *exec_, .mounter = *mounter_, .proxy_socket = run_ + "/sock", .node = node});
    EXPECT_TRUE(backend.ok()) << backend.status();
    return *std::move(backend);
  }
  void Mount(const Mapping& mapping) {
    ASSERT_OK(platform::FormatIfBlank(*exec_, mapping.device, "ext4", {}));
    ASSERT_OK(mounter_->Mount({.source = mapping.device, .target = mount_, .fs_type = "ext4"}));
  }
  // What it says of the only volume once `done` accepts it.
  base::Json ListUntil(const std::function<bool(const base::Json&)>& done) {
    const proxy::Client client(run_ + "/sock", "images:" + images_);
    const auto deadline = std::chrono::steady_clock::now() + seconds(20);
    for (;;) {
      const auto list = client.List();
      if (list.ok() && list->size() == 1 && done(list->front())) return list->front();
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << (list.ok() ? base::Json(*list).dump() : base::ToString(list.status()));
        return {};
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  // Waits until the process is gone. One that was adopted is nobody's child here, so whoever has
  // become its parent reaps it, a moment after it has ended.
  static bool IsReaped(pid_t pid) {
    const auto deadline = std::chrono::steady_clock::now() + seconds(20);
    while (kill(pid, 0) == 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return kill(pid, 0) == -1;
  }
  pid_t Daemon() {
    return static_cast<pid_t>(
        base::json::Int(ListUntil([](const auto&) { return true; }), {"pid"}));
  }

  const platform::TempFolder folder_;
  const std::string images_ = folder_ / "images", mount_ = folder_ / "mount",
                    run_ = folder_ / "run";
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  std::unique_ptr<Exports> exports_;
  std::unique_ptr<base::ipc::Server> server_;
  std::unique_ptr<Backend> backend_;
};

// A process that runs until it is killed, with a variable in its environment.
class MarkedProcess {
 public:
  explicit MarkedProcess(std::string variable) {
    std::string program = "sleep", argument = "1000";
    char* arguments[] = {program.data(), argument.data(), nullptr};
    char* environment[] = {variable.data(), nullptr};
    EXPECT_EQ(posix_spawnp(&pid_, "sleep", nullptr, nullptr, arguments, environment), 0);
  }
  ~MarkedProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  MarkedProcess(const MarkedProcess&) = delete;
  MarkedProcess& operator=(const MarkedProcess&) = delete;
  // The signal that ended it; 0: it runs.
  int EndSignal() const {
    siginfo_t info = {};
    EXPECT_EQ(waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT), 0);
    return info.si_pid == 0 ? 0 : info.si_status;
  }

 private:
  pid_t pid_ = 0;
};

TEST_F(ProxyTest, ADamagedRecordIsSetAsideAfterItsDaemonIsKilled) {
  StopProxy();
  const std::string records = run_ + "/records/";
  std::ofstream(records + "torn.json") << "{";
  std::ofstream(records + "large.json") << std::string(2 << 20, ' ');
  const MarkedProcess daemon("BERTH_IO_PROXY_EXPORT=" + run_ + "/torn");
  const MarkedProcess of_another_proxy("BERTH_IO_PROXY_EXPORT=/run/other/torn");
  StartProxy();
  ASSERT_NE(exports_, nullptr);
  EXPECT_THAT(exports_->List(), IsEmpty());
  EXPECT_EQ(daemon.EndSignal(), SIGKILL);
  EXPECT_EQ(of_another_proxy.EndSignal(), 0);
  const std::vector<std::string> names = *platform::ListFolder(records);
  ASSERT_THAT(names, SizeIs(2));
  EXPECT_THAT(names[0], testing::StartsWith("large.json.damaged-"));
  EXPECT_THAT(names[1], testing::StartsWith("torn.json.damaged-"));
  EXPECT_EQ(*platform::ReadFile(records + names[1]), "{");
}

TEST_F(ProxyTest, AQemuDaemonKeepsItsBuffersInHugePages) {
  const auto setting = platform::ReadFile("/sys/kernel/mm/transparent_hugepage/enabled");
  if (!setting.ok() || setting->find("[madvise]") == std::string::npos) {
    GTEST_SKIP() << "this kernel gives huge pages to all processes or to none";
  }
  StopProxy();
  StartProxy({.image_program = ""});
  const auto mapping = backend_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  std::ifstream areas(fmt::format("/proc/{}/smaps", Daemon()));
  std::string size, flags;  // of the heap
  bool in_heap = false;
  for (std::string line; flags.empty() && std::getline(areas, line);) {
    if (line.ends_with("[heap]")) in_heap = true;
    if (in_heap && line.starts_with("Size:")) size = line.substr(5);
    if (in_heap && line.starts_with("VmFlags:")) flags = line;
  }
  // A smaller heap holds no aligned huge page.
  EXPECT_GE(std::strtol(size.c_str(), nullptr, 10), 4096) << size;
  EXPECT_THAT(flags, HasSubstr(" hg"));  // proc_pid_smaps(5): the kernel was asked for huge pages
  EXPECT_TRUE(backend_->Unmap(*mapping).ok());
}

TEST_F(ProxyTest, AnImageIsMappedWrittenGrownAndUnmapped) {
  const auto mapping = backend_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  EXPECT_EQ(mapping->size_bytes, 64 * kMiB);
  EXPECT_EQ(backend_->Map("pvc-1", {})->device, mapping->device);
  Mount(*mapping);
  std::ofstream(mount_ + "/file") << "precious";
  EXPECT_EQ(backend_->Unmap(*mapping).code(), StatusCode::kFailedPrecondition);
  ASSERT_OK(backend_->Grow("pvc-1", 96 * kMiB));
  const auto grown = backend_->Refresh(*mapping);
  ASSERT_OK(grown);
  EXPECT_EQ(grown->size_bytes, 96 * kMiB);
  ASSERT_OK(mounter_->Unmount(mount_));
  ASSERT_OK(backend_->Unmap(*mapping));
  ASSERT_OK(backend_->Unmap(*mapping));
  EXPECT_THAT(exports_->List(), IsEmpty());
  EXPECT_THAT(*backend_->ListMappings(), IsEmpty());
  // What was written by the proxy is in the image, as a plain loop device shows it.
  const auto plain = Open("Loop", "one");
  const auto direct = plain->Map("pvc-1", {});
  ASSERT_OK(direct);
  Mount(*direct);
  EXPECT_EQ(*platform::ReadFile(mount_ + "/file"), "precious");
  ASSERT_OK(mounter_->Unmount(mount_));
  ASSERT_OK(plain->Unmap(*direct));
}

TEST_F(ProxyTest, ItsImageIsLockedForAsLongAsTheDaemonLives) {
  const auto other = Open("Loop", "two");
  const auto mapping = backend_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  StopProxy();
  EXPECT_TRUE(*other->HasLock("pvc-1"));
  EXPECT_EQ(other->Map("pvc-1", {}).status().code(), StatusCode::kFailedPrecondition);
  StartProxy();
  ASSERT_OK(backend_->Unmap(*mapping));
  EXPECT_FALSE(*other->HasLock("pvc-1"));
  // The first back end cannot map what the other one has mapped either.
  const auto theirs = other->Map("pvc-1", {});
  ASSERT_OK(theirs);
  EXPECT_EQ(backend_->Map("pvc-1", {}).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(exports_->List(), IsEmpty());
  ASSERT_OK(other->Unmap(*theirs));
}

TEST_F(ProxyTest, AProxyThatIsStartedAnewAdoptsWhatRuns) {
  const auto mapping = backend_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  Mount(*mapping);
  const pid_t daemon = Daemon();
  StopProxy();
  std::ofstream(mount_ + "/file") << "written while no proxy runs";
  sync();
  backend_ = Open("Proxy", "one");
  EXPECT_EQ(backend_->FindMapping("pvc-1")->value().device, mapping->device);
  StartProxy();
  EXPECT_EQ(Daemon(), daemon);
  EXPECT_EQ(backend_->Map("pvc-1", {})->device, mapping->device);
  ASSERT_OK(mounter_->Unmount(mount_));
  ASSERT_OK(backend_->Unmap(*mapping));
  EXPECT_TRUE(IsReaped(daemon));
}

// Earlier versions of Berth had QEMU show images, and their records name no program.
TEST_F(ProxyTest, AnImageThatQemuShowsSinceAnEarlierVersionIsAdoptedGrownAndUnmapped) {
  StopProxy();
  StartProxy({.image_program = ""});
  const auto mapping = backend_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  Mount(*mapping);
  const pid_t daemon = Daemon();
  StopProxy();
  const std::string path = std::filesystem::directory_iterator(run_ + "/records")->path().string();
  auto record = base::json::Parse(*platform::ReadFile(path));
  ASSERT_OK(record);
  ASSERT_EQ(record->erase("program"), 1u);
  std::ofstream(path) << base::json::Dump(*record) << "\n";
  StartProxy();
  EXPECT_EQ(Daemon(), daemon);
  EXPECT_THAT(*platform::ReadFile(fmt::format("/proc/{}/cmdline", daemon)),
              HasSubstr("qemu-storage-daemon"));
  EXPECT_EQ(backend_->Map("pvc-1", {})->device, mapping->device);
  ASSERT_OK(backend_->Check(*mapping));
  std::ofstream(mount_ + "/file") << "precious";
  ASSERT_OK(backend_->Grow("pvc-1", 96 * kMiB));
  const auto grown = backend_->Refresh(*mapping);
  ASSERT_OK(grown);
  EXPECT_EQ(grown->size_bytes, 96 * kMiB);
  ASSERT_OK(mounter_->Unmount(mount_));
  ASSERT_OK(backend_->Unmap(*mapping));
  EXPECT_THAT(exports_->List(), IsEmpty());
  EXPECT_TRUE(IsReaped(daemon));
  // Its next mapping is shown by Berth's own server.
  const auto anew = backend_->Map("pvc-1", {});
  ASSERT_OK(anew);
  EXPECT_EQ(anew->size_bytes, 96 * kMiB);
  Mount(*anew);
  EXPECT_EQ(*platform::ReadFile(mount_ + "/file"), "precious");
  EXPECT_THAT(*platform::ReadFile(fmt::format("/proc/{}/cmdline", Daemon())),
              HasSubstr("berth-export"));
  ASSERT_OK(mounter_->Unmount(mount_));
  ASSERT_OK(backend_->Unmap(*anew));
}

// Under load the kernel takes no size from an answer to statx(2), and before Linux 6.17 a loop
// device grows to the size that the kernel has taken.
TEST_F(ProxyTest, GrowsUnderLoadAlsoForTheKernel) {
  const auto mapping = backend_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  std::atomic<bool> done{false};
  std::vector<std::jthread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      const base::UniqueFd device(open(mapping->device.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
      const std::unique_ptr<char, decltype(&free)> block(
          static_cast<char*>(aligned_alloc(4096, 4096)), &free);
      while (!done) EXPECT_EQ(pread(device.get(), block.get(), 4096, 0), 4096);
    });
  }
  const base::UniqueFd file(
      open(exports_->Resize("images:" + images_, "pvc-1", 0)->path.c_str(), O_RDONLY | O_CLOEXEC));
  for (int64_t size = 65 * kMiB; size < 85 * kMiB; size += kMiB) {
    EXPECT_TRUE(backend_->Grow("pvc-1", size).ok());
    EXPECT_TRUE(exports_->Resize("images:" + images_, "pvc-1", size).ok());
    EXPECT_EQ(lseek(file.get(), 0, SEEK_END), size);
  }
  done = true;
}

TEST_F(ProxyTest, ADaemonThatGreetsAndAnswersNothingIsBegunAnew) {
  const std::string program = folder_ / "daemon";
  std::ofstream(program) << "#!/bin/sh\n"
                         << "if [ -e " << folder_ / "once" << " ]; then\n"
                         << "  exec qemu-storage-daemon \"$@\"\nfi\n"
                         << "touch " << folder_ / "once" << "\n"
                         << R"PY(exec /usr/bin/python3 -c '
import re, socket, sys, time
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(re.search("path=([^,]*)", sys.argv[2])[1])
    listener.listen()
    caller = listener.accept()[0]
    caller.sendall(b"{\"QMP\": {}}\r\n")
    time.sleep(600)
' "$@")PY";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  StopProxy();
  StartProxy({.program = program, .image_program = "", .start_within = seconds(3)});
  const auto mapping = backend_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "once"));
  Mount(*mapping);
  std::ofstream(mount_ + "/file") << "precious";
  ASSERT_OK(mounter_->Unmount(mount_));
  ASSERT_OK(backend_->Unmap(*mapping));
}

TEST_F(ProxyTest, AVolumeThatIsWrittenIsQuarantinedWhenItsDaemonDies) {
  const auto mapping = backend_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  Mount(*mapping);
  std::ofstream(mount_ + "/file") << "precious";
  sync();
  kill(Daemon(), SIGKILL);
  const base::Json said = ListUntil(
      [](const base::Json& one) { return base::json::String(one, {"state"}) == "quarantined"; });
  EXPECT_THAT(base::json::String(said, {"reason"}), HasSubstr("SIGKILL"));
  const base::Status checked = backend_->Check(*mapping);
  EXPECT_EQ(checked.code(), StatusCode::kDataLoss);
  EXPECT_THAT(base::Message(checked), HasSubstr("SIGKILL"));
  EXPECT_THAT(base::json::String(said, {"reason"}), HasSubstr("unmounted"));
  const auto refused = backend_->Map("pvc-1", {});
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(refused.status()), HasSubstr("quarantined"));
  // It is found, and comes back once what used it has let go.
  const auto found = backend_->FindMapping("pvc-1");
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ(backend_->Unmap(**found).code(), StatusCode::kFailedPrecondition);
  ASSERT_OK(mounter_->Unmount(mount_));
  ASSERT_OK(backend_->Unmap(**found));
  const auto anew = backend_->Map("pvc-1", {});
  ASSERT_OK(anew);
  Mount(*anew);
  EXPECT_EQ(*platform::ReadFile(mount_ + "/file"), "precious");
  ASSERT_OK(mounter_->Unmount(mount_));
}

TEST_F(ProxyTest, AVolumeThatIsOnlyReadIsShownAgainWhenItsDaemonDies) {
  auto mapping = backend_->Map("pvc-1", {.read_only = true});
  ASSERT_OK(mapping);
  ASSERT_OK(backend_->Check(*mapping));
  const pid_t daemon = Daemon();
  kill(daemon, SIGKILL);
  ListUntil([&](const base::Json& one) {
    return base::json::String(one, {"state"}) == "serving" &&
           base::json::Int(one, {"pid"}) != daemon;
  });
  // What was opened before it reads from the dead one.
  const base::Status checked = backend_->Check(*mapping);
  EXPECT_EQ(checked.code(), StatusCode::kDataLoss);
  EXPECT_THAT(base::Message(checked), HasSubstr("through a daemon that died"));
  const auto anew = backend_->Map("pvc-1", {.read_only = true});
  ASSERT_OK(anew);
  const base::UniqueFd device(open(anew->device.c_str(), O_RDONLY | O_CLOEXEC));
  char byte = 'x';
  EXPECT_EQ(pread(device.get(), &byte, 1, 0), 1);
  EXPECT_THAT(*backend_->ListMappings(), SizeIs(1));
}

TEST_F(ProxyTest, ADaemonThatDiedWhileNoProxyRanIsSeenAtTheNextStart) {
  const auto mapping = backend_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  const pid_t daemon = Daemon();
  StopProxy();
  kill(daemon, SIGKILL);
  ASSERT_OK(platform::OpenDaemon({.pid = daemon, .start_time = 0}));
  StartProxy();
  ListUntil(
      [](const base::Json& one) { return base::json::String(one, {"state"}) == "quarantined"; });
}

TEST_F(ProxyTest, AnExportOfAnNbdServerIsShownWhereTheKernelHasNoClient) {
  if (HasKernelNbd()) GTEST_SKIP() << "skipped: this kernel has a client of its own";
  const std::string server = "unix:" + (folder_ / "nbd");
  ASSERT_OK(platform::RunOk(*exec_, {.argv = {"nbdkit", "--pidfile", folder_ / "pid", "--unix",
                                              folder_ / "nbd", "file", "dir=" + images_},
                                     .leaves_daemon = true}));
  const auto nbd = OpenBackend(
      {{"nbd", {{"server", server}, {"folder", images_}}}},
      {.exec = *exec_, .mounter = *mounter_, .proxy_socket = run_ + "/sock", .node = "one"});
  ASSERT_OK(nbd);
  ASSERT_OK((*nbd)->Create({.name = "pvc-2", .size_bytes = 64 * kMiB}));
  for (int i = 0; i < 2; ++i) {
    const auto mapping = (*nbd)->Map("pvc-2", {});
    ASSERT_OK(mapping);
    EXPECT_EQ(mapping->size_bytes, 64 * kMiB);
    EXPECT_EQ((*nbd)->FindMapping("pvc-2")->value().device, mapping->device);
    Mount(*mapping);
    if (i == 0) std::ofstream(mount_ + "/file") << "precious";
    EXPECT_EQ(*platform::ReadFile(mount_ + "/file"), "precious");
    ASSERT_OK(mounter_->Unmount(mount_));
    ASSERT_OK((*nbd)->Unmap(*mapping));
  }
  EXPECT_FALSE((*nbd)->Map("pvc-9", {}).ok());
  EXPECT_EQ((*nbd)->HasLock("pvc-2").status().code(), StatusCode::kUnimplemented);
  kill(std::stoi(*platform::ReadFile(folder_ / "pid")), SIGKILL);
}

// QEMU before 10.1 mixes up the contents of writes that reach its FUSE export at once.
TEST_F(ProxyTest, WritesAtOnceDoNotMixTheirContents) {
  StopProxy();
  StartProxy({.image_program = ""});
  const auto mapping = backend_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  constexpr int kWriters = 8;
  constexpr size_t kBlock = 64 * 1024;
  constexpr int kBlocks = 64 * 1024 * 1024 / kBlock / kWriters;
  {
    std::vector<std::jthread> writers;
    for (int writer = 0; writer < kWriters; ++writer) {
      writers.emplace_back([&, writer] {
        const base::UniqueFd device(open(mapping->device.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
        const std::unique_ptr<char, decltype(&free)> block(
            static_cast<char*>(aligned_alloc(4096, kBlock)), &free);
        for (int i = 0; i < kBlocks; ++i) {
          const int number = i * kWriters + writer;
          std::fill_n(reinterpret_cast<int*>(block.get()), kBlock / sizeof(int), number);
          EXPECT_EQ(pwrite(device.get(), block.get(), kBlock, static_cast<off_t>(kBlock) * number),
                    static_cast<ssize_t>(kBlock));
        }
        EXPECT_EQ(fsync(device.get()), 0);
      });
    }
  }
  const base::UniqueFd image(open((images_ + "/pvc-1").c_str(), O_RDONLY | O_CLOEXEC));
  std::vector<int> seen(kBlock / sizeof(int));
  int wrong = 0;
  for (int number = 0; number < kWriters * kBlocks; ++number) {
    ASSERT_EQ(pread(image.get(), seen.data(), kBlock, static_cast<off_t>(kBlock) * number),
              static_cast<ssize_t>(kBlock));
    for (const int word : seen) wrong += word != number ? 1 : 0;
  }
  EXPECT_EQ(wrong, 0);
}

TEST_F(ProxyTest, AForcedUnmapEndsWhatHangs) {
  const auto mapping = backend_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  Mount(*mapping);
  const base::UniqueFd file(open((mount_ + "/file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(write(file.get(), "a", 1), 1);
  ASSERT_EQ(fsync(file.get()), 0);
  // The stopped daemon looks like one whose server does not answer any more.
  kill(Daemon(), SIGSTOP);
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_TRUE(backend_->FindMapping("pvc-1").ok());
  ASSERT_OK(backend_->ForceUnmap(*mapping, seconds(5)));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, seconds(20));
  EXPECT_TRUE(write(file.get(), "b", 1) < 0 || fsync(file.get()) < 0);
  EXPECT_FALSE(backend_->FindMapping("pvc-1")->has_value());
  EXPECT_FALSE(*Open("Loop", "two")->HasLock("pvc-1"));
}

// What it was shown by is gone, and another volume's file system has its number.
TEST_F(ProxyTest, AForcedUnmapLeavesWhateverIsShownByItsNumberMeanwhile) {
  auto mapping = backend_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  ASSERT_OK(backend_->Unmap(*mapping));
  ASSERT_OK(backend_->Create({.name = "pvc-2", .size_bytes = 64 * kMiB}));
  const auto other = backend_->Map("pvc-2", {});
  ASSERT_OK(other);
  mapping->state["dev"] = other->state["dev"];
  StopProxy();  // so that it cannot tell, not even whether the daemon of the volume has ended
  EXPECT_EQ(backend_->ForceUnmap(*mapping, seconds(5)).code(), StatusCode::kUnavailable);
  const base::UniqueFd device(open(other->device.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  alignas(4096) static char block[4096];
  EXPECT_EQ(pread(device.get(), block, sizeof block, 0), 4096);
}

}  // namespace
}  // namespace berth::block
