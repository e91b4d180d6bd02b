#include "controllers/provisioner/snapshot.h"

#include <gtest/gtest.h>

#include "controllers/fake_cluster.h"

namespace berth::controllers::provisioner {
namespace {

using base::Json;

struct Row {
  const char* name;
  const char* refusal;  // a part of the message; nullptr: it may be used
  Json snapshot, content, claim;
  bool prevent_mode_conversion = true;
};

class SnapshotUseTest : public ::testing::TestWithParam<Row> {};

TEST_P(SnapshotUseTest, SaysWhatIsInTheWay) {
  const Row& row = GetParam();
  const api::VolumeSnapshot snapshot(
      Merged({{"metadata", {{"name", "snap"}, {"namespace", "default"}, {"uid", "u"}}},
              {"status",
               {{"boundVolumeSnapshotContentName", "content"},
                {"readyToUse", true},
                {"restoreSize", "1Gi"}}}},
             row.snapshot));
  const api::VolumeSnapshotContent content(
      Merged({{"metadata", {{"name", "content"}}},
              {"spec",
               {{"driver", "d"},
                {"sourceVolumeMode", "Filesystem"},
                {"volumeSnapshotRef", {{"name", "snap"}, {"namespace", "default"}, {"uid", "u"}}}}},
              {"status", {{"snapshotHandle", "handle"}}}},
             row.content));
  const api::PersistentVolumeClaim claim(MakeClaim("data", row.claim));
  const base::Status usable = CheckSnapshot(snapshot);
  const base::StatusOr<std::string> handle =
      usable.ok() ? SnapshotHandle({.claim = claim,
                                    .snapshot = snapshot,
                                    .content = content,
                                    .driver = "d",
                                    .prevent_mode_conversion = row.prevent_mode_conversion})
                  : base::StatusOr<std::string>(usable);
  if (row.refusal == nullptr) {
    ASSERT_TRUE(handle.ok()) << base::ToString(handle.status());
    EXPECT_EQ(*handle, "handle");
  } else {
    ASSERT_FALSE(handle.ok());
    EXPECT_NE(base::Message(handle.status()).find(row.refusal), std::string::npos)
        << base::ToString(handle.status());
  }
}

const Json kDeleted = {{"metadata", {{"deletionTimestamp", "2026-01-01T00:00:00Z"}}}};
const Json kDeletedButHeld = {{"metadata",
                               {{"deletionTimestamp", "2026-01-01T00:00:00Z"},
                                {"finalizers", {std::string(kSnapshotProtection)}}}}};
const Json kBlock = {{"spec", {{"volumeMode", "Block"}}}};

INSTANTIATE_TEST_SUITE_P(
    All, SnapshotUseTest,
    ::testing::Values(
        Row{"Ready", nullptr},
        Row{"Larger",
            nullptr,
            {},
            {},
            {{"spec", {{"resources", {{"requests", {{"storage", "2Gi"}}}}}}}}},
        Row{"SizeNotSaid", nullptr, {{"status", {{"restoreSize", nullptr}}}}},
        Row{"Deleted", "being deleted", kDeleted}, Row{"DeletedButHeld", nullptr, kDeletedButHeld},
        Row{"NoContent",
            "no content yet: pool is full",
            {{"status",
              {{"boundVolumeSnapshotContentName", nullptr},
               {"error", {{"message", "pool is full"}}}}}}},
        Row{"NotReady", "not ready to use", {{"status", {{"readyToUse", false}}}}},
        Row{"Smaller", "at least its restoreSize, 2Gi", {{"status", {{"restoreSize", "2Gi"}}}}},
        Row{"OtherDriver", "of driver 'e'", {}, {{"spec", {{"driver", "e"}}}}},
        Row{"NoHandle", "no snapshotHandle", {}, {{"status", {{"snapshotHandle", nullptr}}}}},
        Row{"ContentOfAnother",
            "not bound to it",
            {},
            {{"spec", {{"volumeSnapshotRef", {{"uid", "v"}}}}}}},
        Row{"OtherMode", "of a volume of mode Filesystem, not Block", {}, {}, kBlock},
        Row{"OtherModeAllowed",
            nullptr,
            {},
            {{"metadata", {{"annotations", {{std::string(kAllowModeChange), "true"}}}}}},
            kBlock},
        Row{"OtherModeNotPrevented", nullptr, {}, {}, kBlock, false},
        Row{"ModeNotSaid", nullptr, {}, {{"spec", {{"sourceVolumeMode", nullptr}}}}, kBlock}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace berth::controllers::provisioner
