#include <fcntl.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/assert_ok.h"
#include "crust/containers/shared_folder.h"
#include "crust/mount_namespace.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::crust {
namespace {

using testing::HasSubstr;
using testing::Not;

class SharedFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* folder : {"pins", "share", "root/sub", "mounted"}) {
      std::filesystem::create_directories(Path(folder));
    }
    std::ofstream(Path("root/file")) << "of the root";
    std::ofstream(Path("hosts")) << "of the host";
    ASSERT_OK(PreparePins(*mounter_, Path("pins")));
    ASSERT_EQ(mount("berth", Path("root/sub").c_str(), "tmpfs", 0, nullptr), 0);
    std::ofstream(Path("root/sub/deep")) << "of a mount below";
    auto opened = SharedFolder::Open(*mounter_, Path("pins/s"), Path("share"));
    ASSERT_OK(opened);
    shared_ = std::move(*opened);
  }
  void TearDown() override {
    EXPECT_TRUE(UnpinNamespace(*mounter_, Path("pins/s")).ok());
    umount2(Path("root/sub").c_str(), MNT_DETACH);
    umount2(Path("pins").c_str(), MNT_DETACH);
  }
  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }

  // What a process in a slave of the namespace, as virtiofsd is one, reads after `then`.
  std::string ReadAsServer(const std::string& name, const std::function<void()>& then) {
    int ready[2], go[2], answer[2];
    EXPECT_TRUE(pipe(ready) == 0 && pipe(go) == 0 && pipe(answer) == 0);
    const pid_t child = fork();
    if (child == 0) {
      const bool entered = setns(shared_.space().get(), CLONE_NEWNS) == 0 &&
                           unshare(CLONE_NEWNS) == 0 &&
                           mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0;
      char byte = entered ? 'y' : 'n';
      static_cast<void>(write(ready[1], &byte, 1));
      static_cast<void>(read(go[0], &byte, 1));
      std::ostringstream text;
      text << std::ifstream(Path("share") + "/" + name).rdbuf();
      static_cast<void>(write(answer[1], text.str().data(), text.str().size()));
      _exit(0);
    }
    close(answer[1]);
    char byte = 'n';
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'y');
    then();
    EXPECT_EQ(write(go[1], &byte, 1), 1);
    char bytes[200];
    const ssize_t n = read(answer[0], bytes, sizeof(bytes));
    waitpid(child, nullptr, 0);
    for (const int fd : {ready[0], ready[1], go[0], go[1], answer[0]}) close(fd);
    return std::string(bytes, n > 0 ? static_cast<size_t>(n) : 0);
  }
  std::string Read(const std::string& name) {
    return ReadAsServer(name, [] {});
  }

  const platform::TempFolder folder_;
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  SharedFolder shared_;
};

TEST_F(SharedFolderTest, ShowsRootsAndFilesToAServerThatAlreadyRuns) {
  EXPECT_EQ(
      ReadAsServer("c/rootfs/file", [&] { ASSERT_OK(shared_.Add("c", "rootfs", Path("root"))); }),
      "of the root");
  EXPECT_EQ(Read("c/rootfs/sub/deep"), "of a mount below");
  EXPECT_EQ(ReadAsServer("c/m3", [&] { ASSERT_OK(shared_.Add("c", "m3", Path("hosts"))); }),
            "of the host");
  ASSERT_OK(shared_.Add("c", "m3", Path("hosts")));  // as after a kill
  EXPECT_EQ(Read("c/m3"), "of the host");
}

TEST_F(SharedFolderTest, IsNotSeenOnTheHost) {
  ASSERT_OK(shared_.Add("c", "rootfs", Path("root")));
  EXPECT_TRUE(std::filesystem::is_empty(Path("share")));
  std::ostringstream mounts;
  mounts << std::ifstream("/proc/self/mountinfo").rdbuf();
  EXPECT_THAT(mounts.str(), Not(HasSubstr(Path("share"))));
}

TEST_F(SharedFolderTest, TakesAContainersAwayAndLeavesTheOthers) {
  for (const char* container : {"one", "two"}) {
    ASSERT_OK(shared_.Add(container, "rootfs", Path("root")));
    ASSERT_OK(shared_.Add(container, "m0", Path("hosts")));
  }
  EXPECT_EQ(ReadAsServer("one/rootfs/file", [&] { ASSERT_OK(shared_.Remove("one")); }), "");
  EXPECT_EQ(Read("one/m0"), "");
  EXPECT_EQ(Read("two/rootfs/file"), "of the root");
  EXPECT_EQ(Read("two/m0"), "of the host");
  ASSERT_OK(shared_.Remove("one"));
  EXPECT_TRUE(std::filesystem::exists(Path("root/file"))) << "only the copies went";
  EXPECT_TRUE(std::filesystem::exists(Path("root/sub/deep")));
}

TEST_F(SharedFolderTest, IsFoundAgain) {
  ASSERT_OK(shared_.Add("c", "rootfs", Path("root")));
  auto again = SharedFolder::Open(*mounter_, Path("pins/s"), Path("share"));
  ASSERT_OK(again);
  shared_ = std::move(*again);
  EXPECT_EQ(Read("c/rootfs/file"), "of the root");
}

TEST_F(SharedFolderTest, RefusesWhatIsNotThereAndWrongNames) {
  EXPECT_EQ(shared_.Add("c", "rootfs", Path("none")).code(), base::StatusCode::kNotFound);
  EXPECT_EQ(shared_.Add("..", "rootfs", Path("root")).code(), base::StatusCode::kInvalidArgument);
  EXPECT_EQ(shared_.Add("c", "a/b", Path("root")).code(), base::StatusCode::kInvalidArgument);
  EXPECT_EQ(shared_.Remove("c/d").code(), base::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace berth::crust
