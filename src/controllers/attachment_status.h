// Writes the status of VolumeAttachments, for every controller that attaches volumes.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "api/kinds/kinds.h"
#include "controllers/controller.h"
#include "controllers/writes.h"

namespace berth::controllers {

// How the failures of the two operations are reported.
struct AttachmentOperation {
  std::string_view error_field;  // of the status
  std::string_view event;
};
inline constexpr AttachmentOperation kAttachOperation{"attachError", "FailedAttachVolume"};
inline constexpr AttachmentOperation kDetachOperation{"detachError", "FailedDetachVolume"};

// Writes that the volume is attached. `metadata` is for the node; it replaces the metadata of an
// earlier attachment.
Status WriteAttached(const Context& context, kube::Informer<api::VolumeAttachment>& attachments,
                     const api::VolumeAttachment& attachment,
                     const std::map<std::string, std::string>& metadata);

// Writes that the volume is detached, because the object may stay for the finalizer of another
// program, and it must not say then that the volume is attached.
Status WriteDetached(const Context& context, kube::Informer<api::VolumeAttachment>& attachments,
                     const api::VolumeAttachment& attachment);

// Reports a failure by an event and by the error in the status, and returns Retry. The status is
// not written again while the message stays the same.
base::KeyedWorkers::Outcome ReportAttachmentFailure(
    const Context& context, kube::Informer<api::VolumeAttachment>& attachments,
    const api::VolumeAttachment& attachment, const AttachmentOperation& operation,
    const Status& status);

}  // namespace berth::controllers
