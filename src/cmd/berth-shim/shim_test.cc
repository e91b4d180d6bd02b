#include "cmd/berth-shim/shim.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace berth::shim {
namespace {

using base::UniqueFd;

TEST(ShimTest, FailsAsTheUtilitysCallersReadIt) {
  EXPECT_EQ(ToFailureCode("mount.glusterfs"), 32);
  EXPECT_EQ(ToFailureCode("umount.nfs"), 32);
  // 1 would say that errors were corrected.
  EXPECT_EQ(ToFailureCode("fsck.xfs"), 8);
  EXPECT_EQ(ToFailureCode("mkfs.xfs"), 1);
  EXPECT_EQ(ToFailureCode("rbd"), 1);
}

TEST(ShimTest, KnowsWhatReadsStandardInput) {
  EXPECT_TRUE(NamesStdin({"cryptsetup", "luksOpen", "--key-file=-"}));
  EXPECT_TRUE(NamesStdin({"rbd", "import", "-", "image"}));
  EXPECT_TRUE(NamesStdin({"x", "--from=/dev/stdin"}));
  EXPECT_FALSE(NamesStdin({"mount.glusterfs", "10.0.0.7:/v", "/k", "-o", "rw", "--", "a-"}));
}

TEST(ShimTest, SeesWhetherSomethingWaitsToBeRead) {
  EXPECT_FALSE(HoldsInput(-1));
  EXPECT_FALSE(HoldsInput(UniqueFd(open("/dev/null", O_RDONLY)).get()));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  EXPECT_FALSE(HoldsInput(read_end.get()));
  ASSERT_EQ(write(write_end.get(), "y\n", 2), 2);
  EXPECT_TRUE(HoldsInput(read_end.get()));
  char bytes[2];
  ASSERT_EQ(read(read_end.get(), bytes, 2), 2);
  write_end.Reset();
  EXPECT_FALSE(HoldsInput(read_end.get()));
  const UniqueFd file(open("/etc/passwd", O_RDONLY));
  EXPECT_TRUE(HoldsInput(file.get()));
  lseek(file.get(), 0, SEEK_END);
  EXPECT_FALSE(HoldsInput(file.get()));
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const UniqueFd one(ends[0]), other(ends[1]);
  EXPECT_FALSE(HoldsInput(one.get()));
  ASSERT_EQ(write(other.get(), "y", 1), 1);
  EXPECT_TRUE(HoldsInput(one.get()));
}

}  // namespace
}  // namespace berth::shim
