// Volumes in a sandbox that need a kernel of their own: a share of the kernel's NFS server, which
// tests/vm serves at 127.0.0.1:/ from /srv/nfs, a device that is suspended, and ext4 that grows
// while it is mounted, also under PostgreSQL, whose root file system tests/vm has at /mnt.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <thread>

#include "base/assert_ok.h"
#include "base/ids.h"
#include "crust/device.h"
#include "crust/namespace_sandbox.h"
#include "crust/requests.h"
#include "platform/devices/loop_device.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/host_lookup.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"

namespace berth::crust {
namespace {

namespace wire = ::crust::v1alpha1;
using base::StatusCode;
using testing::Contains;
using testing::Field;
using testing::Not;

constexpr uint64_t kMiB = 1024 * 1024;

class SandboxTest : public testing::Test {
 protected:
  void SetUp() override {
    auto kind = NewNamespaceSandboxes(*mounter_, *exec_,
                                      {.pins = folder_ / "pins",
                                       .utilities = folder_ / "utilities",
                                       .kubelet = folder_ / "kubelet"},
                                      limits_);
    ASSERT_OK(kind.status());
    kind_ = *std::move(kind);
    Open();
  }
  void TearDown() override {
    if (sandbox_ != nullptr) EXPECT_TRUE(sandbox_->RemoveSandbox().ok());
    EXPECT_TRUE(mounter_->UnmountLazy(folder_ / "pins").ok());
    EXPECT_TRUE(mounter_->UnmountLazy(folder_ / "utilities").ok());
  }
  // Opens the sandbox as a restarted handler does.
  void Open() {
    sandbox_.reset();
    auto sandbox = kind_->OpenSandbox("s1");
    ASSERT_OK(sandbox.status());
    sandbox_ = *std::move(sandbox);
  }

  base::StatusOr<MountPlan> PlanOf(const std::string& source, const std::string& type,
                                   const std::vector<std::string>& options = {}) {
    wire::RuntimePublishVolumeRequest request;
    request.set_sandbox_id("s1");
    request.set_host_volume_id(source);
    request.set_host_target_path(folder_ / "target");
    request.set_file_system(type);
    for (const std::string& option : options) request.add_mount_options(option);
    return MakePlan(request, {.file_systems = {"ext4"}, .shares = {"nfs4"}});
  }
  base::Status Publish(const MountPlan& plan) {
    return sandbox_->PublishVolume(plan, {.cancelled = [] { return false; }});
  }
  std::vector<platform::MountEntry> HostMounts() { return *mounter_->List(); }

