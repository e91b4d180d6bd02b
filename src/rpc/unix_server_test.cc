#include "rpc/unix_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "rpc/registration_client.h"
#include "rpc/unix_socket.h"

namespace berth::rpc {
namespace {

using base::StatusCode;
using testing::HasSubstr;
using namespace std::chrono_literals;

class UnixServerTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/berth-rpc-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    socket_ = folder_ + "/x-reg.sock";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  auto StartHere() {
    return RegistrationServer::Start(socket_, "x.example.com", "/run/x/csi.sock");
  }

  std::string folder_;
  std::string socket_;
};

TEST_F(UnixServerTest, AnnouncesADriverAndHearsThatItIsRegistered) {
  auto server = StartHere();
  ASSERT_TRUE(server.ok()) << server.status();
  const auto info = GetPluginInfo(socket_, 5s);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->type, "CSIPlugin");
  EXPECT_EQ(info->name, "x.example.com");
  EXPECT_EQ(info->endpoint, "/run/x/csi.sock");
  EXPECT_EQ(info->supported_versions, std::vector<std::string>{"1.0.0"});

  std::string error;
  EXPECT_FALSE((*server)->registered(&error));
  ASSERT_TRUE(NotifyRegistrationStatus(socket_, false, "no such node", 5s).ok());
  EXPECT_FALSE((*server)->registered(&error));
  EXPECT_EQ(error, "no such node");
  ASSERT_TRUE(NotifyRegistrationStatus(socket_, true, "", 5s).ok());
  EXPECT_TRUE((*server)->registered(&error));
  EXPECT_EQ(error, "");
}

TEST_F(UnixServerTest, TheSocketIsForItsOwnerOnlyAndGoesWithTheServer) {
  auto server = StartHere();
  ASSERT_TRUE(server.ok()) << server.status();
  struct stat info;
  ASSERT_EQ(stat(socket_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  server->reset();
  EXPECT_FALSE(std::filesystem::exists(socket_));
}

TEST_F(UnixServerTest, ASocketInUseIsNotTaken) {
  auto first = StartHere();
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = StartHere();
  EXPECT_EQ(second.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(GetPluginInfo(socket_, 5s).ok());
}

TEST_F(UnixServerTest, ALeftOverSocketIsReplaced) {
  {
    ASSERT_TRUE(ListenAt(socket_).ok());
  }  // closed: the file stays, and nobody listens
  ASSERT_TRUE(std::filesystem::exists(socket_));
  EXPECT_EQ(ProbeSocket(socket_).code(), StatusCode::kUnavailable);
  auto server = StartHere();
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(GetPluginInfo(socket_, 5s).ok());
}

TEST_F(UnixServerTest, AnotherFileAtThePathIsLeftAlone) {
  std::ofstream(socket_) << "data";
  EXPECT_EQ(StartHere().status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(std::filesystem::is_regular_file(socket_));
}

TEST_F(UnixServerTest, ASuccessorsSocketIsNotRemoved) {
  auto first = StartHere();
  ASSERT_TRUE(first.ok()) << first.status();
  std::filesystem::remove(socket_);
  auto second = StartHere();
  ASSERT_TRUE(second.ok()) << second.status();
  first->reset();
  EXPECT_TRUE(GetPluginInfo(socket_, 5s).ok());
}

TEST_F(UnixServerTest, PathsThatTheKernelRefusesAreRefusedWithAReason) {
  const std::string longest = "/" + std::string(kLongestSocketPath - 1, 'x');
  EXPECT_TRUE(SocketPath(longest).ok());
  const auto longer = SocketPath(longest + "x");
  EXPECT_EQ(longer.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(base::Message(longer.status())),
              HasSubstr("108 bytes long; the kernel allows at most 107"));
  EXPECT_EQ(GetPluginInfo(longest + "x", 1s).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(RegistrationServer::Start(longest + "x", "d", "").status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(SocketPath("relative.sock").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(SocketPath("").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(SocketPath(std::string_view("/a\0b", 4)).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(*SocketPath("unix:///run/a.sock"), "/run/a.sock");
  EXPECT_EQ(*SocketPath("unix:/run/a.sock"), "/run/a.sock");
}

TEST_F(UnixServerTest, APathWithOddCharactersWorks) {
  socket_ = folder_ + "/a b%20#?ü.sock";
  auto server = StartHere();
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(GetPluginInfo(socket_, 5s).ok());
}

}  // namespace
}  // namespace berth::rpc
