#include "controllers/writes.h"

#include "controllers/fake_cluster.h"
#include "controllers/well_known_names.h"

namespace berth::controllers {
namespace {

using base::Json;
using base::StatusCode;
using Claim = api::PersistentVolumeClaim;

class UpdateAtTest : public testing::Test {
 protected:
  void SetUp() override {
    // More objects than an informer keeps parsed. Each has fields that this program does not know.
    for (int i = 0; i < 300; ++i) {
      client_.Add(MakeClaim(
          fmt::format("data-{}", i),
          {{"spec", {{"future", {{"a", 1.5}}}}}, {"status", {{"later", {1, nullptr, ""}}}}}));
    }
    informers_.Start();
    ASSERT_TRUE(informers_.WaitForSync(std::chrono::seconds(10)).ok());
  }

  StatusOr<Claim> Select(const Claim& claim) {
    return UpdateAt(client_, claims_, claim,
                    {{"metadata", {{"annotations", {{std::string(kSelectedNode), "node-a"}}}}}});
  }

  kube::FakeClient client_;
  kube::Informers informers_{client_};
  kube::Informer<Claim>& claims_ = informers_.Of<Claim>();
};

TEST_F(UpdateAtTest, TheWholeObjectIsWrittenWithoutBeingReadAgain) {
  for (const char* name : {"data-0", "data-299"}) {
    client_.FailNext("get", "persistentvolumeclaims",
                     base::Error(StatusCode::kPermissionDenied, "no get"));
    const auto claim = claims_.Get("default", name);
    ASSERT_NE(claim, nullptr);
    const auto updated = Select(*claim);
    ASSERT_TRUE(updated.ok()) << updated.status();
    Json wanted = claim->json();
    wanted["metadata"]["annotations"][std::string(kSelectedNode)] = "node-a";
    Json stored = client_.Peek(Claim::kInfo, "default", name);
    EXPECT_NE(stored["metadata"]["resourceVersion"], wanted["metadata"]["resourceVersion"]);
    wanted["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"];
    EXPECT_EQ(stored, wanted);
    EXPECT_EQ(claims_.Get("default", name)->annotation(kSelectedNode), "node-a");
    EXPECT_FALSE(claim->has_annotation(kSelectedNode)) << "others hold this object, too";
  }
  EXPECT_EQ(client_.ActionNames(),
            (std::vector<std::string>{"update persistentvolumeclaims/default/data-0",
                                      "update persistentvolumeclaims/default/data-299"}));
}

TEST_F(UpdateAtTest, AnObjectThatChangedMeanwhileIsLeftAsItIs) {
  const auto old = claims_.Get("default", "data-1");
  auto changed = *client_.Peek<Claim>("default", "data-1");
  changed.set_annotation("who", "other");
  client_.Add(changed);
  EXPECT_EQ(Select(*old).status().code(), StatusCode::kAborted);
  const auto stored = *client_.Peek<Claim>("default", "data-1");
  EXPECT_EQ(stored.annotation("who"), "other");
  EXPECT_FALSE(stored.has_annotation(kSelectedNode));
}

TEST(CreateOrReadTest, AnObjectThatAnEarlierRunCreatedIsReadAndNotWritten) {
  kube::FakeClient client;
  const Claim wanted(MakeClaim("data"));
  client.LoseNextAnswer("create", "persistentvolumeclaims",
                        base::Error(StatusCode::kUnavailable, "lost"));
  EXPECT_EQ(CreateOrRead(client, wanted).status().code(), StatusCode::kUnavailable);
  const auto stored = client.Peek<Claim>("default", "data");
  ASSERT_TRUE(stored.has_value());
  const auto read = CreateOrRead(client, wanted);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->json(), stored->json());
  EXPECT_EQ(client.Peek<Claim>("default", "data")->json(), stored->json());
}

TEST(CreateOrReadTest, WhatTheApiRefusesIsNotRead) {
  kube::FakeClient client;
  client.Add(MakeClaim("data"));
  client.FailNext("create", "persistentvolumeclaims",
                  base::Error(StatusCode::kPermissionDenied, "no create"));
  EXPECT_EQ(CreateOrRead(client, Claim(MakeClaim("data"))).status().code(),
            StatusCode::kPermissionDenied);
}

TEST(WouldChangeTest, OnlyAPatchThatSaysSomethingElseChangesTheObject) {
  const Claim claim(MakeClaim("data", BoundClaim("pv-1")));
  EXPECT_FALSE(WouldChange(claim, Json::object()));
  EXPECT_FALSE(WouldChange(claim, {{"status", {{"phase", "Bound"}, {"error", nullptr}}}}));
  EXPECT_TRUE(WouldChange(claim, {{"status", {{"phase", "Lost"}}}}));
  EXPECT_TRUE(WouldChange(claim, {{"status", {{"reason", "new"}}}}));
  EXPECT_TRUE(WouldChange(claim, {{"status", {{"capacity", nullptr}}}}));
}

}  // namespace
}  // namespace berth::controllers
