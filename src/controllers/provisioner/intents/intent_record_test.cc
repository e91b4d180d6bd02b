#include "controllers/provisioner/intents/intent_record.h"

#include <gmock/gmock.h>

#include <thread>
#include <vector>

#include "base/base64.h"
#include "controllers/fake_cluster.h"
#include "controllers/well_known_names.h"
#include "http/gzip.h"

namespace berth::controllers::provisioner {
namespace {

using api::kinds::kLease;
using base::Json;
using base::StatusCode;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class IntentRecordTest : public ::testing::Test {
 protected:
  static constexpr char kName[] = "berth-provisioning-d";

  static Intent IntentFor(const std::string& name) {
    Plan plan;
    plan.volume_name = "pvc-uid-" + name;
    plan.fs_type = "xfs";
    plan.read_only = true;
    plan.secrets[SecretUse::kNodeStage] = {.name = "creds", .ns = "storage"};
    plan.request.set_name(plan.volume_name);
    (*plan.request.mutable_parameters())["tier"] = "gold";
    Json claim = MakeClaim(
        name, {{"metadata", {{"annotations", {{std::string(kSelectedNode), "node-a"}}}}}});
    return {.claim = std::make_shared<const api::PersistentVolumeClaim>(claim),
            .storage_class = std::make_shared<const api::StorageClass>(
                MakeClass("fast", {{"mountOptions", {"noatime"}}})),
            .plan = std::make_shared<const Plan>(plan),
            .inherited = false,
            .given_up = nullptr,
            .since = base::FakeClock().Now()};
  }
  std::unique_ptr<IntentRecord> Record(const std::string& lineage = "one") {
    return std::make_unique<IntentRecord>(client_,
                                          IntentOptions{.ns = "storage", .lineage = lineage});
  }
  std::unique_ptr<IntentRecord> Loaded(const std::string& lineage = "one") {
    auto record = Record(lineage);
    EXPECT_TRUE(record->Load(kName).ok());
    return record;
  }
  Json Lease() { return client_.Peek(kLease, "storage", kName); }
  int Writes() { return static_cast<int>(client_.ActionNames().size()); }

  kube::FakeClient client_;
};

TEST_F(IntentRecordTest, TheNextProcessGetsAllThatIsNeededToAskAgain) {
  Intent intent = IntentFor("data");
  intent.inherited = true;
  intent.given_up = IntentFor("data").plan;
  ASSERT_TRUE(Loaded()->HoldIntent("uid-data", intent).ok());
  const auto left = Record()->Load(kName);
  ASSERT_TRUE(left.ok());
  EXPECT_FALSE(left->disputed);
  ASSERT_THAT(left->intents, SizeIs(1));
  const Intent& read = left->intents[0];
  EXPECT_EQ(read.claim->key(), "default/data");
  EXPECT_EQ(read.claim->uid(), "uid-data");
  EXPECT_EQ(read.claim->annotation(kSelectedNode), "node-a");
  EXPECT_EQ(read.claim->requested_storage(), "1Gi");
  EXPECT_EQ(read.storage_class->reclaim_policy(), "Delete");
  EXPECT_THAT(read.storage_class->mount_options(), ::testing::ElementsAre("noatime"));
  EXPECT_EQ(read.plan->request.SerializeAsString(), intent.plan->request.SerializeAsString());
  EXPECT_EQ(read.plan->volume_name, "pvc-uid-data");
  EXPECT_EQ(read.plan->fs_type, "xfs");
  EXPECT_TRUE(read.plan->read_only);
  EXPECT_EQ(read.plan->secret(SecretUse::kNodeStage).ns, "storage");
  EXPECT_TRUE(read.inherited);
  ASSERT_NE(read.given_up, nullptr);
  EXPECT_EQ(read.since, intent.since);
}

TEST_F(IntentRecordTest, AReleasedIntentIsGoneWithTheNextWrite) {
  const auto record = Loaded();
  ASSERT_TRUE(record->HoldIntent("uid-a", IntentFor("a")).ok());
  EXPECT_TRUE(record->Release("uid-a"));
  EXPECT_FALSE(record->Release("uid-a"));
  ASSERT_TRUE(record->HoldIntent("uid-b", IntentFor("b")).ok());
  const auto left = Record()->Load(kName);
  ASSERT_TRUE(left.ok());
  ASSERT_THAT(left->intents, SizeIs(1));
  EXPECT_EQ(left->intents[0].claim->name(), "b");
  record->Release("uid-b");
  ASSERT_TRUE(record->Flush().ok());
  EXPECT_THAT(Record()->Load(kName)->intents, IsEmpty());
  const int writes = Writes();
  ASSERT_TRUE(record->Flush().ok());
  EXPECT_EQ(Writes(), writes) << "nothing has changed";
}

TEST_F(IntentRecordTest, AnIntentThatIsHeldAlreadyCostsNoWrite) {
  const auto record = Loaded();
  ASSERT_TRUE(record->HoldIntent("uid-a", IntentFor("a")).ok());
  const int writes = Writes();
  ASSERT_TRUE(record->HoldIntent("uid-a", IntentFor("a")).ok());
  EXPECT_EQ(Writes(), writes);
}

TEST_F(IntentRecordTest, HoldsAtTheSameTimeAreAllInTheLease) {
  const auto record = Loaded();
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 16; ++i) {
      callers.emplace_back([&, i] {
        const std::string name = fmt::format("c{}", i);
        EXPECT_TRUE(record->HoldIntent("uid-" + name, IntentFor(name)).ok());
      });
    }
  }
  EXPECT_THAT(Record()->Load(kName)->intents, SizeIs(16));
  EXPECT_LE(Writes(), 16);
}

