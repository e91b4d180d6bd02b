// The iSCSI back end, with `berth-iscsi call` in memory. tests/storage has a real target.
#include "block/iscsi/iscsi_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/assert_ok.h"
#include "block/iscsi/fake_berth_iscsi.h"
#include "block/iscsi/iscsi_settings.h"
#include "block/iscsi/lun_image.h"
#include "block/progress.h"
#include "block/storage_secret.h"

namespace berth::block {
namespace {

using base::Json;
using base::StatusCode;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kLunMiB = 1 << 20;

Json IscsiSettingsJson() {
  return {{"portals", {"10.0.0.5:3260"}},
          {"target", "iqn.2003-01.org.example:t"},
          {"luns", {{"allow", {"naa.1", "naa.2", "naa.3"}}}},
          {"chapSecretRef", {{"name", "san"}, {"namespace", "berth-block"}}}};
}

TEST(IscsiSettingsTest, EachWrongMemberIsNamed) {
  ASSERT_OK(ReadIscsiSettings(IscsiSettingsJson()));
  const struct {
    const char* patch;
    const char* said;
  } cases[] = {
      {R"({"portals": []})", "iscsi.portals"},
      {R"({"portals": ["10.0.0.5"]})", "iscsi.portals[0] is not HOST:PORT"},
      {R"({"portals": ["a:1,b:2"]})", "iscsi.portals[0]"},
      {R"({"target": ""})", "iscsi.target"},
      {R"({"target": "a b"})", "iscsi.target"},
      {R"({"initiator": "a b"})", "iscsi.initiator"},
      {R"({"luns": null})", "iscsi.luns.allow"},
      {R"({"luns": {"allow": ["naa.1", "naa.1"]}})", "iscsi.luns.allow[1]"},
      {R"({"luns": {"reclaim": "Sell"}})", "iscsi.luns.reclaim"},
      {R"({"chapSecretRef": {"name": null}})", "iscsi.chapSecretRef.name is missing"},
      {R"({"access": "Fast"})", "iscsi.access is none of"},
      {R"({"access": "Kernel"})", "iscsi.access Kernel is not there yet"},
  };
  for (const auto& one : cases) {
    Json settings = IscsiSettingsJson();
    settings.merge_patch(Json::parse(one.patch));
    EXPECT_THAT(base::ToString(ReadIscsiSettings(settings).status()), HasSubstr(one.said))
        << one.patch;
  }
}

TEST(IscsiSettingsTest, AnInitiatorNameIsNoLongerThanBerthIscsiTakesIt) {
  Json settings = IscsiSettingsJson();
  settings["initiator"] = std::string(221, 'i');
  ASSERT_OK(ReadIscsiSettings(settings));
  settings["initiator"] = std::string(222, 'i');
  EXPECT_THAT(base::ToString(ReadIscsiSettings(settings).status()), HasSubstr("iscsi.initiator"));
}

TEST(LunImageTest, ANameSaysWhichVolumeAndWhichLun) {
  const std::string image = MakeLunImage("pvc-1.a", "naa.1");
  EXPECT_EQ(ParseLunImage(image).volume, "pvc-1.a");
  EXPECT_EQ(ParseLunImage(image).digest, DigestLun("naa.1"));
  EXPECT_NE(DigestLun("naa.1"), DigestLun("naa.2"));
  for (const char* none : {"pvc-1", "pvc-1.tooshort", "pvc-1.0123456789abcdeg", ""}) {
    EXPECT_EQ(ParseLunImage(none).volume, none);
    EXPECT_EQ(ParseLunImage(none).digest, "");
  }
}

// An agent that asks for its lock because the API is away must not wait for the API.
TEST(StorageSecretTest, ValuesOfAnyAgeAreGivenWithoutAQuestion) {
  int questions = 0;
  StorageSecret secret(
      {.ns = "berth-block", .name = "san", .member = "iscsi.chapSecretRef"},
      [&](const std::string&,
          const std::string&) -> base::StatusOr<std::map<std::string, std::string>> {
        ++questions;
        return std::map<std::string, std::string>{{"username", "berth"}};
      },
      [](const auto&, const std::string&) { return base::OkStatus(); });
  ASSERT_OK(secret.Read());
  secret.Forget();  // as if ten seconds had passed
  ASSERT_OK(secret.Read(StorageSecret::Age::kAny));
  EXPECT_EQ(questions, 1);
  ASSERT_OK(secret.Read());
  EXPECT_EQ(questions, 2);
}

TEST(StorageSecretTest, ValuesThatAreRefusedTakeThePlaceOfNone) {
  std::string password = "good";
  StorageSecret secret(
      {.ns = "berth-block", .name = "san", .member = "iscsi.chapSecretRef"},
      [&](const std::string&,
          const std::string&) -> base::StatusOr<std::map<std::string, std::string>> {
        return std::map<std::string, std::string>{{"password", password}};
      },
      [](const StorageSecret::Values& values, const std::string& name) {
        if (values.at("password") == "good") return base::OkStatus();
        return base::Error(StatusCode::kFailedPrecondition, "secret {} is bad", name);
      });
  ASSERT_OK(secret.Read());
  password = "bad";
  secret.Forget();
  EXPECT_EQ(base::Message(secret.Read().status()), "secret berth-block/san is bad");
  const auto kept = secret.Read(StorageSecret::Age::kAny);
  ASSERT_OK(kept);
  EXPECT_EQ(kept->at("password"), "good");
  password = "good";
  EXPECT_TRUE(secret.Read().ok()) << "what was refused is asked for again at once";
}

class IscsiBackendTest : public testing::Test {
 protected:
  IscsiBackendTest() {
    target_.Change([](auto& units) {
      units[1] = {.identity = "naa.1", .size = 32 * kLunMiB, .guard = "", .keys = {}};
      units[2] = {.identity = "naa.2", .size = 16 * kLunMiB, .guard = "", .keys = {}};
      units[3] = {
          .identity = "naa.3", .size = 8 * kLunMiB, .blank = false, .guard = "", .keys = {}};
      units[4] = {.identity = "naa.4", .size = 16 * kLunMiB, .guard = "", .keys = {}};
    });
    backend_ = Open(IscsiSettingsJson());
  }

