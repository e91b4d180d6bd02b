#include "volume/exec/registration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "platform/files/fake_temp_folder.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::HasSubstr;

constexpr char kPlugin[] = "kubernetes.io/glusterfs";
constexpr char kGood[] =
    R"({"podNamespace": "kubernetes-storage", "podName": "gluster-daemon-set-xtzwv",
        "podUID": "5d1942bd-7358-40e8-9547-a04345c85be9", "containerName": "gluster"})";

class RegistrationTest : public testing::Test {
 protected:
  void Put(const std::string& text, mode_t mode = 0644) {
    std::filesystem::create_directories(paths_.PluginContainers());
    std::ofstream(path_, std::ios::trunc) << text;
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
  }
  base::StatusOr<std::optional<Registration>> Read(uid_t owner = geteuid()) {
    return ReadRegistration(paths_, kPlugin, owner);
  }
  // Refused, by a message that names the file and this.
  void ExpectRefused(const std::string& fault, uid_t owner = geteuid()) {
    const auto read = Read(owner);
    EXPECT_EQ(read.status().code(), StatusCode::kFailedPrecondition) << fault;
    EXPECT_THAT(base::Message(read.status()), HasSubstr(path_));
    EXPECT_THAT(base::Message(read.status()), HasSubstr(fault));
  }

  const platform::TempFolder folder_;
  const Paths paths_{folder_.path()};
  const std::string path_ = folder_.path() + "/plugin-containers/kubernetes.io~glusterfs.json";
};

TEST_F(RegistrationTest, NoFolderAndNoFileAreNoRegistration) {
  ASSERT_TRUE(Read().ok());
  EXPECT_FALSE(Read()->has_value());
  std::filesystem::create_directories(paths_.PluginContainers());
  ASSERT_TRUE(Read().ok());
  EXPECT_FALSE(Read()->has_value());
}

TEST_F(RegistrationTest, NamesThePod) {
  Put(kGood);
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(**read, (Registration{"kubernetes-storage", "gluster-daemon-set-xtzwv",
                                  "5d1942bd-7358-40e8-9547-a04345c85be9", "gluster"}));
}

TEST_F(RegistrationTest, WhatIsNoRegistrationIsRefused) {
  const std::string good = kGood;
  const auto with = [&](const std::string& what, const std::string& by) {
    std::string text = good;
    return text.replace(text.find(what), what.size(), by);
  };
  const std::pair<std::string, std::string> cases[] = {
      {"", "no JSON"},
      {good.substr(0, good.size() / 2), "no JSON"},  // half-written
      {"[1]", "no JSON object"},
      {"null", "no JSON object"},
      {with(R"("kubernetes-storage")", "7"), "podNamespace is no string"},
      {with(R"("gluster")", R"(["gluster"])"), "containerName is no string"},
      {with("podUID", "podUid"), "it has no podUID"},
      {with("5d1942bd-7358-40e8-9547-a04345c85be9", ""), "podUID is empty"},
      {with("5d1942bd", "a,b=c"), "podUID: no UID"},
      {with("kubernetes-storage", "../etc"), "podNamespace: "},
      {with("gluster-daemon", "Gluster Daemon"), "podName: "},
      {with(R"("gluster")", R"("a/b")"), "containerName: "},
      {good + std::string(64 * 1024, ' '), "longer than 64 KiB"},
  };
  for (const auto& [text, fault] : cases) {
    Put(text);
    ExpectRefused(fault);
  }
}

TEST_F(RegistrationTest, ASymlinkIsRefused) {
  Put(kGood);
  std::filesystem::rename(path_, folder_ / "elsewhere.json");
  std::filesystem::create_symlink(folder_ / "elsewhere.json", path_);
  ExpectRefused("it is a symlink");
  std::filesystem::remove(folder_ / "elsewhere.json");
  ExpectRefused("it is a symlink");  // a dangling one, too
}

TEST_F(RegistrationTest, ASymlinkInPlaceOfTheFolderIsRefused) {
  std::filesystem::create_directories(folder_ / "elsewhere");
  std::filesystem::create_directory_symlink(folder_ / "elsewhere", paths_.PluginContainers());
  EXPECT_EQ(Read().status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(RegistrationTest, WhatOthersMayWriteIsRefused) {
  for (const mode_t mode : {0664, 0646}) {
    Put(kGood, mode);
    ExpectRefused("others than its owner may write it");
  }
  Put(kGood);
  ASSERT_EQ(chmod(paths_.PluginContainers().c_str(), 0777), 0);
  ExpectRefused("its folder: others than its owner may write it");
}

TEST_F(RegistrationTest, AnotherUsersFileIsRefused) {
  Put(kGood);
  ExpectRefused("it is owned by user", geteuid() + 1);
}

TEST_F(RegistrationTest, NeitherFolderNorFifoIsWaitedFor) {
  std::filesystem::create_directories(path_);
  ExpectRefused("it is no regular file");
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0644), 0);
  ExpectRefused("it is no regular file");
}

}  // namespace
}  // namespace berth::volume
