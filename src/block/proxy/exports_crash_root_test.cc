// A process with an I/O proxy and a back end maps, writes, grows and unmaps a volume, and is killed
// at each fault point of the proxy in turn. The daemons outlive it. In the next process the same
// work must succeed with the data that was written, and must leave nothing.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <thread>

#include "base/assert_ok.h"
#include "base/fault.h"
#include "base/ids.h"
#include "block/backend.h"
#include "block/proxy/fake_listener.h"
#include "block/proxy/service.h"
#include "block/sizes.h"
#include "platform/devices/loop_table.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/processes/exec.h"
#include "platform/processes/marked_processes.h"

namespace berth::block {
namespace {

using base::Error;
using base::StatusCode;
using testing::IsEmpty;

constexpr int kWorkFailed = 3;
constexpr std::string_view kData = "precious";
constexpr std::string_view kPoints = "block.proxy_";

enum class End { kUnmap, kForceUnmap };

// A node's I/O proxy and its back end.
struct Site {
  std::unique_ptr<platform::Exec> exec = platform::NewHostExec();
  std::unique_ptr<platform::Mounter> mounter = platform::NewMounter();
  std::unique_ptr<proxy::Exports> exports;
  std::unique_ptr<base::ipc::Server> server;
  std::unique_ptr<Backend> backend;
};

class ExportsCrashTest : public testing::Test {
 protected:
  static constexpr int64_t kSize = 64 * kMiB;

  // The settings of a StorageCluster, whose storage the I/O proxy knows as `store`
  // (proxy::Volume::store).
  void Prepare(const base::Json& settings, const std::string& store) {
    settings_ = settings;
    mark_ = fmt::format("BERTH_IO_PROXY_EXPORT={}/{}", run_,
                        base::Sha256Hex(store + "\npvc-1").substr(0, 24));
  }
  void StartNbdServer() {
    const auto exec = platform::NewHostExec();
    ASSERT_OK(platform::RunOk(*exec, {.argv = {"nbdkit", "--pidfile", folder_ / "pid", "--unix",
                                               socket_, "file", "dir=" + images_},
                                      .leaves_daemon = true}));
  }
  void SetUp() override { ASSERT_OK(platform::MakeFolders(images_, 0755)); }
  void TearDown() override {
    if (const auto pid = platform::ReadFile(folder_ / "pid"); pid.ok()) {
      kill(std::stoi(*pid), SIGKILL);
    }
  }

