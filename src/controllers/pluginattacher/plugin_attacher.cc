#include "controllers/pluginattacher/plugin_attacher.h"

#include "api/kinds/attachable.h"
#include "base/log.h"
#include "controllers/indexes.h"

namespace berth::controllers::pluginattacher {

using base::Error;
using base::KeyedWorkers;
using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr char kAll[] = "all";

}  // namespace

PluginAttacher::PluginAttacher(Context context, volume::PluginRegistry& plugins, Options options)
    : context_(context),
      plugins_(plugins),
      options_(options),
      attachments_(context.informers.Of<Attachment>()),
      volumes_(context.informers.Of<api::PersistentVolume>()),
      workers_({.name = "plugin-attach",
                .workers = options_.workers,
                .retry_start = options_.retry_start,
                .retry_max = options_.retry_max,
                .flight = context.flight},
               [this](const std::string& key) { return Sync(key); }),
      checker_({.name = "attach-check", .workers = 1},
               [this](const std::string&) { return CheckAll(); }) {
  AddAttachmentIndexes(attachments_);
  attachments_.AddHandler([this](const auto& change) {
    if (change.after == nullptr || change.after->attacher() != api::kFlexAttacher) return;
    if (change.before != nullptr && change.before->deleting() != change.after->deleting()) {
      workers_.AddNow(change.key);
    } else {
      workers_.Add(change.key);
    }
  });
  // An attachment may have been seen before its volume.
  volumes_.AddHandler([this](const auto& change) {
    if (change.before != nullptr) return;
    for (const auto& attachment : attachments_.ByIndex(kAttachmentsByVolume, change.key)) {
      if (attachment->attacher() == api::kFlexAttacher) workers_.AddNow(attachment->name());
    }
  });
}

PluginAttacher::~PluginAttacher() { Stop(); }

void PluginAttacher::Start() {
  workers_.Start();
  checker_.AddAfter(kAll, options_.check);
  checker_.Start();
}

void PluginAttacher::Stop() {
  checker_.Stop();
  workers_.Stop();
}

void PluginAttacher::PluginChanged(const std::string&) {
  attachments_.ForEach([this](const Attachment& attachment) {
    const bool settled = attachment.attached() && !attachment.deleting();
    if (attachment.attacher() == api::kFlexAttacher && !settled) {
      workers_.AddNow(attachment.name());
    }
  });
}

PluginAttacher::Outcome PluginAttacher::Sync(const std::string& key) {
  const auto attachment = attachments_.Get(key);
  if (attachment == nullptr || attachment->attacher() != api::kFlexAttacher) {
    return Outcome::Done();
  }
  if (attachment->deleting()) {
    return attachment->has_finalizer(kFinalizer) ? Detach(*attachment) : Outcome::Done();
  }
  if (!attachment->attached()) return Attach(*attachment);
  bool check = false;
  {
    MutexLock lock(mutex_);
    check = unchecked_.erase(key) > 0;
  }
  return check ? Check(*attachment) : Outcome::Done();
}

StatusOr<volume::VolumeSpec> PluginAttacher::SpecOf(const Attachment& attachment) const {
  const auto volume = volumes_.Get(attachment.pv_name());
  if (volume == nullptr) {
    return Error(StatusCode::kNotFound, "there is no PersistentVolume '{}'", attachment.pv_name());
  }
  // The attacher sets no finalizer on volumes. So a volume that is being deleted is not attached to
  // another node.
  if (volume->deleting()) {
    return Error(StatusCode::kFailedPrecondition, "PersistentVolume '{}' is marked for deletion",
                 volume->name());
  }
  return volume::VolumeSpec{.pv = volume,
                            .read_only = volume->Bool({"spec", "flexVolume", "readOnly"})};
}

StatusOr<std::shared_ptr<volume::VolumePlugin>> PluginAttacher::PluginFor(
    const volume::VolumeSpec& spec) const {
  ASSIGN_OR_RETURN(auto plugin, plugins_.Find(spec));
  if (plugin->attacher() != nullptr) return plugin;
  return Error(StatusCode::kFailedPrecondition, "volume plugin '{}' attaches nothing",
               plugin->name());
}

