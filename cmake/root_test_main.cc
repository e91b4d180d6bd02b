// The main function of the tests with the label root. They mount in a mount namespace of their own,
// because each container and each other test that starts on this machine copies the mounts of the
// machine's namespace, and a device is busy for as long as a copy of its mount is there.

#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>

#include <cstdio>
#include <cstdlib>

#include "platform/mounts/mounter.h"

namespace {

// Where the tests have their folders. What other tests have mounted there came along when the
// namespace was copied, and must not be kept busy by it.
constexpr std::string_view kFoldersOfTests[] = {"/tmp/b", "/var/tmp/b", "/run/b"};

void Require(bool condition, const char* what) {
  if (condition) return;
  std::perror(what);
  std::exit(1);
}

void EnterOwnMounts() {
  Require(unshare(CLONE_NEWNS) == 0, "unshare the mount namespace");
  Require(mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "make the mounts private");
  auto mounts = berth::platform::ReadMountTable("/proc/self/mountinfo");
  Require(mounts.ok(), "read the mount table");
  for (auto entry = mounts->rbegin(); entry != mounts->rend(); ++entry) {
    for (const std::string_view folder : kFoldersOfTests) {
      if (entry->mount_point.starts_with(folder)) umount2(entry->mount_point.c_str(), MNT_DETACH);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  if (!testing::FLAGS_gtest_list_tests) EnterOwnMounts();
  return RUN_ALL_TESTS();
}
