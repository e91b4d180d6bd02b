#include "base/ipc/guest_stream.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/socket.h>

#include <functional>
#include <random>

#include "base/ipc/stream_peer.h"

namespace berth::base::ipc {
namespace {

using testing::HasSubstr;

StreamFrame DataFrame(Channel channel, std::string bytes) {
  return {.type = FrameType::kData, .channel = channel, .payload = std::move(bytes)};
}

TEST(FramesTest, AreReadAsTheyWereWrittenInWhateverPiecesTheyCome) {
  const std::vector<StreamFrame> frames = {
      {.type = FrameType::kHello, .payload = "container/exec"},
      DataFrame(Channel::kErrors, std::string(kLargestPayload, 'x')),
      {.type = FrameType::kEof, .channel = Channel::kInput, .payload = {}},
      {.type = FrameType::kClosed, .channel = Channel::kOutput, .payload = {}},
      {.type = FrameType::kCredit, .channel = Channel::kOutput, .payload = {}, .first = 70000},
      {.type = FrameType::kResize, .payload = {}, .first = 40, .second = 0x01020304},
      {.type = FrameType::kSignal, .payload = {}, .first = 15, .second = 1},
      {.type = FrameType::kExit, .payload = {}, .first = 137, .second = 9},
  };
  FrameWriter writer;
  std::string bytes;
  for (const StreamFrame& frame : frames) bytes += writer.Write(frame);
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{5000}, bytes.size()}) {
    FrameReader reader;
    std::vector<StreamFrame> read;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      reader.Append(std::string_view(bytes).substr(at, piece));
      while (true) {
        const auto frame = reader.Next();
        ASSERT_TRUE(frame.ok()) << frame.failure().text;
        if (!frame->has_value()) break;
        read.push_back(**frame);
      }
    }
    EXPECT_EQ(read, frames) << piece;
  }
}

// The failure of a reader that gets a hello and then these bytes; "": it waits for more.
std::string ReadAfterHello(std::string_view bytes) {
  FrameReader reader;
  reader.Append(FrameWriter().Write({.type = FrameType::kHello, .payload = "a"}));
  EXPECT_TRUE(reader.Next().ok());
  reader.Append(bytes);
  const auto next = reader.Next();
  EXPECT_TRUE(!next.ok() || !next->has_value());
  return next.failure().text;
}

TEST(FramesTest, OfAnotherSenderAreTheEndOfTheSession) {
  FrameWriter writer;
  const std::string hello = writer.Write({.type = FrameType::kHello, .payload = "a"});
  std::string data = writer.Write(DataFrame(Channel::kInput, "abc"));
  EXPECT_THAT(ReadAfterHello(hello), HasSubstr("hello"));
  // What was sent in part is followed by another's hello.
  EXPECT_EQ(ReadAfterHello(data.substr(0, 18)), "");
  EXPECT_THAT(ReadAfterHello(data.substr(0, 9) + hello), HasSubstr("length"));
  EXPECT_THAT(ReadAfterHello("x"), HasSubstr("magic"));
  const std::string later = writer.Write(DataFrame(Channel::kInput, "abc"));
  EXPECT_THAT(ReadAfterHello(later), HasSubstr("sequence"));
  FrameReader first;
  first.Append(data);
  EXPECT_THAT(first.Next().failure().text, HasSubstr("hello"));
}

TEST(FramesTest, OfWrongSizeOrKindAreRefused) {
  FrameWriter writer;
  writer.Write({.type = FrameType::kHello, .payload = "a"});
  const std::string good = writer.Write(DataFrame(Channel::kInput, "abc"));
  const auto with = [&](size_t at, char byte) {
    std::string bad = good;
    bad[at] = byte;
    return ReadAfterHello(bad);
  };
  EXPECT_THAT(with(4, 0), HasSubstr("type"));
  EXPECT_THAT(with(4, 9), HasSubstr("type"));
  EXPECT_THAT(with(5, 3), HasSubstr("channel"));
  EXPECT_THAT(with(6, 1), HasSubstr("channel"));
  EXPECT_THAT(with(8, 0), HasSubstr("length"));
  EXPECT_THAT(with(11, 1), HasSubstr("length"));
  EXPECT_THAT(with(4, static_cast<char>(FrameType::kExit)), HasSubstr("length"));
}

