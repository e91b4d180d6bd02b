#include "iscsi/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/assert_ok.h"

namespace berth::iscsi {
namespace {

using base::Json;
using base::StatusCode;

Json Request() {
  return {{"node", "node-a"},
          {"cluster",
           {{"portals", {"10.0.0.5:3260"}},
            {"target", "iqn.2003-01.org.example:t"},
            {"owner", "u-1"}}}};
}

TEST(IscsiSettingsTest, WithoutAnOwnerTheKeysWouldBeThoseOfAnotherCluster) {
  Json request = Request();
  request["cluster"].erase("owner");
  EXPECT_EQ(ReadSettings(request).status().code(), StatusCode::kInvalidArgument);
}

TEST(IscsiSettingsTest, ANodesNameMakesItsInitiatorName) {
  const auto settings = ReadSettings(Request());
  ASSERT_OK(settings);
  EXPECT_EQ(settings->login.initiator, "iqn.2026-11.dev.berth:node-a");
}

TEST(IscsiSettingsTest, AnInitiatorNameLeavesRoomForTheSecondOne) {
  const auto outcome = [](size_t length) {
    Json request = Request();
    request["cluster"]["initiator"] = std::string(length, 'i');
    return ReadSettings(request).status().code();
  };
  EXPECT_EQ(outcome(221), StatusCode::kOk);
  EXPECT_EQ(outcome(222), StatusCode::kInvalidArgument);
}

TEST(IscsiSettingsTest, PortalsMayBeNamesAndAddressesWithAndWithoutPort) {
  Json request = Request();
  request["cluster"]["portals"] = {"san.example", "[fe80::1]", "[::1]:3260", "san:1"};
  EXPECT_TRUE(ReadSettings(request).ok());
}

TEST(IscsiSettingsTest, PortalsOfAnotherFormAreRefused) {
  for (const char* portal :
       {"", "san:", "san:0", "san:65536", "san:x", ":3260", "a,1", "a b", "a\n"}) {
    Json request = Request();
    request["cluster"]["portals"] = {portal};
    EXPECT_EQ(ReadSettings(request).status().code(), StatusCode::kInvalidArgument) << portal;
  }
}

TEST(IscsiSettingsTest, TheSecretIsInNoMessage) {
  Json request = Request();
  request["cluster"]["chapUser"] = "u";
  request["cluster"]["chapPassword"] = std::string(129, 's');
  const auto refused = ReadSettings(request).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(base::Message(refused)), testing::Not(testing::HasSubstr("sss")));
}

TEST(IscsiSettingsTest, LunNumbersAreBounded) {
  EXPECT_EQ(*ReadLun({{"lun", 16383}}), 16383);
  for (const Json& wrong : {Json(16384), Json(-1), Json("1"), Json(1.5), Json(nullptr)}) {
    EXPECT_EQ(ReadLun({{"lun", wrong}}).status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(ReadLun(Json::object()).status().code(), StatusCode::kInvalidArgument);
}

TEST(IscsiSettingsTest, SessionsHaveIsidsOfTheirOwn) {
  EXPECT_NE(MakeIsid(), MakeIsid());
  EXPECT_LT(MakeIsid(), uint64_t{1} << 40);
}

}  // namespace
}  // namespace berth::iscsi
