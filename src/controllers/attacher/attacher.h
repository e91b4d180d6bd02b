// Attaches volumes to nodes through one CSI driver (in Kubernetes: the sidecar external-attacher).
//
// A VolumeAttachment whose spec.attacher is the driver:
//
//   [wanted] ── volume's finalizer, own finalizer and node id written ──▶ ControllerPublishVolume
//      ▲                                                                     │            │
//      └── attachError written, again after the backoff ◀── failed, whatever ┘            ▼
//                                                          the outcome              [attached]
//
//   [deleted, own finalizer present: attached or perhaps attached] ──▶ ControllerUnpublishVolume
//      ▲                                                                     │            │
//      └── detachError written, again after the backoff ◀────────────────────┘            ▼
//                                                                finalizer off, attached=false
//
// The finalizer is the record before the call: a VolumeAttachment with it is detached before it
// goes, even if no publish ever answered. A PersistentVolume's finalizer goes when the volume is
// deleted and no VolumeAttachment names it. A driver without PUBLISH_UNPUBLISH_VOLUME has nothing
// to do: its VolumeAttachments are attached at once.
//
// Errors stand in the VolumeAttachment's status; writing them does not shorten the backoff, while
// its deletion, the driver's return and a node's registration do.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "api/kinds.h"
#include "base/keyed_workers.h"
#include "base/mutex.h"
#include "controllers/controller.h"
#include "controllers/driver_connection.h"

namespace berth::controllers::attacher {

struct Options {
  std::chrono::milliseconds timeout{15000};  // of each RPC
  int workers = 10;
  std::chrono::milliseconds retry_start{1000};
  std::chrono::milliseconds retry_max{300000};
  std::string default_fs_type;
};

class Attacher : public Controller {
 public:
  // `driver` is borrowed and outlives the attacher; it may be started before or after.
  Attacher(Context context, DriverConnection& driver, Options options = {});
  ~Attacher() override;

  std::string_view name() const override { return "attacher"; }
  void Start() override;
  void Stop() override;

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Attachment = api::VolumeAttachment;
  using Volume = api::PersistentVolume;
  using PublishContext = std::map<std::string, std::string>;

  void Watch();
  void DriverReady();

  Outcome SyncAttachment(const std::string& key);
  Outcome SyncVolume(const std::string& key);
  Outcome AttachWithoutDriver(const Attachment& attachment);

  // attach.cc
  Outcome Attach(const Attachment& attachment, const DriverInfo& driver);
  base::StatusOr<Volume> VolumeToAttach(const Attachment& attachment,
                                        const DriverInfo& driver) const;
  base::StatusOr<PublishContext> Publish(const Volume& volume, const std::string& node_id,
                                         const DriverInfo& driver);
  Outcome Detach(const Attachment& attachment, const DriverInfo& driver);
  base::Status TryDetach(const Attachment& attachment, const DriverInfo& driver);
  // The volume of the attachment: a PersistentVolume, or the one that it spells out itself.
  base::StatusOr<Volume> VolumeOf(const Attachment& attachment) const;
  base::StatusOr<std::string> NodeId(const Attachment& attachment, const std::string& driver) const;
  base::Status HoldVolume(const Volume& volume, const std::string& finalizer);
  base::StatusOr<Attachment> HoldAttachment(const Attachment& attachment,
                                            const std::string& finalizer,
                                            const std::string& node_id);
  // Writes status.attachError or detachError, if it says something new.
  void WriteError(const Attachment& attachment, std::string_view field, const base::Status& status);

  const Context context_;
  DriverConnection& driver_;
  const Options options_;
  kube::Informer<Attachment>& attachments_;
  kube::Informer<Volume>& volumes_;
  kube::Informer<api::CsiNode>& csi_nodes_;
  base::Mutex mutex_;
  // Detached and let go, while the informer may not know it yet: by uid. A second
  // ControllerUnpublishVolume would be for the next attachment of the same name.
  std::set<std::string> detached_ ABSL_GUARDED_BY(mutex_);
  base::KeyedWorkers attachment_workers_;
  base::KeyedWorkers volume_workers_;
};

// "external-attacher/" and the driver's name: on VolumeAttachments and PersistentVolumes.
std::string FinalizerName(std::string_view driver);

}  // namespace berth::controllers::attacher
