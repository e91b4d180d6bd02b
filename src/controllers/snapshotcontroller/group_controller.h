// Binds VolumeGroupSnapshots to the VolumeGroupSnapshotContents that stand for group snapshots in
// the storage: a part of the snapshot controller (snapshot_controller.h), which it resembles. The
// snapshotters call the drivers (snapshotter/group_snapshotter.h).
//
// A VolumeGroupSnapshot that selects claims:
//
//   [asked]
//      │ class: named, or the default of the volumes' driver, which is written down
//      ▼
//   [classed] ── finalizer, then content "groupsnapcontent-<uid>" created ──▶ [bound]
//   [bound] ── the driver took the snapshots: their VolumeSnapshots are made (group_members.h)
//           ── the content's status copied ──▶ [ready]
//
// If a person made a content for a group snapshot that exists, the content and the
// VolumeGroupSnapshot name each other. The controller writes the uid into the content, and then
// they are bound. The person makes the VolumeSnapshots of the group.
//
// Its deletion:
//
//   [deleted] ── no claim is being restored from a member ──▶ "being-deleted" on the content
//             ──▶ content deleted (policy Delete) ──▶ members deleted
//             ──▶ content gone, or kept (policy Retain) ──▶ finalizer removed
//
// The members go when the group is gone (SnapshotController::Delete). A group that is ready stays
// ready unless its content is lost.
//
// The kinds of groups are optional. Where the API lacks or forbids them, nothing happens here, and
// the snapshot controller works as without groups.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/group_snapshots.h"
#include "controllers/snapshotcontroller/group_members.h"
#include "controllers/snapshotcontroller/snapshot_controller.h"

namespace berth::controllers::snapshotcontroller {

class GroupController {
 public:
  // `context` is that of the snapshot controller, which owns this and adds the indexes
  // kSnapshotsByGroup and kClaimsBySnapshot. `times` is the snapshot controller's, too.
  GroupController(const Context& context, const Options& options, OperationTimes& times);
  ~GroupController();

  void Start();
  void Stop();

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Group = api::VolumeGroupSnapshot;
  using Content = api::VolumeGroupSnapshotContent;
  using Class = api::VolumeGroupSnapshotClass;
  using Volume = api::PersistentVolume;
  using Volumes = std::vector<Volume>;
  using Claims = std::vector<api::PersistentVolumeClaim>;

  void AddHandlers();
  Outcome SyncGroup(const std::string& key);
  Outcome SyncContent(const std::string& key);

  Outcome Bind(const Group& group, const Class* group_class);
  void ReportClassError(const Group& group, const base::Status& why);

  // group_binding.cc
  Outcome BindDynamic(const Group& group, const Class& group_class);
  Outcome BindExisting(const Group& group);
  // As SnapshotController::ClassOf.
  base::StatusOr<std::shared_ptr<const Class>> ClassOf(const Group& group);
  // The claims that the group selects, by their names. The API is asked, because a claim that the
  // copy does not show yet would be missing from the group for ever.
  base::StatusOr<Claims> ListClaims(const Group& group);
  // The volumes of the claims that the group selects, by the names of the claims. NOT_FOUND: it
  // selects none. FAILED_PRECONDITION: a claim is not bound. INVALID_ARGUMENT: a malformed
  // selector.
  base::StatusOr<Volumes> VolumesOf(const Group& group);
  Outcome TakeGroup(const Group& group, const Class& group_class);
  base::StatusOr<Content> NewContent(const Group& group, const Class& group_class,
                                     const Volumes& volumes);
  base::StatusOr<Content> CreateContent(const Group& group, const Content& wanted);
  base::StatusOr<Content> BindContent(const Group& group, const Content& content);
  base::StatusOr<Group> HoldGroup(const Group& group);
  // The members could not be made.
  Outcome FailMembers(const Group& group, const base::Status& why);
  Outcome CopyStatus(const Group& group, const Content& content);

  Outcome Delete(const Group& group);
  // As SnapshotController::ContentOf.
  base::StatusOr<Content> ContentOf(const Group& group);
  base::Status DeleteMembers(const Group& group);
  // The key of a member from which a claim is being restored; "": there is none.
  std::string FindRestored(const Group& group) const;

  // The driver of the group; "" while neither its content nor its class is known.
  std::string DriverOf(const Group& group) const;
  // As those of the SnapshotController.
  Outcome Fail(const Group& group, std::string_view reason, const std::string& message);
  Outcome FailBinding(const Group& group, std::string_view reason, const std::string& message);
  bool ReportError(const Group& group, std::string_view reason, const std::string& message);

  const Context context_;
  OperationTimes& times_;
  kube::Informer<Group>& groups_;
  kube::Informer<Content>& contents_;
  kube::Informer<Class>& classes_;
  kube::Informer<api::VolumeSnapshot>& snapshots_;
  kube::Informer<api::PersistentVolumeClaim>& claims_;
  GroupMembers members_;
  base::KeyedWorkers group_workers_;
  base::KeyedWorkers content_workers_;
};

// "groupsnapcontent-" and the VolumeGroupSnapshot's uid.
std::string GroupContentName(const api::VolumeGroupSnapshot& group);

// The content that a person made for the group, or that of GroupContentName.
std::string BoundContentName(const api::VolumeGroupSnapshot& group);

}  // namespace berth::controllers::snapshotcontroller
