#include "controllers/blockoperator/image_progress.h"

#include <gmock/gmock.h>

#include "controllers/fake_cluster.h"

namespace berth::controllers::blockoperator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using namespace std::chrono_literals;

const base::ObjectReference kDeletedVolume{
    .api_version = "v1", .kind = "PersistentVolume", .ns = "", .name = "pvc-1", .uid = "u"};

TEST(ImageProgressTest, SaysHowFarTheCallOfTheThreadIs) {
  RecordedEvents events;
  ASSERT_EQ(block::ProgressScope::current(), nullptr);
  {
    const ImageProgress progress(events, kDeletedVolume, kVolumeDeleting,
                                 "image 'pvc-1.abc' is being deleted",
                                 {.patience = 0ms, .pause = 0ms});
    const auto* report = block::ProgressScope::current();
    ASSERT_NE(report, nullptr);
    (*report)(0.434);
    (*report)(7);
  }
  EXPECT_EQ(block::ProgressScope::current(), nullptr);
  EXPECT_THAT(
      events.All(),
      ElementsAre(
          "Normal VolumeDeleting pvc-1: image 'pvc-1.abc' is being deleted: 43 % is done",
          "Normal VolumeDeleting pvc-1: image 'pvc-1.abc' is being deleted: 100 % is done"));
}

TEST(ImageProgressTest, AShortCallAndFrequentReportsMakeFewEvents) {
  RecordedEvents events;
  ImageProgress brief(events, kDeletedVolume, kVolumeDeleting, "it is being deleted",
                      {.patience = 1h, .pause = 0ms});
  brief.Report(0.5);
  EXPECT_THAT(events.All(), IsEmpty());
  ImageProgress often(events, kDeletedVolume, kVolumeDeleting, "it is being deleted",
                      {.patience = 0ms, .pause = 1h});
  for (int i = 0; i < 100; ++i) often.Report(i / 100.0);
  EXPECT_EQ(events.All().size(), 1U);
}

}  // namespace
}  // namespace berth::controllers::blockoperator
