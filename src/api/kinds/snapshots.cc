#include "api/kinds/snapshots.h"

namespace berth::api {

namespace kinds {

const KindInfo kVolumeSnapshotClass{.group = kSnapshotGroup,
                                    .version = "v1",
                                    .kind = "VolumeSnapshotClass",
                                    .plural = "volumesnapshotclasses",
                                    .singular = "volumesnapshotclass",
                                    .short_names = {"vsclass", "vsclasses"}};
const KindInfo kVolumeSnapshotContent{.group = kSnapshotGroup,
                                      .version = "v1",
                                      .kind = "VolumeSnapshotContent",
                                      .plural = "volumesnapshotcontents",
                                      .singular = "volumesnapshotcontent",
                                      .short_names = {"vsc", "vscs"},
                                      .has_status = true};
const KindInfo kVolumeSnapshot{.group = kSnapshotGroup,
                               .version = "v1",
                               .kind = "VolumeSnapshot",
                               .plural = "volumesnapshots",
                               .singular = "volumesnapshot",
                               .short_names = {"vs"},
                               .namespaced = true,
                               .has_status = true};

}  // namespace kinds

std::optional<int64_t> VolumeSnapshotContent::restore_bytes() const {
  const Json* bytes = base::json::Find(json(), {"status", "restoreSize"});
  if (bytes == nullptr || !bytes->is_number_integer()) return std::nullopt;
  return bytes->get<int64_t>();
}

bool AreBound(const VolumeSnapshot& snapshot, const VolumeSnapshotContent& content) {
  const std::string wanted =
      snapshot.source_content().empty() ? snapshot.content_name() : snapshot.source_content();
  return !wanted.empty() && wanted == content.name() && content.snapshot_uid() == snapshot.uid() &&
         content.snapshot_key() == snapshot.key();
}

}  // namespace berth::api