struct TestPipe {
  TestPipe() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    read.Reset(ends[0]);
    write.Reset(ends[1]);
  }
  UniqueFd read, write;
};

// Both sides of a stream: the guest's has an input sink and two sources, the host's the others.
class StreamPeerTest : public testing::Test {
 protected:
  void SetUp() override {
    signal(SIGPIPE, SIG_IGN);
    Connect("name", "name");
    host_->AddSource(Channel::kInput, std::move(input_from_.read));
    host_->AddSink(Channel::kOutput, std::move(output_to_.write));
    host_->AddSink(Channel::kErrors, std::move(errors_to_.write));
    guest_->AddSink(Channel::kInput, std::move(input_to_.write));
    guest_->AddSource(Channel::kOutput, std::move(output_from_.read));
    guest_->AddSource(Channel::kErrors, std::move(errors_from_.read));
  }
  void Connect(const std::string& host, const std::string& guest) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    host_.emplace(StreamPeer::Options{.line = UniqueFd(ends[0]), .name = host});
    guest_.emplace(StreamPeer::Options{.line = UniqueFd(ends[1]), .name = guest});
  }
  // Moves both sides so often that whatever can move has moved.
  void Settle() {
    for (int i = 0; i < 200; ++i) {
      host_failure_ = MoveOne(*host_);
      guest_failure_ = MoveOne(*guest_);
    }
  }
  static Failure MoveOne(StreamPeer& peer) {
    std::vector<pollfd> polled;
    peer.AddPolled(polled);
    EXPECT_GE(poll(polled.data(), polled.size(), 0), 0);
    return peer.Move(polled);
  }
  // Writes as much of `bytes` as the pipe takes.
  static size_t Put(const UniqueFd& fd, std::string_view bytes) {
    const ssize_t n = write(fd.get(), bytes.data(), bytes.size());
    return n < 0 ? 0 : static_cast<size_t>(n);
  }
  // What the pipe has now; "EOF" at its end.
  static std::string Get(const UniqueFd& fd) {
    std::string bytes(1 << 20, '\0');
    const ssize_t n = read(fd.get(), bytes.data(), bytes.size());
    if (n == 0) return "EOF";
    bytes.resize(n < 0 ? 0 : static_cast<size_t>(n));
    return bytes;
  }

  TestPipe input_from_, input_to_, output_from_, output_to_, errors_from_, errors_to_;
  std::optional<StreamPeer> host_, guest_;
  Failure host_failure_, guest_failure_;
};

TEST_F(StreamPeerTest, ChannelsAndTheirEndsArriveAtTheOtherSide) {
  Put(input_from_.write, "in");
  Put(output_from_.write, "out");
  Put(errors_from_.write, "err");
  Settle();
  EXPECT_EQ(Get(input_to_.read), "in");
  EXPECT_EQ(Get(output_to_.read), "out");
  EXPECT_EQ(Get(errors_to_.read), "err");
  EXPECT_EQ(Get(input_to_.read), "");
  input_from_.write.Reset();
  output_from_.write.Reset();
  Settle();
  EXPECT_EQ(Get(input_to_.read), "EOF");
  EXPECT_EQ(Get(output_to_.read), "EOF");
  EXPECT_FALSE(host_->HasDeliveredAll()) << "the errors go on";
  errors_from_.write.Reset();
  Settle();
  EXPECT_TRUE(guest_->HasSentAll());
  EXPECT_TRUE(host_->HasDeliveredAll());
}

