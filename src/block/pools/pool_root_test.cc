// Volumes as real loop devices.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <fstream>
#include <latch>
#include <thread>

#include "block/device.h"
#include "block/pools/pool.h"
#include "block/prepare.h"
#include "block/space.h"
#include "platform/devices/fake_disk.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/processes/exec.h"

namespace berth::block {
namespace {

using base::StatusCode;

class PoolDeviceTest : public testing::Test {
 protected:
  PoolDeviceTest() { Reopen(); }
  ~PoolDeviceTest() override {
    for (const Record& record : pool_->List(Kind::kVolume)) {
      EXPECT_TRUE(pool_->Unmap(record.id).ok());
    }
  }
  void Reopen() {
    pool_.reset();
    pool_ = *Pool::Open(folder_ / "pool", {}, *mounter_, clock_);
  }
  std::string Create(AccessType access) {
    const auto record =
        pool_->CreateVolume({.name = "pvc",
                             .size = {.required = 16 * kMiB},
                             .access = access,
                             .fs_type = access == AccessType::kMount ? "ext4" : ""});
    EXPECT_TRUE(record.ok()) << record.status();
    return record->id;
  }

  const platform::TempFolder folder_;
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  base::FakeClock clock_;
  std::unique_ptr<Pool> pool_;
};

TEST_F(PoolDeviceTest, AMappedVolumeIsFoundAgainAndCannotBeDeleted) {
  const std::string id = Create(AccessType::kBlock);
  EXPECT_FALSE(pool_->FindDevice(id)->has_value());
  const auto device = pool_->Map(id);
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ(device->size, 16u * kMiB);
  Reopen();
  EXPECT_EQ(pool_->Map(id)->path, device->path);
  EXPECT_EQ(pool_->Get(Kind::kVolume, id)->sector_size, device->block_size);
  EXPECT_EQ(pool_->DeleteVolume(id).code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(pool_->GrowVolume(id, {.required = 32 * kMiB}).ok());
  EXPECT_EQ(pool_->Map(id)->size, 32u * kMiB);
  EXPECT_TRUE(pool_->Unmap(id).ok());
  EXPECT_TRUE(pool_->Unmap(id).ok());
  EXPECT_TRUE(pool_->DeleteVolume(id).ok());
}

TEST_F(PoolDeviceTest, ADeviceThatIsHeldOpenStaysMapped) {
  const std::string id = Create(AccessType::kBlock);
  const auto device = pool_->Map(id);
  {
    const base::UniqueFd held(open(device->path.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
    EXPECT_EQ(pool_->Unmap(id).code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ(pool_->FindDevice(id)->value().path, device->path);
  }
  EXPECT_TRUE(pool_->Unmap(id).ok());
}

TEST_F(PoolDeviceTest, ADeviceThatIsLetGoWithinThePatienceIsRemoved) {
  const std::string id = Create(AccessType::kBlock);
  const auto device = pool_->Map(id);
  base::UniqueFd held(open(device->path.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC));
  base::Status unmapped = base::Error(StatusCode::kUnknown, "not called");
  std::jthread unmapping([&] { unmapped = pool_->Unmap(id, std::chrono::seconds(60)); });
  EXPECT_EQ(pool_->Unmap(id).code(), StatusCode::kFailedPrecondition);
  held.Reset();
  unmapping.join();
  EXPECT_TRUE(unmapped.ok()) << unmapped;
  EXPECT_FALSE(pool_->FindDevice(id)->has_value());
}

TEST_F(PoolDeviceTest, AnImageAttachedTwiceIsNotUsed) {
  const std::string id = Create(AccessType::kBlock);
  ASSERT_TRUE(pool_->Map(id).ok());
  const auto second = platform::AttachLoop(pool_->paths().Image(Kind::kVolume, id), {});
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(pool_->Map(id).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(platform::DetachLoop(*second).ok());
  EXPECT_TRUE(pool_->Map(id).ok());
}

TEST_F(PoolDeviceTest, ReadOnlyDoesNotOutliveTheMapping) {
  const std::string id = Create(AccessType::kBlock);
  const auto writes = [](const platform::LoopDevice& device) {
    const base::UniqueFd fd(open(device.path.c_str(), O_WRONLY | O_CLOEXEC));
    return pwrite(fd.get(), "x", 1, 0) == 1;
  };
  const auto device = pool_->Map(id);
  ASSERT_TRUE(SetReadOnly(*device, true).ok());
  EXPECT_FALSE(writes(*device));
  ASSERT_TRUE(pool_->Unmap(id).ok());
  EXPECT_TRUE(writes(*pool_->Map(id)));
}

TEST_F(PoolDeviceTest, AHolderThatKeepsADeviceAttachedCannotWriteToIt) {
  const std::string id = Create(AccessType::kBlock);
  const auto device = pool_->Map(id);
  ASSERT_TRUE(device.ok()) << device.status();
  ASSERT_TRUE(SetReadOnly(*device, true).ok());
  const base::UniqueFd holder(open(device->path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(pool_->Unmap(id, {}).code(), StatusCode::kFailedPrecondition);
  const base::UniqueFd writer(open(device->path.c_str(), O_WRONLY | O_CLOEXEC));
  EXPECT_FALSE(writer.valid() && pwrite(writer.get(), "x", 1, 0) == 1);
}

TEST_F(PoolDeviceTest, CopiesAtTheSameTimeLeaveTheRoomThatIsReserved) {
  constexpr int64_t kFull = 64 * kMiB;
  platform::Disk disk(512 * kMiB);
  ASSERT_TRUE(platform::FormatIfBlank(*exec_, disk.device(), "ext4", {}).ok());
  ASSERT_TRUE(disk.Mount("ext4").ok());
  const std::string folder = disk.mount_point() + "/pool";
  auto pool = *Pool::Open(folder, {}, *mounter_, clock_);
  const auto source = pool->CreateVolume(
      {.name = "source", .size = {.required = kFull}, .access = AccessType::kBlock});
  ASSERT_TRUE(source.ok()) << source.status();
  {
    std::ofstream image(pool->paths().Image(Kind::kVolume, source->id), std::ios::in);
    image << std::string(kFull, 'x') << std::flush;
  }
  // Copies of a snapshot may run at the same time.
  const auto snapshot = pool->CreateSnapshot(source->id, "snapshot");
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  const int64_t free = ReadSpace(folder, 0)->free;
  pool.reset();
  const int64_t kept = free - kFull - kFull / 2;
  pool = *Pool::Open(folder, {.keep_free = kept}, *mounter_, clock_);
  std::barrier together(2);
  std::atomic<int> made = 0;
  {
    std::vector<std::jthread> copies;
    for (const char* name : {"one", "two"}) {
      copies.emplace_back([&, name] {
        together.arrive_and_wait();
        const NewVolume wanted = {.name = name,
                                  .size = {.required = kFull},
                                  .access = AccessType::kBlock,
                                  .source = {.kind = Kind::kSnapshot, .id = snapshot->id}};
        if (pool->CreateVolume(wanted).ok()) ++made;
      });
    }
  }
  EXPECT_LE(made, 1);
  EXPECT_GE(ReadSpace(folder, 0)->free, kept);
}

TEST_F(PoolDeviceTest, CopiesAboveTheLimitAreToldToTryAgain) {
  pool_.reset();
  pool_ = *Pool::Open(folder_ / "pool", {.max_copies = 1}, *mounter_, clock_);
  const std::string used = Create(AccessType::kMount);
  ASSERT_TRUE(PrepareVolume(*pool_, *exec_, used, *pool_->Map(used)).ok());
  const auto idle = pool_->CreateVolume(
      {.name = "idle", .size = {.required = kMiB}, .access = AccessType::kBlock});
  ASSERT_TRUE(idle.ok()) << idle.status();
  std::latch copying(1), go_on(1);
  pool_->SetDeferredCheck([&](const std::string&) {
    copying.count_down();
    go_on.wait();
    return Deferral::kNo;
  });
  base::Status first = base::Error(StatusCode::kUnknown, "not called");
  {
    std::jthread snapshot([&] { first = pool_->CreateSnapshot(used, "first").status(); });
    copying.wait();
    const base::Status second = pool_->CreateSnapshot(idle->id, "second").status();
    EXPECT_EQ(second.code(), StatusCode::kUnavailable) << second;
    const base::Status clone = pool_
                                   ->CreateVolume({.name = "clone",
                                                   .access = AccessType::kBlock,
                                                   .source = {Kind::kVolume, idle->id}})
                                   .status();
    EXPECT_EQ(clone.code(), StatusCode::kUnavailable) << clone;
    // What copies nothing goes on.
    EXPECT_TRUE(pool_->DeleteVolume(idle->id).ok());
    go_on.count_down();
  }
  EXPECT_TRUE(first.ok()) << first;
  pool_->SetDeferredCheck({});
  const base::Status again = pool_->CreateSnapshot(used, "second").status();
  EXPECT_TRUE(again.ok()) << again;
}

TEST_F(PoolDeviceTest, AFileSystemIsMadeOnceWithTheRecordedUuid) {
  const std::string id = Create(AccessType::kMount);
  const std::string uuid = pool_->Get(Kind::kVolume, id)->fs_uuid;
  auto device = pool_->Map(id);
  for (int i = 0; i < 2; ++i) {
    device = PrepareVolume(*pool_, *exec_, id, *device);
    ASSERT_TRUE(device.ok()) << device.status();
    const auto found = platform::ProbeSignature(device->path);
    EXPECT_EQ((*found)->type, "ext4");
    EXPECT_EQ((*found)->uuid, uuid);
    EXPECT_EQ(pool_->Get(Kind::kVolume, id)->content, Content::kFormatted);
    Reopen();
  }
}

TEST_F(PoolDeviceTest, OnlyAFormatThatWasBegunMayBeEmptied) {
  const std::string id = Create(AccessType::kMount);
  EXPECT_EQ(pool_->MapEmptied(id).status().code(), StatusCode::kInternal);
  Record record = *pool_->Get(Kind::kVolume, id);
  record.content = Content::kFormatting;
  ASSERT_TRUE(pool_->UpdateRecord(record).ok());
  std::ofstream(pool_->Map(id)->path) << "half a superblock";
  const auto device = pool_->MapEmptied(id);
  ASSERT_TRUE(device.ok()) << device.status();
  std::string start(17, 'x');
  std::ifstream(device->path).read(start.data(), 17);
  EXPECT_EQ(start, std::string(17, '\0'));
}

}  // namespace
}  // namespace berth::block
