#include "http/local_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "http/fake_service.h"

namespace berth::http {
namespace {

using base::StatusCode;
using std::chrono::steady_clock;

constexpr std::chrono::seconds kSoon{10};

class LocalCallTest : public testing::Test {
 protected:
  // Reads to the end of the answer.
  base::StatusOr<std::string> ReadAll(LocalCall& call) {
    std::string body;
    while (!call.ended()) {
      RETURN_IF_ERROR(call.ReadMore(steady_clock::now() + kSoon, body));
    }
    return body;
  }

  const FakeService service_{nullptr};
  const Request request_{.method = "GET", .target = "/x"};
};

TEST_F(LocalCallTest, TheHandlerRunsOnTheCallersThread) {
  std::thread::id ran;
  LocalCall call(service_, request_, [&](const std::shared_ptr<Exchange>& exchange) {
    ran = std::this_thread::get_id();
    exchange->Reply({.code = 201, .body = "made", .headers = {{"Retry-After", "3"}}});
  });
  EXPECT_EQ(ran, std::this_thread::get_id());
  EXPECT_EQ(ReadAll(call).value_or("failed"), "made");
  EXPECT_EQ(call.code(), 201);
  EXPECT_EQ(call.Header("retry-after"), "3");
  EXPECT_EQ(call.Header("Location"), "");
}

TEST_F(LocalCallTest, AnAnswerWithAsManyWarningsAsThereMayBeIsRead) {
  LocalCall call(service_, request_, [&](const std::shared_ptr<Exchange>& exchange) {
    for (int i = 0; i < 64; ++i) {
      exchange->AddWarning(fmt::format("{:02}{}", i, std::string(254, '"')));
    }
    Response response{.body = "read"};
    for (std::string& warning : exchange->TakeWarnings()) {
      response.headers.emplace_back("Warning", std::move(warning));
    }
    exchange->Reply(response);
  });
  EXPECT_EQ(ReadAll(call).value_or("failed"), "read");
  EXPECT_THAT(call.Header("Warning"), testing::StartsWith("299 "));
}

TEST_F(LocalCallTest, AStreamOfAnotherThreadArrivesWhole) {
  // More than the exchange queues at once, so the call must say what it has taken.
  constexpr int kPieces = 64;
  const std::string piece(64 * 1024, 'p');
  std::jthread pusher;
  LocalCall call(service_, request_, [&](std::shared_ptr<Exchange> exchange) {
    exchange->StartStream({});
    pusher = std::jthread([exchange = std::move(exchange), &piece] {
      for (int i = 0; i < kPieces; ++i) {
        std::latch drained(1);
        exchange->PushPage(MakeFrame(EncodeChunk(piece)));
        exchange->OnDrained([&] { drained.count_down(); });
        drained.wait();
      }
      exchange->Push(MakeFrame(EncodeChunk("a") + EncodeChunk("b")));
      exchange->EndStream();
    });
  });
  const auto body = ReadAll(call);
  ASSERT_TRUE(body.ok()) << body.status();
  EXPECT_EQ(body->size(), kPieces * piece.size() + 2);
  EXPECT_TRUE(body->ends_with("pab"));
  EXPECT_EQ(call.code(), 200);
}

TEST_F(LocalCallTest, EachPieceCanBeReadWhenItComes) {
  std::shared_ptr<Exchange> exchange;
  LocalCall call(service_, request_, [&](std::shared_ptr<Exchange> made) { exchange = made; });
  EXPECT_EQ(call.code(), 0);
  exchange->StartStream({});
  for (const std::string piece : {"one", "two", "three"}) {
    ASSERT_TRUE(exchange->Push(MakeFrame(EncodeChunk(piece))));
    std::string body;
    ASSERT_TRUE(call.ReadMore(steady_clock::now() + kSoon, body).ok());
    EXPECT_EQ(body, piece);
  }
  EXPECT_FALSE(call.ended());
}

TEST_F(LocalCallTest, ARequestThatIsForgottenIsAnsweredWith500) {
  LocalCall call(service_, request_, [](const std::shared_ptr<Exchange>&) {});
  EXPECT_EQ(ReadAll(call).value_or("failed"), "the request ended without an answer");
  EXPECT_EQ(call.code(), 500);
}

TEST_F(LocalCallTest, ABrokenStreamIsNoWholeAnswer) {
  std::shared_ptr<Exchange> exchange;
  LocalCall call(service_, request_, [&](std::shared_ptr<Exchange> made) { exchange = made; });
  exchange->StartStream({});
  exchange->BreakStream();
  EXPECT_EQ(ReadAll(call).status().code(), StatusCode::kUnavailable);
}

TEST_F(LocalCallTest, ARequestForAnotherServerIsRefused) {
  LocalCall call(service_, request_, [](const std::shared_ptr<Exchange>& exchange) {
    exchange->Proxy({.socket = "/nowhere", .head = {}, .failure = {}});
  });
  EXPECT_EQ(ReadAll(call).status().code(), StatusCode::kUnimplemented);
}

TEST_F(LocalCallTest, TheDeadlineAndStopEndTheWait) {
  std::shared_ptr<Exchange> exchange;
  LocalCall call(service_, request_, [&](std::shared_ptr<Exchange> made) { exchange = made; });
  std::string body;
  EXPECT_EQ(call.ReadMore(steady_clock::now() + std::chrono::milliseconds(1), body).code(),
            StatusCode::kDeadlineExceeded);
  const std::jthread stopper([&] { call.Stop(); });
  EXPECT_TRUE(call.ReadMore(steady_clock::now() + kSoon, body).ok());
  EXPECT_FALSE(call.ended());
}

TEST_F(LocalCallTest, TheHandlerSeesThatTheCallerIsGone) {
  std::shared_ptr<Exchange> exchange;
  bool over = false;
  {
    LocalCall call(service_, request_, [&](std::shared_ptr<Exchange> made) { exchange = made; });
    exchange->StartStream({});
    exchange->OnOver([&] { over = true; });
    EXPECT_FALSE(over);
  }
  EXPECT_TRUE(over);
  EXPECT_FALSE(exchange->Push(MakeFrame(EncodeChunk("x"))));
}

}  // namespace
}  // namespace berth::http
