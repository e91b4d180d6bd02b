#include "crust/share_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/assert_ok.h"

namespace berth::crust {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Clock = std::chrono::steady_clock;
using Addresses = std::vector<std::string>;

// Knows one name. A look-up of anything else is a failure of the test.
base::StatusOr<Addresses> LookUpStorage(const std::string& host) {
  EXPECT_EQ(host, "storage.example");
  return Addresses{"fd00::5", "10.0.0.5"};
}

base::StatusOr<Addresses> FindAddresses(const std::string& source,
                                        const MountFileSystem& mount = {.type = "nfs4"},
                                        const platform::LookUp& look_up = LookUpStorage) {
  return FindShareAddresses(source, mount, Clock::now() + std::chrono::minutes(1), look_up);
}

TEST(ShareAddressTest, ANameBecomesTheAddressesOfItsServer) {
  EXPECT_THAT(*FindAddresses("storage.example:/export"), ElementsAre("fd00::5", "10.0.0.5"));
  EXPECT_THAT(*FindAddresses("storage.example:/export", {.type = "nfs"}),
              ElementsAre("fd00::5", "10.0.0.5"));
}

TEST(ShareAddressTest, AnAddressInTheSourceIsTakenWithoutItsBrackets) {
  EXPECT_THAT(*FindAddresses("10.0.0.7:/export"), ElementsAre("10.0.0.7"));
  EXPECT_THAT(*FindAddresses("[fd00::7]:/export"), ElementsAre("fd00::7"));
  EXPECT_THAT(*FindAddresses("10.0.0.7:/export:with:colons"), ElementsAre("10.0.0.7"));
}

TEST(ShareAddressTest, AnAddressAmongTheOptionsIsNotDoubled) {
  EXPECT_THAT(
      *FindAddresses("other:/export", {.type = "nfs4", .options = {"vers=4.2", "addr=10.0.0.9"}}),
      IsEmpty());
  EXPECT_THAT(*FindAddresses("storage.example:/export",
                             {.type = "nfs4", .options = {"clientaddr=10.0.0.9"}}),
              ElementsAre("fd00::5", "10.0.0.5"))
      << "the address of the client is another option";
}

TEST(ShareAddressTest, OtherKindsOfSharesAreLeftAlone) {
  EXPECT_THAT(*FindAddresses("other:/volume", {.type = "ceph"}), IsEmpty());
  EXPECT_THAT(*FindAddresses("other:/volume", {.type = "nfs4", .utility = "mount.nfs4"}),
              IsEmpty());
}

TEST(ShareAddressTest, OnlySoManyAddressesAreTried) {
  const auto found =
      FindAddresses("storage.example:/export", {.type = "nfs4"}, [](const std::string&) {
        return Addresses{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"};
      });
  EXPECT_THAT(*found, ElementsAre("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"));
}

TEST(ShareAddressTest, ANameWithoutAnAddressIsToldInWords) {
  const auto none = FindAddresses("storage.example:/export", {.type = "nfs4"},
                                  [](const std::string&) { return Addresses{}; });
  EXPECT_EQ(none.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(base::Message(none.status()),
              HasSubstr("find the server of the share 'storage.example:/export': the name "
                        "'storage.example' has no address"));
  for (const std::string source : {"export", "[fd00::7]", ":/export"}) {
    EXPECT_EQ(FindAddresses(source).status().code(), StatusCode::kInvalidArgument) << source;
  }
}

}  // namespace
}  // namespace berth::crust
