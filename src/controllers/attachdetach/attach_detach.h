// Decides which volume is attached to which node (in Kubernetes: the attachdetach controller). It
// writes VolumeAttachments, which a driver's attacher fulfils, and Node.status.volumesAttached,
// which tells the node what it may use.
//
// For a volume and a node, in the volume's own serial queue:
//
//   [nothing] ── a pod on the node uses it ──▶ VolumeAttachment created ── attached ──┐
//      │  ▲                                                                           ▼
//      │  └── it has left ───────────┐                            [attached: in volumesAttached]
//      │ another node has it,        │                                                │
//      │ and only one may            │                                no pod there    │
//      ▼                             │                                uses it, and    │
//   [refused: "Multi-Attach error"] ─┘                                it is safe      ▼
//   VolumeAttachment deleted ◀── patch written ── [being detached: not in volumesAttached]
//
// A detach is safe (docs/design.md, rule 8) in one of these cases: the node does not report the
// volume in volumesInUse; or the node is gone; or it has the taint
// node.kubernetes.io/out-of-service; or it has not been ready for six minutes without a break since
// the controller wanted to detach the volume. The controller removes the entry from volumesAttached
// by a patch on the version of the Node whose volumesInUse it read. Before a node uses a volume, it
// writes volumesInUse and reads volumesAttached in the answer. So either the controller sees the
// use, or the node sees that the entry is gone.
//
// The node never gets a VolumeAttachment back that is being deleted, not even if its detach fails.
// A pod that wants the volume back there waits until the object is gone, and gets a new one.
//
// All that this controller knows is in objects: after a restart it continues with the
// VolumeAttachments that it finds, and only the six minutes begin anew. VolumeAttachments of other
// programs (whose name is not the one derived from volume, driver and node) count as attached, and
// the controller does not change them. It does not change those of nodes without the annotation
// volumes.kubernetes.io/controller-managed-attach-detach either.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/attachable.h"
#include "api/kinds/kinds.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "controllers/controller.h"
#include "volume/plugin_registry.h"

namespace berth::controllers::attachdetach {

struct Options {
  // How long a node must have been not ready before a volume that it reports in use is detached.
  // Not less than the time a node takes to stop using volumes when it loses the API.
  std::chrono::milliseconds max_wait_for_unmount = std::chrono::minutes(6);
  bool disable_force_detach_on_timeout = false;
  // Whether HostMounts count as users of claims. False if the API does not serve that kind.
  bool host_mounts = true;
  // The volumes of these plugins are attached too, if the plugin has an attacher (pluginattacher/).
  // Borrowed; null: only volumes of CSI drivers are attached.
  volume::PluginRegistry* plugins = nullptr;
};

class AttachDetach : public Controller {
 public:
  explicit AttachDetach(Context context, Options options = {});
  ~AttachDetach() override;

  std::string_view name() const override { return "attachdetach"; }
  void Start() override;
  void Stop() override;
  // To be called when a plugin of options.plugins has become ready, or is gone.
  void PluginChanged(const std::string& plugin);

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Attachment = api::VolumeAttachment;
  using Volume = api::PersistentVolume;
  using SteadyTime = std::chrono::steady_clock::time_point;

  // The pods and host mounts that use a volume on a node.
  struct Users {
    std::vector<base::ObjectReference> objects;  // pods and host mounts
    std::vector<std::string> pod_names;
  };
  using Wanted = std::map<std::string, Users>;  // by node

  void AddHandlers();
  void AddClaim(const std::string& claim_key);
  void AddNode(const std::string& node);

