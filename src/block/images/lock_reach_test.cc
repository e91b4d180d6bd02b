// Tests what the locks of a mount prove, by lines of mount tables as kernels write them.
#include "block/images/lock_reach.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>

#include "base/assert_ok.h"

namespace berth::block {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// `mount` is the end of a line of mountinfo: type, source, options of the file system.
LockSupport Judge(const std::string& mount, bool retakes_lost_locks = false) {
  const auto table =
      platform::ParseMountInfo("36 35 0:42 / /srv/berth rw,relatime shared:1 - " + mount + "\n");
  EXPECT_TRUE(table.ok()) << table.status();
  return JudgeLocks(table->front(), retakes_lost_locks);
}

constexpr char kNfs4[] =
    "nfs4 10.0.0.9:/pool rw,vers=4.2,rsize=262144,wsize=262144,namlen=255,hard,proto=tcp,timeo=600,"
    "retrans=2,sec=sys,clientaddr=10.0.0.2,local_lock=none,addr=10.0.0.9";
constexpr char kNfs3[] =
    "nfs 10.0.0.9:/pool rw,vers=3,rsize=262144,wsize=262144,namlen=255,hard,proto=tcp,timeo=600,"
    "retrans=2,sec=sys,mountaddr=10.0.0.9,mountvers=3,mountport=20048,mountproto=tcp";

TEST(LockReachTest, NfsWithItsLocksCarriesThem) {
  EXPECT_EQ(Judge(kNfs4).reach, LockReach::kFencing);
  EXPECT_THAT(Judge(kNfs4).why, IsEmpty());
  // Older kernels call NFS 4 by the type "nfs".
  EXPECT_EQ(Judge("nfs 10.0.0.9:/pool rw,vers=4.1,local_lock=none").reach, LockReach::kFencing);
  EXPECT_EQ(Judge("nfs4 10.0.0.9:/pool rw,vers=4.0,local_lock=flock").reach, LockReach::kFencing)
      << "images are locked by fcntl(2)";
}

TEST(LockReachTest, NfsThatKeepsLocksOnTheNodeIsRefusedWithTheOptionThatDoesIt) {
  const std::string nfs3 = kNfs3;
  LockSupport judged = Judge(nfs3 + ",nolock,local_lock=all,addr=10.0.0.9");
  EXPECT_EQ(judged.reach, LockReach::kNowhere);
  EXPECT_THAT(judged.why, HasSubstr("mounted with nolock"));
  EXPECT_THAT(judged.why, HasSubstr("vers=4"));
  judged = Judge(nfs3 + ",local_lock=posix,addr=10.0.0.9");
  EXPECT_EQ(judged.reach, LockReach::kNowhere);
  EXPECT_THAT(judged.why, HasSubstr("local_lock=posix"));
  EXPECT_EQ(Judge(nfs3 + ",local_lock=all").reach, LockReach::kNowhere);
}

TEST(LockReachTest, WhatLetsALoserWriteOnProvesNothingByTheAbsenceOfALock) {
  const LockSupport nfs3 = Judge(std::string(kNfs3) + ",local_lock=none");
  EXPECT_EQ(nfs3.reach, LockReach::kAdvisory);
  EXPECT_THAT(nfs3.why, HasSubstr("NFS 3"));
  const LockSupport retaken = Judge(kNfs4, /*retakes_lost_locks=*/true);
  EXPECT_EQ(retaken.reach, LockReach::kAdvisory);
  EXPECT_THAT(retaken.why, HasSubstr("nfs.recover_lost_locks"));
  EXPECT_EQ(Judge("cifs //10.0.0.9/pool rw,vers=3.1.1,cache=strict").reach, LockReach::kAdvisory);
  EXPECT_EQ(Judge("fuse.glusterfs gl1:/pool rw,user_id=0,allow_other").reach, LockReach::kAdvisory);
  EXPECT_EQ(Judge("lustre mgs@tcp:/pool rw,flock").reach, LockReach::kAdvisory);
  EXPECT_EQ(Judge("strangefs server:/pool rw").reach, LockReach::kAdvisory);
}

TEST(LockReachTest, WhatCarriesNoLocksIsRefused) {
  for (const std::string mount :
       {"cifs //10.0.0.9/pool rw,vers=3.1.1,nobrl,cache=strict", "smb3 //10.0.0.9/pool rw,nobrl",
        "9p pool rw,access=client,msize=512000,trans=virtio", "virtiofs pool rw",
        "fuse.sshfs host:/pool rw,user_id=0", "lustre mgs@tcp:/pool rw,localflock",
        "lustre mgs@tcp:/pool rw,noflock", "gfs2 /dev/dm-1 rw,localflocks"}) {
    const LockSupport judged = Judge(mount);
    EXPECT_EQ(judged.reach, LockReach::kNowhere) << mount;
    EXPECT_THAT(judged.why, testing::Not(IsEmpty())) << mount;
  }
}

TEST(LockReachTest, ClusterFileSystemsStopANodeThatLostItsLock) {
  for (const std::string mount : {"ceph 10.0.0.9:6789:/ rw,name=berth,acl", "gfs2 /dev/dm-1 rw",
                                  "ocfs2 /dev/dm-1 rw,heartbeat=local"}) {
    EXPECT_EQ(Judge(mount).reach, LockReach::kFencing) << mount;
  }
}

TEST(LockReachTest, AFileSystemOfThisMachineAloneKnowsAllItsLocks) {
  for (const std::string mount :
       {"ext4 /dev/sda1 rw", "xfs /dev/sda1 rw,attr2", "btrfs /dev/sda1 rw,subvolid=5,subvol=/",
        "tmpfs tmpfs rw,size=1024k", "overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w",
        "zfs tank/pool rw,xattr", "gfs2 /dev/sda1 rw,lockproto=lock_nolock"}) {
    EXPECT_EQ(Judge(mount).reach, LockReach::kOneMachine) << mount;
  }
}

// The text names the event for which a person must wait while a dead node's lock is still there.
TEST(LockReachTest, TheLapseOfADeadNodesLockIsExplainedByTheKindOfMount) {
  const auto lapse = [](const std::string& mount) {
    const auto table =
        platform::ParseMountInfo("36 35 0:42 / /srv/berth rw,relatime - " + mount + "\n");
    EXPECT_TRUE(table.ok()) << table.status();
    return DescribeLapse(table->front());
  };
  for (const std::string mount :
       {"ceph 10.0.0.9:6789:/ rw,name=berth,acl", "fuse.ceph-fuse ceph-fuse rw,user_id=0"}) {
    EXPECT_THAT(lapse(mount), HasSubstr("session_autoclose")) << mount;
    EXPECT_THAT(lapse(mount), HasSubstr("blocklist")) << mount;
    EXPECT_THAT(lapse(mount), HasSubstr("client evict")) << mount;
  }
  EXPECT_THAT(lapse(kNfs4), HasSubstr("lease time"));
  EXPECT_THAT(lapse("nfs 10.0.0.9:/pool rw,vers=4.1,local_lock=none"), HasSubstr("lease time"));
  EXPECT_THAT(lapse(kNfs3), HasSubstr("boots again"));
  EXPECT_THAT(lapse("gfs2 /dev/dm-1 rw"), HasSubstr("fenced the node"));
  EXPECT_THAT(lapse("ext4 /dev/sda1 rw"), IsEmpty());
}

TEST(LockReachTest, AMountThatTheTableLacksIsJudgedByItsFileSystem) {
  EXPECT_EQ(JudgeLocksByMagic(EXT4_SUPER_MAGIC).reach, LockReach::kOneMachine);
  EXPECT_EQ(JudgeLocksByMagic(NFS_SUPER_MAGIC).reach, LockReach::kAdvisory);
}

}  // namespace
}  // namespace berth::block
