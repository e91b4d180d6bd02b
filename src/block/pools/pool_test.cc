#include "block/pools/pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "base/ids.h"
#include "platform/files/durable_file.h"

namespace berth::block {
namespace {

using base::StatusCode;

class PoolTest : public testing::Test {
 protected:
  PoolTest() {
    std::string folder = std::filesystem::temp_directory_path() / "berth-pool-XXXXXX";
    folder_ = mkdtemp(folder.data());
    Reopen();
  }
  ~PoolTest() override {
    pool_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Reopen(const PoolOptions& options = {}) {
    pool_.reset();
    auto pool = Pool::Open(folder_, options, *mounter_, clock_);
    ASSERT_TRUE(pool.ok()) << pool.status();
    pool_ = *std::move(pool);
  }

  Record Create(const std::string& name, int64_t size = 8 * kMiB) {
    auto record = pool_->CreateVolume({.name = name, .size = {size, 0}, .fs_type = "ext4"});
    EXPECT_TRUE(record.ok()) << record.status();
    return record.ok() ? *record : Record{};
  }

  std::string Image(const Record& r) const { return pool_->paths().Image(r.kind, r.id); }
  std::string RecordPath(const Record& r) const { return pool_->paths().Record(r.kind, r.id); }

  // Writes `record` as a crash would have left it.
  void LeaveRecord(const Record& record) {
    ASSERT_TRUE(platform::WriteDurably<"test.file">(RecordPath(record), Encode(record)).ok());
  }

  static void Write(const std::string& path, off_t at, const std::string& text) {
    const base::UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(pwrite(fd.get(), text.data(), text.size(), at), ssize_t(text.size()));
  }
  static std::string Read(const std::string& path, off_t at, size_t size) {
    const base::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::string text(size, '\0');
    EXPECT_EQ(pread(fd.get(), text.data(), size, at), ssize_t(size));
    return text;
  }

  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  base::FakeClock clock_;
  std::string folder_;
  std::unique_ptr<Pool> pool_;
};

TEST_F(PoolTest, AVolumeIsASparseImageOfItsSizeAndSurvivesReopening) {
  const Record made = Create("pvc-1", 64 * kMiB);
  struct stat st;
  ASSERT_EQ(stat(Image(made).c_str(), &st), 0);
  EXPECT_EQ(st.st_size, 64 * kMiB);
  EXPECT_LT(st.st_blocks * 512, kMiB);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  EXPECT_EQ(made.content, Content::kBlank);
  EXPECT_FALSE(made.fs_uuid.empty());
  Reopen();
  const auto found = pool_->Get(Kind::kVolume, made.id);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(Encode(*found), Encode(made));
  EXPECT_EQ(pool_->List(Kind::kVolume).size(), 1u);
}

TEST_F(PoolTest, CreationIsIdempotentByName) {
  const NewVolume wanted = {.name = "pvc", .size = {8 * kMiB, 16 * kMiB}, .fs_type = "ext4"};
  const auto first = pool_->CreateVolume(wanted);
  const auto second = pool_->CreateVolume(wanted);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->id, second->id);
  NewVolume larger = wanted;
  larger.size = {16 * kMiB, 0};
  EXPECT_EQ(pool_->CreateVolume(larger).status().code(), StatusCode::kAlreadyExists);
  NewVolume block = wanted;
  block.access = AccessType::kBlock;
  block.fs_type = "";
  EXPECT_EQ(pool_->CreateVolume(block).status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(pool_->List(Kind::kVolume).size(), 1u);
}

TEST_F(PoolTest, OneProcessHasAPoolOpen) {
  EXPECT_EQ(Pool::Open(folder_, {}, *mounter_, clock_).status().code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(PoolTest, DeletionLeavesNothingAndIsIdempotent) {
  const Record made = Create("pvc");
  EXPECT_TRUE(pool_->DeleteVolume(made.id).ok());
  EXPECT_FALSE(std::filesystem::exists(Image(made)));
  EXPECT_FALSE(std::filesystem::exists(RecordPath(made)));
  EXPECT_TRUE(pool_->DeleteVolume(made.id).ok());
  EXPECT_TRUE(pool_->DeleteVolume("../../etc/passwd").ok());
  EXPECT_EQ(pool_->Get(Kind::kVolume, made.id).status().code(), StatusCode::kNotFound);
  EXPECT_NE(Create("pvc").id, made.id);
}

TEST_F(PoolTest, WhatACrashLeftHalfMadeOrHalfDeletedIsRemovedAtOpen) {
  Record half = Create("half-made");
  Record gone = Create("half-deleted");
  const Record whole = Create("whole");
  Record bare{.id = base::NewUuid(), .name = "no image yet", .size_bytes = kMiB};
  half.state = State::kCreating;
  half.image = {};
  gone.state = State::kDeleting;
  LeaveRecord(half);
  LeaveRecord(gone);
  LeaveRecord(bare);
  std::ofstream(folder_ + "/volumes/.x.json.tmp-Ab12Cd") << "{";
  Reopen();
  const auto names = platform::ListFolder(folder_ + "/volumes");
  ASSERT_TRUE(names.ok());
  EXPECT_EQ(*names, (std::vector<std::string>{whole.id + ".img", whole.id + ".json"}));
  EXPECT_EQ(pool_->List(Kind::kVolume).size(), 1u);
  EXPECT_NE(Create("half-made").id, half.id);
}

TEST_F(PoolTest, AGrowthCutOffByACrashIsCompletedAtOpen) {
  Record record = Create("pvc", 8 * kMiB);
  record.growing_from = record.size_bytes;
  record.size_bytes = 16 * kMiB;
  LeaveRecord(record);
  Reopen();
  EXPECT_EQ(std::filesystem::file_size(Image(record)), 16u * kMiB);
  EXPECT_EQ(pool_->Get(Kind::kVolume, record.id)->growing_from, 0);
}

TEST_F(PoolTest, GrowthKeepsToTheRange) {
  const Record made = Create("pvc", 8 * kMiB);
  auto grown = pool_->GrowVolume(made.id, {.required = 12 * kMiB});
  ASSERT_TRUE(grown.ok()) << grown.status();
  EXPECT_EQ(grown->size_bytes, 12 * kMiB);
  EXPECT_EQ(std::filesystem::file_size(Image(made)), 12u * kMiB);
  EXPECT_EQ(pool_->GrowVolume(made.id, {.required = 10 * kMiB})->size_bytes, 12 * kMiB);
  EXPECT_EQ(pool_->GrowVolume(made.id, {.limit = 10 * kMiB}).status().code(),
            StatusCode::kOutOfRange);
  EXPECT_EQ(pool_->GrowVolume(made.id, {.required = int64_t{1} << 60}).status().code(),
            StatusCode::kOutOfRange);
  EXPECT_EQ(pool_->Get(Kind::kVolume, made.id)->size_bytes, 12 * kMiB);
  EXPECT_EQ(pool_->GrowVolume(base::NewUuid(), {.required = kMiB}).status().code(),
            StatusCode::kNotFound);
}

TEST_F(PoolTest, AnImageSwappedForAnotherFileIsNeitherUsedNorDeleted) {
  const Record made = Create("pvc");
  std::filesystem::rename(Image(made), Image(made) + ".aside");
  EXPECT_EQ(pool_->CheckImage(made).code(), StatusCode::kDataLoss);
  EXPECT_EQ(pool_->Map(made.id).status().code(), StatusCode::kDataLoss);
  std::ofstream(Image(made)) << "somebody's backup";
  std::filesystem::resize_file(Image(made), 8 * kMiB);
  EXPECT_EQ(pool_->CheckImage(made).code(), StatusCode::kDataLoss);
  EXPECT_EQ(pool_->Map(made.id).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(pool_->DeleteVolume(made.id).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Read(Image(made), 0, 17), "somebody's backup");
  std::filesystem::rename(Image(made) + ".aside", Image(made));
  EXPECT_TRUE(pool_->CheckImage(made).ok());
  EXPECT_TRUE(pool_->DeleteVolume(made.id).ok());
}

TEST_F(PoolTest, AnImageIsStillTheSameAfterARebootThatNumbersDisksAnew) {
  Record made = Create("pvc");
  made.image.boot_id = "another boot";
  made.image.device += 16;
  LeaveRecord(made);
  Reopen();
  EXPECT_TRUE(pool_->CheckImage(made).ok());
  made.image.boot_id = Create("other").image.boot_id;
  EXPECT_EQ(pool_->CheckImage(made).code(), StatusCode::kDataLoss);
}

TEST_F(PoolTest, ADamagedRecordKeepsItsImageAndTheOtherVolumesServed) {
  const Record broken = Create("broken");
  const Record whole = Create("whole");
  std::ofstream(RecordPath(broken)) << "{\"version\":1,";
  Reopen();
  EXPECT_TRUE(pool_->Get(Kind::kVolume, whole.id).ok());
  EXPECT_EQ(pool_->Get(Kind::kVolume, broken.id).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(pool_->DeleteVolume(broken.id).code(), StatusCode::kDataLoss);
  EXPECT_TRUE(std::filesystem::exists(Image(broken)));
}

TEST_F(PoolTest, PromisesKeepToTheOverCommitRatio) {
  const auto space = std::filesystem::space(folder_);
  PoolOptions options;
  options.overcommit = 64.0 * kMiB / static_cast<double>(space.capacity);
  Reopen(options);
  ASSERT_NEAR(static_cast<double>(pool_->GetCapacity()->promisable_bytes), 64.0 * kMiB, kMiB);
  Create("first", 40 * kMiB);
  const NewVolume second = {.name = "second", .size = {40 * kMiB, 0}, .fs_type = "ext4"};
  EXPECT_EQ(pool_->CreateVolume(second).status().code(), StatusCode::kResourceExhausted);
  const NewVolume huge = {.name = "huge", .size = {80 * kMiB, 0}, .fs_type = "ext4"};
  EXPECT_EQ(pool_->CreateVolume(huge).status().code(), StatusCode::kOutOfRange);
  EXPECT_NEAR(static_cast<double>(pool_->GetCapacity()->available_bytes), 24.0 * kMiB, kMiB);
  EXPECT_EQ(pool_->List(Kind::kVolume).size(), 1u);
  EXPECT_EQ(platform::ListFolder(folder_ + "/volumes")->size(), 2u);
}

TEST_F(PoolTest, InlineVolumesLeaveRoomForClaims) {
  Reopen({.inline_share = 0.5});
  const int64_t half = pool_->GetCapacity()->promisable_bytes / 2;
  const auto create = [&](const std::string& name, int64_t size) {
    return pool_
        ->CreateVolume(
            {.name = name, .size = {size, 0}, .fs_type = "ext4", .inline_target = "/pods/" + name})
        .status();
  };
  EXPECT_TRUE(create("first", 8 * kMiB).ok());
  const base::Status refused = create("second", half - 4 * kMiB);
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused;
  EXPECT_TRUE(create("third", 8 * kMiB).ok());
}

TEST_F(PoolTest, TheShareOfInlineVolumesIsAPart) {
  pool_.reset();
  for (const double share : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    const auto pool = Pool::Open(folder_, {.inline_share = share}, *mounter_, clock_);
    EXPECT_EQ(pool.status().code(), StatusCode::kInvalidArgument) << share;
  }
  for (const double share : {0.0, 1.0}) Reopen({.inline_share = share});
}

TEST_F(PoolTest, ItLeavesFreeWhatItWasTold) {
  EXPECT_GT(pool_->GetCapacity()->available_bytes, 0);
  Reopen({.keep_free = int64_t{1} << 60});
  EXPECT_EQ(pool_->GetCapacity()->available_bytes, 0);
  const auto refused =
      pool_->CreateVolume({.name = "pvc-1", .size = {8 * kMiB, 0}, .fs_type = "ext4"});
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted) << refused.status();
  Reopen({.keep_free = 0});
  EXPECT_FALSE(Create("pvc-1").id.empty());
}

TEST_F(PoolTest, ASnapshotKeepsWhatTheVolumeHeldAndARestoreHasIt) {
  const auto volume =
      pool_->CreateVolume({.name = "raw", .size = {4 * kMiB, 0}, .access = AccessType::kBlock});
  ASSERT_TRUE(volume.ok()) << volume.status();
  Write(Image(*volume), 2 * kMiB, "before");
  const auto snapshot = pool_->CreateSnapshot(volume->id, "snap");
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  Write(Image(*volume), 2 * kMiB, "after!");
  EXPECT_EQ(Read(Image(*snapshot), 2 * kMiB, 6), "before");
  EXPECT_LT(ReadAllocatedBytes(Image(*snapshot)), kMiB);
  EXPECT_EQ(pool_->CreateSnapshot(volume->id, "snap")->id, snapshot->id);

  const auto restored = pool_->CreateVolume({.name = "restored",
                                             .size = {6 * kMiB, 0},
                                             .access = AccessType::kBlock,
                                             .source = {Kind::kSnapshot, snapshot->id}});
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(Read(Image(*restored), 2 * kMiB, 6), "before");
  EXPECT_EQ(std::filesystem::file_size(Image(*restored)), 6u * kMiB);

  const auto clone = pool_->CreateVolume(
      {.name = "clone", .access = AccessType::kBlock, .source = {Kind::kVolume, volume->id}});
  ASSERT_TRUE(clone.ok()) << clone.status();
  EXPECT_EQ(clone->size_bytes, volume->size_bytes);
  EXPECT_EQ(Read(Image(*clone), 2 * kMiB, 6), "after!");

  // A snapshot stands by itself.
  EXPECT_TRUE(pool_->DeleteVolume(volume->id).ok());
  Reopen();
  EXPECT_EQ(pool_->List(Kind::kSnapshot).size(), 1u);
  EXPECT_EQ(Read(Image(*snapshot), 2 * kMiB, 6), "before");
  EXPECT_TRUE(pool_->DeleteSnapshot(snapshot->id).ok());
  EXPECT_TRUE(pool_->DeleteSnapshot(snapshot->id).ok());
}

TEST_F(PoolTest, ASourceThatDoesNotFitIsRefused) {
  const Record volume = Create("source", 16 * kMiB);
  const auto code = [&](NewVolume wanted) {
    wanted.name = "copy";
    return pool_->CreateVolume(wanted).status().code();
  };
  const Source source{Kind::kVolume, volume.id};
  EXPECT_EQ(code({.source = {Kind::kVolume, base::NewUuid()}}), StatusCode::kNotFound);
  EXPECT_EQ(code({.source = {Kind::kSnapshot, volume.id}}), StatusCode::kNotFound);
  EXPECT_EQ(code({.access = AccessType::kBlock, .source = source}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.fs_type = "xfs", .source = source}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.size = {0, 8 * kMiB}, .source = source}), StatusCode::kOutOfRange);
  EXPECT_EQ(pool_->CreateSnapshot(base::NewUuid(), "s").status().code(), StatusCode::kNotFound);
  const Record other = Create("other");
  ASSERT_TRUE(pool_->CreateSnapshot(volume.id, "s").ok());
  EXPECT_EQ(pool_->CreateSnapshot(other.id, "s").status().code(), StatusCode::kAlreadyExists);
}

TEST_F(PoolTest, AVolumeInFlightIsAborted) {
  const Record volume = Create("pvc");
  const auto hold = pool_->LockVolume(volume.id);
  ASSERT_TRUE(hold.ok());
  EXPECT_EQ(pool_->DeleteVolume(volume.id).code(), StatusCode::kAborted);
  EXPECT_EQ(pool_->GrowVolume(volume.id, {.required = 99 * kMiB}).status().code(),
            StatusCode::kAborted);
  EXPECT_EQ(pool_->CreateSnapshot(volume.id, "s").status().code(), StatusCode::kAborted);
  EXPECT_EQ(
      pool_->CreateVolume({.name = "copy", .source = {Kind::kVolume, volume.id}}).status().code(),
      StatusCode::kAborted);
}

}  // namespace
}  // namespace berth::block
