// A volume on ext4 whose files have an SELinux label, and a sandbox for it, for tests. The kernel
// keeps such labels also if it has no SELinux; then they mean nothing to it.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/assert_ok.h"
#include "crust/namespace_sandbox.h"
#include "crust/requests.h"
#include "platform/devices/fake_disk.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/exec.h"

namespace berth::crust {

namespace wire = ::crust::v1alpha1;

class LabelledVolumeFixture : public testing::Test {
 protected:
  static constexpr const char* kOld = "system_u:object_r:secret_t:s0";
  static constexpr const char* kNew = "system_u:object_r:container_file_t:s0:c1,c2";
  static constexpr std::array kNames = {".", "folder", "folder/file", "link", "fifo"};

  void SetUp() override {
    ASSERT_OK(platform::FindFileSystem("ext4")->Format(*exec_, disk_.device(), {}));
    ASSERT_OK(disk_.Mount("ext4"));
    const std::filesystem::path root = disk_.mount_point();
    std::filesystem::create_directory(root / "folder");
    std::ofstream(root / "folder/file") << "precious";
    std::filesystem::create_symlink("/etc/passwd", root / "link");
    ASSERT_EQ(mkfifo((root / "fifo").c_str(), 0600), 0);
    for (const char* name : kNames) {
      ASSERT_EQ(lsetxattr((root / name).c_str(), kAttribute, kOld, strlen(kOld) + 1, 0), 0)
          << strerror(errno);
    }
    ASSERT_OK(disk_.Unmount());
    auto kind = NewNamespaceSandboxes(*mounter_, *exec_,
                                      {.pins = folder_ / "pins",
                                       .utilities = folder_ / "utilities",
                                       .kubelet = folder_ / "kubelet"});
    ASSERT_OK(kind);
    kind_ = *std::move(kind);
    auto sandbox = kind_->OpenSandbox("s1");
    ASSERT_OK(sandbox);
    sandbox_ = *std::move(sandbox);
  }
  void TearDown() override {
    if (sandbox_ != nullptr) EXPECT_TRUE(sandbox_->RemoveSandbox().ok());
    EXPECT_TRUE(mounter_->UnmountLazy(folder_ / "pins").ok());
    EXPECT_TRUE(mounter_->UnmountLazy(folder_ / "utilities").ok());
  }

  // A plan of a handler on a kernel with SELinux.
  base::StatusOr<MountPlan> PlanOf(const std::string& label, bool relabel,
                                   const std::vector<std::string>& options = {}) const {
    wire::RuntimePublishVolumeRequest request;
    request.set_host_volume_id(disk_.device());
    request.set_host_target_path(folder_ / "target");
    request.set_file_system("ext4");
    request.set_selinux_label(label);
    request.set_selinux_relabel(relabel);
    for (const std::string& option : options) request.add_mount_options(option);
    return MakePlan(request, {.capabilities = {wire::RuntimeCapability::RPC::SELINUX_RELABEL},
                              .file_systems = {"ext4"},
                              .selinux = true});
  }
  base::Status Publish(const MountPlan& plan) {
    return sandbox_->PublishVolume(plan, {.cancelled = [] { return false; }});
  }

  // The label of a file of the volume.
  static std::string LabelOf(const Graft& graft, const char* name) {
    const std::string path = fmt::format("/proc/self/fd/{}/{}", graft.mount.get(), name);
    std::array<char, 256> text = {};
    if (lgetxattr(path.c_str(), kAttribute, text.data(), text.size() - 1) < 0) {
      return strerror(errno);
    }
    return text.data();
  }
  void ExpectLabels(const MountPlan& plan, const std::string& label) {
    const auto graft = sandbox_->MakeGraft(plan, "");
    ASSERT_OK(graft);
    for (const char* name : kNames) EXPECT_EQ(LabelOf(*graft, name), label) << name;
  }

  const platform::TempFolder folder_;
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  platform::Disk disk_{64 * platform::kMiB};
  std::unique_ptr<SandboxKind> kind_;
  std::unique_ptr<Sandbox> sandbox_;

 private:
  static constexpr const char* kAttribute = "security.selinux";
};

}  // namespace berth::crust