StatusOr<PluginAttacher::Attachment> PluginAttacher::HoldAttachment(const Attachment& attachment,
                                                                    const std::string& plugin) {
  if (attachment.has_finalizer(kFinalizer) && attachment.annotation(kPluginAnnotation) == plugin) {
    return attachment;
  }
  Json patch = FinalizersPatch(attachment, kFinalizer, "");
  patch["metadata"]["annotations"] = {{std::string(kPluginAnnotation), plugin}};
  return PatchAt(context_.client, attachments_, attachment, std::move(patch));
}

PluginAttacher::Outcome PluginAttacher::Attach(const Attachment& attachment) {
  // All errors that need no driver are found before the finalizer is written.
  const auto spec = SpecOf(attachment);
  if (!spec.ok()) return Failed(attachment, kAttachOperation, spec.status());
  const auto plugin = PluginFor(*spec);
  if (!plugin.ok()) return Failed(attachment, kAttachOperation, plugin.status());
  const auto held = HoldAttachment(attachment, std::string((*plugin)->name()));
  if (held.status().code() == StatusCode::kNotFound) return Outcome::Done();  // it is gone
  if (!held.ok()) return AfterApi(held.status());
  const auto device = (*plugin)->attacher()->Attach(*spec, api::NodeName(attachment.node_name()));
  if (!device.ok()) return Failed(*held, kAttachOperation, device.status());
  LOG_INFO("volume {} is attached to node {} (VolumeAttachment {})",
           base::Quote(attachment.pv_name()), base::Quote(attachment.node_name()),
           base::Quote(attachment.name()));
  return AfterApi(
      WriteAttached(context_, attachments_, *held, {{std::string(api::kDevicePath), *device}}));
}

PluginAttacher::Outcome PluginAttacher::Detach(const Attachment& attachment) {
  const std::string name = attachment.annotation(kPluginAnnotation);
  const auto plugin = plugins_.FindByName(name);
  if (plugin == nullptr || plugin->attacher() == nullptr) {
    return Failed(attachment, kDetachOperation,
                  Error(StatusCode::kUnavailable,
                        "volume plugin '{}', which attached it, is not there to detach it", name));
  }
  const Status detached = plugin->attacher()->Detach(api::VolumeName(attachment.pv_name()),
                                                     api::NodeName(attachment.node_name()));
  if (!detached.ok()) return Failed(attachment, kDetachOperation, detached);
  LOG_INFO("volume {} is detached from node {} (VolumeAttachment {})",
           base::Quote(attachment.pv_name()), base::Quote(attachment.node_name()),
           base::Quote(attachment.name()));
  const auto freed = PatchAt(context_.client, attachments_, attachment,
                             FinalizersPatch(attachment, "", kFinalizer));
  if (!freed.ok() || IsGone(*freed)) return AfterApi(freed.status());
  return AfterApi(WriteDetached(context_, attachments_, *freed));
}

PluginAttacher::Outcome PluginAttacher::CheckAll() {
  attachments_.ForEach([this](const Attachment& attachment) {
    if (attachment.attacher() != api::kFlexAttacher || !attachment.attached()) return;
    {
      MutexLock lock(mutex_);
      unchecked_.insert(attachment.name());
    }
    workers_.Add(attachment.name());
  });
  return Outcome::After(options_.check);
}

PluginAttacher::Outcome PluginAttacher::Check(const Attachment& attachment) {
  const auto spec = SpecOf(attachment);
  if (!spec.ok()) return Outcome::Done();
  const auto plugin = PluginFor(*spec);
  if (!plugin.ok()) return Outcome::Done();
  const auto attached =
      (*plugin)->attacher()->IsAttached(*spec, api::NodeName(attachment.node_name()));
  if (attached.status().code() == StatusCode::kUnimplemented) return Outcome::Done();
  if (!attached.ok()) {
    LOG_WARNING("whether volume {} is attached to node {} is not known: {}",
                base::Quote(attachment.pv_name()), base::Quote(attachment.node_name()),
                base::ToString(attached.status()));
    return Outcome::Done();
  }
  if (*attached) return Outcome::Done();
  context_.events.Record(attachment.reference(), base::EventType::kWarning, "VolumeNotAttached",
                         fmt::format("driver '{}' says that the volume is not attached to node "
                                     "'{}' any more; it is attached again",
                                     (*plugin)->name(), attachment.node_name()));
  return Attach(attachment);
}

}  // namespace berth::controllers::pluginattacher
