#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cli/doctor/check.h"
#include "kube/fake_client.h"
#include "platform/files/fake_temp_folder.h"
#include "rpc/fake_cri.h"

namespace berth::cli::doctor {
namespace {

using base::Json;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::chrono::seconds kTimeout{10};

class MountPodsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto runtime = rpc::FakeCri::Start();
    ASSERT_TRUE(runtime.ok());
    runtime_ = *std::move(runtime);
    kubelet_ = folder_.path() + "/kubelet";
    Write("proc/filesystems", "nodev\tfuse\n");
    Write("proc/self/mountinfo",
          "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
          "2 1 8:1 /k " +
              kubelet_ + " rw shared:5 - ext4 /dev/sda1 rw\n");
  }

  void Write(const std::string& path, const std::string& text) {
    const std::string file = folder_ / path;
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    std::ofstream(file) << text;
  }
  void Register(const std::string& plugin, const std::string& uid) {
    Write("kubelet/plugin-containers/" + plugin + ".json",
          R"({"podNamespace":"m","podName":"mount-x","podUID":")" + uid +
              R"(","containerName":"mount"})");
  }
  // A container as the node agent makes it.
  void RunContainer(const std::string& uid) {
    const auto cri = rpc::CriClient::New(runtime_->socket());
    ASSERT_TRUE(cri.ok());
    runtime_->state().AddImage("mount");
    rpc::cri::RunPodSandboxRequest sandbox;
    sandbox.mutable_config()->mutable_metadata()->set_uid(uid);
    sandbox.mutable_config()->mutable_metadata()->set_name("mount-x");
    sandbox.mutable_config()->mutable_metadata()->set_namespace_("m");
    const auto pod = (*cri)->RunPodSandbox(sandbox, kTimeout);
    ASSERT_TRUE(pod.ok()) << base::ToString(pod.status());
    rpc::cri::CreateContainerRequest create;
    create.set_pod_sandbox_id(pod->pod_sandbox_id());
    *create.mutable_sandbox_config() = sandbox.config();
    create.mutable_config()->mutable_metadata()->set_name("mount");
    create.mutable_config()->mutable_image()->set_image("mount");
    auto& labels = *create.mutable_config()->mutable_labels();
    labels["io.kubernetes.pod.name"] = "mount-x";
    labels["io.kubernetes.pod.namespace"] = "m";
    labels["io.kubernetes.pod.uid"] = uid;
    labels["io.kubernetes.container.name"] = "mount";
    const auto container = (*cri)->CreateContainer(create, kTimeout);
    ASSERT_TRUE(container.ok()) << base::ToString(container.status());
    rpc::cri::StartContainerRequest start;
    start.set_container_id(container->container_id());
    ASSERT_TRUE((*cri)->StartContainer(start, kTimeout).ok());
  }
  // The container has all programs but these.
  void Lacks(const std::vector<std::string>& programs) {
    runtime_->state().SetExecSync([programs](const rpc::cri::ExecSyncRequest& request) {
      rpc::cri::ExecSyncResponse answer;
      for (const std::string& word : request.cmd()) {
        if (std::find(programs.begin(), programs.end(), word) != programs.end()) {
          answer.set_stdout(answer.stdout() + word + "\n");
        }
      }
      return answer;
    });
  }
  Findings Check() {
    Findings out;
    const Machine machine{.root = folder_.path(), .is_root = true, .root_user = geteuid()};
    CheckMountPods(machine, kubelet_, runtime_->socket(), out);
    return out;
  }
  static const Finding& Find(const Findings& findings, std::string_view name) {
    static const Finding kNone{"", "", Verdict::kNote, "no such finding", ""};
    for (const Finding& one : findings) {
      if (one.name == name) return one;
    }
    return kNone;
  }

  platform::TempFolder folder_;
  std::string kubelet_;
  std::unique_ptr<rpc::FakeCri> runtime_;
};

TEST_F(MountPodsTest, ARegisteredPodWithAllUtilitiesIsWell) {
  Register("kubernetes.io~glusterfs", "uid-1");
  RunContainer("uid-1");
  const Findings out = Check();
  for (const Finding& one : out) EXPECT_EQ(one.verdict, Verdict::kOk) << one.text;
  EXPECT_THAT(Find(out, "registration").text, HasSubstr("kubernetes.io/glusterfs is served by"));
  EXPECT_THAT(Find(out, "fuse").text, HasSubstr("built in"));
}

