// The handshake on a share that is full, and on one whose server does not answer. Needs root, to
// mount them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <vector>

#include "base/assert_ok.h"
#include "base/ids.h"
#include "base/unique_fd.h"
#include "block/images/lock_handshake.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/mounts/fake_lost_mount.h"

namespace berth::block {
namespace {

using base::StatusCode;
using testing::HasSubstr;

std::string SessionOf(const std::string& node, int boot = 1) {
  return base::Sha256Hex(fmt::format("{} {}", node, boot)).substr(0, kSessionLength);
}

class LockHandshakeRootTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(platform::MakeFolders(share_)); }

  void MountSmallShare() { ASSERT_EQ(mount("tmpfs", share_.c_str(), "tmpfs", 0, "size=1m"), 0); }
  void FillShare() const {
    const base::UniqueFd fd(open((share_ + "/ballast").c_str(), O_WRONLY | O_CREAT, 0600));
    const std::string block(4096, 'x');
    while (write(fd.get(), block.data(), block.size()) > 0) {
    }
    ASSERT_EQ(errno, ENOSPC);
  }
  static base::Status Show(LockHandshake& handshake, const std::string& node, int boot = 1) {
    return handshake.ShowLock({.node = node, .session = SessionOf(node, boot), .weakness = ""});
  }

  const platform::TempFolder folder_;
  const std::string share_ = folder_ / "share";
  const std::string life_ = share_ + "/nodes/uid-1";
  LockHandshake a_{life_}, b_{life_};
};

TEST_F(LockHandshakeRootTest, AFullShareSaysWhatIsMissingAndProvesNothingOfANewNode) {
  MountSmallShare();
  FillShare();
  const base::Status full = Show(b_, "b");
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(base::Message(full)),
              testing::AllOf(HasSubstr("has no room"), HasSubstr("its volumes work"),
                             HasSubstr("free some room on the share")));
  ASSERT_OK(a_.NoteLocks(SessionOf("a")));
  EXPECT_EQ(a_.ProveSeen(SessionOf("a"), api::NodeName("b")).code(),
            StatusCode::kFailedPrecondition);
  // Nobody else passes for that node meanwhile.
  LockHandshake other(life_);
  EXPECT_EQ(Show(other, "b").code(), StatusCode::kFailedPrecondition);

  ASSERT_EQ(unlink((share_ + "/ballast").c_str()), 0);
  ASSERT_OK(Show(b_, "b"));
  ASSERT_OK(a_.NoteLocks(SessionOf("a")));
  ASSERT_OK(a_.ProveSeen(SessionOf("a"), api::NodeName("b")));
}

TEST_F(LockHandshakeRootTest, WhatWasProvenBeforeTheShareWasFullGoesOnToCount) {
  MountSmallShare();
  {
    LockHandshake b(life_);
    ASSERT_OK(Show(b, "b"));
    ASSERT_OK(a_.NoteLocks(SessionOf("a")));
  }
  FillShare();
  ASSERT_OK(a_.ProveSeen(SessionOf("a"), api::NodeName("b")));
  ASSERT_OK(Show(b_, "b"));
  ASSERT_OK(a_.ProveSeen(SessionOf("a"), api::NodeName("b")));
  // After a reboot the file has the same size, so it needs no room, and nor do empty notes.
  ASSERT_OK(Show(b_, "b", 2));
  EXPECT_EQ(a_.ProveSeen(SessionOf("a"), api::NodeName("b")).code(),
            StatusCode::kFailedPrecondition);
  ASSERT_OK(a_.NoteLocks(SessionOf("a")));
  ASSERT_OK(a_.ProveSeen(SessionOf("a"), api::NodeName("b")));
}

TEST_F(LockHandshakeRootTest, AServerThatDoesNotAnswerStopsNobody) {
  const auto lost = platform::LostMount::Make(share_);
  ASSERT_OK(lost);
  ASSERT_OK((*lost)->Greet());
  LockHandshake handshake(life_, std::chrono::milliseconds(300));
  const auto begun = std::chrono::steady_clock::now();
  for (const base::Status& hung : {Show(handshake, "a"), handshake.NoteLocks(SessionOf("a")),
                                   handshake.ProveSeen(SessionOf("a"), api::NodeName("b"))}) {
    EXPECT_EQ(hung.code(), StatusCode::kDeadlineExceeded) << hung;
  }
  handshake.HideLock();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(60));
}

TEST_F(LockHandshakeRootTest, OneLookSeesTheLocksOfManyNodes) {
  constexpr int kNodes = 300;
  std::vector<std::unique_ptr<LockHandshake>> nodes;
  for (int i = 0; i < kNodes; ++i) {
    nodes.push_back(std::make_unique<LockHandshake>(life_));
    ASSERT_OK(Show(*nodes.back(), fmt::format("node-{}", i)));
  }
  ASSERT_OK(a_.NoteLocks(SessionOf("a")));
  for (int i = 0; i < kNodes; ++i) {
    ASSERT_OK(a_.ProveSeen(SessionOf("a"), api::NodeName(fmt::format("node-{}", i))));
  }
}

}  // namespace
}  // namespace berth::block
