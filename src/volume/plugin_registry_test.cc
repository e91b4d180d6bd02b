#include "volume/plugin_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "volume/fake_prober.h"

namespace berth::volume {
namespace {

using base::MutexLock;
using base::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

class PluginRegistryTest : public testing::Test {
 protected:
  void Make(PluginList fixed = {}) {
    auto prober = std::make_unique<FakeProber>();
    prober_ = prober.get();
    std::vector<std::unique_ptr<PluginProber>> probers;
    probers.push_back(std::move(prober));
    registry_ = std::make_unique<PluginRegistry>(
        std::move(fixed), std::move(probers),
        PluginRegistry::Options{
            .on_state = [this](const std::string& plugin,
                               const Status& state) { NoteReport(plugin + " " + CodeOf(state)); },
            .on_probe_failed = [this](const Status& why) { NoteReport("probe " + CodeOf(why)); }});
  }
  static std::string CodeOf(const Status& status) {
    return absl::StatusCodeToString(status.code());
  }
  void NoteReport(const std::string& what) {
    MutexLock lock(mutex_);
    told_.push_back(what);
    changed_.NotifyAll();
  }
  // Until it was told `count` times.
  bool Told(const std::string& what, int count = 1) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    MutexLock lock(mutex_);
    while (std::count(told_.begin(), told_.end(), what) < count) {
      if (!changed_.WaitUntil(mutex_, deadline)) return false;
    }
    return true;
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<std::string> told_ ABSL_GUARDED_BY(mutex_);
  FakeProber* prober_ = nullptr;
  std::unique_ptr<PluginRegistry> registry_;  // its threads end first
};

TEST_F(PluginRegistryTest, WhatAProberFindsIsFoundOnceItIsInitialised) {
  Make();
  const auto driver = std::make_shared<FakeDriverPlugin>("acme/one");
  prober_->List({driver});
  ASSERT_TRUE(registry_->Init().ok());
  ASSERT_TRUE(Told("acme/one OK"));
  const auto found = registry_->Find(Flex("acme/one"));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, driver);
  EXPECT_EQ(registry_->FindByName("acme/one"), driver);
  EXPECT_THAT(registry_->ListPlugins(), ElementsAre(driver));
}

TEST_F(PluginRegistryTest, WithoutAPluginTheProberSaysWhy) {
  Make();
  ASSERT_TRUE(registry_->Init().ok());
  const auto found = registry_->Find(Flex("acme/none"));
  EXPECT_EQ(found.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(base::Message(found.status())), HasSubstr("no driver 'acme/none'"));
  EXPECT_EQ(registry_->FindByName("acme/none"), nullptr);
  const auto other =
      registry_->Find({.name = "v", .pod_volume = api::PodVolume(Json{{"rbd", Json::object()}})});
  EXPECT_THAT(std::string(base::Message(other.status())), HasSubstr("volumes of type 'rbd'"));
}

TEST_F(PluginRegistryTest, WhatAPluginThatIsGoneSetUpIsStillSomebodysConcern) {
  Make();
  ASSERT_TRUE(registry_->Init().ok());
  const auto absent = registry_->FindByName("absent/one");
  ASSERT_NE(absent, nullptr);
  EXPECT_EQ(absent->name(), "absent/one");
  EXPECT_THAT(registry_->ListPlugins(), testing::IsEmpty());
}

TEST_F(PluginRegistryTest, NewsAreTakenWithoutALookUp) {
  Make();
  ASSERT_TRUE(registry_->Init().ok());
  prober_->List({std::make_shared<FakeDriverPlugin>("acme/one")}, /*tell=*/true);
  EXPECT_TRUE(Told("acme/one OK"));
}

TEST_F(PluginRegistryTest, ALookUpDoesNotWaitForADriverThatIsBeingInitialised) {
  Make();
  const auto slow = std::make_shared<FakeDriverPlugin>("acme/slow");
  slow->HoldInit(true);
  prober_->List({slow, std::make_shared<FakeDriverPlugin>("acme/quick")});
  ASSERT_TRUE(registry_->Init().ok());
  ASSERT_TRUE(Told("acme/quick OK"));
  EXPECT_TRUE(registry_->Find(Flex("acme/quick")).ok());
  EXPECT_EQ(registry_->Find(Flex("acme/slow")).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(registry_->FindByName("acme/slow"), slow);
  slow->HoldInit(false);
  ASSERT_TRUE(Told("acme/slow OK"));
  EXPECT_TRUE(registry_->Find(Flex("acme/slow")).ok());
}

TEST_F(PluginRegistryTest, ADriverThatDoesNotStartIsNotReplacedByItsOldVersionAndTriedAgain) {
  Make();
  const auto old = std::make_shared<FakeDriverPlugin>("acme/one");
  prober_->List({old});
  ASSERT_TRUE(registry_->Init().ok());
  ASSERT_TRUE(Told("acme/one OK"));
  const auto broken = std::make_shared<FakeDriverPlugin>(
      "acme/one", base::Error(StatusCode::kInternal, "bad reply"));
  const auto other = std::make_shared<FakeDriverPlugin>("acme/two");
  prober_->List({broken, other}, /*tell=*/true);
  ASSERT_TRUE(Told("acme/one UNAVAILABLE"));
  const auto found = registry_->Find(Flex("acme/one"));
  EXPECT_EQ(found.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(base::Message(found.status())), HasSubstr("bad reply"));
  ASSERT_TRUE(Told("acme/two OK"));
  broken->SetInit(base::OkStatus());
  ASSERT_TRUE(Told("acme/one OK", 2));
  EXPECT_EQ(registry_->Find(Flex("acme/one")).value(), broken);
  EXPECT_EQ(old->inits, 1);
}

TEST_F(PluginRegistryTest, WhatDidNotChangeIsNotInitialisedAgain) {
  Make();
  const auto stays = std::make_shared<FakeDriverPlugin>("acme/stays");
  prober_->List({stays, std::make_shared<FakeDriverPlugin>("acme/goes")});
  ASSERT_TRUE(registry_->Init().ok());
  ASSERT_TRUE(Told("acme/stays OK"));
  ASSERT_TRUE(Told("acme/goes OK"));
  prober_->List({stays, std::make_shared<FakeDriverPlugin>("acme/comes")}, /*tell=*/true);
  ASSERT_TRUE(Told("acme/comes OK"));
  ASSERT_TRUE(Told("acme/goes NOT_FOUND"));
  EXPECT_EQ(stays->inits, 1);
  EXPECT_EQ(registry_->Find(Flex("acme/goes")).status().code(), StatusCode::kNotFound);
}

TEST_F(PluginRegistryTest, AListThatCannotBeReadLeavesTheLastOne) {
  Make();
  const auto driver = std::make_shared<FakeDriverPlugin>("acme/one");
  prober_->List({driver});
  ASSERT_TRUE(registry_->Init().ok());
  ASSERT_TRUE(Told("acme/one OK"));
  prober_->Fail(base::Error(StatusCode::kInternal, "I/O error"));
  EXPECT_TRUE(registry_->Find(Flex("acme/one")).ok());
  ASSERT_TRUE(Told("probe INTERNAL"));
  prober_->List({driver, std::make_shared<FakeDriverPlugin>("acme/two")});
  EXPECT_TRUE(Told("acme/two OK"));  // by a look of its own accord
  EXPECT_EQ(driver->inits, 1);
}

TEST_F(PluginRegistryTest, AProberThatDoesNotStartKeepsNothingElseFromWorking) {
  const auto built_in = std::make_shared<FakeDriverPlugin>("kubernetes.io/csi");
  Make({built_in});
  const auto driver = std::make_shared<FakeDriverPlugin>("acme/one");
  prober_->List({driver});
  prober_->SetStart(base::Error(StatusCode::kInternal, "too many open files"));
  ASSERT_TRUE(registry_->Init().ok());
  ASSERT_TRUE(Told("probe INTERNAL"));
  EXPECT_EQ(registry_->Find(Flex("kubernetes.io/csi")).value(), built_in);
  const auto found = registry_->Find(Flex("acme/one"));
  EXPECT_EQ(found.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(base::Message(found.status())), HasSubstr("too many open files"));
  EXPECT_EQ(registry_->FindByName("absent/one"), nullptr);
  EXPECT_EQ(prober_->probes, 0);
  prober_->SetStart(base::OkStatus());
  ASSERT_TRUE(Told("acme/one OK"));  // by another start of its own accord
  EXPECT_EQ(registry_->Find(Flex("acme/one")).value(), driver);
}

TEST_F(PluginRegistryTest, OneThatIsListedForWhatItSetUpIsToldAsSuchAndFoundByIt) {
  Make();
  const auto driver = std::make_shared<FakeDriverPlugin>("acme/one");
  prober_->List({driver});
  ASSERT_TRUE(registry_->Init().ok());
  ASSERT_TRUE(Told("acme/one OK"));
  prober_->SetState("acme/one", base::Error(StatusCode::kFailedPrecondition, "kept for 'pod-1'"));
  prober_->List({driver}, /*tell=*/true);
  ASSERT_TRUE(Told("acme/one FAILED_PRECONDITION"));
  EXPECT_EQ(registry_->Find(Flex("acme/one")).value(), driver);
  EXPECT_EQ(driver->inits, 1);
  prober_->List({}, /*tell=*/true);
  EXPECT_TRUE(Told("acme/one NOT_FOUND"));
}

TEST_F(PluginRegistryTest, ABuiltInPluginIsFoundFirstAndItsNameIsItsOwn) {
  const auto built_in = std::make_shared<FakeDriverPlugin>("kubernetes.io/csi");
  Make({built_in});
  prober_->List({std::make_shared<FakeDriverPlugin>("kubernetes.io/csi")});
  ASSERT_TRUE(registry_->Init().ok());
  EXPECT_TRUE(Told("kubernetes.io/csi ALREADY_EXISTS"));
  const int probes = prober_->probes;
  EXPECT_EQ(registry_->Find(Flex("kubernetes.io/csi")).value(), built_in);
  EXPECT_EQ(registry_->FindByName("kubernetes.io/csi"), built_in);
  EXPECT_LE(prober_->probes, probes + 1);  // a worker's own look at most
}

}  // namespace
}  // namespace berth::volume
