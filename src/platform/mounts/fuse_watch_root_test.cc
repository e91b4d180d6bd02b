// FUSE servers in real processes that end, and what the watch reports of it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "base/log.h"
#include "base/mutex.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/mounts/fake_lost_mount.h"
#include "platform/mounts/fuse_watch.h"
#include "platform/mounts/mounter.h"

namespace berth::platform {
namespace {

using base::MutexLock;

// A process that serves a mount and never answers. SIGUSR1: it closes the connection and lives on.
class Server {
 public:
  explicit Server(const std::string& mount_point, bool with_child = false) {
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_NAME, "some-server");
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      sigset_t wake;
      sigemptyset(&wake);
      sigaddset(&wake, SIGUSR1);
      sigprocmask(SIG_BLOCK, &wake, nullptr);
      auto mount = LostMount::Make(mount_point);
      if (!mount.ok()) _exit(1);
      pid_t child = with_child ? fork() : 0;
      if (write(ready[1], &child, sizeof(child)) < 0) _exit(1);
      int signal = 0;
      sigwait(&wake, &signal);
      (*mount)->Die();
      char done = 1;
      if (write(ready[1], &done, 1) < 0) _exit(1);
      pause();
      _exit(0);
    }
    out_ = base::UniqueFd(ready[0]);
    close(ready[1]);
    // Both the parent and its child write.
    for (int i = 0; i < (with_child ? 2 : 1); ++i) {
      pid_t child = 0;
      if (read(out_.get(), &child, sizeof(child)) != sizeof(child)) std::abort();
      if (child != 0) child_ = child;
    }
  }
  ~Server() {
    Kill();
    if (child_ != 0) kill(child_, SIGKILL);
  }
  pid_t pid() const { return pid_; }
  pid_t child() const { return child_; }
  void Kill() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  void KillChild() { kill(child_, SIGTERM); }
  void CloseConnection() {
    kill(pid_, SIGUSR1);
    char done = 0;
    if (read(out_.get(), &done, 1) != 1) std::abort();
  }

 private:
  pid_t pid_ = 0;
  pid_t child_ = 0;
  base::UniqueFd out_;
};

class FuseWatchRootTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "skipped: mounting needs root";
    for (const std::string& point : {a_, b_}) ASSERT_TRUE(MakeFolders(point).ok());
  }
  void Start() {
    auto watch = WatchFuse(folder_.path(), [this](const LostFuse& lost) {
      MutexLock lock(mutex_);
      lost_.push_back(lost);
      changed_.NotifyAll();
    });
    ASSERT_TRUE(watch.ok()) << watch.status();
    watch_ = *std::move(watch);
  }
  // When this returns, the watch knows everything that is mounted now.
  void WaitUntilAllIsSeen() {
    const size_t before = WaitForLost(0).size();
    const std::string beside = folder_ / fmt::format("beside-{}", ++looks_);
    ASSERT_TRUE(MakeFolders(beside).ok());
    Server(beside).Kill();
    ASSERT_EQ(WaitForLost(before + 1).size(), before + 1);
    MutexLock lock(mutex_);
    lost_.pop_back();
  }
  std::vector<LostFuse> WaitForLost(size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    MutexLock lock(mutex_);
    while (lost_.size() < count && changed_.WaitUntil(mutex_, deadline)) {
    }
    return lost_;
  }

  TempFolder folder_;
  const std::string a_ = folder_ / "a";
  const std::string b_ = folder_ / "b";
  int looks_ = 0;
  const std::unique_ptr<Mounter> mounter_ = NewMounter();
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<LostFuse> lost_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<FuseWatch> watch_;
};

