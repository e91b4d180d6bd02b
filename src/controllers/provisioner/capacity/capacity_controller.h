// Keeps the CSIStorageCapacity objects of one driver (in Kubernetes: external-provisioner with
// --enable-capacity).
//
// The work for one class: call GetCapacity for each topology segment, write the objects that
// differ, and delete the objects that have no segment any more. The work is done again after the
// poll interval, when the class, the nodes or the driver's registration change, when another
// program changes or deletes an object, a second after a volume of the driver came or went, and
// after the driver has refused to make a volume of the class.
//
//   [due] ── GetCapacity, create / patch / delete ──▶ [published] ── poll interval ──▶ [due]
//     ▲  │ an error: event CapacityFailed on the class, again after the backoff
//     └──┘
//
// The controller changes only objects in its own namespace that have its labels. Objects of other
// drivers, and of other nodes in a node deployment, belong to other programs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/workers/keyed_workers.h"
#include "controllers/controller.h"
#include "controllers/driver_connection.h"
#include "controllers/provisioner/capacity/capacity.h"

namespace berth::controllers::provisioner {

class CapacityController : public Controller {
 public:
  // `driver` is borrowed and outlives the controller.
  CapacityController(Context context, DriverConnection& driver, CapacityOptions options);
  ~CapacityController() override;

  std::string_view name() const override { return "capacity"; }
  void Start() override;
  void Stop() override;

  // Publishes the capacity for a class anew, because it is probably not what is published.
  void RefreshClass(const std::string& name);

 private:
  using Outcome = base::KeyedWorkers::Outcome;
  using Capacity = api::CsiStorageCapacity;
  using CapacityPtr = std::shared_ptr<const Capacity>;

  void AddHandlers();
  void AddAllClasses(std::chrono::milliseconds delay = {});
  Outcome SyncClass(const std::string& name);
  base::Status Publish(const api::StorageClass& storage_class, const DriverInfo& driver);
  base::Status PublishSegment(const api::StorageClass& storage_class, const DriverInfo& driver,
                              const TopologyTerm& segment, const base::Json& owner,
                              std::vector<CapacityPtr>& present);
  // The objects of this controller for the class.
  std::vector<CapacityPtr> ObjectsOf(const std::string& storage_class,
                                     const std::string& driver) const;
  base::Status Remove(const std::vector<CapacityPtr>& objects);
  // The metrics csistoragecapacities_*, which show the sum of all classes.
  struct ObjectCounts {
    size_t goal = 0;      // objects that there should be
    size_t current = 0;   // of those: objects that there are
    size_t obsolete = 0;  // objects to be deleted
  };
  void ReportCounts(const std::string& storage_class, const std::string& driver,
                    ObjectCounts counts) ABSL_LOCKS_EXCLUDED(mutex_);
  // Notes the version of an object that this process wrote last ("": it deleted the object), so
  // that its own writes do not queue the class again.
  void NoteWritten(const std::string& key, const std::string& version) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether `version` is the version that NoteWritten noted last for the object. If `version` is ""
  // (the object is gone), the note is removed.
  bool IsOwnWrite(const std::string& key, const std::string& version) ABSL_LOCKS_EXCLUDED(mutex_);

  const Context context_;
  DriverConnection& driver_;
  const CapacityOptions options_;
  kube::Informer<api::StorageClass>& classes_;
  kube::Informer<api::Node>& nodes_;
  kube::Informer<api::CsiNode>& csi_nodes_;
  kube::Informer<api::PersistentVolume>& volumes_;
  kube::Informer<Capacity> objects_;  // its own: of one namespace, and with the label

  mutable base::Mutex mutex_;
  std::map<std::string, std::string> written_ ABSL_GUARDED_BY(mutex_);  // key to version
  std::map<std::string, ObjectCounts> counts_ ABSL_GUARDED_BY(mutex_);  // by class
  base::KeyedWorkers workers_;
};

}  // namespace berth::controllers::provisioner