TEST_F(MountPodsTest, MissingUtilitiesAreNamed) {
  Register("kubernetes.io~glusterfs", "uid-1");
  RunContainer("uid-1");
  Lacks({"mount.glusterfs", "mkfs.xfs"});
  EXPECT_EQ(Find(Check(), "utilities").verdict, Verdict::kBad);
  EXPECT_THAT(Find(Check(), "utilities").text, HasSubstr("lacks mount.glusterfs"));
  Lacks({"mkfs.xfs", "fsck.ext4"});
  EXPECT_EQ(Find(Check(), "utilities").verdict, Verdict::kNote) << "GlusterFS formats nothing";
  EXPECT_THAT(Find(Check(), "utilities").text, HasSubstr("fsck.ext4, mkfs.xfs"));
}

TEST_F(MountPodsTest, APluginOfBlockVolumesNeedsMkfsAndFsck) {
  Register("kubernetes.io~rbd", "uid-1");
  RunContainer("uid-1");
  Lacks({"fsck.ext4"});
  EXPECT_EQ(Find(Check(), "utilities").verdict, Verdict::kBad);
  Lacks({"rbd"});
  EXPECT_EQ(Find(Check(), "utilities").verdict, Verdict::kBad);
  EXPECT_THAT(Find(Check(), "utilities").text, HasSubstr("lacks rbd"));
}

TEST_F(MountPodsTest, ARegistrationOfAPodThatIsGoneIsStale) {
  Register("kubernetes.io~glusterfs", "uid-0");
  RunContainer("uid-1");  // of the same name
  const Findings out = Check();
  EXPECT_EQ(Find(out, "registration").verdict, Verdict::kBad);
  EXPECT_THAT(Find(out, "registration").text, HasSubstr("stale"));
}

TEST_F(MountPodsTest, AMalformedRegistrationIsNamed) {
  Write("kubelet/plugin-containers/kubernetes.io~nfs.json", R"({"podNamespace":)");
  Write("kubelet/plugin-containers/.kubernetes.io~nfs.json.tmp", "");  // being written
  const Findings out = Check();
  EXPECT_EQ(Find(out, "registration").verdict, Verdict::kBad);
  EXPECT_THAT(Find(out, "registration").text, HasSubstr("kubernetes.io~nfs.json' is refused"));
}

TEST_F(MountPodsTest, AKernelWithoutTheFileSystemAndAPrivateFolderAreFaults) {
  Register("kubernetes.io~nfs", "uid-1");
  RunContainer("uid-1");
  Write("proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");
  const Findings out = Check();
  EXPECT_EQ(Find(out, "nfs").verdict, Verdict::kBad);
  EXPECT_EQ(Find(out, "propagation").verdict, Verdict::kBad);
}

TEST_F(MountPodsTest, ANodeWithoutMountPodsIsWell) {
  const Findings out = Check();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].verdict, Verdict::kNote);
}

Json MountPod(const std::string& name, const std::string& owner, const Json& arguments) {
  const Json reference = {{"apiVersion", "apps/v1"},
                          {"kind", "DaemonSet"},
                          {"name", owner},
                          {"uid", owner},
                          {"controller", true}};
  const Json container = {
      {"name", "mount"}, {"command", Json::array({"/berth-init"})}, {"args", arguments}};
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata",
           {{"name", name}, {"namespace", "m"}, {"ownerReferences", Json::array({reference})}}},
          {"spec", {{"nodeName", "node-a"}, {"containers", Json::array({container})}}}};
}

TEST(MountPodRivalsTest, TwoSetsForOnePluginAreRivalsTwoGenerationsAreNot) {
  kube::FakeClient client;
  Findings out;
  client.Add(MountPod("one", "set-a", {"--plugin=kubernetes.io/nfs"}));
  client.Add(MountPod("two", "set-a", {"--plugin", "kubernetes.io/nfs"}));
  CheckMountPodRivals(client, out);
  EXPECT_THAT(out, IsEmpty());
  client.Add(MountPod("three", "set-b", {"--container=mount", "--plugin", "kubernetes.io/nfs"}));
  CheckMountPodRivals(client, out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].verdict, Verdict::kBad);
  EXPECT_THAT(out[0].text, HasSubstr("kubernetes.io/nfs"));
  EXPECT_THAT(out[0].text, HasSubstr("m/three"));
}

}  // namespace
}  // namespace berth::cli::doctor