TEST_F(StreamPeerTest, AReaderThatStandsStillHoldsUpItsWriterAloneAndLosesNothing) {
  std::mt19937 random(1);
  std::string all(4 << 20, '\0');
  for (char& byte : all) byte = static_cast<char>(random());
  size_t put = 0;
  for (int i = 0; i < 50; ++i) {
    put += Put(output_from_.write, std::string_view(all).substr(put));
    Settle();
  }
  // At most: both pipes and the window.
  EXPECT_LT(put, kWindow + 3 * 65536);
  EXPECT_TRUE(guest_->IsHeldUp());
  // All else goes on.
  Put(input_from_.write, "in");
  Put(errors_from_.write, "err");
  guest_->SendExit(3, 0);
  host_->SendSignal(15, true);
  host_->SendResize(40, 120);
  Settle();
  EXPECT_EQ(Get(input_to_.read), "in");
  EXPECT_EQ(Get(errors_to_.read), "err");
  EXPECT_EQ(host_->NextControl()->first, 3u);
  EXPECT_EQ(guest_->NextControl()->type, FrameType::kSignal);
  EXPECT_EQ(guest_->NextControl()->second, 120u);
  EXPECT_FALSE(guest_->NextControl());

  std::string got;
  while (got.size() < all.size()) {
    const size_t before = got.size();
    got += Get(output_to_.read);
    if (put < all.size()) put += Put(output_from_.write, std::string_view(all).substr(put));
    Settle();
    ASSERT_TRUE(host_failure_.ok() && guest_failure_.ok());
    if (got.size() == before) got += Get(output_to_.read);
    ASSERT_GT(got.size(), before) << "it hangs";
  }
  EXPECT_TRUE(got == all);
  EXPECT_FALSE(guest_->IsHeldUp());
}

TEST_F(StreamPeerTest, ASinkWithoutAReaderClosesTheSource) {
  output_to_.read.Reset();
  Settle();
  EXPECT_EQ(write(output_from_.write.get(), "x", 1), -1) << "as a process sees it on this machine";
  EXPECT_EQ(errno, EPIPE);
  input_to_.read.Reset();
  Settle();
  EXPECT_EQ(write(input_from_.write.get(), "x", 1), -1);
}

TEST_F(StreamPeerTest, NothingGoesToAnotherProcess) {
  Connect("one", "other");
  Settle();
  EXPECT_EQ(guest_failure_.problem, Problem::kBroken);
  EXPECT_THAT(guest_failure_.text, HasSubstr("another process"));
  EXPECT_FALSE(guest_->IsGreeted() || host_->IsGreeted());
  guest_.reset();
  EXPECT_EQ(MoveOne(*host_).problem, Problem::kClosed);
}

TEST_F(StreamPeerTest, TheEndOfTheLineIsTheEndOfTheSession) {
  Settle();
  guest_->SendExit(1, 0);
  EXPECT_TRUE(MoveOne(*guest_).ok());
  guest_.reset();
  EXPECT_EQ(MoveOne(*host_).problem, Problem::kClosed);
  EXPECT_EQ(host_->NextControl()->type, FrameType::kExit) << "what came before the end counts";
}

TEST_F(StreamPeerTest, MoreBytesThanCreditAreRefused) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd raw(ends[1]);
  StreamPeer peer({.line = UniqueFd(ends[0]), .name = "name"});
  TestPipe sink;
  peer.AddSink(Channel::kOutput, std::move(sink.write));
  FrameWriter writer;
  const std::string hello = writer.Write({.type = FrameType::kHello, .payload = "name"});
  ASSERT_EQ(write(raw.get(), hello.data(), hello.size()), static_cast<ssize_t>(hello.size()));
  Failure failure;
  for (int i = 0; i < 30 && failure.ok(); ++i) {
    const std::string data = writer.Write(DataFrame(Channel::kOutput, std::string(16384, 'x')));
    ASSERT_EQ(write(raw.get(), data.data(), data.size()), static_cast<ssize_t>(data.size()));
    failure = MoveOne(peer);
  }
  EXPECT_EQ(failure.problem, Problem::kBroken);
  EXPECT_THAT(failure.text, HasSubstr("more bytes than credit"));
}

TEST_F(StreamPeerTest, APeerThatReadsNoCreditFillsNoMemory) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd raw(ends[1]);
  StreamPeer peer({.line = UniqueFd(ends[0]), .name = "name"});  // without any sink
  FrameWriter writer;
  std::string bytes = writer.Write({.type = FrameType::kHello, .payload = "name"});
  Failure failure;
  int frames = 0;
  for (; frames < 100000 && failure.ok(); ++frames) {
    bytes += writer.Write(DataFrame(Channel::kErrors, std::string(100, 'x')));
    ASSERT_EQ(write(raw.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    bytes.clear();
    failure = MoveOne(peer);
  }
  EXPECT_EQ(failure.problem, Problem::kBroken);
  EXPECT_GT(frames, static_cast<int>(kWindow / 100)) << "all credit may be used";
}

}  // namespace
}  // namespace berth::base::ipc
