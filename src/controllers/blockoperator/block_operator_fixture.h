// A cluster in memory with the block operator, and a storage cluster in memory behind it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "controllers/blockoperator/block_operator.h"
#include "controllers/blockoperator/fake_store.h"
#include "controllers/fake_cluster.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::blockoperator {

inline ::testing::Environment* const kOperatorRights =
    CheckRightsOf("block-operator", "block-agent/rbac.yaml");

class BlockOperatorTest : public ::testing::Test {
 protected:
  using Claim = api::PersistentVolumeClaim;
  using Volume = api::PersistentVolume;
  using Fence = api::VolumeFence;
  using Cleanup = api::NodeCleanup;
  using Cluster = api::StorageCluster;

  BlockOperatorTest() {
    for (const api::KindInfo* kind : {&api::kinds::kVolumeFence, &api::kinds::kNodeCleanup,
                                      &api::kinds::kStorageCluster, &api::kinds::kBlockSnapshot}) {
      cluster_.client.Serve(*kind);
    }
    options_.retry_start = std::chrono::milliseconds(5);
    options_.retry_max = std::chrono::milliseconds(40);
    options_.copy_pause = std::chrono::milliseconds(5);
    options_.unmount_patience = std::chrono::milliseconds(0);
    options_.unmount_pause = std::chrono::milliseconds(5);
    options_.node_silence = std::chrono::milliseconds(60);
    options_.agents = {.install = false, .deploy = false};
    options_.open_backend =
        [this](const base::Json& settings) -> base::StatusOr<std::unique_ptr<block::Backend>> {
      RETURN_IF_ERROR(store_->BeginOpen());
      if (!settings.contains("images") && !settings.contains("rbd")) {
        return base::Error(base::StatusCode::kInvalidArgument, "no back end is called so");
      }
      return std::make_unique<FakeStoreBackend>(*store_);
    };
  }
  ~BlockOperatorTest() override { cluster_.Stop(); }

  // With a node, a StorageCluster and a class of it.
  void Begin(const base::Json& more_of_class = nullptr) {
    cluster_.Put(MakeNode("node-a"));
    PutCluster();
    cluster_.Put(Merged(MakeClass("fast", {{"provisioner", "block.berth.dev"},
                                           {"parameters", {{"cluster", "pool"}}},
                                           {"allowVolumeExpansion", true}}),
                        more_of_class));
    Start();
  }
  void Start() {
    cluster_.Add<BlockOperator>(options_);
    cluster_.Start();
  }
  void PutCluster(const base::Json& more = nullptr) {
    cluster_.Put(Merged({{"apiVersion", "storage.berth.dev/v1alpha1"},
                         {"kind", "StorageCluster"},
                         {"metadata", {{"name", "pool"}}},
                         {"spec", {{"backend", {{"images", {{"folder", "/srv/pool"}}}}}}}},
                        more));
  }
  void CreateClaim(const std::string& name, const base::Json& more = nullptr) {
    cluster_.Put(MakeClaim(
        name, Merged({{"metadata",
                       {{"annotations", {{std::string(kStorageProvisioner), "block.berth.dev"}}}}}},
                     more)));
  }
  // A bound pair with its image, as they are after CreateClaim and the binder.
  void PutBound(const std::string& claim, const base::Json& more_of_volume = nullptr) {
    const std::string name = "pvc-uid-" + claim;
    store_->Add(name, int64_t{1} << 30);
    base::Json volume = MakeVolume(name, BoundVolume(claim));
    volume["metadata"]["annotations"][std::string(kProvisionedBy)] = "block.berth.dev";
    volume["metadata"]["finalizers"] = {kImageFinalizer};
    volume["spec"]["persistentVolumeReclaimPolicy"] = "Delete";
    volume["spec"].erase("csi");
    volume["spec"]["flexVolume"] = {{"driver", "berth.dev/block"},
                                    {"fsType", "ext4"},
                                    {"options", {{"cluster", "pool"}, {"image", name}}}};
    cluster_.Put(Merged(volume, more_of_volume));
    cluster_.Put(MakeClaim(claim, BoundClaim(name)));
  }
  // The claim is gone, and the binder has seen it.
  void Release(const std::string& claim) {
    cluster_.client.Remove(Claim::kInfo, "default", claim);
    base::Json volume = cluster_.Get<Volume>("", "pvc-uid-" + claim).json();
    volume["status"]["phase"] = "Released";
    cluster_.Put(volume);
  }
  static api::FenceEntry FenceEntryOf(const std::string& node, const std::string& pod) {
    return {.node = node,
            .pod_namespace = "default",
            .pod = pod,
            .pod_uid = "uid-" + pod,
            .mount_dir = "/var/lib/kubelet/pods/uid-" + pod + "/volumes/x/y",
            .cluster_name = "pool"};
  }
  void PutFence(const std::string& volume, const std::vector<api::FenceEntry>& entries) {
    Fence fence;
    fence.Set({"apiVersion"}, "storage.berth.dev/v1alpha1");
    fence.Set({"kind"}, "VolumeFence");
    fence.set_name(volume);
    fence.set_entries(entries);
    cluster_.Put(fence);
  }
  // Maps the image on a node, as its agent does.
  void MapOn(const std::string& node, const std::string& image) {
    block::FakeBackend agent(store_->images, node);
    ASSERT_TRUE(agent.Map(image, {}).ok());
  }
  void UnmapOn(const std::string& node, const std::string& image) {
    block::FakeBackend agent(store_->images, node);
    ASSERT_TRUE(agent.Unmap({.image = image}).ok());
  }
  Claim GetClaim(const std::string& name) { return cluster_.Get<Claim>("default", name); }
  Cluster GetCluster() { return cluster_.Get<Cluster>("", "pool"); }
  bool WaitVolume(const std::string& name) {
    return cluster_.WaitUntil([&] { return cluster_.Has<Volume>("", name); });
  }

  const std::unique_ptr<FakeStore> store_ = std::make_unique<FakeStore>();
  FakeCluster cluster_;
  Options options_;
};

}  // namespace berth::controllers::blockoperator