TEST_F(IntentRecordTest, AFailedWriteLeavesTheEarlierIntent) {
  const auto record = Loaded();
  Intent intent = IntentFor("a");
  ASSERT_TRUE(record->HoldIntent("uid-a", intent).ok());
  intent.inherited = true;
  client_.FailNext("update", "leases", base::Error(StatusCode::kUnavailable, "away"));
  EXPECT_EQ(record->HoldIntent("uid-a", intent).code(), StatusCode::kUnavailable);
  client_.FailNext("update", "leases", base::Error(StatusCode::kUnavailable, "away"));
  EXPECT_EQ(record->HoldIntent("uid-b", IntentFor("b")).code(), StatusCode::kUnavailable);
  ASSERT_TRUE(record->Flush().ok());
  const auto left = Record()->Load(kName);
  ASSERT_THAT(left->intents, SizeIs(1));
  EXPECT_FALSE(left->intents[0].inherited);
}

TEST_F(IntentRecordTest, ALostAnswerOfTheApiIsNoConflict) {
  const auto record = Loaded();
  ASSERT_TRUE(record->HoldIntent("uid-a", IntentFor("a")).ok());
  client_.LoseNextAnswer("update", "leases", base::Error(StatusCode::kUnavailable, "lost"));
  EXPECT_FALSE(record->HoldIntent("uid-b", IntentFor("b")).ok());
  EXPECT_TRUE(record->HoldIntent("uid-c", IntentFor("c")).ok());
  EXPECT_THAT(Record()->Load(kName)->intents, SizeIs(2));
}

TEST_F(IntentRecordTest, SomebodyElsesLabelsAndADeletedLeaseAreNoObstacle) {
  const auto record = Loaded();
  ASSERT_TRUE(record->HoldIntent("uid-a", IntentFor("a")).ok());
  Json lease = Lease();
  lease["metadata"]["labels"] = {{"by", "hand"}};
  client_.Add(lease);
  ASSERT_TRUE(record->HoldIntent("uid-b", IntentFor("b")).ok());
  EXPECT_EQ(Lease()["metadata"]["labels"]["by"], "hand");
  client_.Remove(kLease, "storage", kName);
  ASSERT_TRUE(record->HoldIntent("uid-c", IntentFor("c")).ok());
  EXPECT_THAT(Record()->Load(kName)->intents, SizeIs(3));
}

TEST_F(IntentRecordTest, WhatAnotherProcessWroteIsReadBeforeTheNextWrite) {
  const auto first = Loaded();
  ASSERT_TRUE(first->HoldIntent("uid-a", IntentFor("a")).ok());
  const auto second = Loaded();
  ASSERT_TRUE(second->HoldIntent("uid-b", IntentFor("b")).ok());
  EXPECT_EQ(first->HoldIntent("uid-c", IntentFor("c")).code(), StatusCode::kAborted);
  EXPECT_FALSE(first->loaded());
  const auto left = first->Load(kName);
  ASSERT_TRUE(left.ok());
  ASSERT_THAT(left->intents, SizeIs(1));
  EXPECT_EQ(left->intents[0].claim->name(), "b");
  ASSERT_TRUE(first->HoldIntent("uid-c", IntentFor("c")).ok());
  EXPECT_THAT(Record()->Load(kName)->intents, SizeIs(3));
}

