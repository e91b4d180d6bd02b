// Makes snapshots of claims' volumes for BlockSnapshots, and deletes them.
//
//   [asked] ── finalizer, then status: cluster, volume, image ──▶ [begun] ── CreateSnapshot ──┐
//                                                                                             ▼
//                 finalizer off ◀── Backend::Delete ◀── deleted ◀── [ready] ◀── status: ready, size
//
// The snapshot is named after the uid of its BlockSnapshot, and the status says where it may be
// before it is made, so that every step can be done again, and a deletion at any moment finds what
// was made. A BlockSnapshot that is begun is of the volume in its status, also if its claim is
// deleted meanwhile; the volume is deleted only after it is made (provisioner.h).
//
// Where a back end can, the snapshot is made while pods use the volume: its data is as after a loss
// of power. Elsewhere nobody may use the volume meanwhile (quiet_copies.h), and it is tried again
// once nobody does.
#pragma once

#include <string>

#include "api/kinds/block_kinds.h"
#include "base/workers/keyed_workers.h"
#include "controllers/blockoperator/backends.h"
#include "controllers/blockoperator/options.h"
#include "controllers/blockoperator/quiet_copies.h"
#include "controllers/controller.h"

namespace berth::controllers::blockoperator {

class Snapshots {
 public:
  // `backends` and `copies` are borrowed.
  Snapshots(const Context& context, Backends& backends, QuietCopies& copies,
            const Options& options);
  ~Snapshots() { Stop(); }

  void Start() { workers_.Start(); }
  void Stop() { workers_.Stop(); }

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Snapshot = api::BlockSnapshot;
  using Claim = api::PersistentVolumeClaim;
  using Volume = api::PersistentVolume;

  void AddHandlers();
  void RetryAll();

  Outcome SyncSnapshot(const std::string& key);
  // The status of a snapshot that is begun. FAILED_PRECONDITION: the claim has no volume of which a
  // snapshot can be made; the message says why.
  base::StatusOr<base::Json> FindSource(const Snapshot& snapshot) const;
  // UNIMPLEMENTED: the back end makes no snapshots; the message says what to do instead.
  base::Status CheckOffered(const std::string& cluster, const std::string& image,
                            const std::string& name);
  Outcome BeginSnapshot(const Snapshot& snapshot);
  Outcome MakeSnapshot(const Snapshot& snapshot);
  base::StatusOr<block::ImageInfo> CallBackend(const Snapshot& snapshot);
  Outcome DeleteSnapshot(const Snapshot& snapshot);
  // Fails if the snapshot is still needed.
  base::Status DeleteImage(const Snapshot& snapshot);
  Outcome ReportFailure(const Snapshot& snapshot, const base::Status& why);

  const Context context_;
  Backends& backends_;
  QuietCopies& quiet_copies_;
  const std::chrono::milliseconds progress_patience_;
  kube::Informer<Snapshot>& snapshots_;
  kube::Informer<Claim>& claims_;
  kube::Informer<Volume>& volumes_;
  kube::Informer<api::StorageCluster>& clusters_;
  base::KeyedWorkers workers_;
};

}  // namespace berth::controllers::blockoperator
