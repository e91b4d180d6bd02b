#include "controllers/attacher/attacher.h"

#include "api/kinds/lease_names.h"
#include "base/log.h"
#include "controllers/indexes.h"
#include "controllers/queue_options.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"

namespace berth::controllers::attacher {

namespace {

// The subset of volumes for which MayBeLetGo is true: few of many thousands.
constexpr char kVolumesToLetGo[] = "toLetGo";

// How long an attachment waits between looks at CSINodes that are not listed yet. Its own CSINode
// ends the wait.
constexpr std::chrono::milliseconds kNodesWait{200};

// Whether SyncVolume could have something to do.
bool MayBeLetGo(const api::PersistentVolume& volume) {
  return volume.deleting() || !volume.has_csi();
}

}  // namespace

Attacher::Attacher(Context context, DriverConnection& driver, Options options)
    : context_(context),
      driver_(driver),
      options_(std::move(options)),
      attachments_(context.informers.Of<Attachment>()),
      volumes_(context.informers.Of<Volume>()),
      csi_nodes_(context.informers.OfDeferred<api::CsiNode>()),
      attachment_workers_(MakeQueueOptions("attach", options_.workers, options_, context),
                          [this](const std::string& key) { return SyncAttachment(key); }),
      volume_workers_(MakeQueueOptions("attach-volumes", 1, options_, context),
                      [this](const std::string& key) { return SyncVolume(key); }),
      periodic_worker_(MakeQueueOptions("attach-periodic", 1, options_, context),
                       [this](const std::string& key) { return RunPeriodic(key); }) {
  AddAttachmentIndexes(attachments_);
  volumes_.AddSubset(kVolumesToLetGo, &MayBeLetGo);
  WatchAttachments();
  WatchVolumes();
  WatchNodes();
  driver_.OnReady([this] { DriverReady(); });
}

Attacher::~Attacher() { Stop(); }

void Attacher::WatchAttachments() {
  attachments_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) {
      {
        base::MutexLock lock(mutex_);
        detached_.erase(change.before->uid());
        forced_.erase(change.before->uid());
      }
      if (const std::string volume = change.before->pv_name(); !volume.empty()) {
        volume_workers_.Add(volume);
      }
      return;
    }
    // Attachments of other drivers are skipped. Before the driver's first answer its name is not
    // known; SyncAttachment checks it again.
    if (const auto info = driver_.info();
        info != nullptr && info->name != change.after->attacher()) {
      return;
    }
    if (change.before != nullptr && change.before->deleting() != change.after->deleting()) {
      attachment_workers_.AddNow(change.key);
    } else {
      attachment_workers_.Add(change.key);
    }
  });
}

void Attacher::WatchVolumes() {
  volumes_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) return;
    if (MayBeLetGo(*change.after)) volume_workers_.Add(change.key);
    if (change.before != nullptr) return;
    // An attachment may have been seen before its volume.
    for (const auto& attachment : attachments_.ByIndex(kAttachmentsByVolume, change.key)) {
      attachment_workers_.AddNow(attachment->name());
    }
  });
}

void Attacher::WatchNodes() {
  csi_nodes_.AddHandler([this](const auto& change) {
    const auto info = driver_.info();
    if (info == nullptr || change.after == nullptr) return;
    const auto before = change.before != nullptr ? change.before->driver(info->name) : std::nullopt;
    const auto after = change.after->driver(info->name);
    if (!after.has_value() || (before.has_value() && before->node_id == after->node_id)) return;
    for (const auto& attachment : attachments_.ByIndex(kAttachmentsByNode, change.key)) {
      attachment_workers_.AddNow(attachment->name());
    }
  });
}

void Attacher::DriverReady() {
  const auto info = driver_.info();
  if (info->Has(DriverInfo::Rpc::PUBLISH_UNPUBLISH_VOLUME)) csi_nodes_.Start();
  for (const auto& attachment : OwnAttachments(*info)) {
    attachment_workers_.AddNow(attachment->name());
  }
  QueueVolumes();
  if (options_.reconcile_sync.count() > 0) periodic_worker_.AddNow(kReconcile);
}

void Attacher::QueueVolumes() {
  for (const auto& volume : volumes_.Subset(kVolumesToLetGo)) {
    volume_workers_.Add(volume->name());
  }
}

