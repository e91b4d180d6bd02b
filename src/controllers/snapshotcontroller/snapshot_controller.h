// Binds VolumeSnapshots to the VolumeSnapshotContents that stand for snapshots in the storage (in
// Kubernetes: the snapshot-controller, one for all drivers). The snapshotters call the drivers
// (snapshotter/snapshotter.h). The controller and the snapshotters communicate only through
// objects.
//
// A VolumeSnapshot of a claim:
//
//   [asked]
//      │ class: named, or the default of the volume's driver, which is written down
//      ▼
//   [classed]
//      │ finalizers: on the VolumeSnapshot, then on the claim; the claim must be bound
//      ▼
//   [held] ── content "snapcontent-<uid>" created ──▶ [bound] ── its status copied ──▶ [ready]
//
// If a person made a content for a snapshot that exists, the content and the VolumeSnapshot name
// each other. The controller writes the VolumeSnapshot's uid into the content, and then they are
// bound.
//
// Its deletion:
//
//   [deleted] ── no claim is being restored from it ──▶ "being-deleted" on the content
//             ──▶ content deleted (policy Delete) ──▶ the claim is free ──▶ content gone
//                                                                     ──▶ finalizers removed
//             ──▶ content stays (policy Retain) ──▶ finalizers removed
//
// A snapshot that was taken with a group is made with its content, ready or not, by the
// GroupController, and is deleted only after the group. The group's name is in its status.
//
// The claim has the finalizer from before its content exists until no VolumeSnapshot of it is being
// taken; one that is being deleted does not hold it. A failure is written to status.error and to an
// event, and the work is tried again. A class that is gone is such a failure, also of a
// VolumeSnapshot that is ready and stays so. A content is deleted only if the VolumeSnapshot is
// being deleted, and both name each other.
#pragma once

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "api/kinds/group_snapshots.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "controllers/controller.h"
#include "controllers/snapshotcontroller/operation_times.h"

namespace berth::controllers::snapshotcontroller {

class GroupController;

struct Options {
  int workers = 10;
  std::chrono::milliseconds retry_start{1000};
  std::chrono::milliseconds retry_max{300000};
  // Writes the source's volumeMode to the content, so that a restored volume cannot silently have
  // another one.
  bool prevent_volume_mode_conversion = true;
  // Each node has a snapshotter of its own; a label of the content names the node that can reach
  // the volume.
  bool distributed_snapshotting = false;
  // Takes snapshots of several volumes at one time (group_controller.h).
  bool group_snapshots = true;
};

// Indexes, by "namespace/name".
inline constexpr char kSnapshotsByClaim[] = "claim";      // claim → VolumeSnapshots of it
inline constexpr char kSnapshotsByContent[] = "content";  // content's name → those that ask for it
inline constexpr char kClaimsBySnapshot[] = "snapshot";   // VolumeSnapshot → claims to restore
// "driver/handle" of a group snapshot → the contents of groups, and of snapshots, that name it
inline constexpr char kContentsByGroup[] = "group";

class SnapshotController : public Controller {
 public:
  explicit SnapshotController(Context context, Options options = {});
  ~SnapshotController() override;

  std::string_view name() const override { return "snapshot-controller"; }
  void Start() override;
  void Stop() override;

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Claim = api::PersistentVolumeClaim;
  using Volume = api::PersistentVolume;
  using Snapshot = api::VolumeSnapshot;
  using Content = api::VolumeSnapshotContent;
  using Class = api::VolumeSnapshotClass;

  void AddIndexes();
  void AddHandlers();
  // Queues the snapshots that were taken with the group, because a person may make them before the
  // group is bound.
  void WakeMembers(const api::VolumeGroupSnapshotContent& group);

  Outcome SyncSnapshot(const std::string& key);
  Outcome SyncContent(const std::string& key);
  Outcome SyncClaim(const std::string& key);

  // The class that the snapshot names, or the default class of its driver; null if it names none
  // and needs none. NOT_FOUND: there is none. FAILED_PRECONDITION: there are several defaults.
  // Other errors are those of VolumeOf.
  base::StatusOr<std::shared_ptr<const Class>> ClassOf(const Snapshot& snapshot) const;
  void ReportClassError(const Snapshot& snapshot, const base::Status& why);

