// Finds the volume and the node id of an attachment, and reports its failures (attacher.h).
#include "api/migration/translation.h"
#include "controllers/attacher/attacher.h"
#include "controllers/csi_codec.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::attacher {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

StatusOr<Attacher::Volume> Attacher::VolumeOf(const Attachment& attachment) const {
  const std::string name = attachment.pv_name();
  if (const Json* spec = attachment.inline_volume()) {
    if (!name.empty()) {
      return Error(StatusCode::kInvalidArgument,
                   "spec.source has both an inlineVolumeSpec and a persistentVolumeName");
    }
    Volume volume;
    volume.Set({"spec"}, *spec);
    return volume;
  }
  if (name.empty()) {
    return Error(StatusCode::kInvalidArgument,
                 "spec.source has neither an inlineVolumeSpec nor a persistentVolumeName");
  }
  if (const auto volume = volumes_.Get(name)) return AsCsiVolume(*volume);
  const StatusOr<Volume> live = kube::Get<Volume>(context_.client, "", name);
  RETURN_IF_ERROR_WITH(live, fmt::format("read PersistentVolume '{}'", name));
  return AsCsiVolume(*live);
}

StatusOr<Attacher::Volume> Attacher::AsCsiVolume(const Volume& volume) {
  StatusOr<Volume> translated = api::migration::AsCsiVolume(volume);
  RETURN_IF_ERROR_WITH(translated, "failed to translate in tree pv to CSI");
  return translated;
}

VolumeOrigin Attacher::OriginOf(const Attachment& attachment) const {
  const auto volume = volumes_.Get(attachment.pv_name());
  return OriginIf(volume != nullptr && api::migration::IsMigratable(*volume));
}

bool Attacher::AwaitsCsiNodes(const Attachment& attachment) const {
  const bool id_is_recorded = attachment.deleting() && attachment.has_annotation(kNodeIdAnnotation);
  return !id_is_recorded && csi_nodes_.Get(attachment.node_name()) == nullptr &&
         !csi_nodes_.WaitForSyncOrRefusal(std::chrono::steady_clock::now());
}

StatusOr<std::string> Attacher::NodeIdToAttach(const Attachment& attachment,
                                               const std::string& driver) const {
  const std::string node = attachment.node_name();
  const auto csi_node = csi_nodes_.Get(node);
  if (csi_node == nullptr) {
    RETURN_IF_ERROR(csi_nodes_.CheckListed());
    return Error(StatusCode::kNotFound, "csinode.storage.k8s.io \"{}\" not found", node);
  }
  if (const auto entry = csi_node->driver(driver)) return entry->node_id;
  return Error(StatusCode::kNotFound, "CSINode {} does not contain driver {}", node, driver);
}

StatusOr<std::string> Attacher::NodeIdToDetach(const Attachment& attachment,
                                               const std::string& driver) const {
  if (attachment.has_annotation(kNodeIdAnnotation)) return attachment.annotation(kNodeIdAnnotation);
  return NodeIdToAttach(attachment, driver);
}

Attacher::Outcome Attacher::ReportFailure(const Attachment& attachment,
                                          const AttachmentOperation& operation,
                                          const Status& status) {
  if (IsOfApi(status)) return AfterApi(status);
  return ReportAttachmentFailure(context_, attachments_, attachment, operation, status);
}

}  // namespace berth::controllers::attacher
