// Reads and writes what the contents of snapshots and of group snapshots have in common in the API:
// the secret that their annotations name, and the error in their status.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <string_view>

#include "api/time.h"
#include "controllers/controller.h"
#include "controllers/csi_codec.h"
#include "controllers/snapshotter/group_snapshotter.h"
#include "controllers/writes.h"

namespace berth::controllers::snapshotter {

// Reads the secret that two annotations of the content name; empty unless it has both.
// INVALID_ARGUMENT: one of them is empty. Other errors come from the API.
template <typename Content>
StatusOr<std::map<std::string, std::string>> ReadSecretOf(kube::Client& client,
                                                          const Content& content,
                                                          std::string_view name_annotation,
                                                          std::string_view namespace_annotation) {
  std::map<std::string, std::string> none;
  if (!content.has_annotation(name_annotation) || !content.has_annotation(namespace_annotation)) {
    return none;
  }
  const api::SecretReference reference{.name = content.annotation(name_annotation),
                                       .ns = content.annotation(namespace_annotation)};
  if (reference.name.empty() || reference.ns.empty()) {
    return base::Error(base::StatusCode::kInvalidArgument,
                       "annotations '{}' and '{}' name no secret: one is empty", name_annotation,
                       namespace_annotation);
  }
  return ReadSecret(client, reference);
}

// Records a warning about the content, and writes its message into the content's status. Does
// nothing if the status has that message.
template <typename Content>
void ReportErrorOf(const Context& context, kube::Informer<Content>& contents,
                   const Content& content, std::string_view reason, const std::string& message) {
  const auto current = contents.Get(content.name());
  if (current == nullptr || current->error() == message) return;
  context.events.Record(content.reference(), base::EventType::kWarning, reason, message);
  Json status = {{"error", {{"time", api::FormatTime(context.clock.Now())}, {"message", message}}}};
  if (!current->ready()) status["readyToUse"] = false;
  // The result is ignored, because the failed work is tried again in any case.
  (void)Patch(context.client, contents, *current, {{"status", std::move(status)}}, "status");
}

// What follows after a failed creation that was recorded in `content`: a deleted content that
// waited for the driver's answer goes now, and another one is tried again.
template <typename Content>
base::KeyedWorkers::Outcome AfterFailedCreation(const Content& content, const base::Status& why) {
  using Outcome = base::KeyedWorkers::Outcome;
  return ShouldDelete(content) ? Outcome::After(std::chrono::milliseconds(0)) : Outcome::Retry(why);
}

// The text of a failure as Go's snapshotter quotes it.
inline std::string QuotedFailure(const base::Status& status) {
  return Json(FailureText(status)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace berth::controllers::snapshotter
