#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include "platform/mounts/mounter.h"
#include "platform/mounts/probe_folder.h"

namespace berth::platform {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ParseMountInfo, ReadsEveryField) {
  const auto table = ParseMountInfo(
      "36 35 98:0 /sub\\040folder /mnt/a\\134b rw,noatime shared:7 master:1 - ext4 /dev/loop3 "
      "rw,errors=continue\n"
      "37 36 0:5 / /proc rw - proc proc ro\n");
  ASSERT_TRUE(table.ok()) << base::ToString(table.status());
  ASSERT_EQ(table->size(), 2u);
  const MountEntry& a = (*table)[0];
  EXPECT_EQ(a.id, 36u);
  EXPECT_EQ(a.parent_id, 35u);
  EXPECT_EQ(a.major, 98u);
  EXPECT_EQ(a.minor, 0u);
  EXPECT_EQ(a.root, "/sub folder");
  EXPECT_EQ(a.mount_point, "/mnt/a\\b");
  EXPECT_THAT(a.options, ElementsAre("rw", "noatime"));
  EXPECT_THAT(a.propagation, ElementsAre("shared:7", "master:1"));
  EXPECT_EQ(a.fs_type, "ext4");
  EXPECT_EQ(a.source, "/dev/loop3");
  EXPECT_THAT(a.super_options, ElementsAre("rw", "errors=continue"));
  EXPECT_FALSE(a.read_only());
  EXPECT_THAT((*table)[1].propagation, IsEmpty());
  EXPECT_TRUE((*table)[1].read_only());
}

TEST(ParseMountInfo, ReadsAMountWithoutSource) {
  const auto table = ParseMountInfo("36 35 0:50 / /x rw - tmpfs  rw\n");
  ASSERT_TRUE(table.ok());
  EXPECT_EQ((*table)[0].source, "");
  EXPECT_EQ((*table)[0].fs_type, "tmpfs");
}

TEST(ParseMountInfo, RefusesWhatIsNoTable) {
  for (const char* text : {"x\n", "1 2 3 / / rw - a b c\n", "1 2 3:4 / / rw a b c d e\n",
                           "1 2 3:4 / / rw -\n", "a 2 3:4 / / rw - x y z\n"}) {
    EXPECT_FALSE(ParseMountInfo(text).ok()) << text;
  }
}

TEST(IsBoundOntoItself, KnowsAFolderOnAWholeFileSystemASubvolumeAndABind) {
  const auto table = ParseMountInfo(
      "1 0 8:1 / / rw - ext4 /dev/sda rw\n"
      "2 1 8:1 /srv/k /srv/k rw shared:1 - ext4 /dev/sda rw\n"
      "3 1 0:30 /@home /home rw - btrfs /dev/sdb rw\n"
      "4 3 0:30 /@home/k /home/k rw shared:2 - btrfs /dev/sdb rw\n"
      "5 1 8:1 /other /elsewhere rw - ext4 /dev/sda rw\n"
      "6 1 0:40 / /tmp rw - tmpfs tmpfs rw\n"
      "7 2 8:1 /srv/k/a /srv/k/a rw - ext4 /dev/sda rw\n"
      "8 2 8:1 /srv/k/a /srv/k/b rw - ext4 /dev/sda rw\n");
  ASSERT_TRUE(table.ok());
  std::vector<uint64_t> bound;
  for (const MountEntry& entry : *table) {
    if (IsBoundOntoItself(*table, entry)) bound.push_back(entry.id);
  }
  EXPECT_EQ(bound, (std::vector<uint64_t>{2, 4, 7}));
}

TEST(FindMount, GivesTheTopmost) {
  const auto table = ParseMountInfo(
      "40 30 0:3 / /x rw - tmpfs upper rw\n"
      "30 20 0:2 / /x rw - tmpfs lower rw\n"
      "20 1 0:1 / / rw - tmpfs root rw\n");
  ASSERT_TRUE(table.ok());
  ASSERT_NE(FindMount(*table, "/x"), nullptr);
  EXPECT_EQ(FindMount(*table, "/x")->source, "upper");
  EXPECT_EQ(FindMount(*table, "/x/")->source, "upper");
  EXPECT_EQ(FindMount(*table, "/")->source, "root");
  EXPECT_EQ(FindMount(*table, "/y"), nullptr);
}

TEST(FindServedMount, GivesTheMountOnTheWayThatAServerAnswersFor) {
  const auto table = ParseMountInfo(
      "20 1 0:1 / / rw - ext4 /dev/vda rw\n"
      "30 20 0:2 / /nfs rw - nfs4 server:/ rw\n"
      "40 30 0:3 / /nfs/local rw - tmpfs tmpfs rw\n"
      "50 20 0:4 / /fuse rw - fuse.sshfs host: rw\n");
  ASSERT_TRUE(table.ok());
  for (const char* path : {"/nfs", "/nfs/a/b", "/nfs/local/a", "/fuse/a"}) {
    EXPECT_NE(FindServedMount(*table, path), nullptr) << path;
  }
  EXPECT_EQ(FindServedMount(*table, "/nfs/a")->source, "server:/");
  for (const char* path : {"/", "/a", "/nfs-too", "/nf"}) {
    EXPECT_EQ(FindServedMount(*table, path), nullptr) << path;
  }
}

TEST(ParseMountOptions, SplitsFlagsFromTheRest) {
  const ParsedOptions parsed =
      ParseMountOptions({"ro,nosuid", "noatime", "size=64k", "nodev,dev", "_netdev", "x-berth=1",
                         "context=\"a,b\"", "defaults"});
  EXPECT_EQ(parsed.flags, static_cast<unsigned long>(MS_RDONLY | MS_NOSUID | MS_NOATIME));
  EXPECT_EQ(parsed.propagation, 0u);
  EXPECT_EQ(parsed.data, "size=64k,context=\"a,b\"");
}

TEST(ParseMountOptions, KnowsBindsAndPropagation) {
  EXPECT_EQ(ParseMountOptions({"rbind"}).flags, static_cast<unsigned long>(MS_BIND | MS_REC));
  EXPECT_EQ(ParseMountOptions({"bind", "rslave"}).propagation,
            static_cast<unsigned long>(MS_SLAVE | MS_REC));
}

}  // namespace
}  // namespace berth::platform
