// Detaches the volume of a deleted VolumeAttachment (attacher.h).
#include "base/log.h"
#include "controllers/attacher/attacher.h"
#include "controllers/csi_codec.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"

namespace berth::controllers::attacher {

using base::Error;
using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::StatusOr;

Status Attacher::Unpublish(const Volume& volume, const std::string& node_id, VolumeOrigin origin) {
  csi::v1::ControllerUnpublishVolumeRequest request;
  request.set_volume_id(volume.csi().volume_handle());
  request.set_node_id(node_id);
  ASSIGN_OR_RETURN(
      const auto secrets,
      ReadSecret(context_.client, volume.csi().secret_ref("controllerPublishSecretRef")));
  CopyTo(secrets, request.mutable_secrets());
  const Status status =
      driver_.Call(&rpc::CsiClient::ControllerUnpublishVolume, request, options_.timeout, origin)
          .status();
  return status.ok() ? status : OfDriver(status);
}

bool Attacher::HasLostVolume(const Attachment& attachment) const {
  return attachment.inline_volume() == nullptr && !attachment.pv_name().empty() &&
         VolumeOf(attachment).status().code() == StatusCode::kNotFound;
}

Status Attacher::TryDetach(const Attachment& attachment, const DriverInfo& driver) {
  ASSIGN_OR_RETURN(const Volume volume, VolumeOf(attachment));
  if (!volume.has_csi()) {
    return Error(StatusCode::kInvalidArgument, "PersistentVolume '{}' is not of driver '{}'",
                 volume.name(), driver.name);
  }
  ASSIGN_OR_RETURN(const std::string node_id, NodeIdToDetach(attachment, driver.name));
  RETURN_IF_ERROR(Unpublish(volume, node_id, OriginOf(attachment)));
  LOG_INFO("volume {} is detached from node {} (VolumeAttachment {})",
           base::Quote(volume.csi().volume_handle()), base::Quote(attachment.node_name()),
           base::Quote(attachment.name()));
  return base::OkStatus();
}

Attacher::Outcome Attacher::Detach(const Attachment& attachment, const DriverInfo& driver) {
  if (HasLostVolume(attachment))
    return ReleaseLostAttachment(attachment, AttacherFinalizer(driver.name));
  if (const Status detached = TryDetach(attachment, driver); !detached.ok()) {
    return ReportFailure(attachment, kDetachOperation, detached);
  }
  return ReleaseAttachment(attachment, AttacherFinalizer(driver.name));
}

Attacher::Outcome Attacher::ReleaseLostAttachment(const Attachment& attachment,
                                                  const std::string& finalizer) {
  const std::string why = fmt::format(
      "PersistentVolume \"{}\" is gone, so the volume's handle is not known: if the driver still "
      "has "
      "it attached to node \"{}\", detach it there by hand",
      attachment.pv_name(), attachment.node_name());
  LOG_WARNING("VolumeAttachment {} is let go: {}", base::Quote(attachment.name()), why);
  context_.events.Record(attachment.reference(), base::EventType::kWarning, kDetachOperation.event,
                         why);
  return ReleaseAttachment(attachment, finalizer);
}

Attacher::Outcome Attacher::ReleaseAttachment(const Attachment& attachment,
                                              const std::string& finalizer) {
  // The finalizer is removed first, because the object may vanish with it, and then no status needs
  // to be written. An attachment without it is here because the driver still lists it as published.
  StatusOr<Attachment> freed = attachment;
  if (attachment.has_finalizer(finalizer)) {
    freed = PatchAt(context_.client, attachments_, attachment,
                    FinalizersPatch(attachment, "", finalizer));
  }
  if (freed.status().code() == StatusCode::kNotFound) return Outcome::Done();  // it is gone
  if (!freed.ok()) {
    return ReportFailure(
        attachment, kDetachOperation,
        base::Annotate(freed.status(), "could not remove VolumeAttachment finalizer"));
  }
  {
    MutexLock lock(mutex_);
    const auto known = attachments_.Get(attachment.name());
    if (known != nullptr && known->uid() == attachment.uid()) detached_.insert(attachment.uid());
  }
  if (IsGone(*freed)) return Outcome::Done();
  return AfterApi(WriteDetached(context_, attachments_, *freed));
}

}  // namespace berth::controllers::attacher
