// A cluster in memory for table tests of controllers: the API double, informers, recorded events, a
// driver double, and the controllers under test, started and stopped in the right order.
//
//   FakeCluster cluster;
//   cluster.Add<Binder>();
//   cluster.Put(MakeClaim("data"));
//   cluster.Start();
//   ASSERT_TRUE(cluster.client.WaitUntil([&] { return cluster.Get<Claim>("default", "data").phase()
//   == "Bound"; }));
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/kinds/kinds.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/mutex.h"
#include "controllers/controller.h"
#include "controllers/driver_connection.h"
#include "controllers/fake_role_rights.h"
#include "controllers/fake_role_rules.h"
#include "kube/fake_client.h"
#include "kube/fake_rbac.h"
#include "kube/informers/informers.h"
#include "rpc/fake_csi_driver.h"

namespace berth::controllers {

// Keeps events as "Warning FailedMount default/web: message". Withdrawn ones stay, and are listed
// beside them.
class RecordedEvents : public base::EventSink {
 public:
  void Record(const base::ObjectReference& object, base::EventType type, std::string_view reason,
              std::string_view message) override {
    base::MutexLock lock(mutex_);
    events_.push_back(TextOf(object, type, reason, message));
    changed_.NotifyAll();
  }
  void Withdraw(const base::ObjectReference& object, base::EventType type, std::string_view reason,
                std::string_view message) override {
    base::MutexLock lock(mutex_);
    withdrawn_.push_back(TextOf(object, type, reason, message));
  }

  std::vector<std::string> All() const {
    base::MutexLock lock(mutex_);
    return events_;
  }
  std::vector<std::string> Withdrawn() const {
    base::MutexLock lock(mutex_);
    return withdrawn_;
  }
  // How many events hold `text`.
  int Count(std::string_view text) const {
    base::MutexLock lock(mutex_);
    return CountLocked(text);
  }
  // Waits for `count` events that hold `text`.
  bool WaitFor(std::string_view text, int count = 1,
               std::chrono::milliseconds timeout = std::chrono::seconds(10)) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    base::MutexLock lock(mutex_);
    while (CountLocked(text) < count) {
      if (!changed_.WaitUntil(mutex_, deadline)) return CountLocked(text) >= count;
    }
    return true;
  }

 private:
  static std::string TextOf(const base::ObjectReference& object, base::EventType type,
                            std::string_view reason, std::string_view message) {
    return fmt::format("{} {} {}: {}", type == base::EventType::kNormal ? "Normal" : "Warning",
                       reason, api::ObjectKey(object.ns, object.name), message);
  }
  int CountLocked(std::string_view text) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    int count = 0;
    for (const std::string& event : events_) {
      if (event.find(text) != std::string::npos) ++count;
    }
    return count;
  }

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<std::string> events_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> withdrawn_ ABSL_GUARDED_BY(mutex_);
};

class FakeCluster {
 public:
  FakeCluster() = default;
  ~FakeCluster() {
    Stop();
    RoleRights::Add(allowed.used());
  }

  Context context() { return {allowed, informers, events, clock, nullptr, &metrics}; }

  template <typename C, typename... Args>
  C& Add(Args&&... args) {
    auto controller = std::make_unique<C>(context(), std::forward<Args>(args)...);
    C& out = *controller;
    allowed.Grant(RulesOf(controller->name()));
    controllers_.push_back(std::move(controller));
    return out;
  }

  // A driver double and the connection to it, which Start starts.
  DriverConnection& AddDriver(rpc::FakeCsiDriver::Options options = {}) {
    auto started = rpc::FakeCsiDriver::Start(std::move(options));
    EXPECT_TRUE(started.ok()) << base::ToString(started.status());
    driver = *std::move(started);
    auto connected =
        DriverConnection::New(driver->socket(), {.metrics = &calls, .label_migrated = true});
    EXPECT_TRUE(connected.ok()) << base::ToString(connected.status());
    connection_ = *std::move(connected);
    return *connection_;
  }

  // A volume in the driver, and the PersistentVolume for it.
  void AddVolume(const std::string& name, const base::Json& more = nullptr);

