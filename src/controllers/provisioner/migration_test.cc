// Claims and volumes of in-tree plugins, which the CSI driver that replaces the plugin serves.
#include "controllers/provisioner/provisioner_fixture.h"

namespace berth::controllers::provisioner {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr char kEbs[] = "ebs.csi.aws.com";
constexpr char kEbsPlugin[] = "kubernetes.io/aws-ebs";
constexpr char kGce[] = "pd.csi.storage.gke.io";
constexpr char kPortworx[] = "pxd.portworx.com";
constexpr char kZone[] = "topology.kubernetes.io/zone";
constexpr char kEbsZone[] = "topology.ebs.csi.aws.com/zone";

class MigrationTest : public ProvisionerTest {
 protected:
  static rpc::FakeCsiDriver::Options Driver(const std::string& name) {
    rpc::FakeCsiDriver::Options options = NoTopology();
    options.name = name;
    return options;
  }
  void PutClass(const std::string& plugin, const Json& more = nullptr) {
    cluster_.Put(MakeClass("in-tree", Merged({{"provisioner", plugin}}, more)));
  }
  // The annotations are those of kube-controller-manager.
  void PutClaim(const std::string& name, const Json& annotations) {
    cluster_.Put(MakeClaim(name, {{"metadata", {{"annotations", annotations}}},
                                  {"spec", {{"storageClassName", "in-tree"}}}}));
  }
  static Json AskedOf(const std::string& provisioner) {
    return {{std::string(kStorageProvisioner), provisioner}};
  }
  // A PersistentVolume of a plugin whose claim is gone.
  void PutReleased(const std::string& source, const Json& fields, const Json& annotations,
                   const Json& more = nullptr) {
    Json volume =
        MakeVolume("old", {{"metadata", {{"annotations", annotations}, {"finalizers", nullptr}}},
                           {"spec",
                            {{"persistentVolumeReclaimPolicy", "Delete"},
                             {"storageClassName", "in-tree"},
                             {"claimRef", {{"namespace", "default"}, {"name", "data"}}},
                             {"csi", nullptr},
                             {source, fields}}},
                           {"status", {{"phase", "Released"}}}});
    cluster_.Put(Merged(std::move(volume), more));
  }
  std::string DeletedHandle() {
    EXPECT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "old"); }));
    return script().LastRequest<csi::v1::DeleteVolumeRequest>("DeleteVolume").volume_id();
  }
};

TEST_F(MigrationTest, AClaimOfAPluginsClassGetsAVolumeOfThePlugin) {
  Begin(Driver(kEbs));
  PutClass(kEbsPlugin, {{"parameters", {{"type", "gp2"}, {"fsType", "xfs"}, {"iopsPerGB", "5"}}}});
  PutClaim("data", AskedOf(kEbs));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  const auto request = script().LastRequest<csi::v1::CreateVolumeRequest>("CreateVolume");
  EXPECT_THAT(request.parameters(),
              UnorderedElementsAre(Pair("type", "gp2"), Pair("iopsPerGB", "5"),
                                   Pair("allowautoiopspergbincrease", "true")));
  EXPECT_EQ(request.volume_capabilities(0).mount().fs_type(), "xfs");

  const Volume volume = GetVolume("pvc-uid-data");
  const std::vector<std::string> made = cluster_.driver->state().VolumeIds();
  ASSERT_EQ(made.size(), 1);
  ASSERT_FALSE(volume.has_csi());
  EXPECT_EQ(volume.json()["spec"]["awsElasticBlockStore"],
            (Json{{"volumeID", made.front()}, {"fsType", "xfs"}}));
  EXPECT_EQ(volume.annotation(kProvisionedBy), kEbsPlugin);
  EXPECT_EQ(volume.storage_class_name(), "in-tree");
  EXPECT_EQ(volume.claim_uid(), "uid-data");
  EXPECT_THAT(volume.finalizers(), ElementsAre(std::string(kVolumeFinalizer)));
  EXPECT_TRUE(cluster_.HasCounted("Controller/CreateVolume", "true", 1));
}

