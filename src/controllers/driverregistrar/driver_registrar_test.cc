#include "controllers/driverregistrar/driver_registrar.h"

#include <gmock/gmock.h>

#include "controllers/fake_cluster.h"

namespace berth::controllers::driverregistrar {
namespace {

using api::CsiDriver;
using base::Json;
using base::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kName[] = "fake.csi.example.com";

std::string Key(std::string_view field) { return fmt::format("{}{}", kManifestPrefix, field); }

class DriverRegistrarTest : public ::testing::Test {
 protected:
  void Begin(std::map<std::string, std::string> manifest = {}) {
    rpc::FakeCsiDriver::Options driver;
    driver.manifest = std::move(manifest);
    cluster_.Add<DriverRegistrar>(cluster_.AddDriver(std::move(driver)),
                                  Options{.retry_start = std::chrono::milliseconds(5),
                                          .retry_max = std::chrono::milliseconds(50)});
    cluster_.Start();
  }
  bool WaitMade() {
    return cluster_.WaitUntil([&] { return cluster_.Has<CsiDriver>("", kName); });
  }
  CsiDriver Get() { return cluster_.Get<CsiDriver>("", kName); }
  void AddObject(const Json& annotations) {
    cluster_.Put({{"apiVersion", "storage.k8s.io/v1"},
                  {"kind", "CSIDriver"},
                  {"metadata", {{"name", kName}, {"annotations", annotations}}},
                  {"spec", {{"attachRequired", false}, {"podInfoOnMount", false}}}});
  }

  FakeCluster cluster_;
};

TEST_F(DriverRegistrarTest, TheObjectSaysWhatTheManifestSays) {
  Begin({{Key("podInfoOnMount"), "true"},
         {Key("fsGroupPolicy"), "File"},
         {Key("volumeLifecycleModes"), "Persistent,Ephemeral"},
         {Key("storageCapacity"), "false"},
         {"maker", "ACME"}});
  ASSERT_TRUE(WaitMade());
  EXPECT_TRUE(Get().attach_required());  // it can publish
  EXPECT_TRUE(Get().pod_info_on_mount());
  EXPECT_EQ(Get().fs_group_policy(), "File");
  EXPECT_FALSE(Get().storage_capacity());
  EXPECT_TRUE(Get().supports_lifecycle("Ephemeral"));
  EXPECT_TRUE(Get().supports_lifecycle("Persistent"));
  EXPECT_EQ(Get().annotation(kMadeFrom), "1.0");
  EXPECT_EQ(Get().json()["spec"].size(), 5U);
}

TEST_F(DriverRegistrarTest, WithoutAManifestTheCapabilitiesTell) {
  DriverInfo info;
  info.name = kName;
  EXPECT_FALSE(MakeCsiDriver(info, {})->attach_required());
  info.rpcs.insert(DriverInfo::Rpc::PUBLISH_UNPUBLISH_VOLUME);
  EXPECT_TRUE(MakeCsiDriver(info, {})->attach_required());
  EXPECT_FALSE(MakeCsiDriver(info, {{Key("attachRequired"), "false"}})->attach_required());
}

TEST_F(DriverRegistrarTest, AManifestThatMakesNoSenseIsRefusedWithItsKey) {
  for (const auto& [field, value] :
       std::map<std::string, std::string>{{"podInfoOnMount", "yes"},
                                          {"fsGroupPolicy", "Sometimes"},
                                          {"volumeLifecycleModes", "Persistent,"},
                                          {"colour", "blue"}}) {
    DriverInfo info;
    info.name = kName;
    const auto made = MakeCsiDriver(info, {{Key(field), value}});
    EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(base::ToString(made.status()), HasSubstr(Key(field)));
  }
}

TEST_F(DriverRegistrarTest, WhatAPersonMadeStays) {
  AddObject(Json::object());
  Begin({{Key("podInfoOnMount"), "true"}});
  // One call is for the connection, and one for the manifest.
  ASSERT_TRUE(cluster_.driver->script().WaitFor("GetPluginInfo", 2));
  cluster_.Stop();
  EXPECT_FALSE(Get().pod_info_on_mount());
  EXPECT_THAT(cluster_.client.ActionNames(), IsEmpty());
}

TEST_F(DriverRegistrarTest, WhatWasMadeHereFollowsTheDriver) {
  AddObject({{std::string(kMadeFrom), "0.9"}});
  Begin({{Key("podInfoOnMount"), "true"}});
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Get().annotation(kMadeFrom) == "1.0"; }));
  EXPECT_TRUE(Get().pod_info_on_mount());
  EXPECT_TRUE(Get().attach_required());
}

TEST_F(DriverRegistrarTest, WhatTheApiRefusesToChangeIsTold) {
  AddObject({{std::string(kMadeFrom), "0.9"}});
  cluster_.client.FailNext("patch", "csidrivers",
                           base::Error(StatusCode::kInvalidArgument, "field is immutable"));
  Begin();
  EXPECT_TRUE(cluster_.events.WaitFor("Warning CSIDriverUpdateFailed"));
  EXPECT_TRUE(cluster_.WaitUntil([&] { return Get().annotation(kMadeFrom) == "1.0"; }));
}

TEST_F(DriverRegistrarTest, AnObjectThatIsDeletedIsMadeAgain) {
  Begin();
  ASSERT_TRUE(WaitMade());
  const std::string first = Get().uid();
  ASSERT_TRUE(cluster_.client.Delete(CsiDriver::kInfo, "", kName, {}).ok());
  EXPECT_TRUE(cluster_.WaitUntil(
      [&] { return cluster_.Has<CsiDriver>("", kName) && Get().uid() != first; }));
}

}  // namespace
}  // namespace berth::controllers::driverregistrar
