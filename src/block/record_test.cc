#include "block/record.h"

#include <gtest/gtest.h>

#include "base/ids.h"

namespace berth::block {
namespace {

Record Sample() {
  Record record;
  record.kind = Kind::kSnapshot;
  record.id = base::NewUuid();
  record.name = "Gänse \"quoted\"\n";
  record.state = State::kDeleting;
  record.size_bytes = 4096;
  record.created = base::WallTime(std::chrono::seconds(1767225600));
  record.access = AccessType::kBlock;
  record.fs_type = "xfs";
  record.content = Content::kCopied;
  record.fs_uuid = base::NewUuid();
  record.grow_file_system = true;
  record.sector_size = 4096;
  record.growing_from = 512;
  record.source = {Kind::kVolume, base::NewUuid()};
  record.image = {.device = 2049, .inode = 77, .boot_id = "boot"};
  return record;
}

TEST(RecordTest, EveryMemberSurvives) {
  const Record before = Sample();
  const auto after = DecodeRecord(Encode(before));
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(Encode(*after), Encode(before));
  EXPECT_EQ(after->name, before.name);
  EXPECT_EQ(after->created, before.created);
  EXPECT_EQ(after->source, before.source);
  EXPECT_EQ(after->image.inode, 77u);
  EXPECT_EQ(after->sector_size, 4096u);
  EXPECT_TRUE(after->grow_file_system);
}

TEST(RecordTest, AHalfOrForeignRecordIsDataLoss) {
  const std::string whole = Encode(Sample());
  const auto code = [](std::string_view text) { return DecodeRecord(text).status().code(); };
  EXPECT_EQ(code(""), base::StatusCode::kDataLoss);
  EXPECT_EQ(code(std::string_view(whole).substr(0, whole.size() / 2)), base::StatusCode::kDataLoss);
  EXPECT_EQ(code("{}"), base::StatusCode::kDataLoss);
  for (const char* member : {"kind", "id", "name", "state", "sizeBytes", "accessType", "content"}) {
    base::Json json = *base::json::Parse(whole);
    json.erase(member);
    EXPECT_EQ(code(base::json::Dump(json)), base::StatusCode::kDataLoss) << member;
  }
  base::Json newer = *base::json::Parse(whole);
  newer["version"] = 2;
  EXPECT_EQ(code(base::json::Dump(newer)), base::StatusCode::kDataLoss);
}

TEST(RecordTest, OnlyUuidsAreIds) {
  EXPECT_TRUE(IsId(base::NewUuid()));
  for (const char* text :
       {"", "..", "../../etc/passwd/aaaaaaaaaaaaaaaaaaa",
        "0000000000000000000000000000000000000000", "00000000-0000-0000-0000-00000000000/",
        "00000000-0000-0000-0000-00000000000G"}) {
    EXPECT_FALSE(IsId(text)) << text;
  }
}

}  // namespace
}  // namespace berth::block
