#include "rbd/records.h"

#include <gtest/gtest.h>

namespace berth::rbd {
namespace {

using base::StatusCode;

TEST(ImageRecordTest, IsReadAsItWasWritten) {
  const ImageRecord written{.state = ImageState::kDeleting,
                            .id = "5e1f",
                            .size_bytes = 8192,
                            .made_bytes = 4096,
                            .source = "base",
                            .snapshot_of = "base"};
  const auto read = ImageRecord::Parse(base::json::Dump(written.ToJson()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->state, ImageState::kDeleting);
  EXPECT_EQ(read->id, "5e1f");
  EXPECT_EQ(read->size_bytes, 8192);
  EXPECT_EQ(read->made_bytes, 4096);
  EXPECT_EQ(read->source, "base");
  EXPECT_EQ(read->snapshot_of, "base");
}

// A record that were read as complete without an id would let a delete remove another's image.
TEST(ImageRecordTest, ABrokenRecordIsNotACompleteImage) {
  for (const char* text :
       {"", "7", "{}", R"({"state": "mad", "id": "5e1f"})", R"({"state": "made", "size": 1})",
        R"({"state": "deleting"})", R"({"state": "made", "id": "5e1f", "size": -1})"}) {
    EXPECT_EQ(ImageRecord::Parse(text).status().code(), StatusCode::kDataLoss) << text;
  }
}

}  // namespace
}  // namespace berth::rbd
