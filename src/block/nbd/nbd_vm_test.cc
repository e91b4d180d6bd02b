// NBD by the kernel's client, with nbdkit as the server. Run by tests/vm, in a kernel that has one.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/assert_ok.h"
#include "block/backend.h"
#include "block/nbd/nbd_kernel.h"
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
using testing::IsEmpty;
using testing::SizeIs;

class NbdTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const std::string& path : {images_, mount_}) ASSERT_OK(platform::MakeFolders(path, 0755));
    backend_ = Open("Auto", "one");
    ASSERT_OK(backend_->Create({.name = "pvc-1", .size_bytes = 64 * kMiB}));
    ASSERT_OK(backend_->Create({.name = "pvc-2", .size_bytes = 32 * kMiB}));
    ASSERT_OK(platform::RunOk(*exec_, {.argv = {"modprobe", "nbd", "nbds_max=4"}}));
    Serve();
  }
  void TearDown() override {
    EXPECT_TRUE(mounter_->UnmountLazy(mount_).ok());
    const auto mappings = backend_->ListMappings();
    for (const Mapping& mapping : *mappings) {
      EXPECT_TRUE(backend_->ForceUnmap(mapping, seconds(10)).ok()) << mapping.device;
    }
    KillServer();
  }
  void Serve() {
    unlink((folder_ / "sock").c_str());
    ASSERT_OK(platform::RunOk(*exec_, {.argv = {"nbdkit", "--pidfile", folder_ / "pid", "--unix",
                                                folder_ / "sock", "file", "dir=" + images_},
                                       .leaves_daemon = true}));
  }
  void Signal(int signal) {
    const auto pid = platform::ReadFile(folder_ / "pid");
    if (pid.ok()) kill(std::stoi(*pid), signal);
  }
  void KillServer() { Signal(SIGKILL); }
  std::unique_ptr<Backend> Open(const std::string& access, const std::string& node) {
    auto backend = OpenBackend(
        {{"nbd",
          {{"server", "unix:" + (folder_ / "sock")}, {"folder", images_}, {"access", access}}}},
        {.exec = *exec_, .mounter = *mounter_, .proxy_socket = "", .node = node});
    EXPECT_TRUE(backend.ok()) << backend.status();
    return *std::move(backend);
  }
  void Mount(const Mapping& mapping) {
    ASSERT_OK(platform::FormatIfBlank(*exec_, mapping.device, "ext4", {}));
    ASSERT_OK(mounter_->Mount({.source = mapping.device, .target = mount_, .fs_type = "ext4"}));
  }

  const platform::TempFolder folder_;
  const std::string images_ = folder_ / "images", mount_ = folder_ / "mount";
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  std::unique_ptr<Backend> backend_;
};

TEST_F(NbdTest, AnExportIsMappedWrittenGrownAndUnmapped) {
  ASSERT_TRUE(HasKernelNbd());
  const auto mapping = backend_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  EXPECT_THAT(mapping->device, HasSubstr("/dev/nbd"));
  EXPECT_EQ(mapping->size_bytes, 64 * kMiB);
  EXPECT_EQ(backend_->Map("pvc-1", {})->device, mapping->device);
  EXPECT_EQ(Open("Auto", "one")->FindMapping("pvc-1")->value().state, mapping->state);
  EXPECT_FALSE(Open("Kernel", "two")->FindMapping("pvc-1")->has_value());
  const auto other = backend_->Map("pvc-2", {.read_only = true});
  ASSERT_OK(other);
  EXPECT_NE(other->device, mapping->device);
  EXPECT_TRUE(other->read_only);
  EXPECT_THAT(*backend_->ListMappings(), SizeIs(2));
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
  ASSERT_OK(backend_->Unmap(*other));
  EXPECT_THAT(*backend_->ListMappings(), IsEmpty());
  const auto again = backend_->Map("pvc-1", {});
  ASSERT_OK(again);
  EXPECT_EQ(again->size_bytes, 96 * kMiB);
  Mount(*again);
  EXPECT_EQ(*platform::ReadFile(mount_ + "/file"), "precious");
  ASSERT_OK(mounter_->Unmount(mount_));
}

TEST_F(NbdTest, AnExportThatTheServerDoesNotHaveIsSaidSo) {
  const auto missing = backend_->Map("pvc-9", {});
  EXPECT_FALSE(missing.ok());
  EXPECT_THAT(base::Message(missing.status()), HasSubstr("pvc-9"));
  KillServer();
  EXPECT_EQ(backend_->Map("pvc-1", {}).status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(*backend_->ListMappings(), IsEmpty());
}

TEST_F(NbdTest, WhatAServerWithoutLocksServesIsNotSaidToBeFree) {
  EXPECT_EQ(backend_->HasLock("pvc-1").status().code(), StatusCode::kUnimplemented);
}

TEST_F(NbdTest, IoFailsWhenTheServerDiesAndAForcedUnmapEndsIt) {
  const auto mapping = backend_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  Mount(*mapping);
  const base::UniqueFd file(open((mount_ + "/file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(write(file.get(), "a", 1), 1);
  ASSERT_EQ(fsync(file.get()), 0);
  KillServer();
  const auto begun = steady_clock::now();
  EXPECT_TRUE(write(file.get(), "b", 1) < 0 || fsync(file.get()) < 0);
  EXPECT_LT(steady_clock::now() - begun, seconds(60));
  ASSERT_OK(backend_->ForceUnmap(*mapping, seconds(10)));
  EXPECT_FALSE(backend_->FindMapping("pvc-1")->has_value());
  ASSERT_OK(mounter_->UnmountLazy(mount_));
}

TEST_F(NbdTest, AServerThatHangsIsForcedOff) {
  const auto mapping = backend_->Map("pvc-1", {});
  ASSERT_OK(mapping);
  Mount(*mapping);
  const base::UniqueFd file(open((mount_ + "/file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(write(file.get(), "a", 1), 1);
  ASSERT_EQ(fsync(file.get()), 0);
  Signal(SIGSTOP);
  // More than the socket holds, so that the kernel waits while it sends.
  const std::string much(16 * kMiB, 'b');
  std::jthread writer([&] {
    EXPECT_TRUE(write(file.get(), much.data(), much.size()) < 0 || fsync(file.get()) < 0);
  });
  const std::string requests = "/sys/block" + mapping->device.substr(4) + "/inflight";
  const auto deadline = steady_clock::now() + seconds(60);
  uint64_t reads = 0, writes = 0;
  while (writes < 2 && steady_clock::now() < deadline) {
    std::ifstream(requests) >> reads >> writes;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_GE(writes, 2u);
  ASSERT_OK(backend_->ForceUnmap(*mapping, seconds(10)));
  writer.join();
  EXPECT_FALSE(backend_->FindMapping("pvc-1")->has_value());
  ASSERT_OK(mounter_->UnmountLazy(mount_));
  Signal(SIGCONT);
}

}  // namespace
}  // namespace berth::block
