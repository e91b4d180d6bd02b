// What the tests of the snapshotter begin with: a driver that has a volume, a class, and a
// snapshotter.
#pragma once

#include <gmock/gmock.h>

#include "controllers/fake_snapshots.h"
#include "controllers/snapshotter/snapshotter.h"

namespace berth::controllers::snapshotter {

using base::Json;
using base::StatusCode;
using rpc::CallScript;
using Content = api::VolumeSnapshotContent;

inline constexpr char kContent[] = "snapcontent-uid-monday";
inline const Json kDeleted = {{"metadata", {{"annotations", {{kBeingDeleted, "yes"}}}}}};

class Bed {
 public:
  Bed() { ServeSnapshots(cluster_.client); }

  void Begin(rpc::FakeCsiDriver::Options driver = {}, Options options = Fast(),
             const Json& snapshot_class = MakeSnapshotClass("snap")) {
    cluster_.Add<Snapshotter>(cluster_.AddDriver(std::move(driver)), std::move(options));
    cluster_.AddVolume("pv-1");
    handle_ = cluster_.Get<api::PersistentVolume>("", "pv-1").csi().volume_handle();
    cluster_.Put(snapshot_class);
    cluster_.Start();
  }
  static Options Fast() { return RetriesSoon<Options>(); }
  static Options Slow() { return NoRetries<Options>(); }

  void Add(const Json& more = nullptr) { cluster_.Put(MakeContent("monday", handle_, more)); }
  // Adds to the driver a snapshot that another program made.
  std::string AddToDriver() {
    csi::v1::CreateSnapshotRequest request;
    request.set_name("old");
    request.set_source_volume_id(handle_);
    csi::v1::CreateSnapshotResponse response;
    EXPECT_TRUE(cluster_.driver->state().Handle(request, response).ok());
    return response.snapshot().snapshot_id();
  }
  CallScript& script() { return cluster_.driver->script(); }
  Content Get() { return cluster_.Get<Content>("", kContent); }
  bool WaitReady() {
    return cluster_.WaitUntil(
        [&] { return Get().ready() && !Get().has_annotation(kBeingCreated); });
  }
  bool WaitError(const std::string& text) {
    return cluster_.WaitUntil([&] { return Get().error().find(text) != std::string::npos; });
  }
  bool WaitGone() {
    return cluster_.WaitUntil([&] { return !cluster_.Has<Content>("", kContent); });
  }
  void Write(const std::string& name, const Json& patch) {
    const auto written = kube::MergePatch(cluster_.client, cluster_.Get<Content>("", name), patch);
    ASSERT_TRUE(written.ok()) << base::ToString(written.status());
  }
  void Delete() { ASSERT_TRUE(cluster_.client.Delete(Content::kInfo, "", kContent, {}).ok()); }

  FakeCluster cluster_;
  std::string handle_;
};

// The name of a table's row, as gtest wants it: "of no time" is OfNoTime.
template <typename Info>
std::string RowName(const Info& info) {
  std::string name;
  bool upper = true;
  for (const char c : info.param.name) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0) name += upper ? static_cast<char>(std::toupper(letter)) : c;
    upper = c == ' ';
  }
  return name;
}

class SnapshotterTest : public ::testing::Test, public Bed {};

}  // namespace berth::controllers::snapshotter
