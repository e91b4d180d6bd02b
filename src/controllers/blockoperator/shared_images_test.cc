// Volumes of two StorageClusters of one Ceph pool that name one image.
#include "controllers/blockoperator/block_operator_fixture.h"

namespace berth::controllers::blockoperator {
namespace {

using base::Json;

class SharedImagesTest : public BlockOperatorTest {
 protected:
  SharedImagesTest() {
    options_.open_backend = [this](const Json&) {
      return std::make_unique<FakeStoreBackend>(*store_);
    };
  }
  void PutPool(const std::string& name, const std::string& monitor, const std::string& ns = "") {
    cluster_.Put(Json{{"apiVersion", "storage.berth.dev/v1alpha1"},
                      {"kind", "StorageCluster"},
                      {"metadata", {{"name", name}}},
                      {"spec",
                       {{"backend",
                         {{"rbd",
                           {{"monitors", {monitor}},
                            {"pool", "kube"},
                            {"namespace", ns},
                            {"user", name},
                            {"secretRef", {{"name", "s"}, {"namespace", "berth-block"}}}}}}}}}});
  }
  void PutVolume(const std::string& name, const std::string& pool, const std::string& image) {
    Json volume = MakeVolume(name, Json::object());
    volume["spec"].erase("csi");
    volume["spec"]["flexVolume"] = {{"driver", "berth.dev/block"},
                                    {"options", {{"cluster", pool}, {"image", image}}}};
    volume["status"]["phase"] = "Available";
    cluster_.Put(volume);
  }
  // The status and the message of the condition; "": there is none.
  std::string Condition(const std::string& pool) {
    const Json cluster = cluster_.Get<Cluster>("", pool).json();
    for (const Json& one : base::json::Array(cluster, {"status", "conditions"})) {
      if (one["type"] == "ImageNamedTwice") {
        return one["status"].get<std::string>() + " " + one["message"].get<std::string>();
      }
    }
    return "";
  }
  bool WaitCondition(const std::string& pool, const std::string& text) {
    return cluster_.WaitUntil([&] { return Condition(pool) == text; });
  }
};

TEST_F(SharedImagesTest, BothStorageClustersAndBothVolumesTell) {
  PutPool("one", "10.0.0.1:6789");
  PutPool("two", "10.0.0.2:6789");
  PutPool("tenant", "10.0.0.1:6789", "tenant");
  PutVolume("pv-1", "one", "img");
  PutVolume("pv-2", "two", "img");
  PutVolume("pv-3", "tenant", "img");
  PutVolume("pv-4", "two", "another");
  Start();
  EXPECT_TRUE(WaitCondition(
      "one",
      "True image 'img' is PersistentVolume 'pv-1' of StorageCluster 'one', and PersistentVolume "
      "'pv-2' of StorageCluster 'two', too: delete one of the two"));
  EXPECT_TRUE(WaitCondition(
      "two",
      "True image 'img' is PersistentVolume 'pv-2' of StorageCluster 'two', and PersistentVolume "
      "'pv-1' of StorageCluster 'one', too: delete one of the two"));
  for (const char* name : {"one", "two", "pv-1", "pv-2"}) {
    EXPECT_TRUE(cluster_.events.WaitFor(fmt::format("Warning ImageNamedTwice {}", name))) << name;
  }
  EXPECT_EQ(Condition("tenant"), "");
  cluster_.client.Remove(Volume::kInfo, "", "pv-2");
  EXPECT_TRUE(WaitCondition("one", "False "));
  EXPECT_TRUE(WaitCondition("two", "False "));
  // It is told again, for each volume that comes.
  PutVolume("pv-5", "one", "another");
  EXPECT_TRUE(cluster_.WaitUntil([&] { return Condition("one").starts_with("True"); }));
  cluster_.client.Remove(Volume::kInfo, "", "pv-4");
  EXPECT_TRUE(WaitCondition("one", "False "));
  EXPECT_TRUE(WaitCondition("two", "False "));
}

TEST_F(SharedImagesTest, AnImageThatIsAVolumeOfAnotherStorageClusterTooStays) {
  PutPool("pool", "10.0.0.1:6789");
  PutPool("two", "10.0.0.2:6789");
  PutPool("tenant", "10.0.0.1:6789", "tenant");
  PutBound("data");
  PutBound("mine");
  PutVolume("by-hand", "two", "pvc-uid-data");
  PutVolume("elsewhere", "tenant", "pvc-uid-mine");
  Start();
  Release("data");
  Release("mine");
  EXPECT_TRUE(cluster_.events.WaitFor("is PersistentVolume 'by-hand', too"));
  EXPECT_TRUE(cluster_.WaitUntil([&] { return !store_->Has("pvc-uid-mine"); }));
  EXPECT_TRUE(store_->Has("pvc-uid-data"));
}

}  // namespace
}  // namespace berth::controllers::blockoperator
