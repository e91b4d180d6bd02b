// With utilities that mount what needs no server: a bind of a folder, in the place of a share.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>

#include "base/assert_ok.h"
#include "base/fault.h"
#include "crust/utility_mount.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::crust {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

class UtilityMountTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(Share());
    std::ofstream(Share() + "/file") << "precious";
    std::filesystem::create_directories(Volume());
    ASSERT_EQ(mount("volume", Volume().c_str(), "tmpfs", 0, nullptr), 0);
  }

  std::string Share() const { return folder_ / "share"; }
  std::string Volume() const { return folder_ / "kubelet/volume"; }
  // A program with a shell's lines; $1: source, $2: where, $4: options.
  std::string Utility(std::string_view lines) const {
    const std::string path = folder_ / "mount.double";
    std::ofstream(path) << "#!/bin/sh\n" << lines << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  base::StatusOr<UtilityMounts> Open() {
    return UtilityMounts::Open(*mounter_, *exec_, folder_ / "utilities", folder_ / "kubelet");
  }
  static MountFileSystem Step(const std::string& utility) {
    return {.type = "double", .options = {"ro", "deep=1"}, .utility = utility};
  }
  MountPlan Plan(const MountFileSystem& mount) const {
    return {.device = {.source = Share()},
            .checks = {IsNotMountedAt{folder_ / "target"}},
            .steps = {mount, PlaceInSandbox{"v1"}}};
  }
  base::StatusOr<base::UniqueFd> Mount(const UtilityMounts& mounts, const std::string& utility) {
    const MountFileSystem step = Step(utility);
    return mounts.MountShare(Plan(step), step);
  }
  // In the folder of namespaces.
  std::vector<std::string> Left() const { return *platform::ListFolder(folder_ / "utilities"); }
  bool HostSees(const std::string& path) const {
    return platform::FindMount(*mounter_->List(), path) != nullptr;
  }

  const platform::TempFolder folder_;
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
};

constexpr const char* kBind = "mount --bind \"$1\" \"$2\"";

TEST_F(UtilityMountTest, TheMountIsInNobodysTable) {
  const auto mounts = Open();
  ASSERT_OK(mounts);
  const std::string seen = folder_ / "seen";
  const auto root =
      Mount(*mounts, Utility(fmt::format("{}; cp /proc/self/mountinfo {}; echo \"$@\" > {}.said",
                                         kBind, seen, seen)));
  ASSERT_OK(root);
  const base::UniqueFd file(openat(root->get(), "file", O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(file.valid());
  EXPECT_FALSE(HostSees(folder_ / "utilities/at"));
  EXPECT_THAT(Left(), ElementsAre("at"));
  EXPECT_EQ(*platform::ReadFile(seen + ".said"),
            fmt::format("{} {} -o ro,deep=1\n", Share(), folder_ / "utilities/at"));
  // The server of the mount keeps no volume of the host busy.
  EXPECT_THAT(*platform::ReadFile(seen), HasSubstr(folder_ / "utilities/at"));
  EXPECT_THAT(*platform::ReadFile(seen), testing::Not(HasSubstr(Volume())));
  EXPECT_TRUE(HostSees(Volume()));
}

TEST_F(UtilityMountTest, WhatFailsSaysWhyAndLeavesNothing) {
  const auto mounts = Open();
  ASSERT_OK(mounts);
  const auto refused = Mount(*mounts, Utility("echo no such export >&2; exit 32"));
  EXPECT_EQ(refused.status().code(), StatusCode::kInternal);
  EXPECT_THAT(base::Message(refused.status()), HasSubstr("mount.double exited with 32: no such"));
  const auto nothing = Mount(*mounts, Utility("exit 0"));
  EXPECT_EQ(nothing.status().code(), StatusCode::kNotFound) << nothing.status();
  EXPECT_THAT(base::Message(nothing.status()), HasSubstr("mounted nothing"));
  // A utility that fails after its mount.
  EXPECT_FALSE(Mount(*mounts, Utility(fmt::format("{}; exit 1", kBind))).ok());
  EXPECT_FALSE(Mount(*mounts, folder_ / "no-utility").ok());
  EXPECT_THAT(Left(), ElementsAre("at"));
  EXPECT_FALSE(HostSees(folder_ / "utilities/at"));
}

TEST_F(UtilityMountTest, WhereTheHostHasSomethingNothingIsMounted) {
  const auto mounts = Open();
  ASSERT_OK(mounts);
  std::filesystem::create_directories(folder_ / "target");
  ASSERT_EQ(mount("host", (folder_ / "target").c_str(), "tmpfs", 0, nullptr), 0);
  EXPECT_EQ(Mount(*mounts, Utility(kBind)).status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(UtilityMountTest, TheNextHandlerUnmountsWhatAKilledOneBegan) {
  for (const char* point : {"crust.utility.before", "crust.utility.after"}) {
    SCOPED_TRACE(point);
    const std::string utility = Utility(kBind);
    const pid_t pid = fork();
    if (pid == 0) {
      setenv("BERTH_FAULTS", fmt::format("{}=crash", point).c_str(), 1);
      if (!base::InitFaultPoints().ok()) _exit(1);
      const auto mounts = Open();
      if (mounts.ok()) static_cast<void>(Mount(*mounts, utility));
      _exit(1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    EXPECT_EQ(Left().size(), 2u);
    const auto mounts = Open();
    ASSERT_OK(mounts);
    EXPECT_THAT(Left(), ElementsAre("at"));
    ASSERT_OK(Mount(*mounts, utility));
  }
}

}  // namespace
}  // namespace berth::crust
