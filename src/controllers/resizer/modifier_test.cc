// Every transition of a modification: objects in, writes and CSI calls out.
#include "controllers/resizer/fake_resizer_case.h"

namespace berth::controllers::resizer {
namespace {

using base::Error;
using base::Json;
using base::StatusCode;
using Claim = api::PersistentVolumeClaim;
using Volume = api::PersistentVolume;

Json MakeAttributesClass(const std::string& name, const std::string& iops,
                         const std::string& driver = "fake.csi.example.com") {
  return {{"apiVersion", "storage.k8s.io/v1"},
          {"kind", "VolumeAttributesClass"},
          {"metadata", {{"name", name}}},
          {"driverName", driver},
          {"parameters", {{"iops", iops}}}};
}
void Classes(FakeCluster& cluster) {
  cluster.Put(MakeAttributesClass("gold", "9000"));
  cluster.Put(MakeAttributesClass("silver", "100"));
  cluster.Put(MakeAttributesClass("theirs", "1", "another.example.com"));
}
std::function<void(FakeCluster&)> ClassesAnd(std::function<void(FakeCluster&)> more) {
  return [more = std::move(more)](FakeCluster& cluster) {
    Classes(cluster);
    more(cluster);
  };
}
std::function<void(FakeCluster&)> ClassesAndFailure(StatusCode code) {
  return ClassesAnd(Fails("ControllerModifyVolume", code, "no"));
}

// A claim that wishes for a class, has one ("" none), and is on its way to one.
Json Wish(const std::string& wish, const std::string& current, const std::string& target = "",
          const std::string& status = "") {
  Json claim = {{"spec", Json::object()}, {"status", Json::object()}};
  if (!wish.empty()) claim["spec"]["volumeAttributesClassName"] = wish;
  if (!current.empty()) claim["status"]["currentVolumeAttributesClassName"] = current;
  if (!status.empty()) {
    claim["status"]["modifyVolumeStatus"] = {{"targetVolumeAttributesClassName", target},
                                             {"status", status}};
  }
  return claim;
}
Json Of(const std::string& name) { return {{"spec", {{"volumeAttributesClassName", name}}}}; }

Write BeginsModifying(const std::string& target) {
  return {"patch pvc",
          {fmt::format(R"("modifyVolumeStatus":{{"status":"InProgress",)"
                       R"("targetVolumeAttributesClassName":"{}"}})",
                       target),
           R"("type":"ModifyingVolume")",
           fmt::format(R"(Modifying volume to \"{}\" is in progress.)", target)}};
}
Write Names(const std::string& name) {
  return {"patch pv", {fmt::format(R"("spec":{{"volumeAttributesClassName":"{}"}})", name)}};
}
Write EndsModifying(const std::string& name) {
  return {"patch pvc",
          {fmt::format(R"("currentVolumeAttributesClassName":"{}")", name),
           R"("modifyVolumeStatus":null)", R"("conditions":[])"}};
}
Write SaysModifyingFailed(const std::string& why) {
  return {
      "patch pvc",
      {R"("type":"ModifyVolumeError")", why, R"("type":"ModifyingVolume")", "Modifying volume to"}};
}
Write IsInfeasible(const std::string& target) {
  return {"patch pvc",
          {fmt::format(R"("modifyVolumeStatus":{{"status":"Infeasible",)"
                       R"("targetVolumeAttributesClassName":"{}"}})",
                       target),
           R"("type":"ModifyVolumeError")"}};
}

std::string Modifying(const std::string& name) {
  return "Normal VolumeModify default/data: external resizer is modifying volume data with vac " +
         name;
}
std::string Modified(const std::string& name) {
  return fmt::format(
      "Normal VolumeModifySuccessful default/data: external resizer modified volume data with vac "
      "{} successfully",
      name);
}
const std::string kFailed = "Warning VolumeModifyFailed default/data";
const std::string kGold = "ControllerModifyVolume iops=9000";
const std::string kSilver = "ControllerModifyVolume iops=100";

class ModifierTest : public CaseTest {
 protected:
  static rpc::FakeCsiDriver::Options Driver() {
    rpc::FakeCsiDriver::Options driver;
    driver.controller_capabilities.insert(DriverInfo::Rpc::MODIFY_VOLUME);
    return driver;
  }
  std::vector<std::string> Calls() const {
    return CallsOf<csi::v1::ControllerModifyVolumeRequest>(
        "ControllerModifyVolume", +[](const csi::v1::ControllerModifyVolumeRequest& request) {
          std::string text;
          for (const auto& [key, value] : std::map<std::string, std::string>(
                   request.mutable_parameters().begin(), request.mutable_parameters().end())) {
            text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
          }
          return text;
        });
  }
  // The modifier has gone through its queue.
  void WaitForSentinel() {
    cluster_.Put(MakeAttributesClass("sentinel", "1"));
    cluster_.Put(MakeClaim("sentinel", Merged(BoundClaim("pv-sentinel"), Wish("sentinel", ""))));
    ASSERT_TRUE(cluster_.events.WaitFor("default/sentinel"));
  }
  Claim GetClaim() { return cluster_.Get<Claim>("default", "data"); }
  void WishFor(const std::string& name) {
    Claim claim = GetClaim();
    claim.Set({"spec", "volumeAttributesClassName"}, name);
    cluster_.Put(claim);
  }
  std::string Current() {
    return GetClaim().String({"status", "currentVolumeAttributesClassName"});
  }
  std::string Status() { return GetClaim().String({"status", "modifyVolumeStatus", "status"}); }
};

TEST_P(ModifierTest, WritesAndCalls) {
  Run(GetParam(), Driver(), OnceOnly());
  if (GetParam().writes.empty() && !GetParam().calls.empty()) {
    ASSERT_TRUE(cluster_.driver->script().WaitFor("ControllerModifyVolume"));
  }
  WaitForSentinel();
  Check(GetParam(), Calls());
}

std::vector<Case> Cases() {
  return {
      {"WithoutAWishNothing", Wish("", ""), nullptr, {}, {}, {}, Classes},
      {"WhatIsSoIsLeftAlone", Wish("gold", "gold"), Of("gold"), {}, {}, {}, Classes},
      {"AFirstClass",
       Wish("gold", ""),
       nullptr,
       {BeginsModifying("gold"), Names("gold"), EndsModifying("gold")},
       {kGold},
       {Modifying("gold"), Modified("gold")},
       Classes},
      {"AnotherClass",
       Wish("gold", "silver"),
       Of("silver"),
       {BeginsModifying("gold"), Names("gold"), EndsModifying("gold")},
       {kGold},
       {Modifying("gold"), Modified("gold")},
       Classes},
      {"AClassThatDoesNotExistIsWaitedFor",
       Wish("none", "silver"),
       Of("silver"),
       {{"patch pvc", {R"("status":{"modifyVolumeStatus":{"status":"Pending"}}})"}}},
       {},
       {R"(Warning VolumeModifyFailed default/data: VAC "none" does not exist.)"},
       Classes},
      {"AClassOfAnotherDriverIsInfeasible",
       Wish("theirs", "silver"),
       Of("silver"),
       {IsInfeasible("theirs")},
       {},
       {kFailed},
       Classes},
      {"ParametersThatCannotBeAreInfeasible",
       Wish("gold", "silver"),
       Of("silver"),
       {BeginsModifying("gold"), IsInfeasible("gold")},
       {kGold},
       {Modifying("gold"), kFailed},
       ClassesAndFailure(StatusCode::kInvalidArgument)},
      {"AFinalFailureStaysInProgress",
       Wish("gold", "silver"),
       Of("silver"),
       {BeginsModifying("gold"), SaysModifyingFailed(R"("reason":"Internal")")},
       {kGold},
       {Modifying("gold"), kFailed},
       ClassesAndFailure(StatusCode::kInternal)},
      {"AnUnknownOutcomeStaysInProgress",
       Wish("gold", "silver"),
       Of("silver"),
       {BeginsModifying("gold"), SaysModifyingFailed(R"("reason":"DeadlineExceeded")")},
       {kGold},
       {Modifying("gold"), kFailed},
       ClassesAndFailure(StatusCode::kDeadlineExceeded)},
      {"AMissingSecretIsSaidBeforeAnythingIsBegun",
       Wish("gold", "silver"),
       {{"metadata",
         {{"annotations",
           {{"volume.kubernetes.io/controller-modify-secret-name", "keys"},
            {"volume.kubernetes.io/controller-modify-secret-namespace", "vault"}}}}}},
       {SaysModifyingFailed("read secret 'vault/keys'")},
       {},
       {kFailed},
       Classes},
      // A process that starts finds what an earlier one left.
      {"InProgressIsFinishedBeforeAnotherWishCounts",
       Wish("silver", "", "gold", "InProgress"),
       nullptr,
       {Names("gold"), EndsModifying("gold"), BeginsModifying("silver"), Names("silver"),
        EndsModifying("silver")},
       {kGold, kSilver},
       {Modified("gold"), Modifying("silver"), Modified("silver")},
       Classes},
      {"InProgressIsFinishedEvenIfTheOldClassIsWishedAgain",
       Wish("silver", "silver", "gold", "InProgress"),
       Of("silver"),
       {Names("gold"), EndsModifying("gold"), BeginsModifying("silver"), Names("silver"),
        EndsModifying("silver")},
       {kGold, kSilver},
       {Modified("gold"), Modifying("silver"), Modified("silver")},
       Classes},
      {"ItsOwnChecksDoNotEndWhatMayHaveBegun",
       Wish("silver", "silver", "theirs", "InProgress"),
       Of("silver"),
       {{"patch pvc", {R"("type":"ModifyVolumeError")", "is for driver"}}},
       {},
       {kFailed},
       Classes},
      {"InfeasibleIsTriedAgain",
       Wish("gold", "silver", "gold", "Infeasible"),
       Of("silver"),
       {BeginsModifying("gold"), Names("gold"), EndsModifying("gold")},
       {kGold},
       {Modifying("gold"), Modified("gold")},
       Classes},
      {"InfeasibleGivesWayToAnotherWish",
       Wish("gold", "silver", "theirs", "Infeasible"),
       Of("silver"),
       {BeginsModifying("gold"), Names("gold"), EndsModifying("gold")},
       {kGold},
       {Modifying("gold"), Modified("gold")},
       Classes},
      {"AfterInfeasibleTheOldClassIsAppliedAgain",
       Wish("silver", "silver", "gold", "Infeasible"),
       Of("silver"),
       {BeginsModifying("silver"), EndsModifying("silver")},
       {kSilver},
       {Modifying("silver"), Modified("silver")},
       Classes},
      {"AfterPendingTheOldClassIsAppliedAgain",
       Wish("silver", "silver", "none", "Pending"),
       Of("silver"),
       {BeginsModifying("silver"), EndsModifying("silver")},
       {kSilver},
       {Modifying("silver"), Modified("silver")},
       Classes},
      {"InfeasibleLosesOneConditionIfNoClassIsAskedFor",
       Merged(Wish("", "", "gold", "Infeasible"),
              {{"status",
                {{"conditions",
                  Json::array({{{"type", "ModifyingVolume"}, {"status", "True"}},
                               {{"type", "ModifyVolumeError"}, {"status", "True"}}})}}}}),
       nullptr,
       {{"patch pvc", {R"("conditions":[{"status":"True","type":"ModifyVolumeError"}])"}}},
       {},
       {"Normal VolumeModifyCanceled default/data: Cancelled modify."},
       Classes},
      {"PendingStaysIfNoClassIsAskedFor",
       Wish("", "", "none", "Pending"),
       nullptr,
       {},
       {},
       {},
       Classes},
      {"AConflictIsComputedAnew",
       Wish("gold", ""),
       nullptr,
       {BeginsModifying("gold"), BeginsModifying("gold"), Names("gold"), EndsModifying("gold")},
       {kGold},
       {Modifying("gold"), Modified("gold")},
       ClassesAnd(Conflict)},
      {"WhatIsDoneIsWrittenAnewAfterAConflict",
       Wish("gold", "silver", "gold", "InProgress"),
       Of("silver"),
       {Names("gold"), EndsModifying("gold"), EndsModifying("gold")},
       {kGold},
       {Modified("gold")},
       ClassesAnd(Conflict)},
      {"AClassThatIsGoneWhileAModificationIsInProgressIsAskedForAgain",
       Wish("gold", "silver", "none", "InProgress"),
       Of("silver"),
       {},
       {},
       {R"(Warning VolumeModifyFailed default/data: VAC "none" does not exist.)"},
       Classes},
      {"ADriverThatCannotSaysSo",
       Wish("gold", ""),
       nullptr,
       {},
       {},
       {kFailed},
       ClassesAnd([](FakeCluster& cluster) {
         cluster.driver->state().options().controller_capabilities.erase(
             DriverInfo::Rpc::MODIFY_VOLUME);
       })},
  };
}
INSTANTIATE_TEST_SUITE_P(Modify, ModifierTest, ::testing::ValuesIn(Cases()), NameOf);

// Tests beyond one step.
class ModifierFlowTest : public ModifierTest {
 protected:
  void Begin(Options options = Fast()) {
    Run({.name = "",
         .claim = Wish("", ""),
         .volume = nullptr,
         .writes = {},
         .calls = {},
         .events = {},
         .given = Classes},
        Driver(), options);
  }
  static Options Fast() {
    Options options;
    options.retry_start = std::chrono::milliseconds(5);
    options.retry_max = std::chrono::milliseconds(50);
    return options;
  }
};

TEST_F(ModifierFlowTest, AClassThatAppearsIsUsed) {
  Begin(OnceOnly());
  WishFor("late");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Status() == "Pending"; }));
  cluster_.Put(MakeAttributesClass("late", "5"));
  EXPECT_TRUE(cluster_.WaitUntil([&] { return Current() == "late"; }));
}

