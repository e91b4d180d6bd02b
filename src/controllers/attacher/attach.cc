// The two operations of the attacher, step by step (attacher.h).
#include "api/time.h"
#include "base/log.h"
#include "controllers/attacher/attacher.h"
#include "controllers/csi_codec.h"
#include "controllers/writes.h"

namespace berth::controllers::attacher {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

// The node's id in the driver, for when the node is gone from the API before the volume is
// detached.
constexpr std::string_view kNodeId = "csi.alpha.kubernetes.io/node-id";

}  // namespace

StatusOr<Attacher::Volume> Attacher::VolumeOf(const Attachment& attachment) const {
  if (const Json* spec = attachment.inline_volume()) {
    Volume volume;
    volume.Set({"spec"}, *spec);
    return volume;
  }
  if (const auto volume = volumes_.Get(attachment.pv_name())) return *volume;
  const StatusOr<Volume> live = kube::Get<Volume>(context_.client, "", attachment.pv_name());
  RETURN_IF_ERROR_WITH(live, fmt::format("PersistentVolume '{}'", attachment.pv_name()));
  return live;
}

StatusOr<std::string> Attacher::NodeId(const Attachment& attachment,
                                       const std::string& driver) const {
  if (const auto csi_node = csi_nodes_.Get(attachment.node_name())) {
    if (const auto entry = csi_node->driver(driver)) return entry->node_id;
  }
  if (attachment.has_annotation(kNodeId)) return attachment.annotation(kNodeId);
  return Error(StatusCode::kNotFound, "CSINode {} does not contain driver {}",
               attachment.node_name(), driver);
}

Status Attacher::HoldVolume(const Volume& volume, const std::string& finalizer) {
  if (volume.name().empty() || volume.has_finalizer(finalizer)) return base::OkStatus();
  return PatchAt(context_.client, volumes_, volume, FinalizersPatch(volume, finalizer, ""))
      .status();
}

StatusOr<Attacher::Attachment> Attacher::HoldAttachment(const Attachment& attachment,
                                                        const std::string& finalizer,
                                                        const std::string& node_id) {
  if (attachment.has_finalizer(finalizer) && attachment.annotation(kNodeId) == node_id) {
    return attachment;
  }
  Json patch = FinalizersPatch(attachment, finalizer, "");
  patch["metadata"]["annotations"] = {{std::string(kNodeId), node_id}};
  return PatchAt(context_.client, attachments_, attachment, std::move(patch));
}

StatusOr<Attacher::Volume> Attacher::VolumeToAttach(const Attachment& attachment,
                                                    const DriverInfo& driver) const {
  ASSIGN_OR_RETURN(Volume volume, VolumeOf(attachment));
  if (volume.deleting()) {
    return Error(StatusCode::kFailedPrecondition, "PersistentVolume \"{}\" is marked for deletion",
                 volume.name());
  }
  if (!volume.has_csi() || volume.csi().driver() != driver.name) {
    return Error(StatusCode::kInvalidArgument, "PersistentVolume '{}' is not of driver '{}'",
                 volume.name(), driver.name);
  }
  return volume;
}

StatusOr<Attacher::PublishContext> Attacher::Publish(const Volume& volume,
                                                     const std::string& node_id,
                                                     const DriverInfo& driver) {
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
  ASSIGN_OR_RETURN(
      const csi::v1::ControllerPublishVolumeResponse response,
      driver_.Call(&rpc::CsiClient::ControllerPublishVolume, request, options_.timeout));
  return ToMap(response.publish_context());
}

Attacher::Outcome Attacher::Attach(const Attachment& attachment, const DriverInfo& driver) {
  const auto failed = [&](const Attachment& current, const Status& status) {
    WriteError(current, "attachError", status);
    return Outcome::Retry(status);
  };
  const StatusOr<Volume> volume = VolumeToAttach(attachment, driver);
  if (!volume.ok()) return failed(attachment, volume.status());
  const StatusOr<std::string> node_id = NodeId(attachment, driver.name);
  if (!node_id.ok()) return failed(attachment, node_id.status());

  const std::string finalizer = FinalizerName(driver.name);
  if (const Status held = HoldVolume(*volume, finalizer); !held.ok()) return AfterApi(held);
  const StatusOr<Attachment> held = HoldAttachment(attachment, finalizer, *node_id);
  if (!held.ok()) return AfterApi(held.status());
  const StatusOr<PublishContext> published = Publish(*volume, *node_id, driver);
  if (!published.ok()) return failed(*held, published.status());

  Json status = {{"attached", true}, {"attachError", nullptr}};
  if (!published->empty()) status["attachmentMetadata"] = *published;
  return AfterApi(
      Patch(context_.client, attachments_, *held, {{"status", std::move(status)}}, "status")
          .status());
}

Status Attacher::TryDetach(const Attachment& attachment, const DriverInfo& driver) {
  ASSIGN_OR_RETURN(const Volume volume, VolumeOf(attachment));
  if (!volume.has_csi()) {
    return Error(StatusCode::kInvalidArgument, "PersistentVolume '{}' is not of driver '{}'",
                 volume.name(), driver.name);
  }
  csi::v1::ControllerUnpublishVolumeRequest request;
  request.set_volume_id(volume.csi().volume_handle());
  ASSIGN_OR_RETURN(*request.mutable_node_id(), NodeId(attachment, driver.name));
  ASSIGN_OR_RETURN(
      const auto secrets,
      ReadSecret(context_.client, volume.csi().secret_ref("controllerPublishSecretRef")));
  CopyTo(secrets, request.mutable_secrets());
  return driver_.Call(&rpc::CsiClient::ControllerUnpublishVolume, request, options_.timeout)
      .status();
}

Attacher::Outcome Attacher::Detach(const Attachment& attachment, const DriverInfo& driver) {
  if (const Status detached = TryDetach(attachment, driver); !detached.ok()) {
    WriteError(attachment, "detachError", detached);
    return Outcome::Retry(detached);
  }
  const StatusOr<Attachment> freed =
      PatchAt(context_.client, attachments_, attachment,
              FinalizersPatch(attachment, "", FinalizerName(driver.name)));
  if (!freed.ok()) return AfterApi(freed.status());
  {
    base::MutexLock lock(mutex_);
    const auto known = attachments_.Get(attachment.name());
    if (known != nullptr && known->uid() == attachment.uid()) detached_.insert(attachment.uid());
  }
  if (IsGone(*freed)) return Outcome::Done();
  // Somebody else's finalizer keeps the object; it must not say that the volume is attached.
  return AfterApi(
      Patch(context_.client, attachments_, *freed,
            {{"status",
              {{"attached", false}, {"attachmentMetadata", nullptr}, {"detachError", nullptr}}}},
            "status")
          .status());
}

void Attacher::WriteError(const Attachment& attachment, std::string_view field,
                          const Status& status) {
  const std::string message = DriverError(status);
  if (attachment.String({"status", field, "message"}) == message) return;
  const Json error = {{"time", api::FormatTime(context_.clock.Now())},
                      {"message", message},
                      {"errorCode", static_cast<int>(status.code())}};
  Json change;
  change[std::string(field)] = error;
  if (!attachment.attached()) change["attached"] = false;
  const Status written =
      Patch(context_.client, attachments_, attachment, {{"status", std::move(change)}}, "status")
          .status();
  if (!written.ok() && written.code() != StatusCode::kNotFound) {
    LOG_WARNING("attachment {}: its error could not be written: {}", base::Quote(attachment.name()),
                base::ToString(written));
  }
}

}  // namespace berth::controllers::attacher
