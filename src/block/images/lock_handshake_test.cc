// Nodes that see each other's locks on a folder, and nodes that do not. Each LockHandshake of a
// test is one node's, with open files of its own. "Locks that do not reach others" are here those
// of a file that is not the one that others look at, as with a mount that keeps its locks to
// itself.
#include "block/images/lock_handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/assert_ok.h"
#include "base/ids.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::block {
namespace {

using base::StatusCode;
using testing::HasSubstr;
using testing::IsEmpty;

std::string SessionOf(const std::string& node, int boot = 1) {
  return base::Sha256Hex(fmt::format("{} {}", node, boot)).substr(0, kSessionLength);
}

class LockHandshakeTest : public testing::Test {
 protected:
  base::Status Show(LockHandshake& handshake, const std::string& node, int boot = 1) {
    return handshake.ShowLock({.node = node, .session = SessionOf(node, boot), .weakness = ""});
  }
  base::Status ProveB() const { return a_.ProveSeen(SessionOf("a"), api::NodeName("b")); }
  std::vector<std::string> Files() const {
    const auto names = platform::ListFolder(life_);
    return names.ok() ? *names : std::vector<std::string>();
  }
  std::string FileOf(const std::string& node) const {
    return fmt::format("{}/{}.node", life_, base::Sha256Hex(node).substr(0, 32));
  }

  const platform::TempFolder folder_;
  const std::string life_ = folder_ / "nodes/uid-1";
  LockHandshake a_{life_}, b_{life_}, c_{life_};
};

TEST_F(LockHandshakeTest, ANodeIsProvenOnceItsLockWasSeenAndStaysSoWhenItDies) {
  EXPECT_EQ(ProveB().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(ProveB())), HasSubstr("has shown no lock"));
  {
    LockHandshake b(life_);
    ASSERT_OK(Show(b, "b"));
    EXPECT_THAT(std::string(base::Message(ProveB())), HasSubstr("no node has seen a lock of node"));
    ASSERT_OK(a_.NoteLocks(SessionOf("a")));
    ASSERT_OK(ProveB());
  }
  ASSERT_OK(ProveB());
  // Another process of the node, or the same one after a restart, reads the same notes.
  ASSERT_OK(LockHandshake(life_).ProveSeen(SessionOf("a"), api::NodeName("b")));
}

TEST_F(LockHandshakeTest, ALockThatOthersDoNotSeeProvesNothing) {
  ASSERT_OK(Show(b_, "b"));
  // Others find a file with the same content, but the lock of the node is not on it.
  const std::string file = FileOf("b"), copy = folder_ / "copy";
  const std::string text = *platform::ReadFile(file);
  std::ofstream(copy) << text;
  ASSERT_EQ(rename(copy.c_str(), file.c_str()), 0);
  ASSERT_OK(a_.NoteLocks(SessionOf("a")));
  EXPECT_EQ(ProveB().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(ProveB())), HasSubstr("may not reach other nodes"));
}

TEST_F(LockHandshakeTest, ANodeThatBootedOrMountedAnewHasToBeSeenAgain) {
  {
    LockHandshake b(life_);
    ASSERT_OK(Show(b, "b", 1));
    ASSERT_OK(a_.NoteLocks(SessionOf("a")));
    ASSERT_OK(ProveB());
  }
  ASSERT_OK(Show(b_, "b", 2));
  EXPECT_EQ(ProveB().code(), StatusCode::kFailedPrecondition);
  ASSERT_OK(a_.NoteLocks(SessionOf("a")));
  ASSERT_OK(ProveB());
  EXPECT_THAT(Files(), testing::Not(testing::Contains(testing::StartsWith(SessionOf("b", 1)))))
      << "the notes of its former session are of no use";
}

TEST_F(LockHandshakeTest, ANodeThatNeverSawAnyLockProvesNothingByTheNotesOfOthers) {
  ASSERT_OK(Show(a_, "a"));
  ASSERT_OK(Show(b_, "b"));
  ASSERT_OK(a_.NoteLocks(SessionOf("a")));
  EXPECT_EQ(c_.ProveSeen(SessionOf("c"), api::NodeName("b")).code(),
            StatusCode::kFailedPrecondition)
      << "node c may ask a kernel that knows of no lock of others";
  ASSERT_OK(c_.NoteLocks(SessionOf("c")));
  ASSERT_OK(c_.ProveSeen(SessionOf("c"), api::NodeName("b")));
}

