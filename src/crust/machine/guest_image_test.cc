#include "crust/machine/guest_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST_F(ArchiveTest, TheImageHasTheProgramTheModulesAndTheirOrder) {
  for (const char* file : {"drivers/virtio/virtio.ko", "drivers/virtio/virtio_ring.ko",
                           "drivers/virtio/virtio_mmio.ko", "drivers/char/virtio_console.ko",
                           "drivers/scsi/virtio-scsi.ko.xz", "fs/xfs/xfs.ko", "lib/libcrc32c.ko"}) {
    const std::filesystem::path path = folder_ / (std::string("m/kernel/") + file);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << path.filename().string();
  }
  std::ofstream(folder_ / "program") << "init";
  const auto image = MakeGuestImage(
      folder_ / "program", KernelModules(folder_ / "m", kDependencies, kBuiltin), {"ext4", "xfs"});
  ASSERT_OK(image);
  Unpack(*image);
  EXPECT_EQ(Read("init"), "init");
  EXPECT_EQ(Read("modules/xfs.ko"), "xfs.ko");
  EXPECT_EQ(Read("modules/xfs.list"), "/modules/libcrc32c.ko\n/modules/xfs.ko\n");
  EXPECT_EQ(Read("modules/ext4.list"), "");
  EXPECT_THAT(Read("modules/boot.list"), HasSubstr("/modules/virtio-scsi.ko.xz\n"));
}

}  // namespace
}  // namespace berth::crust
