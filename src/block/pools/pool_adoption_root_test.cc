#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/assert_ok.h"
#include "block/images/fake_adoption.h"
#include "block/pools/pool.h"
#include "block/pools/pool_adoption.h"
#include "block/prepare.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::block {
namespace {

namespace fs = std::filesystem;
using base::StatusCode;
using testing::HasSubstr;
using Step = AdoptionStep::Kind;

class PoolAdoptionTest : public testing::Test {
 protected:
  PoolAdoptionTest() { OpenPool(original_); }

  void OpenPool(const std::string& folder) {
    pool_.reset();
    auto pool = Pool::Open(folder, {}, *mounter_, clock_);
    ASSERT_OK(pool);
    pool_ = *std::move(pool);
  }
  // Makes a volume with a file system, detached, and gives its id.
  std::string CreateFormatted(const std::string& name) {
    const auto made =
        pool_->CreateVolume({.name = name, .size = {16 * kMiB, 0}, .fs_type = "ext4"});
    EXPECT_TRUE(made.ok()) << made.status();
    const auto device = pool_->Map(made->id);
    EXPECT_TRUE(device.ok()) << device.status();
    const auto prepared = PrepareVolume(*pool_, *exec_, made->id, *device);
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    EXPECT_TRUE(pool_->Unmap(made->id, std::chrono::seconds(10)).ok());
    return made->id;
  }
  // Copies the whole pool, as `cp -r` does, and lets the tests go on with the copy.
  void CopyPool() {
    pool_.reset();
    fs::copy(original_, copy_, fs::copy_options::recursive);
  }
  std::string Image(const std::string& id, Kind kind = Kind::kVolume) const {
    return PoolPaths(copy_).Image(kind, id);
  }
  void ExpectRefused(const std::string& id, const std::string& why) {
    ExpectRefusals({PlanAdoption(copy_), AdoptImages(copy_)}, id, why);
  }

  const platform::TempFolder folder_;
  const std::string original_ = folder_ / "pool";
  const std::string copy_ = folder_ / "copy";
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  base::FakeClock clock_;
  std::unique_ptr<Pool> pool_;
};

TEST_F(PoolAdoptionTest, ACopiedPoolIsShownThenTakenBack) {
  const std::string formatted = CreateFormatted("formatted");
  const std::string blank =
      pool_->CreateVolume({.name = "blank", .size = {8 * kMiB, 0}, .fs_type = "xfs"})->id;
  const std::string raw =
      pool_->CreateVolume({.name = "raw", .size = {kMiB, 0}, .access = AccessType::kBlock})->id;
  const std::string snapshot = pool_->CreateSnapshot(formatted, "snap")->id;
  CopyPool();

  OpenPool(copy_);
  const auto lost = pool_->CheckImage(*pool_->Get(Kind::kVolume, formatted));
  EXPECT_EQ(lost.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(base::Message(lost)), HasSubstr("berth pool adopt --pool " + copy_));
  EXPECT_EQ(AdoptImages(copy_).status().code(), StatusCode::kFailedPrecondition);
  const auto plan = PlanAdoption(copy_);
  for (const std::string& id : {formatted, blank, raw, snapshot}) {
    EXPECT_EQ(StepOf(plan, id).kind, Step::kAdopt) << StepOf(plan, id).detail;
  }
  EXPECT_THAT(StepOf(plan, formatted).detail,
              HasSubstr(pool_->Get(Kind::kVolume, formatted)->fs_uuid));
  EXPECT_FALSE(pool_->CheckImage(*pool_->Get(Kind::kVolume, raw)).ok()) << "the plan did it";
  pool_.reset();

  ASSERT_OK(AdoptImages(copy_));
  OpenPool(copy_);
  for (const Kind kind : {Kind::kVolume, Kind::kSnapshot}) {
    for (const Record& record : pool_->List(kind)) ASSERT_OK(pool_->CheckImage(record));
  }
  const auto device = pool_->Map(formatted);
  ASSERT_OK(device);
  EXPECT_EQ((*platform::ProbeSignature(device->path))->uuid,
            pool_->Get(Kind::kVolume, formatted)->fs_uuid);
  ASSERT_OK(pool_->Unmap(formatted, std::chrono::seconds(10)));
  pool_.reset();
  const auto again = AdoptImages(copy_);
  for (const std::string& id : {formatted, blank, raw, snapshot}) {
    EXPECT_EQ(StepOf(again, id).kind, Step::kNone);
  }
}

TEST_F(PoolAdoptionTest, AFileThatDoesNotFitItsRecordIsRefused) {
  const std::string whole = CreateFormatted("whole");
  const std::string cut = CreateFormatted("cut");
  const std::string swapped = CreateFormatted("swapped");
  const std::string wiped = CreateFormatted("wiped");
  const std::string missing = CreateFormatted("missing");
  const std::string blank =
      pool_->CreateVolume({.name = "blank", .size = {16 * kMiB, 0}, .fs_type = "ext4"})->id;
  CopyPool();
  fs::resize_file(Image(cut), 4 * kMiB);
  fs::copy_file(Image(whole), Image(swapped), fs::copy_options::overwrite_existing);
  fs::copy_file(Image(whole), Image(blank), fs::copy_options::overwrite_existing);
  fs::resize_file(Image(wiped), 0);
  fs::resize_file(Image(wiped), 16 * kMiB);
  fs::remove(Image(missing));

  ExpectRefused(cut, "bytes instead of");
  ExpectRefused(swapped, "it should hold ext4 with UUID");
  ExpectRefused(wiped, "no file system is found");
  ExpectRefused(blank, "it should be blank");
  ExpectRefused(missing, "missing");
  OpenPool(copy_);
  ASSERT_OK(pool_->CheckImage(*pool_->Get(Kind::kVolume, whole)));
  for (const std::string& id : {cut, swapped, wiped, blank, missing}) {
    EXPECT_EQ(pool_->CheckImage(*pool_->Get(Kind::kVolume, id)).code(), StatusCode::kDataLoss);
  }
}

TEST_F(PoolAdoptionTest, AVolumeInUseIsNotAdoptedTwice) {
  const std::string id = CreateFormatted("pvc");
  ASSERT_OK(pool_->Map(id));
  const std::unique_ptr<Pool> original = std::move(pool_);
  CopyPool();
  ExpectRefused(id, "the recorded file is in use as /dev/loop");
  ASSERT_OK(original->Unmap(id, std::chrono::seconds(10)));
  const auto copy = platform::AttachLoop(Image(id), {});
  ASSERT_OK(copy);
  ExpectRefused(id, "its image is in use as /dev/loop");
  ASSERT_OK(platform::DetachLoop(*copy));
  EXPECT_EQ(StepOf(AdoptImages(copy_), id).kind, Step::kAdopt);
}

TEST_F(PoolAdoptionTest, ARecordThatCannotBeReadAndAFolderWithoutAPoolAreSaid) {
  const std::string broken = CreateFormatted("broken");
  CopyPool();
  std::ofstream(PoolPaths(copy_).Record(Kind::kVolume, broken)) << "{\"version\":1,";
  ExpectRefused(broken, "cannot be read");
  EXPECT_EQ(PlanAdoption(folder_ / "nothing").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(AdoptImages(folder_ / "nothing").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace berth::block