TEST_F(ModifierFlowTest, AfterAFinalFailureAClassThatIsGoneIsWaitedFor) {
  Begin();
  cluster_.driver->script().Fail("ControllerModifyVolume", Error(StatusCode::kInternal, "half"),
                                 rpc::CallScript::kAlways);
  WishFor("gold");
  ASSERT_TRUE(cluster_.events.WaitFor("half"));
  cluster_.client.Remove(api::VolumeAttributesClass::kInfo, "", "gold");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Status() == "Pending"; }));
  EXPECT_TRUE(cluster_.events.WaitFor(R"(VAC "gold" does not exist.)"));
}

TEST_F(ModifierFlowTest, AClaimThatChangesDuringTheCallIsWrittenWithoutAnotherOne) {
  Begin();
  cluster_.driver->script().Hang("ControllerModifyVolume");
  WishFor("gold");
  ASSERT_TRUE(cluster_.driver->script().WaitFor("ControllerModifyVolume"));
  Claim claim = GetClaim();
  Json conditions = claim.conditions();
  conditions.push_back({{"type", "Resizing"}, {"status", "True"}});
  claim.Set({"status", "conditions"}, conditions);
  cluster_.Put(claim);
  cluster_.driver->script().Release("ControllerModifyVolume");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Current() == "gold"; }));
  EXPECT_THAT(Calls(), ::testing::ElementsAre(kGold));
  ASSERT_EQ(GetClaim().conditions().size(), 1U) << "that of another writer stays";
  EXPECT_EQ(GetClaim().conditions()[0]["type"], "Resizing");
}

