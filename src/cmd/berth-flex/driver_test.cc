#include "cmd/berth-flex/driver.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <future>
#include <thread>

#include "base/ipc/block_call.h"
#include "base/ipc/connection.h"

namespace berth::flex {
namespace {

namespace ipc = base::ipc;
namespace block = base::ipc::block;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr Patience kShort{milliseconds(300), milliseconds(300)};
constexpr Patience kLong{milliseconds(20000), milliseconds(20000)};

class FlexDriverTest : public testing::Test {
 protected:
  FlexDriverTest() {
    char name[] = "/tmp/bt-flex-XXXXXX";
    folder_ = mkdtemp(name);
    socket_ = folder_ + "/agent.sock";
    Install(R"({"socket": ")" + socket_ + R"("})");
  }
  ~FlexDriverTest() override {
    unlink(socket_.c_str());
    unlink(driver_().c_str());
    rmdir(folder_.c_str());
  }

  std::string driver_() const { return folder_ + "/block"; }
  void Install(const std::string& json) {
    std::ofstream file(driver_(), std::ios::binary | std::ios::trunc);
    const auto length = static_cast<uint32_t>(json.size());
    file << "\177ELF and so on" << json;
    file.write(reinterpret_cast<const char*>(&length), sizeof(length));
    file << block::kTrailerMagic;
  }

  base::UniqueFd Listen() {
    unlink(socket_.c_str());
    base::UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socket_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(fd.get(), 8), 0);
    return fd;
  }
  // Takes one call; gives the request.
  static ipc::Message AnswerCall(const base::UniqueFd& listener, const ipc::Message& reply) {
    auto connection = ipc::Connection::Wrap(
        base::UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)), getuid());
    EXPECT_TRUE(connection.ok()) << connection.failure().text;
    auto request = connection->Receive(ipc::kLargestRequest, ipc::DeadlineIn(milliseconds(5000)));
    EXPECT_TRUE(request.ok()) << request.failure().text;
    EXPECT_TRUE(
        connection->Send(reply, ipc::kLargestReply, ipc::DeadlineIn(milliseconds(5000))).ok());
    return *request;
  }
  static ipc::Message Same() { return ipc::Message().Set(block::kVersion, block::kProtocol); }

  std::string folder_, socket_;
};

TEST_F(FlexDriverTest, SupportsFourCallsAlone) {
  for (const char* call : {"attach", "getvolumename", "mountdevice", "expandvolume", "", "Init"}) {
    const Reply reply = flex::RunDriver({call, "x", "y"}, driver_(), kShort);
    EXPECT_EQ(reply.text, "{\"status\":\"Not supported\"}\n") << call;
    EXPECT_EQ(reply.exit_code, 1);
  }
  EXPECT_EQ(flex::RunDriver({}, driver_(), kShort).text, "{\"status\":\"Not supported\"}\n");
  EXPECT_THAT(flex::RunDriver({"mount", "/x"}, driver_(), kShort).text, HasSubstr("\"Failure\""));
}

TEST_F(FlexDriverTest, HandsACallToTheAgentThatItsTrailerNames) {
  const auto listener = Listen();
  auto reply = std::async(std::launch::async, [&] {
    return flex::RunDriver({"mount", "/k/v", "{\"a\": \"b\"}"}, driver_(), kLong);
  });
  const ipc::Message request = AnswerCall(listener, Same());
  EXPECT_EQ(*request.FindText(ipc::kMethod), block::kMount);
  EXPECT_EQ(*request.FindText(block::kMountDir), "/k/v");
  EXPECT_EQ(*request.FindText(block::kOptions), "{\"a\": \"b\"}");
  EXPECT_EQ(request.FindNumber(block::kVersion), block::kProtocol);
  const Reply said = reply.get();
  EXPECT_EQ(said.text, "{\"status\":\"Success\"}\n");
  EXPECT_EQ(said.exit_code, 0);
}

TEST_F(FlexDriverTest, HandsTheSizeOfAGrowthToTheAgent) {
  const auto listener = Listen();
  auto reply = std::async(std::launch::async, [&] {
    return flex::RunDriver({"expandfs", "{}", "", "/k/v", "268435456", "67108864"}, driver_(),
                           kLong);
  });
  const ipc::Message request =
      AnswerCall(listener, ipc::Message().Set(ipc::kError, std::string("the image is smaller")));
  EXPECT_EQ(*request.FindText(ipc::kMethod), block::kExpand);
  EXPECT_EQ(*request.FindText(block::kMountDir), "/k/v");
  EXPECT_EQ(request.FindNumber(block::kNewBytes), 268435456);
  EXPECT_EQ(reply.get().text, "{\"status\":\"Failure\",\"message\":\"the image is smaller\"}\n");
  for (const char* size : {"", "-1", "0", "256Mi", "1e9"}) {
    EXPECT_THAT(flex::RunDriver({"expandfs", "{}", "", "/k/v", size, "1"}, driver_(), kShort).text,
                HasSubstr("is not a size in bytes"));
  }
}

