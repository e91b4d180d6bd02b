#include "controllers/definitions.h"

#include <gtest/gtest.h>

#include <thread>

#include "api/kinds/block_kinds.h"
#include "api/kinds/group_snapshots.h"
#include "api/kinds/kinds.h"
#include "kube/fake_client.h"

namespace berth::controllers {
namespace {

using api::CustomResourceDefinition;
using base::Json;
using base::StatusCode;

const Json kEstablished = {{"conditions", {{{"type", "Established"}, {"status", "True"}}}}};

// Says of each definition that it is served, as the API server does, as soon as it is there.
class Establisher {
 public:
  explicit Establisher(kube::FakeClient& client)
      : thread_([&client](std::stop_token stop) {
          while (!stop.stop_requested()) {
            client.WaitUntil([&] { return stop.stop_requested() || !Left(client).empty(); },
                             std::chrono::milliseconds(20));
            for (const CustomResourceDefinition& definition : Left(client)) {
              (void)kube::MergePatch(client, definition, {{"status", kEstablished}}, "status");
            }
          }
        }) {}

 private:
  static std::vector<CustomResourceDefinition> Left(kube::FakeClient& client) {
    std::vector<CustomResourceDefinition> left;
    for (const Json& item : client.PeekAll(CustomResourceDefinition::kInfo)) {
      if (!item.contains("status")) left.emplace_back(item);
    }
    return left;
  }
  std::jthread thread_;
};

TEST(DefinitionsTest, AreThoseOfTheKindsThatCodeReads) {
  kube::FakeClient client;
  Establisher establisher(client);
  ASSERT_TRUE(InstallDefinitions(client, SnapshotDefinitions(), std::chrono::seconds(10)).ok());
  ASSERT_TRUE(InstallDefinitions(client, BlockDefinitions(), std::chrono::seconds(10)).ok());
  EXPECT_EQ(client.PeekAll(CustomResourceDefinition::kInfo).size(), 10U);
  for (const api::KindInfo* kind :
       {&api::kinds::kVolumeSnapshotClass, &api::kinds::kVolumeSnapshotContent,
        &api::kinds::kVolumeSnapshot, &api::kinds::kVolumeGroupSnapshotClass,
        &api::kinds::kVolumeGroupSnapshotContent, &api::kinds::kVolumeGroupSnapshot,
        &api::kinds::kVolumeFence, &api::kinds::kNodeCleanup, &api::kinds::kStorageCluster,
        &api::kinds::kBlockSnapshot}) {
    const auto definition = client.Peek<CustomResourceDefinition>("", kind->group_resource());
    ASSERT_TRUE(definition.has_value()) << kind->plural;
    EXPECT_EQ(definition->group(), kind->group);
    EXPECT_EQ(definition->plural(), kind->plural);
    EXPECT_EQ(definition->namespaced(), kind->namespaced);
    ASSERT_EQ(definition->versions().size(), 1U);
    const Json& version = definition->versions()[0];
    EXPECT_EQ(base::json::String(version, {"name"}), kind->version);
    EXPECT_EQ(base::json::Find(version, {"subresources", "status"}) != nullptr, kind->has_status);
    const Json& names = base::json::Map(definition->json(), {"spec", "names"});
    EXPECT_EQ(base::json::String(names, {"kind"}), kind->kind);
    EXPECT_EQ(names["shortNames"].size(), kind->short_names.size());
  }
}

TEST(DefinitionsTest, BringsItsOwnUpToDateAndLeavesOthersAlone) {
  kube::FakeClient client;
  const Json stale = {{"group", "snapshot.storage.k8s.io"}, {"versions", Json::array()}};
  const auto add = [&](const std::string& name, const Json& labels) {
    client.Add({{"apiVersion", "apiextensions.k8s.io/v1"},
                {"kind", "CustomResourceDefinition"},
                {"metadata", {{"name", name}, {"labels", labels}}},
                {"spec", stale},
                {"status", kEstablished}});
  };
  add("volumesnapshots.snapshot.storage.k8s.io", {{"app.kubernetes.io/managed-by", "berth"}});
  add("volumesnapshotclasses.snapshot.storage.k8s.io", {{"app.kubernetes.io/managed-by", "Helm"}});
  Establisher establisher(client);
  ASSERT_TRUE(InstallDefinitions(client, SnapshotDefinitions(), std::chrono::seconds(10)).ok());
  const auto versions = [&](const std::string& name) {
    return client.Peek<CustomResourceDefinition>("", name)->versions().size();
  };
  EXPECT_EQ(versions("volumesnapshots.snapshot.storage.k8s.io"), 1U);
  EXPECT_EQ(versions("volumesnapshotclasses.snapshot.storage.k8s.io"), 0U);
}

TEST(DefinitionsTest, SaysWhichAreNotServedInTime) {
  kube::FakeClient client;
  const base::Status status =
      InstallDefinitions(client, SnapshotDefinitions(), std::chrono::seconds(0));
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(base::ToString(status).find("volumesnapshots.snapshot.storage.k8s.io"),
            std::string::npos);
}

}  // namespace
}  // namespace berth::controllers
