// Takes and deletes snapshots through one CSI driver (in Kubernetes: the sidecar csi-snapshotter).
//
// It works on VolumeSnapshotContents of its driver, which the snapshot controller makes, or a
// person for a snapshot that exists already:
//
//   of a volume
//     [asked] ── finalizer and "being-created" written ──▶ [creating] ── CreateSnapshot ──▶ [taken]
//        ▲                                                   │  ▲  │ outcome unknown:
//        └────────── failed for certain: it is taken off ────┘  └──┘ the same call again
//     [taken] ── status.snapshotHandle, "being-created" taken off ──▶ readyToUse: [ready]
//        └──┘ not ready yet: CreateSnapshot again, 1 s, doubling
//   that exists
//     [asked] ── GetSnapshot or ListSnapshots (a driver with neither is believed) ──▶ [ready]
//   deleted
//     DeleteSnapshot (policy Delete, handle known, no other content that stands for it)
//       ──▶ status.snapshotHandle taken off ──▶ finalizer taken off
//
// "being-created" is the record that is durable before the call: while it stands, a snapshot may
// exist in the driver that no object names, so a content with it does not go; it is asked for until
// it is known, and then deleted by its handle. Beside it stands what was asked for: the failure of
// another request (the class was made anew, another program began) says nothing about that one, and
// only the snapshot itself ends the asking. ALREADY_EXISTS is no sign that there is none, ever.
//
// A content of a VolumeSnapshot is deleted in the driver only after the controller said so
// ("being-deleted"): an object that a person deletes by mistake takes no data along. Nor does one
// whose snapshot is another content's, too: people import a snapshot into several namespaces, and
// drivers make mistakes. A snapshot that a driver gives for a new name is no other content's.
//
// A driver's failure stands in status.error; writing it does not shorten the backoff.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/snapshots.h"
#include "base/keyed_workers.h"
#include "base/mutex.h"
#include "controllers/controller.h"
#include "controllers/driver_connection.h"
#include "controllers/pages.h"

namespace berth::controllers::snapshotter {

struct Options {
  std::chrono::milliseconds timeout{60000};  // of each RPC
  int workers = 10;
  std::chrono::milliseconds retry_start{1000};
  std::chrono::milliseconds retry_max{300000};
  Pages::Limits pages;  // of ListSnapshots
  std::string snapshot_name_prefix = "snapshot";
  // How much of the VolumeSnapshot's uid is in a snapshot's name, without '-'; -1: all as it is.
  int snapshot_name_uuid_length = -1;
  // Gives the driver the names of VolumeSnapshot and content as parameters.
  bool extra_create_metadata = false;
  // Each node has a snapshotter of its own: this one has the contents whose label names this node.
  std::string node_name;
  // And those that name no node, which a person made for a snapshot that exists.
  bool takes_unassigned = false;
};

// Index: a snapshot's handle → the contents that stand for it, of any driver.
inline constexpr char kContentsByHandle[] = "handle";

// Annotation beside "being-created": the CreateSnapshot that is not answered for certain, as a
// digest of all but its secrets; kSeveralRequests where there were different ones, or where the
// driver said that there is a snapshot.
inline constexpr std::string_view kCreateRequest = "snapshot.storage.berth.dev/create-request";
inline constexpr std::string_view kSeveralRequests = "several";

// Takes both annotations off.
base::Json UnmarkPatch();

// Whether the driver's snapshot, or what may be one, may go now.
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

  void Watch();
  bool IsOurs(const Content& content, const DriverInfo& driver) const;
  Outcome SyncContent(const std::string& key);

  // create.cc
  Outcome Create(const Content& content, const DriverInfo& driver);
  base::StatusOr<csi::v1::CreateSnapshotRequest> MakeRequest(const Content& content);
  base::StatusOr<Content> MarkBeingCreated(const Content& content, const std::string& request);
  // `first`: no call for this content was open before. Both get the content as it was marked.
  Outcome CreateFailed(const Content& content, const base::Status& status, bool first);
  Outcome RefuseAnswer(const Content& content, const csi::v1::Snapshot& snapshot,
                       const base::Status& why);
  // The driver said that there is a snapshot: whatever it says next, "being-created" stays until it
  // is known which.
  base::Status NoteThatItExists(const Content& content);
  base::Status CheckAnswer(const Content& content, const csi::v1::Snapshot& snapshot);
  Outcome Adopt(const Content& content, const DriverInfo& driver);
  // What the driver says of the snapshot that `content` was made for.
  base::StatusOr<csi::v1::Snapshot> Find(const Content& content, const DriverInfo& driver);
  base::StatusOr<csi::v1::Snapshot> FindInList(const csi::v1::GetSnapshotRequest& wanted);
  // Patches the status with what the driver said of this snapshot.
  base::StatusOr<Content> WriteStatus(const Content& content, const std::string& handle,
                                      base::Json status);
  Outcome WriteSnapshot(const Content& content, const csi::v1::Snapshot& snapshot);
  int64_t CreationTime(const Content& content, const csi::v1::Snapshot& snapshot);
  // Again later, at longer and longer intervals: a snapshot that is being uploaded.
  Outcome Poll(const Content& content);

  // delete.cc
  Outcome Delete(const Content& content);
  // FAILED_PRECONDITION: the snapshot is another content's, too, which is to stay.
  base::Status CheckAlone(const Content& content, const std::string& handle);
  Outcome DeleteFailed(const Content& content, const base::Status& status);
  Outcome LetGo(const Content& content);

  // handles.cc: no two contents stand for one snapshot by the driver's doing.
  // The other contents that stand for the snapshot.
  std::vector<std::shared_ptr<const Content>> Others(const Content& content,
                                                     const std::string& handle) const;
  // Claims the snapshot for `content`: "", or the name of the content that has it.
  std::string TakeHandle(const Content& content, const std::string& handle)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends a claim: the informer knows the content by the handle, or it is another's.
  void GiveBack(const Content& content, const std::string& handle) ABSL_LOCKS_EXCLUDED(mutex_);
  void Forget(const Content& gone) ABSL_LOCKS_EXCLUDED(mutex_);
  // Deletions that waited for `content` go on.
  void WakeOthers(const Content& content);

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
  // Snapshots that a driver just gave, by handle, until the informer shows whose they are.
  std::map<std::string, std::string> given_ ABSL_GUARDED_BY(mutex_);
  std::stop_source stopping_;
  base::KeyedWorkers workers_;
};

}  // namespace berth::controllers::snapshotter
