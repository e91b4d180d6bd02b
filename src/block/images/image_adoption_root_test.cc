// Tests adopting a folder of images that was copied, as `cp -r` or a restore copies it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/assert_ok.h"
#include "base/unique_fd.h"
#include "block/images/fake_adoption.h"
#include "block/images/image_folder.h"
#include "block/images/image_lock.h"
#include "block/sizes.h"
#include "platform/devices/loop_device.h"
#include "platform/file_systems/file_system.h"
#include "platform/files/fake_temp_folder.h"
#include "platform/processes/exec.h"

namespace berth::block {
namespace {

namespace fs = std::filesystem;
using base::StatusCode;
using testing::HasSubstr;
using Step = AdoptionStep::Kind;

constexpr char kUuid[] = "0b5c6a2e-3a0c-4f3e-9d7c-1f6f2c6a7e11";

class ImageAdoptionTest : public testing::Test {
 protected:
  ImageAdoptionTest() { fs::create_directory(original_.folder()); }

  void Create(const std::string& name) {
    ASSERT_OK(original_.Create({.name = name, .size_bytes = 16 * kMiB}));
  }
  // Makes an image and formats it, as an agent does before the first mount.
  void CreateFormatted(const std::string& name) {
    Create(name);
    ASSERT_OK(original_.NoteFormatting(name, kUuid));
    ASSERT_OK(platform::FormatIfBlank(*exec_, original_.PathOf(name), "ext4", {.uuid = kUuid}));
    ASSERT_OK(original_.NoteFormatting(name, ""));
  }
  void CopyFolder() { fs::copy(original_.folder(), copy_.folder(), fs::copy_options::recursive); }
  void ExpectRefused(const std::string& image, const std::string& why) {
    ExpectRefusals({copy_.PlanAdoption(), copy_.AdoptImages()}, image, why);
    EXPECT_EQ(copy_.Locate(image).status().code(), StatusCode::kDataLoss);
  }

  const platform::TempFolder temp_;
  const std::unique_ptr<platform::Exec> exec_ = platform::NewHostExec();
  ImageFolder original_{temp_ / "original"}, copy_{temp_ / "copy"};
};

TEST_F(ImageAdoptionTest, ACopiedFolderIsPlannedThenAdopted) {
  CreateFormatted("pvc-1");
  Create("blank");
  ASSERT_OK(original_.CreateSnapshot("pvc-1", "snap"));
  ASSERT_OK(original_.Create({.name = "clone", .size_bytes = 16 * kMiB, .source = "snap"}));
  CopyFolder();
  const base::Status lost = copy_.Locate("pvc-1").status();
  EXPECT_EQ(lost.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(base::Message(lost)),
              HasSubstr("berth pool adopt --images " + copy_.folder()));

  const auto plan = copy_.PlanAdoption();
  for (const std::string image : {"pvc-1", "blank", "snap", "clone"}) {
    EXPECT_EQ(StepOf(plan, image).kind, Step::kAdopt) << StepOf(plan, image).detail;
    EXPECT_EQ(copy_.Locate(image).status().code(), StatusCode::kDataLoss)
        << "the plan must not adopt it";
  }
  for (const std::string image : {"pvc-1", "snap", "clone"}) {
    EXPECT_THAT(StepOf(plan, image).detail, HasSubstr(kUuid));
  }
  EXPECT_THAT(StepOf(plan, "blank").detail, HasSubstr("only the size is compared"));

  ASSERT_OK(copy_.AdoptImages());
  for (const std::string image : {"pvc-1", "blank", "snap", "clone"}) {
    ASSERT_OK(copy_.Locate(image));
    EXPECT_EQ(StepOf(copy_.AdoptImages(), image).kind, Step::kNone);
  }
  ASSERT_OK(copy_.Grow("pvc-1", 32 * kMiB));
  ASSERT_OK(copy_.Delete("pvc-1"));
}

TEST_F(ImageAdoptionTest, AFileThatDoesNotFitItsRecordIsRefused) {
  for (const char* name : {"whole", "cut", "wiped", "missing", "other"}) CreateFormatted(name);
  Create("formatting");
  ASSERT_OK(original_.NoteFormatting("formatting", kUuid));
  CopyFolder();
  fs::resize_file(copy_.PathOf("cut"), 4 * kMiB);
  fs::resize_file(copy_.PathOf("wiped"), 0);
  fs::resize_file(copy_.PathOf("wiped"), 16 * kMiB);
  fs::remove(copy_.PathOf("missing"));
  fs::resize_file(copy_.PathOf("other"), 0);
  fs::resize_file(copy_.PathOf("other"), 16 * kMiB);
  ASSERT_OK(platform::FormatIfBlank(*exec_, copy_.PathOf("other"), "ext4", {}));
  fs::copy_file(copy_.PathOf("whole"), copy_.PathOf("formatting"),
                fs::copy_options::overwrite_existing);
  std::ofstream(copy_.folder() + "/.berth/torn.json") << "{\"version\":1,";

  ExpectRefused("cut", "bytes instead of");
  ExpectRefused("wiped", "no file system is found");
  ExpectRefused("missing", "missing");
  ExpectRefused("other", "it should hold the file system");
  ExpectRefused("formatting", "was being formatted");
  EXPECT_EQ(StepOf(copy_.PlanAdoption(), "torn.json").kind, Step::kRefuse);
  ASSERT_OK(copy_.Locate("whole"));
}

TEST_F(ImageAdoptionTest, AnImageInUseIsNotAdopted) {
  CreateFormatted("pvc-1");
  CopyFolder();
  const auto loop = platform::AttachLoop(original_.PathOf("pvc-1"), {});
  ASSERT_OK(loop);
  ExpectRefused("pvc-1", "the recorded file is in use as /dev/loop");
  ASSERT_OK(platform::DetachLoop(*loop));
  {
    const base::UniqueFd held(open(copy_.PathOf("pvc-1").c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(LockImage(held.get(), ImageLock::kWriter), 0);
    const AdoptionStep step = StepOf(copy_.AdoptImages(), "pvc-1");
    EXPECT_EQ(step.kind, Step::kRefuse);
    EXPECT_THAT(step.detail, HasSubstr("locked by another holder"));
  }
  EXPECT_EQ(StepOf(copy_.AdoptImages(), "pvc-1").kind, Step::kAdopt);
  ASSERT_OK(copy_.Locate("pvc-1"));
}

TEST_F(ImageAdoptionTest, AFolderWithoutRecordsIsReported) {
  EXPECT_EQ(original_.PlanAdoption().status().code(), StatusCode::kNotFound);
  EXPECT_EQ(copy_.AdoptImages().status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace berth::block
