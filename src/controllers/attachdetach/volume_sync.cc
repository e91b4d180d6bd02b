// Attaches one volume to the nodes that want it, and detaches it from the others (attach_detach.h).
#include <fmt/ranges.h>

#include <algorithm>

#include "base/log.h"
#include "controllers/attachdetach/attach_detach.h"
#include "controllers/claims.h"
#include "controllers/indexes.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"
#include "kube/informers/live_object.h"

namespace berth::controllers::attachdetach {

using base::EventType;
using base::Json;
using base::KeyedWorkers;
using base::MutexLock;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr char kAttachedReport[] = "attached";

// Returns the outcome of the two that acts sooner. A failure goes before a delay.
KeyedWorkers::Outcome Combine(KeyedWorkers::Outcome a, KeyedWorkers::Outcome b) {
  if (!a.status.ok()) return a;
  if (!b.status.ok()) return b;
  if (a.delay.count() < 0) return b;
  return b.delay.count() >= 0 && b.delay < a.delay ? b : a;
}

bool IsShared(const api::PersistentVolume& volume) {
  const std::vector<std::string> modes = volume.access_modes();
  return std::any_of(modes.begin(), modes.end(), [](const std::string& mode) {
    return mode == "ReadWriteMany" || mode == "ReadOnlyMany";
  });
}

// The key holds a '/', which no name may, so it differs from the name of every VolumeAttachment.
std::string RefusalKey(const std::string& volume, const std::string& node) {
  return fmt::format("{}/{}", volume, node);
}

bool LooksLikeOurs(const std::string& name) {
  constexpr std::string_view kPrefix = "csi-";
  return name.starts_with(kPrefix) && name.size() == kPrefix.size() + 64 &&
         name.find_first_not_of("0123456789abcdef", kPrefix.size()) == std::string::npos;
}

}  // namespace

bool AttachDetach::IsManaged(const std::string& node) const {
  const auto object = nodes_.Get(node);
  return object != nullptr && object->annotation(kManagedAttachDetach) == "true";
}

StatusOr<bool> AttachDetach::AttachRequired(const Volume& volume) const {
  if (volume.has_csi()) {
    const auto object = drivers_.Get(volume.csi().driver());
    return object == nullptr || object->attach_required();
  }
  if (options_.plugins == nullptr || !api::AttachableOf(volume).has_value()) return false;
  const volume::VolumeSpec spec{.pv = std::make_shared<const Volume>(volume)};
  const auto plugin = options_.plugins->Find(spec);
  // The plugin is not on this machine. A driver that only mounts is not needed here. A driver that
  // has attached the volume is still needed, because it must detach the volume.
  if (plugin.status().code() == StatusCode::kNotFound) {
    return !attachments_.ByIndex(kAttachmentsByVolume, volume.name()).empty();
  }
  RETURN_IF_ERROR(plugin);
  if ((*plugin)->attacher() == nullptr) return false;
  return (*plugin)->NeedsAttach(spec);
}

std::optional<api::Attachable> AttachDetach::OwnInNodeLists(const std::string& unique_name) const {
  auto parsed = api::ParseUniqueName(unique_name);
  const bool of_plugin = parsed.has_value() && parsed->attacher == api::kFlexAttacher;
  if (of_plugin && options_.plugins == nullptr) return std::nullopt;
  return parsed;
}

std::optional<std::string> AttachDetach::UniqueName(const Attachment& attachment) const {
  const auto matches = [&](const api::Attachable& attachable) {
    return attachable.AttachmentName(api::NodeName(attachment.node_name())) == attachment.name();
  };
  if (const auto volume = volumes_.Get(attachment.pv_name()); volume != nullptr) {
    if (const auto attachable = api::AttachableOf(*volume)) {
      if (!matches(*attachable)) return std::nullopt;
      return attachable->unique_name;
    }
  }
  if (!LooksLikeOurs(attachment.name())) return std::nullopt;
  if (const auto node = nodes_.Get(attachment.node_name())) {
    std::vector<std::string> known = node->volumes_in_use();
    const std::vector<std::string> attached = node->volumes_attached();
    known.insert(known.end(), attached.begin(), attached.end());
    for (const std::string& name : known) {
      const auto parsed = OwnInNodeLists(name);
      if (parsed.has_value() && matches(*parsed)) return name;
    }
  }
  return "";
}