  // create.cc: the steps until the snapshot is bound.
  Outcome Bind(const Snapshot& snapshot, const Class* snapshot_class);
  Outcome BindDynamic(const Snapshot& snapshot, const Class& snapshot_class);
  Outcome BindExisting(const Snapshot& snapshot);
  // For a snapshot that was taken with a group. Its content is made with it (group_members.h).
  Outcome BindMember(const Snapshot& snapshot);
  // The volume of the snapshot's claim. What the informers do not show as bound is read from the
  // API, because their copies may be older than the snapshot. NOT_FOUND: there is no such claim.
  // FAILED_PRECONDITION: the claim is not bound to a volume. INVALID_ARGUMENT: the volume is not a
  // CSI volume. Other errors come from the API.
  base::StatusOr<std::shared_ptr<const Volume>> VolumeOf(const Snapshot& snapshot) const;
  base::Status HoldClaim(const std::string& key) ABSL_LOCKS_EXCLUDED(mutex_);
  Outcome TakeSnapshot(const Snapshot& snapshot, const Class& snapshot_class);
  base::StatusOr<Content> CreateContent(const Snapshot& snapshot, const Content& wanted);
  // The content to be created. INVALID_ARGUMENT: the class is of another driver than the volume, or
  // names a secret wrongly. Other errors are those of VolumeOf.
  base::StatusOr<Content> NewContent(const Snapshot& snapshot, const Class& snapshot_class) const;
  std::string FindManagingNode(const Volume& volume) const;
  base::StatusOr<Content> BindContent(const Snapshot& snapshot, const Content& content);
  base::StatusOr<Snapshot> HoldSnapshot(const Snapshot& snapshot, bool until_content_goes);
  Outcome CopyStatus(const Snapshot& snapshot, const Content& content);
  // The name of the group of the snapshot's namespace that is bound to the group snapshot with
  // which the content's snapshot was taken; "": there is no such group yet or any more, the
  // snapshot was taken with none, or the API has no groups. NOT_FOUND: no content of a group has
  // the handle.
  base::StatusOr<std::string> FindGroupName(const Snapshot& snapshot, const Content& content) const;
  // Makes the group the owner of a snapshot that a person imported with the group.
  base::Status AdoptByGroup(const Snapshot& snapshot);

  // delete.cc
  Outcome Delete(const Snapshot& snapshot);
  // The content that stands for `snapshot` and names it, read from the API if the informer does not
  // know it. NOT_FOUND: there is none. Other errors come from the API.
  base::StatusOr<Content> ContentOf(const Snapshot& snapshot);
  bool IsBeingRestored(const Snapshot& snapshot) const;
  // OK: the snapshot belongs to no group, or the group is gone. FAILED_PRECONDITION: the group is
  // there. UNIMPLEMENTED: the API does not show groups. Other errors come from the API.
  base::Status CheckGroupIsGone(const Snapshot& snapshot);
  // Whether the API serves groups in the version in which the group `key` was not found. A cluster
  // with the kinds of the beta alone answers NOT_FOUND about each group. UNIMPLEMENTED: it does
  // not.
  base::Status CheckGroupsAreServed(const Snapshot& snapshot, const std::string& key);
  base::Status DeleteContent(const Snapshot& snapshot, const Content& content);
  // Removes the finalizers, but not the one that waits for the content if `content_goes`, and with
  // them the snapshot's hold on its claim.
  Outcome ReleaseSnapshot(const Snapshot& snapshot, bool content_goes);

  // The driver of the snapshot; "" while neither its content nor its class is known.
  std::string DriverOf(const Snapshot& snapshot) const;
  // Whether the claim's volume must stay for this snapshot.
  bool TakesFromClaim(const Snapshot& snapshot) const;
  // Reports the failure, and tries again after the backoff.
  Outcome Fail(const Snapshot& snapshot, std::string_view reason, const std::string& message);
  // The same for a content that is not the snapshot's.
  Outcome FailBinding(const Snapshot& snapshot, std::string_view reason,
                      const std::string& message);
  // Returns whether it was news.
  bool ReportError(const Snapshot& snapshot, std::string_view reason, const std::string& message);

  const Context context_;
  const Options options_;
  kube::Informer<Snapshot>& snapshots_;
  kube::Informer<Content>& contents_;
  kube::Informer<Class>& classes_;
  kube::Informer<Claim>& claims_;
  kube::Informer<Volume>& volumes_;
  kube::Informer<api::Node>* const nodes_;  // null unless distributed
  // Null without group snapshots. The API may lack or forbid the kinds.
  kube::Informer<api::VolumeGroupSnapshot>* const groups_;
  kube::Informer<api::VolumeGroupSnapshotContent>* const group_contents_;
  OperationTimes times_;
  base::Mutex mutex_;
  // Claims whose finalizer is being removed, because no known snapshot needs it.
  std::set<std::string> releasing_ ABSL_GUARDED_BY(mutex_);
  base::KeyedWorkers snapshot_workers_;
  base::KeyedWorkers content_workers_;
  base::KeyedWorkers claim_workers_;
  std::unique_ptr<GroupController> group_controller_;  // null without group snapshots
};

// Whether only the API failed. Such a failure is tried again, and is no error of the object.
bool OfApi(const base::Status& status);

// "snapcontent-" and the VolumeSnapshot's uid.
std::string ContentName(const api::VolumeSnapshot& snapshot);

}  // namespace berth::controllers::snapshotcontroller