  std::unique_ptr<Backend> Open(const Json& settings) {
    auto opened = OpenBackend(
        {{"iscsi", settings}},
        {.exec = target_,
         .mounter = *mounter_,
         .proxy_socket = "",
         .node = "n1",
         .read_secret = [this](const std::string&, const std::string&)
             -> base::StatusOr<std::map<std::string, std::string>> { return secret_; },
         .list_images = [this]() -> base::StatusOr<std::vector<std::string>> { return named_; }});
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *std::move(opened);
  }
  FakeBerthIscsi::Unit Get(int64_t lun) {
    FakeBerthIscsi::Unit unit;
    target_.Change([&](auto& units) { unit = units[lun]; });
    return unit;
  }

  FakeBerthIscsi target_;
  const std::unique_ptr<platform::Mounter> mounter_ = platform::NewMounter();
  std::map<std::string, std::string> secret_ = {{"username", "berth"},
                                                {"password", FakeBerthIscsi::password() + "\n"}};
  std::vector<std::string> named_;  // by PersistentVolumes
  std::unique_ptr<Backend> backend_;
};

TEST_F(IscsiBackendTest, AClaimTakesTheSmallestFreeLunThatFitsAndTwoNeverTheSame) {
  const auto one = backend_->Create({.name = "pvc-1", .size_bytes = 10 * kLunMiB});
  ASSERT_OK(one);
  EXPECT_EQ(one->name, MakeLunImage("pvc-1", "naa.2"));
  EXPECT_EQ(one->size_bytes, 16 * kLunMiB);
  EXPECT_EQ(Get(2).guard, "pvc-1");
  EXPECT_EQ(backend_->Create({.name = "pvc-1", .size_bytes = 10 * kLunMiB})->name, one->name)
      << "an operator that was killed finds the LUN again";
  EXPECT_EQ(backend_->Create({.name = "pvc-2", .size_bytes = 10 * kLunMiB})->name,
            MakeLunImage("pvc-2", "naa.1"));
  const auto none = backend_->Create({.name = "pvc-3", .size_bytes = kLunMiB});
  EXPECT_EQ(none.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(base::ToString(none.status()),
              HasSubstr("of 3 in iscsi.luns.allow, 2 are in use, 1"));
  EXPECT_TRUE(Get(4).guard.empty()) << "a LUN that is not listed is not touched";
}

TEST_F(IscsiBackendTest, ALunThatAPersistentVolumeNamesIsNotTakenAlthoughTheTargetForgotIt) {
  named_ = {MakeLunImage("pvc-9", "naa.2")};
  EXPECT_EQ(backend_->Create({.name = "pvc-1", .size_bytes = kLunMiB})->name,
            MakeLunImage("pvc-1", "naa.1"));
  // The own PersistentVolume is there, and a node uses the volume already.
  named_.push_back(MakeLunImage("pvc-1", "naa.1"));
  target_.Change([](auto& units) { units[1].keys = {{"0x21", "n2"}}; });
  EXPECT_EQ(backend_->Create({.name = "pvc-1", .size_bytes = kLunMiB})->name,
            MakeLunImage("pvc-1", "naa.1"));
}

TEST_F(IscsiBackendTest, TheNextLunIsTriedIfSomebodyWasFasterAndNoneIfTheOutcomeIsUnknown) {
  target_.FailNext("claim", "FAILED_PRECONDITION", "somebody was faster");
  EXPECT_EQ(backend_->Create({.name = "pvc-1", .size_bytes = kLunMiB})->name,
            MakeLunImage("pvc-1", "naa.1"));
  target_.FailNext("claim", "UNAVAILABLE", "no answer");
  EXPECT_EQ(backend_->Create({.name = "pvc-2", .size_bytes = kLunMiB}).status().code(),
            StatusCode::kUnavailable);
  EXPECT_TRUE(Get(2).guard.empty());
}

TEST_F(IscsiBackendTest, ADeletedVolumesLunIsFreeOnceItIsOverwritten) {
  const std::string image = backend_->Create({.name = "pvc-1", .size_bytes = kLunMiB})->name;
  target_.Change([](auto& units) { units[2].blank = false; });
  target_.TakeCalls();
  std::vector<double> parts;
  {
    const ProgressScope scope([&](double part) { parts.push_back(part); });
    ASSERT_OK(backend_->Delete(image));
  }
  EXPECT_THAT(target_.TakeCalls(), testing::ElementsAre("list", "wipe", "wipe", "wipe", "wipe"));
  EXPECT_THAT(parts, testing::ElementsAre(0.25, 0.5, 0.75));
  EXPECT_TRUE(Get(2).blank && Get(2).guard.empty());
  // It is another volume's by now, so a second Delete, and a look at the lock, are not about it.
  named_ = {MakeLunImage("pvc-2", "naa.2"), image};
  target_.Change([](auto& units) { units[2].guard = "pvc-2", units[2].keys = {{"0x21", "n2"}}; });
  ASSERT_OK(backend_->Delete(image));
  EXPECT_EQ(backend_->HasLock(image).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Get(2).guard, "pvc-2");
}

TEST_F(IscsiBackendTest, AWipeThatWasInterruptedGoesOn) {
  const std::string image = backend_->Create({.name = "pvc-1", .size_bytes = kLunMiB})->name;
  target_.Change([](auto& units) { units[2].blank = false; });
  int wipes = 0;
  target_.FailNext("wipe", "UNAVAILABLE", "no answer");
  EXPECT_EQ(backend_->Delete(image).code(), StatusCode::kUnavailable);
  EXPECT_EQ(Get(2).guard, "pvc-1");
  ASSERT_OK(backend_->Delete(image));
  for (const std::string& call : target_.TakeCalls()) wipes += call == "wipe" ? 1 : 0;
  EXPECT_EQ(wipes, 5);
  EXPECT_TRUE(Get(2).guard.empty());
}

TEST_F(IscsiBackendTest, TheOperatorsKeyOfAWipeThatWasCutOffIsNoLock) {
  const std::string image = backend_->Create({.name = "pvc-1", .size_bytes = kLunMiB})->name;
  target_.Change([](auto& units) { units[2].keys = {{"0x41", "Operator"}}; });
  const auto locked = backend_->HasLock(image);
  ASSERT_OK(locked);
  EXPECT_FALSE(*locked);
  target_.Change([](auto& units) { units[2].keys["0x21"] = "n2"; });
  EXPECT_TRUE(*backend_->HasLock(image));
}

TEST_F(IscsiBackendTest, AClaimThatWasBegunGivesItsLunBackWithoutAWrite) {
  ASSERT_OK(backend_->Create({.name = "pvc-1", .size_bytes = kLunMiB}));
  target_.TakeCalls();
  ASSERT_OK(backend_->Delete("pvc-1"));
  EXPECT_THAT(target_.TakeCalls(), testing::ElementsAre("list", "wipe"));
  EXPECT_TRUE(Get(2).guard.empty());
  ASSERT_OK(backend_->Delete("pvc-1"));
}

TEST_F(IscsiBackendTest, ALunThatCannotBeReadIsNotTakenForGone) {
  const std::string image = backend_->Create({.name = "pvc-1", .size_bytes = kLunMiB})->name;
  target_.Change([](auto& units) { units[2].fails = true; });
  EXPECT_EQ(backend_->Delete(image).code(), StatusCode::kUnavailable);
  EXPECT_EQ(backend_->HasLock(image).status().code(), StatusCode::kUnavailable);
  target_.Change([](auto& units) { units.erase(2); });
  ASSERT_OK(backend_->Delete(image));
}

TEST_F(IscsiBackendTest, ABegunClaimsLunIsFreedAlthoughTheFirstTryWasCutOff) {
  ASSERT_OK(backend_->Create({.name = "pvc-1", .size_bytes = kLunMiB}));
  target_.Change([](auto& units) { units[2].keys = {{"0x41", "Operator"}}; });
  ASSERT_OK(backend_->Delete("pvc-1"));
  EXPECT_TRUE(Get(2).guard.empty() && Get(2).keys.empty());
}

TEST_F(IscsiBackendTest, AWipeBeginsAnewIfTheLunIsNotBlankAtTheEnd) {
  const std::string image = backend_->Create({.name = "pvc-1", .size_bytes = kLunMiB})->name;
  target_.Change([](auto& units) { units[2].blank = false; });
  target_.FailWipesFrom(4 * kLunMiB, "INTERNAL");
  EXPECT_EQ(backend_->Delete(image).code(), StatusCode::kInternal);
  target_.TakeCalls();
  ASSERT_OK(backend_->Delete(image));
  EXPECT_THAT(target_.TakeCalls(), testing::ElementsAre("list", "wipe", "wipe", "wipe", "wipe"));
}

TEST_F(IscsiBackendTest, AKeptLunStaysReserved) {
  Json settings = IscsiSettingsJson();
  settings["luns"]["reclaim"] = "Keep";
  const auto keeping = Open(settings);
  const std::string image = keeping->Create({.name = "pvc-1", .size_bytes = kLunMiB})->name;
  target_.Change([](auto& units) { units[2].blank = false; });
  ASSERT_OK(keeping->Delete(image));
  EXPECT_EQ(Get(2).guard, "pvc-1");
  ASSERT_OK(keeping->Create({.name = "pvc-2", .size_bytes = kLunMiB}));
  ASSERT_OK(keeping->Delete("pvc-2"));
  EXPECT_TRUE(Get(1).guard.empty()) << "nobody ever used it";
}

TEST_F(IscsiBackendTest, GrowthIsTheAdministrators) {
  const std::string image = backend_->Create({.name = "pvc-1", .size_bytes = kLunMiB})->name;
  const auto grown = backend_->Grow(image, 17 * kLunMiB);
  EXPECT_EQ(grown.status().code(), StatusCode::kOutOfRange);
  EXPECT_THAT(base::ToString(grown.status()), HasSubstr("grow it at target"));
  target_.Change([](auto& units) { units[2].size = 20 * kLunMiB; });
  EXPECT_EQ(backend_->Grow(image, 17 * kLunMiB)->size_bytes, 20 * kLunMiB);
}

TEST_F(IscsiBackendTest, CopiesAreRefusedInWords) {
  const std::string image = backend_->Create({.name = "pvc-1", .size_bytes = kLunMiB})->name;
  for (const base::Status& refused :
       {backend_->Create({.name = "pvc-2", .size_bytes = kLunMiB, .source = image}).status(),
        backend_->CreateSnapshot(image, "snap").status()}) {
    EXPECT_EQ(refused.code(), StatusCode::kUnimplemented);
    EXPECT_THAT(base::ToString(refused), HasSubstr("made beforehand"));
  }
}

TEST_F(IscsiBackendTest, OnlyTheListedClientsOfANodeAreFenced) {
  const std::string image = backend_->Create({.name = "pvc-1", .size_bytes = kLunMiB})->name;
  EXPECT_FALSE(*backend_->HasLock(image));
  target_.Change([](auto& units) { units[2].keys = {{"0x21", "n2"}, {"0x31", "n3"}}; });
  EXPECT_TRUE(*backend_->HasLock(image));
  const auto clients = *backend_->FindClients(image, api::NodeName("n2"));
  EXPECT_THAT(clients, testing::ElementsAre("0x21"));
  // What the node begins after the list is not hit.
  target_.Change([](auto& units) { units[2].keys["0x22"] = "n2"; });
  ASSERT_OK(backend_->Fence(image, api::NodeName("n2"), {}));
  EXPECT_EQ(Get(2).keys.size(), 3U);
  ASSERT_OK(backend_->Fence(image, api::NodeName("n2"), clients));
  EXPECT_THAT(Get(2).keys, testing::UnorderedElementsAre(testing::Pair("0x22", "n2"),
                                                         testing::Pair("0x31", "n3")));
}

TEST_F(IscsiBackendTest, AnImageIsFreedFromADeadProcessOfThisNodeAndOfNoOther) {
  const std::string image = backend_->Create({.name = "pvc-1", .size_bytes = kLunMiB})->name;
  target_.Change([](auto& units) { units[2].keys = {{"0x21", "n2"}}; });
  ASSERT_OK(backend_->FreeFromDead(image));
  EXPECT_TRUE(*backend_->HasLock(image));
  target_.Change([](auto& units) { units[2].keys = {{"0x11", "n1"}}; });
  ASSERT_OK(backend_->FreeFromDead(image));
  EXPECT_FALSE(*backend_->HasLock(image));
  ASSERT_OK(backend_->FreeFromDead(MakeLunImage("pvc-9", "naa.1")));
}

TEST_F(IscsiBackendTest, WhatIsWrongIsSaidWithoutThePassword) {
  ASSERT_OK(backend_->ExchangeLocks("uid"));
  secret_["password"] = "wrong";
  const auto refused = Open(IscsiSettingsJson())->ExchangeLocks("uid");
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::ToString(refused), HasSubstr("refuses the CHAP"));
  secret_.erase("password");
  EXPECT_THAT(base::ToString(Open(IscsiSettingsJson())->ExchangeLocks("uid")),
              HasSubstr("has neither 'node.session.auth.password' nor 'password'"));
  secret_["password"] = "with a blank";
  EXPECT_THAT(base::ToString(Open(IscsiSettingsJson())->ExchangeLocks("uid")),
              Not(HasSubstr("with a blank")));
  target_.Change([](auto& units) { units.clear(); });
  secret_["password"] = FakeBerthIscsi::password();
  EXPECT_THAT(base::ToString(Open(IscsiSettingsJson())->ExchangeLocks("uid")),
              HasSubstr("shows none of the LUNs"));
}

TEST_F(IscsiBackendTest, ALunThatIsNotListedAnyMoreIsLeftAlone) {
  const std::string image = backend_->Create({.name = "pvc-1", .size_bytes = kLunMiB})->name;
  Json settings = IscsiSettingsJson();
  settings["luns"]["allow"] = {"naa.1"};
  const auto narrowed = Open(settings);
  EXPECT_EQ(narrowed->Delete(image).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(narrowed->Map(image, {}).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Get(2).guard, "pvc-1");
}

}  // namespace
}  // namespace berth::block
