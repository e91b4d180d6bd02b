#include "node/drivers/driver_limits.h"

#include <gtest/gtest.h>

#include "kube/fake_client.h"
#include "rpc/fake_csi_driver.h"

namespace berth::node {
namespace {

using base::Json;

constexpr const char* kName = "demo.csi.example.com";

Json Driver(const Json& spec) {
  return {{"apiVersion", "storage.k8s.io/v1"},
          {"kind", "CSIDriver"},
          {"metadata", {{"name", kName}}},
          {"spec", spec}};
}

Json Attachment(int code, const std::string& node = "node-a") {
  return {{"apiVersion", "storage.k8s.io/v1"},
          {"kind", "VolumeAttachment"},
          {"metadata", {{"name", "csi-1"}}},
          {"spec", {{"attacher", kName}, {"nodeName", node}}},
          {"status",
           {{"attached", false}, {"attachError", {{"message", "full"}, {"errorCode", code}}}}}};
}

class DriverLimitsTest : public ::testing::Test {
 protected:
  DriverLimitsTest() {
    client_.Add({{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", "node-a"}}}});
    driver_ =
        *rpc::FakeCsiDriver::Start({.name = kName, .node_id = "id-1", .max_volumes_per_node = 5});
    EXPECT_TRUE(csi_nodes_.AddDriver({.name = kName, .node_id = "id-1", .max_volumes = 9}).ok());
    drivers_.Register(kName, driver_->socket());
  }
  ~DriverLimitsTest() override {
    limits_.Stop();
    informers_.Stop();
  }
  void Start() {
    informers_.Start();
    ASSERT_TRUE(informers_.WaitForSync(std::chrono::seconds(10)).ok());
    limits_.Start();
    limits_.DriverRegistered(kName);
  }
  bool WaitCount(int64_t count) {
    return client_.WaitUntil([&] {
      return client_.Peek<api::CsiNode>("", "node-a")->driver(kName)->allocatable_count == count;
    });
  }

  kube::FakeClient client_;
  kube::Informers informers_{client_};
  CsiNodes csi_nodes_{client_, "node-a"};
  volume::DriverRegistry drivers_;
  std::unique_ptr<rpc::FakeCsiDriver> driver_;
  DriverLimits limits_{informers_, drivers_, csi_nodes_, "node-a"};
};

TEST_F(DriverLimitsTest, AreAskedAgainEachPeriod) {
  client_.Add(Driver({{"nodeAllocatableUpdatePeriodSeconds", 1}}));
  Start();
  EXPECT_TRUE(WaitCount(5));
  EXPECT_TRUE(driver_->script().WaitFor("NodeGetInfo", 2));
}

TEST_F(DriverLimitsTest, AreAskedAtOnceWhenAnAttachmentFailsForLackOfRoom) {
  client_.Add(Driver({{"nodeAllocatableUpdatePeriodSeconds", 86400}}));
  Start();
  client_.Add(Attachment(8, "node-b"));
  client_.Add(Attachment(13));
  client_.Add(Attachment(8));
  EXPECT_TRUE(WaitCount(5));
  EXPECT_EQ(driver_->script().Count("NodeGetInfo"), 1);
}

TEST_F(DriverLimitsTest, AreLeftAloneWithoutAPeriod) {
  client_.Add(Driver(Json::object()));
  Start();
  client_.Add(Attachment(8));
  // A period makes the next one count, by which the first has been passed over.
  client_.Add(Driver({{"nodeAllocatableUpdatePeriodSeconds", 1}}));
  EXPECT_TRUE(WaitCount(5));
  EXPECT_EQ(driver_->script().Count("NodeGetInfo"), 1);
}

TEST_F(DriverLimitsTest, OfOneDriverDoNotWaitForOthersThatHang) {
  std::vector<std::unique_ptr<rpc::FakeCsiDriver>> hung;
  for (const char* name : {"a.example.com", "b.example.com"}) {
    hung.push_back(*rpc::FakeCsiDriver::Start({.name = name}));
    hung.back()->script().Hang("NodeGetInfo");
    drivers_.Register(name, hung.back()->socket());
    Json object = Driver({{"nodeAllocatableUpdatePeriodSeconds", 86400}});
    object["metadata"]["name"] = name;
    client_.Add(object);
  }
  client_.Add(Driver({{"nodeAllocatableUpdatePeriodSeconds", 86400}}));
  Start();
  Json attachment = Attachment(8);
  for (const char* name : {"a.example.com", "b.example.com"}) {
    attachment["metadata"]["name"] = name;
    attachment["spec"]["attacher"] = name;
    client_.Add(attachment);
  }
  for (const auto& driver : hung) EXPECT_TRUE(driver->script().WaitFor("NodeGetInfo"));
  client_.Add(Attachment(8));
  EXPECT_TRUE(WaitCount(5));
  // The end of the process does not wait for the hung drivers either.
  limits_.Stop();
}

TEST_F(DriverLimitsTest, StayWhenTheDriverDoesNotSay) {
  client_.Add(Driver({{"nodeAllocatableUpdatePeriodSeconds", 1}}));
  driver_->script().Fail("NodeGetInfo", base::Error(base::StatusCode::kInternal, "busy"), 1);
  Start();
  EXPECT_TRUE(WaitCount(5));
  EXPECT_EQ(driver_->script().Count("NodeGetInfo"), 2);
}

}  // namespace
}  // namespace berth::node
