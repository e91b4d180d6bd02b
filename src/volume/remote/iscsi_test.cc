#include "volume/remote/iscsi.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "base/assert_ok.h"
#include "volume/remote/disk_fixture.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr char kTarget[] = "iqn.2026-01.com.example:storage";
constexpr char kPassword[] = "correct-horse";

TEST(IscsiSessionsTest, ReadsWhatIscsiadmPrints) {
  const auto sessions = ParseSessions(R"(iSCSI Transport Class version 2.0-870
version 2.1.8
Target: iqn.2026-01.com.example:storage (non-flash)
	Current Portal: 10.0.0.7:3260,1
	Persistent Portal: 10.0.0.7:3260,1
		**********
		Interface:
		**********
		Iface Name: default
		Iface Transport: tcp
		SID: 1
		iSCSI Connection State: LOGGED IN
		************************
		Attached SCSI devices:
		************************
		Host Number: 2	State: running
		scsi2 Channel 00 Id 0 Lun: 0
		scsi2 Channel 00 Id 0 Lun: 1
			Attached scsi disk sda		State: running
		scsi2 Channel 00 Id 0 Lun: 12
			Attached scsi disk sdab		State: running
	Current Portal: [fd00::7]:3260,2
	Persistent Portal: [fd00::7]:3260,2
		Iface Name: fast
		Host Number: 3	State: running
Target: iqn.2026-01.com.example:other (non-flash)
	Current Portal: 10.0.0.9:3261,1
	Persistent Portal: 10.0.0.9:3261,1
		Iface Name: default
)");
  ASSERT_THAT(sessions, SizeIs(3));
  EXPECT_EQ(sessions[0].target, kTarget);
  EXPECT_EQ(sessions[0].portal, "10.0.0.7:3260");
  EXPECT_EQ(sessions[0].interface, "default");
  EXPECT_EQ(sessions[0].id, "1");
  EXPECT_EQ(sessions[0].host, "2");
  ASSERT_THAT(sessions[0].disks, SizeIs(2));
  EXPECT_EQ(sessions[0].disks[0].lun, 1);
  EXPECT_EQ(sessions[0].disks[0].name, "sda");
  EXPECT_EQ(sessions[0].disks[1].lun, 12);
  EXPECT_EQ(sessions[1].portal, "[fd00::7]:3260");
  EXPECT_EQ(sessions[1].interface, "fast");
  EXPECT_THAT(sessions[1].disks, IsEmpty());
  EXPECT_EQ(sessions[2].target, "iqn.2026-01.com.example:other");
  EXPECT_EQ(sessions[2].host, "");
  EXPECT_THAT(ParseSessions("nonsense\n\n"), IsEmpty());
}

class IscsiTest : public DiskTest {
 protected:
  IscsiTest() {
    host_.Put(api::kinds::kSecret, Json::parse(R"({
        "metadata": {"namespace": "shop", "name": "chap"}, "data": {
          "node.session.auth.username": "bWU=",
          "node.session.auth.password": "Y29ycmVjdC1ob3JzZQ==",
          "discovery.sendtargets.auth.username": "bWU="}})"));
    host_.Put(api::kinds::kSecret, Json::parse(R"({
        "metadata": {"namespace": "shop", "name": "lines"}, "data": {
          "node.session.auth.password": "eApub2RlLnN0YXJ0dXAgPSBhdXRvbWF0aWM="}})"));
    host_.fake_exec().SetAnswer([this](const platform::Command& command) { return Run(command); });
    host_.End();  // so that nothing waits for a device
  }
  static Json Source(const Json& more = {}) {
    Json source = {{"iscsi", {{"targetPortal", "10.0.0.7"}, {"iqn", kTarget}, {"lun", 1}}}};
    if (!more.is_null()) source.merge_patch(more);
    return source;
  }

