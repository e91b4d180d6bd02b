#include "cli/doctor/doctor.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "kube/fake_client.h"
#include "platform/files/fake_temp_folder.h"

namespace berth::cli::doctor {
namespace {

const Finding* Find(const Findings& findings, std::string_view name) {
  for (const Finding& finding : findings) {
    if (finding.name == name) return &finding;
  }
  return nullptr;
}

Verdict VerdictOf(const Findings& findings, std::string_view name) {
  const Finding* finding = Find(findings, name);
  EXPECT_NE(finding, nullptr) << name;
  return finding == nullptr ? Verdict::kBad : finding->verdict;
}

class DoctorTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::string file = folder_ / path;
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    std::ofstream(file) << text;
  }
  Machine Fake() const { return {.root = folder_.path()}; }

  platform::TempFolder folder_;
  Findings out_;
};

TEST_F(DoctorTest, AKernelWithoutOverlayOrLoopIsABadOne) {
  Write("proc/filesystems", "nodev\ttmpfs\n\text4\n");
  CheckKernel(Fake(), out_);
  EXPECT_EQ(VerdictOf(out_, "ext4"), Verdict::kOk);
  EXPECT_EQ(VerdictOf(out_, "overlay"), Verdict::kBad);
  EXPECT_FALSE(Find(out_, "overlay")->advice.empty());
  EXPECT_EQ(VerdictOf(out_, "xfs"), Verdict::kNote);
  EXPECT_EQ(VerdictOf(out_, "loop devices"), Verdict::kBad);
  EXPECT_FALSE(IsHealthy(out_));
}

TEST_F(DoctorTest, AFileSystemMayBeAModule) {
  utsname system{};
  uname(&system);
  const std::string modules = fmt::format("lib/modules/{}/", system.release);
  Write(modules + "modules.builtin", "kernel/fs/ext4/ext4.ko\n");
  Write(modules + "modules.dep",
        "kernel/fs/overlayfs/overlay.ko.xz:\nkernel/fs/xfs/xfs.ko: kernel/lib/libcrc32c.ko\n");
  CheckKernel(Fake(), out_);
  EXPECT_EQ(Find(out_, "ext4")->text, "built in");
  EXPECT_EQ(Find(out_, "overlay")->text, "a module that the kernel can load");
  EXPECT_EQ(Find(out_, "xfs")->text, "a module that the kernel can load");
  EXPECT_EQ(VerdictOf(out_, "btrfs"), Verdict::kNote);
}

TEST_F(DoctorTest, RightsAreThoseOfTheProcess) {
  Write("proc/self/status", "Name:\tx\nCapEff:\t0000000000000003\n");  // chown, dac_override
  CheckCapabilities(Fake(), out_);
  EXPECT_EQ(VerdictOf(out_, "CAP_CHOWN"), Verdict::kOk);
  EXPECT_EQ(VerdictOf(out_, "CAP_SYS_ADMIN"), Verdict::kBad);
  EXPECT_EQ(VerdictOf(out_, "CAP_SYS_RESOURCE"), Verdict::kNote);
  out_.clear();
  CheckCapabilities({.root = folder_.path(), .is_root = false}, out_);
  EXPECT_TRUE(IsHealthy(out_));
}

TEST_F(DoctorTest, TheMountOfTheDataFolderIsFound) {
  Write("proc/self/mountinfo",
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "2 1 8:2 / /data ro,relatime shared:5 - xfs /dev/sdb1 ro\n");
  CheckPropagation(Fake(), "/data/berth", out_);
  EXPECT_NE(Find(out_, "propagation")->text.find("'/data' on /dev/sdb1 (xfs) is shared"),
            std::string::npos);
  EXPECT_EQ(VerdictOf(out_, "data folder"), Verdict::kBad);
  out_.clear();
  CheckPropagation(Fake(), "/database", out_);
  EXPECT_NE(Find(out_, "propagation")->text.find("'/' on /dev/sda1"), std::string::npos);
  EXPECT_TRUE(IsHealthy(out_));
}

