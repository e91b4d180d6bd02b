// Checks all attachments periodically, although no object has changed (attacher.h).
#include "api/migration/translation.h"
#include "base/log.h"
#include "controllers/attacher/attacher.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::attacher {

using base::MutexLock;
using base::Status;

std::vector<std::shared_ptr<const Attacher::Attachment>> Attacher::OwnAttachments(
    const DriverInfo& driver) const {
  auto own = attachments_.List();
  std::erase_if(own, [&](const auto& item) { return item->attacher() != driver.name; });
  return own;
}

Attacher::Outcome Attacher::RunPeriodic(const std::string& key) {
  const auto driver = driver_.info();
  if (key == kResync) {
    if (driver != nullptr) Resync(*driver);
    return Outcome::After(options_.resync);
  }
  if (driver != nullptr && driver->Has(DriverInfo::Rpc::PUBLISH_UNPUBLISH_VOLUME) &&
      driver->Has(DriverInfo::Rpc::LIST_VOLUMES) &&
      driver->Has(DriverInfo::Rpc::LIST_VOLUMES_PUBLISHED_NODES)) {
    if (const Status compared = Reconcile(*driver); !compared.ok()) {
      LOG_WARNING("attachments of driver {} could not be compared with its volumes: {}",
                  base::Quote(driver->name), base::ToString(compared));
    }
  }
  return Outcome::After(options_.reconcile_sync);
}

// Queues all attachments. Keys that wait for their backoff keep waiting.
void Attacher::Resync(const DriverInfo& driver) {
  for (const auto& attachment : OwnAttachments(driver)) {
    attachment_workers_.Add(attachment->name());
  }
  QueueVolumes();
}

bool Attacher::IsPublished(const Attachment& attachment, const DriverInfo& driver,
                           const PublishedNodes& published, bool fallback) const {
  Volume volume;
  bool migrated = false;
  if (const base::Json* spec = attachment.inline_volume()) {
    volume.Set({"spec"}, *spec);
    // Only volumes of in-tree plugins are attached inline.
    migrated = !api::migration::PluginOf(driver.name).empty();
  } else if (const auto known = volumes_.Get(attachment.pv_name())) {
    migrated = api::migration::IsMigratable(*known);
    base::StatusOr<Volume> csi_volume = AsCsiVolume(*known);
    if (!csi_volume.ok()) return fallback;
    volume = *std::move(csi_volume);
  }
  if (!volume.has_csi() || !attachment.has_annotation(kNodeIdAnnotation) ||
      volume.csi().driver() != driver.name) {
    return fallback;
  }
  const std::string node_id = attachment.annotation(kNodeIdAnnotation);
  base::StatusOr<std::string> handle = volume.csi().volume_handle();
  if (migrated) {
    handle = api::migration::RepairHandle(driver.name, api::VolumeHandle(*handle), node_id);
  }
  if (!handle.ok()) return fallback;
  const auto nodes = published.find(*handle);
  return nodes != published.end() && nodes->second.contains(node_id);
}

Status Attacher::Reconcile(const DriverInfo& driver) {
  // Only attachments that were the same before and after the list can be compared with it. Those
  // that were changed meanwhile are skipped, because the queue handles them.
  const auto before = OwnAttachments(driver);
  std::set<std::string> under_way;
  {
    MutexLock lock(mutex_);
    under_way = forced_;
  }
  ASSIGN_OR_RETURN(const PublishedNodes published,
                   ListPublished(driver_, options_.max_entries, options_.timeout,
                                 Pages("volumes", stopping_.get_token(), {})));
  for (const auto& attachment : before) {
    const auto now = attachments_.Get(attachment->name());
    if (now == nullptr || now->uid() != attachment->uid() || under_way.contains(now->uid()) ||
        now->attached() != attachment->attached() || now->deleting() != attachment->deleting()) {
      continue;
    }
    const bool on_its_way =
        now->deleting() ? now->has_finalizer(AttacherFinalizer(driver.name)) : !now->attached();
    if (IsPublished(*now, driver, published, now->attached()) == now->attached()) continue;
    // What is on its way needs no force, but it may wait for a backoff of minutes.
    if (!on_its_way) {
      LOG_WARNING("attachment {} is {}, but its driver {} says otherwise", base::Quote(now->name()),
                  now->attached() ? "attached" : "not attached", base::Quote(driver.name));
      MutexLock lock(mutex_);
      forced_.insert(now->uid());
    }
    attachment_workers_.AddNow(now->name());
  }
  return base::OkStatus();
}

}  // namespace berth::controllers::attacher
