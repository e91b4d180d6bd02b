// Takes and deletes snapshots through one CSI driver (in Kubernetes: the sidecar csi-snapshotter).
//
// It works on VolumeSnapshotContents of its driver. The snapshot controller makes them, or a person
// makes one for a snapshot that exists already:
//
//   of a volume
//     [asked] ── finalizer and "being-created" written ──▶ [creating] ── CreateSnapshot ──▶ [taken]
//        ▲                                                   │  ▲  │ outcome unknown:
//        └────────── failed for certain: it is removed ──────┘  └──┘ the same call again
//     [taken] ── status.snapshotHandle, "being-created" removed ──▶ readyToUse: [ready]
//      ▲  │ not ready yet: CreateSnapshot again, 1 s, doubling
//      └──┘
//   that exists
//     [asked] ── ListSnapshots (a driver without it is believed) ──▶ [ready]
//   deleted
//     DeleteSnapshot (policy Delete, handle known, no other content that stands for it)
//       ──▶ status.snapshotHandle removed ──▶ finalizer removed
//
// "being-created" is the durable record before the call: while a content has it, the driver may be
// at work, so the content is not deleted. The driver is asked until its answer is final. Then the
// snapshot is deleted by its handle; after an error there is none, and the content goes.
//
// The snapshot of a VolumeSnapshot's content is deleted in the driver only after the controller has
// written "being-deleted", so that no data is lost if a person deletes the object by mistake. It is
// not deleted either while another content stands for it, because people import a snapshot into
// several namespaces, and drivers make mistakes. A snapshot that a driver gives for a new name must
// not belong to another content.
//
// A snapshot that was taken with a group is never taken or deleted by itself: the driver is only
// asked until it is ready, and its content goes without a call.
//
// A content that a person deletes before it is ready is worked on, because its VolumeSnapshot waits
// for it.
//
// A driver's failure is written to status.error, which stays until the snapshot is ready; this
// write does not shorten the backoff.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/snapshots.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "controllers/controller.h"
#include "controllers/driver_connection.h"
#include "controllers/snapshotter/content_queue.h"

namespace berth::controllers::snapshotter {

class GroupSnapshotter;

struct Options {
  std::chrono::milliseconds timeout{60000};  // of each RPC
  int workers = 10;
  std::chrono::milliseconds retry_start{1000};
  std::chrono::milliseconds retry_max{300000};
  std::string snapshot_name_prefix = "snapshot";
  // How many characters of the VolumeSnapshot's uid, without '-', are in a snapshot's name; -1: the
  // uid as it is.
  int snapshot_name_uuid_length = -1;
  // Takes snapshots of several volumes at one time (group_snapshotter.h), and how they are named.
  bool group_snapshots = true;
  std::string group_name_prefix = "groupsnapshot";
  int group_name_uuid_length = -1;
  // Gives the driver the names of VolumeSnapshot and content as parameters.
  bool extra_create_metadata = false;
  // If each node has a snapshotter of its own: this one handles the contents whose label names this
  // node.
  std::string node_name;
  // It also handles contents that name no node, which a person made for a snapshot that exists.
  bool takes_unassigned = false;
};

// Index: a snapshot's handle → the contents that stand for it, of any driver.
inline constexpr char kContentsByHandle[] = "handle";

// Whether the snapshot in the driver, if there is one, may be deleted now.
bool ShouldDelete(const api::VolumeSnapshotContent& content);

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

  bool IsOurs(const Content& content, const DriverInfo& driver) const;
  Outcome SyncContent(const std::string& key);
  // For a snapshot that was taken with a group: the driver is asked until it is ready.
  Outcome SyncMember(const Content& content, const DriverInfo& driver);

  // create.cc
  Outcome CreateSnapshot(const Content& content, const DriverInfo& driver);
  base::StatusOr<csi::v1::CreateSnapshotRequest> MakeRequest(const Content& content);
  // The driver failed, or gave an answer that cannot be used. Both functions get the content as it
  // was marked.
  Outcome ReportFailedCreation(const Content& content, const base::Status& status);
  Outcome RefuseAnswer(const Content& content, const base::Status& why);
  base::Status CheckAnswer(const Content& content, const csi::v1::Snapshot& snapshot);
  Outcome AdoptSnapshot(const Content& content, const DriverInfo& driver);
  // Asks the driver about the snapshot for which `content` was made.
  base::StatusOr<csi::v1::Snapshot> FindSnapshot(const Content& content, const DriverInfo& driver);
  base::StatusOr<csi::v1::Snapshot> FindInList(const Content& content,
                                               const csi::v1::ListSnapshotsRequest& request);
  // The secrets for ListSnapshots about the content's snapshot.
  base::StatusOr<std::map<std::string, std::string>> ReadListSecrets(const Content& content);
  // Patches the status with the driver's answer about this snapshot.
  base::StatusOr<Content> WriteStatus(const Content& content, const std::string& handle,
                                      base::Json status);
  Outcome WriteSnapshot(const Content& content, const csi::v1::Snapshot& snapshot);
  // The time when the snapshot was taken, in nanoseconds since 1970. If the driver does not say it,
  // records an event and returns the present time.
  int64_t CreationTime(const Content& content, const csi::v1::Snapshot& snapshot);

  // delete.cc
  Outcome DeleteSnapshot(const Content& content);
  // FAILED_PRECONDITION: the snapshot also belongs to another content, which must stay.
  base::Status CheckAlone(const Content& content, const std::string& handle);
  Outcome ReportFailedDeletion(const Content& content, const base::Status& status);
  Outcome ReleaseContent(const Content& content);

  // handles.cc: makes sure that the driver gives no snapshot to two contents.
  // The other contents that stand for the snapshot.
  std::vector<std::shared_ptr<const Content>> FindOtherContents(const Content& content,
                                                                const std::string& handle) const;
  // Claims the snapshot for `content`. Returns "", or the name of the content that has it already.
  std::string ReserveHandle(const Content& content, const std::string& handle)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends a claim, because the informer knows the content by the handle, or another content has it.
  void ReleaseHandle(const Content& content, const std::string& handle) ABSL_LOCKS_EXCLUDED(mutex_);
  void ForgetContent(const Content& gone) ABSL_LOCKS_EXCLUDED(mutex_);
  // Queues the deletions that waited for `content`.
  void WakeOthers(const Content& content);

  base::StatusOr<std::map<std::string, std::string>> ReadSecrets(const Content& content);
  // Reports that the snapshot could not be taken. A content that has a status counts as one that is
  // looked after, and is told of in other words.
  void ReportCreationError(const Content& content, std::string_view why);
  // Records `reason` and writes status.error, if it says something new.
  void ReportError(const Content& content, std::string_view reason, const std::string& message);

  const Context context_;
  DriverConnection& driver_;
  const Options options_;
  kube::Informer<Content>& contents_;
  kube::Informer<api::VolumeSnapshotClass>& classes_;
  base::Mutex mutex_;
  // Snapshots that a driver just gave, by handle, until the informer shows their content.
  std::map<std::string, std::string> reserved_ ABSL_GUARDED_BY(mutex_);
  ContentQueue<Content, api::VolumeSnapshotClass> queue_;
  std::unique_ptr<GroupSnapshotter> groups_;  // null: no group snapshots are taken
};

}  // namespace berth::controllers::snapshotter
