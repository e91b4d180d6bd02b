// The registrar beside a driver that is slow, down, wrong or restarted, and a kubelet that refuses.
#include "roles/registrar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <sstream>
#include <thread>

#include "base/log.h"
#include "platform/files/fake_temp_folder.h"
#include "rpc/fake_csi_driver.h"
#include "rpc/registration_client.h"

namespace berth::roles {
namespace {

using base::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr const char* kName = "demo.csi.example.com";

class RegistrarTest : public testing::Test {
 protected:
  RegistrarTest() {
    std::filesystem::create_directories(folder_ / "registry");
    std::filesystem::create_directories(folder_ / "driver");
  }

  void StartDriver(const std::string& name = kName) {
    driver_ = *rpc::FakeCsiDriver::Start({.name = name}, folder_ / "driver/csi.sock");
  }
  void Start(milliseconds retry = milliseconds(10), milliseconds timeout = seconds(1)) {
    auto started = Registrar::Start({.csi_address = folder_ / "driver/csi.sock",
                                     .folder = folder_ / "registry",
                                     .kubelet_path = folder_ / "driver/csi.sock",
                                     .timeout = timeout,
                                     .retry = retry});
    ASSERT_TRUE(started.ok()) << started.status();
    registrar_ = *std::move(started);
  }
  std::string Socket() const { return folder_ / "registry/demo.csi.example.com-reg.sock"; }

