#include "base/json_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert_ok.h"
#include "base/unique_fd.h"

namespace berth::base::json {
namespace {

using testing::HasSubstr;
using testing::Not;

StatusOr<Json> Read(std::string_view text) {
  const UniqueFd fd(memfd_create("input", MFD_CLOEXEC));
  EXPECT_EQ(write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  EXPECT_EQ(lseek(fd.get(), 0, SEEK_SET), 0);
  return ReadObject(fd.get(), 40, "the request");
}

TEST(JsonInputTest, OneObjectIsRead) {
  const auto object = Read(R"({"call": "list"})");
  ASSERT_OK(object);
  EXPECT_EQ(String(*object, {"call"}), "list");
}

TEST(JsonInputTest, WhatIsNoObjectIsRefusedWithoutItsText) {
  for (const char* text : {"", "[1]", R"({"key": "precious)", R"({"key": "precious"} {})"}) {
    const Status refused = Read(text).status();
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(Message(refused)), HasSubstr("the request is not one JSON object"));
    EXPECT_THAT(std::string(Message(refused)), Not(HasSubstr("precious")));
  }
}

TEST(JsonInputTest, ALongInputIsRefused) {
  EXPECT_EQ(Read(R"({"key": ")" + std::string(29, 'x') + R"("})").status().code(), StatusCode::kOk);
  EXPECT_EQ(Read(R"({"key": ")" + std::string(30, 'x') + R"("})").status().code(),
            StatusCode::kInvalidArgument);
}

TEST(JsonInputTest, AFailureHasCodeAndMessage) {
  EXPECT_EQ(Dump(FailureReply(Error(StatusCode::kNotFound, "there is no pool"))),
            R"({"error":{"code":"NOT_FOUND","message":"there is no pool"}})");
}

}  // namespace
}  // namespace berth::base::json
