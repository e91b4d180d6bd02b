#include "base/ipc/server.h"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include <atomic>
#include <latch>

namespace berth::base::ipc {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

Deadline LateForServer() { return DeadlineIn(seconds(60)); }

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    EXPECT_NE(mkdtemp(folder_), nullptr);
    path_ = std::string(folder_) + "/s";
  }
  ~ServerTest() override {
    server_.reset();
    unlink(path_.c_str());
    rmdir(folder_);
  }

  void Start(std::map<std::string, Method> methods, size_t max_calls = 4, size_t max_waiting = 4) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, path_.data(), path_.size());
    UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
              0);
    ASSERT_EQ(listen(listener.get(), 64), 0);
    server_.emplace(Server::Options{.name = "test",
                                    .listener = std::move(listener),
                                    .methods = std::move(methods),
                                    .max_calls = max_calls,
                                    .max_waiting = max_waiting,
                                    .peer = geteuid()});
  }
  Result<Message> SendCall(const Message& request) {
    return Call(path_, request, LateForServer(), geteuid());
  }
  Connection Connect() {
    auto connection = Connection::Connect(path_, LateForServer(), geteuid());
    EXPECT_TRUE(connection.ok()) << connection.failure().text;
    return std::move(*connection);
  }

  static StatusOr<Message> Echo(const Request& request) {
    return Message().Set("text", *request.message.FindText("text"));
  }

  char folder_[32] = "/tmp/berth-ipc-XXXXXX";
  std::string path_;
  std::optional<Server> server_;
};

TEST_F(ServerTest, AnswersByMethod) {
  Start({{"echo", Echo}, {"fail", [](const Request&) -> StatusOr<Message> {
                            return Error(StatusCode::kNotFound, "no pod is registered for 'x'");
                          }}});
  const auto reply = SendCall(Message().Set(kMethod, "echo").Set("text", "hello"));
  ASSERT_TRUE(reply.ok()) << reply.failure().text;
  EXPECT_EQ(*reply->FindText("text"), "hello");
  const auto failed = SendCall(Message().Set(kMethod, "fail"));
  EXPECT_EQ(failed.failure().problem, Problem::kRefused);
  EXPECT_EQ(failed.failure().text, "no pod is registered for 'x'");
  EXPECT_EQ(failed.failure().code, "NOT_FOUND");
  EXPECT_THAT(SendCall(Message().Set(kMethod, "other")).failure().text, HasSubstr("'other'"));
  EXPECT_THAT(SendCall(Message()).failure().text, HasSubstr("no method"));
}

TEST_F(ServerTest, LivesOnBesidePeersThatSendGarbageOrDie) {
  Start({{"echo", Echo}});
  for (const char* garbage : {"", "BIPC", "rubbish that is longer than a head"}) {
    const Connection connection = Connect();
    ASSERT_EQ(send(connection.fd(), garbage, strlen(garbage), MSG_NOSIGNAL),
              static_cast<ssize_t>(strlen(garbage)));
  }
  EXPECT_TRUE(SendCall(Message().Set(kMethod, "echo").Set("text", "")).ok());
}

TEST_F(ServerTest, TellsAPeerOfAnotherVersion) {
  Start({{"echo", Echo}});
  Connection connection = Connect();
  ASSERT_EQ(send(connection.fd(), "BIPC\x02\0\0\0\0\0\0\0\0\0\0\0", 16, MSG_NOSIGNAL), 16);
  const auto reply = connection.Receive(kLargestReply, LateForServer());
  ASSERT_TRUE(reply.ok()) << reply.failure().text;
  EXPECT_THAT(*reply->FindText(kError), HasSubstr("speaks version 2"));
}

TEST_F(ServerTest, TellsThatTooManyWait) {
  std::latch running(1), go(1);
  Start({{"wait",
          [&](const Request&) -> StatusOr<Message> {
            running.count_down();
            go.wait();
            return Message();
          }},
         {"echo", Echo}},
        1, 1);
  Connection first = Connect();
  ASSERT_TRUE(first.Send(Message().Set(kMethod, "wait"), 1000, LateForServer()).ok());
  running.wait();
  Connection second = Connect();  // waits
  Connection third = Connect();
  const auto refused = third.Receive(kLargestReply, LateForServer());
  ASSERT_TRUE(refused.ok()) << refused.failure().text;
  EXPECT_THAT(*refused->FindText(kError), HasSubstr("too many"));
  go.count_down();
  EXPECT_TRUE(first.Receive(1000, LateForServer()).ok());
  ASSERT_TRUE(
      second.Send(Message().Set(kMethod, "echo").Set("text", "late"), 1000, LateForServer()).ok());
  EXPECT_TRUE(second.Receive(1000, LateForServer()).ok());
}

TEST_F(ServerTest, DoesNotDoWhatNobodyWaitsFor) {
  std::latch running(1), go(1);
  std::atomic<bool> done = false;
  Start({{"wait",
          [&](const Request&) -> StatusOr<Message> {
            running.count_down();
            go.wait();
            return Message();
          }},
         {"do",
          [&](const Request&) -> StatusOr<Message> {
            done = true;
            return Message();
          }},
         {"echo", Echo}},
        1, 4);
  Connection first = Connect();
  ASSERT_TRUE(first.Send(Message().Set(kMethod, "wait"), 1000, LateForServer()).ok());
  running.wait();
  {
    Connection impatient = Connect();
    ASSERT_TRUE(impatient.Send(Message().Set(kMethod, "do"), 1000, LateForServer()).ok());
  }
  go.count_down();
  // This request's turn comes after the other one's.
  ASSERT_TRUE(SendCall(Message().Set(kMethod, "echo").Set("text", "")).ok());
  EXPECT_FALSE(done);
}

TEST_F(ServerTest, TellsThatAReplyIsTooLarge) {
  Start({{"large", [](const Request&) -> StatusOr<Message> {
            return Message().Set("out", std::string(kLargestReply, 'x'));
          }}});
  EXPECT_THAT(SendCall(Message().Set(kMethod, "large")).failure().text, HasSubstr("too large"));
}

}  // namespace
}  // namespace berth::base::ipc
