// Volumes in a sandbox that need a kernel of their own: a share of the kernel's NFS server, which
// tests/vm serves at 127.0.0.1:/ from /srv/nfs, and ext4 that grows while it is mounted.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/assert_ok.h"
#include "base/ids.h"
#include "crust/namespace_sandbox.h"
#include "crust/requests.h"
#include "platform/durable_file.h"
#include "platform/exec.h"
#include "platform/fake_temp_folder.h"
#include "platform/file_system.h"
#include "platform/loop_device.h"
#include "platform/mounter.h"

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
                                       .kubelet = folder_ / "kubelet"});
    ASSERT_OK(kind.status());
    kind_ = *std::move(kind);
    Open();
  }
  void TearDown() override {
    if (sandbox_ != nullptr) EXPECT_TRUE(sandbox_->End().ok());
    EXPECT_TRUE(mounter_->UnmountLazy(folder_ / "pins").ok());
    EXPECT_TRUE(mounter_->UnmountLazy(folder_ / "utilities").ok());
  }
  // As a handler does that comes back.
  void Open() {
    sandbox_.reset();
    auto sandbox = kind_->Open("s1");
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
    return MakePlan(request, {.file_systems = {"ext4"}, .shares = {"nfs4"}}, "v1");
  }
  base::Status Publish(const MountPlan& plan) {
    return sandbox_->Publish(plan, {.cancelled = [] { return false; }});
  }
  std::vector<platform::MountEntry> HostMounts() { return *mounter_->List(); }

  static void Write(const Graft& graft, const char* name, std::string_view text) {
    const base::UniqueFd file(
        openat(graft.mount.get(), name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    ASSERT_TRUE(file.valid()) << strerror(errno);
    ASSERT_OK(platform::WriteAll(file.get(), text));
  }

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
    const auto all = sandbox_->ForContainer(*plan, "");
    ASSERT_OK(all.status());
    Write(*all, "file", "by a container");
    EXPECT_EQ(*platform::ReadFile("/srv/nfs/file"), "by a container");
    const auto part = sandbox_->ForContainer(*plan, "data/mine");
    ASSERT_OK(part.status());
    Write(*part, "file", "below");
    EXPECT_EQ(*platform::ReadFile("/srv/nfs/data/mine/file"), "below");
    EXPECT_THAT(HostMounts(), Not(Contains(Field(&platform::MountEntry::fs_type, "nfs4"))));
  }
  Open();
  const auto stats = sandbox_->Stats(*plan);
  ASSERT_OK(stats.status());
  EXPECT_GT(stats->usage->total_bytes, 0);
  EXPECT_FALSE(stats->abnormal) << stats->condition;
  EXPECT_EQ(sandbox_->Expand(*plan).status().code(), StatusCode::kFailedPrecondition)
      << "a share has the size that its server gives it";
  ASSERT_OK(sandbox_->Unpublish(*plan));
  EXPECT_FALSE(sandbox_->ForContainer(*plan, "").ok());
}

TEST_F(NfsShareTest, WhatTheServerRefusesIsAnError) {
  const auto plan = Share("127.0.0.1:/no/such");
  ASSERT_OK(plan.status());
  EXPECT_EQ(Publish(*plan).code(), StatusCode::kNotFound) << Publish(*plan);
  EXPECT_FALSE(PlanOf("127.0.0.1:/", "ceph").ok()) << "it is not offered";
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
    const auto graft = sandbox_->ForContainer(*plan, "");
    ASSERT_OK(graft.status());
    Write(*graft, "before", "precious");
    std::filesystem::resize_file(image, 256 * kMiB);
    ASSERT_OK(platform::RefreshLoopSize(*loop).status());
    const auto grown = sandbox_->Expand(*plan);
    ASSERT_OK(grown.status());
    EXPECT_GT(*grown, static_cast<int64_t>(200 * kMiB));
    Write(*graft, "after", std::string(100 * kMiB, 'x'));
    const base::UniqueFd file(openat(graft->mount.get(), "before", O_RDONLY | O_CLOEXEC));
    char text[16] = {};
    EXPECT_EQ(read(file.get(), text, sizeof text), 8);
    EXPECT_STREQ(text, "precious");
  }
  ASSERT_OK(sandbox_->Unpublish(*plan));
  ASSERT_OK(platform::DetachLoop(*loop));
}

}  // namespace
}  // namespace berth::crust