TEST_F(FuseWatchRootTest, AServersDeathIsToldWithItsCauseAndAllItsMounts) {
  Server server(a_);
  ASSERT_TRUE(
      mounter_->Mount({.source = a_, .target = b_, .fs_type = "", .options = {"bind"}}).ok());
  Start();
  WaitUntilAllIsSeen();
  const pid_t pid = server.pid();
  server.Kill();
  const auto lost = WaitForLost(1);
  ASSERT_EQ(lost.size(), 1U);
  const std::vector<std::string>& points = lost[0].mount_points;
  EXPECT_EQ(std::set<std::string>(points.begin(), points.end()), (std::set<std::string>{a_, b_}));
  EXPECT_EQ(lost[0].type, "fuse");
  EXPECT_EQ(lost[0].source, "lost");
  ASSERT_EQ(lost[0].ended.size(), 1U);
  EXPECT_EQ(lost[0].ended[0].server.pid, pid);
  EXPECT_EQ(lost[0].ended[0].server.name, "some-server");
  // Kernels before 6.15 do not say it of a process whose parent has fetched it.
  if (lost[0].ended[0].wait_status.has_value()) EXPECT_EQ(*lost[0].ended[0].wait_status, SIGKILL);
}

TEST_F(FuseWatchRootTest, AMountThatComesLaterIsWatchedToo) {
  Start();
  WaitUntilAllIsSeen();
  Server(a_).Kill();
  const auto lost = WaitForLost(1);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].mount_points, std::vector<std::string>{a_});
}

TEST_F(FuseWatchRootTest, OneOfTwoThatServeMayEnd) {
  Server server(a_, /*with_child=*/true);
  Start();
  WaitUntilAllIsSeen();
  server.Kill();
  WaitUntilAllIsSeen();
  server.KillChild();
  const auto lost = WaitForLost(1);
  ASSERT_EQ(lost.size(), 1U);
  ASSERT_EQ(lost[0].ended.size(), 1U) << "the parent's end was none of the mount's";
  EXPECT_EQ(lost[0].ended[0].server.pid, server.child());
}

TEST_F(FuseWatchRootTest, WhatWasLostBeforeIsToldAtTheStart) {
  Server(a_).Kill();
  Start();
  const auto lost = WaitForLost(1);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_TRUE(lost[0].ended.empty());
}

TEST_F(FuseWatchRootTest, AServerThatClosesItsConnectionAndLivesOnIsFoundAtTheNextLook) {
  Server closing(a_);
  Start();
  closing.CloseConnection();
  Server(b_).Kill();
  const auto lost = WaitForLost(2);
  ASSERT_EQ(lost.size(), 2U);
}

TEST_F(FuseWatchRootTest, TheNextMountInItsPlaceIsAnother) {
  Start();
  std::set<uint32_t> numbers;
  for (size_t i = 1; i <= 3; ++i) {
    Server server(a_);
    WaitUntilAllIsSeen();  // two that come and go between two looks cannot be told apart
    numbers.insert(FindMount(*mounter_->List(), a_)->minor);
    server.Kill();
    ASSERT_EQ(WaitForLost(i).size(), i);
    ASSERT_TRUE(mounter_->UnmountLazy(a_).ok());
  }
  if (numbers.size() == 3) GTEST_SKIP() << "skipped: the kernel gave no number twice";
}

TEST_F(FuseWatchRootTest, OneThatHangsIsNotLost) {
  Server hanging(a_);
  Start();
  Server(b_).Kill();
  const auto lost = WaitForLost(1);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].mount_points, std::vector<std::string>{b_});
  watch_.reset();
  EXPECT_EQ(WaitForLost(1).size(), 1U);
}

TEST_F(FuseWatchRootTest, OneElsewhereIsNobodysBusiness) {
  const TempFolder elsewhere;
  Server(elsewhere.path()).Kill();
  Server(a_).Kill();
  Start();
  const auto lost = WaitForLost(1);
  ASSERT_EQ(lost.size(), 1U);
  watch_.reset();
  EXPECT_EQ(WaitForLost(1).size(), 1U);
  EXPECT_EQ(lost[0].mount_points, std::vector<std::string>{a_});
}

}  // namespace
}  // namespace berth::platform
