// What an attachment is about, and what becomes of it when that fails (attacher.h).
#include "api/time.h"
#include "base/log.h"
#include "controllers/attacher/attacher.h"
#include "controllers/csi_codec.h"
#include "controllers/names.h"
#include "controllers/writes.h"

namespace berth::controllers::attacher {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

// On a Node: {"driver": "node id", ...}, as the node agent keeps it beside CSINode.
constexpr std::string_view kNodeIdsAnnotation = "csi.volume.kubernetes.io/nodeid";

// What Kubernetes takes as the message of a VolumeError, in bytes.
constexpr size_t kMaxErrorBytes = 1024;

// `text` without what is beyond the limit, cut between two characters of UTF-8.
std::string Shortened(std::string text) {
  constexpr std::string_view kMore = "...";
  if (text.size() <= kMaxErrorBytes) return text;
  size_t end = kMaxErrorBytes - kMore.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  return text.append(kMore);
}

// From the design's annotation on the Node, {"driver": "node id"}. An attacher's role need not let
// it read Nodes: then there is none.
std::string NodeIdOnNode(kube::Client& client, const std::string& node, const std::string& driver) {
  const StatusOr<api::Node> object = kube::Get<api::Node>(client, "", node);
  if (!object.ok()) return "";
  const StatusOr<Json> ids = base::json::Parse(object->annotation(kNodeIdsAnnotation));
  return ids.ok() ? base::json::String(*ids, {driver}) : "";
}

}  // namespace

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
  if (const auto volume = volumes_.Get(name)) return *volume;
  const StatusOr<Volume> live = kube::Get<Volume>(context_.client, "", name);
  RETURN_IF_ERROR_WITH(live, fmt::format("PersistentVolume '{}'", name));
  return live;
}

StatusOr<std::string> Attacher::NodeIdToAttach(const Attachment& attachment,
                                               const std::string& driver) const {
  const std::string node = attachment.node_name();
  const auto csi_node = csi_nodes_.Get(node);
  if (csi_node != nullptr) {
    if (const auto entry = csi_node->driver(driver)) return entry->node_id;
  }
  if (attachment.has_annotation(kNodeIdAnnotation)) return attachment.annotation(kNodeIdAnnotation);
  if (std::string id = NodeIdOnNode(context_.client, node, driver); !id.empty()) return id;
  if (csi_node == nullptr) {
    return Error(StatusCode::kNotFound, "csinode.storage.k8s.io \"{}\" not found", node);
  }
  return Error(StatusCode::kNotFound, "CSINode {} does not contain driver {}", node, driver);
}

StatusOr<std::string> Attacher::NodeIdToDetach(const Attachment& attachment,
                                               const std::string& driver) const {
  if (attachment.has_annotation(kNodeIdAnnotation)) return attachment.annotation(kNodeIdAnnotation);
  return NodeIdToAttach(attachment, driver);
}

Attacher::Outcome Attacher::Failed(const Attachment& attachment, const Operation& operation,
                                   const Status& status) {
  if (IsOfApi(status)) return AfterApi(status);
  context_.events.Record(attachment.reference(), base::EventType::kWarning, operation.event,
                         FailureText(status));
  WriteError(attachment, operation.error_field, status);
  return Outcome::Retry(status);
}

void Attacher::WriteError(const Attachment& attachment, std::string_view field,
                          const Status& status) {
  const std::string message = Shortened(FailureText(status));
  // The same again is no news: time and count are in the event.
  if (attachment.String({"status", field, "message"}) == message) return;
  Json error = {{"time", api::FormatTime(context_.clock.Now())}, {"message", message}};
  // Of a merge patch: a code that another failure left is not this one's.
  error["errorCode"] = IsOfDriver(status) ? Json(static_cast<int>(status.code())) : Json();
  Json change;
  change[std::string(field)] = std::move(error);
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
