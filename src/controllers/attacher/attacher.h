// Attaches volumes to nodes through one CSI driver (in Kubernetes: the sidecar external-attacher).
//
// A VolumeAttachment whose spec.attacher is the driver:
//
//   [wanted] ── volume's finalizer, own finalizer and node id written ──▶ ControllerPublishVolume
//     ▲  ▲                                                                     │            │
//     │  └── attachError written, again after the backoff ◀── any failure ─────┘            ▼
//     └───── ListVolumes says that it is not published to the node ◀─────────────────── [attached]
//
//   [deleted, own finalizer present: attached or perhaps attached] ──▶ ControllerUnpublishVolume
//      ▲                                                                     │            │
//      └── detachError written, again after the backoff ◀────────────────────┘            ▼
//                                                                finalizer off, attached=false
//
// The finalizer is the record before the call: a VolumeAttachment with it is detached before it is
// deleted, even if no publish ever answered. The same write records the node id that the driver
// gets; if the node has another id later, the volume is unpublished from the old one first. The
// finalizer of a PersistentVolume is removed when no VolumeAttachment names the volume, and the
// volume is deleted or its driver no longer replaces an in-tree plugin. A driver without
// PUBLISH_UNPUBLISH_VOLUME is not called: its VolumeAttachments are attached at once. CSINodes are
// listed once the driver has said that it can attach, so for other drivers no right to them is
// needed.
//
// A PersistentVolume of an in-tree plugin is attached and detached by the CSI driver that replaces
// the plugin (api/migration), if the VolumeAttachment names that driver. An inline volume is
// translated by who makes the VolumeAttachment.
//
// Writes: 3 for the first attachment of a volume without the finalizer, then 2; at most 2 for a
// detachment. Verbs: get, list and watch, and `patch` of PersistentVolumes, VolumeAttachments and
// their status.
//
// Errors are written to the VolumeAttachment's status and to an event, which the API may forbid.
// These writes do not end the backoff; the deletion of the attachment, the return of the driver,
// the registration of a node and a list of the driver that says something else do. If the API is
// away, no error is written.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "controllers/attacher/published.h"
#include "controllers/attachment_status.h"
#include "controllers/controller.h"
#include "controllers/driver_connection.h"

namespace berth::controllers::attacher {

struct Options {
  std::chrono::milliseconds timeout{15000};  // of each RPC
  int workers = 10;
  std::chrono::milliseconds retry_start{1000};
  std::chrono::milliseconds retry_max{300000};
  std::string default_fs_type;
  // How often all attachments are synced again, and how often they are compared with the answer of
  // ListVolumes (if the driver has LIST_VOLUMES and LIST_VOLUMES_PUBLISHED_NODES), the first time
  // at the start.
  std::chrono::milliseconds resync{600000};
  std::chrono::milliseconds reconcile_sync{60000};
  int max_entries = 0;  // of a page of ListVolumes; 0: the driver chooses
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

  void WatchAttachments();
  void WatchVolumes();
  void WatchNodes();
  void DriverReady();
  void QueueVolumes();

  Outcome SyncAttachment(const std::string& key);
  Outcome SyncVolume(const std::string& key);
  Outcome AttachWithoutDriver(const Attachment& attachment);

  // attach.cc
  Outcome Attach(const Attachment& attachment, const DriverInfo& driver);
  base::StatusOr<Volume> VolumeToAttach(const Attachment& attachment,
                                        const DriverInfo& driver) const;
  base::StatusOr<csi::v1::ControllerPublishVolumeRequest> PublishRequest(
      const Volume& volume, const std::string& node_id, const DriverInfo& driver) const;
  base::Status LeaveOldNode(const Attachment& attachment, const Volume& volume,
                            const std::string& node_id, const DriverInfo& driver);
  base::Status HoldVolume(const Volume& volume, const std::string& finalizer);
  base::StatusOr<Attachment> HoldAttachment(const Attachment& attachment,
                                            const std::string& finalizer,
                                            const std::string& node_id);
  Outcome MarkAttached(const Attachment& attachment,
                       const std::map<std::string, std::string>& publish_context);

