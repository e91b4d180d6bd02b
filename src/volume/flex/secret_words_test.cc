#include "volume/flex/secret_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/base64.h"

namespace berth::volume {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Shown(const std::string& secret, const std::string& text) {
  SecretWords words;
  words.Add(secret);
  return words.Redact(text);
}

TEST(SecretWords, AreTakenOutInAllTheirForms) {
  EXPECT_EQ(Shown("s3cret!", "a s3cret! b s3cret!"), "a [redacted] b [redacted]");
  EXPECT_EQ(Shown("s3cret!", "key=" + base::EncodeBase64("s3cret!") + ";"), "key=[redacted];");
  EXPECT_EQ(Shown("s3cret\n", "key=s3cret;"), "key=[redacted];");
  EXPECT_EQ(Shown("a\"quoted\" one", R"({"p":"a\"quoted\" one"})"), R"({"p":"[redacted]"})");
}

TEST(SecretWords, OfSeveralLinesAreTakenOutLineByLine) {
  const std::string key = "-----BEGIN KEY-----\nQUJDREVG\nR0hJSktM\n-----END KEY-----\n";
  EXPECT_EQ(Shown(key, "+ echo R0hJSktM"), "+ echo [redacted]");
  EXPECT_THAT(Shown(key, "> QUJDREVG\n> R0hJSktM\n"), Not(HasSubstr("R0hJSktM")));
}

TEST(SecretWords, TheLongestIsTakenOutFirst) {
  SecretWords words;
  words.Add("secret");
  words.Add("secretive");
  EXPECT_EQ(words.Redact("secretive secret"), "[redacted] [redacted]");
}

TEST(SecretWords, AShortOneHidesAllThatMayHoldIt) {
  EXPECT_EQ(Shown("ab", "a tab"), "[withheld: it may hold a short secret]");
  EXPECT_EQ(Shown("ab", "nothing of it"), "nothing of it");
  EXPECT_EQ(Shown("", "anything"), "anything");
}

TEST(SecretWords, WhatIsShownIsOneBoundedLine) {
  SecretWords none;
  EXPECT_EQ(none.Redact("  a\nb\tc\x1b[31m\n"), "a b c [31m");
  EXPECT_EQ(none.Redact("abcdef", 4), "abcd...");
  EXPECT_EQ(none.Redact("abc\xc3\xa4", 4), "abc...");  // not within a character
}

}  // namespace
}  // namespace berth::volume
