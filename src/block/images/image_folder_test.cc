// Images of a folder, without devices: their records, and what is finished after a crash.
#include "block/images/image_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "base/fake_faults.h"
#include "base/ids.h"
#include "block/sizes.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::block {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;

class ImageFolderTest : public testing::Test {
 protected:
  std::vector<std::string> Listed() {
    std::vector<std::string> names;
    const auto images = ImageFolder(folder_.path()).List();
    EXPECT_TRUE(images.ok()) << images.status();
    for (const ImageInfo& image : *images) names.push_back(image.name);
    return names;
  }
  const platform::TempFolder folder_;
  ImageFolder images_{folder_.path()};
};

TEST_F(ImageFolderTest, AnImageIsMadeOnceAsASparseFile) {
  const auto made = images_.Create({.name = "pvc-1", .size_bytes = 10 * kMiB + 1});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->size_bytes, 10 * kMiB + kSizeStep);
  struct stat st;
  ASSERT_EQ(stat((folder_ / "pvc-1").c_str(), &st), 0);
  EXPECT_EQ(st.st_size, made->size_bytes);
  EXPECT_EQ(st.st_blocks, 0);
  ASSERT_TRUE(images_.Grow("pvc-1", 20 * kMiB).ok());
  EXPECT_EQ(images_.Create({.name = "pvc-1", .size_bytes = 10 * kMiB + 1})->size_bytes, 20 * kMiB);
  EXPECT_EQ(images_.Create({.name = "pvc-1", .size_bytes = kMiB}).status().code(),
            StatusCode::kAlreadyExists);
  EXPECT_THAT(Listed(), ElementsAre("pvc-1"));
  EXPECT_TRUE(images_.Delete("pvc-1").ok());
  EXPECT_TRUE(images_.Delete("pvc-1").ok());
  EXPECT_THAT(Listed(), IsEmpty());
  EXPECT_THAT(*platform::ListFolder(folder_ / ".berth"), IsEmpty());
}

TEST_F(ImageFolderTest, WhatACrashLeftOfARecordGoesWithItsImage) {
  for (const std::string name : {"pvc-1", "pvc-10"}) {
    ASSERT_TRUE(images_.Create({.name = name, .size_bytes = kMiB}).ok());
    std::ofstream(folder_ / (".berth/." + name + ".json.tmp-a1B2c3")) << "{";
  }
  ASSERT_TRUE(images_.Delete("pvc-1").ok());
  EXPECT_THAT(*platform::ListFolder(folder_ / ".berth"),
              ElementsAre(".pvc-10.json.tmp-a1B2c3", "pvc-10.json", "pvc-10.lock"));
  ASSERT_TRUE(images_.Delete("pvc-10").ok());
  EXPECT_THAT(*platform::ListFolder(folder_ / ".berth"), IsEmpty());
}

TEST_F(ImageFolderTest, AFileSystemInTheMakingIsNotedWithTheImage) {
  ASSERT_TRUE(images_.Create({.name = "pvc-1", .size_bytes = kMiB}).ok());
  EXPECT_EQ(*images_.ReadFormatting("pvc-1"), "");
  EXPECT_EQ(images_.NoteFormatting("pvc-1", "-L").code(), StatusCode::kInvalidArgument);
  const std::string uuid = base::NewUuid();
  ASSERT_TRUE(images_.NoteFormatting("pvc-1", uuid).ok());
  ASSERT_TRUE(images_.Grow("pvc-1", 2 * kMiB).ok());
  EXPECT_EQ(*ImageFolder(folder_.path()).ReadFormatting("pvc-1"), uuid);
  // A copy is another image.
  ASSERT_TRUE(images_.Create({.name = "copy", .size_bytes = 2 * kMiB, .source = "pvc-1"}).ok());
  EXPECT_EQ(*images_.ReadFormatting("copy"), "");
  ASSERT_TRUE(images_.NoteFormatting("pvc-1", "").ok());
  EXPECT_EQ(*images_.ReadFormatting("pvc-1"), "");
  EXPECT_EQ(images_.NoteFormatting("none", uuid).code(), StatusCode::kNotFound);
  EXPECT_EQ(images_.ReadFormatting("none").status().code(), StatusCode::kNotFound);
}