  // detach.cc
  Outcome Detach(const Attachment& attachment, const DriverInfo& driver);
  base::Status TryDetach(const Attachment& attachment, const DriverInfo& driver);
  base::Status Unpublish(const Volume& volume, const std::string& node_id, VolumeOrigin origin);
  // Whether the API has the attachment's PersistentVolume no more.
  bool HasLostVolume(const Attachment& attachment) const;
  // Lets an attachment go whose PersistentVolume is gone, because nobody can detach it any more.
  Outcome ReleaseLostAttachment(const Attachment& attachment, const std::string& finalizer);
  Outcome ReleaseAttachment(const Attachment& attachment, const std::string& finalizer);

  // attachment_lookups.cc: finds the volume and the node id of an attachment, and reports its
  // failures. The volume: a PersistentVolume, or the inline volume in the attachment's spec. That
  // of an in-tree plugin has the source of its CSI driver. NOT_FOUND: there is no such
  // PersistentVolume.
  base::StatusOr<Volume> VolumeOf(const Attachment& attachment) const;
  static base::StatusOr<Volume> AsCsiVolume(const Volume& volume);
  // Whose volume it is, for the metrics. An inline volume was translated by who attaches it, and
  // counts as one of CSI, as in the Go attacher.
  VolumeOrigin OriginOf(const Attachment& attachment) const;
  // Whether the attachment needs a CSINode, while the first list of CSINodes is still under way.
  bool AwaitsCsiNodes(const Attachment& attachment) const;
  // The node's id in its CSINode, as the Go attacher.
  base::StatusOr<std::string> NodeIdToAttach(const Attachment& attachment,
                                             const std::string& driver) const;
  // The recorded node id that the driver got. An attachment from before there was a record has
  // none; then it is the node's present id.
  base::StatusOr<std::string> NodeIdToDetach(const Attachment& attachment,
                                             const std::string& driver) const;
  // Reports the failure on the attachment, unless only the API is away.
  Outcome ReportFailure(const Attachment& attachment, const AttachmentOperation& operation,
                        const base::Status& status);

  // reconcile.cc
  static constexpr char kResync[] = "resync";
  static constexpr char kReconcile[] = "reconcile";
  Outcome RunPeriodic(const std::string& key);
  void Resync(const DriverInfo& driver);
  base::Status Reconcile(const DriverInfo& driver);
  // The driver's attachments in the informer, sorted by name.
  std::vector<std::shared_ptr<const Attachment>> OwnAttachments(const DriverInfo& driver) const;
  // Whether the list says that the volume is published to the node; `fallback` if the list cannot
  // say this of the attachment.
  bool IsPublished(const Attachment& attachment, const DriverInfo& driver,
                   const PublishedNodes& published, bool fallback) const;

  const Context context_;
  DriverConnection& driver_;
  const Options options_;
  kube::Informer<Attachment>& attachments_;
  kube::Informer<Volume>& volumes_;
  kube::Informer<api::CsiNode>& csi_nodes_;  // started once the driver can attach
  base::Mutex mutex_;
  // Uids of attachments that are detached and released, while the informer may not know it yet.
  // They are kept because a second ControllerUnpublishVolume would detach the next attachment of
  // the same name.
  std::set<std::string> detached_ ABSL_GUARDED_BY(mutex_);
  // Uids of attachments to be published or unpublished once more whatever the object says, because
  // the driver lists another state.
  std::set<std::string> forced_ ABSL_GUARDED_BY(mutex_);
  std::stop_source stopping_;
  base::KeyedWorkers attachment_workers_;
  base::KeyedWorkers volume_workers_;
  base::KeyedWorkers periodic_worker_;
};

// On a VolumeAttachment: the node's id that the driver was given.
inline constexpr std::string_view kNodeIdAnnotation = "csi.alpha.kubernetes.io/node-id";

}  // namespace berth::controllers::attacher