  // The double of iscsiadm and of the kernel: sessions by portal, and the LUNs that were scanned.
  StatusOr<platform::CommandResult> Run(const platform::Command& command) {
    const std::vector<std::string>& argv = command.argv;
    const auto has = [&](std::string_view word) {
      return std::find(argv.begin(), argv.end(), word) != argv.end();
    };
    const auto after = [&](std::string_view flag) -> std::string {
      const auto at = std::find(argv.begin(), argv.end(), flag);
      return at == argv.end() || at + 1 == argv.end() ? "" : *(at + 1);
    };
    if (argv[0] == "sh" && argv.back().ends_with("/scan")) {
      luns_.insert(std::stoi(argv[4].substr(4)));
      return platform::CommandResult();
    }
    if (argv[0] == "sh" && argv.back().ends_with("/delete")) {
      luns_.erase(argv.back().find("sdb") != std::string::npos ? 1 : 2);
      return platform::CommandResult();
    }
    if (argv[0] == "sh" && command.secrets.empty()) {  // a discovery's record is removed
      secret_records_.erase(fmt::format("send_targets/{}/st_config", argv.back()));
      return platform::CommandResult();
    }
    if (argv[0] == "sh") {
      for (const platform::Secret& secret : command.secrets) {
        records_ += secret.content;
        if (secret.content.find(".auth.") != std::string::npos) secret_records_.insert(argv.back());
      }
      if (argv.back().starts_with(late_record_)) return Late();
      return platform::CommandResult();
    }
    if (!has_iscsiadm_) return base::Error(StatusCode::kNotFound, "no program 'iscsiadm'");
    if (after("-m") == "session" && has("-u")) {
      portals_.clear();
      return platform::CommandResult();
    }
    if (after("-m") == "session") return ShowSessions();
    if (has("--logout") && record_is_gone_) return platform::CommandResult{.exit_code = 21};
    if (after("-m") == "node" && after("-o") == "delete") {
      if (portals_.contains(after("-p"))) return platform::CommandResult{.exit_code = 15};
      if (record_is_busy_) return platform::CommandResult{.exit_code = 6, .err = "cannot lock"};
      const std::string portal = IscsiRecordName(after("-p"));
      const size_t removed = std::erase_if(secret_records_, [&](const std::string& record) {
        return record.starts_with("nodes/") && record.find(portal) != std::string::npos;
      });
      return platform::CommandResult{.exit_code = removed == 0 ? 21 : 0};
    }
    if (has("--login") && login_is_late_) return Late();
    if (has("--login")) {
      if (after("-p") == dead_) return platform::CommandResult{.exit_code = 8, .err = "timed out"};
      portals_.insert(after("-p"));
    }
    if (has("--login")) interface_ = after("-I");
    if (has("--logout")) portals_.erase(after("-p"));
    if (after("-m") == "iface" && has("show")) {
      return platform::CommandResult{
          .out =
              "# BEGIN RECORD 2.1.8\niface.iscsi_ifacename = fast\niface.net_ifacename = eth1\n"
              "iface.ipaddress = <empty>\niface.transport_name = tcp\n"
              "iface.initiatorname = <empty>\n# END RECORD\n"};
    }
    return platform::CommandResult();
  }
  static Status Late() { return base::Error(StatusCode::kDeadlineExceeded, "it was killed"); }
  // A volume that asks for CHAP in both places.
  static VolumeSpec ChapSpec() {
    return Spec(Source({{"iscsi",
                         {{"chapAuthSession", true},
                          {"chapAuthDiscovery", true},
                          {"secretRef", {{"name", "chap"}}}}}}));
  }
  platform::CommandResult ShowSessions() const {
    if (portals_.empty()) return {.exit_code = 21, .err = "iscsiadm: No active sessions."};
    std::string out = fmt::format("Target: {} (non-flash)\n", kTarget);
    for (const std::string& portal : portals_) {
      out += fmt::format("\tCurrent Portal: {0},1\n\tPersistent Portal: {0},1\n", portal);
      out += fmt::format("\t\tIface Name: {}\n\t\tSID: 7\n\t\tHost Number: 2\tState: running\n",
                         interface_);
      for (const int lun : luns_) {
        out += fmt::format("\t\tscsi2 Channel 00 Id 0 Lun: {}\n", lun);
        out +=
            fmt::format("\t\t\tAttached scsi disk {}\tState: running\n", lun == 1 ? "sdb" : "sdc");
      }
    }
    return {.out = out};
  }
  // Maps the disk. The device does not exist on this machine, so the wait for it ends the call.
  Status Map(const VolumeSpec& spec) {
    const Status mounted = plugin_.MountDevice(pod_, spec, {});
    EXPECT_FALSE(mounted.ok());
    return base::Message(mounted).find("no such block device") != std::string_view::npos
               ? base::OkStatus()
               : mounted;
  }

