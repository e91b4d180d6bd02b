// The tests of the controller begin with a bound claim "data", a class "snap", and the controller.
#pragma once

#include <gmock/gmock.h>

#include "controllers/fake_snapshots.h"
#include "controllers/snapshotcontroller/snapshot_controller.h"

namespace berth::controllers::snapshotcontroller {

using base::Json;
using base::StatusCode;
using Claim = api::PersistentVolumeClaim;
using Content = api::VolumeSnapshotContent;
using Snapshot = api::VolumeSnapshot;

inline constexpr char kContent[] = "snapcontent-uid-monday";

class Bed {
 public:
  Bed() {
    ServeSnapshots(cluster_.client);
    cluster_.Put(MakeClaim("data", BoundClaim("pv-1")));
    cluster_.Put(MakeVolume("pv-1", BoundVolume("data")));
    cluster_.Put(MakeSnapshotClass("snap"));
  }
  void Begin(Options options = Fast()) {
    cluster_.Add<SnapshotController>(options);
    cluster_.Start();
  }
  static Options Fast() { return RetriesSoon<Options>(); }
  static Options Slow() { return NoRetries<Options>(); }
  void Add(const Json& more = nullptr) { cluster_.Put(MakeSnapshot("monday", more)); }
  Snapshot Get() { return cluster_.Get<Snapshot>("default", "monday"); }
  Content GetContent(const std::string& name = kContent) { return cluster_.Get<Content>("", name); }
  Claim GetClaim() { return cluster_.Get<Claim>("default", "data"); }
  bool WaitBound() {
    return cluster_.WaitUntil([&] { return !Get().content_name().empty(); });
  }
  bool WaitReady() {
    return cluster_.WaitUntil([&] { return Get().ready(); });
  }
  bool WaitError(const std::string& text) {
    return cluster_.WaitUntil([&] { return Get().error().find(text) != std::string::npos; });
  }
  bool WaitGone() {
    return cluster_.WaitUntil([&] { return !cluster_.Has<Snapshot>("default", "monday"); });
  }
  bool WaitClaimFree() {
    return cluster_.WaitUntil([&] { return !GetClaim().has_finalizer(kClaimSourceProtection); });
  }
  // Acts as the snapshotter, which has taken the snapshot.
  void Taken(const std::string& name = kContent) {
    Write(GetContent(name), ReadyContent("snap-1"), "status");
  }
  void ContentEnds(const std::string& name = kContent) {
    Write(GetContent(name), {{"metadata", {{"finalizers", nullptr}}}});
  }
  template <typename T>
  void Write(const T& object, const Json& patch, const std::string& subresource = "") {
    const auto written = kube::MergePatch(cluster_.client, object, patch, subresource);
    ASSERT_TRUE(written.ok()) << base::ToString(written.status());
  }
  void Delete() {
    ASSERT_TRUE(cluster_.client.Delete(Snapshot::kInfo, "default", "monday", {}).ok());
  }

  FakeCluster cluster_;
};

// With content "by-hand", of a snapshot that exists.
class ExistingBed : public Bed {
 public:
  void AddExisting(const Json& more = nullptr) {
    Json content = MakeContent("monday", "", Existing("snap-7"));
    content["metadata"]["name"] = "by-hand";
    cluster_.Put(Merged(std::move(content), more));
  }
  void AddAsking() {
    Add({{"spec",
          {{"source",
            {{"persistentVolumeClaimName", nullptr}, {"volumeSnapshotContentName", "by-hand"}}}}}});
  }
};

class SnapshotControllerTest : public ::testing::Test, public Bed {};
class ExistingSnapshotTest : public ::testing::Test, public ExistingBed {};

}  // namespace berth::controllers::snapshotcontroller
