#include "guest/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "guest/group_walk.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::guest {
namespace {

using base::ipc::Message;

// A loop with a control port in a process of its own, because it never ends.
class ControlTest : public testing::Test {
 protected:
  ControlTest() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    host_ = base::UniqueFd(ends[0]);
    base::UniqueFd port(ends[1]);
    process_ = fork();
    if (process_ == 0) {
      host_.Reset();
      Loop loop;
      Control control(loop, std::move(port));
      control.AddMethod("echo", [](const Message& request, const Reply& reply) {
        reply(Message().Set("text", *request.FindText("text")));
      });
      control.AddMethods("group.", [](const Message& request, const Reply& reply) {
        reply(Message().Set("of", *request.FindText("method")));
      });
      // Replies when its child has ended.
      control.AddMethod("wait", [&loop](const Message&, Reply reply) {
        const pid_t child = fork();
        if (child == 0) _exit(7);
        loop.OnChildEnd(child, [reply](int status) {
          reply(Message().Set("exit", int64_t{WEXITSTATUS(status)}));
        });
      });
      loop.Run();
    }
  }
  ~ControlTest() override {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }

  void Send(const std::string& text) {
    ASSERT_EQ(write(host_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  Message Receive() {
    char buffer[4096];
    while (true) {
      if (const auto line = reader_.TakeLine()) return *base::ipc::ReadJson(*line);
      pollfd ready = {host_.get(), POLLIN, 0};
      if (poll(&ready, 1, 60'000) <= 0) break;
      const ssize_t size = read(host_.get(), buffer, sizeof buffer);
      if (size <= 0) break;
      reader_.AddBytes({buffer, static_cast<size_t>(size)});
    }
    ADD_FAILURE() << "no reply came";
    return {};
  }

  base::UniqueFd host_;
  base::ipc::LineReader reader_{base::ipc::guest::kLargestLine};
  pid_t process_ = 0;
};

TEST_F(ControlTest, WhatIsNoRequestIsSkippedAndTheNextOneIsAnswered) {
  Send("rest of a line\n{}\n{\"method\":\"echo\"}\n[1]\n");
  Send("\n{\"method\":\"echo\",\"id\":\"1\",\"text\":\"a\"}\n");
  const Message reply = Receive();
  EXPECT_EQ(*reply.FindText("id"), "1");
  EXPECT_EQ(*reply.FindText("text"), "a");
}

TEST_F(ControlTest, AGroupOfMethodsIsFoundByItsPrefix) {
  Send("{\"method\":\"group.one\",\"id\":\"1\"}\n{\"method\":\"grou\",\"id\":\"2\"}\n");
  EXPECT_EQ(*Receive().FindText("of"), "group.one");
  EXPECT_EQ(*Receive().FindText("code"), "UNIMPLEMENTED");
}

TEST_F(ControlTest, AnUnknownMethodIsRefused) {
  Send("{\"method\":\"no.such\",\"id\":\"1\"}\n");
  EXPECT_EQ(*Receive().FindText("code"), "UNIMPLEMENTED");
}

TEST_F(ControlTest, ACallThatWaitsForAChildIsAnsweredWhenTheChildHasEnded) {
  Send("{\"method\":\"wait\",\"id\":\"1\"}\n{\"method\":\"wait\",\"id\":\"2\"}\n");
  EXPECT_EQ(*Receive().FindNumber("exit"), 7);
  EXPECT_EQ(*Receive().FindNumber("exit"), 7);
}

TEST(GroupWalkTest, AFileGetsTheGroupsPermissionsAndAFolderSetgid) {
  EXPECT_EQ(ModeForGroup(S_IFREG | 0600), 0660u);
  EXPECT_EQ(ModeForGroup(S_IFREG | 04755), 04775u);
  EXPECT_EQ(ModeForGroup(S_IFDIR | 0700), 02770u);
}

TEST(GroupWalkTest, TheWholeTreeIsChangedUnlessTheRootIsRightAndThatIsEnough) {
  const platform::TempFolder folder;
  const std::string root = folder / "root";
  std::filesystem::create_directories(root + "/a/b");
  std::ofstream(root + "/a/b/file") << "x";
  chmod((root + "/a/b/file").c_str(), 0600);
  std::filesystem::create_symlink("/etc/passwd", root + "/a/link");
  const auto mode = [&] {
    struct stat st = {};
    EXPECT_EQ(stat((root + "/a/b/file").c_str(), &st), 0);
    return st.st_mode & 07777;
  };
  ASSERT_EQ(GiveToGroup(root, {.group = getgid()}), "");
  EXPECT_EQ(mode(), 0660u);
  chmod((root + "/a/b/file").c_str(), 0600);
  ASSERT_EQ(GiveToGroup(root, {.group = getgid(), .only_on_root_mismatch = true}), "");
  EXPECT_EQ(mode(), 0600u) << "the root was right";
  chmod(root.c_str(), 0700);
  ASSERT_EQ(GiveToGroup(root, {.group = getgid(), .only_on_root_mismatch = true}), "");
  EXPECT_EQ(mode(), 0660u);
  EXPECT_NE(GiveToGroup(folder / "missing", {.group = getgid()}), "");
}

}  // namespace
}  // namespace berth::guest