TEST_F(ImageFolderTest, ACopyOfWhatAMkfsLeftHalfMadeIsBlank) {
  ASSERT_TRUE(images_.Create({.name = "pvc-1", .size_bytes = kMiB}).ok());
  const base::UniqueFd image(open((folder_ / "pvc-1").c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(pwrite(image.get(), "half", 4, 0), 4);
  ASSERT_TRUE(images_.NoteFormatting("pvc-1", base::NewUuid()).ok());
  ASSERT_TRUE(images_.Create({.name = "copy", .size_bytes = 2 * kMiB, .source = "pvc-1"}).ok());
  ASSERT_TRUE(images_.CreateSnapshot("pvc-1", "snap").ok());
  ASSERT_TRUE(images_.Create({.name = "of-snap", .size_bytes = kMiB, .source = "snap"}).ok());
  for (const std::string name : {"copy", "snap", "of-snap"}) {
    struct stat st;
    ASSERT_EQ(stat((folder_ / name).c_str(), &st), 0);
    EXPECT_EQ(st.st_size, name == "copy" ? 2 * kMiB : kMiB);
    EXPECT_EQ(st.st_blocks, 0) << name;
    EXPECT_EQ(*images_.ReadFormatting(name), "");
  }
  EXPECT_EQ(
      images_.Create({.name = "less", .size_bytes = kSizeStep, .source = "pvc-1"}).status().code(),
      StatusCode::kOutOfRange);
}

TEST_F(ImageFolderTest, AnImageIsRemovedFromAFullFileSystem) {
  ASSERT_TRUE(images_.Create({.name = "pvc-1", .size_bytes = kMiB}).ok());
  {
    const base::FakeFaults full("block.image_record.write.before=error:RESOURCE_EXHAUSTED");
    const base::Status deleted = images_.Delete("pvc-1");
    EXPECT_TRUE(deleted.ok()) << deleted;
  }
  EXPECT_THAT(Listed(), IsEmpty());
  EXPECT_THAT(*platform::ListFolder(folder_ / ".berth"), IsEmpty());
  EXPECT_NE(access((folder_ / "pvc-1").c_str(), F_OK), 0);
}

// A crash leaves such a record if the file system was full.
TEST_F(ImageFolderTest, ARecordWhoseImageIsGoneIsRemoved) {
  ASSERT_TRUE(images_.Create({.name = "pvc-1", .size_bytes = kMiB}).ok());
  {
    const base::FakeFaults faults(
        "block.image_record.write.before=error:RESOURCE_EXHAUSTED,"
        "block.image.remove.after=error");
    EXPECT_FALSE(images_.Delete("pvc-1").ok());
  }
  EXPECT_EQ(images_.HasLock("pvc-1").status().code(), StatusCode::kDataLoss);
  EXPECT_TRUE(images_.Delete("pvc-1").ok());
  EXPECT_THAT(Listed(), IsEmpty());
}

TEST_F(ImageFolderTest, NamesThatLeadElsewhereAreRefused) {
  for (const std::string name : {"", "..", ".berth", "../x", "a/b", "A", "a b"}) {
    EXPECT_EQ(images_.Create({.name = name, .size_bytes = kMiB}).status().code(),
              StatusCode::kInvalidArgument)
        << name;
    EXPECT_FALSE(images_.Delete(name).ok()) << name;
  }
  const std::string longest(253, 'a');
  ASSERT_TRUE(images_.Create({.name = longest, .size_bytes = kMiB}).ok());
  EXPECT_TRUE(images_.Locate(longest).ok());
  EXPECT_TRUE(images_.Delete(longest).ok());
}

TEST_F(ImageFolderTest, AFileOfSomebodyElseIsLeftAlone) {
  std::ofstream(folder_ / "pvc-1") << "theirs";
  EXPECT_EQ(images_.Create({.name = "pvc-1", .size_bytes = kMiB}).status().code(),
            StatusCode::kAlreadyExists);
  EXPECT_TRUE(images_.Delete("pvc-1").ok());
  EXPECT_EQ(*platform::ReadFile(folder_ / "pvc-1"), "theirs");
}

TEST_F(ImageFolderTest, WhoFindsNoImageLeavesNothingBehind) {
  EXPECT_EQ(images_.Grow("none", kMiB).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(images_.CreateSnapshot("none", "snap").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(images_.NoteFormatting("none", base::NewUuid()).code(), StatusCode::kNotFound);
  EXPECT_THAT(*platform::ListFolder(folder_ / ".berth"), IsEmpty());

  // Deleted while another waits for its turn.
  ASSERT_TRUE(images_.Create({.name = "pvc-1", .size_bytes = kMiB}).ok());
  auto change = std::make_optional(images_.LockForChange("pvc-1"));
  ASSERT_TRUE(change->ok()) << change->status();
  std::jthread other([&] {
    EXPECT_EQ(ImageFolder(folder_.path()).Grow("pvc-1", 2 * kMiB).status().code(),
              StatusCode::kNotFound);
  });
  ASSERT_EQ(unlink((folder_ / ".berth/pvc-1.json").c_str()), 0);
  change.reset();
  other.join();
  EXPECT_THAT(*platform::ListFolder(folder_ / ".berth"), IsEmpty());
}

TEST_F(ImageFolderTest, AnotherFileUnderAnImagesNameIsNotTakenForIt) {
  ASSERT_TRUE(images_.Create({.name = "pvc-1", .size_bytes = kMiB}).ok());
  ASSERT_EQ(rename((folder_ / "pvc-1").c_str(), (folder_ / "away").c_str()), 0);
  folder_.SparseFile("pvc-1", kMiB);
  EXPECT_EQ(images_.Locate("pvc-1").status().code(), StatusCode::kDataLoss);
  EXPECT_FALSE(images_.Delete("pvc-1").ok());
  EXPECT_EQ(access((folder_ / "pvc-1").c_str(), F_OK), 0);
  ASSERT_EQ(rename((folder_ / "away").c_str(), (folder_ / "pvc-1").c_str()), 0);
  EXPECT_TRUE(images_.Delete("pvc-1").ok());
}

TEST_F(ImageFolderTest, ASnapshotNeverChangesAndAnImageIsMadeOfIt) {
  ASSERT_TRUE(images_.Create({.name = "pvc-1", .size_bytes = kMiB}).ok());
  {
    const base::UniqueFd image(open((folder_ / "pvc-1").c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(pwrite(image.get(), "old", 3, 0), 3);
    ASSERT_TRUE(images_.CreateSnapshot("pvc-1", "snap").ok());
    ASSERT_EQ(pwrite(image.get(), "new", 3, 0), 3);
  }
  EXPECT_EQ(images_.CreateSnapshot("pvc-1", "snap")->snapshot_of, "pvc-1");
  EXPECT_EQ(images_.Grow("snap", 2 * kMiB).status().code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(images_.Create({.name = "pvc-2", .size_bytes = 2 * kMiB, .source = "snap"}).ok());
  EXPECT_EQ(platform::ReadFile(folder_ / "pvc-2", 4 * kMiB)->substr(0, 3), "old");
  EXPECT_EQ(
      images_.Create({.name = "pvc-3", .size_bytes = kMiB, .source = "pvc-2"}).status().code(),
      StatusCode::kOutOfRange);
  EXPECT_THAT(Listed(), ElementsAre("pvc-1", "pvc-2", "snap"));
}

TEST_F(ImageFolderTest, TwoProcessesDoNotChangeOneImageAtOnce) {
  ASSERT_TRUE(images_.Create({.name = "pvc-1", .size_bytes = kMiB}).ok());
  auto change = std::make_optional(images_.LockForChange("pvc-1"));
  ASSERT_TRUE(change->ok()) << change->status();
  std::atomic<bool> grown{false};
  std::jthread other([&] {
    EXPECT_TRUE(ImageFolder(folder_.path()).Grow("pvc-1", 2 * kMiB).ok());
    grown = true;
  });
  EXPECT_TRUE(images_.Create({.name = "pvc-2", .size_bytes = kMiB}).ok());
  EXPECT_FALSE(grown);
  change.reset();
  other.join();
  EXPECT_EQ(images_.Locate("pvc-1")->info.size_bytes, 2 * kMiB);
}

}  // namespace
}  // namespace berth::block