// The attacher would remove its finalizer again at once, because nothing says yet that the volume
// is the driver's.
TEST_F(MigrationTest, AVolumeOfThePluginIsMadeWithoutTheAttachersFinalizer) {
  rpc::FakeCsiDriver::Options driver = Driver(kEbs);
  driver.controller_capabilities.insert(DriverInfo::Rpc::PUBLISH_UNPUBLISH_VOLUME);
  Options options = Fast();
  options.attacher_beside = true;
  Begin(std::move(driver), std::move(options));
  PutClass(kEbsPlugin);
  PutClaim("data", AskedOf(kEbs));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_THAT(GetVolume("pvc-uid-data").finalizers(), ElementsAre(std::string(kVolumeFinalizer)));
}

TEST_F(MigrationTest, AClaimThatNamesThePluginIsServedOnceItIsMigrated) {
  Begin(Driver(kEbs));
  PutClass(kEbsPlugin);
  PutClaim("left", AskedOf(kEbsPlugin));
  PutClaim("for-another", {{std::string(kStorageProvisioner), "another.example.com"},
                           {std::string(kMigratedTo), kEbs}});
  Json migrated = AskedOf(kEbsPlugin);
  migrated[std::string(kMigratedTo)] = kEbs;
  PutClaim("data", migrated);
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_EQ(script().Count("CreateVolume"), 1);
  PutClaim("left", migrated);
  EXPECT_TRUE(WaitVolume("pvc-uid-left"));
  EXPECT_FALSE(cluster_.Has<Volume>("", "pvc-uid-for-another"));
}

TEST_F(MigrationTest, ThePluginOfAnotherDriverIsLeftAlone) {
  Begin(Driver(kGce));
  PutClass(kEbsPlugin);
  PutClaim("data", AskedOf(kGce));
  cluster_.Put(MakeClass("csi", {{"provisioner", kGce}}));
  cluster_.Put(MakeClaim("of-driver", {{"metadata", {{"annotations", AskedOf(kGce)}}},
                                       {"spec", {{"storageClassName", "csi"}}}}));
  ASSERT_TRUE(WaitVolume("pvc-uid-of-driver"));
  EXPECT_TRUE(GetVolume("pvc-uid-of-driver").has_csi()) << "its class is the driver's own";
  EXPECT_TRUE(cluster_.HasCounted("Controller/CreateVolume", "false", 1));
  EXPECT_EQ(script().Count("CreateVolume"), 1);
}

TEST_F(MigrationTest, ZonesAreTranslatedBothWays) {
  rpc::FakeCsiDriver::Options driver;
  driver.name = kEbs;
  driver.topology = {{kEbsZone, "us-east-1b"}};
  for (const auto& [node, zone] :
       std::map<std::string, std::string>{{"node-a", "us-east-1a"}, {"node-b", "us-east-1b"}}) {
    cluster_.Put(MakeNode(node, {{"metadata", {{"labels", {{kEbsZone, zone}, {kZone, zone}}}}}}));
    cluster_.Put(MakeCsiNode(node, {kEbsZone}, {{"name", kEbs}}));
  }
  Begin(driver);
  const Json zones = {{"key", kZone}, {"values", {"us-east-1b"}}};
  PutClass(kEbsPlugin, {{"allowedTopologies",
                         Json::array({{{"matchLabelExpressions", Json::array({zones})}}})}});
  PutClaim("data", AskedOf(kEbs));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  const auto request = script().LastRequest<csi::v1::CreateVolumeRequest>("CreateVolume");
  ASSERT_EQ(request.accessibility_requirements().requisite_size(), 1);
  EXPECT_THAT(request.accessibility_requirements().requisite(0).segments(),
              ElementsAre(Pair(kEbsZone, "us-east-1b")));
  const Volume volume = GetVolume("pvc-uid-data");
  EXPECT_EQ(volume.label(kZone), "us-east-1b");
  EXPECT_EQ(volume.label("topology.kubernetes.io/region"), "us-east-1");
  ASSERT_NE(volume.node_affinity(), nullptr);
  const std::string affinity = volume.node_affinity()->dump();
  EXPECT_NE(affinity.find(kZone), std::string::npos) << affinity;
  EXPECT_EQ(affinity.find(kEbsZone), std::string::npos) << affinity;
}