void Attacher::Start() {
  if (options_.resync.count() > 0) periodic_worker_.AddAfter(kResync, options_.resync);
  if (options_.reconcile_sync.count() > 0) periodic_worker_.Add(kReconcile);
  attachment_workers_.Start();
  volume_workers_.Start();
  periodic_worker_.Start();
}

void Attacher::Stop() {
  stopping_.request_stop();
  periodic_worker_.Stop();
  attachment_workers_.Stop();
  volume_workers_.Stop();
}

Attacher::Outcome Attacher::SyncAttachment(const std::string& key) {
  const auto driver = driver_.info();
  const auto attachment = attachments_.Get(key);
  if (driver == nullptr || attachment == nullptr || attachment->attacher() != driver->name) {
    return Outcome::Done();
  }
  if (!driver->Has(DriverInfo::Rpc::PUBLISH_UNPUBLISH_VOLUME)) {
    return AttachWithoutDriver(*attachment);
  }
  bool forced = false;
  bool detached = false;
  {
    base::MutexLock lock(mutex_);
    forced = forced_.contains(attachment->uid());
    detached = detached_.contains(attachment->uid());
  }
  if (detached && !forced) {
    // The write of attached=false may have failed. An object that the API removed is shown until
    // the watch says so, and needs none.
    const bool held = attachment->has_finalizer(AttacherFinalizer(driver->name));
    if (!attachment->attached() || held || IsGone(*attachment)) return Outcome::Done();
    return AfterApi(WriteDetached(context_, attachments_, *attachment));
  }
  const bool deleting = attachment->deleting();
  const bool has_work =
      forced || (deleting ? attachment->has_finalizer(AttacherFinalizer(driver->name))
                          : !attachment->attached());
  if (!has_work) return Outcome::Done();
  if (AwaitsCsiNodes(*attachment)) return Outcome::After(kNodesWait);
  Outcome outcome = deleting ? Detach(*attachment, *driver) : Attach(*attachment, *driver);
  if (forced) {
    // For this one try: if it has failed, the next comparison with the driver's list tells whether
    // another one is needed.
    base::MutexLock lock(mutex_);
    forced_.erase(attachment->uid());
  }
  return outcome;
}

Attacher::Outcome Attacher::AttachWithoutDriver(const Attachment& attachment) {
  if (attachment.deleting()) {
    // An earlier version of the driver could detach, so the attachment has the finalizer. This
    // version has nothing to detach.
    const std::string finalizer = AttacherFinalizer(attachment.attacher());
    if (!attachment.has_finalizer(finalizer)) return Outcome::Done();
    return AfterApi(PatchAt(context_.client, attachments_, attachment,
                            FinalizersPatch(attachment, "", finalizer))
                        .status());
  }
  if (attachment.attached()) return Outcome::Done();
  // An earlier version of the driver may have left an error.
  const Status written = WriteAttached(context_, attachments_, attachment, {});
  if (written.ok()) {
    LOG_INFO("VolumeAttachment {} of node {} counts as attached: driver {} attaches nothing",
             base::Quote(attachment.name()), base::Quote(attachment.node_name()),
             base::Quote(attachment.attacher()));
  }
  return AfterApi(written);
}

Attacher::Outcome Attacher::SyncVolume(const std::string& key) {
  const auto driver = driver_.info();
  const auto volume = volumes_.Get(key);
  if (driver == nullptr || volume == nullptr) return Outcome::Done();
  // A volume of an in-tree plugin belongs to the driver only while it has the annotation
  // migrated-to; without it the volume belongs to the plugin again.
  const bool given_back = !volume->has_csi() && volume->annotation(kMigratedTo) != driver->name;
  if (!volume->deleting() && !given_back) return Outcome::Done();
  const std::string finalizer = AttacherFinalizer(driver->name);
  if (!volume->has_finalizer(finalizer)) return Outcome::Done();
  // An attachment that names the volume is detached first; its end queues the volume again. An
  // attachment that is created from now on is refused, because the volume is being deleted.
  if (!attachments_.ByIndex(kAttachmentsByVolume, key).empty()) return Outcome::Done();
  return AfterApi(
      PatchAt(context_.client, volumes_, *volume, FinalizersPatch(*volume, "", finalizer))
          .status());
}

}  // namespace berth::controllers::attacher