TEST_F(ModifierFlowTest, AClaimThatIsSeenBeforeItsVolumeIsTriedAgain) {
  Begin();
  cluster_.Put(MakeClaim("late", Merged(BoundClaim("pv-late"), Wish("gold", ""))));
  cluster_.AddVolume("pv-late", BoundVolume("late"));
  EXPECT_TRUE(cluster_.WaitUntil([&] {
    return cluster_.Get<Claim>("default", "late")
               .String({"status", "currentVolumeAttributesClassName"}) == "gold";
  }));
}

TEST_F(ModifierFlowTest, AfterAFinalFailureTheOldClassIsAppliedAgain) {
  Begin(OnceOnly());
  WishFor("silver");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Current() == "silver"; }));
  cluster_.driver->script().Fail("ControllerModifyVolume", Error(StatusCode::kInternal, "half"));
  WishFor("gold");
  ASSERT_TRUE(cluster_.events.WaitFor("half"));
  WishFor("silver");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Status().empty(); }));
  EXPECT_THAT(Calls(), ::testing::ElementsAre(kSilver, kGold, kSilver));
  EXPECT_EQ(Current(), "silver");
}

TEST_F(ModifierFlowTest, AClassThatIsNotAskedForAnyMoreIsAppliedIfItsModificationHasBegun) {
  Begin();
  cluster_.driver->script().Fail("ControllerModifyVolume", Error(StatusCode::kInternal, "half"));
  cluster_.driver->script().Fail("ControllerModifyVolume", Error(StatusCode::kInternal, "half"));
  WishFor("gold");
  ASSERT_TRUE(cluster_.events.WaitFor("half"));
  Claim claim = GetClaim();
  claim.Set({"spec", "volumeAttributesClassName"}, nullptr);
  cluster_.Put(claim);
  EXPECT_TRUE(cluster_.WaitUntil([&] { return Current() == "gold"; }));
}

