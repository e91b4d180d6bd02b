#include "node/drivers/flex_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kube/fake_client.h"

namespace berth::node {
namespace {

using base::Json;
using base::StatusCode;

class FlexReportsTest : public testing::Test {
 protected:
  void Start() {
    informers_.Start();
    ASSERT_TRUE(informers_.WaitForSync(std::chrono::seconds(10)).ok());
    reports_.Start();
  }
  ~FlexReportsTest() override {
    informers_.Stop();
    reports_.Stop();
  }
  void AddNode(const std::string& annotation = "") {
    Json node = {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", "node-a"}}}};
    if (!annotation.empty()) {
      node["metadata"]["annotations"] = {{std::string(api::kFlexDriversAnnotation), annotation}};
    }
    client_.Add(node);
  }
  // Until the Node says this; "": nothing.
  bool WaitFor(const std::string& text) {
    return client_.WaitUntil([&] {
      const auto node = client_.Peek<api::Node>("", "node-a");
      return node.has_value() && node->annotation(std::string(api::kFlexDriversAnnotation)) == text;
    });
  }

  base::Metrics metrics_;
  kube::FakeClient client_;
  kube::Informers informers_{client_};
  FlexReports reports_{client_, informers_, "node-a", &metrics_};
};

TEST_F(FlexReportsTest, TheNodeSaysHowItsDriversDo) {
  AddNode();
  Start();
  reports_.ReportState("acme.io/good", base::OkStatus());
  reports_.ReportState("acme.io/bad", base::Error(StatusCode::kUnavailable, "no JSON"));
  EXPECT_TRUE(WaitFor(
      R"({"acme.io/bad":{"ready":false,"reason":"no JSON"},"acme.io/good":{"ready":true}})"));
  reports_.ReportState("acme.io/bad", base::Error(StatusCode::kFailedPrecondition, "for 'pods/1'"));
  EXPECT_TRUE(WaitFor(
      R"({"acme.io/bad":{"ready":false,"reason":"for 'pods/1'","removed":true},"acme.io/good":{"ready":true}})"));
  reports_.ReportState("acme.io/bad", base::Error(StatusCode::kNotFound, "it was removed"));
  EXPECT_TRUE(WaitFor(R"({"acme.io/good":{"ready":true}})"));
  reports_.ReportState("acme.io/good", base::Error(StatusCode::kNotFound, "it was removed"));
  EXPECT_TRUE(WaitFor(""));
}

TEST_F(FlexReportsTest, MetricsSayItToo) {
  reports_.ReportState("acme.io/good", base::OkStatus());
  for (int i = 0; i < 2; ++i) {
    reports_.ReportState("acme.io/bad", base::Error(StatusCode::kUnavailable, "no JSON"));
  }
  const std::string text = metrics_.RenderText();
  for (const char* line :
       {"berth_flexvolume_driver_ready{driver=\"acme.io/good\"} 1",
        "berth_flexvolume_driver_ready{driver=\"acme.io/bad\"} 0",
        "berth_flexvolume_driver_init_failures_total{driver=\"acme.io/bad\"} 2"}) {
    EXPECT_THAT(text, testing::HasSubstr(line));
  }
  reports_.ReportState("acme.io/good", base::Error(StatusCode::kNotFound, "it was removed"));
  EXPECT_THAT(metrics_.RenderText(),
              testing::HasSubstr("berth_flexvolume_driver_ready{driver=\"acme.io/good\"} 0"));
}

TEST_F(FlexReportsTest, ANodeThatIsMadeLaterIsToldToo) {
  Start();
  reports_.ReportState("acme.io/good", base::OkStatus());
  AddNode();
  EXPECT_TRUE(WaitFor(R"({"acme.io/good":{"ready":true}})"));
}

TEST_F(FlexReportsTest, WhatAnEarlierAgentSaidGoes) {
  AddNode(R"({"acme.io/gone":{"ready":true}})");
  Start();
  EXPECT_TRUE(WaitFor(""));
}

}  // namespace
}  // namespace berth::node
