#include "controllers/claims.h"

#include <gmock/gmock.h>

#include "controllers/csi_codec.h"
#include "controllers/fake_cluster.h"
#include "controllers/indexes.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"

namespace berth::controllers {
namespace {

using base::Json;
using base::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using Claim = api::PersistentVolumeClaim;
using Volume = api::PersistentVolume;
using AccessMode = csi::v1::VolumeCapability::AccessMode;

TEST(CheckFitsTest, SaysWhatDoesNotFit) {
  struct Case {
    Json volume;
    Json claim;
    std::string why;  // "": it fits
  };
  const std::vector<Case> cases = {
      {nullptr, nullptr, ""},
      {{{"spec", {{"capacity", {{"storage", "5Gi"}}}}}}, nullptr, ""},
      {{{"spec", {{"capacity", {{"storage", "1023Mi"}}}}}}, nullptr, "requested PV is too small"},
      {{{"spec", {{"capacity", {{"storage", "rubbish"}}}}}}, nullptr, "requested PV is too small"},
      {{{"spec", {{"storageClassName", "slow"}}}}, nullptr, "storageClassName does not match"},
      {{{"spec", {{"volumeMode", "Block"}}}}, nullptr, "incompatible volumeMode"},
      {nullptr, {{"spec", {{"accessModes", {"ReadWriteMany"}}}}}, "incompatible accessMode"},
      {{{"spec", {{"accessModes", {"ReadWriteOnce", "ReadWriteMany"}}}}},
       {{"spec", {{"accessModes", {"ReadWriteMany"}}}}},
       ""},
      {nullptr, {{"spec", {{"volumeAttributesClassName", "gold"}}}}, "VolumeAttributesClassName"},
  };
  for (const Case& c : cases) {
    const base::Status fits =
        CheckFits(Volume(MakeVolume("pv", c.volume)), Claim(MakeClaim("c", c.claim)), "fast");
    if (c.why.empty()) {
      EXPECT_TRUE(fits.ok()) << base::ToString(fits);
    } else {
      EXPECT_EQ(fits.code(), StatusCode::kFailedPrecondition) << c.why;
      EXPECT_THAT(std::string(base::Message(fits)), HasSubstr(c.why));
    }
  }
}

class FindVolumeTest : public ::testing::Test {
 protected:
  FindVolumeTest() { AddVolumeIndexes(cluster_.informers.Of<Volume>()); }

  void Add(const std::string& name, const Json& more = nullptr) {
    cluster_.Put(MakeVolume(name, more));
  }
  std::string Find(const Json& claim = nullptr, MatchOptions options = {}) {
    if (!started_) cluster_.Start();
    started_ = true;
    if (options.class_name.empty()) options.class_name = "fast";
    const auto volume =
        FindVolume(cluster_.informers.Of<Volume>(), Claim(MakeClaim("data", claim)), options);
    return volume == nullptr ? "" : volume->name();
  }

