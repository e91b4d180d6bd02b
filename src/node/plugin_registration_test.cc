#include "node/plugin_registration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/mutex.h"
#include "kube/fake_client.h"
#include "rpc/fake_csi_driver.h"
#include "rpc/unix_server.h"

namespace berth::node {
namespace {

using base::Json;
using base::StatusCode;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(HighestVersion, PicksTheHighestOfMajorOne) {
  EXPECT_EQ(HighestVersion({"1.0.0", "v1.10.2", "1.9.9", "2.0.0"})->minor, 10);
  EXPECT_EQ(HighestVersion({"1"})->major, 1);
  EXPECT_EQ(HighestVersion({"1.2.3-rc1"})->patch, 3);
}

TEST(HighestVersion, RefusesTheRest) {
  for (const std::vector<std::string>& versions :
       std::vector<std::vector<std::string>>{{},
                                             {"2.0.0"},
                                             {"0.3.0"},
                                             {"1.0.0", "0.1.0"},
                                             {"one"},
                                             {"1.x"},
                                             {"1.2.3.4"},
                                             {""},
                                             {"-1.0"}}) {
    EXPECT_EQ(HighestVersion(versions).status().code(), StatusCode::kInvalidArgument);
  }
}

class PluginRegistrationTest : public ::testing::Test {
 protected:
  PluginRegistrationTest() {
    std::string pattern = "/tmp/berth-reg-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    folder_ = pattern;
    client_.Add({{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", "node-a"}}}});
    driver_ = *rpc::FakeCsiDriver::Start({.name = "demo.csi.example.com",
                                          .node_id = "id-1",
                                          .topology = {{"example.com/zone", "z1"}},
                                          .max_volumes_per_node = 9});
  }
  ~PluginRegistrationTest() override {
    registration_.reset();
    announced_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Start() {
    registration_ = std::make_unique<PluginRegistration>(
        PluginRegistrationOptions{.folder = folder_ + "/registry",
                                  .retry_start = std::chrono::milliseconds(5),
                                  .retry_max = std::chrono::milliseconds(20)},
        csi_nodes_, drivers_, [this](const std::string& driver) {
          base::MutexLock lock(mutex_);
          told_.push_back(driver);
        });
    ASSERT_TRUE(registration_->Start().ok());
  }
  void Announce(const std::string& name = "demo-reg.sock") {
    std::filesystem::create_directories(folder_ + "/registry");
    auto started = rpc::RegistrationServer::Start(folder_ + "/registry/" + name, driver_->name(),
                                                  driver_->socket());
    ASSERT_TRUE(started.ok()) << started.status();
    announced_ = *std::move(started);
  }
  bool WaitListed(bool listed) {
    return client_.WaitUntil([&] {
      const auto node = client_.Peek<api::CsiNode>("", "node-a");
      return (node.has_value() && node->driver(driver_->name()).has_value()) == listed;
    });
  }
  template <typename Condition>
  static bool WaitFor(const Condition& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  std::string folder_;
  kube::FakeClient client_;
  CsiNodes csi_nodes_{client_, "node-a"};
  volume::DriverRegistry drivers_;
  std::unique_ptr<rpc::FakeCsiDriver> driver_;
  std::unique_ptr<rpc::RegistrationServer> announced_;
  base::Mutex mutex_;
  std::vector<std::string> told_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<PluginRegistration> registration_;
};

TEST_F(PluginRegistrationTest, ADriverComesAndGoes) {
  Start();
  Announce();
  ASSERT_TRUE(WaitListed(true));
  ASSERT_TRUE(WaitFor([&] {
    std::string error;
    return announced_->registered(&error);
  }));
  EXPECT_EQ(*drivers_.Socket("demo.csi.example.com"), driver_->socket());
  const auto listed = client_.Peek<api::CsiNode>("", "node-a")->driver("demo.csi.example.com");
  EXPECT_EQ(listed->node_id, "id-1");
  EXPECT_EQ(listed->allocatable_count, 9);
  EXPECT_EQ(client_.Peek<api::Node>("", "node-a")->label("example.com/zone"), "z1");
  {
    base::MutexLock lock(mutex_);
    EXPECT_EQ(told_.size(), 1U);
  }
  announced_.reset();  // which removes the socket
  ASSERT_TRUE(WaitListed(false));
  EXPECT_FALSE(drivers_.Socket("demo.csi.example.com").ok());
}

TEST_F(PluginRegistrationTest, ASocketFromBeforeTheStartIsFound) {
  Announce();
  Start();
  EXPECT_TRUE(WaitListed(true));
}

TEST_F(PluginRegistrationTest, ASocketInASubfolderIsFound) {
  std::filesystem::create_directories(folder_ + "/registry/demo");
  Start();
  Announce("demo/reg.sock");
  EXPECT_TRUE(WaitListed(true));
}

TEST_F(PluginRegistrationTest, WhatIsNoRegistrationSocketIsIgnored) {
  std::filesystem::create_directories(folder_ + "/registry");
  std::ofstream(folder_ + "/registry/file.sock") << "x";
  Start();
  Announce(".hidden.sock");
  auto other = *rpc::RegistrationServer::Start(folder_ + "/registry/b.sock", "b.example.com",
                                               driver_->socket());
  ASSERT_TRUE(WaitFor([&] { return drivers_.Socket("b.example.com").ok(); }));
  std::string error;
  EXPECT_FALSE(announced_->registered(&error));
  EXPECT_EQ(drivers_.All().size(), 1U);
}

TEST_F(PluginRegistrationTest, ADriverThatComesBackIsRegisteredAnew) {
  Start();
  Announce();
  ASSERT_TRUE(WaitListed(true));
  announced_.reset();
  Announce();
  EXPECT_TRUE(WaitFor([&] {
    std::string error;
    return announced_->registered(&error);
  }));
  EXPECT_TRUE(WaitListed(true));
}

TEST_F(PluginRegistrationTest, AFailureIsToldAndTriedAgain) {
  driver_->script().Fail("NodeGetInfo", base::Error(StatusCode::kInternal, "no disk found"),
                         1000000);
  Start();
  Announce();
  ASSERT_TRUE(WaitFor([&] {
    std::string error;
    return !announced_->registered(&error) && error.find("no disk found") != std::string::npos;
  }));
  EXPECT_THAT(drivers_.All(), IsEmpty());
  driver_->script().Fail("NodeGetInfo", base::OkStatus(), 0);
  EXPECT_TRUE(WaitListed(true));
}

TEST_F(PluginRegistrationTest, ARefusedNodeIsRolledBack) {
  Json node = client_.Peek(api::kinds::kNode, "", "node-a");
  node["metadata"]["labels"] = {{"example.com/zone", "z9"}};
  client_.Add(node);
  Start();
  Announce();
  ASSERT_TRUE(WaitFor([&] {
    std::string error;
    return !announced_->registered(&error) && error.find("'z9'") != std::string::npos;
  }));
  EXPECT_TRUE(WaitFor([&] { return drivers_.All().empty(); }));
  EXPECT_TRUE(client_.Peek(api::kinds::kCsiNode, "", "node-a").is_null());
}

TEST_F(PluginRegistrationTest, AnAbsentApiIsNoFaultOfTheDriver) {
  client_.SetOutage(base::Error(StatusCode::kUnavailable, "the API is away"));
  Start();
  Announce();
  ASSERT_TRUE(driver_->script().WaitFor("NodeGetInfo", 3));
  std::string error;
  EXPECT_FALSE(announced_->registered(&error));
  EXPECT_EQ(error, "");
  client_.SetOutage(base::OkStatus());
  EXPECT_TRUE(WaitFor([&] { return announced_->registered(&error); }));
}

TEST_F(PluginRegistrationTest, ASecondSocketOfTheSameDriverIsRefused) {
  Start();
  Announce();
  ASSERT_TRUE(WaitListed(true));
  auto second = *rpc::RegistrationServer::Start(folder_ + "/registry/second.sock", driver_->name(),
                                                driver_->socket());
  ASSERT_TRUE(WaitFor([&] {
    std::string error;
    return !second->registered(&error) && error.find("registered already") != std::string::npos;
  }));
  // It takes over when the first one leaves.
  announced_.reset();
  EXPECT_TRUE(WaitFor([&] {
    std::string error;
    return second->registered(&error);
  }));
}

TEST_F(PluginRegistrationTest, ADriversNameIsChecked) {
  Start();
  std::filesystem::create_directories(folder_ + "/registry");
  auto server =
      *rpc::RegistrationServer::Start(folder_ + "/registry/x.sock", "../../etc", driver_->socket());
  ASSERT_TRUE(WaitFor([&] {
    std::string error;
    return !server->registered(&error) && error.find("driver's name") != std::string::npos;
  }));
  EXPECT_THAT(drivers_.All(), IsEmpty());
}

TEST_F(PluginRegistrationTest, ASocketThatNobodyServesDoesNotHoldUpOthers) {
  std::filesystem::create_directories(folder_ + "/registry");
  const int dead = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{.sun_family = AF_UNIX};
  const std::string path = folder_ + "/registry/dead.sock";
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(dead, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  close(dead);
  Start();
  Announce();
  EXPECT_TRUE(WaitListed(true));
}

TEST_F(PluginRegistrationTest, WhatTheApiLostIsWrittenAgain) {
  Announce();
  Start();
  ASSERT_TRUE(WaitListed(true));
  client_.Remove(api::kinds::kNode, "", "node-a");
  client_.Remove(api::kinds::kCsiNode, "", "node-a");
  client_.Add({{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", "node-a"}}}});
  client_.FailNext("get", "nodes", base::Error(StatusCode::kUnavailable, "away"));
  registration_->WriteAgain();
  ASSERT_TRUE(WaitListed(true));
  EXPECT_EQ(client_.Peek<api::Node>("", "node-a")->label("example.com/zone"), "z1");
}

}  // namespace
}  // namespace berth::node
