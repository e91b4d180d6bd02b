#include "crust/containers/guest_config.h"

#include <gmock/gmock.h>

#include "base/assert_ok.h"

namespace berth::crust {
namespace {

using base::Json;
using base::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

// As containerd writes it for a container of a pod.
Json HostConfig() {
  return Json::parse(R"({
    "ociVersion": "1.0.2", "hostname": "pod",
    "root": {"path": "rootfs", "readonly": true},
    "process": {"args": ["/bin/app"], "terminal": true, "user": {"uid": 5, "gid": 6},
                "apparmorProfile": "cri-containerd.apparmor.d", "selinuxLabel": "system_u:x",
                "noNewPrivileges": true, "oomScoreAdj": 900,
                "rlimits": [{"type": "RLIMIT_NOFILE", "soft": 1, "hard": 2}]},
    "mounts": [
      {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid"]},
      {"destination": "/etc/hosts", "type": "bind", "source": "/var/lib/kubelet/pods/u/etc-hosts",
       "options": ["rbind", "rprivate", "rw"]},
      {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["ro"]},
      {"destination": "/data", "type": "bind", "source": "/var/lib/kubelet/pods/u/volumes/v",
       "options": ["rbind", "rprivate", "ro"]}],
    "linux": {
      "cgroupsPath": "kubepods-burstable.slice:cri-containerd:c1", "mountLabel": "system_u:y",
      "namespaces": [
        {"type": "pid"}, {"type": "ipc", "path": "/proc/7/ns/ipc"},
        {"type": "uts", "path": "/proc/7/ns/uts"}, {"type": "mount"},
        {"type": "network", "path": "/proc/7/ns/net"}, {"type": "cgroup"}],
      "devices": [{"path": "/dev/xvda", "type": "b", "major": 8, "minor": 16}],
      "resources": {
        "devices": [{"allow": false, "access": "rwm"},
                    {"allow": true, "type": "b", "major": 8, "minor": 16, "access": "rw"}],
        "memory": {"limit": 1000}, "cpu": {"shares": 512, "cpus": "3-5", "mems": "1"},
        "hugepageLimits": [{"pageSize": "2MB", "limit": 0}]},
      "maskedPaths": ["/proc/kcore"], "seccomp": {"defaultAction": "SCMP_ACT_ERRNO"}}})");
}

GuestPlaces Places() {
  return {.rootfs = "/run/berth/shared/c1/rootfs",
          .cgroup = "/berth/c1",
          .sources = {{.mount = 1, .path = "/run/berth/shared/c1/m1"},
                      {.mount = 3, .path = "/run/berth/volumes/v/sub"}},
          .devices = {{.path = "/dev/xvda", .major = 254, .minor = 32}}};
}

TEST(GuestConfigTest, NamesThePlacesInTheGuest) {
  const Json host = HostConfig();
  EXPECT_THAT(FindHostSources(host),
              ElementsAre(HostSource{1, "/var/lib/kubelet/pods/u/etc-hosts"},
                          HostSource{3, "/var/lib/kubelet/pods/u/volumes/v"}));
  EXPECT_TRUE(HasTerminal(host));
  const auto guest = TranslateForGuest(host, Places());
  ASSERT_OK(guest);
  Json expected = HostConfig();
  expected.erase("hostname");
  expected["root"]["path"] = "/run/berth/shared/c1/rootfs";
  expected["process"].erase("apparmorProfile");
  expected["process"].erase("selinuxLabel");
  expected["mounts"][1]["source"] = "/run/berth/shared/c1/m1";
  expected["mounts"][3]["source"] = "/run/berth/volumes/v/sub";
  Json& of_linux = expected["linux"];
  of_linux["cgroupsPath"] = "/berth/c1";
  of_linux.erase("mountLabel");
  of_linux["namespaces"] = Json::parse(R"([{"type":"pid"},{"type":"mount"},{"type":"cgroup"}])");
  of_linux["devices"][0]["major"] = 254;
  of_linux["devices"][0]["minor"] = 32;
  of_linux["resources"]["devices"][1]["major"] = 254;
  of_linux["resources"]["devices"][1]["minor"] = 32;
  of_linux["resources"]["cpu"] = {{"shares", 512}};
  of_linux["resources"].erase("hugepageLimits");
  EXPECT_EQ(*guest, expected) << guest->dump(1);
}

TEST(GuestConfigTest, SharesTheGuestsPidNamespaceInAPodThatSharesOne) {
  Json host = HostConfig();
  host["linux"]["namespaces"][0]["path"] = "/proc/7/ns/pid";
  const auto guest = TranslateForGuest(host, Places());
  ASSERT_OK(guest);
  EXPECT_EQ((*guest)["linux"]["namespaces"],
            Json::parse(R"([{"type":"mount"},{"type":"cgroup"}])"));
}

// The message about a config that was changed by a merge patch; "": it is not refused.
std::string Refusal(std::string_view patch) {
  Json host = HostConfig();
  host.merge_patch(Json::parse(patch));
  const auto guest = TranslateForGuest(host, Places());
  if (guest.ok()) return "";
  EXPECT_EQ(guest.status().code(), StatusCode::kUnimplemented);
  return std::string(guest.status().message());
}

TEST(GuestConfigTest, RefusesInWordsWhatAGuestDoesNotHave) {
  EXPECT_EQ(Refusal("{}"), "");
  EXPECT_EQ(Refusal(R"({"hooks":{"prestart":[]}})"), "");
  EXPECT_THAT(Refusal(R"({"hooks":{"prestart":[{"path":"/x"}]}})"), HasSubstr("hooks"));
  const std::string pid_alone = R"({"linux":{"namespaces":[{"type":"pid"},{"type":"ipc"}]}})";
  EXPECT_THAT(Refusal(pid_alone), HasSubstr("hostNetwork"));
  EXPECT_THAT(Refusal(R"({"linux":{"namespaces":[{"type":"network"},{"type":"ipc"}]}})"),
              HasSubstr("hostPID"));
  EXPECT_THAT(Refusal(R"({"linux":{"namespaces":[{"type":"network"},{"type":"pid"}]}})"),
              HasSubstr("hostIPC"));
  EXPECT_THAT(Refusal(R"({"linux":{"namespaces":[{"type":"user"}]}})"), HasSubstr("hostUsers"));
  EXPECT_THAT(Refusal(R"({"linux":{"uidMappings":[{"size":1}]}})"), HasSubstr("hostUsers"));
  EXPECT_THAT(Refusal(R"({"process":{"apparmorProfile":"mine"}})"), HasSubstr("AppArmor"));
  EXPECT_THAT(Refusal(R"({"linux":{"sysctl":{"net.x":"1"}}})"), HasSubstr("sysctl"));
  EXPECT_THAT(Refusal(R"({"linux":{"seccomp":{"listenerPath":"/x"}}})"), HasSubstr("seccomp"));
  EXPECT_THAT(Refusal(R"({"linux":{"rootfsPropagation":"rshared"}})"), HasSubstr("propagation"));
  EXPECT_THAT(
      Refusal(R"({"linux":{"resources":{"hugepageLimits":[{"pageSize":"2MB","limit":9}]}}})"),
      HasSubstr("hugepages-2MB"));
  EXPECT_THAT(
      Refusal(R"({"linux":{"resources":{"blockIO":{"throttleReadBpsDevice":[{"rate":1}]}}}})"),
      HasSubstr("disks"));
  EXPECT_THAT(
      Refusal(R"({"linux":{"devices":[{"path":"/dev/kvm","type":"c","major":10,"minor":232}]}})"),
      HasSubstr("'/dev/kvm'"));
  EXPECT_EQ(
      Refusal(R"({"linux":{"devices":[{"path":"/dev/fuse","type":"c","major":10,"minor":229}]}})"),
      "");
}

TEST(GuestConfigTest, RefusesMountsThatAGuestDoesNotHave) {
  const auto refusal = [](std::string_view mount) {
    Json host = HostConfig();
    host["mounts"][1].merge_patch(Json::parse(mount));
    const auto guest = TranslateForGuest(host, Places());
    return guest.ok() ? "" : std::string(guest.status().message());
  };
  EXPECT_EQ(refusal("{}"), "");
  EXPECT_THAT(refusal(R"({"options":["rbind","rslave"]})"), HasSubstr("mountPropagation"));
  EXPECT_THAT(refusal(R"({"options":["rbind","rshared"]})"), HasSubstr("'/etc/hosts'"));
  EXPECT_THAT(refusal(R"({"type":"nfs","options":["ro"]})"), HasSubstr("nfs"));
  EXPECT_THAT(refusal(R"({"uidMappings":[{"size":1}]})"), HasSubstr("mapped users"));
  GuestPlaces places = Places();
  places.sources.pop_back();
  EXPECT_EQ(TranslateForGuest(HostConfig(), places).status().code(), StatusCode::kInternal);
}

TEST(GuestConfigTest, LeavesOutTheLabelsOfAProcess) {
  const auto process = TranslateProcessForGuest(HostConfig()["process"]);
  ASSERT_OK(process);
  EXPECT_FALSE(process->contains("selinuxLabel"));
  EXPECT_FALSE(process->contains("apparmorProfile"));
  EXPECT_EQ((*process)["oomScoreAdj"], 900);
  EXPECT_FALSE(TranslateProcessForGuest({{"apparmorProfile", "mine"}}).ok());
}

}  // namespace
}  // namespace berth::crust
