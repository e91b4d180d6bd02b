// Exports of real NBD servers through I/O proxies, as several nodes use them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "base/assert_ok.h"
#include "block/backend.h"
#include "block/images/image_lock.h"
#include "block/nbd/nbd_handshake.h"
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
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

constexpr size_t kUnit = 64 * 1024;

// A node with an I/O proxy of its own.
struct Node {
  std::string folder;
  std::unique_ptr<proxy::Exports> exports;
  std::unique_ptr<base::ipc::Server> server;
  std::unique_ptr<Backend> backend;
};

class NbdProxiedTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const std::string& path : {images_, mount_}) ASSERT_OK(platform::MakeFolders(path, 0755));
    for (const char* name : {"one", "two"}) {
      StartProxy(name);
      nodes_[name].backend = Open(name, images_);
    }
    ASSERT_OK(One().Create({.name = "pvc-1", .size_bytes = 64 * kMiB}));
  }
  void TearDown() override {
    EXPECT_TRUE(mounter_->UnmountLazy(mount_).ok());
    for (auto& [name, node] : nodes_) {
      const auto mappings = node.backend->ListMappings();
      for (const Mapping& mapping : *mappings) {
        EXPECT_TRUE(node.backend->ForceUnmap(mapping, seconds(5)).ok()) << mapping.device;
      }
      for (const proxy::Export& record : node.exports->List()) {
        EXPECT_TRUE(node.exports->Kill(record.volume.store, record.volume.image).ok());
      }
    }
    if (const auto pid = platform::ReadFile(folder_ / "pid"); pid.ok()) {
      kill(std::stoi(*pid), SIGKILL);
    }
  }
  void StartProxy(const std::string& name, proxy::Exports::Options options = {}) {
    Node& node = nodes_[name];
    node.folder = folder_ / name;
    ASSERT_OK(platform::MakeFolders(node.folder, 0755));
    options.folder = node.folder;
    auto exports = proxy::Exports::Open(std::move(options));
    ASSERT_OK(exports);
    node.exports = *std::move(exports);
    node.server = proxy::ServeExports(*node.exports, proxy::ListenAt(node.folder + "/sock"));
  }
  void StopProxy(const std::string& name) {
    nodes_[name].server.reset();
    nodes_[name].exports.reset();
  }
  std::unique_ptr<Backend> Open(const std::string& name, const std::string& images) {
    base::Json settings = {{"server", "unix:" + socket_}, {"access", "Proxy"}};
    if (!images.empty()) settings["folder"] = images;
    auto backend = OpenBackend({{"nbd", settings}}, {.exec = *exec_,
                                                     .mounter = *mounter_,
                                                     .proxy_socket = nodes_[name].folder + "/sock",
                                                     .node = name});
    EXPECT_TRUE(backend.ok()) << backend.status();
    return *std::move(backend);
  }
  // The sockets of the process that lead to the server: those without a name of their own whose
  // other end has the server's.
  int CountConnections(pid_t process) {
    int count = 0;
    for (const auto& fd :
         std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", process))) {
      std::error_code gone;
      const std::string target = std::filesystem::read_symlink(fd.path(), gone).string();
      if (!target.starts_with("socket:[")) continue;
      std::ifstream table("/proc/net/unix");
      const std::string inode = target.substr(8, target.size() - 9);
      for (std::string line; std::getline(table, line);) {
        std::istringstream fields(line);
        std::string field[8];
        for (std::string& one : field) fields >> one;
        if (field[6] == inode && field[7].empty() && field[3] == "00000000") ++count;
      }
    }
    return count;
  }
  Backend& One() { return *nodes_["one"].backend; }
  Backend& Two() { return *nodes_["two"].backend; }
  void ServeByNbdkit() {
    ASSERT_OK(platform::RunOk(*exec_, {.argv = {"nbdkit", "--pidfile", folder_ / "pid", "--unix",
                                                socket_, "file", "dir=" + images_},
                                       .leaves_daemon = true}));
  }
  // This server locks bytes of the image itself.
  void ServeByQemu() {
    ASSERT_OK(platform::RunOk(
        *exec_, {.argv = {"qemu-storage-daemon", "--daemonize", "--pidfile", folder_ / "pid",
                          "--blockdev", "driver=file,node-name=disk,filename=" + images_ + "/pvc-1",
                          "--nbd-server", "addr.type=unix,max-connections=0,addr.path=" + socket_,
                          "--export", "type=nbd,id=disk,node-name=disk,name=pvc-1,writable=on"},
                 .leaves_daemon = true}));
  }

  const platform::TempFolder folder_;
  const std::string images_ = folder_ / "images", mount_ = folder_ / "mount",
                    socket_ = folder_ / "nbd";
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  std::map<std::string, Node> nodes_;
};

