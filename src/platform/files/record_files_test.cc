#include "platform/files/record_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::platform {
namespace {

using base::StatusCode;
using testing::HasSubstr;

class RecordFilesTest : public testing::Test {
 protected:
  void Write(const std::string& name, std::string_view content) const {
    ASSERT_TRUE(WriteDurably<"test.record">(Path(name), content).ok());
  }
  std::string Path(const std::string& name) const { return records_ + "/" + name; }

  const TempFolder folder_;
  const std::string records_ = folder_ / "records";
};

TEST_F(RecordFilesTest, AMissingFolderIsMadeAndEmpty) {
  EXPECT_TRUE(ReadRecordFiles(records_)->empty());
  EXPECT_EQ(access(records_.c_str(), W_OK), 0);
}

TEST_F(RecordFilesTest, AreReadInTheOrderOfTheirNames) {
  ASSERT_TRUE(MakeFolders(records_).ok());
  Write("b.json", "second");
  Write("a.json", "first");
  Write("a.json.damaged-x1", "set aside");
  const auto files = ReadRecordFiles(records_);
  ASSERT_TRUE(files.ok());
  ASSERT_EQ(files->size(), 2U);
  EXPECT_EQ(files->front().name, "a");
  EXPECT_EQ(files->front().path, Path("a.json"));
  EXPECT_EQ(*files->front().text, "first");
  EXPECT_EQ(files->back().name, "b");
}

TEST_F(RecordFilesTest, OneThatCannotBeReadHidesNoOther) {
  ASSERT_TRUE(MakeFolders(records_).ok());
  Write("large.json", std::string(100, 'x'));
  Write("small.json", "{}");
  ASSERT_EQ(symlink("small.json", Path("link.json").c_str()), 0);
  const auto files = ReadRecordFiles(records_, 50);
  ASSERT_TRUE(files.ok());
  ASSERT_EQ(files->size(), 3U);
  EXPECT_EQ((*files)[0].text.status().code(), StatusCode::kResourceExhausted);
  EXPECT_FALSE((*files)[1].text.ok());
  EXPECT_EQ(*(*files)[2].text, "{}");
}

TEST_F(RecordFilesTest, HaveAVersion) {
  EXPECT_EQ(ParseRecord(R"({"version": 2, "id": "a"})", 2)->at("id"), "a");
  const auto other = ParseRecord(R"({"version": 3})", 2).status();
  EXPECT_EQ(other.code(), StatusCode::kDataLoss);
  EXPECT_THAT(base::Message(other), HasSubstr("version 3 is not 2"));
  EXPECT_EQ(ParseRecord("{}", 2).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(ParseRecord("[1]", 2).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(ParseRecord("{\"version\": 2", 2).status().code(), StatusCode::kDataLoss);
}

TEST_F(RecordFilesTest, ADamagedOneIsKeptButNotReadAgain) {
  ASSERT_TRUE(MakeFolders(records_).ok());
  Write("a.json", "{");
  const auto aside = SetRecordAside(Path("a.json"), Path("a.json.damaged"));
  ASSERT_TRUE(aside.ok());
  EXPECT_EQ(*ReadFile(*aside), "{");
  EXPECT_TRUE(ReadRecordFiles(records_)->empty());
  EXPECT_FALSE(SetRecordAside(Path("a.json"), Path("a.json.damaged")).ok());
}

}  // namespace
}  // namespace berth::platform
