// What whoever attaches volumes writes into the status of their VolumeAttachments.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "controllers/controller.h"
#include "controllers/writes.h"

namespace berth::controllers {

// What the two operations differ in when they fail.
struct AttachmentOperation {
  std::string_view error_field;  // of the status
  std::string_view event;
};
inline constexpr AttachmentOperation kAttachOperation{"attachError", "FailedAttachVolume"};
inline constexpr AttachmentOperation kDetachOperation{"detachError", "FailedDetachVolume"};

// With `metadata` for the node, in place of what an earlier attachment gave.
Status WriteAttached(const Context& context, kube::Informer<api::VolumeAttachment>& attachments,
                     const api::VolumeAttachment& attachment,
                     const std::map<std::string, std::string>& metadata);

// Somebody else's finalizer keeps the object; it must not say that the volume is attached.
Status WriteDetached(const Context& context, kube::Informer<api::VolumeAttachment>& attachments,
                     const api::VolumeAttachment& attachment);

// Tells of a failure: an event, and the error in the status, once while it is the same.
base::KeyedWorkers::Outcome AttachmentFailed(const Context& context,
                                             kube::Informer<api::VolumeAttachment>& attachments,
                                             const api::VolumeAttachment& attachment,
                                             const AttachmentOperation& operation,
                                             const Status& status);

}  // namespace berth::controllers
