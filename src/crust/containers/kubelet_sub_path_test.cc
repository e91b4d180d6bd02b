#include "crust/containers/kubelet_sub_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/assert_ok.h"

namespace berth::crust {
namespace {

using base::StatusCode;
using testing::HasSubstr;

constexpr const char* kTarget = "/kubelet/pods/u/volumes/kubernetes.io~csi/pv/mount";
constexpr const char* kBound = "/kubelet/pods/u/volume-subpaths/pv/c/0";

// A table with the placeholder at kTarget, on device 0:90, and a mount at kBound.
std::vector<platform::MountEntry> TableWith(const std::string& device, const std::string& root,
                                            const std::string& placeholder = "berth-crust") {
  auto table = platform::ParseMountInfo(
      fmt::format("1 0 254:0 / / rw - ext4 /dev/vda rw\n"
                  "2 1 0:90 / {} rw - tmpfs {} rw,size=64k\n"
                  "3 1 {} {} {} rw - tmpfs {} rw,size=64k\n",
                  kTarget, placeholder, device, root, kBound, placeholder));
  EXPECT_TRUE(table.ok()) << table.status();
  return *table;
}

TEST(KubeletSubPathTest, TheKubeletMountsSubPathsBesideTheVolumesOfThePod) {
  EXPECT_EQ(SubPathFolder(kTarget, "/kubelet"), "/kubelet/pods/u/volume-subpaths/pv");
  for (const char* other :
       {"/kubelet/pods/u/volumes/kubernetes.io~csi", "/kubelet/pods/u/other/kubernetes.io~csi/pv/m",
        "/kubelet2/pods/u/volumes/kubernetes.io~csi/pv/mount", "/kubelet", ""}) {
    EXPECT_EQ(SubPathFolder(other, "/kubelet"), "") << other;
  }
}

TEST(KubeletSubPathTest, TheMountTableTellsWhichPathIsMeant) {
  EXPECT_EQ(*FindSubPath(TableWith("0:90", "/a/b\\040c"), kTarget, kBound), "a/b c");
  EXPECT_EQ(*FindSubPath(TableWith("0:90", "/"), kTarget, kBound), "");
  // A pod may call a folder so; the kernel's word for a deleted one has two slashes.
  EXPECT_EQ(*FindSubPath(TableWith("0:90", "/a/deleted"), kTarget, kBound), "a/deleted");
}

TEST(KubeletSubPathTest, WhatIsNoFolderOfThePlaceholderIsRefused) {
  const auto refusal = [](const std::vector<platform::MountEntry>& table, const char* bound) {
    const base::Status status = FindSubPath(table, kTarget, bound).status();
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    return std::string(base::Message(status));
  };
  EXPECT_THAT(refusal(TableWith("0:91", "/a"), kBound), HasSubstr("not a folder of the volume's"));
  EXPECT_THAT(refusal(TableWith("0:90", "/a//deleted"), kBound), HasSubstr("was deleted"));
  EXPECT_THAT(refusal(TableWith("0:90", "/a"), "/kubelet/pods/u/volume-subpaths/pv/c/1"),
              HasSubstr("nothing is mounted there"));
  EXPECT_THAT(refusal(TableWith("0:90", "/a", "tmpfs"), kBound), HasSubstr("placeholder"));
}

}  // namespace
}  // namespace berth::crust
