// What a pod may ask for as a subPath, and what a container does to it meanwhile.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/assert_ok.h"
#include "crust/namespace_sandbox.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::crust {
namespace {

class SubPathTest : public testing::Test {
 protected:
  void SetUp() override {
    auto kind = NewNamespaceSandboxes(*mounter_, *exec_,
                                      {.pins = folder_ / "pins",
                                       .utilities = folder_ / "utilities",
                                       .kubelet = folder_ / "kubelet"});
    ASSERT_OK(kind);
    kind_ = *std::move(kind);
    auto sandbox = kind_->OpenSandbox("s1");
    ASSERT_OK(sandbox);
    sandbox_ = *std::move(sandbox);
    ASSERT_OK(sandbox_->PublishVolume(plan_, {.cancelled = [] { return false; }}));
    auto all = sandbox_->MakeGraft(plan_, "");
    ASSERT_OK(all);
    volume_ = std::move(all->mount);
  }
  void TearDown() override {
    volume_.Reset();
    EXPECT_TRUE(sandbox_->RemoveSandbox().ok());
  }
  static dev_t DeviceOf(const base::UniqueFd& fd) {
    struct stat st = {};
    EXPECT_EQ(fstat(fd.get(), &st), 0);
    return st.st_dev;
  }

  const platform::TempFolder folder_;
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  const MountPlan plan_{.device = {.source = "volume"},
                        .steps = {MountFileSystem{.type = "tmpfs"}, PlaceInSandbox{"v1"}}};
  std::unique_ptr<SandboxKind> kind_;
  std::unique_ptr<Sandbox> sandbox_;
  base::UniqueFd volume_;
};

TEST_F(SubPathTest, AnyNameThatAFileMayHaveIsThatFile) {
  for (const std::string& name : {std::string("line\nbreak"), std::string(255, 'x'),
                                  std::string("..."), std::string("a b/\t/\"c\"")}) {
    const auto graft = sandbox_->MakeGraft(plan_, name);
    ASSERT_OK(graft);
    EXPECT_TRUE(graft->folder);
    struct stat st = {};
    struct stat there = {};
    EXPECT_EQ(fstatat(volume_.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW), 0) << name;
    EXPECT_EQ(fstat(graft->mount.get(), &there), 0);
    EXPECT_EQ(st.st_ino, there.st_ino);
  }
}

TEST_F(SubPathTest, WhatNoFileCanBeCalledIsRefused) {
  std::string deep;
  while (deep.size() < 6000) deep += "0123456789/";
  deep += "end";
  for (const std::string& name : {std::string(256, 'x'), deep, std::string("../out")}) {
    EXPECT_FALSE(sandbox_->MakeGraft(plan_, name).ok()) << name.substr(0, 20);
  }
}

TEST_F(SubPathTest, ALinkThatIsSwappedInMeanwhileLeadsNowhereElse) {
  ASSERT_EQ(mkdirat(volume_.get(), "in", 0755), 0);
  ASSERT_EQ(mkdirat(volume_.get(), "in/etc", 0755), 0);
  ASSERT_EQ(symlinkat("/", volume_.get(), "out"), 0);
  std::atomic<bool> over = false;
  std::thread swapping([&] {
    while (!over) {
      EXPECT_EQ(syscall(SYS_renameat2, volume_.get(), "in", volume_.get(), "out", RENAME_EXCHANGE),
                0);
    }
  });
  const dev_t own = DeviceOf(volume_);
  int given = 0;
  int refused = 0;
  for (int i = 0; i < 2000 && (i < 200 || given == 0 || refused == 0); ++i) {
    const auto graft = sandbox_->MakeGraft(plan_, "in/etc");
    if (graft.ok()) {
      ++given;
      EXPECT_EQ(DeviceOf(graft->mount), own);
    } else {
      ++refused;
    }
  }
  over = true;
  swapping.join();
  EXPECT_GT(given, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace berth::crust
