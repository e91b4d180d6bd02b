#include "controllers/provisioner/capacity/capacity_controller.h"

#include <algorithm>

#include "base/log.h"
#include "base/metrics.h"
#include "controllers/csi_codec.h"
#include "controllers/provisioner/capacity/capacity_owner.h"
#include "controllers/queue_options.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"

namespace berth::controllers::provisioner {

using base::Json;
using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

// Many volumes may come and go at a time, so the driver is asked once for the changes of a second.
constexpr std::chrono::seconds kAfterVolume{1};

// Whether a node's change leaves the topology segments as they are.
bool SameLabels(const api::Node* before, const api::Node* after) {
  return before != nullptr && after != nullptr && before->labels() == after->labels();
}

}  // namespace

CapacityController::CapacityController(Context context, DriverConnection& driver,
                                       CapacityOptions options)
    : context_(context),
      driver_(driver),
      options_(std::move(options)),
      classes_(context.informers.Of<api::StorageClass>()),
      nodes_(context.informers.OfOptional<api::Node>()),
      csi_nodes_(context.informers.OfOptional<api::CsiNode>()),
      volumes_(context.informers.Of<api::PersistentVolume>()),
      objects_(context.client, {.ns = options_.ns,
                                .label_selector = fmt::format("{}={}", kCapacityManagedBy,
                                                              CapacityManager(options_))}),
      workers_(MakeQueueOptions("capacity", options_.workers, options_, context),
               [this](const std::string& key) { return SyncClass(key); }) {
  AddHandlers();
}

CapacityController::~CapacityController() { Stop(); }

void CapacityController::AddHandlers() {
  classes_.AddHandler([this](const auto& change) { workers_.AddNow(change.key); });
  nodes_.AddHandler([this](const auto& change) {
    if (!SameLabels(change.before.get(), change.after.get())) AddAllClasses();
  });
  csi_nodes_.AddHandler([this](const auto&) { AddAllClasses(); });
  volumes_.AddHandler([this](const auto& change) {
    const api::PersistentVolume& volume = change.latest();
    const auto info = driver_.info();
    const bool came_or_went = change.before == nullptr || change.after == nullptr;
    if (info != nullptr && came_or_went && volume.annotation(kProvisionedBy) == info->name) {
      // Classes may share the storage that the volume takes.
      AddAllClasses(kAfterVolume);
    }
  });
  objects_.AddHandler([this](const auto& change) {
    const Capacity& object = change.latest();
    const std::string version = change.after == nullptr ? "" : object.resource_version();
    if (!IsOwnWrite(change.key, version)) workers_.Add(object.storage_class_name());
  });
  driver_.OnReady([this] { AddAllClasses(); });
}

void CapacityController::AddAllClasses(std::chrono::milliseconds delay) {
  const auto info = driver_.info();
  if (info == nullptr) return;
  for (const auto& storage_class : classes_.List()) {
    if (storage_class->provisioner() != info->name) continue;
    if (delay.count() > 0) {
      workers_.AddAfter(storage_class->name(), delay);
    } else {
      workers_.AddNow(storage_class->name());
    }
  }
}

void CapacityController::RefreshClass(const std::string& name) { workers_.Add(name); }

void CapacityController::Start() {
  objects_.Start();
  workers_.Start();
}

void CapacityController::Stop() {
  objects_.Stop();
  workers_.Stop();
}

CapacityController::Outcome CapacityController::SyncClass(const std::string& name) {
  const auto driver = driver_.info();
  if (driver == nullptr || !driver->Has(DriverInfo::Rpc::GET_CAPACITY)) return Outcome::Done();
  // The existing objects must be known before new ones are created.
  if (!objects_.synced()) return Outcome::After(kube::kSyncCheckInterval);
  const auto storage_class = classes_.Get(name);
  if (storage_class == nullptr || !WantsCapacity(*storage_class, *driver, options_)) {
    const Status removed = Remove(ObjectsOf(name, driver->name));
    ReportCounts(name, driver->name, {.obsolete = ObjectsOf(name, driver->name).size()});
    return AfterApi(removed);
  }
  const Status published = Publish(*storage_class, *driver);
  if (published.ok()) return Outcome::After(options_.poll_interval);
  context_.events.Record(storage_class->reference(), base::EventType::kWarning, "CapacityFailed",
                         fmt::format("failed to publish the capacity of driver {}: {}",
                                     driver->name, base::ToString(published)));
  return published.code() == StatusCode::kAborted ? AfterApi(published) : Outcome::Retry(published);
}

Status CapacityController::Publish(const api::StorageClass& storage_class,
                                   const DriverInfo& driver) {
  RETURN_IF_ERROR(nodes_.CheckListed());
  RETURN_IF_ERROR(csi_nodes_.CheckListed());
  ASSIGN_OR_RETURN(const Json owner, ReadCapacityOwner(context_.client, options_));
  std::vector<CapacityPtr> left = ObjectsOf(storage_class.name(), driver.name);
  Status first = base::OkStatus();
  ObjectCounts counts;
  for (const TopologyTerm& segment :
       CapacitySegments(driver.name, options_.node_name, nodes_.List(), csi_nodes_.List())) {
    // The failure of one segment does not stop the others from being published.
    const size_t before = left.size();
    const Status published = PublishSegment(storage_class, driver, segment, owner, left);
    ++counts.goal;
    if (published.ok() || left.size() < before) ++counts.current;
    if (first.ok()) first = published;
  }
  const Status removed = Remove(left);
  if (!removed.ok()) counts.obsolete = left.size();
  ReportCounts(storage_class.name(), driver.name, counts);
  return first.ok() ? removed : first;
}

