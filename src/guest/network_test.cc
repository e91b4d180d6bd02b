#include "guest/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::guest {
namespace {

using base::ipc::Message;
using base::ipc::Strings;

Message Request() {
  return Message()
      .Set("name", std::string("eth0"))
      .Set("mac", std::string("02:00:00:00:00:42"))
      .Set("mtu", int64_t{1400})
      .Set("addresses", Strings{"10.1.2.3/24"})
      .Set("routes", Strings{"0.0.0.0/0|10.1.2.1"})
      .Set("neighbors", Strings{"10.1.2.9|02:00:00:00:00:09"});
}

std::string CodeOf(const Message& request) {
  const Message reply = ConfigureNetwork(request);
  const std::string* code = reply.FindText("code");
  return code != nullptr ? *code : "";
}

TEST(ConfigureNetworkTest, WhatIsNoNetworkIsRefused) {
  EXPECT_EQ(CodeOf(Message()), "INVALID_ARGUMENT");
  for (const char* name : {"", "a/b", "..", "sixteen-letters!", "a b"}) {
    EXPECT_EQ(CodeOf(Request().Set("name", std::string(name))), "INVALID_ARGUMENT") << name;
  }
  EXPECT_EQ(CodeOf(Request().Set("mac", std::string("02:00"))), "INVALID_ARGUMENT");
  EXPECT_EQ(CodeOf(Request().Set("mtu", int64_t{67})), "INVALID_ARGUMENT");
  EXPECT_EQ(CodeOf(Request().Set("mtu", int64_t{65536})), "INVALID_ARGUMENT");
  EXPECT_EQ(CodeOf(Request().Set("addresses", Strings{"10.1.2.3"})), "INVALID_ARGUMENT");
  EXPECT_EQ(CodeOf(Request().Set("addresses", Strings(2000, "10.1.2.3/24"))), "INVALID_ARGUMENT");
  for (const char* route : {"0.0.0.0/0", "0.0.0.0/0|x", "0.0.0.0/0|fd00::1", "|10.1.2.1"}) {
    EXPECT_EQ(CodeOf(Request().Set("routes", Strings{route})), "INVALID_ARGUMENT") << route;
  }
  EXPECT_EQ(CodeOf(Request().Set("neighbors", Strings{"10.1.2.9|02"})), "INVALID_ARGUMENT");
}

TEST(ConfigureNetworkTest, ACardThatTheMachineLacksIsNotFound) {
  EXPECT_EQ(CodeOf(Request().Set("mac", std::string("02:fe:fe:fe:fe:fe"))), "NOT_FOUND");
}

}  // namespace
}  // namespace berth::guest
