// Attaches the volume of a VolumeAttachment (attacher.h).
#include "base/log.h"
#include "controllers/attacher/attacher.h"
#include "controllers/csi_codec.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"

namespace berth::controllers::attacher {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

Status Attacher::HoldVolume(const Volume& volume, const std::string& finalizer) {
  if (volume.name().empty() || volume.has_finalizer(finalizer)) return base::OkStatus();
  return PatchAt(context_.client, volumes_, volume, FinalizersPatch(volume, finalizer, ""))
      .status();
}

StatusOr<Attacher::Attachment> Attacher::HoldAttachment(const Attachment& attachment,
                                                        const std::string& finalizer,
                                                        const std::string& node_id) {
  if (attachment.has_finalizer(finalizer) && attachment.annotation(kNodeIdAnnotation) == node_id) {
    return attachment;
  }
  Json patch = FinalizersPatch(attachment, finalizer, "");
  patch["metadata"]["annotations"] = {{std::string(kNodeIdAnnotation), node_id}};
  return PatchAt(context_.client, attachments_, attachment, std::move(patch));
}

StatusOr<Attacher::Volume> Attacher::VolumeToAttach(const Attachment& attachment,
                                                    const DriverInfo& driver) const {
  ASSIGN_OR_RETURN(Volume volume, VolumeOf(attachment));
  if (volume.deleting()) {
    return Error(StatusCode::kFailedPrecondition, "PersistentVolume \"{}\" is marked for deletion",
                 volume.name());
  }
  const std::string what = volume.name().empty()
                               ? "the inline volume"
                               : fmt::format("PersistentVolume '{}'", volume.name());
  if (!volume.has_csi()) {
    return Error(StatusCode::kInvalidArgument, "{} is no CSI volume", what);
  }
  if (volume.csi().driver() != driver.name) {
    return Error(StatusCode::kInvalidArgument, "{} is of driver '{}', not of '{}'", what,
                 volume.csi().driver(), driver.name);
  }
  if (volume.csi().volume_handle().empty()) {
    return Error(StatusCode::kInvalidArgument, "{} has no volumeHandle", what);
  }
  return volume;
}

StatusOr<csi::v1::ControllerPublishVolumeRequest> Attacher::PublishRequest(
    const Volume& volume, const std::string& node_id, const DriverInfo& driver) const {
  const api::CsiSource csi = volume.csi();
  csi::v1::ControllerPublishVolumeRequest request;
  request.set_volume_id(csi.volume_handle());
  request.set_node_id(node_id);
  request.set_readonly(csi.read_only() && driver.Has(DriverInfo::Rpc::PUBLISH_READONLY));
  ASSIGN_OR_RETURN(*request.mutable_volume_capability(),
                   ToCsiCapability(volume, driver.Has(DriverInfo::Rpc::SINGLE_NODE_MULTI_WRITER),
                                   options_.default_fs_type));
  CopyTo(csi.volume_attributes(), request.mutable_volume_context());
  ASSIGN_OR_RETURN(const auto secrets,
                   ReadSecret(context_.client, csi.secret_ref("controllerPublishSecretRef")));
  CopyTo(secrets, request.mutable_secrets());
  return request;
}

// Unpublishes the volume from the old node id, if a new node has the name now or the driver uses
// another id for the node. The volume may be published to the old id, and that id would be lost
// when the annotation is overwritten.
Status Attacher::LeaveOldNode(const Attachment& attachment, const Volume& volume,
                              const std::string& node_id, const DriverInfo& driver) {
  const std::string old = attachment.annotation(kNodeIdAnnotation);
  if (old.empty() || old == node_id || !attachment.has_finalizer(AttacherFinalizer(driver.name))) {
    return base::OkStatus();
  }
  RETURN_IF_ERROR(Unpublish(volume, old, OriginOf(attachment)));
  LOG_INFO("volume {} is detached from the id {} that node {} had before",
           base::Quote(volume.csi().volume_handle()), base::Quote(old),
           base::Quote(attachment.node_name()));
  return base::OkStatus();
}

Attacher::Outcome Attacher::Attach(const Attachment& attachment, const DriverInfo& driver) {
  // All errors that need no driver are found before the finalizer is written, because an attachment
  // that cannot be detached would keep the finalizer.
  const StatusOr<Volume> volume = VolumeToAttach(attachment, driver);
  if (!volume.ok()) return ReportFailure(attachment, kAttachOperation, volume.status());
  const StatusOr<std::string> node_id = NodeIdToAttach(attachment, driver.name);
  if (!node_id.ok()) return ReportFailure(attachment, kAttachOperation, node_id.status());
  const auto request = PublishRequest(*volume, *node_id, driver);
  if (!request.ok()) return ReportFailure(attachment, kAttachOperation, request.status());
  if (const Status left = LeaveOldNode(attachment, *volume, *node_id, driver); !left.ok()) {
    return ReportFailure(attachment, kAttachOperation, left);
  }

  const std::string finalizer = AttacherFinalizer(driver.name);
  if (const Status held = HoldVolume(*volume, finalizer); !held.ok()) {
    return ReportFailure(attachment, kAttachOperation,
                         base::Annotate(held, "could not add PersistentVolume finalizer"));
  }
  const StatusOr<Attachment> held = HoldAttachment(attachment, finalizer, *node_id);
  if (held.status().code() == StatusCode::kNotFound) return Outcome::Done();  // it is gone
  if (!held.ok()) {
    return ReportFailure(attachment, kAttachOperation,
                         base::Annotate(held.status(), "could not add VolumeAttachment finalizer"));
  }
  const auto published = driver_.Call(&rpc::CsiClient::ControllerPublishVolume, *request,
                                      options_.timeout, OriginOf(attachment));
  if (!published.ok()) return ReportFailure(*held, kAttachOperation, OfDriver(published.status()));
  LOG_INFO("volume {} is attached to node {} (VolumeAttachment {})",
           base::Quote(request->volume_id()), base::Quote(attachment.node_name()),
           base::Quote(attachment.name()));
  return MarkAttached(*held, ToMap(published->publish_context()));
}

Attacher::Outcome Attacher::MarkAttached(
    const Attachment& attachment, const std::map<std::string, std::string>& publish_context) {
  const Status written = WriteAttached(context_, attachments_, attachment, publish_context);
  if (written.ok() || written.code() == StatusCode::kNotFound) return AfterApi(written);
  // The publish context could not be written, and without it no node can use the volume.
  return ReportFailure(attachment, kAttachOperation,
                       base::Annotate(written, "could not write that the volume is attached"));
}

}  // namespace berth::controllers::attacher
