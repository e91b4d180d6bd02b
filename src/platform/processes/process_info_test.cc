#include "platform/processes/process_info.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/unique_fd.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::platform {
namespace {

TEST(ProcessInfoTest, AStoppedChildIsFoundBelowItsParent) {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_NAME, "a (strange) b");
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  const std::vector<ProcessInfo> tree = ReadProcessTree(getpid());
  ASSERT_FALSE(tree.empty());
  EXPECT_EQ(tree.front().pid, getpid());
  const auto found = std::find_if(tree.begin(), tree.end(),
                                  [&](const ProcessInfo& info) { return info.pid == child; });
  ASSERT_NE(found, tree.end());
  EXPECT_TRUE(found->stopped());
  EXPECT_FALSE(found->in_kernel());
  EXPECT_EQ(found->name, "a (strange) b");
  EXPECT_EQ(found->parent, getpid());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(ReadProcess(child).status().code(), base::StatusCode::kNotFound);
}

base::UniqueFd ListenAt(const std::string& path) {
  base::UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  EXPECT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(listen(listener.get(), 1), 0);
  return listener;
}

TEST(ProcessInfoTest, AListenerIsKnownByItsSocket) {
  const TempFolder folder;
  const std::string path = folder / "listener.sock";
  EXPECT_EQ(FindSocketOwner(path).status().code(), base::StatusCode::kUnavailable);
  const base::UniqueFd listener = ListenAt(path);
  const auto owner = FindSocketOwner(path);
  ASSERT_TRUE(owner.ok()) << owner.status();
  EXPECT_EQ(*owner, getpid());
}

// A stopped driver takes none of the connections of those who look at it, until its queue is full.
TEST(ProcessInfoTest, AStoppedListenerIsKnownHoweverOftenOneLooks) {
  const TempFolder folder;
  const std::string path = folder / "a listener.sock";
  const base::UniqueFd listener = ListenAt(path);
  for (int look = 0; look < 5; ++look) {
    const auto owner = FindSocketOwner(path);
    ASSERT_TRUE(owner.ok()) << "look " << look << ": " << owner.status();
    EXPECT_EQ(*owner, getpid());
  }
}

}  // namespace
}  // namespace berth::platform
