// Finds out from the API whether this node may use a volume: the PersistentVolume's nodeAffinity
// must match the node, and the volume must be attached to the node (docs/design.md, rule 8).
//
// A volume that needs attaching is used only when its VolumeAttachment is attached, and the
// attach/detach controller lists it in node.status.volumesAttached. Thread-safe; reads only
// informers.
#pragma once

#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "base/status.h"
#include "kube/informers/informers.h"
#include "volume/volume_plugin.h"

namespace berth::node {

// Checks that the node matches the volume's nodeAffinity. The scheduler checks that too, but a pod
// whose spec.nodeName is set by its author does not pass the scheduler. FAILED_PRECONDITION: the
// node does not match; the message says which nodes do. INVALID_ARGUMENT: the nodeAffinity is
// malformed.
base::Status CheckNodeAffinity(const api::PersistentVolume& volume, const api::Node& node);

// The name of the VolumeAttachment of this volume and node; "" if volumes of this kind are never
// attached.
std::string AttachmentNameOf(const api::PersistentVolume& pv, std::string_view node_name);

struct Attachment {
  bool attached = false;
  api::Labels publish_context;
  std::string reason;    // while not attached
  bool failed = false;   // the attacher reported an error, which `reason` quotes
  bool no_room = false;  // the error is that no more volumes fit on the node
};

class VolumeAttachments {
 public:
  VolumeAttachments(kube::Informers& informers, std::string node_name)
      : attachments_(informers.Of<api::VolumeAttachment>()),
        nodes_(informers.Of<api::Node>()),
        node_name_(std::move(node_name)) {}

  Attachment FindAttachment(const volume::VolumeSpec& spec, const std::string& device_name) const;

 private:
  kube::Informer<api::VolumeAttachment>& attachments_;
  kube::Informer<api::Node>& nodes_;
  const std::string node_name_;
};

}  // namespace berth::node