TEST_F(ModifierFlowTest, WhatCannotBeIsNotTriedAgainAtOnce) {
  Begin(OnceOnly());
  cluster_.driver->script().Fail("ControllerModifyVolume",
                                 Error(StatusCode::kInvalidArgument, "never"),
                                 rpc::CallScript::kAlways);
  WishFor("gold");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Status() == "Infeasible"; }));
  WaitForSentinel();
  EXPECT_THAT(Calls(), ::testing::ElementsAre(kGold));
}

TEST_F(ModifierFlowTest, WhatMayHaveBegunStaysSoWhenItsClassIsMadeAnothers) {
  Begin();
  cluster_.driver->script().Fail("ControllerModifyVolume",
                                 Error(StatusCode::kDeadlineExceeded, "slow"),
                                 rpc::CallScript::kAlways);
  WishFor("gold");
  ASSERT_TRUE(cluster_.events.WaitFor("slow"));
  cluster_.Put(MakeAttributesClass("gold", "9000", "another.example.com"));
  ASSERT_TRUE(cluster_.events.WaitFor("is for driver 'another.example.com'"));
  EXPECT_EQ(Status(), "InProgress") << "the driver may have changed the volume";
}

TEST_F(ModifierFlowTest, ALostAnswerIsAskedForAgain) {
  Begin();
  cluster_.driver->script().LoseAnswer("ControllerModifyVolume");
  WishFor("gold");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Current() == "gold"; }));
  EXPECT_THAT(Calls(), ::testing::ElementsAre(kGold, kGold));
}

