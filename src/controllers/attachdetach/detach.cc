// When a volume may leave a node, and how (attach_detach.h).
#include <algorithm>

#include "base/log.h"
#include "controllers/attachdetach/attach_detach.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"

namespace berth::controllers::attachdetach {

using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

bool OutcomeUnknown(const Status& status) {
  return status.code() == StatusCode::kUnavailable ||
         status.code() == StatusCode::kDeadlineExceeded || status.code() == StatusCode::kCancelled;
}

}  // namespace

StatusOr<AttachDetach::Safety> AttachDetach::CheckSafety(const Attachment& attachment,
                                                         const std::string& unique_name) {
  const auto node = nodes_.Get(attachment.node_name());
  if (node == nullptr) {
    // Only the API knows that a node is gone.
    const StatusOr<api::Node> live =
        kube::Get<api::Node>(context_.client, "", attachment.node_name());
    if (live.status().code() == StatusCode::kNotFound) return Safety{.safe = true};
    RETURN_IF_ERROR(live);
    return Safety{.look_again = milliseconds(100)};
  }
  const std::vector<std::string> in_use = node->volumes_in_use();
  const bool free = std::find(in_use.begin(), in_use.end(), unique_name) == in_use.end();
  const bool out_of_service = node->has_taint(kOutOfServiceTaint);
  MutexLock lock(mutex_);
  if (free || out_of_service) {
    waiting_since_.erase(attachment.name());
    return Safety{.safe = true, .forced = !free};
  }
  if (node->ready() || options_.disable_force_detach_on_timeout) {
    waiting_since_.erase(attachment.name());
    return Safety{};
  }
  const auto now = steady_clock::now();
  const auto [since, first] = waiting_since_.try_emplace(attachment.name(), now);
  const auto waited = std::chrono::duration_cast<milliseconds>(now - since->second);
  if (waited >= options_.max_wait_for_unmount) return Safety{.safe = true, .forced = true};
  return Safety{.look_again = options_.max_wait_for_unmount - waited};
}

AttachDetach::Outcome AttachDetach::Detach(const Attachment& attachment,
                                           const std::string& unique_name) {
  const StatusOr<Safety> safety = CheckSafety(attachment, unique_name);
  if (!safety.ok()) return AfterApi(safety.status());
  if (!safety->safe) {
    {
      MutexLock lock(mutex_);
      departures_.erase(attachment.name());
    }
    return safety->look_again.has_value() ? Outcome::After(*safety->look_again) : Outcome::Done();
  }
  {
    MutexLock lock(mutex_);
    const auto [departure, first] =
        departures_.try_emplace(attachment.name(), Departure{.node = attachment.node_name(),
                                                             .volume = attachment.pv_name(),
                                                             .unique_name = unique_name,
                                                             .forced = safety->forced});
    departure->second.forced = safety->forced;
    if (!departure->second.taken_off) {
      // The node's queue confirms that the entry is removed, and then queues the volume again.
      node_workers_.AddNow(attachment.node_name());
      return Outcome::Done();
    }
  }
  if (safety->forced) {
    LOG_WARNING(
        "detaching volume {} from node {} although the node reports it in use: the node is "
        "out of service, or has been not ready for too long",
        base::Quote(unique_name), base::Quote(attachment.node_name()));
  }
  const Status deleted = kube::Delete(context_.client, attachment);
  if (deleted.ok()) {
    LOG_INFO("volume {} is to be detached from node {} (VolumeAttachment {})",
             base::Quote(attachment.pv_name()), base::Quote(attachment.node_name()),
             base::Quote(attachment.name()));
  }
  if (!deleted.ok() && !OutcomeUnknown(deleted)) {
    // The volume stays attached, so the node's queue may list it in volumesAttached again.
    MutexLock lock(mutex_);
    departures_.erase(attachment.name());
    node_workers_.Add(attachment.node_name());
  }
  return AfterApi(deleted);
}

StatusOr<bool> AttachDetach::Revive(const Attachment& attachment) {
  {
    MutexLock lock(mutex_);
    if (!departures_.contains(attachment.name())) return true;
  }
  // The API is asked, because the object may be deleted already without the informer knowing it.
  const StatusOr<Attachment> live = kube::Get<Attachment>(context_.client, "", attachment.name());
  if (live.status().code() == StatusCode::kNotFound) return false;
  RETURN_IF_ERROR(live);
  if (live->deleting() || live->uid() != attachment.uid()) return false;
  MutexLock lock(mutex_);
  departures_.erase(attachment.name());
  node_workers_.Add(attachment.node_name());
  return true;
}

void AttachDetach::Forget(const std::string& attachment) {
  MutexLock lock(mutex_);
  departures_.erase(attachment);
  waiting_since_.erase(attachment);
  reported_.erase(attachment);
}

}  // namespace berth::controllers::attachdetach