  static void Write(const Graft& graft, const char* name, std::string_view text) {
    const base::UniqueFd file(
        openat(graft.mount.get(), name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    ASSERT_TRUE(file.valid()) << strerror(errno);
    ASSERT_OK(platform::WriteAll(file.get(), text));
  }

  StallLimits limits_;
  const platform::TempFolder folder_;
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  std::unique_ptr<SandboxKind> kind_;
  std::unique_ptr<Sandbox> sandbox_;
};

class NfsShareTest : public SandboxTest {
 protected:
  base::StatusOr<MountPlan> Share(const std::string& source) {
    return PlanOf(source, "nfs4", {"vers=4.2", "addr=127.0.0.1", "clientaddr=127.0.0.1"});
  }
};

TEST_F(NfsShareTest, IsMountedInTheSandboxAlone) {
  const auto plan = Share("127.0.0.1:/");
  ASSERT_OK(plan.status());
  ASSERT_OK(Publish(*plan));
  ASSERT_OK(Publish(*plan));  // again
  EXPECT_THAT(HostMounts(), Not(Contains(Field(&platform::MountEntry::fs_type, "nfs4"))));
  {
    const auto all = sandbox_->MakeGraft(*plan, "");
    ASSERT_OK(all.status());
    Write(*all, "file", "by a container");
    EXPECT_EQ(*platform::ReadFile("/srv/nfs/file"), "by a container");
    const auto part = sandbox_->MakeGraft(*plan, "data/mine");
    ASSERT_OK(part.status());
    Write(*part, "file", "below");
    EXPECT_EQ(*platform::ReadFile("/srv/nfs/data/mine/file"), "below");
    EXPECT_THAT(HostMounts(), Not(Contains(Field(&platform::MountEntry::fs_type, "nfs4"))));
  }
  Open();
  const auto stats = sandbox_->ReadStats(*plan);
  ASSERT_OK(stats.status());
  EXPECT_GT(stats->usage->total_bytes, 0);
  EXPECT_FALSE(stats->abnormal) << stats->condition;
  EXPECT_EQ(sandbox_->ExpandVolume(*plan).status().code(), StatusCode::kFailedPrecondition)
      << "a share has the size that its server gives it";
  ASSERT_OK(sandbox_->UnpublishVolume(*plan));
  EXPECT_FALSE(sandbox_->MakeGraft(*plan, "").ok());
}

TEST_F(NfsShareTest, WhatTheServerRefusesIsAnError) {
  const auto plan = Share("127.0.0.1:/no/such");
  ASSERT_OK(plan.status());
  EXPECT_EQ(Publish(*plan).code(), StatusCode::kNotFound) << Publish(*plan);
  EXPECT_FALSE(PlanOf("127.0.0.1:/", "ceph").ok()) << "it is not offered";
}

// tests/vm gives this machine the names share4.example, share6.example, and share.example, whose
// first address refuses connections.
TEST_F(NfsShareTest, IsFoundByTheNameOfItsServer) {
  ASSERT_THAT(*platform::ResolveHost("share.example",
                                     std::chrono::steady_clock::now() + std::chrono::minutes(1)),
              testing::ElementsAre("fd00::5", "127.0.0.1"));
  for (const std::string source :
       {"share4.example:/", "share6.example:/", "share.example:/", "127.0.0.1:/", "[::1]:/"}) {
    SCOPED_TRACE(source);
    const auto plan = PlanOf(source, "nfs4", {"vers=4.2"});
    ASSERT_OK(plan.status());
    ASSERT_OK(Publish(*plan));
    {
      const auto graft = sandbox_->MakeGraft(*plan, "");
      ASSERT_OK(graft.status());
      Write(*graft, "source", source);
    }
    EXPECT_EQ(*platform::ReadFile("/srv/nfs/source"), source);
    std::filesystem::remove("/srv/nfs/source");
    ASSERT_OK(Publish(*plan));  // the plan is the same, whatever the name means by now
    ASSERT_OK(sandbox_->UnpublishVolume(*plan));
  }
}

TEST_F(NfsShareTest, AServerWithoutAnAddressIsNamed) {
  const auto plan = PlanOf("no-such-host.example:/", "nfs4", {"vers=4.2"});
  ASSERT_OK(plan.status());
  const base::Status failed = Publish(*plan);
  EXPECT_EQ(failed.code(), StatusCode::kUnavailable);
  EXPECT_THAT(base::Message(failed),
              testing::HasSubstr("find the server of the share 'no-such-host.example:/': look up "
                                 "'no-such-host.example'"));
}

// While the loopback device is down, the server does not answer, as if its machine were dead.
TEST_F(NfsShareTest, AServerThatDoesNotAnswerIsNamedUntilItDoes) {
  const auto set_server = [this](const std::string& up_or_down) {
    return platform::RunOk(*exec_, {.argv = {"ip", "link", "set", "lo", up_or_down}}).status();
  };
  const auto plan = Share("127.0.0.1:/");
  ASSERT_OK(plan.status());
  ASSERT_OK(Publish(*plan));
  ASSERT_OK(set_server("down"));
  auto stats = sandbox_->ReadStats(*plan);
  ASSERT_OK(stats.status());
  EXPECT_TRUE(stats->abnormal);
  EXPECT_THAT(stats->condition,
              testing::StartsWith("share '127.0.0.1:/' does not answer: its nfs4 could not be read "
                                  "since 20"));
  const std::string condition = stats->condition;
  stats = sandbox_->ReadStats(*plan);
  ASSERT_OK(stats.status());
  EXPECT_EQ(stats->condition, condition) << "one stall is one event";
  ASSERT_OK(set_server("up"));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  do {
    stats = sandbox_->ReadStats(*plan);
    ASSERT_OK(stats.status());
  } while (stats->abnormal && std::chrono::steady_clock::now() < deadline);
  EXPECT_EQ(stats->condition, "the file system answers");
  ASSERT_OK(sandbox_->UnpublishVolume(*plan));
}

// Volumes on a device-mapper device, which is suspended: it answers no read and no write.
class SuspendedDeviceTest : public SandboxTest {
 protected:
  void SetUp() override {
    limits_ = {.write = std::chrono::milliseconds(1), .unmount = std::chrono::milliseconds(500)};
    SandboxTest::SetUp();
    auto loop = platform::AttachLoop(folder_.SparseFile("image", 64 * kMiB), {});
    ASSERT_OK(loop.status());
    loop_ = *std::move(loop);
    ASSERT_OK(platform::FindFileSystem("ext4")->Format(*exec_, loop_.path, {}));
    ASSERT_OK(Dmsetup({"create", kName, "--table",
                       fmt::format("0 {} linear {} 0", 64 * kMiB / 512, loop_.path)}));
    ASSERT_OK(Dmsetup({"mknodes", kName}));  // there is no udev
  }
  void TearDown() override {
    EXPECT_TRUE(Dmsetup({"resume", kName}).ok());
    EXPECT_TRUE(sandbox_->UnpublishVolume(plan_).ok());
    EXPECT_TRUE(WaitUntilDeviceIsFree(plan_.device, std::chrono::minutes(1)).ok());
    EXPECT_TRUE(Dmsetup({"remove", "--retry", kName}).ok());
    EXPECT_TRUE(platform::DetachLoop(loop_).ok());
    SandboxTest::TearDown();
  }
  base::Status Dmsetup(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "dmsetup");
    return platform::RunOk(*exec_, {.argv = std::move(arguments)}).status();
  }
  void PublishWith(const std::vector<std::string>& options) {
    auto plan = PlanOf(std::string("/dev/mapper/") + kName, "ext4", options);
    ASSERT_OK(plan.status());
    plan_ = *std::move(plan);
    ASSERT_OK(Publish(plan_));
  }
  void Suspend() { ASSERT_OK(Dmsetup({"suspend", "--nolockfs", "--noflush", kName})); }
  // Reads the condition until it is abnormal, or is not.
  std::string WaitForCondition(bool abnormal) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    auto stats = sandbox_->ReadStats(plan_);
    while (stats.ok() && stats->abnormal != abnormal &&
           std::chrono::steady_clock::now() < deadline) {
      stats = sandbox_->ReadStats(plan_);
    }
    return stats.ok() ? stats->condition : base::ToString(stats.status());
  }