AttachDetach::Wanted AttachDetach::WantedNodes(const Volume& volume) const {
  Wanted wanted;
  const std::string claim_key = api::ObjectKey(volume.claim_namespace(), volume.claim_name());
  const auto claim = claims_.Get(claim_key);
  if (claim == nullptr || !IsBound(*claim) || claim->volume_name() != volume.name() ||
      claim->uid() != volume.claim_uid()) {
    return wanted;
  }
  for (const auto& pod : pods_.ByIndex(kPodsByClaim, claim_key)) {
    if (pod->node_name().empty() || pod->terminated()) continue;
    const auto node = nodes_.Get(pod->node_name());
    // By the taint a person states that the node runs nothing any more, so its deleted pods use no
    // volume.
    if (pod->deleting() && node != nullptr && node->has_taint(kOutOfServiceTaint)) continue;
    Users& users = wanted[pod->node_name()];
    users.objects.push_back(pod->reference());
    users.pod_names.push_back(pod->name());
  }
  if (host_mounts_ != nullptr) {
    for (const auto& mount : host_mounts_->ByIndex(kHostMountsByClaim, claim_key)) {
      if (!mount->node_name().empty()) {
        wanted[mount->node_name()].objects.push_back(mount->reference());
      }
    }
  }
  return wanted;
}

AttachDetach::Outcome AttachDetach::SyncVolume(const std::string& key) {
  const auto volume = volumes_.Get(key);
  Wanted wanted;
  if (volume != nullptr) {
    const StatusOr<bool> required = AttachRequired(*volume);
    // Until this is known nothing is attached or detached. PluginChanged queues the volume again.
    if (!required.ok()) return Outcome::Done();
    if (*required) wanted = WantedNodes(*volume);
  }
  Outcome outcome = Outcome::Done();
  // Detachments go first, because they may make the volume free for the next node.
  for (const auto& attachment : attachments_.ByIndex(kAttachmentsByVolume, key)) {
    if (attachment->deleting() || wanted.contains(attachment->node_name())) continue;
    if (nodes_.Get(attachment->node_name()) != nullptr && !IsManaged(attachment->node_name())) {
      continue;
    }
    if (const auto unique_name = UniqueName(*attachment)) {
      outcome = Combine(outcome, Detach(*attachment, *unique_name));
    }
  }
  std::set<std::string> refused;
  for (const auto& [node, users] : wanted) {
    if (!IsManaged(node)) continue;
    const auto attachments = attachments_.ByIndex(kAttachmentsByVolume, key);
    if (RefuseMultiAttach(*volume, node, users, attachments, wanted)) {
      refused.insert(RefusalKey(key, node));
      continue;
    }
    outcome = Combine(outcome, Attach(*volume, node, users, attachments));
  }
  ForgetRefusals(key, refused);
  return outcome;
}

void AttachDetach::ForgetRefusals(const std::string& volume, const std::set<std::string>& refused) {
  const std::string prefix = RefusalKey(volume, "");
  MutexLock lock(mutex_);
  for (auto it = reported_.lower_bound(prefix);
       it != reported_.end() && it->first.starts_with(prefix);) {
    it = refused.contains(it->first) ? std::next(it) : reported_.erase(it);
  }
}

void AttachDetach::Report(const Users& users, EventType type, std::string_view reason,
                          const std::string& message) {
  for (const base::ObjectReference& object : users.objects) {
    context_.events.Record(object, type, reason, message);
  }
}

bool AttachDetach::RefuseMultiAttach(
    const Volume& volume, const std::string& node, const Users& users,
    const std::vector<std::shared_ptr<const Attachment>>& attachments, const Wanted& wanted) {
  if (IsShared(volume)) return false;
  const Attachment* elsewhere = nullptr;
  for (const auto& attachment : attachments) {
    if (attachment->node_name() == node) return false;
    elsewhere = attachment.get();
  }
  if (elsewhere == nullptr) return false;
  std::string message = fmt::format("Multi-Attach error for volume \"{}\" ", volume.name());
  if (const auto it = wanted.find(elsewhere->node_name());
      it != wanted.end() && !it->second.pod_names.empty()) {
    message +=
        fmt::format("Volume is already used by pod(s) {}", fmt::join(it->second.pod_names, ", "));
  } else {
    message += fmt::format(
        "Volume is already exclusively attached to one node and can't be attached to another: it "
        "is "
        "still at node '{}'",
        elsewhere->node_name());
  }
  {
    MutexLock lock(mutex_);
    if (std::exchange(reported_[RefusalKey(volume.name(), node)], message) == message) return true;
  }
  Report(users, EventType::kWarning, "FailedAttachVolume", message);
  return true;
}

