#include "controllers/blockoperator/deletion_progress.h"

#include <gmock/gmock.h>

#include "controllers/fake_cluster.h"

namespace berth::controllers::blockoperator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using namespace std::chrono_literals;

const base::ObjectReference kDeletedVolume{
    .api_version = "v1", .kind = "PersistentVolume", .ns = "", .name = "pvc-1", .uid = "u"};

TEST(DeletionProgressTest, SaysHowFarTheDeletionIs) {
  RecordedEvents events;
  DeletionProgress progress(events, kDeletedVolume, "pvc-1.abc", {.patience = 0ms, .pause = 0ms});
  progress.Report(0.434);
  progress.Report(7);
  EXPECT_THAT(
      events.All(),
      ElementsAre(
          "Normal VolumeDeleting pvc-1: image 'pvc-1.abc' is being deleted: 43 % is done",
          "Normal VolumeDeleting pvc-1: image 'pvc-1.abc' is being deleted: 100 % is done"));
}

TEST(DeletionProgressTest, AShortDeletionAndFrequentReportsMakeFewEvents) {
  RecordedEvents events;
  DeletionProgress brief(events, kDeletedVolume, "pvc-1", {.patience = 1h, .pause = 0ms});
  brief.Report(0.5);
  EXPECT_THAT(events.All(), IsEmpty());
  DeletionProgress often(events, kDeletedVolume, "pvc-1", {.patience = 0ms, .pause = 1h});
  for (int i = 0; i < 100; ++i) often.Report(i / 100.0);
  EXPECT_EQ(events.All().size(), 1U);
}

}  // namespace
}  // namespace berth::controllers::blockoperator