TEST_F(ModifierFlowTest, WithoutASecretOfItsOwnTheDriverGetsThatForGrowth) {
  Begin();
  Volume volume = cluster_.Get<Volume>("", "pv-1");
  volume.Set({"spec", "csi", "controllerExpandSecretRef"},
             {{"name", "growth"}, {"namespace", "vault"}});
  cluster_.Put(volume);
  WishFor("gold");
  ASSERT_TRUE(cluster_.events.WaitFor("read secret 'vault/growth'"));
  cluster_.Put({{"apiVersion", "v1"},
                {"kind", "Secret"},
                {"metadata", {{"name", "growth"}, {"namespace", "vault"}}},
                {"data", {{"key", "c2VjcmV0"}}}});
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Current() == "gold"; }));
  const auto requests = cluster_.driver->script().Requests<csi::v1::ControllerModifyVolumeRequest>(
      "ControllerModifyVolume");
  EXPECT_EQ(requests.back().secrets().at("key"), "secret");
}

TEST_F(ModifierFlowTest, TheDriverGetsNamesIfItWantsThem) {
  Options options = Fast();
  options.extra_modify_metadata = true;
  Begin(options);
  WishFor("gold");
  ASSERT_TRUE(cluster_.WaitUntil([&] { return Current() == "gold"; }));
  EXPECT_THAT(Calls(),
              ::testing::ElementsAre("ControllerModifyVolume csi.storage.k8s.io/pv/name=pv-1 "
                                     "csi.storage.k8s.io/pvc/name=data "
                                     "csi.storage.k8s.io/pvc/namespace=default iops=9000"));
}

}  // namespace
}  // namespace berth::controllers::resizer
