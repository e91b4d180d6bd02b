#include "platform/files/record_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>
#include <thread>

#include "base/fake_faults.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::platform {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;

ino_t InodeOf(const std::string& path) {
  struct stat st;
  return stat(path.c_str(), &st) == 0 ? st.st_ino : 0;
}

class RecordFolderTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ / "records/" + name; }
  base::Status Write(const std::string& name, std::string_view content) {
    return records_->Write<"test.record">(name, content);
  }

  const TempFolder folder_;
  std::unique_ptr<RecordFolder> records_ = *RecordFolder::Open(folder_ / "records");
};

TEST_F(RecordFolderTest, ReplacesWholeWhateverTheLengths) {
  for (const std::string& content : {std::string("one"), std::string(9000, 'x'), std::string("2"),
                                     std::string(), std::string(100, 'y')}) {
    ASSERT_TRUE(Write("a.json", content).ok());
    EXPECT_EQ(*ReadFile(Path("a.json")), content);
  }
}

TEST_F(RecordFolderTest, WritesInTurnToTwoInodes) {
  std::set<ino_t> inodes;
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(Write("a.json", std::to_string(i)).ok());
    inodes.insert(InodeOf(Path("a.json")));
  }
  EXPECT_EQ(inodes.size(), 2);
}

TEST_F(RecordFolderTest, ARemovedFileIsTheNextOnesSpare) {
  ASSERT_TRUE(Write("a.json", "a").ok());
  const ino_t inode = InodeOf(Path("a.json"));
  ASSERT_TRUE(records_->Remove<"test.record">("a.json").ok());
  EXPECT_EQ(InodeOf(Path("a.json")), 0);
  EXPECT_TRUE(records_->Remove<"test.record">("a.json").ok());
  ASSERT_TRUE(Write("b.json", "b").ok());
  EXPECT_EQ(InodeOf(Path("b.json")), inode);
  EXPECT_EQ(*ReadFile(Path("b.json")), "b");
}

TEST_F(RecordFolderTest, LeavesNoSpareBehind) {
  ASSERT_TRUE(Write("a.json", "1").ok());
  ASSERT_TRUE(Write("a.json", "2").ok());
  ASSERT_TRUE(records_->Remove<"test.record">("a.json").ok());
  records_.reset();
  EXPECT_THAT(*ListFolder(folder_ / "records"), IsEmpty());
}

TEST_F(RecordFolderTest, ASpareThatACrashLeftIsATornWrite) {
  ASSERT_TRUE(Write("a.json", "1").ok());
  ASSERT_TRUE(Write("a.json", "2").ok());
  EXPECT_EQ(ListFolder(folder_ / "records")->size(), 2);
  const auto after = RecordFolder::Open(folder_ / "records");
  ASSERT_TRUE(after.ok());
  EXPECT_THAT(*ListFolder(folder_ / "records"), ElementsAre("a.json"));
  EXPECT_EQ(*ReadFile(Path("a.json")), "2");
}

TEST_F(RecordFolderTest, AWriteThatFailsLeavesTheOldContent) {
  ASSERT_TRUE(Write("a.json", "old").ok());
  {
    const base::FakeFaults faults("test.record.write.temp=error");
    EXPECT_FALSE(Write("a.json", "new").ok());
  }
  EXPECT_EQ(*ReadFile(Path("a.json")), "old");
  EXPECT_THAT(*ListFolder(folder_ / "records"), ElementsAre("a.json"));
  ASSERT_TRUE(Write("a.json", "new").ok());
  EXPECT_EQ(*ReadFile(Path("a.json")), "new");
}

TEST_F(RecordFolderTest, ManyWriteAtOnce) {
  {
    std::vector<std::jthread> writers;
    for (int i = 0; i < 16; ++i) {
      writers.emplace_back([this, i] {
        const std::string name = std::to_string(i);
        for (int round = 0; round < 20; ++round) {
          EXPECT_TRUE(Write(name, name + " " + std::to_string(round)).ok());
          if (round % 5 == 4) EXPECT_TRUE(records_->Remove<"test.record">(name).ok());
        }
        EXPECT_TRUE(Write(name, name).ok());
      });
    }
  }
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(*ReadFile(Path(std::to_string(i))), std::to_string(i));
  }
}

}  // namespace
}  // namespace berth::platform
