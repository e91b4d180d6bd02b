#include "controllers/data_source.h"

#include "api/kinds/block_kinds.h"

namespace berth::controllers {

std::string DataSourceNamespace(const api::PersistentVolumeClaim& claim) {
  const std::string ns = claim.data_source().String({"namespace"});
  return ns.empty() ? claim.ns() : ns;
}

std::string CloneSourceName(const api::PersistentVolumeClaim& claim) {
  const api::Part reference = claim.data_source();
  const bool clone = reference.String({"kind"}) == "PersistentVolumeClaim" &&
                     reference.String({"apiGroup"}).empty();
  return clone ? reference.String({"name"}) : "";
}

std::string SnapshotSourceName(const api::PersistentVolumeClaim& claim) {
  const api::Part reference = claim.data_source();
  const bool snapshot = reference.String({"kind"}) == api::kinds::kVolumeSnapshot.kind &&
                        reference.String({"apiGroup"}) == api::kSnapshotGroup;
  return snapshot ? reference.String({"name"}) : "";
}

std::string BlockSnapshotSourceName(const api::PersistentVolumeClaim& claim) {
  const api::Part reference = claim.data_source();
  const bool snapshot = reference.String({"kind"}) == api::kinds::kBlockSnapshot.kind &&
                        reference.String({"apiGroup"}) == api::kBlockGroup;
  return snapshot ? reference.String({"name"}) : "";
}

std::optional<api::VolumeSnapshotContent> SnapshotSourceContent(
    kube::Client& client, const api::PersistentVolumeClaim& claim) {
  const std::string name = SnapshotSourceName(claim);
  if (name.empty()) return std::nullopt;
  const auto snapshot = kube::Get<api::VolumeSnapshot>(client, DataSourceNamespace(claim), name);
  if (!snapshot.ok() || snapshot->content_name().empty()) return std::nullopt;
  auto content = kube::Get<api::VolumeSnapshotContent>(client, "", snapshot->content_name());
  if (!content.ok()) return std::nullopt;
  return *std::move(content);
}

}  // namespace berth::controllers