TEST_F(DoctorTest, ALongPathIsTooLongForSockets) {
  CheckFolders({.root = "", .is_root = false}, "/" + std::string(100, 'x'), out_);
  EXPECT_EQ(VerdictOf(out_, "path length"), Verdict::kBad);
}

TEST_F(DoctorTest, AKubeconfigThatOthersMayReadIsNamedWithTheCure) {
  if (geteuid() != 0) GTEST_SKIP() << "owners are looked at: needs root";
  const std::string data = folder_ / "data";
  Write("data/kubeconfig", "secret");
  ASSERT_EQ(chmod(data.c_str(), 0700), 0);
  ASSERT_EQ(chmod((data + "/kubeconfig").c_str(), 0644), 0);
  CheckFolders({.root = "", .is_root = true}, data, out_);
  EXPECT_EQ(VerdictOf(out_, data), Verdict::kOk);
  EXPECT_EQ(VerdictOf(out_, data + "/kubeconfig"), Verdict::kBad);
  EXPECT_NE(Find(out_, data + "/kubeconfig")->advice.find("chmod 0600"), std::string::npos);
  EXPECT_EQ(VerdictOf(out_, data + "/node.kubeconfig"), Verdict::kNote);
}

TEST_F(DoctorTest, TheDiskIsMeasuredWhereTheFolderWillBeAndNothingStays) {
  CheckDisk(folder_ / "not/there/yet", out_);
  EXPECT_EQ(VerdictOf(out_, "space"), Verdict::kOk) << Find(out_, "space")->text;
  EXPECT_NE(Find(out_, "fsync"), nullptr);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(DoctorTest, ANodeThatIsNotReadyAndOneWithoutDriversAreSeen) {
  kube::FakeClient client;
  client.Add(
      {{"apiVersion", "v1"},
       {"kind", "Node"},
       {"metadata", {{"name", "node-a"}}},
       {"status",
        {{"conditions", {{{"type", "Ready"}, {"status", "False"}, {"message", "no runtime"}}}}}}});
  client.Add({{"apiVersion", "storage.k8s.io/v1"},
              {"kind", "CSINode"},
              {"metadata", {{"name", "node-a"}}},
              {"spec", {{"drivers", base::Json::array()}}}});
  CheckNodes(client, out_);
  EXPECT_EQ(VerdictOf(out_, "node-a"), Verdict::kBad);
  EXPECT_EQ(Find(out_, "node-a")->text, "not Ready: no runtime");
  EXPECT_EQ(VerdictOf(out_, "drivers on node-a"), Verdict::kBad);
}

TEST_F(DoctorTest, AClockBehindTheNodesIsTold) {
  kube::FakeClient client;
  const base::FakeClock clock;
  client.Add({{"apiVersion", "coordination.k8s.io/v1"},
              {"kind", "Lease"},
              {"metadata", {{"name", "node-a"}, {"namespace", "kube-node-lease"}}},
              {"spec", {{"renewTime", "2026-01-01T00:00:02.000000Z"}}}});
  CheckClock(&client, clock.Now(), out_);
  EXPECT_TRUE(IsHealthy(out_));
  out_.clear();
  CheckClock(&client, clock.Now() - std::chrono::minutes(1), out_);
  EXPECT_EQ(VerdictOf(out_, "node heartbeats"), Verdict::kBad);
  out_.clear();
  CheckClock(nullptr, base::WallTime(std::chrono::seconds(1000)), out_);
  EXPECT_EQ(VerdictOf(out_, "time"), Verdict::kBad);
}

TEST_F(DoctorTest, TextAndJsonSayTheSame) {
  const Findings findings = {{"kernel", "overlay", Verdict::kOk, "built in", ""},
                             {"disk", "space", Verdict::kBad, "full", "free some"}};
  const std::string text = RenderText(findings);
  EXPECT_NE(text.find("✗ space"), std::string::npos);
  EXPECT_NE(text.find("→ free some"), std::string::npos);
  EXPECT_NE(text.find("1 problem was found"), std::string::npos);
  const base::Json json = RenderJson(findings);
  EXPECT_EQ(json["healthy"], false);
  EXPECT_EQ(json["findings"][1]["advice"], "free some");
}

}  // namespace
}  // namespace berth::cli::doctor