// Writes numbered units again and again, until it is stopped.
class Writer {
 public:
  explicit Writer(const std::string& device)
      : device_(open(device.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC)), thread_([this] { Run(); }) {}
  ~Writer() { done_ = true; }
  // Ends the writing, and returns the last number that each unit holds.
  std::array<uint64_t, 32> Stop() {
    done_ = true;
    thread_.join();
    EXPECT_EQ(fsync(device_.get()), 0);
    return written_;
  }
  // Waits until some units more were written.
  void AwaitProgress() const {
    const auto deadline = steady_clock::now() + seconds(60);
    for (const uint64_t from = count_; count_ < from + 8;) {
      ASSERT_LT(steady_clock::now(), deadline);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

 private:
  void Run() {
    const std::unique_ptr<char, decltype(&free)> block(
        static_cast<char*>(aligned_alloc(4096, kUnit)), &free);
    while (!done_) {
      const uint64_t number = count_ + 1;
      const size_t unit = number % written_.size();
      std::fill_n(reinterpret_cast<uint64_t*>(block.get()), kUnit / sizeof number, number);
      ASSERT_EQ(pwrite(device_.get(), block.get(), kUnit, static_cast<off_t>(unit * kUnit)),
                static_cast<ssize_t>(kUnit));
      written_[unit] = number;
      count_ = number;
    }
  }

  const base::UniqueFd device_;
  std::array<uint64_t, 32> written_ = {};
  std::atomic<uint64_t> count_{0};
  std::atomic<bool> done_{false};
  std::jthread thread_;
};

TEST_F(NbdProxiedTest, AnExportGrowsWhileItIsWritten) {
  ServeByNbdkit();
  const auto mapping = One().Map("pvc-1", {});
  ASSERT_OK(mapping);
  Writer writer(mapping->device);
  for (const int64_t size : {96 * kMiB, 128 * kMiB, 129 * kMiB}) {
    writer.AwaitProgress();
    ASSERT_OK(One().Grow("pvc-1", size));
    const auto grown = One().Refresh(*mapping);
    ASSERT_OK(grown);
    EXPECT_EQ(grown->size_bytes, size);
    writer.AwaitProgress();
  }
  const auto written = writer.Stop();
  const base::UniqueFd device(open(mapping->device.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(pwrite(device.get(), "last", 4, 129 * kMiB - 4), 4);
  ASSERT_EQ(fsync(device.get()), 0);
  const base::UniqueFd image(open((images_ + "/pvc-1").c_str(), O_RDONLY | O_CLOEXEC));
  for (size_t unit = 0; unit < written.size(); ++unit) {
    std::array<uint64_t, kUnit / sizeof(uint64_t)> seen;
    ASSERT_EQ(pread(image.get(), seen.data(), kUnit, static_cast<off_t>(unit * kUnit)),
              static_cast<ssize_t>(kUnit));
    EXPECT_THAT(seen, testing::Each(written[unit])) << unit;
  }
  char last[4];
  ASSERT_EQ(pread(image.get(), last, 4, 129 * kMiB - 4), 4);
  EXPECT_EQ(std::string_view(last, 4), "last");
  // One connection is left: a server may admit few.
  const proxy::Export record = nodes_["one"].exports->List().front();
  EXPECT_EQ(CountConnections(record.daemon.pid), 1);
}

TEST_F(NbdProxiedTest, AFileSystemGrowsThroughAProxyThatWasStartedAnew) {
  ServeByNbdkit();
  ASSERT_OK(One().Create({.name = "pvc-2", .size_bytes = 320 * kMiB}));
  const auto mapping = One().Map("pvc-2", {});
  ASSERT_OK(mapping);
  ASSERT_OK(platform::FormatIfBlank(*exec_, mapping->device, "xfs", {}));
  ASSERT_OK(mounter_->Mount({.source = mapping->device, .target = mount_, .fs_type = "xfs"}));
  std::ofstream(mount_ + "/file") << "precious";
  StopProxy("one");
  StartProxy("one");
  ASSERT_OK(One().Grow("pvc-2", 512 * kMiB));
  EXPECT_EQ(One().Refresh(*mapping)->size_bytes, 512 * kMiB);
  ASSERT_OK(platform::RunOk(*exec_, {.argv = {"xfs_growfs", mount_}}));
  EXPECT_GT(std::filesystem::space(mount_).capacity, uintmax_t{400} << 20);
  EXPECT_EQ(*platform::ReadFile(mount_ + "/file"), "precious");
  ASSERT_OK(mounter_->Unmount(mount_));
  ASSERT_OK(One().Unmap(*mapping));
}

TEST_F(NbdProxiedTest, TwoNodesThatReachTheImagesDoNotHaveOneAtOnce) {
  ServeByNbdkit();
  const auto mapping = One().Map("pvc-1", {});
  ASSERT_OK(mapping);
  StopProxy("one");  // the lock is the daemon's
  for (const bool read_only : {false, true}) {
    const base::Status refused = Two().Map("pvc-1", {.read_only = read_only}).status();
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(base::Message(refused), HasSubstr("locked by another holder"));
    EXPECT_THAT(base::Message(refused), HasSubstr("node 'one'"));
  }
  EXPECT_TRUE(*Two().HasLock("pvc-1"));
  EXPECT_EQ(Two().Delete("pvc-1").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Two().CreateSnapshot("pvc-1", "copy").status().code(), StatusCode::kFailedPrecondition);
  StartProxy("one");
  EXPECT_EQ(One().Map("pvc-1", {})->device, mapping->device);
  ASSERT_OK(One().Unmap(*mapping));
  EXPECT_FALSE(Two().HasLock("pvc-1").ok());  // no lock proves nothing
  // Readers share it.
  const auto read = One().Map("pvc-1", {.read_only = true});
  ASSERT_OK(read);
  EXPECT_EQ(Two().Map("pvc-1", {}).status().code(), StatusCode::kFailedPrecondition);
  const base::UniqueFd image(open((images_ + "/pvc-1").c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(LockImage(image.get(), ImageLock::kClient), EAGAIN);
  EXPECT_EQ(LockImage(image.get(), ImageLock::kSharedClient), 0);
  EXPECT_EQ(One().Map("pvc-1", {.read_only = true})->device, read->device);
}

TEST_F(NbdProxiedTest, AServerThatLocksItsImageItselfIsNoOtherNode) {
  ServeByQemu();
  const auto mapping = One().Map("pvc-1", {});
  ASSERT_OK(mapping);
  EXPECT_EQ(Two().Map("pvc-1", {}).status().code(), StatusCode::kFailedPrecondition);
  ASSERT_OK(One().Unmap(*mapping));
  ASSERT_OK(Two().Map("pvc-1", {}));
}

TEST_F(NbdProxiedTest, AGrowthThatFailedLeavesNoConnectionToAServerThatAnswersLate) {
  ServeByNbdkit();
  StopProxy("one");
  StartProxy("one", {.grow_within = seconds(2)});
  proxy::Exports& exports = *nodes_["one"].exports;
  ASSERT_OK(exports.ShowVolume(
      {.store = "store", .image = "pvc-1", .server = "unix:" + socket_, .export_name = "pvc-1"}));
  const pid_t daemon = exports.List().front().daemon.pid;
  ASSERT_OK(One().Grow("pvc-1", 96 * kMiB));
  const pid_t server = std::stoi(*platform::ReadFile(folder_ / "pid"));
  ASSERT_EQ(kill(server, SIGSTOP), 0);
  EXPECT_EQ(exports.Resize("store", "pvc-1", 96 * kMiB).status().code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_EQ(CountConnections(daemon), 2);
  ASSERT_EQ(kill(server, SIGCONT), 0);
  const auto deadline = steady_clock::now() + seconds(60);
  while (CountConnections(daemon) != 1) {
    ASSERT_LT(steady_clock::now(), deadline) << CountConnections(daemon);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  // The proxy refuses it while it looks for connections, and a busy machine may be late.
  auto grown = exports.Resize("store", "pvc-1", 96 * kMiB);
  while (!grown.ok() && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    grown = exports.Resize("store", "pvc-1", 96 * kMiB);
  }
  ASSERT_OK(grown);
  EXPECT_EQ(grown->size_bytes, 96 * kMiB);
  while (CountConnections(daemon) != 1) {
    ASSERT_LT(steady_clock::now(), deadline) << CountConnections(daemon);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_OK(exports.Kill("store", "pvc-1"));
}

// A node away from the server has no lock, and gets the volume by the fence alone.
TEST_F(NbdProxiedTest, ANodeThatDoesNotReachTheImagesMapsThemWithoutALock) {
  ServeByNbdkit();
  nodes_["two"].backend = Open("two", folder_ / "elsewhere");
  const auto mapping = Two().Map("pvc-1", {});
  ASSERT_OK(mapping);
  EXPECT_EQ(One().HasLock("pvc-1").status().code(), StatusCode::kUnimplemented);
  ASSERT_OK(Two().Unmap(*mapping));
}

}  // namespace
}  // namespace berth::block
