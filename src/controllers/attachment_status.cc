#include "controllers/attachment_status.h"

#include "api/time.h"
#include "base/log.h"
#include "base/utf8.h"
#include "controllers/csi_codec.h"

namespace berth::controllers {
namespace {

using base::KeyedWorkers;
using Attachment = api::VolumeAttachment;

// Kubernetes accepts at most so many bytes in the message of a VolumeError.
constexpr size_t kMaxErrorBytes = 1024;

// Cuts `text` at the limit, between two characters of UTF-8.
std::string Shortened(std::string text) {
  constexpr std::string_view kMore = "...";
  if (text.size() <= kMaxErrorBytes) return text;
  text.resize(base::CharacterEnd(text, kMaxErrorBytes - kMore.size()));
  return text.append(kMore);
}

void WriteError(const Context& context, kube::Informer<Attachment>& attachments,
                const Attachment& attachment, std::string_view field, const Status& status) {
  const std::string message = Shortened(FailureText(status));
  // The same message is not written again, because the event holds the time and the count.
  if (attachment.String({"status", field, "message"}) == message) return;
  Json error = {{"time", api::FormatTime(context.clock.Now())}, {"message", message}};
  // Go's attacher gives the code of an error of attaching alone. A null removes, by the merge
  // patch, the code that another failure left.
  const bool coded = field == kAttachOperation.error_field && IsOfDriver(status);
  error["errorCode"] = coded ? Json(static_cast<int>(status.code())) : Json();
  Json change;
  change[std::string(field)] = std::move(error);
  if (!attachment.attached()) change["attached"] = false;
  const Status written =
      Patch(context.client, attachments, attachment, {{"status", std::move(change)}}, "status")
          .status();
  if (!written.ok() && written.code() != StatusCode::kNotFound) {
    LOG_WARNING("attachment {}: its error could not be written: {}", base::Quote(attachment.name()),
                base::ToString(written));
  }
}

}  // namespace

Status WriteAttached(const Context& context, kube::Informer<Attachment>& attachments,
                     const Attachment& attachment,
                     const std::map<std::string, std::string>& metadata) {
  Json entries = Json::object();
  // The nulls remove the entries of an earlier publication, which this one replaces.
  for (const auto& [key, value] : attachment.attachment_metadata()) entries[key] = nullptr;
  for (const auto& [key, value] : metadata) entries[key] = value;
  Json status = {{"attached", true}, {"attachError", nullptr}};
  if (!entries.empty()) status["attachmentMetadata"] = std::move(entries);
  return Patch(context.client, attachments, attachment, {{"status", std::move(status)}}, "status")
      .status();
}

Status WriteDetached(const Context& context, kube::Informer<Attachment>& attachments,
                     const Attachment& attachment) {
  return Patch(context.client, attachments, attachment,
               {{"status",
                 {{"attached", false}, {"attachmentMetadata", nullptr}, {"detachError", nullptr}}}},
               "status")
      .status();
}

KeyedWorkers::Outcome ReportAttachmentFailure(const Context& context,
                                              kube::Informer<Attachment>& attachments,
                                              const Attachment& attachment,
                                              const AttachmentOperation& operation,
                                              const Status& status) {
  context.events.Record(attachment.reference(), base::EventType::kWarning, operation.event,
                        FailureText(status));
  WriteError(context, attachments, attachment, operation.error_field, status);
  return KeyedWorkers::Outcome::Retry(status);
}

}  // namespace berth::controllers
