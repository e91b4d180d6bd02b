#include "rpc/socket_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "rpc/unix_socket.h"

namespace berth::rpc {
namespace {

class SocketFileTest : public testing::Test {
 protected:
  ~SocketFileTest() override { std::filesystem::remove_all(folder_); }

  static std::string MakeFolder() {
    char name[] = "/tmp/berth-test-XXXXXX";
    return mkdtemp(name);
  }

  const std::string folder_ = MakeFolder();
  const std::string path_ = folder_ + "/sock";
};

TEST_F(SocketFileTest, TheFileGoesWithItsListener) {
  const auto listener = ListenAt(path_);
  ASSERT_TRUE(listener.ok()) << listener.status();
  {
    SocketFile first(path_);
    const SocketFile moved = std::move(first);
    first = SocketFile();
    EXPECT_TRUE(std::filesystem::exists(path_)) << "only the last owner removes it";
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(SocketFileTest, ASuccessorsFileStays) {
  const auto listener = ListenAt(path_);
  ASSERT_TRUE(listener.ok()) << listener.status();
  auto file = std::make_unique<SocketFile>(path_);
  std::filesystem::remove(path_);
  const auto successor = ListenAt(path_);
  ASSERT_TRUE(successor.ok()) << successor.status();
  file.reset();
  EXPECT_TRUE(ProbeSocket(path_).ok());
}

TEST_F(SocketFileTest, AFileThatIsGoneIsNoTrouble) {
  const SocketFile never(path_);
  const auto listener = ListenAt(path_);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const SocketFile file(path_);
  std::filesystem::remove(path_);
}

}  // namespace
}  // namespace berth::rpc
