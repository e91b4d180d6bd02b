// Sandboxes that are virtual machines, in folders of their own, with file systems on loop devices;
// for *_root_test.cc. The guests run in software emulation unless KVM works. Each test checks at
// its end that no machine, file or device is left.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/assert_ok.h"
#include "crust/machine/accelerator.h"
#include "crust/machine/guest_image.h"
#include "crust/machine/vm_sandbox.h"
#include "platform/devices/loop_device.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/processes/exec.h"
#include "platform/processes/own_folder.h"

namespace berth::crust {

inline constexpr const char* kRunc = "/usr/sbin/runc";

// The kernel that tools/vm fetches, in build/packages.
struct GuestKernel {
  std::string kernel;   // "": there is none
  std::string modules;  // its modules
  std::string why;      // why no guest can be booted here; "": one can
};

inline GuestKernel FindGuestKernel() {
  namespace fs = std::filesystem;
  GuestKernel found;
  const fs::path packages =
      fs::read_symlink("/proc/self/exe").parent_path().parent_path().parent_path() / "packages";
  std::error_code error;
  for (const auto& package : fs::directory_iterator(packages, error)) {
    const std::string name = package.path().filename();
    if (!name.starts_with("linux-image-") || !name.ends_with("-cloud-amd64")) continue;
    const std::string release = name.substr(std::string("linux-image-").size());
    // An unpacked kernel boots a second sooner.
    for (const char* kind : {"vmlinux-", "vmlinuz-"}) {
      const fs::path kernel = package.path() / "boot" / (kind + release);
      if (found.kernel.empty() && fs::exists(kernel)) found.kernel = kernel;
    }
    found.modules = package.path() / "lib/modules" / release;
  }
  if (found.kernel.empty()) {
    found.why = "there is no guest kernel in " + packages.string() + ": run tools/vm fetch";
  } else if (!fs::exists("/usr/bin/qemu-system-x86_64")) {
    found.why = "qemu-system-x86_64 is not installed";
  } else if (!fs::exists(kRunc)) {
    found.why = "runc is not installed";
  }
  return found;
}

// Tests that boot guests are costly, so they take turns: a whole run has a third of them
// (tools/run_tests), as BERTH_TURN says ("0/3").
inline bool HasItsTurn() {
  const char* turn = std::getenv("BERTH_TURN");
  int number = 0, turns = 0;
  if (turn == nullptr || sscanf(turn, "%d/%d", &number, &turns) != 2 || turns < 1) return true;
  int sum = 0;
  for (const char c : std::string(testing::UnitTest::GetInstance()->current_test_info()->name())) {
    sum += c;
  }
  return sum % turns == number;
}

class GuestFixture : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasItsTurn()) GTEST_SKIP() << "its turn is with another commit";
    const GuestKernel guest = FindGuestKernel();
    if (!guest.why.empty()) GTEST_SKIP() << guest.why;
    const auto modules = KernelModules::Read(guest.modules);
    ASSERT_OK(modules);
    const auto image = MakeGuestImage(platform::FindInOwnFolder("berth-guest"), *modules,
                                      {"ext4", "xfs", "btrfs"}, kRunc);
    ASSERT_OK(image);
    std::ofstream(folder_ / "guest.cpio") << *image;
    settings_ = {.kernel = guest.kernel,
                 .image = folder_ / "guest.cpio",
                 .tsc_khz = MeasureTscKhz(),
                 .boot_within = std::chrono::minutes(4),
                 .answer_within = std::chrono::minutes(2)};
    ASSERT_OK(OpenKind());
    const auto accelerator = ChooseAccelerator(settings_, Records(), folder_ / "machines");
    ASSERT_OK(accelerator);
    settings_.accelerator = *accelerator;
  }

  void TearDown() override {
    if (kind_ == nullptr) return;
    const auto ids = Records().ListSandboxes();
    ASSERT_OK(ids);
    for (const std::string& id : *ids) {
      EXPECT_TRUE(Open(id)->RemoveSandbox().ok());
    }
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "records"));
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "machines"));
    for (const pid_t pid : started_) EXPECT_NE(kill(pid, 0), 0) << "a machine is left";
    for (const auto& loop : loops_) {
      EXPECT_TRUE(IsFree(loop)) << loop.path;
      const auto detached = platform::DetachLoop(loop);
      EXPECT_TRUE(detached.ok()) << detached;
    }
  }

  // As a handler that starts.
  base::Status OpenKind() {
    ASSIGN_OR_RETURN(kind_, NewVmSandboxes(settings_, *mounter_,
                                           {.records = folder_ / "records",
                                            .machines = folder_ / "machines",
                                            .pins = folder_ / "pins"},
                                           limits_));
    return base::OkStatus();
  }
  std::unique_ptr<Sandbox> Open(const std::string& id = "s1") {
    auto sandbox = kind_->OpenSandbox(id);
    EXPECT_TRUE(sandbox.ok()) << sandbox.status();
    return sandbox.ok() ? *std::move(sandbox) : nullptr;
  }
  MachineRecords Records() const { return *MachineRecords::Open(folder_ / "records"); }
  // The process of the sandbox's machine.
  pid_t ProcessOf(const std::string& id = "s1") {
    const auto record = Records().ReadRecord(id);
    EXPECT_TRUE(record.ok()) << record.status();
    if (!record.ok()) return 0;
    started_.push_back(record->daemon.pid);
    return record->daemon.pid;
  }

  platform::LoopDevice MakeDevice(const std::string& type, uint64_t bytes = uint64_t{320} << 20) {
    const std::string image = folder_.SparseFile(fmt::format("image{}", loops_.size()), bytes);
    const auto loop = platform::AttachLoop(image, {});
    EXPECT_TRUE(loop.ok()) << loop.status();
    loops_.push_back(*loop);
    const auto exec = platform::NewHostExec();
    const auto made = platform::FindFileSystem(type)->Format(*exec, loop->path, {});
    EXPECT_TRUE(made.ok()) << made;
    return *loop;
  }
  // Mounts the device on the host, where no guest has it, and calls `use` with the path.
  void OnHost(const platform::LoopDevice& device, const std::string& type,
              const std::function<void(const std::string& root)>& use) {
    const std::string root = folder_ / "host";
    std::filesystem::create_directories(root);
    ASSERT_EQ(mount(device.path.c_str(), root.c_str(), type.c_str(), 0, ""), 0) << strerror(errno);
    use(root);
    ASSERT_EQ(umount2(root.c_str(), 0), 0) << strerror(errno);
  }
  static dev_t NumberOfDevice(const std::string& path) {
    struct stat st = {};
    EXPECT_EQ(stat(path.c_str(), &st), 0);
    return st.st_rdev;
  }
  static bool IsFree(const platform::LoopDevice& device) {
    const base::UniqueFd fd(open(device.path.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
    return fd.valid();
  }

  static MountPlan Plan(const platform::LoopDevice& device, const std::string& type,
                        const std::string& name = "v0", std::vector<std::string> options = {}) {
    const dev_t number = NumberOfDevice(device.path);
    return {.device = {.source = device.path, .block = true, .number = number},
            .checks = {IsDevice{number}},
            .steps = {MountFileSystem{.type = type, .options = std::move(options)},
                      PlaceInSandbox{name}}};
  }
  static MountPlan PlanWithGroup(const platform::LoopDevice& device, const std::string& type,
                                 gid_t group) {
    MountPlan plan = Plan(device, type);
    plan.steps.insert(plan.steps.begin() + 1, ApplyGroup{.group = group});
    return plan;
  }

  platform::TempFolder folder_;
  MachineSettings settings_;
  VmLimits limits_;
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  std::unique_ptr<SandboxKind> kind_;
  std::vector<platform::LoopDevice> loops_;
  std::vector<pid_t> started_;
};

}  // namespace berth::crust
