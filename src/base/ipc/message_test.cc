#include "base/ipc/message.h"

#include <gmock/gmock.h>

#include "base/json.h"

namespace berth::base::ipc {
namespace {

using ::testing::HasSubstr;

std::string AllBytes() {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  return all;
}

TEST(MessageTest, KeepsEveryByteOfAString) {
  const Message message = Message()
                              .Set("bytes", AllBytes())
                              .Set("text", "gr\xc3\xbc\xc3\x9f \xf0\x9f\x90\xbb")
                              .Set("cut", "\xf0\x9f\x90")
                              .Set("argv", Strings{"-o", "", "a\nb", "\xff"})
                              .Set("none", Strings{})
                              .Set("code", int64_t{-32});
  const Result<Message> again = ReadJson(WriteJson(message));
  ASSERT_TRUE(again.ok()) << again.failure().text;
  EXPECT_EQ(*again, message);
}

TEST(MessageTest, WritesWhatOtherReadersTakeForJson) {
  const auto other =
      json::Parse(WriteJson(Message()
                                .Set("plugin", "kubernetes.io/nfs")
                                .Set("n", int64_t{7})
                                .Set("argv", Strings{"a\"b\\", "\x01\x7f", "gr\xc3\xbc\xc3\x9f"})));
  ASSERT_TRUE(other.ok()) << ToString(other.status());
  EXPECT_EQ((*other)["argv"][0], "a\"b\\");
  EXPECT_EQ((*other)["argv"][1], "\x01\x7f");
  EXPECT_EQ((*other)["argv"][2], "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ((*other)["n"], 7);
}

TEST(MessageTest, ReadsWhatOtherWritersWrite) {
  const Result<Message> message = ReadJson(
      " {\n\t\"a\\u0062\\/\" : \"\\ud83d\\udc3b\\n\" , \"n\": -9223372036854775808, "
      "\"l\" : [ \"x\" , \"\\u00fc\" ] } \n");
  ASSERT_TRUE(message.ok()) << message.failure().text;
  ASSERT_NE(message->FindText("ab/"), nullptr);
  EXPECT_EQ(*message->FindText("ab/"), "\xf0\x9f\x90\xbb\n");
  EXPECT_EQ(message->FindNumber("n"), std::numeric_limits<int64_t>::min());
  ASSERT_NE(message->FindList("l"), nullptr);
  EXPECT_EQ(*message->FindList("l"), (Strings{"x", "\xc3\xbc"}));
}

TEST(MessageTest, AFieldOfAnotherTypeIsNotThere) {
  const Message message = Message().Set("text", "7").Set("number", int64_t{7});
  EXPECT_EQ(message.FindNumber("text"), std::nullopt);
  EXPECT_EQ(message.FindText("number"), nullptr);
  EXPECT_EQ(message.FindList("text"), nullptr);
  EXPECT_EQ(message.FindText("other"), nullptr);
}

TEST(MessageTest, RefusesWhatIsNoMessage) {
  const std::string long_number(40, '9');
  for (const std::string& json : {std::string(),
                                  std::string("{"),
                                  std::string("[]"),
                                  std::string("{}x"),
                                  std::string("{\"a\"}"),
                                  std::string("{\"a\":}"),
                                  std::string("{\"a\":1,}"),
                                  std::string("{\"a\":1.5}"),
                                  std::string("{\"a\":1e3}"),
                                  std::string("{\"a\":01}"),
                                  std::string("{\"a\":+1}"),
                                  std::string("{\"a\":-}"),
                                  "{\"a\":" + long_number + "}",
                                  std::string("{\"a\":true}"),
                                  std::string("{\"a\":null}"),
                                  std::string("{\"a\":{}}"),
                                  std::string("{\"a\":[1]}"),
                                  std::string("{\"a\":[\"b\",]}"),
                                  std::string("{\"a\":[[]]}"),
                                  std::string("{\"a\":1,\"a\":1}"),
                                  std::string("{\"a\":\"b}"),
                                  std::string("{\"a\":\"\n\"}"),
                                  std::string("{\"a\":\"\xff\"}"),
                                  std::string("{\"a\":\"\xed\xa0\x80\"}"),
                                  std::string("{\"a\":\"\xc0\x80\"}"),
                                  std::string("{\"a\":\"\\x\"}"),
                                  std::string("{\"a\":\"\\u12\"}"),
                                  std::string("{\"a\":\"\\u12g4\"}"),
                                  std::string("{\"a\":\"\\ud83d\"}"),
                                  std::string("{\"a\":\"\\ud83d\\u0041\"}"),
                                  std::string("{\"a\":\"\\udc41\"}"),
                                  std::string("{\"a\":\"\\"),
                                  std::string("\0{}", 3)}) {
    const Result<Message> message = ReadJson(json);
    EXPECT_FALSE(message.ok()) << json;
    EXPECT_EQ(message.failure().problem, Problem::kBroken) << json;
    EXPECT_THAT(message.failure().text, HasSubstr("at byte ")) << json;
  }
}

TEST(MessageTest, RefusesMoreFieldsThanAMessageMayHave) {
  Message message;
  for (size_t i = 0; i < kMostFields; ++i) message.Set(std::to_string(i), "");
  EXPECT_TRUE(ReadJson(WriteJson(message)).ok());
  message.Set("one more", "");
  EXPECT_FALSE(ReadJson(WriteJson(message)).ok());
}

}  // namespace
}  // namespace berth::base::ipc
