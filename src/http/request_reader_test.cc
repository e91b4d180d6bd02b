#include "http/request_reader.h"

#include <gmock/gmock.h>

namespace berth::http {
namespace {

using Result = RequestReader::Result;
using testing::HasSubstr;

TEST(RequestReaderTest, ReadsRequestsWhateverTheirPieces) {
  const std::string bytes =
      "GET /a?b=c HTTP/1.1\r\nX: y\r\n\r\n"
      "POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
      "POST /e HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
      "POST /d HTTP/1.1\r\nContent-Length: 3\r\nConnection: close\r\n\r\nxyz";
  for (size_t step = 1; step < bytes.size(); ++step) {
    RequestReader reader({.max_head = 1000, .max_body = 1000});
    std::vector<Request> requests;
    for (size_t at = 0; at < bytes.size(); at += step) {
      reader.Append(std::string_view(bytes).substr(at, step));
      for (Result result; (result = reader.Next()) != Result::kMore;) {
        ASSERT_NE(result, Result::kRefused) << step;
        if (result == Result::kRequest) requests.push_back(reader.TakeRequest());
      }
    }
    ASSERT_EQ(requests.size(), 4u) << step;
    EXPECT_EQ(requests[0].method, "GET");
    EXPECT_EQ(requests[0].raw_path(), "/a");
    EXPECT_EQ(requests[0].raw_query(), "b=c");
    EXPECT_EQ(requests[0].Header("x"), "y");
    EXPECT_FALSE(requests[0].wants_close);
    EXPECT_EQ(requests[1].body, "hello");
    EXPECT_EQ(requests[2].body, "");
    EXPECT_EQ(requests[3].body, "xyz");
    EXPECT_TRUE(requests[3].wants_close);
    EXPECT_TRUE(reader.idle());
  }
}

TEST(RequestReaderTest, KnowsWhoWaitsToSendItsBody) {
  RequestReader reader({.max_head = 1000, .max_body = 1000});
  reader.Append("POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(reader.Next(), Result::kHead);
  EXPECT_TRUE(reader.TakeExpectation());
  EXPECT_FALSE(reader.TakeExpectation());
  reader.Append("{}");
  EXPECT_EQ(reader.Next(), Result::kRequest);
}

struct Bad {
  std::string bytes;
  int code;
};

TEST(RequestReaderTest, RefusesWhatItCannotRead) {
  const std::string chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  const Bad cases[] = {
      {"nonsense\r\n\r\n", 400},
      {"GET / HTTP/1.0\r\n\r\n", 505},
      {"GET / HTTP/1.1\r\nX: " + std::string(2000, 'y') + "\r\n\r\n", 431},
      {"POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", 413},
      {chunked + "zz\r\n", 400},
      {chunked + "3e9\r\n", 413},
      {chunked + "1;" + std::string(2000, 'x'), 431},
      {chunked + "0\r\nX: " + std::string(2000, 'y'), 431},
      {"GET / HTTP/1.1\r\n folded: x\r\n\r\n", 400},
      {"GET /\x01 HTTP/1.1\r\n\r\n", 400},
  };
  for (const Bad& bad : cases) {
    RequestReader reader({.max_head = 1000, .max_body = 1000});
    reader.Append(bad.bytes);
    Result result = reader.Next();
    if (result == Result::kHead) result = reader.Next();
    EXPECT_EQ(result, Result::kRefused) << bad.bytes;
    EXPECT_EQ(reader.refusal().code, bad.code) << bad.bytes;
  }
}

TEST(RequestReaderTest, TellsWhatARequestTakes) {
  RequestReader reader({.max_head = 1000, .max_body = 1'000'000});
  EXPECT_EQ(reader.memory(), 0u);
  reader.Append("POST / HTTP/1.1\r\n");
  EXPECT_EQ(reader.Next(), Result::kMore);
  EXPECT_GE(reader.memory(), 17u);
  EXPECT_LT(reader.memory(), 100u);
  reader.Append("Content-Length: 500000\r\n\r\n{");
  EXPECT_EQ(reader.Next(), Result::kHead);
  EXPECT_GE(reader.memory(), 500'000u) << "before it is taken";
  EXPECT_EQ(reader.Next(), Result::kMore);
  EXPECT_GE(reader.memory(), 500'000u);
  EXPECT_LT(reader.memory(), 600'000u);
  reader.Clear();
  EXPECT_EQ(reader.memory(), 0u);
}

TEST(RequestReaderTest, StopsAtAHeadWhoseBodyIsNotThere) {
  RequestReader reader({.max_head = 1000, .max_body = 1000});
  const std::string head = "PUT /a?b HTTP/1.1\r\nAuthorization: x\r\nContent-Length: 2\r\n\r\n";
  reader.Append(head + "{");
  ASSERT_EQ(reader.Next(), Result::kHead);
  EXPECT_EQ(reader.head().method, "PUT");
  EXPECT_EQ(reader.head().path, "/a");
  EXPECT_TRUE(reader.head().has_credentials);
  EXPECT_EQ(reader.CopyHead().Header("authorization"), "x");
  EXPECT_EQ(reader.waiting(), 1u);
  EXPECT_EQ(reader.Next(), Result::kMore);
  reader.Append("}");
  ASSERT_EQ(reader.Next(), Result::kRequest);
  EXPECT_EQ(reader.TakeRequest().body, "{}");
  // What came at once is not asked about.
  reader.Append(head + "{}");
  ASSERT_EQ(reader.Next(), Result::kRequest);
  EXPECT_EQ(reader.TakeRequest().body, "{}");
  reader.Append("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n\r\n");
  ASSERT_EQ(reader.Next(), Result::kHead);
  ASSERT_EQ(reader.Next(), Result::kRequest);
  EXPECT_EQ(reader.TakeRequest().body, "{");
}

}  // namespace
}  // namespace berth::http
