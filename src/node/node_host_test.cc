#include "node/node_host.h"

#include <gtest/gtest.h>

#include "api/kinds/kinds.h"
#include "kube/fake_client.h"
#include "node/volumes/fake_volume_host.h"

namespace berth::node {
namespace {

using base::Json;
using base::StatusCode;

class NodeHostTest : public ::testing::Test {
 protected:
  void Sync() {
    informers_.Start();
    ASSERT_TRUE(informers_.WaitForSync(std::chrono::seconds(10)).ok());
  }
  static Json Driver(const std::string& name) {
    return {{"apiVersion", "storage.k8s.io/v1"},
            {"kind", "CSIDriver"},
            {"metadata", {{"name", name}}},
            {"spec", {{"attachRequired", false}}}};
  }

  base::SystemClock clock_;
  kube::FakeClient client_;
  kube::Informers informers_{client_};
  FakeEvents events_;
  NodeHost host_{api::NodeName("node-a"), "/var/lib/kubelet", client_, informers_, events_, clock_};
};

TEST_F(NodeHostTest, DriversComeFromTheCopyEvenWhileTheApiIsAway) {
  client_.Add(Driver("a.example.com"));
  Sync();
  client_.SetOutage(base::Error(StatusCode::kUnavailable, "away"));
  const auto driver = host_.GetObject(api::kinds::kCsiDriver, "", "a.example.com");
  ASSERT_TRUE(driver.ok()) << driver.status();
  EXPECT_FALSE(api::CsiDriver(*driver).attach_required());
  EXPECT_EQ(host_.GetObject(api::kinds::kCsiDriver, "", "b.example.com").status().code(),
            StatusCode::kUnavailable);
}

TEST_F(NodeHostTest, BeforeTheCopyIsThereTheApiAnswers) {
  client_.Add(Driver("a.example.com"));
  EXPECT_TRUE(host_.GetObject(api::kinds::kCsiDriver, "", "a.example.com").ok());
  EXPECT_EQ(host_.GetObject(api::kinds::kCsiDriver, "", "b.example.com").status().code(),
            StatusCode::kNotFound);
}

TEST_F(NodeHostTest, SecretsAreReadFresh) {
  Sync();
  client_.Add({{"apiVersion", "v1"},
               {"kind", "Secret"},
               {"metadata", {{"name", "s"}, {"namespace", "default"}}},
               {"data", {{"k", "MQ=="}}}});
  EXPECT_EQ((*host_.GetObject(api::kinds::kSecret, "default", "s"))["data"]["k"], "MQ==");
}

}  // namespace
}  // namespace berth::node