  FakeCluster cluster_;
  bool started_ = false;
};

TEST_F(FindVolumeTest, TakesTheSmallestThatFits) {
  Add("a-large", {{"spec", {{"capacity", {{"storage", "10Gi"}}}}}});
  Add("c-small", {{"spec", {{"capacity", {{"storage", "2Gi"}}}}}});
  Add("b-small", {{"spec", {{"capacity", {{"storage", "2Gi"}}}}}});
  Add("too-small", {{"spec", {{"capacity", {{"storage", "1Mi"}}}}}});
  EXPECT_EQ(Find(), "b-small");
}

TEST_F(FindVolumeTest, PrefersTheOneThatNamesTheClaim) {
  Add("small");
  Add("named", {{"spec",
                 {{"capacity", {{"storage", "10Gi"}}},
                  {"claimRef", {{"namespace", "default"}, {"name", "data"}}}}}});
  EXPECT_EQ(Find(), "named");
  EXPECT_EQ(Find(nullptr, {.class_name = "", .pre_bound_only = true}), "named");
}

TEST_F(FindVolumeTest, SkipsWhatIsNotToBeHad) {
  Add("others", {{"spec", {{"claimRef", {{"namespace", "default"}, {"name", "other"}}}}}});
  Add("namesake",
      {{"spec",
        {{"claimRef",
          {{"namespace", "default"}, {"name", "data"}, {"uid", "uid-of-an-older-one"}}}}}});
  Add("released", {{"status", {{"phase", "Released"}}}});
  Add("deleted", {{"metadata", {{"deletionTimestamp", "2026-01-01T00:00:00Z"}}}});
  EXPECT_EQ(Find(), "");
}

TEST_F(FindVolumeTest, HeedsTheSelectorTheNodeAndWhatIsTaken) {
  Add("plain");
  Add("labelled", {{"metadata", {{"labels", {{"tier", "gold"}}}}}});
  EXPECT_EQ(Find({{"spec", {{"selector", {{"matchLabels", {{"tier", "gold"}}}}}}}}), "labelled");
  EXPECT_EQ(
      Find({{"spec",
             {{"selector", {{"matchExpressions", {{{"key", "tier"}, {"operator", "Near"}}}}}}}}}),
      "");
  EXPECT_EQ(Find(nullptr, {.class_name = "", .exclude = {"labelled"}}), "plain");
  const api::Node node(MakeNode("node-a"));
  EXPECT_EQ(Find(nullptr, {.class_name = "", .node = &node}), "labelled");
}

TEST(ClaimNamesTest, HoldGenericEphemeralVolumesToo) {
  Json pod = MakePod("web", "data");
  pod["spec"]["volumes"].push_back({{"name", "tmp"}, {"emptyDir", Json::object()}});
  pod["spec"]["volumes"].push_back(
      {{"name", "scratch"}, {"ephemeral", {{"volumeClaimTemplate", Json::object()}}}});
  EXPECT_THAT(ClaimNames(api::Pod(pod)), ElementsAre("data", "web-scratch"));
}

TEST(DefaultClassTest, IsTheNewestThenTheFirstByName) {
  FakeCluster cluster;
  auto& classes = cluster.informers.Of<api::StorageClass>();
  const auto marked = [](const std::string& time) {
    return Json{
        {"metadata",
         {{"annotations", {{std::string(kDefaultClass), "true"}}}, {"creationTimestamp", time}}}};
  };
  cluster.Put(MakeClass("old", marked("2025-01-01T00:00:00Z")));
  cluster.Put(MakeClass("new-b", marked("2025-02-01T00:00:00Z")));
  cluster.Put(MakeClass("new-a", marked("2025-02-01T00:00:00Z")));
  cluster.Put(MakeClass("unmarked"));
  cluster.Start();
  EXPECT_EQ(DefaultClass(classes)->name(), "new-a");
  EXPECT_EQ(ClassName(Claim(MakeClaim("c")), classes), "fast");
  EXPECT_EQ(ClassName(Claim(MakeClaim("c", {{"spec", {{"storageClassName", nullptr}}}})), classes),
            "new-a");
  EXPECT_EQ(ClassName(Claim(MakeClaim("c", {{"spec", {{"storageClassName", ""}}}})), classes), "");
}

TEST(AccessModeTest, IsMappedAsTheSidecarsDo) {
  struct Case {
    std::vector<std::string> modes;
    AccessMode::Mode without, with;
  };
  for (const Case& c : std::vector<Case>{{{"ReadWriteOncePod"},
                                          AccessMode::SINGLE_NODE_WRITER,
                                          AccessMode::SINGLE_NODE_SINGLE_WRITER},
                                         {{"ReadWriteOnce"},
                                          AccessMode::SINGLE_NODE_WRITER,
                                          AccessMode::SINGLE_NODE_MULTI_WRITER},
                                         {{"ReadOnlyMany"},
                                          AccessMode::MULTI_NODE_READER_ONLY,
                                          AccessMode::MULTI_NODE_READER_ONLY},
                                         {{"ReadWriteOnce", "ReadWriteMany"},
                                          AccessMode::MULTI_NODE_MULTI_WRITER,
                                          AccessMode::MULTI_NODE_MULTI_WRITER}}) {
    EXPECT_EQ(*ToCsiAccessMode(c.modes, false), c.without);
    EXPECT_EQ(*ToCsiAccessMode(c.modes, true), c.with);
  }
  for (const std::vector<std::string>& bad :
       {std::vector<std::string>{"ReadWriteOncePod", "ReadWriteOnce"},
        {"ReadOnlyMany", "ReadWriteOnce"},
        {},
        {"Sometimes"}}) {
    EXPECT_EQ(ToCsiAccessMode(bad, true).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(ReadSecretTest, DecodesAndNeverTellsValues) {
  FakeCluster cluster;
  cluster.Put({{"apiVersion", "v1"},
               {"kind", "Secret"},
               {"metadata", {{"name", "good"}, {"namespace", "ns"}}},
               {"data", {{"user", "bWU="}}}});
  cluster.Put({{"apiVersion", "v1"},
               {"kind", "Secret"},
               {"metadata", {{"name", "bad"}, {"namespace", "ns"}}},
               {"data", {{"user", "!!hunter2!!"}}}});
  EXPECT_THAT(*ReadSecret(cluster.client, {.name = "good", .ns = "ns"}),
              ElementsAre(Pair("user", "me")));
  EXPECT_TRUE(ReadSecret(cluster.client, {})->empty());
  const auto bad = ReadSecret(cluster.client, {.name = "bad", .ns = "ns"});
  EXPECT_THAT(base::ToString(bad.status()), HasSubstr("key 'user' is not base64"));
  EXPECT_THAT(base::ToString(bad.status()), ::testing::Not(HasSubstr("hunter2")));
  EXPECT_THAT(base::ToString(ReadSecret(cluster.client, {.name = "none", .ns = "ns"}).status()),
              HasSubstr("read secret 'ns/none'"));
}

TEST(DriverErrorTest, ReadsLikeTheSidecarsDo) {
  EXPECT_EQ(DriverError(base::Error(StatusCode::kDeadlineExceeded, "slow")),
            "rpc error: code = DeadlineExceeded desc = slow");
}

class DriverConnectionTest : public ::testing::Test {
 protected:
  DriverConnectionTest() : connection_(cluster_.AddDriver()) {
    connection_.OnReady([this] {
      base::MutexLock lock(mutex_);
      ++ready_;
      changed_.NotifyAll();
    });
  }
  bool WaitReady(int count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    base::MutexLock lock(mutex_);
    while (ready_ < count) {
      if (!changed_.WaitUntil(mutex_, deadline)) return ready_ >= count;
    }
    return true;
  }

  FakeCluster cluster_;
  DriverConnection& connection_;
  base::Mutex mutex_;
  base::CondVar changed_;
  int ready_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST_F(DriverConnectionTest, ReadsWhatTheDriverIs) {
  EXPECT_EQ(connection_.info(), nullptr);
  connection_.Start();
  ASSERT_TRUE(WaitReady(1));
  const auto info = connection_.info();
  EXPECT_EQ(info->name, "fake.csi.example.com");
  EXPECT_TRUE(info->topology());
  EXPECT_TRUE(info->Has(DriverInfo::Rpc::CREATE_DELETE_VOLUME));
  EXPECT_FALSE(info->Has(DriverInfo::Rpc::PUBLISH_READONLY));
}

TEST_F(DriverConnectionTest, WaitsForADriverThatIsNotThereYet) {
  cluster_.driver->GoAway();
  connection_.Start();
  ASSERT_TRUE(cluster_.driver->ComeBack().ok());
  EXPECT_TRUE(WaitReady(1));
}

TEST_F(DriverConnectionTest, ReadsAnewWhenTheDriverIsBack) {
  connection_.Start();
  ASSERT_TRUE(WaitReady(1));
  cluster_.driver->GoAway();
  const auto lost = connection_.Call(&rpc::CsiClient::DeleteVolume, csi::v1::DeleteVolumeRequest(),
                                     std::chrono::seconds(1));
  EXPECT_EQ(lost.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(connection_.info(), nullptr);
  cluster_.driver->state().options().controller_capabilities.insert(
      DriverInfo::Rpc::PUBLISH_READONLY);
  ASSERT_TRUE(cluster_.driver->ComeBack().ok());
  ASSERT_TRUE(WaitReady(2));
  EXPECT_TRUE(connection_.info()->Has(DriverInfo::Rpc::PUBLISH_READONLY));
}

TEST_F(DriverConnectionTest, ADriverInAnothersPlaceIsRefused) {
  connection_.Start();
  ASSERT_TRUE(WaitReady(1));
  cluster_.driver->GoAway();
  (void)connection_.Call(&rpc::CsiClient::DeleteVolume, csi::v1::DeleteVolumeRequest(),
                         std::chrono::seconds(1));
  cluster_.driver->state().options().name = "impostor.example.com";
  cluster_.driver->script().ForgetCalls();
  ASSERT_TRUE(cluster_.driver->ComeBack().ok());
  ASSERT_TRUE(cluster_.driver->script().WaitFor("ControllerGetCapabilities", 2));
  EXPECT_EQ(connection_.info()->name, "fake.csi.example.com");
  base::MutexLock lock(mutex_);
  EXPECT_EQ(ready_, 1);
}

TEST(AfterApiTest, TellsWhatAnAnswerMeansForTheQueue) {
  EXPECT_TRUE(AfterApi(base::OkStatus()).status.ok());
  EXPECT_LT(AfterApi(base::Error(StatusCode::kNotFound, "gone")).delay.count(), 0);
  EXPECT_EQ(AfterApi(base::Error(StatusCode::kAborted, "conflict")).delay.count(), 50);
  EXPECT_EQ(AfterApi(base::Error(StatusCode::kUnavailable, "down")).delay.count(), 1000);
  EXPECT_FALSE(AfterApi(base::Error(StatusCode::kInvalidArgument, "bad")).status.ok());
}

}  // namespace
}  // namespace berth::controllers
