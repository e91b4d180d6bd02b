#include "platform/files/record_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::platform {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

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

TEST_F(RecordFilesTest, AreReadWithoutAVersionIfTheirKindHadNone) {
  EXPECT_EQ(ParseRecordOrUnversioned(R"({"id": "a"})", 1)->at("id"), "a");
  EXPECT_EQ(ParseRecordOrUnversioned(R"({"version": 1, "id": "b"})", 1)->at("id"), "b");
  for (const char* text : {R"({"version": 2, "id": "a"})", R"({"version": "x", "id": "a"})",
                           R"({"version": null})", "[1]", "1", "", R"({"id": "a")"}) {
    EXPECT_EQ(ParseRecordOrUnversioned(text, 1).status().code(), StatusCode::kDataLoss) << text;
  }
}

TEST_F(RecordFilesTest, AreOfThisBootIfTheyNameIt) {
  EXPECT_TRUE(IsThisBoot("b", "b"));
  EXPECT_FALSE(IsThisBoot("a", "b"));
  EXPECT_FALSE(IsThisBoot("", ""));
}

TEST_F(RecordFilesTest, ADamagedOneIsKeptButNotReadAgain) {
  ASSERT_TRUE(MakeFolders(records_).ok());
  Write("a.json", "{");
  const auto aside = SetRecordAside(Path("a.json"));
  ASSERT_TRUE(aside.ok());
  EXPECT_TRUE(aside->starts_with(Path("a.json.damaged-")));
  EXPECT_EQ(*ReadFile(*aside), "{");
  EXPECT_TRUE(ReadRecordFiles(records_)->empty());
  EXPECT_FALSE(SetRecordAside(Path("a.json")).ok());
}

// A folder with the records "a" and "e" and with records that are damaged in each way.
class LoadRecordsTest : public RecordFilesTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(MakeFolders(records_).ok());
    Write("a.json", R"({"version": 1, "id": "a"})");
    Write("b.json", R"({"version": 1,)");
    Write("c.json", R"({"version": 1, "id": "x"})");
    ASSERT_EQ(symlink("a.json", Path("d.json").c_str()), 0);
    Write("e.json", R"({"version": 1, "id": "e"})");
  }
  base::StatusOr<LoadedRecords<std::string>> Load(OnDamage on_damage) const {
    return LoadRecords<std::string>(
        records_, {.on_damage = on_damage},
        [](std::string_view text) -> base::StatusOr<std::string> {
          ASSIGN_OR_RETURN(const base::Json record, ParseRecord(text, 1));
          return base::json::String(record, {"id"});
        },
        [](const std::string& id) { return id; });
  }
  // The names and reasons of the damaged records.
  static std::vector<std::pair<std::string, std::string>> DamageOf(
      const base::StatusOr<LoadedRecords<std::string>>& loaded) {
    std::vector<std::pair<std::string, std::string>> found;
    for (const DamagedRecord& damaged : loaded->damaged) {
      found.emplace_back(damaged.name, base::Message(damaged.why));
    }
    return found;
  }
};

TEST_F(LoadRecordsTest, DamagedOnesAreSetAsideAndHideNoOther) {
  const auto loaded = Load(OnDamage::kSetAside);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->records, ElementsAre("a", "e"));
  EXPECT_THAT(DamageOf(loaded),
              ElementsAre(Pair("b", HasSubstr("not JSON")), Pair("c", HasSubstr("the name 'x'")),
                          Pair("d", HasSubstr(Path("d.json")))));
  EXPECT_EQ(*ReadFile(loaded->damaged.front().path), R"({"version": 1,)");
  const auto again = Load(OnDamage::kSetAside);
  EXPECT_THAT(again->records, ElementsAre("a", "e"));
  EXPECT_TRUE(again->damaged.empty());
  EXPECT_EQ(ListFolder(records_)->size(), 5U);
}

TEST_F(LoadRecordsTest, DamagedOnesThatAreLeftAreFoundAgain) {
  for (int i = 0; i < 2; ++i) {
    const auto loaded = Load(OnDamage::kLeave);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_THAT(loaded->records, ElementsAre("a", "e"));
    ASSERT_EQ(loaded->damaged.size(), 3U);
    EXPECT_EQ(loaded->damaged.front().path, Path("b.json"));
  }
}

TEST_F(LoadRecordsTest, ADamagedOneCanRefuseTheLoad) {
  const auto loaded = Load(OnDamage::kRefuse);
  EXPECT_EQ(loaded.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(base::Message(loaded.status()), HasSubstr(Path("b.json")));
  EXPECT_EQ(ListFolder(records_)->size(), 5U);
}

}  // namespace
}  // namespace berth::platform