TEST_F(MigrationTest, AClassThatCannotBeTranslatedIsSaidInTheLibrarysWords) {
  Begin(Driver(kEbs));
  const Json zones = {{"key", kZone}, {"values", {"us-east-1b"}}};
  PutClass(kEbsPlugin, {{"parameters", {{"zone", "us-east-1a"}}},
                        {"allowedTopologies",
                         Json::array({{{"matchLabelExpressions", Json::array({zones})}}})}});
  PutClaim("data", AskedOf(kEbs));
  EXPECT_TRUE(cluster_.events.WaitFor(
      "failed to translate storage class: cannot simultaneously set allowed topologies and "
      "zone/zones parameters"));
  EXPECT_EQ(script().Count("CreateVolume"), 0);
}

TEST_F(MigrationTest, AVolumeThatThePluginCouldNotUseIsDeleted) {
  Begin(Driver(kGce));  // the double's handles are no paths of disks
  PutClass("kubernetes.io/gce-pd");
  PutClaim("data", AskedOf(kGce));
  EXPECT_TRUE(cluster_.events.WaitFor("failed to get id components.Got: 1, wanted 6 components"));
  ASSERT_TRUE(script().WaitFor("DeleteVolume"));
  EXPECT_FALSE(cluster_.Has<Volume>("", "pvc-uid-data"));
}

// Portworx' class gets another provisioner when it is translated, and vSphere's parameters other
// names: a class that was translated twice would be another one.
TEST_F(MigrationTest, ARepeatedCallTranslatesTheClassAsItWas) {
  Begin(Driver(kPortworx));
  script().LoseAnswer("CreateVolume");
  PutClass("kubernetes.io/portworx-volume", {{"parameters", {{"repl", "2"}}}});
  PutClaim("data", AskedOf(kPortworx));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  EXPECT_EQ(script().Count("CreateVolume"), 2);
  const Volume volume = GetVolume("pvc-uid-data");
  ASSERT_FALSE(volume.has_csi());
  EXPECT_EQ(volume.json()["spec"]["portworxVolume"],
            (Json{{"volumeID", cluster_.driver->state().VolumeIds().front()}}));
}

TEST_F(MigrationTest, AReleasedVolumeOfThePluginIsDeletedByTheDriver) {
  Begin(Driver(kEbs));
  PutClass(kEbsPlugin);
  PutClaim("data", AskedOf(kEbs));
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  cluster_.client.Remove(Claim::kInfo, "default", "data");
  Volume volume = GetVolume("pvc-uid-data");
  volume.Set({"status", "phase"}, "Released");
  cluster_.Put(volume);
  ASSERT_TRUE(cluster_.WaitUntil([&] { return !cluster_.Has<Volume>("", "pvc-uid-data"); }));
  EXPECT_THAT(cluster_.driver->state().VolumeIds(), IsEmpty());
}

TEST_F(MigrationTest, OneThatThePluginMadeIsDeletedOnceItIsMigrated) {
  Begin(Driver(kEbs));
  PutReleased("awsElasticBlockStore", {{"volumeID", "aws://us-east-1a/vol-7"}},
              {{std::string(kProvisionedBy), kEbsPlugin}, {std::string(kMigratedTo), kEbs}});
  EXPECT_EQ(DeletedHandle(), "vol-7");
  EXPECT_TRUE(cluster_.HasCounted("Controller/DeleteVolume", "true", 1));
}

