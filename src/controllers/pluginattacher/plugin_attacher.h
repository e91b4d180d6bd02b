// Attaches volumes to nodes through plugins of this process: Flexvolume drivers that attach (in
// Kubernetes: a part of the attach/detach controller, which keeps no record of what it began).
//
// A VolumeAttachment whose spec.attacher is api::kFlexAttacher:
//
//   [wanted] ── finalizer and driver written ──▶ attach ── failed ──▶ attachError, again after the
//      ▲                                           │                  backoff
//      │                                           ▼
//      └───── the driver says that it is not ── [attached, with the device]
//
//   [deleted, finalizer present: attached or perhaps attached] ──▶ detach ──▶ finalizer off
//
// The finalizer is the record before the call: an attachment with it is detached before it is
// deleted, even if no attach ever answered. The driver's name is recorded too, because detach needs
// it when the PersistentVolume is gone.
#pragma once

#include <chrono>
#include <memory>
#include <set>
#include <string>

#include "api/kinds/kinds.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "controllers/attachment_status.h"
#include "controllers/controller.h"
#include "volume/plugin_registry.h"
#include "volume/volume_attacher.h"

namespace berth::controllers::pluginattacher {

struct Options {
  int workers = 10;
  std::chrono::milliseconds retry_start{1000};
  std::chrono::milliseconds retry_max{300000};
  // How often drivers are asked whether attached volumes are still attached.
  std::chrono::milliseconds check{60000};
};

inline constexpr std::string_view kFinalizer = "storage.berth.dev/plugin-attacher";
// On a VolumeAttachment: the plugin that attaches it.
inline constexpr std::string_view kPluginAnnotation = "storage.berth.dev/attached-by";

class PluginAttacher : public Controller {
 public:
  // `plugins` is borrowed, and outlives this.
  PluginAttacher(Context context, volume::PluginRegistry& plugins, Options options = {});
  ~PluginAttacher() override;

  std::string_view name() const override { return "plugin-attacher"; }
  void Start() override;
  void Stop() override;
  // To be called when a plugin of the registry has become ready, has failed, or is gone.
  void PluginChanged(const std::string& plugin);

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Attachment = api::VolumeAttachment;

  Outcome Sync(const std::string& key);
  Outcome Attach(const Attachment& attachment);
  Outcome Detach(const Attachment& attachment);
  // Attaches the volume again if its driver says that it is not attached any more.
  Outcome Check(const Attachment& attachment);
  Outcome CheckAll();
  base::StatusOr<volume::VolumeSpec> SpecOf(const Attachment& attachment) const;
  // The plugin of the volume. FAILED_PRECONDITION: it does not attach volumes. Other errors come
  // from the registry.
  base::StatusOr<std::shared_ptr<volume::VolumePlugin>> PluginFor(
      const volume::VolumeSpec& spec) const;
  base::StatusOr<Attachment> HoldAttachment(const Attachment& attachment,
                                            const std::string& plugin);
  Outcome Failed(const Attachment& attachment, const AttachmentOperation& operation,
                 const base::Status& status) {
    return ReportAttachmentFailure(context_, attachments_, attachment, operation, status);
  }

  const Context context_;
  volume::PluginRegistry& plugins_;
  const Options options_;
  kube::Informer<Attachment>& attachments_;
  kube::Informer<api::PersistentVolume>& volumes_;
  base::Mutex mutex_;
  std::set<std::string> unchecked_ ABSL_GUARDED_BY(mutex_);  // attachments that Check is due for
  base::KeyedWorkers workers_;
  base::KeyedWorkers checker_;
};

}  // namespace berth::controllers::pluginattacher