AttachDetach::Outcome AttachDetach::Attach(
    const Volume& volume, const std::string& node, const Users& users,
    const std::vector<std::shared_ptr<const Attachment>>& attachments) {
  for (const auto& attachment : attachments) {
    if (attachment->node_name() == node) return WatchAttached(*attachment, volume, users);
  }
  const api::Attachable attachable = *api::AttachableOf(volume);
  Attachment attachment;
  attachment.Set({"apiVersion"}, Attachment::kInfo.api_version());
  attachment.Set({"kind"}, std::string(Attachment::kInfo.kind));
  attachment.set_name(attachable.AttachmentName(api::NodeName(node)));
  attachment.Set({"spec"}, {{"attacher", attachable.attacher},
                            {"nodeName", node},
                            {"source", {{"persistentVolumeName", volume.name()}}}});
  {
    MutexLock lock(mutex_);
    reported_[attachment.name()].clear();
  }
  StatusOr<Attachment> created = kube::Create(context_.client, attachment);
  if (created.ok()) {
    LOG_INFO("volume {} is to be attached to node {} (VolumeAttachment {})",
             base::Quote(volume.name()), base::Quote(attachment.node_name()),
             base::Quote(attachment.name()));
    attachments_.Observe(created->json());
    return Outcome::Done();
  }
  if (created.status().code() != StatusCode::kAlreadyExists) {
    Report(users, EventType::kWarning, "FailedAttachVolume",
           fmt::format("AttachVolume.Attach failed for volume \"{}\" : {}", volume.name(),
                       base::Message(created.status())));
    return AfterApi(created.status());
  }
  const StatusOr<Attachment> existing =
      kube::ReadLiveObject(context_.client, attachments_, "", attachment.name());
  if (!existing.ok()) return AfterApi(existing.status());
  if (existing->pv_name() == volume.name()) return Outcome::Done();
  Report(
      users, EventType::kWarning, "FailedAttachVolume",
      fmt::format("AttachVolume.Attach failed for volume \"{}\" : the same volume is attached to "
                  "the node as PersistentVolume \"{}\"",
                  volume.name(), existing->pv_name()));
  return Outcome::Retry(base::Error(StatusCode::kAlreadyExists,
                                    "VolumeAttachment '{}' is of PersistentVolume '{}'",
                                    existing->name(), existing->pv_name()));
}

AttachDetach::Outcome AttachDetach::WatchAttached(const Attachment& attachment,
                                                  const Volume& volume, const Users& users) {
  if (attachment.deleting()) return Outcome::Done();  // its end queues the volume again
  const StatusOr<bool> alive = Revive(attachment);
  if (!alive.ok()) return AfterApi(alive.status());
  if (!*alive) return Outcome::Done();
  const std::string error = attachment.attach_error();
  const std::string report = attachment.attached() ? kAttachedReport : error;
  bool news = true;
  {
    MutexLock lock(mutex_);
    waiting_since_.erase(attachment.name());
    const auto [last, first] = reported_.try_emplace(attachment.name(), report);
    // An attachment that is attached when it is first seen is not reported, because then only this
    // controller has restarted.
    news = first ? !attachment.attached() : last->second != report;
    last->second = report;
  }
  if (!news) return Outcome::Done();
  if (attachment.attached()) {
    Report(users, EventType::kNormal, "SuccessfulAttachVolume",
           fmt::format("AttachVolume.Attach succeeded for volume \"{}\" ", volume.name()));
  } else if (!error.empty()) {
    Report(users, EventType::kWarning, "FailedAttachVolume",
           fmt::format("AttachVolume.Attach failed for volume \"{}\" : {}", volume.name(), error));
  }
  return Outcome::Done();
}

}  // namespace berth::controllers::attachdetach