TEST_F(MigrationTest, OneThatAPersonMadeIsDeletedOnceItIsMigrated) {
  Begin(Driver(kEbs));
  PutReleased("awsElasticBlockStore", {{"volumeID", "vol-8"}}, {{std::string(kMigratedTo), kEbs}});
  EXPECT_EQ(DeletedHandle(), "vol-8");
}

TEST_F(MigrationTest, OneThatIsNotTheDriversIsLeftAlone) {
  // One worker looks at the volumes in their order, so that the last one is deleted after the
  // others were looked at.
  Options options = Fast();
  options.workers = 1;
  Begin(Driver(kEbs), options);
  PutReleased("awsElasticBlockStore", {{"volumeID", "vol-9"}}, Json::object(),
              {{"metadata", {{"name", "not-migrated"}}}});
  PutReleased(
      "gcePersistentDisk", {{"pdName", "d"}},
      {{std::string(kProvisionedBy), "kubernetes.io/gce-pd"}, {std::string(kMigratedTo), kGce}},
      {{"metadata", {{"name", "of-another"}}}});
  PutReleased("awsElasticBlockStore", {{"volumeID", "vol-10"}}, {{std::string(kMigratedTo), kEbs}});
  EXPECT_EQ(DeletedHandle(), "vol-10");
  EXPECT_EQ(script().Count("DeleteVolume"), 1);
  EXPECT_TRUE(cluster_.Has<Volume>("", "not-migrated"));
  EXPECT_TRUE(cluster_.Has<Volume>("", "of-another"));
}

TEST_F(MigrationTest, AVolumeThatCannotBeTranslatedStaysAndSaysWhy) {
  Begin(Driver("disk.csi.azure.com"));
  PutReleased("azureDisk", {{"diskName", "d"}, {"diskURI", "d"}, {"kind", "Shared"}},
              {{std::string(kMigratedTo), "disk.csi.azure.com"}});
  EXPECT_TRUE(cluster_.events.WaitFor(
      "Warning VolumeFailedDelete old: kind(Shared) is not supported in csi migration"));
  EXPECT_EQ(script().Count("DeleteVolume"), 0);
  EXPECT_TRUE(cluster_.Has<Volume>("", "old"));
}

TEST_F(MigrationTest, ABoundVolumeOfThePluginGetsTheFinalizer) {
  Begin(Driver(kEbs));
  PutReleased("awsElasticBlockStore", {{"volumeID", "vol-1"}}, {{std::string(kMigratedTo), kEbs}},
              {{"status", {{"phase", "Bound"}}}});
  EXPECT_TRUE(cluster_.WaitUntil([&] { return GetVolume("old").has_finalizer(kVolumeFinalizer); }));
}

TEST_F(MigrationTest, TheSecretOfThePluginsClassIsGivenToTheDeletion) {
  Begin(Driver(kPortworx));
  PutClass("kubernetes.io/portworx-volume",
           {{"parameters",
             {{"openstorage.io/auth-secret-name", "keys"},
              {"openstorage.io/auth-secret-namespace", "vault"}}}});
  cluster_.Put({{"apiVersion", "v1"},
                {"kind", "Secret"},
                {"metadata", {{"name", "keys"}, {"namespace", "vault"}}},
                {"data", {{"token", "c2VjcmV0"}}}});
  PutReleased("portworxVolume", {{"volumeID", "17"}}, {{std::string(kMigratedTo), kPortworx}});
  EXPECT_EQ(DeletedHandle(), "17");
  EXPECT_THAT(script().LastRequest<csi::v1::DeleteVolumeRequest>("DeleteVolume").secrets(),
              ElementsAre(Pair("token", "secret")));
}

}  // namespace
}  // namespace berth::controllers::provisioner