TEST_F(FlexDriverTest, SaysItsCapabilitiesAfterTheHandshake) {
  Install(R"({"socket": ")" + socket_ + R"(", "selinuxRelabel": "false"})");
  const auto listener = Listen();
  auto reply =
      std::async(std::launch::async, [&] { return flex::RunDriver({"init"}, driver_(), kLong); });
  AnswerCall(listener, Same());
  EXPECT_EQ(reply.get().text,
            "{\"status\":\"Success\",\"capabilities\":{\"attach\":false,\"supportsMetrics\":true,"
            "\"fsGroup\":true,\"selinuxRelabel\":false}}\n");
}

TEST_F(FlexDriverTest, WaitsForAnAgentThatIsAway) {
  auto reply = std::async(std::launch::async,
                          [&] { return flex::RunDriver({"unmount", "/k/v"}, driver_(), kLong); });
  EXPECT_EQ(reply.wait_for(milliseconds(50)), std::future_status::timeout);
  const auto listener = Listen();
  AnswerCall(listener, Same());
  EXPECT_EQ(reply.get().text, "{\"status\":\"Success\"}\n");
}

TEST_F(FlexDriverTest, AsksAgainWhereTheAgentEndsInMidCall) {
  base::UniqueFd listener = Listen();
  auto reply = std::async(std::launch::async,
                          [&] { return flex::RunDriver({"unmount", "/k/v"}, driver_(), kLong); });
  base::UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)).Reset();
  listener.Reset();
  listener = Listen();
  AnswerCall(listener, Same());
  EXPECT_EQ(reply.get().text, "{\"status\":\"Success\"}\n");
}

TEST_F(FlexDriverTest, FailsClearlyWhereTheAgentStaysAway) {
  const Reply reply = flex::RunDriver({"unmount", "/k/v"}, driver_(), kShort);
  EXPECT_EQ(reply.exit_code, 1);
  EXPECT_THAT(reply.text, AllOf(StartsWith("{\"status\":\"Failure\""),
                                HasSubstr("was not there for 0 s"), HasSubstr(socket_)));
}

TEST_F(FlexDriverTest, TheHandshakeDoesNotWaitForAnAgentThatIsAway) {
  // With this patience a wait would outlast the test's own deadline.
  constexpr Patience kEndless{std::chrono::hours(1), std::chrono::hours(1)};
  auto reply = std::async(std::launch::async,
                          [&] { return flex::RunDriver({"init"}, driver_(), kEndless); });
  const bool soon = reply.wait_for(std::chrono::seconds(30)) == std::future_status::ready;
  EXPECT_TRUE(soon);
  // If it waits, it ends by this agent's answer.
  if (!soon) AnswerCall(Listen(), Same());
  EXPECT_THAT(reply.get().text,
              AllOf(HasSubstr("was not there"), HasSubstr("installs this driver again")));
}

TEST_F(FlexDriverTest, GivesTheAgentsOwnWords) {
  const auto listener = Listen();
  auto reply = std::async(std::launch::async,
                          [&] { return flex::RunDriver({"unmount", "/k/v"}, driver_(), kLong); });
  AnswerCall(listener, ipc::Message().Set(ipc::kError, std::string("volume 'a' is \xff busy")));
  EXPECT_EQ(reply.get().text, "{\"status\":\"Failure\",\"message\":\"volume 'a' is ? busy\"}\n");
}

TEST_F(FlexDriverTest, SaysThatTheVersionsDiffer) {
  const auto listener = Listen();
  auto reply =
      std::async(std::launch::async, [&] { return flex::RunDriver({"init"}, driver_(), kLong); });
  AnswerCall(listener, ipc::Message().Set(block::kVersion, int64_t{7}));
  EXPECT_THAT(reply.get().text, HasSubstr("version 1 and the block agent version 7"));
}

TEST_F(FlexDriverTest, RefusesAFileWithoutATrailer) {
  std::ofstream(driver_(), std::ios::trunc) << "\177ELF";
  EXPECT_THAT(flex::RunDriver({"init"}, driver_(), kShort).text,
              HasSubstr("installed by 'berth block-agent'"));
  // A length that leads before the file's beginning.
  std::ofstream(driver_(), std::ios::trunc) << "\377\377\377\377" << block::kTrailerMagic;
  EXPECT_THAT(flex::RunDriver({"init"}, driver_(), kShort).text,
              HasSubstr("installed by 'berth block-agent'"));
  Install("not json");
  EXPECT_THAT(flex::RunDriver({"init"}, driver_(), kShort).text, HasSubstr("\"Failure\""));
}

}  // namespace
}  // namespace berth::flex
