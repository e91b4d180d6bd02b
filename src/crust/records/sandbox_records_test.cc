#include "crust/records/sandbox_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/files/record_files.h"

namespace berth::crust {
namespace {

using base::StatusCode;

SandboxRecord RecordOf(std::string id) {
  SandboxRecord record{
      .sandbox_id = std::move(id), .pod_uid = api::PodUid("uid"), .bundle = "/run/bundle"};
  record.volumes.push_back(
      {.host_volume_id = "/dev/loop7",
       .target = platform::TargetPath("/k/pods/uid/volumes/p/v/mount"),
       .state = VolumeState::kUnpublishing,
       .plan = {.device = {.source = "/dev/loop7", .block = true, .number = 1799},
                .steps = {MountFileSystem{.type = "xfs"}, PlaceInSandbox{"v0"}}}});
  return record;
}

TEST(SandboxRecordsTest, AreReadAsTheyAreWritten) {
  const platform::TempFolder folder;
  auto records = SandboxRecords::Open(folder / "records", folder / "former");
  ASSERT_TRUE(records.ok()) << records.status();
  SandboxRecord record = RecordOf("s1");
  ASSERT_TRUE(records->WriteRecord(record).ok());
  const auto loaded = records->LoadRecords();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->records.size(), 1u);
  SandboxRecord again = loaded->records.front();
  EXPECT_EQ(again.sandbox_id, "s1");
  EXPECT_EQ(again.pod_uid, api::PodUid("uid"));
  EXPECT_EQ(again.bundle, "/run/bundle");
  EXPECT_FALSE(again.ending);
  ASSERT_EQ(again.volumes.size(), 1u);
  EXPECT_EQ(again.volumes[0].state, VolumeState::kUnpublishing);
  EXPECT_EQ(again.volumes[0].plan, record.volumes[0].plan);
  EXPECT_NE(again.FindTarget(platform::TargetPath("/k/pods/uid/volumes/p/v/mount")), nullptr);
  EXPECT_NE(again.FindVolume("/dev/loop7"), nullptr);
  EXPECT_EQ(again.FindVolume("/dev/loop8"), nullptr);
  ASSERT_TRUE(records->RemoveRecord("s1").ok());
  EXPECT_TRUE(records->LoadRecords()->records.empty());
}

TEST(SandboxRecordsTest, OfAnotherBootAreDroppedAndTornOnesLeftAside) {
  const platform::TempFolder folder;
  auto records = SandboxRecords::Open(folder / "records", folder / "former");
  SandboxRecord old = RecordOf("old");
  old.boot_id = "another-boot";
  std::ofstream(folder / "records/old.json") << SandboxRecordKind::Encode(old);
  std::ofstream(folder / "records/torn.json") << "{\"version\":1";
  SandboxRecord named = RecordOf("x");
  named.boot_id = *platform::ReadBootId();
  std::ofstream(folder / "records/another-name.json") << SandboxRecordKind::Encode(named);
  const auto loaded = records->LoadRecords();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(loaded->records.empty());
  EXPECT_THAT(loaded->unreadable, testing::UnorderedElementsAre("another-name", "torn"));
  EXPECT_THAT(*platform::ListFolder(folder / "records"),
              testing::ElementsAre("another-name.json", "torn.json"));
}

TEST(SandboxRecordsTest, AFileThatCannotBeReadHidesNoOther) {
  const platform::TempFolder folder;
  auto records = SandboxRecords::Open(folder / "records", folder / "former");
  SandboxRecord record = RecordOf("s1");
  ASSERT_TRUE(records->WriteRecord(record).ok());
  std::ofstream(folder / "records/large.json") << std::string(9 << 20, ' ');
  const auto loaded = records->LoadRecords();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->records.size(), 1u);
  EXPECT_THAT(loaded->unreadable, testing::ElementsAre("large"));
}

TEST(SandboxRecordsTest, AreMovedFromWhereAnEarlierVersionKeptThem) {
  const platform::TempFolder folder;
  SandboxRecord record = RecordOf("s1");
  record.boot_id = *platform::ReadBootId();
  std::filesystem::create_directories(folder / "former");
  std::ofstream(folder / "former/s1.json") << SandboxRecordKind::Encode(record);
  std::ofstream(folder / "former/torn.json") << "{\"version\":1";
  std::ofstream(folder / "former/.s2.json.tmp-Ab12Cd") << "{";
  auto records = SandboxRecords::Open(folder / "records", folder / "former");
  ASSERT_TRUE(records.ok()) << records.status();
  const auto loaded = records->LoadRecords();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->records.size(), 1u);
  EXPECT_EQ(loaded->records.front().bundle, "/run/bundle");
  EXPECT_THAT(loaded->unreadable, testing::ElementsAre("torn"));
  EXPECT_FALSE(std::filesystem::exists(folder / "former"));
}

TEST(SandboxRecordsTest, RefuseWhatTheyDoNotKnow) {
  SandboxRecord record = RecordOf("s1");
  record.boot_id = "boot";
  ASSERT_TRUE(SandboxRecordKind::Decode(SandboxRecordKind::Encode(record)).ok());
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"\"version\":1", "\"version\":2"},
                                                        {"\"s1\"", "\"../s1\""},
                                                        {"unpublishing", "wondering"},
                                                        {"\"xfs\"", "\"\""}}) {
    std::string text = SandboxRecordKind::Encode(record);
    text.replace(text.find(from), from.size(), to);
    EXPECT_FALSE(SandboxRecordKind::Decode(text).ok()) << text;
  }
}

}  // namespace
}  // namespace berth::crust