  IscsiPlugin plugin_{host_};
  std::set<std::string> portals_;
  std::set<int> luns_;
  std::string records_;
  std::set<std::string> secret_records_;  // of open-iscsi, that hold something of CHAP
  std::string late_record_ = "none";      // the script that appends to it is killed
  bool login_is_late_ = false;
  bool record_is_gone_ = false;        // of a login
  bool record_is_busy_ = false;        // so that it cannot be removed
  std::string interface_ = "default";  // of the sessions
  std::string dead_;
  bool has_iscsiadm_ = true;
};

TEST_F(IscsiTest, LogsInScansTheOneLunAndLogsOut) {
  const VolumeSpec spec = Spec(Source());
  EXPECT_EQ(**plugin_.DeviceName(spec),
            "kubernetes.io/iscsi/shop/iqn.2026-01.com.example:storage:1");
  ASSERT_OK(Map(spec));
  EXPECT_THAT(portals_, ElementsAre("10.0.0.7:3260"));
  EXPECT_THAT(luns_, ElementsAre(1));
  EXPECT_THAT(plugin_.FindOnNode()->devices, SizeIs(1));
  EXPECT_THAT(records_, HasSubstr("node.startup = manual\n"));
  EXPECT_THAT(records_, HasSubstr("node.session.scan = manual\n"));
  EXPECT_THAT(records_, Not(HasSubstr("CHAP")));
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, spec)));
  EXPECT_THAT(portals_, IsEmpty());
  EXPECT_THAT(luns_, IsEmpty());
  EXPECT_EQ(Lines().back(), fmt::format("iscsiadm -m node -p 10.0.0.7:3260 -T {} -I default -o "
                                        "delete",
                                        kTarget));
  EXPECT_THAT(plugin_.FindOnNode()->devices, IsEmpty());
}

TEST_F(IscsiTest, SecretsOfChapAreInFilesAndInNoArgument) {
  const VolumeSpec spec = Spec(Source({{"iscsi",
                                        {{"chapAuthSession", true},
                                         {"chapAuthDiscovery", true},
                                         {"secretRef", {{"name", "chap"}}}}}}));
  ASSERT_OK(Map(spec));
  EXPECT_THAT(records_, HasSubstr("discovery.sendtargets.auth.authmethod = CHAP\n"
                                  "discovery.sendtargets.auth.username = me\n"));
  EXPECT_THAT(records_, HasSubstr("node.session.auth.authmethod = CHAP\n"
                                  "node.session.auth.username = me\n"
                                  "node.session.auth.password = correct-horse\n"));
  for (const platform::Command& command : host_.fake_exec().commands()) {
    EXPECT_THAT(command.argv, Not(Contains(HasSubstr(kPassword))));
    EXPECT_THAT(command.env, Not(Contains(HasSubstr(kPassword))));
  }
  EXPECT_THAT(plugin_.FindOnNode()->devices[0].state.dump(), Not(HasSubstr(kPassword)));
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, spec)));
}

