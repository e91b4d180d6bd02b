// What a claim is to be filled from, and what its class names.
#include "cli/explain/rules_fixture.h"

namespace berth::cli::explain {
namespace {

using base::StatusCode;

TEST_F(RulesTest, ADataSourceThatIsMissingOrNotReady) {
  Unbind();
  state_.claim->Set(
      {"spec", "dataSource"},
      {{"apiGroup", "snapshot.storage.k8s.io"}, {"kind", "VolumeSnapshot"}, {"name", "snap"}});
  Cause cause = First();
  EXPECT_EQ(cause.id, "source-missing");
  EXPECT_EQ(cause.owner, Owner::kPerson);
  EXPECT_NE(cause.summary.find("VolumeSnapshot 'default/snap'"), std::string::npos);

  api::Object snapshot(
      {{"kind", "VolumeSnapshot"}, {"metadata", {{"name", "snap"}, {"namespace", "default"}}}});
  state_.data_source = snapshot;
  cause = First();
  EXPECT_EQ(cause.id, "snapshot-not-ready");
  EXPECT_TRUE(cause.waiting);
  EXPECT_TRUE(Proves(cause, "no VolumeSnapshotContent"));

  snapshot.Set({"status"}, {{"boundVolumeSnapshotContentName", "content"},
                            {"error", {{"message", "pool is full"}}}});
  state_.data_source = snapshot;
  cause = First();
  EXPECT_EQ(cause.id, "snapshot-not-ready");
  EXPECT_EQ(cause.owner, Owner::kDriver);
  EXPECT_TRUE(Proves(cause, "pool is full"));

  snapshot.Set({"status", "readyToUse"}, true);
  state_.data_source = snapshot;
  EXPECT_EQ(First().id, "waits-for-role");
}

TEST_F(RulesTest, AnImageWhoseCopyTakesLong) {
  Unbind();
  state_.claim->Set({"spec", "dataSource"}, {{"kind", "PersistentVolumeClaim"}, {"name", "owner"}});
  state_.data_source = api::Object({{"kind", "PersistentVolumeClaim"},
                                    {"metadata", {{"name", "owner"}, {"namespace", "default"}}},
                                    {"status", {{"phase", "Bound"}}}});
  const std::string before(First().id);
  EXPECT_NE(before, "image-being-copied");
  state_.events = {api::Event({{"reason", "ImageCopying"},
                               {"message", "image 'pvc-2' is being copied: 61 % is done"},
                               {"involvedObject", {{"kind", "PersistentVolumeClaim"}}},
                               {"lastTimestamp", "2026-01-01T00:59:30Z"}})};
  EXPECT_EQ(First().id, "image-being-copied");
  EXPECT_EQ(First().summary, "image 'pvc-2' is being copied: 61 % is done");
  EXPECT_TRUE(First().waiting);
  state_.events[0].Set({"lastTimestamp"}, "2026-01-01T00:55:00Z");
  EXPECT_EQ(First().id, before);
}

TEST_F(RulesTest, ABlockSnapshotThatIsMissingOrNotMade) {
  Unbind();
  state_.claim->Set(
      {"spec", "dataSourceRef"},
      {{"apiGroup", "storage.berth.dev"}, {"kind", "BlockSnapshot"}, {"name", "snap"}});
  Cause cause = First();
  EXPECT_EQ(cause.id, "source-missing");
  EXPECT_NE(cause.summary.find("BlockSnapshot 'default/snap'"), std::string::npos);

  api::Object snapshot(
      {{"kind", "BlockSnapshot"}, {"metadata", {{"name", "snap"}, {"namespace", "default"}}}});
  state_.data_source = snapshot;
  cause = First();
  EXPECT_EQ(cause.id, "snapshot-not-ready");
  EXPECT_TRUE(cause.waiting);
  EXPECT_EQ(cause.command, "berth get blocksnapshot snap -n default -o yaml");

  snapshot.Set({"status"}, {{"error", {{"message", "it is in use: pod 'default/web'"}}}});
  state_.data_source = snapshot;
  cause = First();
  EXPECT_EQ(cause.id, "snapshot-not-ready");
  EXPECT_EQ(cause.owner, Owner::kPerson);
  EXPECT_TRUE(Proves(cause, "pod 'default/web'"));

  snapshot.Set({"status"}, {{"readyToUse", true}});
  state_.data_source = snapshot;
  EXPECT_EQ(First().id, "waits-for-role");
}

TEST_F(RulesTest, ACopyOfAClaimThatHasNoVolume) {
  Unbind();
  state_.claim->Set({"spec", "dataSource"},
                    {{"kind", "PersistentVolumeClaim"}, {"name", "source"}});
  EXPECT_EQ(First().id, "source-missing");
  api::Object source({{"kind", "PersistentVolumeClaim"},
                      {"metadata", {{"name", "source"}, {"namespace", "default"}}},
                      {"status", {{"phase", "Pending"}}}});
  state_.data_source = source;
  const Cause cause = First();
  EXPECT_EQ(cause.id, "source-not-bound");
  EXPECT_EQ(cause.command, "berth explain pvc source -n default");
  source.Set({"status", "phase"}, "Bound");
  state_.data_source = source;
  EXPECT_EQ(First().id, "waits-for-role");
}

TEST_F(RulesTest, NobodyFillsVolumesFromTheKind) {
  Unbind();
  state_.claim->Set({"spec", "dataSourceRef"},
                    {{"apiGroup", "example.com"}, {"kind", "Hello"}, {"name", "h"}});
  state_.populators = {"Other.example.com"};
  const Cause cause = First();
  EXPECT_EQ(cause.id, "populator-absent");
  EXPECT_TRUE(Proves(cause, "Hello 'default/h' of group 'example.com'"));
  EXPECT_TRUE(Proves(cause, "are for Other.example.com"));
  state_.populators.emplace_back("Hello.example.com");
  EXPECT_EQ(First().id, "waits-for-role");
}

TEST_F(RulesTest, WhatTheClassNamesIsMissingOrUnknown) {
  Unbind();
  const auto failed = [&](const std::string& message) {
    state_.events = {api::Event({{"reason", "ProvisioningFailed"},
                                 {"message", message},
                                 {"involvedObject", {{"kind", "PersistentVolumeClaim"}}}})};
  };
  failed("rpc error: code = NotFound desc = read secret 'default/creds': not found");
  Cause cause = First();
  EXPECT_EQ(cause.id, "secret-missing");
  EXPECT_TRUE(Proves(cause, "default/creds"));
  failed("unknown class parameter 'csi.storage.k8s.io/no-such-thing'");
  cause = First();
  EXPECT_EQ(cause.id, "class-parameter");
  EXPECT_EQ(cause.owner, Owner::kPerson);
  // Once the driver is asked, what it says counts.
  Call("provision default/data", "CreateVolume", StatusCode::kInternal, "no");
  EXPECT_EQ(First().id, "driver-error");
}

}  // namespace
}  // namespace berth::cli::explain
