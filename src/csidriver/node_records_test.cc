#include "csidriver/node_records.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/ids.h"
#include "base/json.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::csidriver {
namespace {

NodeRecord Sample() {
  return {.volume_id = base::NewUuid(),
          .staging_path = platform::StagingPath("/staging"),
          .capability = "digest",
          .access = block::AccessType::kBlock,
          .use = DeviceUse::kDeferred,
          .targets = {{platform::TargetPath("/a"), true, "x"},
                      {platform::TargetPath("/b"), false, "y"},
                      {platform::TargetPath("/c"), false, "z", true}}};
}

std::unique_ptr<NodeRecords> Open(const std::string& folder) {
  auto records = NodeRecords::Open(folder);
  EXPECT_TRUE(records.ok()) << records.status();
  return records.ok() ? *std::move(records) : nullptr;
}

TEST(NodeRecordsTest, RecordsOfThisBootSurviveARestart) {
  const platform::TempFolder folder;
  const NodeRecord record = Sample();
  ASSERT_TRUE(Open(folder.path())->Put(record).ok());
  const auto records = Open(folder.path());
  const auto found = records->Get(record.volume_id);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->staging_path, platform::StagingPath("/staging"));
  EXPECT_EQ(found->access, block::AccessType::kBlock);
  EXPECT_EQ(found->use, DeviceUse::kDeferred);
  EXPECT_EQ(found->targets, record.targets);
  ASSERT_TRUE(records->Remove(record.volume_id).ok());
  EXPECT_FALSE(Open(folder.path())->Get(record.volume_id).has_value());
}

TEST(NodeRecordsTest, RecordsOfAnotherBootAreDropped) {
  const platform::TempFolder folder;
  NodeRecord record = Sample();
  record.boot_id = "another boot";
  const std::string path = folder / (record.volume_id + ".json");
  ASSERT_TRUE(platform::WriteDurably<"test.file">(path, Encode(record)).ok());
  EXPECT_FALSE(Open(folder.path())->Get(record.volume_id).has_value());
  EXPECT_EQ(platform::ReadFile(path).status().code(), base::StatusCode::kNotFound);
}

TEST(NodeRecordsTest, ARecordOfAnEarlierVersionIsOfAVolumeThatIsMounted) {
  NodeRecord record = Sample();
  record.boot_id = "this boot";
  base::Json old = *base::json::Parse(Encode(record));
  old.erase("deviceUse");
  for (base::Json& target : old["targets"]) target.erase("deferred");
  const auto read = DecodeNodeRecord(base::json::Dump(old));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->use, DeviceUse::kMounted);
  for (const PublishedTarget& target : read->targets) EXPECT_FALSE(target.deferred);
  old["deviceUse"] = "otherwise";
  EXPECT_EQ(DecodeNodeRecord(base::json::Dump(old)).status().code(), base::StatusCode::kDataLoss);
}

// The text of the only file that `id`'s record was set aside as; "" if there is none.
std::string ReadSetAside(const platform::TempFolder& folder, const std::string& id) {
  std::string text;
  const auto names = platform::ListFolder(folder.path());
  for (const std::string& name : *names) {
    if (name.starts_with(id + ".json.damaged-")) text = *platform::ReadFile(folder / name);
  }
  return text;
}

TEST(NodeRecordsTest, ADamagedRecordIsSetAsideAndTheOthersAreRead) {
  const platform::TempFolder folder;
  const NodeRecord record = Sample();
  ASSERT_TRUE(Open(folder.path())->Put(record).ok());
  const std::string torn = base::NewUuid();
  std::ofstream(folder / (torn + ".json")) << "{";
  EXPECT_TRUE(Open(folder.path())->Get(record.volume_id).has_value());
  EXPECT_EQ(ReadSetAside(folder, torn), "{");
  EXPECT_TRUE(Open(folder.path())->Get(record.volume_id).has_value());
}

TEST(NodeRecordsTest, AFileThatCannotBeReadDoesNotKeepTheDriverFromStarting) {
  const platform::TempFolder folder;
  const NodeRecord record = Sample();
  ASSERT_TRUE(Open(folder.path())->Put(record).ok());
  const std::string large = base::NewUuid();
  std::ofstream(folder / (large + ".json")) << std::string(2 << 20, ' ');
  const auto records = Open(folder.path());
  ASSERT_NE(records, nullptr);
  EXPECT_TRUE(records->Get(record.volume_id).has_value());
}

TEST(NodeRecordsTest, TheRecordOfAnotherVolumeIsDamaged) {
  const platform::TempFolder folder;
  const NodeRecord record = Sample();
  ASSERT_TRUE(Open(folder.path())->Put(record).ok());
  const std::string other = base::NewUuid();
  std::filesystem::rename(folder / (record.volume_id + ".json"), folder / (other + ".json"));
  const auto records = Open(folder.path());
  EXPECT_FALSE(records->Get(record.volume_id).has_value());
  EXPECT_FALSE(records->Get(other).has_value());
  EXPECT_NE(ReadSetAside(folder, other), "");
}

}  // namespace
}  // namespace berth::csidriver
