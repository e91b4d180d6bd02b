// Takes and deletes snapshots through one CSI driver (in Kubernetes: the sidecar csi-snapshotter).
//
// It works on VolumeSnapshotContents of its driver, which the snapshot controller makes, or a
// person for a snapshot that exists already:
//
//   of a volume   [asked] ── finalizer and "being-created" written ──▶ [creating] ── CreateSnapshot
//   ─┐
//                    ▲                                                  │  ▲  │ outcome unknown │
//                    └──── final failure: "being-created" taken off ────┘  └──┘ the same call again
//                    │
//                                                                                                    ▼
//                  [ready] ◀── readyToUse ── [taken] status.snapshotHandle, "being-created" taken
//                  off
//                                              └──┘ not ready: CreateSnapshot again, 1 s, doubling
//   that exists   [asked] ── GetSnapshot or ListSnapshots (a driver with neither is believed) ──▶
//                  [ready]
//   deleted       DeleteSnapshot (policy Delete, handle known) ──▶ status.snapshotHandle taken off
//                  ──▶ finalizer taken off
//
// "being-created" is the record that is durable before the call: while it stands, a snapshot may
// exist in the driver that no object names, so a content with it does not go; it is asked for until
// the driver answers finally, and then deleted by its handle. A content of a VolumeSnapshot is
// deleted in the driver only after the controller said so ("being-deleted"): an object that a
// person deletes by mistake takes no data along.
//
// A driver's failure stands in status.error; writing it does not shorten the backoff.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "api/snapshots.h"
#include "base/keyed_workers.h"
#include "base/mutex.h"
#include "controllers/controller.h"
#include "controllers/driver_connection.h"

namespace berth::controllers::snapshotter {

struct Options {
  std::chrono::milliseconds timeout{60000};  // of each RPC
  int workers = 10;
  std::chrono::milliseconds retry_start{1000};
  std::chrono::milliseconds retry_max{300000};
  std::string snapshot_name_prefix = "snapshot";
  // How much of the VolumeSnapshot's uid is in a snapshot's name, without '-'; -1: all as it is.
  int snapshot_name_uuid_length = -1;
  // Gives the driver the names of VolumeSnapshot and content as parameters.
  bool extra_create_metadata = false;
  // Each node has a snapshotter of its own: this one has the contents whose label names this node.
  std::string node_name;
};

// Index: a driver's snapshot → the contents that stand for it.
inline constexpr char kContentsByHandle[] = "handle";

class Snapshotter : public Controller {
 public:
  // `driver` is borrowed and outlives the snapshotter; it may be started before or after.
  Snapshotter(Context context, DriverConnection& driver, Options options = {});
  ~Snapshotter() override;

  std::string_view name() const override { return "snapshotter"; }
  void Start() override;
  void Stop() override;

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Content = api::VolumeSnapshotContent;

  void Watch();
  bool IsOurs(const Content& content, const DriverInfo& driver) const;
  Outcome SyncContent(const std::string& key);

  // create.cc
  Outcome Create(const Content& content, const DriverInfo& driver);
  base::StatusOr<csi::v1::CreateSnapshotRequest> MakeRequest(const Content& content);
  base::StatusOr<Content> MarkBeingCreated(const Content& content);
  Outcome CreateFailed(const Content& content, const base::Status& status);
  base::Status CheckAnswer(const Content& content, const csi::v1::Snapshot& snapshot) const;
  Outcome Adopt(const Content& content, const DriverInfo& driver);
  // What the driver says of the snapshot that `content` was made for.
  base::StatusOr<csi::v1::Snapshot> Find(const Content& content, const DriverInfo& driver);
  base::StatusOr<csi::v1::Snapshot> FindInList(const csi::v1::GetSnapshotRequest& wanted);
  Outcome WriteSnapshot(const Content& content, const csi::v1::Snapshot& snapshot);
  // Again later, at longer and longer intervals: a snapshot that is being uploaded.
  Outcome Poll(const Content& content);

  // delete.cc
  Outcome Delete(const Content& content);
  Outcome DeleteFailed(const Content& content, const base::Status& status);
  Outcome LetGo(const Content& content);

  base::StatusOr<std::map<std::string, std::string>> Secrets(const Content& content);
  // Records `reason` and writes status.error, if it says something new.
  void ReportError(const Content& content, std::string_view reason, const std::string& message);

  const Context context_;
  DriverConnection& driver_;
  const Options options_;
  kube::Informer<Content>& contents_;
  kube::Informer<api::VolumeSnapshotClass>& classes_;
  base::Mutex mutex_;
  std::map<std::string, int> polls_ ABSL_GUARDED_BY(mutex_);  // by the content's uid
  base::KeyedWorkers workers_;
};

}  // namespace berth::controllers::snapshotter
