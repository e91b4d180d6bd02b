// The part of Attachments that settles a use which the fence does not name any more.
//
//   the fence lacks the use ──┬── another's entry is there, or a NodeCleanup names the use
//                             │        ─▶ taken off by force: another node may have the volume
//                             ├── the pod is gone            ─▶ taken off as usual
//                             ├── the device is lost         ─▶ taken off
//                             └── otherwise the object was lost: somebody deleted it, its kind was
//                                 installed again, or an older backup was restored
//                                      ─▶ the entry is written again
//
// Whoever breaks a fence writes the NodeCleanup first (fence.h), so a missing entry alone says
// nothing about another node. The device holds the image's lock until it is gone, so no other node
// has mapped the image meanwhile, where the back end has locks.
#include <algorithm>

#include "base/log.h"
#include "blockagent/attachment_references.h"
#include "blockagent/attachments.h"

namespace berth::blockagent {
namespace {

using api::FenceEntry;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;

// Whether the node's NodeCleanup tells it to take that use off.
StatusOr<bool> IsToBeTakenOff(kube::Client& client, const std::string& volume,
                              const FenceEntry& use) {
  const auto cleanup = kube::Get<api::NodeCleanup>(client, "", use.node);
  if (cleanup.status().code() == StatusCode::kNotFound) return false;
  RETURN_IF_ERROR(cleanup);
  return std::ranges::any_of(cleanup->entries(), [&](const api::CleanupEntry& entry) {
    return entry.volume == volume && entry.attachment.pod_uid == use.pod_uid;
  });
}

}  // namespace

void Attachments::ReportLost(const Record& record, const FenceEntry& use) {
  const std::string text =
      fmt::format("the fence of volume {} no longer names {}: it is taken off node {} by force",
                  Quote(record.volume), Describe(use), Quote(options_.node));
  LOG_WARNING("{}", text);
  for (const auto& object : {ReferenceTo(record), ReferenceTo(use)}) {
    parts_.events.Record(object, base::EventType::kWarning, "FenceLost", text);
  }
}

Status Attachments::TakeOffLost(const Record& record, const Use& use) {
  if (use.state == State::kMounted) {
    ReportLost(record, use.entry);
    return TakeOffLocked(record, use.entry, {.on = true});
  }
  const Status done = TakeOffLocked(record, use.entry, {});
  // Force is safe, because only leftovers of this node can block the unmount.
  return done.ok() ? done : TakeOffLocked(record, use.entry, {.on = true});
}

Status Attachments::SettleLostUse(const Record& record, const Use& use,
                                  const std::vector<FenceEntry>& entries) {
  if (use.state != State::kMounted || !record.mapping.has_value()) return TakeOffLost(record, use);
  ASSIGN_OR_RETURN(const bool to_be_taken_off,
                   IsToBeTakenOff(parts_.client, record.volume, use.entry));
  ASSIGN_OR_RETURN(const FenceRequest request, MakeRequestAgain(record, use.entry));
  if (to_be_taken_off || !FindConflicts(entries, request).empty()) return TakeOffLost(record, use);
  ASSIGN_OR_RETURN(const bool gone, IsPodGone(parts_.client, use.entry));
  if (gone) return TakeOffLocked(record, use.entry, {});
  ASSIGN_OR_RETURN(const BackendPtr backend, OpenBackend(record.backend));
  const Status sound = backend->Check(*record.mapping);
  if (sound.code() == StatusCode::kDataLoss) return TakeOffLost(record, use);
  RETURN_IF_ERROR(sound);
  return RestoreFence(record, use, request);
}

StatusOr<FenceRequest> Attachments::MakeRequestAgain(const Record& record,
                                                     const FenceEntry& entry) {
  FenceRequest request{.volume = record.volume, .entry = entry, .fs_type = record.fs_type};
  const auto pv = kube::Get<api::PersistentVolume>(parts_.client, "", record.volume);
  if (pv.ok()) {
    request.sharing = SharingOf(pv->access_modes(), record.fs_type);
    return request;
  }
  if (pv.status().code() != StatusCode::kNotFound) return pv.status();
  // Without the object only the uses on this node say who shares the volume.
  request.sharing = record.uses.size() > 1 ? Sharing::kOneNode : Sharing::kOnePod;
  return request;
}

Status Attachments::RestoreFence(Record record, const Use& use, const FenceRequest& request) {
  // While the fence did not name this node, another one may have used the file system that mkfs had
  // not finished here.
  if (!record.formatting_uuid.empty()) {
    record.formatting_uuid.clear();
    RETURN_IF_ERROR(records_->Put(record));
  }
  const auto written =
      fences_.Acquire(request,
                      {.volume = ReferenceTo(record),
                       .pod = ReferenceTo(use.entry),
                       .cluster_name = record.cluster,
                       .image = record.image},
                      // An entry that another agent writes meanwhile is not to be broken.
                      {.find_facts = [](const FenceEntry&) { return ConsumerFacts{}; }});
  if (written.status().code() == StatusCode::kFailedPrecondition) return TakeOffLost(record, use);
  RETURN_IF_ERROR(written);
  const std::string text = fmt::format(
      "the fence of volume {} did not name {} although it uses the volume on node {}, "
      "and names it again: the object was deleted or replaced",
      Quote(record.volume), Describe(use.entry), Quote(options_.node));
  LOG_INFO("{}", text);
  for (const auto& object : {ReferenceTo(record), ReferenceTo(use.entry)}) {
    parts_.events.Record(object, base::EventType::kWarning, "FenceRestored", text);
  }
  ReportDevice(record, "Attached", "", &*written);
  return base::OkStatus();
}

}  // namespace berth::blockagent
