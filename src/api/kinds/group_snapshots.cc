#include "api/kinds/group_snapshots.h"

#include <fmt/format.h>

namespace berth::api {

namespace kinds {

const KindInfo kVolumeGroupSnapshotClass{.group = kGroupSnapshotGroup,
                                         .version = "v1",
                                         .kind = "VolumeGroupSnapshotClass",
                                         .plural = "volumegroupsnapshotclasses",
                                         .singular = "volumegroupsnapshotclass",
                                         .short_names = {"vgsclass", "vgsclasses"}};
const KindInfo kVolumeGroupSnapshotContent{.group = kGroupSnapshotGroup,
                                           .version = "v1",
                                           .kind = "VolumeGroupSnapshotContent",
                                           .plural = "volumegroupsnapshotcontents",
                                           .singular = "volumegroupsnapshotcontent",
                                           .short_names = {"vgsc", "vgscs"},
                                           .has_status = true};
const KindInfo kVolumeGroupSnapshot{.group = kGroupSnapshotGroup,
                                    .version = "v1",
                                    .kind = "VolumeGroupSnapshot",
                                    .plural = "volumegroupsnapshots",
                                    .singular = "volumegroupsnapshot",
                                    .short_names = {"vgs"},
                                    .namespaced = true,
                                    .has_status = true};

}  // namespace kinds

namespace {

// Empty if no group owns the snapshot.
OwnerReference FindOwningGroup(const VolumeSnapshot& snapshot) {
  // Members that an older Go program made name a beta version of the kind.
  const std::string group = fmt::format("{}/", kGroupSnapshotGroup);
  for (const OwnerReference& owner : snapshot.owner_references()) {
    if (owner.kind == VolumeGroupSnapshot::kInfo.kind && owner.api_version.starts_with(group)) {
      return owner;
    }
  }
  return {};
}

}  // namespace

std::string OwningGroup(const VolumeSnapshot& snapshot) { return FindOwningGroup(snapshot).name; }

std::string OwningGroupUid(const VolumeSnapshot& snapshot) { return FindOwningGroup(snapshot).uid; }

}  // namespace berth::api
