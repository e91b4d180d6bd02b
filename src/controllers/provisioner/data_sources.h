// The source from which a claim's volume is filled: a snapshot, another claim's volume (a clone),
// or nothing. A populator, which is another program, handles sources of any other kind. A source in
// another namespace must be granted to the claim (reference_grants.h).
//
// A finalizer holds a source while a volume is made from it, so that it does not vanish meanwhile:
//
//   HoldSource: [free] ── finalizer written ──▶ [held] ── no unbound claim names it ──▶ [free]
//                                                          ReleaseClone, ReleaseSnapshot
//
// A claim of another namespace keeps the source only while a grant or an open call needs it. So
// that the source is not released between HoldSource and the opening of the call, an Opening lives
// during a try to make the volume: HoldSource waits for a release that runs, and no release begins.
//
// Snapshots are read from the API when a claim names one. A watch of snapshots begins with the
// first such claim, because a cluster may not have the kind; it only wakes claims that wait for
// their snapshot.
//
// Thread-safe. What the context names, the options and the attempts are borrowed and outlive this
// object. If HoldSource fails, the driver must not be asked yet; the finalizer may be written
// nevertheless, and is removed when no claim needs it. A release with the outcome Retry has left
// the finalizer in place.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/kinds.h"
#include "api/kinds/snapshots.h"
#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "controllers/controller.h"
#include "controllers/driver_connection.h"
#include "controllers/provisioner/attempts.h"
#include "controllers/provisioner/options.h"
#include "controllers/provisioner/snapshot_watch.h"
#include "proto/csi.pb.h"

namespace berth::controllers::provisioner {

class DataSources {
 public:
  using Outcome = base::KeyedWorkers::Outcome;
  using Claim = api::PersistentVolumeClaim;

  // A claim, or a VolumeSnapshot, from which volumes are filled.
  struct Source {
    bool snapshot = false;
    std::string key;
    auto operator<=>(const Source&) const = default;
  };

  // These only queue work. `snapshot_changed` is called with the key of each VolumeSnapshot that
  // appears or changes, on the watch's thread; `source_free` once nothing keeps a source any more
  // whose release was put off.
  struct Callbacks {
    std::function<void(const std::string& key)> snapshot_changed;
    std::function<void(const Source& source)> source_free;
  };
  DataSources(const Context& context, const Options& options, const Attempts& attempts,
              Callbacks callbacks);

  // Keeps the claim's source from being released by this process while it lives: from before
  // HoldSource until the try has ended. It waits for a release that runs. Borrows the sources.
  class Opening {
   public:
    Opening(DataSources& sources, const Claim& claim);
    ~Opening();
    Opening(const Opening&) = delete;
    Opening& operator=(const Opening&) = delete;

   private:
    DataSources& sources_;
    const std::optional<Source> source_;
  };

  // The source of the claim's volume, which is held from now on; nullopt if the volume begins
  // empty. UNIMPLEMENTED: a populator makes and fills the volume. INVALID_ARGUMENT or
  // FAILED_PRECONDITION: the source cannot be used (yet).
  base::StatusOr<std::optional<csi::v1::VolumeContentSource>> HoldSource(const Claim& claim,
                                                                         const DriverInfo& driver)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Takes the finalizer off the claim `key`, if its volume is not that of another driver, and no
  // unbound claim is to become a copy of it.
  Outcome ReleaseClone(const std::string& key, const DriverInfo& driver);
  // Takes the finalizer off the VolumeSnapshot `key`, if it is the driver's and no unbound claim is
  // to be filled from it.
  Outcome ReleaseSnapshot(const std::string& key, const DriverInfo& driver);
  // The keys of all VolumeSnapshots that have a provisioner's finalizer. One may have it without
  // need, because its claim was deleted while no provisioner ran.
  base::StatusOr<std::vector<std::string>> FindHeldSnapshots();

  // Waits for a running call of `snapshot_changed`; there is none afterwards. Idempotent.
  void StopWatch() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Notes that a source is being released. If an Opening keeps it, the release is put off.
  class Releasing {
   public:
    Releasing(DataSources& sources, Source source);
    ~Releasing();
    Releasing(const Releasing&) = delete;
    Releasing& operator=(const Releasing&) = delete;
    bool may_release() const { return may_release_; }

   private:
    DataSources& sources_;
    const Source source_;
    bool may_release_ = false;
  };

  // data_sources.cc
  // OK if the source is in the claim's namespace, or is granted to the claim.
  base::Status CheckNamespace(const Claim& claim) const;
  // Whether one of the unbound claims that name a source in namespace `ns` needs it. A claim of
  // another namespace that may not use the source must not keep it, unless a volume may be made
  // from it already. In a node deployment another node's provisioner may have opened that call, so
  // there each such claim keeps the source until it is bound or gone. An error: it is not known.
  base::StatusOr<bool> IsNeededBy(const std::string& ns,
                                  const std::vector<std::shared_ptr<const Claim>>& claims) const;
  base::StatusOr<csi::v1::VolumeContentSource> HoldClone(const Claim& claim,
                                                         const std::string& source_name,
                                                         const DriverInfo& driver);

  // snapshot_source.cc
  base::StatusOr<csi::v1::VolumeContentSource> HoldSnapshot(const Claim& claim,
                                                            const std::string& source_name,
                                                            const DriverInfo& driver);
  base::Status WriteFinalizers(const api::VolumeSnapshot& snapshot, std::string_view add,
                               std::string_view remove);
  void StartWatch() ABSL_LOCKS_EXCLUDED(mutex_);

  const Context context_;
  const Options& options_;
  const Attempts& attempts_;
  const Callbacks callbacks_;
  kube::Informer<Claim>& claims_;
  kube::Informer<api::PersistentVolume>& volumes_;
  base::Mutex mutex_;
  std::multiset<Source> opening_ ABSL_GUARDED_BY(mutex_);
  std::set<Source> releasing_ ABSL_GUARDED_BY(mutex_);
  std::set<Source> put_off_ ABSL_GUARDED_BY(mutex_);
  base::CondVar released_;
  std::unique_ptr<SnapshotWatch> watch_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace berth::controllers::provisioner