  template <typename Condition>
  static bool WaitFor(const Condition& condition) {
    const auto deadline = std::chrono::steady_clock::now() + seconds(10);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }
  bool WaitHealthy() {
    return WaitFor([&] { return registrar_->CheckHealth().ok(); });
  }
  bool WaitTrouble(const std::string& text) {
    return WaitFor([&] {
      return std::string(base::Message(registrar_->CheckHealth())).find(text) != std::string::npos;
    });
  }
  // As the kubelet does.
  bool Answers() { return rpc::GetPluginInfo(Socket(), seconds(1)).ok(); }
  // Tells one socket from the next one at the same path.
  std::string SocketId() const {
    struct stat info{};
    if (stat(Socket().c_str(), &info) != 0) return "none";
    return fmt::format("{} {}.{}", info.st_ino, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
  }
  // As a driver that is replaced by another process.
  void RestartDriver() {
    driver_->GoAway();
    ASSERT_TRUE(driver_->ComeBack().ok());
  }
  // How often the driver was announced. The end of the registrar waits for what it does.
  int EndAndCountAnnouncements() {
    registrar_.reset();
    return driver_->script().Count("GetPluginInfo");
  }
  bool WaitForNodeGetInfo(int count) { return driver_->script().WaitFor("NodeGetInfo", count); }

  platform::TempFolder folder_;
  std::unique_ptr<rpc::FakeCsiDriver> driver_;
  std::unique_ptr<Registrar> registrar_;
};

TEST_F(RegistrarTest, ADriverIsAnnounced) {
  StartDriver();
  Start();
  ASSERT_TRUE(WaitHealthy());
  const auto info = rpc::GetPluginInfo(Socket(), seconds(1));
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->name, kName);
  EXPECT_EQ(info->endpoint, folder_ / "driver/csi.sock");
}

TEST_F(RegistrarTest, AnEndDoesNotWaitForADriverThatHangs) {
  for (const char* call : {"GetPluginInfo", "NodeGetInfo"}) {
    SCOPED_TRACE(call);
    StartDriver();
    driver_->script().Hang(call);
    Start(milliseconds(10), std::chrono::minutes(5));
    ASSERT_TRUE(driver_->script().WaitFor(call, 1));
    auto end = std::async(std::launch::async, [&] { registrar_.reset(); });
    EXPECT_EQ(end.wait_for(seconds(60)), std::future_status::ready);
    driver_->script().Release(call);
    end.wait();
    EXPECT_FALSE(Answers());  // it was not announced in passing
    driver_.reset();
  }
}

TEST_F(RegistrarTest, ADriverThatIsDownFromTheStartIsLoggedOnceAndWaitedFor) {
  testing::internal::CaptureStdout();
  Start();
  EXPECT_TRUE(WaitTrouble("csi.sock"));
  StartDriver();
  EXPECT_TRUE(WaitHealthy());
  spdlog::default_logger()->flush();
  std::istringstream log(testing::internal::GetCapturedStdout());
  std::multiset<std::string> told;
  for (std::string line; std::getline(log, line);) {
    const size_t at = line.find("is not announced");
    if (at != std::string::npos) told.insert(line.substr(at));
  }
  EXPECT_FALSE(told.empty());
  for (const std::string& line : told) EXPECT_EQ(told.count(line), 1u) << line;
}

TEST_F(RegistrarTest, ADriverThatIsSlowIsAskedAgain) {
  StartDriver();
  driver_->script().Hang("GetPluginInfo");
  Start();
  EXPECT_TRUE(driver_->script().WaitFor("GetPluginInfo", 2));
  EXPECT_FALSE(registrar_->CheckHealth().ok());
  driver_->script().ReleaseAll();
  EXPECT_TRUE(WaitHealthy());
}

TEST_F(RegistrarTest, AnUglyNameIsRefused) {
  StartDriver("../../etc/demo");
  Start();
  EXPECT_TRUE(WaitTrouble("is not the name of a CSI driver"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "registry"));
}

TEST_F(RegistrarTest, PathsThatNoSocketCanHaveAreRefusedAtTheStart) {
  const std::string longer = "/" + std::string(120, 'x');
  const Registrar::Options good{
      .csi_address = "/d/csi.sock", .folder = "/registration", .kubelet_path = "/d/csi.sock"};
  for (std::string Registrar::Options::* path :
       {&Registrar::Options::csi_address, &Registrar::Options::folder,
        &Registrar::Options::kubelet_path}) {
    Registrar::Options options = good;
    options.*path = longer;
    EXPECT_EQ(Registrar::Start(options).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST_F(RegistrarTest, AFolderThatIsTooLongForTheDriversNameIsNamed) {
  StartDriver(std::string(50, 'd') + ".example.com");
  const std::string deep = folder_ / ("registry/" + std::string(40, 'r'));
  std::filesystem::create_directories(deep);
  auto started = Registrar::Start({.csi_address = driver_->socket(),
                                   .folder = deep,
                                   .kubelet_path = driver_->socket(),
                                   .retry = milliseconds(10)});
  ASSERT_TRUE(started.ok()) << started.status();
  registrar_ = *std::move(started);
  EXPECT_TRUE(WaitTrouble("the kernel allows at most 107"));
}

TEST_F(RegistrarTest, AKubeletThatRefusesMayAskAgain) {
  StartDriver();
  Start();
  ASSERT_TRUE(WaitHealthy());
  ASSERT_TRUE(rpc::NotifyRegistrationStatus(Socket(), false, "no room", seconds(1)).ok());
  EXPECT_TRUE(Answers());
  EXPECT_TRUE(registrar_->CheckHealth().ok());
}

TEST_F(RegistrarTest, ADriverStaysAnnouncedWhileItIsAwayAndAfterItsRestart) {
  StartDriver();
  Start();
  ASSERT_TRUE(WaitHealthy());
  const std::string before = SocketId();
  for (int restart = 1; restart <= 3; ++restart) {
    driver_->GoAway();
    EXPECT_TRUE(Answers());
    EXPECT_TRUE(registrar_->CheckHealth().ok()) << registrar_->CheckHealth();
    ASSERT_TRUE(driver_->ComeBack().ok());
    ASSERT_TRUE(WaitForNodeGetInfo(restart + 1));
    EXPECT_EQ(SocketId(), before);
  }
  EXPECT_EQ(EndAndCountAnnouncements(), 1);
}

TEST_F(RegistrarTest, ADriverThatDescribesTheNodeDifferentlyAfterARestartIsAnnouncedAgain) {
  StartDriver();
  driver_->state().options().topology = {{"zone", "a"}, {"rack", "1"}};
  Start();
  ASSERT_TRUE(WaitHealthy());
  auto& options = driver_->state().options();
  const std::vector<std::function<void()>> changes = {
      [&] { options.node_id = "node-b"; },
      [&] { options.max_volumes_per_node = 7; },
      [&] { options.topology["rack"] = "2"; },
  };
  for (const auto& change : changes) {
    const std::string before = SocketId();
    driver_->GoAway();
    change();
    ASSERT_TRUE(driver_->ComeBack().ok());
    EXPECT_TRUE(WaitFor([&] { return SocketId() != before && Answers(); }));
    EXPECT_TRUE(WaitHealthy());
  }
  // The last announcement is what the next restart is compared with.
  const int asked = driver_->script().Count("NodeGetInfo");
  RestartDriver();
  ASSERT_TRUE(WaitForNodeGetInfo(asked + 1));
  EXPECT_EQ(EndAndCountAnnouncements(), 4);
}

TEST_F(RegistrarTest, ADriverThatCannotDescribeTheNodeYetIsAnnouncedOnce) {
  StartDriver();
  driver_->script().Fail("NodeGetInfo", base::Error(StatusCode::kUnavailable, "no metadata"), 2);
  Start();
  ASSERT_TRUE(WaitHealthy());
  ASSERT_TRUE(WaitForNodeGetInfo(3));  // the first answer
  RestartDriver();
  ASSERT_TRUE(WaitForNodeGetInfo(4));
  EXPECT_EQ(EndAndCountAnnouncements(), 1);
}

TEST_F(RegistrarTest, TheFirstAnswerIsWhatLaterOnesAreComparedWith) {
  StartDriver();
  driver_->script().Fail("NodeGetInfo", base::Error(StatusCode::kUnavailable, "no metadata"), 2);
  Start();
  ASSERT_TRUE(WaitHealthy());
  const std::string before = SocketId();
  ASSERT_TRUE(WaitForNodeGetInfo(3));
  RestartDriver();
  ASSERT_TRUE(WaitForNodeGetInfo(4));  // the answer before has been compared
  driver_->GoAway();
  driver_->state().options().node_id = "node-b";
  ASSERT_TRUE(driver_->ComeBack().ok());
  EXPECT_TRUE(WaitFor([&] { return SocketId() != before && Answers(); }));
}

TEST_F(RegistrarTest, ADriverWithoutNodeGetInfoIsAskedOnce) {
  StartDriver();
  driver_->script().Fail("NodeGetInfo", base::Error(StatusCode::kUnimplemented, "none"),
                         rpc::CallScript::kAlways);
  Start();
  ASSERT_TRUE(WaitHealthy());
  RestartDriver();
  ASSERT_TRUE(WaitForNodeGetInfo(2));
  EXPECT_EQ(EndAndCountAnnouncements(), 1);
  EXPECT_EQ(driver_->script().Count("NodeGetInfo"), 2);
}

TEST_F(RegistrarTest, ASocketThatWasRemovedIsNotFoundUntilTheDriverIsAnnouncedAgain) {
  StartDriver();
  Start();
  ASSERT_TRUE(WaitHealthy());
  driver_->GoAway();
  std::filesystem::remove(Socket());
  EXPECT_TRUE(WaitTrouble("registration socket does not exist: the driver's socket"));
  EXPECT_EQ(registrar_->CheckHealth().code(), StatusCode::kNotFound);
  ASSERT_TRUE(driver_->ComeBack().ok());
  EXPECT_TRUE(WaitHealthy());
  EXPECT_TRUE(Answers());
}

TEST_F(RegistrarTest, AFileInPlaceOfTheSocketIsNoSocket) {
  StartDriver();
  Start();
  ASSERT_TRUE(WaitHealthy());
  driver_->GoAway();  // nothing is announced again now
  std::filesystem::remove(Socket());
  std::ofstream(Socket()) << "x";
  const auto health = registrar_->CheckHealth();
  EXPECT_EQ(health.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(base::Message(health)), HasSubstr("is not a socket"));
}

TEST_F(RegistrarTest, AChangeOfModeIsNoNewSocket) {
  StartDriver();
  Start();
  ASSERT_TRUE(WaitHealthy());
  for (const std::string& path : {Socket(), driver_->socket()}) {
    ASSERT_EQ(chmod(path.c_str(), 0770), 0);
  }
  EXPECT_TRUE(registrar_->CheckHealth().ok()) << registrar_->CheckHealth();
  EXPECT_TRUE(Answers());
  EXPECT_EQ(driver_->script().Count("GetPluginInfo"), 1);
  EXPECT_EQ(driver_->script().Count("NodeGetInfo"), 1);
}

TEST_F(RegistrarTest, ARegistryThatWasMadeAnewGetsItsAnnouncement) {
  StartDriver();
  Start();
  ASSERT_TRUE(WaitHealthy());
  for (int i = 0; i < 3; ++i) {
    // The registrar may put its socket back while the folder goes.
    EXPECT_TRUE(WaitFor([&] {
      std::error_code error;
      std::filesystem::remove_all(folder_ / "registry", error);
      return !error;
    }));
    std::filesystem::create_directories(folder_ / "registry");
    EXPECT_TRUE(WaitFor([&] { return registrar_->CheckHealth().ok() && Answers(); }));
  }
}

TEST_F(RegistrarTest, ADriversFolderThatWasMadeAnewIsWatched) {
  StartDriver();
  Start();
  ASSERT_TRUE(WaitHealthy());
  for (int i = 0; i < 3; ++i) {
    driver_->GoAway();
    std::filesystem::remove_all(folder_ / "driver");
    std::filesystem::create_directories(folder_ / "driver");
    ASSERT_TRUE(driver_->ComeBack().ok());
    EXPECT_TRUE(WaitForNodeGetInfo(i + 2));
    EXPECT_TRUE(WaitHealthy());
  }
}

}  // namespace
}  // namespace berth::roles
