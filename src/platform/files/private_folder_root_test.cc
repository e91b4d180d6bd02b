// The folders that people name for Berth's files. Needs root, to mount file systems.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/files/private_folder.h"

namespace berth::platform {
namespace {

using base::StatusCode;

constexpr std::string_view kNames[] = {"lock", "volumes"};

class NamedFolderRootTest : public ::testing::Test {
 protected:
  // Makes the folder with the mode and with what Berth has in it.
  void MakeBerths(mode_t mode) const {
    ASSERT_TRUE(MakeFolders(path_ + "/volumes", 0700).ok());
    std::ofstream(path_ + "/lock").close();
    std::ofstream(path_ + "/.record.json.tmp-aB3dEf").close();
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
  }
  base::StatusOr<FolderPrivacy> Make(NamedFolder::Writers writers = {}) const {
    return MakeNamedFolder({.path = path_, .names = kNames, .writers = writers});
  }
  mode_t Mode() const {
    struct stat st{};
    EXPECT_EQ(stat(path_.c_str(), &st), 0);
    return st.st_mode & 07777;
  }
  void ExpectMade(FolderPrivacy privacy, mode_t mode) const {
    const auto made = Make();
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(*made, privacy);
    EXPECT_EQ(Mode(), mode);
  }

  TempFolder folder_;
  const std::string path_ = folder_ / "a/pool";
};

TEST_F(NamedFolderRootTest, AMissingOneIsMadePrivate) {
  const mode_t before = umask(0);
  ExpectMade(FolderPrivacy::kPrivate, 0700);
  umask(before);
}

TEST_F(NamedFolderRootTest, OneThatServesOnlyBerthIsClosed) {
  for (const mode_t mode : {0755, 0770, 0777}) {
    MakeBerths(mode);
    ExpectMade(FolderPrivacy::kPrivate, 0700);
  }
}

TEST_F(NamedFolderRootTest, OneThatServesOthersTooStaysOpenForThem) {
  MakeBerths(0775);
  std::ofstream(path_ + "/photos.tar").close();
  ExpectMade(FolderPrivacy::kOpen, 0775);
}

TEST_F(NamedFolderRootTest, TheRootOfADiskStaysOpen) {
  ASSERT_TRUE(MakeFolders(path_).ok());
  ASSERT_EQ(mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=1m,mode=0755"), 0);
  MakeBerths(0755);
  ExpectMade(FolderPrivacy::kOpen, 0755);
}

TEST_F(NamedFolderRootTest, AFolderDirectlyBelowTheRootStaysOpen) {
  std::string path = "/bt-named-XXXXXX";
  ASSERT_NE(mkdtemp(path.data()), nullptr);
  ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  for (const std::string& name : {path, path + "/"}) {
    const auto made = MakeNamedFolder({.path = name, .names = kNames});
    EXPECT_TRUE(made.ok() && *made == FolderPrivacy::kOpen) << name << ": " << made.status();
  }
  struct stat st{};
  EXPECT_EQ(stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0755U);
  EXPECT_EQ(rmdir(path.c_str()), 0);
}

TEST_F(NamedFolderRootTest, OneThatStaysOpenForWritersIsRefusedUnlessTheyAreTrusted) {
  MakeBerths(0777);
  std::ofstream(path_ + "/photos.tar").close();
  const auto refused = Make(NamedFolder::Writers::kRefused);
  EXPECT_EQ(refused.status().code(), StatusCode::kFailedPrecondition) << refused.status();
  EXPECT_NE(base::Message(refused.status()).find("photos.tar"), std::string_view::npos)
      << refused.status();
  const auto trusted = Make(NamedFolder::Writers::kTrusted);
  EXPECT_TRUE(trusted.ok() && *trusted == FolderPrivacy::kOpen) << trusted.status();
  EXPECT_EQ(Mode(), 0777U);
}

TEST_F(NamedFolderRootTest, OneThatAllUsersShareIsRefused) {
  MakeBerths(01777);
  for (const auto writers : {NamedFolder::Writers::kRefused, NamedFolder::Writers::kTrusted}) {
    EXPECT_EQ(Make(writers).status().code(), StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(Mode(), 01777U);
}

// On NFS with root_squash root is another user on the server, as this child is on its own disk.
TEST_F(NamedFolderRootTest, OneWhoseModeMayNotBeChangedStaysOpen) {
  MakeBerths(0755);
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod((folder_ / "a").c_str(), 0755), 0);
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (setresuid(kNobody, kNobody, kNobody) != 0) _exit(2);
    const auto made = Make();
    _exit(made.ok() && *made == FolderPrivacy::kOpen ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "2 << 8: it cannot become another user";
  EXPECT_EQ(Mode(), 0755U);
}

}  // namespace
}  // namespace berth::platform
