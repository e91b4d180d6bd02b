#include "base/base64.h"

#include <gtest/gtest.h>

namespace berth::base {
namespace {

TEST(Base64Test, DecodesTheVectorsOfTheRfc) {
  EXPECT_EQ(DecodeBase64(""), "");
  EXPECT_EQ(DecodeBase64("Zg=="), "f");
  EXPECT_EQ(DecodeBase64("Zm8="), "fo");
  EXPECT_EQ(DecodeBase64("Zm9v"), "foo");
  EXPECT_EQ(DecodeBase64("Zm9vYg=="), "foob");
  EXPECT_EQ(DecodeBase64("Zm9vYmE="), "fooba");
  EXPECT_EQ(DecodeBase64("Zm9v\nYmFy\r\n"), "foobar");
  EXPECT_EQ(DecodeBase64("AP+/"), std::string("\0\xff\xbf", 3));
}

TEST(Base64Test, RefusesWhatIsNotBase64) {
  for (const char* text : {"Z", "Zg", "Zg=", "Zm9", "=", "==", "====", "Z===", "Zg==Zg==", "Zg=a",
                           "Zm9v=", "Zm9v====", "Zm 9v", "Zm-v", "Zg==="}) {
    EXPECT_FALSE(DecodeBase64(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace berth::base