  static constexpr const char* kName = "berth-stall";
  platform::LoopDevice loop_;
  MountPlan plan_;
};

TEST_F(SuspendedDeviceTest, IsNamedWhetherTheVolumeIsWrittenOrOnlyRead) {
  for (const bool read_only : {false, true}) {
    SCOPED_TRACE(read_only);
    ASSERT_NO_FATAL_FAILURE(
        PublishWith(read_only ? std::vector<std::string>{"ro"} : std::vector<std::string>{}));
    EXPECT_EQ(WaitForCondition(false), "the file system answers");
    if (!read_only) {
      const auto graft = sandbox_->MakeGraft(plan_, "");
      ASSERT_OK(graft.status());
      Write(*graft, "file", "not on the device yet");
    }
    Suspend();
    const std::string condition = WaitForCondition(true);
    EXPECT_THAT(condition, testing::StartsWith(fmt::format(
                               "device '/dev/mapper/{}' does not answer: its ext4 could not be {} "
                               "since 20",
                               kName, read_only ? "read" : "written")));
    EXPECT_EQ(WaitForCondition(true), condition) << "one stall is one event";
    ASSERT_OK(Dmsetup({"resume", kName}));
    EXPECT_EQ(WaitForCondition(false), "the file system answers");
    ASSERT_OK(sandbox_->UnpublishVolume(plan_));
    ASSERT_OK(WaitUntilDeviceIsFree(plan_.device, std::chrono::minutes(1)));
  }
}

TEST_F(SuspendedDeviceTest, IsNamedByTheUnmountThatWaitsForIt) {
  ASSERT_NO_FATAL_FAILURE(PublishWith({}));
  {
    const auto graft = sandbox_->MakeGraft(plan_, "");
    ASSERT_OK(graft.status());
    Write(*graft, "file", "not on the device yet");
  }
  Suspend();
  const base::Status waits = sandbox_->UnpublishVolume(plan_);
  EXPECT_EQ(waits.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(base::Message(waits),
              testing::HasSubstr("does not answer: its ext4 is being unmounted since 20"));
}

class ExtVolumeTest : public SandboxTest {};

TEST_F(ExtVolumeTest, GrowsWhileAContainerUsesIt) {
  const std::string image = folder_.SparseFile("image", 64 * kMiB);
  const auto loop = platform::AttachLoop(image, {});
  ASSERT_OK(loop.status());
  ASSERT_OK(platform::FindFileSystem("ext4")->Format(*exec_, loop->path, {}));
  const auto plan = PlanOf(loop->path, "ext4");
  ASSERT_OK(plan.status());
  ASSERT_OK(Publish(*plan));
  {
    const auto graft = sandbox_->MakeGraft(*plan, "");
    ASSERT_OK(graft.status());
    Write(*graft, "before", "precious");
    std::filesystem::resize_file(image, 256 * kMiB);
    ASSERT_OK(platform::RefreshLoopSize(*loop).status());
    const auto grown = sandbox_->ExpandVolume(*plan);
    ASSERT_OK(grown.status());
    EXPECT_GT(*grown, static_cast<int64_t>(200 * kMiB));
    Write(*graft, "after", std::string(100 * kMiB, 'x'));
    const base::UniqueFd file(openat(graft->mount.get(), "before", O_RDONLY | O_CLOEXEC));
    char text[16] = {};
    EXPECT_EQ(read(file.get(), text, sizeof text), 8);
    EXPECT_STREQ(text, "precious");
  }
  ASSERT_OK(sandbox_->UnpublishVolume(*plan));
  ASSERT_OK(platform::DetachLoop(*loop));
}

// A container, as far as a database needs one: /mnt is its root, and its volume is at /data.
class DatabaseTest : public SandboxTest {
 protected:
  static constexpr uid_t kUser = 65534;  // the server refuses to run as root
  static constexpr std::chrono::seconds kPatience{120};

  void SetUp() override {
    SandboxTest::SetUp();
    image_ = folder_.SparseFile("image", 160 * kMiB);
    auto loop = platform::AttachLoop(image_, {});
    ASSERT_OK(loop.status());
    loop_ = *std::move(loop);
    ASSERT_OK(platform::FindFileSystem("ext4")->Format(*exec_, loop_.path, {}));
    std::filesystem::create_directories("/mnt/data");
    std::filesystem::permissions("/mnt/tmp", std::filesystem::perms::all);
  }

  // Gives the volume to the container alone.
  void Give() {
    auto plan = PlanOf(loop_.path, "ext4");
    ASSERT_OK(plan.status());
    plan_ = *std::move(plan);
    ASSERT_OK(Publish(plan_));
    const auto graft = sandbox_->MakeGraft(plan_, "");
    ASSERT_OK(graft.status());
    ASSERT_EQ(fchownat(graft->mount.get(), ".", kUser, kUser, 0), 0) << strerror(errno);
    ASSERT_EQ(move_mount(graft->mount.get(), "", AT_FDCWD, "/mnt/data", MOVE_MOUNT_F_EMPTY_PATH), 0)
        << strerror(errno);
  }
  void TakeAway() {
    ASSERT_OK(mounter_->Unmount("/mnt/data"));
    ASSERT_OK(sandbox_->UnpublishVolume(plan_));
  }

  // In the container; 0, if the script ends well.
  static pid_t Begin(const std::string& script) {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    const std::string line =
        "export PATH=/usr/lib/postgresql/15/bin:/usr/bin:/bin PGHOST=/tmp "
        "PGUSER=pg PGDATABASE=postgres; " +
        script;
    if (chroot("/mnt") != 0 || chdir("/") != 0 || setgid(kUser) != 0 || setuid(kUser) != 0)
      _exit(99);
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(98);
  }
  static int End(pid_t pid) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  static int Run(const std::string& script) { return End(Begin(script)); }
  static void WaitFor(const std::string& what, const std::function<bool()>& holds) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!holds()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << what;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  void StartServer() {
    server_ = Begin(
        "exec postgres -D /data/pg -k /tmp -c listen_addresses= -c shared_buffers=16MB "
        "-c max_wal_size=32MB -c min_wal_size=8MB >>/tmp/log 2>&1");
    WaitFor("the server answers", [] { return Run("pg_isready -q") == 0; });
  }
  // How many numbers were committed, as the client was told.
  static int Acknowledged() {
    const auto text = platform::ReadFile("/mnt/tmp/acknowledged", 1 << 20);
    return text.ok() ? static_cast<int>(std::count(text->begin(), text->end(), '\n')) : 0;
  }

  std::string image_;
  platform::LoopDevice loop_;
  MountPlan plan_;
  pid_t server_ = -1;
};

TEST_F(DatabaseTest, LosesNothingWhileItsVolumeGrowsAndMovesToAnotherSandbox) {
  Give();
  ASSERT_EQ(
      Run("initdb -D /data/pg -k -A trust -U pg --locale=C -E UTF8 --wal-segsize=4 >/tmp/log"), 0);
  StartServer();
  ASSERT_EQ(Run("psql -X -q -c 'CREATE TABLE numbers (n bigint PRIMARY KEY)'"), 0);
  const pid_t client = Begin(
      "i=0; while :; do i=$((i + 1)); echo \"INSERT INTO numbers VALUES ($i) RETURNING n;\"; "
      "done | psql -X -A -t -q >/tmp/acknowledged 2>/tmp/client");
  WaitFor("the load", [] { return Acknowledged() > 20; });

  std::filesystem::resize_file(image_, 400 * kMiB);
  ASSERT_OK(platform::RefreshLoopSize(loop_).status());
  const auto grown = sandbox_->ExpandVolume(plan_);
  ASSERT_OK(grown.status());
  EXPECT_GT(*grown, static_cast<int64_t>(350 * kMiB));
  const auto stats = sandbox_->ReadStats(plan_);
  ASSERT_OK(stats.status());
  EXPECT_EQ(stats->usage->total_bytes, *grown);
  EXPECT_FALSE(stats->abnormal) << stats->condition;
  const int before = Acknowledged();
  WaitFor("the load goes on", [before] { return Acknowledged() > before + 20; });
  // More than the volume had before.
  ASSERT_EQ(Run("psql -X -q -v ON_ERROR_STOP=1 -c 'CREATE UNLOGGED TABLE room AS SELECT "
                "repeat(md5(i::text), 60) FROM generate_series(1, 80000) i'"),
            0);
  ASSERT_OK(sandbox_->ReadStats(plan_).status());
  EXPECT_GT(sandbox_->ReadStats(plan_)->usage->used_bytes, static_cast<int64_t>(160 * kMiB));

  // The server ends as in a crash, and another sandbox has the volume.
  kill(server_, SIGQUIT);
  End(server_);
  End(client);
  TakeAway();
  ASSERT_OK(sandbox_->RemoveSandbox());
  Open();
  Give();
  StartServer();
  const int committed = Acknowledged();
  // One more may have been committed whose client never heard of it.
  EXPECT_EQ(
      Run(fmt::format("psql -X -A -t -q -c 'SELECT count(*) = max(n) AND max(n) BETWEEN {} AND "
                      "{} FROM numbers' | grep -qx t",
                      committed, committed + 1)),
      0);
  // Each block's checksum, and each index against its table.
  EXPECT_EQ(Run("pg_amcheck --install-missing --heapallindexed --all"), 0);
  kill(server_, SIGINT);
  EXPECT_EQ(End(server_), 0);
  TakeAway();
  ASSERT_OK(platform::DetachLoop(loop_));
}

}  // namespace
}  // namespace berth::crust
