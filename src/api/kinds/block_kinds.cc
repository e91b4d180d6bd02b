#include "api/kinds/block_kinds.h"

namespace berth::api {

namespace kinds {

const KindInfo kVolumeFence{.group = kBlockGroup,
                            .version = "v1alpha1",
                            .kind = "VolumeFence",
                            .plural = "volumefences",
                            .singular = "volumefence",
                            .short_names = {"vf"},
                            .has_status = true};
const KindInfo kNodeCleanup{.group = kBlockGroup,
                            .version = "v1alpha1",
                            .kind = "NodeCleanup",
                            .plural = "nodecleanups",
                            .singular = "nodecleanup",
                            .short_names = {"nc"},
                            .has_status = true};
const KindInfo kStorageCluster{.group = kBlockGroup,
                               .version = "v1alpha1",
                               .kind = "StorageCluster",
                               .plural = "storageclusters",
                               .singular = "storagecluster",
                               .short_names = {"stc"},
                               .has_status = true};
const KindInfo kBlockSnapshot{.group = kBlockGroup,
                              .version = "v1alpha1",
                              .kind = "BlockSnapshot",
                              .plural = "blocksnapshots",
                              .singular = "blocksnapshot",
                              .short_names = {"bsnap"},
                              .namespaced = true,
                              .has_status = true};

}  // namespace kinds

namespace {

using base::json::String;

template <typename Entry>
std::vector<Entry> EntriesOf(const Json& json, std::string_view member) {
  std::vector<Entry> entries;
  for (const Json& entry : base::json::Array(json, {member})) entries.push_back(Entry::From(entry));
  return entries;
}

template <typename Entry>
Json ToArray(const std::vector<Entry>& entries) {
  Json array = Json::array();
  for (const Entry& entry : entries) array.push_back(entry.ToJson());
  return array;
}

}  // namespace

FenceEntry FenceEntry::From(const Json& json) {
  return {.node = String(json, {"node"}),
          .pod_namespace = String(json, {"podNamespace"}),
          .pod = String(json, {"pod"}),
          .pod_uid = String(json, {"podUID"}),
          .mount_dir = String(json, {"mountDir"}),
          .read_only = base::json::Bool(json, {"readOnly"}),
          .cluster_name = String(json, {"clusterName"})};
}

Json FenceEntry::ToJson() const {
  return {{"node", node},
          {"podNamespace", pod_namespace},
          {"pod", pod},
          {"podUID", pod_uid},
          {"mountDir", mount_dir},
          {"readOnly", read_only},
          {"clusterName", cluster_name}};
}

std::vector<FenceEntry> VolumeFence::entries() const {
  return EntriesOf<FenceEntry>(json(), "attachments");
}

void VolumeFence::set_entries(const std::vector<FenceEntry>& entries) {
  mutable_json()["attachments"] = ToArray(entries);
}

CleanupEntry CleanupEntry::From(const Json& json) {
  const Json* attachment = base::json::Find(json, {"attachment"});
  return {.volume = String(json, {"volume"}),
          .attachment = attachment == nullptr ? FenceEntry() : FenceEntry::From(*attachment),
          .cluster_name = String(json, {"clusterName"}),
          .image = String(json, {"image"}),
          .device_path = String(json, {"devicePath"}),
          .reason = String(json, {"reason"})};
}

Json CleanupEntry::ToJson() const {
  return {{"volume", volume}, {"attachment", attachment.ToJson()}, {"clusterName", cluster_name},
          {"image", image},   {"devicePath", device_path},         {"reason", reason}};
}

std::vector<CleanupEntry> NodeCleanup::entries() const {
  return EntriesOf<CleanupEntry>(json(), "entries");
}

void NodeCleanup::set_entries(const std::vector<CleanupEntry>& entries) {
  mutable_json()["entries"] = ToArray(entries);
}

}  // namespace berth::api