TEST_F(IscsiTest, ALoginThatIsLateLeavesNoSecret) {
  login_is_late_ = true;
  EXPECT_EQ(Map(ChapSpec()).code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(secret_records_, IsEmpty());
  login_is_late_ = false;
  for (const char* record : {"send_targets/", "nodes/"}) {
    late_record_ = record;
    EXPECT_EQ(Map(ChapSpec()).code(), StatusCode::kDeadlineExceeded);
    EXPECT_THAT(secret_records_, IsEmpty()) << record;
  }
  late_record_ = "none";
  ASSERT_OK(Map(ChapSpec()));
  EXPECT_THAT(secret_records_, ElementsAre(HasSubstr("nodes/")));  // the session's
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, ChapSpec())));
  EXPECT_THAT(secret_records_, IsEmpty());
}

// The agent was killed between the records and their removal.
TEST_F(IscsiTest, WhatAKilledLoginLeftGoesAtTheNextCall) {
  const std::set<std::string> left = {"send_targets/10.0.0.7,3260/st_config",
                                      fmt::format("nodes/{}/10.0.0.7,3260,*/default", kTarget)};
  login_is_late_ = true;
  EXPECT_FALSE(Map(ChapSpec()).ok());
  secret_records_ = left;
  EXPECT_FALSE(Map(ChapSpec()).ok());
  EXPECT_THAT(secret_records_, IsEmpty());

  secret_records_ = left;
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, ChapSpec())));
  EXPECT_THAT(secret_records_, IsEmpty());
  EXPECT_THAT(plugin_.FindOnNode()->devices, IsEmpty());
}

// Without a mount pod, the records are on the node's disk.
TEST_F(IscsiTest, WhatAnEarlierBootLeftGoesWithTheVolume) {
  ASSERT_OK(Map(ChapSpec()));
  portals_.clear();
  const std::string path = host_.paths().DiskMark(
      "kubernetes.io/iscsi", DiskMarks::DigestOf(**plugin_.DeviceName(ChapSpec())));
  std::ifstream file(path);
  Json mark = Json::parse(file);
  mark["bootId"] = "an earlier one";
  std::ofstream(path) << mark.dump();
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, ChapSpec())));
  EXPECT_THAT(secret_records_, IsEmpty());
}

// A login that came late has no record any more.
TEST_F(IscsiTest, ASessionWithoutARecordIsLoggedOutByItsNumber) {
  ASSERT_OK(Map(Spec(Source())));
  record_is_gone_ = true;
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, Spec(Source()))));
  EXPECT_THAT(Lines(), Contains("iscsiadm -m session -r 7 -u"));
  EXPECT_THAT(portals_, IsEmpty());
}

TEST_F(IscsiTest, OnePortalOfTwoIsEnough) {
  dead_ = "10.0.0.7:3260";
  const VolumeSpec spec = Spec(Source({{"iscsi", {{"portals", {"10.0.0.8:3261", "10.0.0.7"}}}}}));
  ASSERT_OK(Map(spec));
  EXPECT_THAT(portals_, ElementsAre("10.0.0.8:3261"));
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, spec)));

  const VolumeSpec alone = Spec(Source());
  const Status failed = Map(alone);
  EXPECT_EQ(failed.code(), StatusCode::kInternal);
  EXPECT_THAT(base::Message(failed), HasSubstr("at portal 10.0.0.7:3260"));
  EXPECT_THAT(base::Message(failed), HasSubstr("timed out"));
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, alone)));
}

TEST_F(IscsiTest, TheLastLunOfATargetLogsOut) {
  const VolumeSpec one = Spec(Source(), "pv-1");
  const VolumeSpec two = Spec(Source({{"iscsi", {{"lun", 2}}}}), "pv-2");
  ASSERT_OK(Map(one));
  ASSERT_OK(Map(two));
  EXPECT_THAT(Lines(), Contains(HasSubstr("--login")).Times(1));
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, one)));
  EXPECT_THAT(portals_, SizeIs(1));
  EXPECT_THAT(luns_, ElementsAre(2));
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, two)));
  EXPECT_THAT(portals_, IsEmpty());
}