  // Waits until each controller knows the driver, if there is one, before it starts them, because
  // controllers look at all their objects again at that moment, and a test would count the same
  // action twice.
  void Start() {
    if (connection_ != nullptr) {
      connection_->OnReady([this] { driver_known_ = true; });  // after those of the controllers
      connection_->Start();
    }
    informers.Start();
    const base::Status synced = informers.WaitForSync(std::chrono::seconds(10));
    ASSERT_TRUE(synced.ok()) << base::ToString(synced);
    ASSERT_TRUE(WaitUntil([this] { return connection_ == nullptr || driver_known_; }));
    // Those that a controller started when it knew the driver.
    ASSERT_TRUE(informers.WaitForSync(std::chrono::seconds(10)).ok());
    for (const auto& controller : controllers_) controller->Start();
  }

  // The callers of handlers stop before the controllers that own the handlers.
  void Stop() {
    informers.Stop();
    if (connection_ != nullptr) connection_->Stop();
    for (const auto& controller : controllers_) controller->Stop();
    controllers_.clear();
    // Controllers need no rights beyond those of their roles.
    EXPECT_THAT(allowed.refused(), ::testing::IsEmpty());
  }

  // The stored object; an empty one if it is not there.
  template <typename T>
  T Get(std::string_view ns, std::string_view name) const {
    return client.Peek<T>(ns, name).value_or(T());
  }
  template <typename T>
  bool Has(std::string_view ns, std::string_view name) const {
    return client.Peek<T>(ns, name).has_value();
  }
  // Adds the object, and waits until the controllers' copies show it, because objects of two kinds
  // come by two watches, in any order.
  void Put(const base::Json& object);
  void Put(const api::Object& object) { Put(object.json()); }
  bool WaitUntil(const std::function<bool()>& condition) { return client.WaitUntil(condition); }
  // Whether the driver was called so often by `method` ("Controller/DeleteVolume"), with success
  // and the label `migrated`.
  bool HasCounted(std::string_view method, std::string_view migrated, int times) const {
    return calls.RenderText().find(fmt::format(
               "csi_sidecar_operations_seconds_count{{driver_name=\"{}\",grpc_status_code=\"OK\","
               "method_name=\"/csi.v1.{}\",migrated=\"{}\"}} {}\n",
               driver->name(), method, migrated, times)) != std::string::npos;
  }

  base::FakeClock clock;
  kube::FakeClient client{clock};
  RecordedEvents events;
  base::Metrics metrics;
  // The client of the controllers, with the rights of their roles if they have any.
  kube::RestrictedClient allowed{client};
  kube::Informers informers{allowed};
  std::unique_ptr<rpc::FakeCsiDriver> driver;
  base::Metrics calls;  // of the driver

 private:
  std::atomic<bool> driver_known_ = false;
  std::unique_ptr<DriverConnection> connection_;
  std::vector<std::unique_ptr<Controller>> controllers_;
};

// Objects in their usual shape; `more` is merged over it.

inline base::Json Merged(base::Json object, const base::Json& more) {
  if (!more.is_null()) object.merge_patch(more);
  return object;
}

inline base::Json MakeClaim(const std::string& name, const base::Json& more = nullptr) {
  return Merged({{"apiVersion", "v1"},
                 {"kind", "PersistentVolumeClaim"},
                 {"metadata",
                  {{"name", name},
                   {"namespace", "default"},
                   {"uid", "uid-" + name},
                   {"finalizers", {"kubernetes.io/pvc-protection"}}}},
                 {"spec",
                  {{"accessModes", {"ReadWriteOnce"}},
                   {"storageClassName", "fast"},
                   {"volumeMode", "Filesystem"},
                   {"resources", {{"requests", {{"storage", "1Gi"}}}}}}},
                 {"status", {{"phase", "Pending"}}}},
                more);
}

// A CSI volume, free and available.
inline base::Json MakeVolume(const std::string& name, const base::Json& more = nullptr) {
  return Merged({{"apiVersion", "v1"},
                 {"kind", "PersistentVolume"},
                 {"metadata", {{"name", name}, {"finalizers", {"kubernetes.io/pv-protection"}}}},
                 {"spec",
                  {{"accessModes", {"ReadWriteOnce"}},
                   {"storageClassName", "fast"},
                   {"volumeMode", "Filesystem"},
                   {"persistentVolumeReclaimPolicy", "Retain"},
                   {"capacity", {{"storage", "1Gi"}}},
                   {"csi",
                    {{"driver", "fake.csi.example.com"},
                     {"volumeHandle", "handle-" + name},
                     {"fsType", "ext4"}}}}},
                 {"status", {{"phase", "Available"}}}},
                more);
}

