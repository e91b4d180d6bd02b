#include "base/ipc/connection.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <string.h>
#include <sys/stat.h>

#include <thread>

namespace berth::base::ipc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

// A deadline that is reached only if a peer does not come.
Deadline Late() { return DeadlineIn(seconds(60)); }
// A deadline for what never comes.
Deadline Soon() { return DeadlineIn(milliseconds(50)); }

// A connection, and its bare other end.
struct Pair {
  Connection connection;
  UniqueFd peer;

  Pair() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    peer.Reset(ends[1]);
    auto made = Connection::Wrap(UniqueFd(ends[0]), geteuid());
    EXPECT_TRUE(made.ok()) << made.failure().text;
    connection = std::move(*made);
  }
  void SendRaw(std::string_view bytes) const {
    ASSERT_EQ(send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  Connection Other() {
    auto made = Connection::Wrap(std::move(peer), geteuid());
    EXPECT_TRUE(made.ok());
    return std::move(*made);
  }
};

std::string Frame(std::string_view body, uint16_t version = kVersion, uint32_t length = 0,
                  uint16_t descriptors = 0, uint32_t zero = 0) {
  if (length == 0) length = static_cast<uint32_t>(body.size());
  std::string frame = "BIPC";
  frame.append(reinterpret_cast<const char*>(&version), 2);
  frame.append(reinterpret_cast<const char*>(&descriptors), 2);
  frame.append(reinterpret_cast<const char*>(&length), 4);
  frame.append(reinterpret_cast<const char*>(&zero), 4);
  return frame.append(body);
}

Problem Received(Pair& pair, Deadline deadline = Late()) {
  return pair.connection.Receive(1000, deadline).failure().problem;
}

TEST(ConnectionTest, CarriesAMessageThatComesByteByByte) {
  Pair pair;
  std::jthread sending([&] {
    for (const char byte : Frame("{\"a\":\"b\"}")) pair.SendRaw({&byte, 1});
  });
  const auto message = pair.connection.Receive(1000, Late());
  ASSERT_TRUE(message.ok()) << message.failure().text;
  EXPECT_EQ(*message, Message().Set("a", "b"));
}

TEST(ConnectionTest, CarriesMoreThanASocketHolds) {
  Pair pair;
  Connection other = pair.Other();
  const Message large = Message().Set("out", std::string(4'000'000, 'x'));
  std::jthread sending([&] { EXPECT_TRUE(other.Send(large, kLargestReply, Late()).ok()); });
  const auto message = pair.connection.Receive(kLargestReply, Late());
  ASSERT_TRUE(message.ok()) << message.failure().text;
  EXPECT_EQ(*message, large);
}

TEST(ConnectionTest, CarriesDescriptors) {
  Pair pair;
  Connection other = pair.Other();
  const UniqueFd file(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int descriptors[] = {file.get(), file.get()};
  ASSERT_TRUE(other.Send(Message(), 1000, Late(), descriptors).ok());
  std::vector<UniqueFd> received;
  ASSERT_TRUE(pair.connection.Receive(1000, Late(), &received).ok());
  ASSERT_EQ(received.size(), 2U);
  struct stat sent{}, came{};
  ASSERT_EQ(fstat(file.get(), &sent), 0);
  ASSERT_EQ(fstat(received[1].get(), &came), 0);
  EXPECT_EQ(came.st_rdev, sent.st_rdev);
  EXPECT_NE(fcntl(received[1].get(), F_GETFD) & FD_CLOEXEC, 0);
  // A receiver that takes no descriptors refuses a message that carries some.
  ASSERT_TRUE(other.Send(Message(), 1000, Late(), descriptors).ok());
  EXPECT_EQ(Received(pair), Problem::kBroken);
}

TEST(ConnectionTest, RefusesDescriptorsThatItWasPromisedInVain) {
  Pair pair;
  pair.SendRaw(Frame("{}", kVersion, 0, 1));
  std::vector<UniqueFd> received;
  EXPECT_EQ(pair.connection.Receive(1000, Late(), &received).failure().problem, Problem::kBroken);
}

TEST(ConnectionTest, APeerThatDiesWithinAFrameHasClosed) {
  const std::string whole = Frame("{\"a\":\"b\"}");
  for (size_t size = 0; size < whole.size(); ++size) {
    Pair pair;
    pair.SendRaw(std::string_view(whole).substr(0, size));
    pair.peer.Reset();
    EXPECT_EQ(Received(pair), Problem::kClosed) << size;
  }
}

TEST(ConnectionTest, WaitsNoLongerThanTheDeadlineForHalfAFrame) {
  const std::string whole = Frame("{\"a\":\"b\"}");
  for (const size_t size : {size_t{0}, size_t{3}, size_t{16}, whole.size() - 1}) {
    Pair pair;
    pair.SendRaw(std::string_view(whole).substr(0, size));
    EXPECT_EQ(Received(pair, Soon()), Problem::kTimeout) << size;
  }
}

TEST(ConnectionTest, WaitsNoLongerThanTheDeadlineForAPeerThatDoesNotRead) {
  Pair pair;
  const Message large = Message().Set("out", std::string(4'000'000, 'x'));
  EXPECT_EQ(pair.connection.Send(large, kLargestReply, Soon()).problem, Problem::kTimeout);
}

TEST(ConnectionTest, APeerThatDiesWhileItIsSentToHasClosed) {
  Pair pair;
  pair.peer.Reset();
  EXPECT_EQ(pair.connection.Send(Message(), 1000, Late()).problem, Problem::kClosed);
}

TEST(ConnectionTest, RefusesGarbage) {
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100, '\0'), std::string(100, '\xff'),
        Frame("not JSON"), Frame("{}", kVersion, 0, 0, 1), Frame("{}", kVersion, 0, 99)}) {
    Pair pair;
    pair.SendRaw(bytes);
    EXPECT_EQ(Received(pair), Problem::kBroken) << bytes;
  }
}

TEST(ConnectionTest, NamesTheVersionsThatDoNotFit) {
  Pair pair;
  // The rest of another version's header is not looked at.
  pair.SendRaw(Frame("{}", kVersion + 1, 0xffffffff, 99, 1));
  const auto message = pair.connection.Receive(1000, Late());
  EXPECT_EQ(message.failure().problem, Problem::kVersion);
  EXPECT_THAT(message.failure().text, HasSubstr("speaks version 2 of the protocol"));
}

TEST(ConnectionTest, RefusesAMessageBeyondTheBoundBeforeItsBytesCome) {
  Pair pair;
  pair.SendRaw(Frame("", kVersion, 1001));
  EXPECT_EQ(Received(pair), Problem::kTooLarge);
  Connection other = pair.Other();
  EXPECT_EQ(other.Send(Message().Set("a", std::string(1000, 'x')), 1000, Late()).problem,
            Problem::kTooLarge);
}

TEST(ConnectionTest, RefusesAPeerOfAnotherUser) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd other(ends[1]);
  const auto connection = Connection::Wrap(UniqueFd(ends[0]), geteuid() + 1);
  EXPECT_EQ(connection.failure().problem, Problem::kNotAllowed);
}

TEST(ConnectionTest, SaysThatNobodyListens) {
  const auto connection = Connection::Connect("/nowhere/berth.sock", Late());
  EXPECT_EQ(connection.failure().problem, Problem::kNobody);
  EXPECT_THAT(connection.failure().text, HasSubstr("'/nowhere/berth.sock'"));
  EXPECT_EQ(Connection::Connect(std::string(200, 'x'), Late()).failure().problem, Problem::kSystem);
}

}  // namespace
}  // namespace berth::base::ipc