TEST_F(IscsiTest, ASessionOfTheNodeStays) {
  portals_ = {"10.0.0.7:3260"};
  luns_ = {1, 2};
  const VolumeSpec spec = Spec(Source(), "pv-1");
  ASSERT_OK(Map(spec));
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, spec)));
  EXPECT_THAT(portals_, SizeIs(1));
  EXPECT_THAT(luns_, ElementsAre(1, 2));
}

// A portal's session that was there before, and its record, are somebody else's.
TEST_F(IscsiTest, ARecordByWhichTheVolumeDidNotLogInStays) {
  portals_ = {"10.0.0.8:3260"};
  const VolumeSpec spec = Spec(Source({{"iscsi", {{"portals", {"10.0.0.8"}}}}}), "pv-1");
  ASSERT_OK(Map(spec));
  portals_.erase("10.0.0.8:3260");
  secret_records_ = {fmt::format("nodes/{}/10.0.0.8,3260,*/default", kTarget)};
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, spec)));
  EXPECT_THAT(secret_records_, SizeIs(1));
}

// Else a pod could read a LUN by the CHAP secret of another tenant.
TEST_F(IscsiTest, APodsVolumeUsesNoSessionOfOthers) {
  VolumeSpec theirs = Spec(Source());
  theirs.pod_ns = "other";
  ASSERT_OK(Map(theirs));
  const VolumeSpec mine = Spec(Source({{"iscsi", {{"lun", 2}}}}));
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Status refused = Map(mine);
    EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(base::Message(refused), HasSubstr("make a PersistentVolume of it"));
  }
  EXPECT_THAT(luns_, ElementsAre(1));
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, mine)));
  EXPECT_THAT(portals_, SizeIs(1));
  // One of the same namespace may.
  VolumeSpec also_theirs = mine;
  also_theirs.pod_ns = "other";
  ASSERT_OK(Map(also_theirs));
  EXPECT_THAT(luns_, ElementsAre(1, 2));
}

// A pod that comes first and cannot log in must not wait for another tenant's login.
TEST_F(IscsiTest, AFailedLoginGivesNoRightToALaterSession) {
  const VolumeSpec mine = Spec(Source());
  dead_ = "10.0.0.7:3260";
  EXPECT_THAT(base::Message(Map(mine)), HasSubstr("timed out"));
  dead_.clear();
  VolumeSpec theirs = Spec(Source({{"iscsi", {{"lun", 2}}}}));
  theirs.pod_ns = "other";
  ASSERT_OK(Map(theirs));
  EXPECT_EQ(Map(mine).code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(luns_, ElementsAre(2));
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, mine)));
  EXPECT_THAT(luns_, ElementsAre(2));
  EXPECT_THAT(portals_, SizeIs(1));
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, theirs)));
  EXPECT_THAT(portals_, IsEmpty());
}

TEST_F(IscsiTest, ALunThatTwoVolumesNameGoesWithTheLast) {
  const VolumeSpec of_pod = Spec(Source());
  const VolumeSpec pv = Spec(Source(), "pv-1");
  ASSERT_OK(Map(of_pod));
  ASSERT_OK(Map(pv));
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, pv)));
  EXPECT_THAT(luns_, ElementsAre(1));
  EXPECT_THAT(portals_, SizeIs(1));
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, of_pod)));
  EXPECT_THAT(luns_, IsEmpty());
  EXPECT_THAT(portals_, IsEmpty());
}

TEST_F(IscsiTest, AnInitiatorOfItsOwnGetsAnInterface) {
  const VolumeSpec spec = Spec(Source(
      {{"iscsi", {{"initiatorName", "iqn.2026-01.com.example:n1"}, {"iscsiInterface", "fast"}}}}));
  ASSERT_OK(Map(spec));
  constexpr std::string_view kUpdate = "iscsiadm -m iface -I 10.0.0.7:3260:vol -o update -n ";
  EXPECT_THAT(Lines(), Contains("iscsiadm -m iface -I 10.0.0.7:3260:vol -o new"));
  EXPECT_THAT(Lines(), Contains(fmt::format("{}iface.net_ifacename -v eth1", kUpdate)));
  EXPECT_THAT(Lines(), Contains(fmt::format("{}iface.initiatorname -v iqn.2026-01.com.example:n1",
                                            kUpdate)));
  EXPECT_THAT(Lines(), Not(Contains(HasSubstr("<empty>"))));
  EXPECT_THAT(Lines(), Contains(fmt::format("iscsiadm -m node -p 10.0.0.7:3260 -T {} -I "
                                            "10.0.0.7:3260:vol --login",
                                            kTarget)));
}