inline void FakeCluster::AddVolume(const std::string& name, const base::Json& more) {
  csi::v1::CreateVolumeRequest request;
  request.set_name(name);
  request.mutable_capacity_range()->set_required_bytes(int64_t{1} << 30);
  request.add_volume_capabilities()->mutable_mount();
  csi::v1::CreateVolumeResponse response;
  const base::Status created = driver->state().Handle(request, response);
  ASSERT_TRUE(created.ok()) << base::ToString(created);
  base::Json volume = MakeVolume(name, more);
  volume["spec"]["csi"]["volumeHandle"] = response.volume().volume_id();
  Put(volume);
}

inline void FakeCluster::Put(const base::Json& object) {
  client.Add(object);
  const api::Object added(object);
  const api::KindInfo* kind = api::FindKind(added.String({"apiVersion"}), added.String({"kind"}));
  const kube::InformerBase* copy = kind == nullptr ? nullptr : informers.Find(*kind);
  if (copy == nullptr || !copy->synced()) return;
  const base::Json stored = client.Peek(*kind, added.ns(), added.name());
  if (stored.is_null()) return;  // gone again
  const int64_t version = std::stoll(api::Object(stored).resource_version());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < deadline) {
    const auto seen = copy->Find(added.key());
    if (seen != nullptr && std::stoll(seen->resource_version()) >= version) return;
    // The object may have been deleted after the copy showed it.
    if (client.Peek(*kind, added.ns(), added.name()).is_null()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ADD_FAILURE() << kind->kind << " '" << added.key() << "' does not show in the copy";
}

// The changes that make MakeClaim's claim and MakeVolume's volume a bound pair.
inline base::Json BoundClaim(const std::string& volume) {
  return {{"metadata", {{"annotations", {{"pv.kubernetes.io/bind-completed", "yes"}}}}},
          {"spec", {{"volumeName", volume}}},
          {"status",
           {{"phase", "Bound"},
            {"accessModes", {"ReadWriteOnce"}},
            {"capacity", {{"storage", "1Gi"}}}}}};
}
inline base::Json BoundVolume(const std::string& claim) {
  return {{"spec",
           {{"claimRef",
             {{"kind", "PersistentVolumeClaim"},
              {"namespace", "default"},
              {"name", claim},
              {"uid", "uid-" + claim}}}}},
          {"status", {{"phase", "Bound"}}}};
}

inline base::Json MakeClass(const std::string& name, const base::Json& more = nullptr) {
  return Merged({{"apiVersion", "storage.k8s.io/v1"},
                 {"kind", "StorageClass"},
                 {"metadata", {{"name", name}}},
                 {"provisioner", "fake.csi.example.com"},
                 {"reclaimPolicy", "Delete"},
                 {"volumeBindingMode", "Immediate"}},
                more);
}

inline base::Json MakePod(const std::string& name, const std::string& claim,
                          const base::Json& more = nullptr) {
  base::Json volumes = base::Json::array();
  if (!claim.empty()) {
    volumes.push_back({{"name", "data"}, {"persistentVolumeClaim", {{"claimName", claim}}}});
  }
  return Merged({{"apiVersion", "v1"},
                 {"kind", "Pod"},
                 {"metadata", {{"name", name}, {"namespace", "default"}, {"uid", "uid-" + name}}},
                 {"spec", {{"schedulerName", "default-scheduler"}, {"volumes", volumes}}},
                 {"status", {{"phase", "Pending"}}}},
                more);
}

inline base::Json MakeNode(const std::string& name, const base::Json& more = nullptr) {
  return Merged(
      {{"apiVersion", "v1"},
       {"kind", "Node"},
       {"metadata",
        {{"name", name},
         {"labels", {{"kubernetes.io/hostname", name}}},
         {"annotations", {{"volumes.kubernetes.io/controller-managed-attach-detach", "true"}}}}},
       {"spec", base::Json::object()},
       {"status", {{"conditions", {{{"type", "Ready"}, {"status", "True"}}}}}}},
      more);
}

inline base::Json MakeCsiNode(const std::string& node, const std::vector<std::string>& keys = {},
                              const base::Json& driver_more = nullptr) {
  return {{"apiVersion", "storage.k8s.io/v1"},
          {"kind", "CSINode"},
          {"metadata", {{"name", node}}},
          {"spec",
           {{"drivers",
             {Merged({{"name", "fake.csi.example.com"},
                      {"nodeID", "id-of-" + node},
                      {"topologyKeys", keys}},
                     driver_more)}}}}};
}

}  // namespace berth::controllers