  base::Status OpenSite(Site& site) const {
    RETURN_IF_ERROR(platform::MakeFolders(run_, 0755));
    ASSIGN_OR_RETURN(site.exports, proxy::Exports::Open({.folder = run_}));
    site.server = proxy::ServeExports(*site.exports, proxy::ListenAt(run_ + "/sock"));
    ASSIGN_OR_RETURN(site.backend, OpenBackend(settings_, {.exec = *site.exec,
                                                           .mounter = *site.mounter,
                                                           .proxy_socket = run_ + "/sock",
                                                           .node = "one"}));
    return base::OkStatus();
  }
  // Writes the volume once, and later expects what was written.
  base::Status WriteOrCheck(const std::string& device) const {
    const base::UniqueFd fd(open(device.c_str(), O_RDWR | O_CLOEXEC));
    const std::string note = folder_ / "written";
    if (!std::filesystem::exists(note)) {
      const bool written =
          pwrite(fd.get(), kData.data(), kData.size(), 0) > 0 && fsync(fd.get()) == 0;
      std::ofstream(note) << "yes";
      return written ? base::OkStatus() : Error(StatusCode::kInternal, "write {}", device);
    }
    std::string seen(kData.size(), '\0');
    const bool read = pread(fd.get(), seen.data(), seen.size(), 0) > 0;
    return read && seen == kData ? base::OkStatus()
                                 : Error(StatusCode::kDataLoss, "{} holds '{}'", device, seen);
  }
  // Each step can be repeated, as the agent does.
  base::Status Work(Backend& backend, End end) const {
    ASSIGN_OR_RETURN(Mapping mapping, backend.Map("pvc-1", {}));
    std::ofstream(mapping_) << base::Json{{"device", mapping.device}, {"state", mapping.state}};
    RETURN_IF_ERROR(WriteOrCheck(mapping.device));
    RETURN_IF_ERROR(backend.Grow("pvc-1", 2 * kSize));
    ASSIGN_OR_RETURN(mapping, backend.Refresh(mapping));
    if (mapping.size_bytes != 2 * kSize) {
      return Error(StatusCode::kInternal, "{} has {} bytes", mapping.device, mapping.size_bytes);
    }
    RETURN_IF_ERROR(WriteOrCheck(mapping.device));
    return end == End::kUnmap ? backend.Unmap(mapping)
                              : backend.ForceUnmap(mapping, std::chrono::seconds(5));
  }
  // The mapping that the work recorded last, as the agent does.
  base::StatusOr<Mapping> ReadMapping() const {
    ASSIGN_OR_RETURN(const std::string text, platform::ReadFile(mapping_));
    ASSIGN_OR_RETURN(const base::Json record, base::json::Parse(text));
    return Mapping{.image = "pvc-1",
                   .device = base::json::String(record, {"device"}),
                   .state = record["state"]};
  }
  // Returns the wait status of a process that works with these faults.
  int RunInProcess(const std::string& faults, End end) const {
    const pid_t pid = fork();
    if (pid == 0) {
      setenv("BERTH_FAULTS", faults.c_str(), 1);
      setenv("BERTH_FAULT_LOG", (folder_ / "log").c_str(), 1);
      Site site;
      const bool done =
          base::InitFaultPoints().ok() && OpenSite(site).ok() && Work(*site.backend, end).ok();
      _exit(done ? 0 : kWorkFailed);
    }
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return status;
  }
  // The connections that the NBD server has.
  int CountConnections() const {
    int count = 0;
    std::ifstream table("/proc/net/unix");
    for (std::string line; std::getline(table, line);) {
      std::istringstream fields(line);
      std::string field[8];
      for (std::string& one : field) fields >> one;
      count += field[5] == "03" && field[7] == socket_ ? 1 : 0;
    }
    return count;
  }
  // The server forgets a connection some time after its client has ended it. There is none if the
  // process crashed before its daemon had one.
  void AwaitAtMostOneConnection() const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (CountConnections() > 1) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << CountConnections();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  void ExpectNothingLeft(Site& site) const {
    EXPECT_THAT(site.exports->List(), IsEmpty());
    EXPECT_THAT(*site.backend->ListMappings(), IsEmpty());
    EXPECT_THAT(platform::ListMarkedProcesses(mark_), IsEmpty());
    for (const char* folder : {"/records", "/daemons", "/exports"}) {
      for (const auto& file : std::filesystem::recursive_directory_iterator(run_ + folder)) {
        EXPECT_TRUE(file.is_directory()) << file.path();
      }
    }
    const auto mounts = site.mounter->List();
    ASSERT_OK(mounts);
    for (const platform::MountEntry& mount : *mounts) {
      EXPECT_FALSE(mount.mount_point.starts_with(run_ + "/exports")) << mount.mount_point;
    }
  }
  static void ExpectDetached(const Mapping& mapping) {
    const auto sequence = platform::ReadDiskSequence(mapping.device);
    ASSERT_OK(sequence);
    EXPECT_NE(*sequence, base::json::Int(mapping.state, {"sequence"})) << mapping.device;
  }
  // Calls `act` again while something is held. A child that a process was making when it crashed
  // has the locks of that process until it begins its own work, which is long on a busy machine.
  static base::Status RetryWhileHeld(const std::function<base::Status()>& act) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    base::Status status = act();
    while (status.code() == base::StatusCode::kFailedPrecondition &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      status = act();
    }
    return status;
  }
  // Crashes the work at that passage of the point, and works again.
  void CrashAt(const std::string& point, int passage, End end) {
    SCOPED_TRACE(fmt::format("{} at passage {}", point, passage));
    std::filesystem::remove(folder_ / "written");
    std::filesystem::remove(mapping_);
    Site before;
    ASSERT_OK(OpenSite(before));
    ASSERT_OK(before.backend->Create({.name = "pvc-1", .size_bytes = kSize}));
    before = Site();
    const int status = RunInProcess(fmt::format("{}=crash@{}", point, passage), end);
    EXPECT_TRUE(WIFSIGNALED(status)) << "it was not crashed: " << status;
    Site site;
    ASSERT_OK(RetryWhileHeld([&] { return OpenSite(site); }));
    if (!site.exports->List().empty() && site.exports->List().front().volume.server != "") {
      AwaitAtMostOneConnection();
    }
    const auto mapping = ReadMapping();  // none if it was crashed before
    if (mapping.ok() && end == End::kForceUnmap) {
      ASSERT_OK(RetryWhileHeld(
          [&] { return site.backend->ForceUnmap(*mapping, std::chrono::seconds(5)); }));
    }
    ASSERT_OK(RetryWhileHeld([&] { return Work(*site.backend, end); }));
    ExpectNothingLeft(site);
    if (mapping.ok()) ExpectDetached(*mapping);
    ASSERT_OK(site.backend->Delete("pvc-1"));
  }
  // Runs the work without a crash, and returns the points that it passed.
  std::set<std::string> FindPoints() {
    Site before;
    EXPECT_TRUE(OpenSite(before).ok());
    EXPECT_TRUE(before.backend->Create({.name = "pvc-1", .size_bytes = kSize}).ok());
    before = Site();
    EXPECT_EQ(RunInProcess("", End::kUnmap), 0);
    std::set<std::string> points;
    std::ifstream log(folder_ / "log");
    for (std::string line; std::getline(log, line);) {
      if (line.starts_with(kPoints)) points.insert(line);
    }
    Site after;
    EXPECT_TRUE(OpenSite(after).ok());
    EXPECT_TRUE(after.backend->Delete("pvc-1").ok());
    return points;
  }
  void WalkPoints(const std::set<std::string>& points) {
    // The record is written when the export starts, when it has a daemon, when it serves, and when
    // it is closed or killed.
    constexpr int kWrites = 4;
    for (const std::string& point : points) {
      const bool writes = point.find(".write.") != std::string::npos;
      for (int passage = 1; passage <= (writes ? kWrites : 1); ++passage) {
        CrashAt(point, passage, End::kUnmap);
      }
      // A kill passes these points, too.
      if (writes) CrashAt(point, kWrites, End::kForceUnmap);
    }
    for (const char* point :
         {"block.proxy_daemon.end", "block.proxy_daemon.ended", "block.proxy_export.unmounted",
          "block.proxy_export.remove.before", "block.proxy_export.remove.after"}) {
      CrashAt(point, 1, End::kForceUnmap);
    }
  }