// Once the session is gone, nothing else names its interface.
TEST_F(IscsiTest, AnInterfaceGoesAlthoughTheRecordOfItsLoginStays) {
  const VolumeSpec spec =
      Spec(Source({{"iscsi", {{"initiatorName", "iqn.2026-01.com.example:n1"}}}}));
  ASSERT_OK(Map(spec));
  record_is_busy_ = true;
  const Status failed = plugin_.UnmountDevice(DeviceOf(plugin_, spec));
  EXPECT_THAT(std::string(base::Message(failed)), HasSubstr("cannot lock"));
  EXPECT_THAT(portals_, IsEmpty());
  EXPECT_THAT(Lines(), Contains("iscsiadm -m iface -I 10.0.0.7:3260:vol -o delete"));
  record_is_busy_ = false;
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, spec)));
  EXPECT_THAT(plugin_.FindOnNode()->devices, IsEmpty());
}

TEST_F(IscsiTest, SaysWhichFieldIsWrongAndRunsNothing) {
  struct Case {
    Json more;
    StatusCode code;
    std::string_view text;
  };
  const Case cases[] = {
      {{{"iscsi", {{"targetPortal", "-p"}}}}, StatusCode::kInvalidArgument, "iscsi.targetPortal"},
      {{{"iscsi", {{"targetPortal", "a/../b"}}}},
       StatusCode::kInvalidArgument,
       "iscsi.targetPortal 'a/../b:3260' is not HOST:PORT"},
      {{{"iscsi", {{"iqn", "iqn.2026-01.x:../../y"}}}}, StatusCode::kInvalidArgument, "iscsi.iqn"},
      {{{"iscsi", {{"iscsiInterface", "a b"}}}},
       StatusCode::kInvalidArgument,
       "iscsi.iscsiInterface"},
      {{{"iscsi", {{"initiatorName", "a b"}}}},
       StatusCode::kInvalidArgument,
       "iscsi.initiatorName"},
      {{{"iscsi", {{"chapAuthSession", true}}}},
       StatusCode::kInvalidArgument,
       "iscsi.secretRef is missing"},
      {{{"iscsi", {{"chapAuthSession", true}, {"secretRef", {{"name", "none"}}}}}},
       StatusCode::kNotFound,
       "Secret 'shop/none'"},
      {{{"iscsi", {{"chapAuthSession", true}, {"secretRef", {{"name", "lines"}}}}}},
       StatusCode::kFailedPrecondition,
       "the entry 'node.session.auth.password'"},
  };
  for (const Case& one : cases) {
    const Status refused = Map(Spec(Source(one.more)));
    EXPECT_EQ(refused.code(), one.code) << one.text;
    EXPECT_THAT(base::Message(refused), HasSubstr(one.text));
  }
  EXPECT_THAT(Lines(), IsEmpty());
}

TEST_F(IscsiTest, WithoutTheUtilityThePodCanGo) {
  has_iscsiadm_ = false;
  const VolumeSpec spec = Spec(Source());
  const Status failed = Map(spec);
  EXPECT_EQ(failed.code(), StatusCode::kNotFound);
  EXPECT_THAT(base::Message(failed), HasSubstr("registers for 'kubernetes.io/iscsi'"));
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, spec)));
  EXPECT_THAT(plugin_.FindOnNode()->devices, IsEmpty());
}

}  // namespace
}  // namespace berth::volume
