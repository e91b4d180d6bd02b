#include "blockagent/mount_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::blockagent {
namespace {

using base::StatusCode;
using testing::HasSubstr;

constexpr char kDir[] = "/var/lib/kubelet/pods/uid-1/volumes/berth.dev~block/pv-1";

TEST(MountCallTest, ReadsBothFormsOfFolders) {
  EXPECT_EQ(ParseVolumeFolder(kDir), (VolumeFolder{"uid-1", "berth.dev/block", "pv-1"}));
  EXPECT_EQ(ParseVolumeFolder("/k/plugins/kubernetes.io/flexvolume/berth.dev/block/mounts/pv-1"),
            (VolumeFolder{"", "berth.dev/block", "pv-1"}));
  EXPECT_EQ(ParseVolumeFolder("/a//pods/u/volumes/block/v/"), (VolumeFolder{"u", "block", "v"}));
  for (const char* path :
       {"", "pods/u/volumes/d/v", "/pods/u/volume/d/v", "/volumes/d/v", "/pods/u/volumes/d",
        "/pods/u/volumes/d/..", "/pods/../volumes/d/v", "/pods/u/volumes/d/v/more",
        "/plugins/kubernetes.io/flexvolume/d/mounts/v", "/mnt"}) {
    EXPECT_EQ(ParseVolumeFolder(path), std::nullopt) << path;
  }
}

TEST(MountCallTest, ReadsWhatTheKubeletGives) {
  const auto call = ReadMountCall(kDir, R"({"kubernetes.io/pod.uid": "uid-1",
      "kubernetes.io/pod.name": "web", "kubernetes.io/pod.namespace": "default",
      "kubernetes.io/fsType": "xfs", "kubernetes.io/readwrite": "ro", "cluster": "main"})");
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->mount_dir, kDir);
  EXPECT_EQ(call->pod_uid, "uid-1");
  EXPECT_EQ(call->pod, "web");
  EXPECT_EQ(call->pod_namespace, "default");
  EXPECT_EQ(call->volume, "pv-1");
  EXPECT_EQ(call->driver, "berth.dev/block");
  EXPECT_EQ(call->fs_type, "xfs");
  EXPECT_TRUE(call->read_only);
}

TEST(MountCallTest, TheFolderDecidesWhichPodItIs) {
  const auto call = ReadMountCall(kDir, R"({"kubernetes.io/pod.uid": "uid-2",
      "kubernetes.io/pod.name": "web", "kubernetes.io/pod.namespace": "default"})");
  EXPECT_EQ(call.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(base::Message(call.status())), HasSubstr("'uid-2'"));
}

TEST(MountCallTest, RefusesWhatIsNoMountOfAPod) {
  constexpr char kOptions[] = R"({"kubernetes.io/pod.uid": "uid-1",
      "kubernetes.io/pod.name": "web", "kubernetes.io/pod.namespace": "default"})";
  EXPECT_TRUE(ReadMountCall(kDir, kOptions).ok());
  for (const char* dir : {"/mnt", "relative", "/pods/uid-1/volumes/d/Not_A_Name",
                          "/k/plugins/kubernetes.io/flexvolume/berth.dev/block/mounts/pv-1"}) {
    EXPECT_EQ(ReadMountCall(dir, kOptions).status().code(), StatusCode::kInvalidArgument) << dir;
  }
  EXPECT_FALSE(ReadMountCall(kDir, "not json").ok());
  EXPECT_FALSE(ReadMountCall(kDir, R"({"kubernetes.io/pod.uid": "uid-1"})").ok());
}

}  // namespace
}  // namespace berth::blockagent
