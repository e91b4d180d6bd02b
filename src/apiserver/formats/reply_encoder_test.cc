#include "apiserver/formats/reply_encoder.h"

#include <gmock/gmock.h>

#include "apiserver/api_fixture.h"

namespace berth::apiserver {
namespace {

constexpr size_t kMostReplyBytes = size_t{16} << 20;  // of a decompressed answer

http::Request With(std::string_view target, std::string_view encoding,
                   std::string_view agent = "") {
  http::Request request;
  request.target = target;
  request.headers = {{"Accept-Encoding", std::string(encoding)},
                     {"User-Agent", std::string(agent)}};
  return request;
}

TEST(ReplyEncoderTest, IndentsAsALibraryDoes) {
  const base::Json value = {{"a", {1, 2, {{"b", "x\"{,:\\"}}}},
                            {"empty", base::Json::object()},
                            {"none", base::Json::array()},
                            {"z", nullptr}};
  for (const size_t step : {1u, 3u, 1000u}) {
    JsonIndenter indenter;
    const std::string text = value.dump();
    std::string out;
    for (size_t i = 0; i < text.size(); i += step) indenter.Write(text.substr(i, step), out);
    EXPECT_EQ(out, value.dump(2)) << step;
  }
}

TEST(ReplyEncoderTest, IndentsForThoseWhoReadIt) {
  EXPECT_TRUE(WantsPretty(With("/x?pretty=true", "")));
  EXPECT_TRUE(WantsPretty(With("/x?a=b&pretty=1", "")));
  EXPECT_TRUE(WantsPretty(With("/x", "", "curl/7.88")));
  EXPECT_FALSE(WantsPretty(With("/x?pretty=0", "", "curl/7.88")));
  EXPECT_FALSE(WantsPretty(With("/x", "", "kubectl/v1.32")));
  http::Response json{.body = R"({"a":1})"};
  EncodeReply(With("/x?pretty=1", ""), json);
  EXPECT_EQ(json.body, "{\n  \"a\": 1\n}\n");
  http::Response text{.content_type = "text/plain", .body = "{}"};
  EncodeReply(With("/x?pretty=1", ""), text);
  EXPECT_EQ(text.body, "{}");
}

TEST(ReplyEncoderTest, CompressesWhatIsLong) {
  const std::string body(kGzipFrom + 1, 'x');
  http::Response response{.body = body};
  EncodeReply(With("/x", "gzip"), response);
  EXPECT_LT(response.body.size(), size_t{4000});
  EXPECT_EQ(http::Gunzip(response.body, kMostReplyBytes), body);
  ASSERT_FALSE(response.headers.empty());
  EXPECT_EQ(response.headers[0], (std::pair<std::string, std::string>("Content-Encoding", "gzip")));

  http::Response small{.body = std::string(kGzipFrom, 'x')};
  EncodeReply(With("/x", "gzip"), small);
  EXPECT_EQ(small.body.size(), kGzipFrom);
  http::Response plain{.body = body};
  EncodeReply(With("/x", "br"), plain);
  EXPECT_EQ(plain.body.size(), body.size());
}

TEST(ReplyEncoderTest, PiecesMakeOneCompressedText) {
  ReplyEncoder encoder({.pretty = true, .gzip = true});
  std::string sent = encoder.EncodePiece("[");
  std::string number;
  for (int i = 0; i < 100'000; ++i) {
    number = std::to_string(i * 7919) + ",";
    sent += encoder.EncodePiece(number);
  }
  sent += encoder.EncodePiece("0]");
  sent += encoder.Finish();
  const std::string text = http::Gunzip(sent, kMostReplyBytes).value();
  EXPECT_TRUE(text.starts_with("[\n  0,\n  7919,\n"));
  EXPECT_TRUE(text.ends_with("\n  0\n]\n"));
}

}  // namespace
}  // namespace berth::apiserver
