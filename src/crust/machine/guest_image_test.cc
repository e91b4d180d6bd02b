#include "crust/machine/guest_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/assert_ok.h"
#include "crust/machine/cpio.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/processes/exec.h"

namespace berth::crust {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kDependencies =
    "kernel/drivers/virtio/virtio.ko:\n"
    "kernel/drivers/virtio/virtio_ring.ko:\n"
    "kernel/drivers/virtio/virtio_mmio.ko: kernel/drivers/virtio/virtio.ko "
    "kernel/drivers/virtio/virtio_ring.ko\n"
    "kernel/drivers/char/virtio_console.ko: kernel/drivers/virtio/virtio.ko "
    "kernel/drivers/virtio/virtio_ring.ko\n"
    "kernel/drivers/scsi/virtio-scsi.ko.xz: kernel/drivers/virtio/virtio.ko "
    "kernel/drivers/virtio/virtio_ring.ko\n"
    "kernel/drivers/net/virtio_net.ko: kernel/drivers/virtio/virtio.ko "
    "kernel/drivers/virtio/virtio_ring.ko\n"
    "kernel/fs/fuse/fuse.ko:\n"
    "kernel/fs/fuse/virtiofs.ko: kernel/fs/fuse/fuse.ko\n"
    "kernel/fs/xfs/xfs.ko: kernel/lib/libcrc32c.ko\n"
    "kernel/lib/libcrc32c.ko:\n";
constexpr const char* kBuiltin = "kernel/fs/ext4/ext4.ko\nkernel/drivers/scsi/sd_mod.ko\n";

TEST(KernelModulesTest, WhatAModuleNeedsIsLoadedBeforeItAndOnce) {
  const KernelModules modules("/m", kDependencies, kBuiltin);
  const auto files = modules.FindFiles({"virtio_mmio", "virtio_scsi", "ext4"});
  ASSERT_OK(files);
  EXPECT_THAT(
      *files,
      ElementsAre("kernel/drivers/virtio/virtio_ring.ko", "kernel/drivers/virtio/virtio.ko",
                  "kernel/drivers/virtio/virtio_mmio.ko", "kernel/drivers/scsi/virtio-scsi.ko.xz"));
}

TEST(KernelModulesTest, AMissingModuleIsNamed) {
  const KernelModules modules("/m", kDependencies, kBuiltin);
  const auto files = modules.FindFiles({"btrfs"});
  EXPECT_EQ(files.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(files.status())), HasSubstr("'btrfs'"));
  EXPECT_THAT(FindGuestFileSystems(modules, {"ext4", "btrfs", "xfs"}), ElementsAre("ext4", "xfs"));
}

// Unpacks an archive with another program.
class ArchiveTest : public testing::Test {
 protected:
  void Unpack(const std::string& archive) {
    std::ofstream(folder_ / "archive") << archive;
    std::filesystem::create_directories(folder_ / "out");
    const auto exec = platform::NewHostExec();
    const auto result =
        exec->Run({.argv = {"/bin/sh", "-c",
                            fmt::format("cd {}/out && /bin/busybox cpio -i -d <../archive",
                                        folder_.path())}});
    ASSERT_OK(result);
    ASSERT_EQ(result->exit_code, 0) << result->err;
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(folder_ / ("out/" + name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  const platform::TempFolder folder_;
};

TEST_F(ArchiveTest, CpioReadsWhatWasWritten) {
  CpioWriter writer;
  writer.AddFolder("a");
  writer.AddFile("a/one", "1", 0644);
  writer.AddFile("a/program", std::string(5000, '\0') + "x", 0755);
  writer.AddFile("empty", "", 0600);
  Unpack(writer.Finish());
  EXPECT_EQ(Read("a/one"), "1");
  EXPECT_EQ(Read("a/program"), std::string(5000, '\0') + "x");
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "out/empty"));
  EXPECT_EQ(std::filesystem::status(folder_ / "out/a/program").permissions(),
            std::filesystem::perms(0755));
}

// As above, and a folder of modules and a first program.
class ImageTest : public ArchiveTest {
 protected:
  ImageTest() {
    for (const char* file :
         {"drivers/virtio/virtio.ko", "drivers/virtio/virtio_ring.ko",
          "drivers/virtio/virtio_mmio.ko", "drivers/char/virtio_console.ko",
          "drivers/scsi/virtio-scsi.ko.xz", "drivers/net/virtio_net.ko", "fs/fuse/fuse.ko",
          "fs/fuse/virtiofs.ko", "fs/xfs/xfs.ko", "lib/libcrc32c.ko"}) {
      const std::filesystem::path path = folder_ / (std::string("m/kernel/") + file);
      std::filesystem::create_directories(path.parent_path());
      std::ofstream(path) << path.filename().string();
    }
    std::ofstream(folder_ / "program") << "init";
  }
  base::StatusOr<std::string> Make(const std::string& runc) const {
    return MakeGuestImage(folder_ / "program",
                          KernelModules(folder_ / "m", kDependencies, kBuiltin), {"ext4", "xfs"},
                          runc);
  }
};

TEST_F(ImageTest, HasTheProgramTheModulesAndTheirOrder) {
  const auto image = Make("");
  ASSERT_OK(image);
  Unpack(*image);
  EXPECT_EQ(Read("init"), "init");
  EXPECT_EQ(Read("modules/xfs.ko"), "xfs.ko");
  EXPECT_EQ(Read("modules/xfs.list"), "/modules/libcrc32c.ko\n/modules/xfs.ko\n");
  EXPECT_EQ(Read("modules/ext4.list"), "");
  EXPECT_THAT(Read("modules/boot.list"), HasSubstr("/modules/virtio-scsi.ko.xz\n"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/usr"));
}

TEST_F(ImageTest, AProgramThatIsLinkedDynamicallyRunsInItAlone) {
  // ls of this machine stands for runc, because it needs libraries as well.
  const auto image = Make("/bin/ls");
  ASSERT_OK(image);
  Unpack(*image);
  EXPECT_EQ(Read("modules/virtiofs.list"), "/modules/fuse.ko\n/modules/virtiofs.ko\n");
  const std::filesystem::path program = folder_ / "out/usr/sbin/runc";
  ASSERT_TRUE(std::filesystem::exists(program));
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "out")) {
    if (entry.path().filename().string().find(".so") != std::string::npos) ++files;
  }
  EXPECT_GE(files, 2u) << "the interpreter and libc";
  if (geteuid() != 0) GTEST_SKIP() << "the rest needs chroot(2)";
  const auto ran = platform::NewHostExec()->Run(
      {.argv = {"/usr/sbin/chroot", folder_ / "out", "/usr/sbin/runc", "/"}});
  ASSERT_OK(ran);
  EXPECT_EQ(ran->exit_code, 0) << ran->err;
  EXPECT_THAT(ran->out, HasSubstr("init"));
}

TEST_F(ImageTest, AMissingRuncIsNamed) {
  const auto image = Make(folder_ / "no-runc");
  EXPECT_EQ(image.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(image.status())), HasSubstr("no-runc"));
}

}  // namespace
}  // namespace berth::crust
