#include "block/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/assert_ok.h"

namespace berth::block {
namespace {

using base::Json;

// Settings with which each type of back end can be opened.
std::vector<Json> AllSettings() {
  const Json secret = {{"name", "s"}, {"namespace", "berth-block"}};
  return {{{"images", {{"folder", "/srv/pool"}}}},
          {{"nbd", {{"server", "10.0.0.5:10809"}}}},
          {{"rbd",
            {{"monitors", {"10.0.0.5:6789"}},
             {"pool", "kube"},
             {"user", "kube"},
             {"secretRef", secret}}}},
          {{"iscsi",
            {{"portals", {"10.0.0.5:3260"}},
             {"target", "iqn.2003-01.org.example:t"},
             {"luns", {{"allow", {"naa.1"}}}}}}}};
}

TEST(KeepsFencesTest, TheTypeTellsTheSameAsABackEndThatIsOpen) {
  const auto exec = platform::NewHostExec();
  const auto mounter = platform::NewMounter();
  int fencing = 0;
  for (const Json& settings : AllSettings()) {
    const auto opened = OpenBackend(
        settings, {.exec = *exec, .mounter = *mounter, .proxy_socket = "", .node = "n1"});
    ASSERT_OK(opened);
    EXPECT_EQ(KeepsFences(settings), (*opened)->FencesNodes()) << settings;
    EXPECT_EQ(DescribeUnfence(settings, {"10.0.0.5:0/1"}).empty(), !KeepsFences(settings));
    fencing += KeepsFences(settings) ? 1 : 0;
  }
  EXPECT_EQ(fencing, 2);
}

TEST(KeepsFencesTest, SettingsThatCannotBeOpenedTellToo) {
  EXPECT_TRUE(KeepsFences({{"rbd", nullptr}}));
  EXPECT_FALSE(KeepsFences({{"tape", Json::object()}}));
  EXPECT_FALSE(KeepsFences(nullptr));
}

TEST(DescribeUnfenceTest, NamesOneCommandForEachAddressOfCeph) {
  const Json ceph = {{"rbd", Json::object()}};
  EXPECT_EQ(DescribeUnfence(ceph, {"10.0.0.5:0/1", "[fd00::5]:0/2"}),
            "ceph osd blocklist rm 10.0.0.5:0/1; ceph osd blocklist rm [fd00::5]:0/2");
  EXPECT_EQ(
      DescribeUnfence(ceph, {}),
      "ceph osd blocklist ls shows the addresses, and ceph osd blocklist rm ADDRESS takes one off");
}

TEST(DescribeUnfenceTest, NoTextBecomesACommandOfAShell) {
  const std::string told =
      DescribeUnfence({{"rbd", Json::object()}}, {"10.0.0.5:0/1", "1; reboot", "$(reboot)", ""});
  EXPECT_EQ(told.find("reboot"), std::string::npos) << told;
  EXPECT_THAT(told, testing::StartsWith("ceph osd blocklist rm 10.0.0.5:0/1; ceph osd blocklist ls "
                                        "shows the other addresses"));
}

}  // namespace
}  // namespace berth::block