  // volume_sync.cc
  Outcome SyncVolume(const std::string& key);
  Wanted WantedNodes(const Volume& volume) const;
  Outcome Attach(const Volume& volume, const std::string& node, const Users& users,
                 const std::vector<std::shared_ptr<const Attachment>>& attachments);
  Outcome WatchAttached(const Attachment& attachment, const Volume& volume, const Users& users);
  void ForgetRefusals(const std::string& volume, const std::set<std::string>& refused);
  bool RefuseMultiAttach(const Volume& volume, const std::string& node, const Users& users,
                         const std::vector<std::shared_ptr<const Attachment>>& attachments,
                         const Wanted& wanted);
  void Report(const Users& users, base::EventType type, std::string_view reason,
              const std::string& message);
  bool IsManaged(const std::string& node) const;
  // Whether the volume must be attached before it is used. UNAVAILABLE: this is not known yet.
  base::StatusOr<bool> AttachRequired(const Volume& volume) const;
  // As api::ParseUniqueName; nullopt for a name that this controller does not manage.
  std::optional<api::Attachable> OwnInNodeLists(const std::string& unique_name) const;

  // The name of the attachment's volume in node lists. nullopt if another program made the
  // attachment; "" if the volume is gone and the node does not know it.
  std::optional<std::string> UniqueName(const Attachment& attachment) const;

  // detach.cc
  Outcome Detach(const Attachment& attachment, const std::string& unique_name);
  struct Safety {
    bool safe = false;
    bool forced = false;  // although the node reports it in use
    // If unsafe: the time after which the answer must be computed again, unless an event comes
    // before. nullopt: only an event can change the answer.
    std::optional<std::chrono::milliseconds> look_again;
  };
  base::StatusOr<Safety> CheckSafety(const Attachment& attachment, const std::string& unique_name);
  void Forget(const std::string& attachment);
  // Cancels the detachment, because the attachment is wanted again. False: it is deleted already.
  base::StatusOr<bool> Revive(const Attachment& attachment);

  // node_sync.cc
  Outcome SyncNode(const std::string& key);
  // The volumes that are attached to the node, by unique name, with their device ("": none).
  std::map<std::string, std::string> AttachedVolumes(const std::string& node);
  // The names of the VolumeAttachments whose volumes must be removed from the node's list.
  std::set<std::string> DeparturesFrom(const std::string& node);
  // If the outcome of the last write to the node is unknown, reads the node from the API.
  base::Status ReadUncertainNode(const std::string& key);
  // Cancels the departures of volumes that the node reports in use, and removes them from
  // `attachments`.
  void KeepUsed(std::set<std::string>& attachments, const api::Node& node);
  // Notes that the node's list has no volume of `attachments`, and queues the volumes.
  void ConfirmRemoved(const std::set<std::string>& attachments);

  const Context context_;
  const Options options_;
  kube::Informer<api::Pod>& pods_;
  kube::Informer<api::Node>& nodes_;
  kube::Informer<api::PersistentVolumeClaim>& claims_;
  kube::Informer<Volume>& volumes_;
  kube::Informer<Attachment>& attachments_;
  kube::Informer<api::CsiDriver>& drivers_;
  kube::Informer<api::HostMount>* const host_mounts_;  // nullptr: off

  base::Mutex mutex_;
  // The VolumeAttachments to be deleted, by name. First the node's queue removes their volumes from
  // volumesAttached; then they are deleted.
  struct Departure {
    std::string node;
    std::string volume;       // PersistentVolume
    std::string unique_name;  // in node lists
    bool forced = false;
    bool taken_off = false;
  };
  std::map<std::string, Departure> departures_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> uncertain_nodes_ ABSL_GUARDED_BY(mutex_);
  // The time since which a VolumeAttachment is to be deleted while its node is not ready.
  std::map<std::string, SteadyTime> waiting_since_ ABSL_GUARDED_BY(mutex_);
  // What was reported last: for a VolumeAttachment "attached" or its error, and for
  // "<volume>/<node>" why it is refused.
  std::map<std::string, std::string> reported_ ABSL_GUARDED_BY(mutex_);

  base::KeyedWorkers volume_workers_;
  base::KeyedWorkers node_workers_;
};

}  // namespace berth::controllers::attachdetach
