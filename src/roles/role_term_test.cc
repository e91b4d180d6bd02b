// Terms of the real roles over an API and a driver in memory, with the rights of deploy/csi.
#include "roles/role_term.h"

#include <gmock/gmock.h>

#include <thread>

#include "base/metrics.h"
#include "controllers/fake_group_snapshots.h"
#include "controllers/well_known_names.h"

namespace berth::roles {
namespace {

using base::Json;
using controllers::MakeClaim;
using controllers::MakeClass;
using testing::IsEmpty;
using Volume = api::PersistentVolume;
using Content = api::VolumeSnapshotContent;

constexpr char kDriver[] = "fake.csi.example.com";

class RoleTermTest : public testing::Test {
 protected:
  RoleTermTest() {
    rpc::FakeCsiDriver::Options options;
    options.plugin_capabilities = {controllers::DriverInfo::Service::CONTROLLER_SERVICE};
    auto started = rpc::FakeCsiDriver::Start(std::move(options));
    EXPECT_TRUE(started.ok()) << started.status();
    driver_ = *std::move(started);
    controllers::ServeSnapshots(cluster_.client);
    cluster_.client.Add(MakeClass("fast"));
    cluster_.client.Add(controllers::MakeSnapshotClass("snap"));
  }
  ~RoleTermTest() override { End(); }

  // One term of `roles`, with their rights and no others.
  void Begin(const std::vector<std::string>& roles) {
    std::vector<const Role*> of_driver, of_cluster;
    for (const std::string& name : roles) {
      const Role* role = FindRole(name);
      (role->of_driver ? of_driver : of_cluster).push_back(role);
      rights_.Grant(controllers::RulesOf(name));
    }
    for (const auto& [each, socket, driver] :
         {std::tuple{of_driver, driver_->socket(), std::string(kDriver)},
          std::tuple{of_cluster, std::string(), std::string()}}) {
      if (each.empty()) continue;
      terms_.emplace_back([this, each, socket, driver](const std::stop_token& end) {
        RunTerm({.roles = each,
                 .socket = socket,
                 .driver = driver,
                 .connection = {.driver = driver},
                 .settings = settings_,
                 .client = rights_,
                 .informers = informers_,
                 .clock = cluster_.clock,
                 .host = "here",
                 .metrics = &metrics_},
                end);
      });
    }
  }
  void End() {
    for (auto& term : terms_) term.request_stop();
    terms_.clear();
    informers_.Stop();
  }

  void Claim(const std::string& name) {
    cluster_.client.Add(MakeClaim(
        name, {{"metadata",
                {{"annotations", {{std::string(controllers::kStorageProvisioner), kDriver}}}}}}));
  }
  // Binds the claim to the volume that the provisioner made for it.
  void Bind(const std::string& name, const Json& more = nullptr) {
    const std::string volume_name = fmt::format("pvc-uid-{}", name);
    auto volume = cluster_.Get<Volume>("", volume_name);
    volume.mutable_json().merge_patch(controllers::BoundVolume(name));
    cluster_.client.Add(volume);
    auto claim = cluster_.Get<api::PersistentVolumeClaim>("default", name);
    claim.mutable_json().merge_patch(
        controllers::Merged(controllers::BoundClaim(volume_name), more));
    cluster_.client.Add(claim);
  }
  // For what is no change of the API's.
  static bool Eventually(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  bool WaitVolume(const std::string& name) {
    return cluster_.WaitUntil([&] { return cluster_.Has<Volume>("", name); });
  }

  controllers::FakeCluster cluster_;
  std::unique_ptr<rpc::FakeCsiDriver> driver_;
  kube::RestrictedClient rights_{cluster_.client};
  kube::Informers informers_{rights_};
  base::Metrics metrics_;
  RoleSettings settings_;
  std::vector<std::jthread> terms_;
};

TEST_F(RoleTermTest, WithoutTheKindsOfSnapshotsTheOthersWorkAndTheSnapshotsFollow) {
  for (const api::KindInfo* kind :
       {&api::kinds::kVolumeSnapshot, &api::kinds::kVolumeSnapshotContent,
        &api::kinds::kVolumeSnapshotClass}) {
    cluster_.client.StopServing(*kind);
  }
  Begin({"provisioner", "attacher", "resizer", "snapshotter", "snapshot-controller"});
  Claim("data");
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));