TEST_F(LockHandshakeTest, ANodeThatSawAnotherBelievesWhatThatOneSaw) {
  {
    LockHandshake b(life_);
    ASSERT_OK(Show(b, "b"));
    ASSERT_OK(a_.NoteLocks(SessionOf("a")));
  }
  // Node c came when b was dead.
  ASSERT_OK(Show(a_, "a"));
  ASSERT_OK(c_.NoteLocks(SessionOf("c")));
  ASSERT_OK(c_.ProveSeen(SessionOf("c"), api::NodeName("b")));
}

TEST_F(LockHandshakeTest, LocksOfOnesOwnMountAreNoProofForOthers) {
  ASSERT_OK(b_.ShowLock({.node = "b", .session = SessionOf("a"), .weakness = ""}));
  ASSERT_OK(a_.NoteLocks(SessionOf("a")));
  // They are in one kernel, which knows all of its locks.
  ASSERT_OK(ProveB());
  EXPECT_EQ(c_.ProveSeen(SessionOf("c"), api::NodeName("b")).code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(LockHandshakeTest, ANodeThatMayWriteWithoutItsLockIsNeverProven) {
  ASSERT_OK(b_.ShowLock({.node = "b", .session = SessionOf("b"), .weakness = "it is NFS 3"}));
  ASSERT_OK(a_.NoteLocks(SessionOf("a")));
  EXPECT_EQ(ProveB().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(ProveB())), HasSubstr("it is NFS 3"));
}

TEST_F(LockHandshakeTest, AnotherLifeOfTheClusterProvesNothing) {
  ASSERT_OK(Show(b_, "b"));
  ASSERT_OK(a_.NoteLocks(SessionOf("a")));
  LockHandshake next(folder_ / "nodes/uid-2");
  EXPECT_EQ(next.ProveSeen(SessionOf("a"), api::NodeName("b")).code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(LockHandshakeTest, TwoNodesOfOneNameAreFoundOut) {
  ASSERT_OK(Show(a_, "a"));
  const base::Status second = Show(b_, "a", 2);
  EXPECT_EQ(second.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(second)), HasSubstr("its own name"));
  // The file of the first one is whole.
  ASSERT_OK(b_.NoteLocks(SessionOf("b")));
  ASSERT_OK(b_.ProveSeen(SessionOf("b"), api::NodeName("a")));
}

TEST_F(LockHandshakeTest, ALockWhoseFileWasRemovedIsShownAgain) {
  ASSERT_OK(Show(b_, "b"));
  ASSERT_EQ(unlink(FileOf("b").c_str()), 0);
  ASSERT_OK(Show(b_, "b"));
  ASSERT_OK(a_.NoteLocks(SessionOf("a")));
  ASSERT_OK(ProveB());
}

TEST_F(LockHandshakeTest, FilesThatSomebodyElseWroteAreNotBelieved) {
  ASSERT_OK(platform::MakeFolders(life_, 0700));
  for (const std::string text :
       {"", "{", "[]", "{\"session\": \"../../../../etc\"}", "{\"session\": \"abc\"}"}) {
    std::ofstream(FileOf("b"), std::ios::trunc) << text;
    ASSERT_OK(a_.NoteLocks(SessionOf("a")));
    EXPECT_EQ(ProveB().code(), StatusCode::kFailedPrecondition) << text;
  }
}

TEST_F(LockHandshakeTest, NothingIsLeftOfAClusterThatIsGone) {
  ASSERT_OK(Show(a_, "a"));
  ASSERT_OK(Show(b_, "b"));
  ASSERT_OK(a_.NoteLocks(SessionOf("a")));
  ASSERT_OK(b_.NoteLocks(SessionOf("b")));
  a_.HideLock();
  EXPECT_THAT(Files(), testing::SizeIs(1));
  b_.HideLock();
  struct stat st;
  EXPECT_NE(stat((folder_ / "nodes").c_str(), &st), 0);
}

}  // namespace
}  // namespace berth::block