// Writes the segment's object, and removes it from `present`. So the objects that are left there
// after the last segment belong to no segment, or are the second one of a segment.
Status CapacityController::PublishSegment(const api::StorageClass& storage_class,
                                          const DriverInfo& driver, const TopologyTerm& segment,
                                          const Json& owner, std::vector<CapacityPtr>& present) {
  const Json selector = SegmentSelector(segment);
  const auto it = std::find_if(present.begin(), present.end(), [&](const CapacityPtr& object) {
    return object->node_topology() != nullptr && *object->node_topology() == selector;
  });
  const CapacityPtr object = it == present.end() ? nullptr : *it;
  if (object != nullptr) present.erase(it);

  const auto answer = driver_.Call(&rpc::CsiClient::GetCapacity,
                                   CapacityRequest(storage_class, segment), options_.timeout);
  RETURN_IF_ERROR_WITH(answer, "GetCapacity");
  Capacity wanted = CapacityObject(driver.name, options_, storage_class.name(), segment, *answer);
  if (!owner.empty()) wanted.Set({"metadata", "ownerReferences"}, owner);
  StatusOr<Capacity> written = wanted;
  if (object == nullptr) {
    written = kube::Create(context_.client, wanted);
    RETURN_IF_ERROR_WITH(written, "create CSIStorageCapacity");
  } else {
    Json patch = CapacityPatch(*object, wanted);
    if (patch.empty()) return base::OkStatus();
    base::json::Set(patch, {"metadata", "resourceVersion"}, object->resource_version());
    written = kube::MergePatch(context_.client, *object, patch);
    if (written.status().code() == StatusCode::kNotFound) {
      return base::Error(StatusCode::kAborted, "CSIStorageCapacity '{}' vanished", object->key());
    }
    RETURN_IF_ERROR_WITH(written, fmt::format("patch CSIStorageCapacity '{}'", object->key()));
  }
  NoteWritten(written->key(), written->resource_version());
  objects_.Observe(written->json());
  return base::OkStatus();
}

std::vector<CapacityController::CapacityPtr> CapacityController::ObjectsOf(
    const std::string& storage_class, const std::string& driver) const {
  std::vector<CapacityPtr> out;
  for (const CapacityPtr& object : objects_.List()) {
    if (object->storage_class_name() == storage_class && !object->deleting() &&
        object->label(kCapacityDriverLabel) == driver) {
      out.push_back(object);
    }
  }
  // Sorted, so that of two objects for one segment the same one stays each time.
  std::sort(out.begin(), out.end(),
            [](const CapacityPtr& a, const CapacityPtr& b) { return a->name() < b->name(); });
  return out;
}

Status CapacityController::Remove(const std::vector<CapacityPtr>& objects) {
  for (const CapacityPtr& object : objects) {
    NoteWritten(object->key(), "");
    RETURN_IF_ERROR_WITH(kube::Delete(context_.client, *object),
                         fmt::format("delete CSIStorageCapacity '{}'", object->key()));
  }
  return base::OkStatus();
}

void CapacityController::ReportCounts(const std::string& storage_class, const std::string& driver,
                                      ObjectCounts counts) {
  static const auto& kGoal = *new base::Metrics::Description{
      .name = "csistoragecapacities_desired_goal", .help = "CSIStorageCapacity objects to be kept"};
  static const auto& kCurrent = *new base::Metrics::Description{
      .name = "csistoragecapacities_desired_current",
      .help = "CSIStorageCapacity objects to be kept that there are"};
  static const auto& kObsolete = *new base::Metrics::Description{
      .name = "csistoragecapacities_obsolete", .help = "CSIStorageCapacity objects that are to go"};
  if (context_.metrics == nullptr) return;
  MutexLock lock(mutex_);
  counts_[storage_class] = counts;
  ObjectCounts sum;
  for (const auto& [name, each] : counts_) {
    sum.goal += each.goal;
    sum.current += each.current;
    sum.obsolete += each.obsolete;
  }
  const base::Metrics::Labels labels = {{"driver_name", driver}};
  context_.metrics->Set(kGoal, labels, static_cast<double>(sum.goal));
  context_.metrics->Set(kCurrent, labels, static_cast<double>(sum.current));
  context_.metrics->Set(kObsolete, labels, static_cast<double>(sum.obsolete));
}

void CapacityController::NoteWritten(const std::string& key, const std::string& version) {
  MutexLock lock(mutex_);
  written_[key] = version;
}

bool CapacityController::IsOwnWrite(const std::string& key, const std::string& version) {
  MutexLock lock(mutex_);
  const auto it = written_.find(key);
  if (it == written_.end()) return false;
  const bool own = it->second == version;
  if (version.empty()) written_.erase(it);
  return own;
}

}  // namespace berth::controllers::provisioner