  // An administrator installs them.
  controllers::ServeSnapshots(cluster_.client);
  cluster_.client.Add(controllers::MakeSnapshotClass("snap"));
  Bind("data");
  cluster_.client.Add(controllers::MakeSnapshot("monday"));
  EXPECT_TRUE(cluster_.client.WaitUntil(
      [&] { return cluster_.Get<api::VolumeSnapshot>("default", "monday").ready(); },
      std::chrono::seconds(30)));
  End();
  EXPECT_THAT(rights_.refused(), IsEmpty());
}

TEST_F(RoleTermTest, AGroupIsTakenAndDeletedByBothRolesOnceItsKindsAreThere) {
  Begin({"provisioner", "snapshotter", "snapshot-controller"});
  for (const char* name : {"data", "log"}) {
    Claim(name);
    ASSERT_TRUE(WaitVolume(fmt::format("pvc-uid-{}", name)));
    Bind(name, {{"metadata", {{"labels", {{"app", "db"}}}}}});
  }
  // An administrator installs them.
  controllers::ServeGroups(cluster_.client);
  cluster_.client.Add(controllers::MakeGroupClass("group"));
  cluster_.client.Add(controllers::MakeGroup("nightly"));
  const auto snapshots = [&] { return cluster_.client.PeekAll(api::VolumeSnapshot::kInfo); };
  ASSERT_TRUE(cluster_.client.WaitUntil(
      [&] {
        size_t ready = 0;
        for (const Json& snapshot : snapshots()) ready += api::VolumeSnapshot(snapshot).ready();
        return ready == 2 && cluster_.Get<api::VolumeGroupSnapshot>("default", "nightly").ready();
      },
      std::chrono::seconds(30)));
  EXPECT_EQ(driver_->state().SnapshotIds().size(), 2U);

  ASSERT_TRUE(
      cluster_.client.Delete(api::kinds::kVolumeGroupSnapshot, "default", "nightly", {}).ok());
  EXPECT_TRUE(cluster_.client.WaitUntil(
      [&] {
        return snapshots().empty() && cluster_.client.PeekAll(Content::kInfo).empty() &&
               cluster_.client.PeekAll(api::kinds::kVolumeGroupSnapshotContent).empty() &&
               cluster_.client.PeekAll(api::kinds::kVolumeGroupSnapshot).empty();
      },
      std::chrono::seconds(30)));
  EXPECT_THAT(driver_->state().SnapshotIds(), IsEmpty());
  EXPECT_THAT(driver_->state().GroupIds(), IsEmpty());
  EXPECT_EQ(driver_->script().Count("DeleteSnapshot"), 0);
  End();
  EXPECT_THAT(rights_.refused(), IsEmpty());
}

// The metrics that the Go programs' dashboards show.
TEST_F(RoleTermTest, CountsVolumesAndSnapshots) {
  Begin({"provisioner", "snapshotter", "snapshot-controller"});
  driver_->script().Fail("CreateVolume", base::Error(base::StatusCode::kInternal, "full"));
  Claim("data");
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  const auto has = [this](const std::string& line) {
    return Eventually([&] { return metrics_.RenderText().find(line) != std::string::npos; });
  };
  const std::string claim = R"({class="fast",source=""})";
  EXPECT_TRUE(has("controller_persistentvolumeclaim_provision_total" + claim + " 1\n"));
  EXPECT_TRUE(has("controller_persistentvolumeclaim_provision_failed_total" + claim + " 1\n"));
  EXPECT_TRUE(
      has("controller_persistentvolumeclaim_provision_duration_seconds_count" + claim + " 1\n"));
  Bind("data");
  cluster_.client.Add(controllers::MakeSnapshot("monday"));
  EXPECT_TRUE(
      has(fmt::format("snapshot_controller_operation_total_seconds_count{{driver_name=\"{}"
                      "\",operation_name=\"CreateSnapshotAndReady\",operation_status="
                      "\"success\",snapshot_type=\"dynamic\"}} 1\n",
                      kDriver)));
  EXPECT_TRUE(has("snapshot_controller_operations_in_flight 0\n"));

  auto volume = cluster_.Get<Volume>("", "pvc-uid-data");
  volume.Set({"status", "phase"}, "Released");
  cluster_.client.Remove(api::PersistentVolumeClaim::kInfo, "default", "data");
  cluster_.client.Add(volume);
  EXPECT_TRUE(has("controller_persistentvolume_delete_total{class=\"fast\"} 1\n"));
  End();
  EXPECT_THAT(rights_.refused(), IsEmpty());
}

// The names that the Go programs' dashboards ask for.
TEST_F(RoleTermTest, TheQueuesAreCalledAsInTheGoPrograms) {
  settings_.enable_capacity = true;
  settings_.capacity.ns = "default";
  settings_.capacity.owner_level = -1;
  Begin({"provisioner", "attacher", "resizer", "snapshotter", "snapshot-controller"});
  Claim("data");
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  const auto has = [this](const std::string& text) {
    return Eventually([&] { return metrics_.RenderText().find(text) != std::string::npos; });
  };
  for (const char* queue :
       {"claims", "volumes", "csistoragecapacity", "csi-attacher-va", "csi-attacher-pv",
        "fake.csi.example.com-pvc", "csi-snapshotter-content", "snapshot-controller-snapshot",
        "snapshot-controller-content", "csi-snapshotter-groupsnapshotcontent",
        "snapshot-controller-group-snapshot", "snapshot-controller-group-content"}) {
    EXPECT_TRUE(has(fmt::format("workqueue_depth{{name=\"{}\"}}", queue))) << queue;
  }
  for (const char* metric :
       {"adds_total", "queue_duration_seconds_count", "work_duration_seconds_count",
        "unfinished_work_seconds", "longest_running_processor_seconds", "retries_total"}) {
    EXPECT_TRUE(has(fmt::format("\nworkqueue_{}{{name=\"claims\"}}", metric))) << metric;
  }
  End();
  EXPECT_EQ(metrics_.RenderText().find("workqueue_depth"), std::string::npos);
}

// As a Go provisioner with --node-deployment: it knows its node from the driver.
TEST_F(RoleTermTest, AProvisionerOfOneNodeNeedsNoRightToNodes) {
  auto& options = driver_->state().options();
  options.plugin_capabilities.insert(
      controllers::DriverInfo::Service::VOLUME_ACCESSIBILITY_CONSTRAINTS);
  options.topology = {{"zone", "a"}};
  settings_.provisioner.node_deployment = {.node_name = "here",
                                           .base_delay = std::chrono::milliseconds(10)};
  Json rules = controllers::RulesOf("provisioner");
  for (Json& rule : rules) {
    std::erase_if(rule["resources"].get_ref<Json::array_t&>(), [](const Json& resource) {
      return resource == "nodes" || resource == "csinodes";
    });
  }
  rights_.Grant(rules);
  const Role* role = FindRole("provisioner");
  terms_.emplace_back([this, role](const std::stop_token& end) {
    RunTerm({.roles = {role},
             .socket = driver_->socket(),
             .driver = kDriver,
             .connection = {.driver = kDriver},
             .settings = settings_,
             .client = rights_,
             .informers = informers_,
             .clock = cluster_.clock,
             .host = "here"},
            end);
  });
  Claim("data");
  ASSERT_TRUE(WaitVolume("pvc-uid-data"));
  const auto request = driver_->script().LastRequest<csi::v1::CreateVolumeRequest>("CreateVolume");
  ASSERT_EQ(request.accessibility_requirements().requisite_size(), 1);
  EXPECT_EQ(request.accessibility_requirements().requisite(0).segments().at("zone"), "a");
  End();
  EXPECT_THAT(rights_.refused(), IsEmpty());
}

// A forbidden event is an optional write: the work goes on.
TEST_F(RoleTermTest, WithoutTheRightToEventsVolumesAreMadeAllTheSame) {
  Json rules = controllers::RulesOf("provisioner");
  std::erase_if(rules.get_ref<Json::array_t&>(),
                [](const Json& rule) { return rule["resources"][0] == "events"; });
  rights_.Grant(rules);
  const Role* role = FindRole("provisioner");
  terms_.emplace_back([this, role](const std::stop_token& end) {
    RunTerm({.roles = {role},
             .socket = driver_->socket(),
             .driver = kDriver,
             .connection = {},
             .settings = settings_,
             .client = rights_,
             .informers = informers_,
             .clock = cluster_.clock,
             .host = "here"},
            end);
  });
  Claim("one");
  Claim("two");
  EXPECT_TRUE(WaitVolume("pvc-uid-one"));
  EXPECT_TRUE(WaitVolume("pvc-uid-two"));
  EXPECT_TRUE(Eventually([&] { return rights_.refused().contains("create events"); }));
  End();
  EXPECT_THAT(rights_.refused(), testing::ElementsAre("create events"));
}

}  // namespace
}  // namespace berth::roles
