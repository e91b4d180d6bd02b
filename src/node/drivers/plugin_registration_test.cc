#include "node/drivers/plugin_registration.h"

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

TEST(FindHighestVersion, PicksTheHighestOfMajorOne) {
  EXPECT_EQ(FindHighestVersion({"1.0.0", "v1.10.2", "1.9.9", "2.0.0"})->minor, 10);
  EXPECT_EQ(FindHighestVersion({"1"})->major, 1);
  EXPECT_EQ(FindHighestVersion({"1.2.3-rc1"})->patch, 3);
}

TEST(FindHighestVersion, RefusesTheRest) {
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
    EXPECT_EQ(FindHighestVersion(versions).status().code(), StatusCode::kInvalidArgument);
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
        PluginRegistrationOptions{
            .folder = folder_ + "/registry",
            .retry_start = std::chrono::milliseconds(5),
            .retry_max = std::chrono::milliseconds(20),
            .on_refused = [this](const base::Status& why) { NoteFailure(why); },
            .on_delayed = [this](const base::Status& why) { NoteFailure(why); },
            .plugins_folder = folder_ + "/plugins",
            .unannounced_delay = std::chrono::milliseconds(1),
            .absent_delay = absent_delay_},
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
  // Another socket in place of the announced one, which is never seen to be gone.
  void Replace(const rpc::FakeCsiDriver& driver) {
    auto started =
        rpc::RegistrationServer::Start(folder_ + "/new.sock", driver.name(), driver.socket());
    ASSERT_TRUE(started.ok()) << started.status();
    std::filesystem::rename(folder_ + "/new.sock", folder_ + "/registry/demo-reg.sock");
    announced_ = *std::move(started);
  }
  void NoteFailure(const base::Status& why) {
    base::MutexLock lock(mutex_);
    troubles_ += base::ToString(why) + "\n";
  }
  bool WaitTold(const std::string& text) {
    return WaitFor([&] {
      base::MutexLock lock(mutex_);
      return troubles_.find(text) != std::string::npos;
    });
  }
  // A driver at plugins/FOLDER/csi.sock.
  std::unique_ptr<rpc::FakeCsiDriver> Unannounced(const std::string& folder,
                                                  const std::string& name) {
    std::filesystem::create_directories(folder_ + "/plugins/" + folder);
    return *rpc::FakeCsiDriver::Start({.name = name, .node_id = "id-2"},
                                      folder_ + "/plugins/" + folder + "/csi.sock");
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
  std::chrono::milliseconds absent_delay_{60'000};
  kube::FakeClient client_;
  CsiNodes csi_nodes_{client_, "node-a"};
  volume::DriverRegistry drivers_;
  std::unique_ptr<rpc::FakeCsiDriver> driver_;
  std::unique_ptr<rpc::RegistrationServer> announced_;
  base::Mutex mutex_;
  std::vector<std::string> told_ ABSL_GUARDED_BY(mutex_);
  std::string troubles_ ABSL_GUARDED_BY(mutex_);
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
  EXPECT_EQ(*drivers_.FindSocket("demo.csi.example.com"), driver_->socket());
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
  EXPECT_FALSE(drivers_.FindSocket("demo.csi.example.com").ok());
}

TEST_F(PluginRegistrationTest, ASocketFromBeforeTheStartIsFound) {
  Announce();
  Start();
  EXPECT_TRUE(WaitListed(true));
}

TEST_F(PluginRegistrationTest, ADriverThatLeftWhileNobodyLookedIsTakenOut) {
  for (const char* name : {"demo.csi.example.com", "left.csi.example.com"}) {
    ASSERT_TRUE(csi_nodes_.AddDriver({.name = name, .node_id = "id-1"}).ok());
  }
  Announce();
  absent_delay_ = std::chrono::milliseconds(200);
  Start();
  EXPECT_TRUE(client_.WaitUntil([&] {
    const auto node = client_.Peek<api::CsiNode>("", "node-a");
    return node.has_value() && !node->driver("left.csi.example.com").has_value();
  }));
  EXPECT_TRUE(WaitListed(true)) << "the one that is there stays";
  EXPECT_TRUE(client_.WaitUntil([&] {
    const auto node = client_.Peek<api::Node>("", "node-a");
    return node->annotation("csi.volume.kubernetes.io/nodeid").find("left") == std::string::npos;
  }));
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
  ASSERT_TRUE(WaitFor([&] { return drivers_.FindSocket("b.example.com").ok(); }));
  std::string error;
  EXPECT_FALSE(announced_->registered(&error));
  EXPECT_EQ(drivers_.ListDrivers().size(), 1U);
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
  EXPECT_THAT(drivers_.ListDrivers(), IsEmpty());
  driver_->script().Fail("NodeGetInfo", base::OkStatus(), 0);
  EXPECT_TRUE(WaitListed(true));
}

TEST_F(PluginRegistrationTest, ADriverThatCannotSayWhereItIsLosesWhatItsLastVersionHadWritten) {
  ASSERT_TRUE(csi_nodes_.AddDriver({.name = driver_->name(), .node_id = "old"}).ok());
  ASSERT_TRUE(csi_nodes_.AddDriver({.name = "other.example.com", .node_id = "o"}).ok());
  driver_->script().Fail("NodeGetInfo", base::Error(StatusCode::kInternal, "no disk found"),
                         rpc::CallScript::kAlways);
  Start();
  Announce();
  ASSERT_TRUE(WaitListed(false));
  EXPECT_TRUE(client_.WaitUntil([&] {
    return client_.Peek<api::Node>("", "node-a")->annotation("csi.volume.kubernetes.io/nodeid") ==
           R"({"other.example.com":"o"})";
  }));
  EXPECT_TRUE(WaitTold("no disk found"));
}

TEST_F(PluginRegistrationTest, ASocketPathBeyondTheKernelsLimitIsRefusedInPlainWords) {
  Start();
  std::filesystem::create_directories(folder_ + "/registry");
  const auto server = *rpc::RegistrationServer::Start(folder_ + "/registry/long.sock",
                                                      driver_->name(), "/" + std::string(107, 'x'));
  EXPECT_TRUE(WaitFor([&] {
    std::string error;
    return !server->registered(&error) &&
           error.find("108 bytes long; the kernel allows at most 107") != std::string::npos;
  }));
}

TEST_F(PluginRegistrationTest, ADriverThatNobodyAnnouncesIsFoundByItsSocket) {
  Start();
  auto driver = Unannounced("plain.example.com", "plain.example.com");
  ASSERT_TRUE(WaitFor([&] { return drivers_.FindSocket("plain.example.com").ok(); }));
  EXPECT_EQ(*drivers_.FindSocket("plain.example.com"), driver->socket());
  EXPECT_TRUE(client_.WaitUntil([&] {
    const auto node = client_.Peek<api::CsiNode>("", "node-a");
    return node.has_value() && node->driver("plain.example.com").has_value() &&
           node->driver("plain.example.com")->node_id == "id-2";
  }));
  driver.reset();
  EXPECT_TRUE(WaitFor([&] { return !drivers_.FindSocket("plain.example.com").ok(); }));
}

TEST_F(PluginRegistrationTest, AnUnannouncedDriverOfAnotherNameIsRefused) {
  Start();
  const auto driver = Unannounced("folder.example.com", "inside.example.com");
  EXPECT_TRUE(driver->script().WaitFor("GetPluginInfo", 2)) << "it is tried again";
  EXPECT_TRUE(WaitTold("calls itself 'inside.example.com'"));
  EXPECT_THAT(drivers_.ListDrivers(), IsEmpty());
}

TEST_F(PluginRegistrationTest, AnUnannouncedDriverInAFolderThatCannotBeItsNameIsRefused) {
  Start();
  const auto driver = Unannounced("My_Driver", "inside.example.com");
  EXPECT_TRUE(WaitTold("in the folder 'My_Driver'"));
}

// Most drivers' folders are called otherwise than the drivers.
TEST_F(PluginRegistrationTest, TheOwnSocketOfAnAnnouncedDriverMayLieInAnyFolder) {
  Start();
  Announce();
  ASSERT_TRUE(WaitListed(true));
  const auto own = Unannounced("demo-folder", driver_->name());
  ASSERT_TRUE(own->script().WaitFor("GetPluginInfo"));
  const auto other = Unannounced("plain.example.com", "plain.example.com");
  ASSERT_TRUE(WaitFor([&] { return drivers_.FindSocket("plain.example.com").ok(); }));
  base::MutexLock lock(mutex_);
  EXPECT_EQ(troubles_, "");
}

TEST_F(PluginRegistrationTest, DriversThatHangHoldUpNoOther) {
  std::filesystem::create_directories(folder_ + "/registry");
  std::vector<std::unique_ptr<rpc::FakeCsiDriver>> hung;
  std::vector<std::unique_ptr<rpc::RegistrationServer>> servers;
  for (const char* name : {"a.example.com", "b.example.com", "c.example.com"}) {
    hung.push_back(*rpc::FakeCsiDriver::Start({.name = name}));
    hung.back()->script().Hang("NodeGetInfo");
    servers.push_back(*rpc::RegistrationServer::Start(folder_ + "/registry/" + name, name,
                                                      hung.back()->socket()));
  }
  Start();
  for (const auto& driver : hung) EXPECT_TRUE(driver->script().WaitFor("NodeGetInfo"));
  Announce();
  EXPECT_TRUE(WaitListed(true));
  // Nor do they hold up the process's end, which is no refusal.
  registration_->Stop();
  std::string error;
  for (const auto& server : servers) {
    EXPECT_FALSE(server->registered(&error));
    EXPECT_EQ(error, "");
  }
}

TEST_F(PluginRegistrationTest, ADriverThatComesBackWhileTheApiIsAwayStaysUsable) {
  Start();
  Announce();
  // Told, too: the next socket at this path would hear it otherwise.
  ASSERT_TRUE(WaitFor([&] { return announced_->registered(nullptr); }));
  for (const StatusCode code : {StatusCode::kUnavailable, StatusCode::kPermissionDenied}) {
    client_.SetOutage(base::Error(code, "the API is away"));
    const int asked = driver_->script().Count("NodeGetInfo");
    Replace(*driver_);
    ASSERT_TRUE(driver_->script().WaitFor("NodeGetInfo", asked + 3));
    EXPECT_TRUE(drivers_.FindSocket(driver_->name()).ok());
    std::string error;
    EXPECT_FALSE(announced_->registered(&error));
    EXPECT_EQ(error, "");
    client_.SetOutage(base::OkStatus());
    EXPECT_TRUE(WaitFor([&] { return announced_->registered(&error); }));
  }
}

TEST_F(PluginRegistrationTest, AnotherDriverAtTheSamePathTakesTheFirstOnesPlace) {
  Start();
  Announce();
  ASSERT_TRUE(WaitListed(true));
  const auto other = *rpc::FakeCsiDriver::Start({.name = "other.example.com", .node_id = "o"});
  Replace(*other);
  EXPECT_TRUE(WaitFor([&] { return drivers_.FindSocket("other.example.com").ok(); }));
  EXPECT_TRUE(WaitListed(false));
  EXPECT_FALSE(drivers_.FindSocket(driver_->name()).ok());
}

TEST_F(PluginRegistrationTest, AnEndpointMayBeAnyFormOfASocketsAddress) {
  Start();
  std::filesystem::create_directories(folder_ + "/registry");
  for (const char* scheme : {"unix:", "unix://"}) {
    const auto server = *rpc::RegistrationServer::Start(
        folder_ + "/registry/demo.sock", driver_->name(), scheme + driver_->socket());
    EXPECT_TRUE(WaitFor([&] { return server->registered(nullptr); }));
    EXPECT_EQ(*drivers_.FindSocket(driver_->name()), driver_->socket());
  }
}

TEST_F(PluginRegistrationTest, WhatWasAnnouncedEndsWithItsAnnouncement) {
  Start();
  const auto driver = Unannounced("demo.csi.example.com", "demo.csi.example.com");
  ASSERT_TRUE(WaitFor([&] { return drivers_.FindSocket("demo.csi.example.com").ok(); }));
  Announce();
  ASSERT_TRUE(WaitFor([&] {
    const auto socket = drivers_.FindSocket("demo.csi.example.com");
    return socket.ok() && *socket == driver_->socket();
  }));
  // The socket is known before the registration is written, and only what was written can end.
  ASSERT_TRUE(WaitFor([&] { return announced_->registered(nullptr); }));
  announced_.reset();
  ASSERT_TRUE(WaitListed(false));
  registration_->WriteAgain();
  EXPECT_FALSE(drivers_.FindSocket("demo.csi.example.com").ok())
      << "although its own socket stands";
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
  EXPECT_TRUE(WaitFor([&] { return drivers_.ListDrivers().empty(); }));
  EXPECT_TRUE(WaitListed(false));
}

TEST_F(PluginRegistrationTest, TheCsiNodeIsThereWithoutAnyDriver) {
  const Json node = client_.Peek(api::kinds::kNode, "", "node-a");
  client_.Remove(api::kinds::kNode, "", "node-a");
  Start();
  client_.Add(node);  // the node agent registers its node meanwhile
  const auto made = [&] {
    const auto object = client_.Peek<api::CsiNode>("", "node-a");
    return object.has_value() && !object->json()["metadata"]["ownerReferences"].empty();
  };
  ASSERT_TRUE(client_.WaitUntil(made));
  client_.Remove(api::kinds::kCsiNode, "", "node-a");
  registration_->WriteAgain();
  EXPECT_TRUE(client_.WaitUntil(made));
}

TEST_F(PluginRegistrationTest, AnAbsentApiIsNoFaultOfTheDriver) {
  client_.SetOutage(base::Error(StatusCode::kUnavailable, "the API is away"));
  Start();
  Announce();
  ASSERT_TRUE(driver_->script().WaitFor("NodeGetInfo", 3));
  std::string error;
  EXPECT_FALSE(announced_->registered(&error));
  EXPECT_EQ(error, "");
  EXPECT_TRUE(WaitTold("the API is away"));
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

TEST_F(PluginRegistrationTest, OfTwoSocketsAtOnceOneIsRefused) {
  Announce();
  const auto second = *rpc::RegistrationServer::Start(folder_ + "/registry/second.sock",
                                                      driver_->name(), driver_->socket());
  Start();
  EXPECT_TRUE(WaitTold("registered already"));
  std::string error;
  EXPECT_TRUE(
      WaitFor([&] { return announced_->registered(&error) || second->registered(&error); }));
  EXPECT_FALSE(announced_->registered(&error) && second->registered(&error));
}

TEST_F(PluginRegistrationTest, ADriversNameIsChecked) {
  Start();
  std::filesystem::create_directories(folder_ + "/registry");
  auto server =
      *rpc::RegistrationServer::Start(folder_ + "/registry/x.sock", "../../etc", driver_->socket());
  ASSERT_TRUE(WaitFor([&] {
    std::string error;
    return !server->registered(&error) &&
           error.find("not the name of a CSI driver") != std::string::npos;
  }));
  EXPECT_THAT(drivers_.ListDrivers(), IsEmpty());
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

TEST_F(PluginRegistrationTest, ADriverThatFailsWhenItIsWrittenAgainIsRolledBack) {
  Announce();
  Start();
  ASSERT_TRUE(WaitListed(true));
  driver_->script().Fail("NodeGetInfo", base::Error(StatusCode::kInternal, "no disk found"),
                         rpc::CallScript::kAlways);
  registration_->WriteAgain();
  ASSERT_TRUE(WaitListed(false));
  EXPECT_TRUE(WaitFor([&] { return !drivers_.FindSocket(driver_->name()).ok(); }));
  EXPECT_TRUE(WaitFor([&] {
    std::string error;
    return !announced_->registered(&error) && error.find("no disk found") != std::string::npos;
  }));
  driver_->script().Fail("NodeGetInfo", base::OkStatus(), 0);
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