  const platform::TempFolder folder_;
  const std::string images_ = folder_ / "images", run_ = folder_ / "run", socket_ = folder_ / "nbd";
  const std::string mapping_ = folder_ / "mapping";
  base::Json settings_;
  std::string mark_;
};

TEST_F(ExportsCrashTest, AnImageIsWholeAfterAKillAnywhere) {
  Prepare({{"images", {{"folder", images_}, {"access", "Proxy"}}}}, "images:" + images_);
  const std::set<std::string> points = FindPoints();
  EXPECT_THAT(points,
              testing::IsSupersetOf({"block.proxy_daemon.before", "block.proxy_daemon.started",
                                     "block.proxy_export.shown", "block.proxy_export.grown",
                                     "block.proxy_daemon.flushed", "block.proxy_daemon.end",
                                     "block.proxy_daemon.ended", "block.proxy_export.unmounted"}));
  WalkPoints(points);
}

TEST_F(ExportsCrashTest, AnExportOfAnNbdServerIsWholeAfterAKillAnywhere) {
  StartNbdServer();
  Prepare({{"nbd", {{"server", "unix:" + socket_}, {"folder", images_}, {"access", "Proxy"}}}},
          "nbd:unix:" + socket_);
  const std::set<std::string> points = FindPoints();
  EXPECT_THAT(points,
              testing::IsSupersetOf({"block.proxy_export.added", "block.proxy_export.connected"}));
  WalkPoints(points);
}

}  // namespace
}  // namespace berth::block
