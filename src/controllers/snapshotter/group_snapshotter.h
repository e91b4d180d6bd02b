// Takes and deletes group snapshots through one CSI driver: a part of the snapshotter
// (snapshotter.h). The service GroupController of the driver does it.
//
// It works on VolumeGroupSnapshotContents of its driver, as the snapshotter does on
// VolumeSnapshotContents:
//
//   of volumes
//     [asked] ── finalizer and "being-created" written ──▶ [creating]
//     [creating] ── CreateVolumeGroupSnapshot ──▶ [taken]: handles in the status
//     [taken] ── "being-created" removed ──▶ readyToUse: [ready]
//   that exists
//     [asked] ── GetVolumeGroupSnapshot ──▶ [ready]
//   deleted
//     DeleteVolumeGroupSnapshot (policy Delete, handle known)
//       ──▶ status.volumeGroupSnapshotHandle removed ──▶ finalizer removed
//
// Not ready yet: the same call again, 1 s, doubling. "being-created" is the durable record of a
// call whose outcome is not known, with the rules of the snapshotter. It also stays while the
// driver's answer cannot be used, because the driver has a group snapshot then, which is deleted
// with the content. The snapshot controller makes the VolumeSnapshots of the group.
//
// The kinds of groups are optional. Where the API lacks or forbids them, nothing happens here, and
// the snapshotter works as without groups.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "api/kinds/group_snapshots.h"
#include "controllers/snapshotter/content_queue.h"
#include "controllers/snapshotter/snapshotter.h"

namespace berth::controllers::snapshotter {

// Whether the group snapshot in the driver, if there is one, may be deleted now.
bool ShouldDelete(const api::VolumeGroupSnapshotContent& content);

class GroupSnapshotter {
 public:
  // `context` and `driver` are those of the snapshotter, which owns this.
  GroupSnapshotter(const Context& context, DriverConnection& driver, const Options& options);
  ~GroupSnapshotter();

  void Start() { queue_.Start(); }
  void Stop() { queue_.Stop(); }

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Content = api::VolumeGroupSnapshotContent;
  using Class = api::VolumeGroupSnapshotClass;

  bool IsOurs(const Content& content, const DriverInfo& driver) const;
  Outcome SyncContent(const std::string& key);

  // group_create.cc
  Outcome CreateGroup(const Content& content);
  base::StatusOr<csi::v1::CreateVolumeGroupSnapshotRequest> MakeRequest(const Content& content);
  Outcome ReportFailedCreation(const Content& content, const base::Status& status);
  // The answer cannot be used. `has_id`: the driver has a group snapshot, which it can delete.
  Outcome RefuseAnswer(const Content& content, const base::Status& why, bool has_id);
  // As Snapshotter::ReportCreationError.
  void ReportCreationError(const Content& content, std::string_view why);
  Outcome AdoptGroup(const Content& content);
  base::StatusOr<csi::v1::VolumeGroupSnapshot> FindGroup(const Content& content);
  Outcome WriteGroup(const Content& content, const csi::v1::VolumeGroupSnapshot& group);

  Outcome DeleteGroup(const Content& content);
  Outcome ReportFailedDeletion(const Content& content, const base::Status& status);
  Outcome ReleaseContent(const Content& content);

  // The class of the content; nullptr: the content names none. NOT_FOUND: it does not exist.
  base::StatusOr<std::shared_ptr<const Class>> ClassOf(const Content& content) const;
  base::StatusOr<std::map<std::string, std::string>> ReadSecrets(const Content& content);
  // Records `reason` and writes status.error, if it says something new.
  void ReportError(const Content& content, std::string_view reason, const std::string& message);

  const Context context_;
  DriverConnection& driver_;
  const Options options_;
  kube::Informer<Content>& contents_;
  kube::Informer<Class>& classes_;
  ContentQueue<Content, Class> queue_;
};

}  // namespace berth::controllers::snapshotter
