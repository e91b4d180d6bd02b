// A cluster with the provisioner under test, a class "fast" of the driver double, and the claims
// that the provisioner serves.
#pragma once

#include <gmock/gmock.h>

#include <string>

#include "api/kinds/lease_names.h"
#include "controllers/fake_cluster.h"
#include "controllers/provisioner/provisioner.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::provisioner {

using base::Json;
using base::StatusCode;
using Claim = api::PersistentVolumeClaim;
using Volume = api::PersistentVolume;

inline constexpr char kDriver[] = "fake.csi.example.com";

inline Json Asked(const Json& more = nullptr) {
  return Merged({{"metadata", {{"annotations", {{std::string(kStorageProvisioner), kDriver}}}}}},
                more);
}

// As MakeClaim(Asked()), without the protection finalizer, which only another controller removes.
inline Json Unprotected(const std::string& name, const Json& more = nullptr) {
  Json claim = MakeClaim(name, Asked(more));
  claim["metadata"].erase("finalizers");
  return claim;
}

class ProvisionerTest : public ::testing::Test {
 public:
  static rpc::FakeCsiDriver::Options NoTopology() {
    rpc::FakeCsiDriver::Options options;
    options.plugin_capabilities = {DriverInfo::Service::CONTROLLER_SERVICE};
    return options;
  }
  static Options Fast() {
    Options options;
    options.retry_start = std::chrono::milliseconds(5);
    options.retry_max = std::chrono::milliseconds(50);
    options.intents = {.ns = "storage", .lineage = "first"};
    return options;
  }

 protected:
  void Begin(rpc::FakeCsiDriver::Options driver = NoTopology(), Options options = Fast()) {
    cluster_.Add<Provisioner>(cluster_.AddDriver(std::move(driver)), std::move(options));
    cluster_.Put(MakeClass("fast"));
    cluster_.Start();
  }

  rpc::CallScript& script() { return cluster_.driver->script(); }
  Claim GetClaim(const std::string& name) { return cluster_.Get<Claim>("default", name); }
  Volume GetVolume(const std::string& name) { return cluster_.Get<Volume>("", name); }
  bool WaitVolume(const std::string& name) {
    return cluster_.WaitUntil([&] { return cluster_.Has<Volume>("", name); });
  }
  // Deletes as a person does: through the API, so that finalizers keep the object.
  void Delete(const api::KindInfo& kind, const std::string& ns, const std::string& name) {
    ASSERT_TRUE(cluster_.client.Delete(kind, ns, name, {}).ok());
  }

  // The recorded intent of the claim of that uid; null if there is none. Few intents may be there,
  // because many are packed.
  Json IntentOf(const std::string& uid) {
    const Json lease =
        cluster_.client.Peek(api::kinds::kLease, "storage",
                             api::ProvisioningIntentsLease(kDriver, api::NodeName(intents_node_)));
    const std::string text =
        base::json::String(lease, {"metadata", "annotations", "storage.berth.dev/intents"});
    EXPECT_TRUE(text.empty() || text.starts_with('{'));
    return Json::accept(text) ? Json::parse(text)["intents"].value(uid, Json()) : Json();
  }
  bool HasIntent(const std::string& uid) { return !IntentOf(uid).is_null(); }
  bool WaitNoIntent(const std::string& uid) {
    return cluster_.WaitUntil([&] { return !HasIntent(uid); });
  }

  std::vector<csi::v1::CreateVolumeRequest> CreateRequests() {
    return script().Requests<csi::v1::CreateVolumeRequest>("CreateVolume");
  }
  // Changes a volume so that the driver made it, its claim is gone, and only nodes with the label
  // reach it.
  static Json ReleasedWithin(const std::string& label, const std::string& value) {
    const Json term = {
        {"matchExpressions", {{{"key", label}, {"operator", "In"}, {"values", {value}}}}}};
    return {{"metadata",
             {{"annotations", {{std::string(kProvisionedBy), kDriver}}},
              {"finalizers", {std::string(kVolumeFinalizer)}}}},
            {"spec",
             {{"persistentVolumeReclaimPolicy", "Delete"},
              {"nodeAffinity", {{"required", {{"nodeSelectorTerms", Json::array({term})}}}}}}},
            {"status", {{"phase", "Released"}}}};
  }
  // Adds a released volume within the node's reach and one out of it, and waits until the driver
  // has deleted the first, and only that.
  void ExpectDeletesWithin(const std::string& label, const std::string& ours,
                           const std::string& theirs) {
    cluster_.AddVolume("theirs", ReleasedWithin(label, theirs));
    cluster_.AddVolume("ours", ReleasedWithin(label, ours));
    ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "ours"); }));
    EXPECT_TRUE(cluster_.Has<Volume>("", "theirs"));
    EXPECT_EQ(script().Count("DeleteVolume"), 1);
  }
  // A bound claim "source" with its volume.
  void AddSource() {
    cluster_.Put(MakeClaim("source", Asked()));
    ASSERT_TRUE(WaitVolume("pvc-uid-source"));
    BindClaim("source");
    Volume volume = GetVolume("pvc-uid-source");
    volume.Set({"status", "phase"}, "Bound");
    cluster_.Put(volume);
  }
  // What the binder does when the claim's volume is there.
  void BindClaim(const std::string& name) {
    Claim claim = GetClaim(name);
    claim.mutable_json().merge_patch(BoundClaim("pvc-uid-" + name));
    cluster_.Put(claim);
  }

  FakeCluster cluster_;
  std::string intents_node_;  // of a node deployment
};

}  // namespace berth::controllers::provisioner
