#include "cli/kind_finder.h"

#include <gtest/gtest.h>

#include "cli/arguments.h"
#include "kube/fake_client.h"

namespace berth::cli {
namespace {

const api::KindInfo kWidget{.group = "example.com",
                            .version = "v2",
                            .kind = "BigWidget",
                            .plural = "widgets",
                            .singular = "widget",
                            .short_names = {"wd"},
                            .namespaced = true};

class KindFinderTest : public ::testing::Test {
 protected:
  kube::FakeClient client_;
  KindFinder finder_{client_};
};

TEST_F(KindFinderTest, WhatBerthKnowsIsFoundWithoutTheApi) {
  client_.SetOutage(base::Error(base::StatusCode::kUnavailable, "away"));
  EXPECT_EQ(*finder_.FindByWord("pvc"), &api::kinds::kPersistentVolumeClaim);
  EXPECT_EQ(*finder_.FindForObject("v1", "Pod"), &api::kinds::kPod);
  EXPECT_EQ(finder_.FindByWord("widgets").status().code(), base::StatusCode::kUnavailable);
}

TEST_F(KindFinderTest, CustomKindsAreFoundByEachOfTheirNames) {
  client_.Serve(kWidget);
  for (const char* word : {"widgets", "widget", "WD", "bigwidget", "Widgets.Example.com"}) {
    const auto kind = finder_.FindByWord(word);
    ASSERT_TRUE(kind.ok()) << word << ": " << base::ToString(kind.status());
    EXPECT_EQ((*kind)->url("a"), "/apis/example.com/v2/namespaces/a/widgets");
  }
  const auto of_object = finder_.FindForObject("example.com/v2", "BigWidget");
  ASSERT_TRUE(of_object.ok());
  EXPECT_EQ((*of_object)->plural, "widgets");
}

TEST_F(KindFinderTest, WhatNobodyServesIsRefusedWithWhatIsServed) {
  client_.Serve(kWidget);
  const auto kind = finder_.FindByWord("gadgets");
  EXPECT_EQ(kind.status().code(), base::StatusCode::kInvalidArgument);
  EXPECT_NE(base::Message(kind.status()).find("there is no kind 'gadgets'"), std::string::npos);
  EXPECT_NE(base::Message(kind.status()).find("widgets"), std::string::npos);
  EXPECT_FALSE(finder_.FindByWord("widgets.example.org").ok());
  EXPECT_FALSE(finder_.FindForObject("example.com/v1", "BigWidget").ok());
}

TEST_F(KindFinderTest, TargetsMayBeCustomKinds) {
  client_.Serve(kWidget);
  const auto targets = ParseTargets({"pod/a", "wd/b"}, finder_);
  ASSERT_TRUE(targets.ok());
  ASSERT_EQ(targets->size(), 2u);
  EXPECT_EQ((*targets)[0].kind, &api::kinds::kPod);
  EXPECT_EQ((*targets)[1].kind->kind, "BigWidget");
  EXPECT_EQ((*targets)[1].names, std::vector<std::string>{"b"});
}

}  // namespace
}  // namespace berth::cli
