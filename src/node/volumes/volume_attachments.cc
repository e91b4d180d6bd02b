#include "node/volumes/volume_attachments.h"

#include <algorithm>

#include "api/kinds/attachable.h"
#include "api/selector.h"
#include "node/drivers/driver_limits.h"

namespace berth::node {
namespace {

using base::Json;

// "topology.example.com/zone In [a,b]; kubernetes.io/hostname In [c]"
std::string DescribeSelector(const Json& selector) {
  std::string out;
  for (const Json& term : base::json::Array(selector, {"nodeSelectorTerms"})) {
    std::string text;
    for (const char* kind : {"matchExpressions", "matchFields"}) {
      for (const Json& expression : base::json::Array(term, {kind})) {
        std::string values;
        for (const Json& value : base::json::Array(expression, {"values"})) {
          if (!values.empty()) values += ",";
          values += value.is_string() ? value.get<std::string>() : value.dump();
        }
        text += fmt::format("{}{} {} [{}]", text.empty() ? "" : " and ",
                            base::json::String(expression, {"key"}),
                            base::json::String(expression, {"operator"}), values);
      }
    }
    out += (out.empty() ? "" : ", or ") + text;
  }
  return out;
}

}  // namespace

base::Status CheckNodeAffinity(const api::PersistentVolume& volume, const api::Node& node) {
  const Json* affinity = volume.node_affinity();
  if (affinity == nullptr) return base::OkStatus();
  const auto matches = api::NodeSelectorMatches(*affinity, node.labels(), node.name());
  RETURN_IF_ERROR_WITH(matches, fmt::format("node affinity of volume '{}'", volume.name()));
  if (*matches) return base::OkStatus();
  return base::Error(base::StatusCode::kFailedPrecondition,
                     "volume node affinity conflict: volume '{}' cannot be reached from node '{}'; "
                     "it is where {}",
                     volume.name(), node.name(), DescribeSelector(*affinity));
}

std::string AttachmentNameOf(const api::PersistentVolume& pv, std::string_view node_name) {
  const auto attachable = api::AttachableOf(pv);
  return attachable.has_value() ? attachable->AttachmentName(api::NodeName(node_name)) : "";
}

Attachment VolumeAttachments::FindAttachment(const volume::VolumeSpec& spec,
                                             const std::string& device_name) const {
  const auto waits = [](std::string reason) { return Attachment{.reason = std::move(reason)}; };
  if (spec.pv == nullptr) return waits("waiting for its volume");
  const std::string name = AttachmentNameOf(*spec.pv, node_name_);
  const auto attachment = attachments_.Get(name);
  if (attachment == nullptr || attachment->node_name() != node_name_) {
    return waits(
        fmt::format("waiting for volume '{}' to be attached to node '{}': there is no "
                    "VolumeAttachment '{}' yet",
                    spec.pv->name(), node_name_, name));
  }
  if (attachment->deleting()) {
    return waits(
        fmt::format("waiting for volume '{}' to be detached and attached anew: "
                    "VolumeAttachment '{}' is being deleted",
                    spec.pv->name(), name));
  }
  if (!attachment->attached()) {
    const std::string error = attachment->attach_error();
    if (error.empty()) {
      return waits(fmt::format("waiting for driver '{}' to attach volume '{}' to node '{}'",
                               attachment->attacher(), spec.pv->name(), node_name_));
    }
    return {.reason = fmt::format("attaching volume '{}' to node '{}' failed: {}", spec.pv->name(),
                                  node_name_, error),
            .failed = true,
            .no_room = FailedForLackOfRoom(*attachment)};
  }
  const auto node = nodes_.Get(node_name_);
  const std::vector<std::string> attached =
      node == nullptr ? std::vector<std::string>{} : node->volumes_attached();
  if (std::find(attached.begin(), attached.end(), device_name) == attached.end()) {
    return waits(
        fmt::format("waiting for volume '{}' to appear in status.volumesAttached of node "
                    "'{}'",
                    spec.pv->name(), node_name_));
  }
  return {.attached = true, .publish_context = attachment->attachment_metadata()};
}

}  // namespace berth::node