TEST_F(IntentRecordTest, IntentsOfAnotherLineageAreDisputed) {
  ASSERT_TRUE(Loaded("one")->HoldIntent("uid-a", IntentFor("a")).ok());
  EXPECT_FALSE(Record("one")->Load(kName)->disputed);
  EXPECT_TRUE(Record("two")->Load(kName)->disputed);
  EXPECT_TRUE(Record("")->Load(kName)->disputed);
  ASSERT_TRUE(Loaded("two")->Flush().ok());
  EXPECT_FALSE(Record("two")->Load(kName)->disputed) << "they were taken over";
}

TEST_F(IntentRecordTest, AFullRecordTakesNoMore) {
  const auto record = Loaded();
  Intent large = IntentFor("a");
  Plan plan = *large.plan;
  (*plan.request.mutable_parameters())["blob"] = std::string(IntentRecord::kMostBytes / 2, 'x');
  large.plan = std::make_shared<const Plan>(plan);
  ASSERT_TRUE(record->HoldIntent("uid-a", large).ok());
  EXPECT_EQ(record->HoldIntent("uid-b", large).code(), StatusCode::kResourceExhausted);
  ASSERT_TRUE(record->HoldIntent("uid-c", IntentFor("c")).ok());
  record->Release("uid-a");
  EXPECT_TRUE(record->HoldIntent("uid-b", large).ok());
}

TEST_F(IntentRecordTest, AShortRecordIsReadByPeopleAndALongOneIsPacked) {
  const auto record = Loaded();
  const auto annotation = [&] {
    return Lease()["metadata"]["annotations"]["storage.berth.dev/intents"].get<std::string>();
  };
  ASSERT_TRUE(record->HoldIntent("uid-0", IntentFor("0")).ok());
  EXPECT_TRUE(Json::accept(annotation()));
  const size_t plain = annotation().size();
  constexpr int kIntents = 50;
  for (int i = 1; i < kIntents; ++i) {
    ASSERT_TRUE(record->HoldIntent(fmt::format("uid-{}", i), IntentFor(fmt::format("{}", i))).ok());
  }
  EXPECT_FALSE(Json::accept(annotation()));
  EXPECT_LT(annotation().size(), kIntents * plain / 5);
  EXPECT_THAT(Record()->Load(kName)->intents, SizeIs(kIntents));
}

TEST_F(IntentRecordTest, WithoutANamespaceOrTheRightNothingIsRecorded) {
  IntentRecord nowhere(client_, {.ns = "", .lineage = ""});
  ASSERT_TRUE(nowhere.Load(kName).ok());
  EXPECT_TRUE(nowhere.HoldIntent("uid-a", IntentFor("a")).ok());
  client_.FailNext("create", "leases", base::Error(StatusCode::kPermissionDenied, "forbidden"));
  const auto record = Loaded();
  EXPECT_TRUE(record->HoldIntent("uid-a", IntentFor("a")).ok());
  EXPECT_TRUE(record->HoldIntent("uid-b", IntentFor("b")).ok());
  EXPECT_TRUE(Lease().is_null());
}

TEST_F(IntentRecordTest, WhatIsMalformedHidesNothingElse) {
  ASSERT_TRUE(Loaded()->HoldIntent("uid-a", IntentFor("a")).ok());
  Json lease = Lease();
  Json& text = lease["metadata"]["annotations"]["storage.berth.dev/intents"];
  Json record = Json::parse(text.get<std::string>());
  record["intents"]["uid-odd"] = {{"claim", 5}};
  record["intents"]["uid-cut"] = record["intents"]["uid-a"];
  record["intents"]["uid-cut"]["plan"]["request"] = "!";
  text = record.dump();
  client_.Add(lease);
  const auto left = Record()->Load(kName);
  ASSERT_TRUE(left.ok());
  ASSERT_THAT(left->intents, SizeIs(1));
  EXPECT_EQ(left->intents[0].claim->name(), "a");
  const std::string bomb = R"({"intents":{},"fill":")" + std::string(8 << 20, 'x') + R"("})";
  for (const std::string& odd : {std::string("[no json"), base::EncodeBase64("no gzip"),
                                 base::EncodeBase64(http::Gzip(bomb))}) {
    text = odd;
    client_.Add(lease);
    EXPECT_THAT(Record()->Load(kName)->intents, IsEmpty());
  }
}

}  // namespace
}  // namespace berth::controllers::provisioner
