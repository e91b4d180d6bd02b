#include "platform/files/durable_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

#include "base/fake_faults.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/files/record_files.h"

namespace berth::platform {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

mode_t ModeOf(const std::string& path) {
  struct stat st;
  return lstat(path.c_str(), &st) == 0 ? st.st_mode & 07777 : 0;
}

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

class DurableFileTest : public testing::Test {
 protected:
  const TempFolder folder_;
};

TEST_F(DurableFileTest, WritesWholeAndReplaces) {
  const std::string path = folder_ / "record.json";
  ASSERT_TRUE(WriteDurably<"test.file">(path, "one").ok());
  ASSERT_TRUE(WriteDurably<"test.file">(path, "two", 0640).ok());
  EXPECT_EQ(*ReadFile(path), "two");
  EXPECT_EQ(ModeOf(path), 0640);
  EXPECT_THAT(*ListFolder(folder_.path()), ElementsAre("record.json"));  // no temp file left
}

TEST_F(DurableFileTest, TakesTheLongestNames) {
  const std::string path = folder_ / std::string(255, 'n');
  ASSERT_TRUE(WriteDurably<"test.file">(path, "x").ok());
  EXPECT_EQ(*ReadFile(path), "x");
}

TEST_F(DurableFileTest, AFailedWriteLeavesTheOldContent) {
  ASSERT_EQ(mkdir((folder_ / "taken").c_str(), 0700), 0);
  EXPECT_FALSE(WriteDurably<"test.file">(folder_ / "taken", "x").ok());
  EXPECT_THAT(*ListFolder(folder_.path()), ElementsAre("taken"));
  EXPECT_EQ(WriteDurably<"test.file">(folder_ / "no/such", "x").code(), StatusCode::kNotFound);
}

TEST_F(DurableFileTest, RemovesAndIsContentIfThereIsNothing) {
  ASSERT_TRUE(WriteDurably<"test.file">(folder_ / "a", "x").ok());
  EXPECT_TRUE(RemoveDurably<"test.file">(folder_ / "a").ok());
  EXPECT_FALSE(Exists(folder_ / "a"));
  EXPECT_TRUE(RemoveDurably<"test.file">(folder_ / "a").ok());
  EXPECT_TRUE(RemoveDurably<"test.file">(folder_ / "no/such").ok());
}

TEST_F(DurableFileTest, ReadsWithinBounds) {
  ASSERT_TRUE(WriteDurably<"test.file">(folder_ / "a", "12345").ok());
  EXPECT_EQ(*ReadFile(folder_ / "a", 5), "12345");
  EXPECT_EQ(ReadFile(folder_ / "a", 4).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(ReadFile(folder_ / "b").status().code(), StatusCode::kNotFound);
}

TEST_F(DurableFileTest, ReadsNeitherThroughSymlinksNorFromFifos) {
  ASSERT_TRUE(WriteDurably<"test.file">(folder_ / "a", "x").ok());
  ASSERT_EQ(symlink("a", (folder_ / "link").c_str()), 0);
  EXPECT_FALSE(ReadFile(folder_ / "link").ok());
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(ReadFile(folder_ / "fifo").status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(DurableFileTest, MakesFoldersWithTheModeWhateverTheUmask) {
  const mode_t before = umask(0077);
  EXPECT_TRUE(MakeFolders(folder_ / "a/b/c", 0775).ok());
  umask(before);
  EXPECT_EQ(ModeOf(folder_ / "a/b/c"), 0775);
  ASSERT_EQ(chmod((folder_ / "a/b/c").c_str(), 0700), 0);
  EXPECT_TRUE(MakeFolders(folder_ / "a/b/c", 0775).ok());
  EXPECT_EQ(ModeOf(folder_ / "a/b/c"), 0700);  // what is there keeps its mode
  ASSERT_TRUE(WriteDurably<"test.file">(folder_ / "file", "x").ok());
  EXPECT_FALSE(MakeFolders(folder_ / "file").ok());
  EXPECT_FALSE(MakeFolders(folder_ / "file/below").ok());
}

TEST_F(DurableFileTest, RemovesATreeWithoutFollowingSymlinks) {
  ASSERT_TRUE(MakeFolders(folder_ / "keep").ok());
  ASSERT_TRUE(WriteDurably<"test.file">(folder_ / "keep/file", "x").ok());
  ASSERT_TRUE(MakeFolders(folder_ / "tree/a/b").ok());
  ASSERT_TRUE(WriteDurably<"test.file">(folder_ / "tree/a/b/file", "x").ok());
  ASSERT_EQ(symlink((folder_ / "keep").c_str(), (folder_ / "tree/a/link").c_str()), 0);
  ASSERT_EQ(mkfifo((folder_ / "tree/fifo").c_str(), 0600), 0);
  ASSERT_EQ(mkdir((folder_ / "tree/closed").c_str(), 0), 0);
  EXPECT_TRUE(RemoveTree(folder_ / "tree").ok());
  EXPECT_FALSE(Exists(folder_ / "tree"));
  EXPECT_TRUE(Exists(folder_ / "keep/file"));
  EXPECT_TRUE(RemoveTree(folder_ / "tree").ok());
  EXPECT_EQ(RemoveTree("/").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(RemoveTree("relative").code(), StatusCode::kInvalidArgument);
}

// A pod can nest folders deeper than any path or stack goes; its volume must still be removable.
TEST_F(DurableFileTest, RemovesATreeHoweverDeep) {
  ASSERT_TRUE(MakeFolders(folder_ / "deep").ok());
  base::UniqueFd at(open((folder_ / "deep").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; i < 600; ++i) {
    ASSERT_EQ(mkdirat(at.get(), "d", 0700), 0);
    at.Reset(openat(at.get(), "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  const base::Status status = RemoveTree(folder_ / "deep");
  EXPECT_TRUE(status.ok()) << base::ToString(status);
  EXPECT_FALSE(Exists(folder_ / "deep"));
}

// A pod can keep a descriptor of a folder that is removed, and make files there all the time.
TEST_F(DurableFileTest, AFolderThatIsFilledAllTheTimeIsGivenUp) {
  const std::string tree = folder_ / "tree";
  constexpr int kThreads = 3;
  constexpr uint64_t kFirst = 1000;  // files of a thread that are there before the removal begins
  const auto fill = [&tree](const std::stop_token& stop, std::latch& filled) {
    const base::UniqueFd at(open(tree.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (uint64_t i = 0; !stop.stop_requested(); ++i) {
      mknodat(at.get(), fmt::format("{}-{}", gettid(), i).c_str(), S_IFREG | 0600, 0);
      if (i == kFirst) filled.count_down();
    }
  };
  base::Status removed;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  // On a busy machine those who fill it may stand still for so long that the folder is removed.
  do {
    ASSERT_TRUE(MakeFolders(tree).ok());
    std::latch filled(kThreads);
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(fill, std::ref(filled));
    filled.wait();
    removed = RemoveTree(tree, std::chrono::milliseconds(10));
  } while (removed.code() != StatusCode::kUnavailable &&
           std::chrono::steady_clock::now() < deadline);
  EXPECT_EQ(removed.code(), StatusCode::kUnavailable) << removed;
  EXPECT_THAT(std::string(base::Message(removed)), HasSubstr("filled as fast as it is emptied"));
  EXPECT_TRUE(RemoveTree(tree).ok());
  EXPECT_FALSE(Exists(tree));
}

TEST_F(DurableFileTest, LocksOnce) {
  auto lock = LockFile(folder_ / "lock");
  ASSERT_TRUE(lock.ok());
  EXPECT_EQ(LockFile(folder_ / "lock").status().code(), StatusCode::kFailedPrecondition);
  lock->Reset();
  EXPECT_TRUE(LockFile(folder_ / "lock").ok());
}

TEST_F(DurableFileTest, AFolderCanBeLocked) {
  auto lock = LockFile(folder_.path());
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_EQ(LockFile(folder_.path()).status().code(), StatusCode::kFailedPrecondition);
  lock->Reset();
  EXPECT_TRUE(LockFile(folder_.path()).ok());
}

TEST_F(DurableFileTest, KnowsTheBoot) {
  const auto id = ReadBootId();
  ASSERT_TRUE(id.ok());
  EXPECT_EQ(id->size(), 36u);
  EXPECT_EQ(*id, *ReadBootId());
}

TEST_F(DurableFileTest, WhatACrashLeftOfAWriteIsRemovedAndNothingElse) {
  const TempFolder folder;
  for (const std::string& file :
       {std::string(".record.json.tmp-Ab12Cd"), std::string("record.json"), std::string(".hidden"),
        std::string("a.tmp-Ab12Cd"), std::string(".tmp-Ab12Cd"), std::string(".a.tmp-Ab12C")}) {
    ASSERT_TRUE(WriteDurably<"test.file">(folder / file, "x").ok());
  }
  EXPECT_TRUE(RemoveTornWrites(folder.path()).ok());
  EXPECT_THAT(*ListFolder(folder.path()),
              testing::UnorderedElementsAre("record.json", ".hidden", "a.tmp-Ab12Cd", ".tmp-Ab12Cd",
                                            ".a.tmp-Ab12C"));
  EXPECT_TRUE(RemoveTornWrites(folder / "none").ok());
}

TEST_F(DurableFileTest, WhatACrashLeftOfOneFileIsRemovedAndThatOfOthersStays) {
  const TempFolder folder;
  for (const char* file :
       {".a.json.tmp-Ab12Cd", ".a.json.tmp-Ef34Gh", "a.json", ".b.json.tmp-Ab12Cd",
        ".a.json.b.tmp-Ab12Cd", ".a.json.tmp-Ab12C", ".a.json.tmp-Ab12Cde"}) {
    ASSERT_TRUE(WriteDurably<"test.file">(folder / file, "x").ok());
  }
  EXPECT_TRUE(RemoveTornWritesOf(folder / "a.json").ok());
  EXPECT_THAT(*ListFolder(folder.path()),
              testing::UnorderedElementsAre("a.json", ".b.json.tmp-Ab12Cd", ".a.json.b.tmp-Ab12Cd",
                                            ".a.json.tmp-Ab12C", ".a.json.tmp-Ab12Cde"));
  EXPECT_TRUE(RemoveTornWritesOf(folder / "none/a.json").ok());
}

TEST_F(DurableFileTest, AWriteThatFailsBeforeTheRenameLeavesTheOldContent) {
  const TempFolder folder;
  ASSERT_TRUE(WriteDurably<"test.file">(folder / "a", "old").ok());
  const base::FakeFaults faults("test.file.write.temp=error");
  EXPECT_FALSE(WriteDurably<"test.file">(folder / "a", "new").ok());
  EXPECT_EQ(*ReadFile(folder / "a"), "old");
  EXPECT_THAT(*ListFolder(folder.path()), testing::ElementsAre("a"));
}

}  // namespace
}  // namespace berth::platform
