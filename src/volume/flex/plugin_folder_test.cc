#include "volume/flex/plugin_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "platform/files/fake_temp_folder.h"

namespace berth::volume {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class PluginFolderTest : public testing::Test {
 protected:
  PluginFolderTest() { fs::create_directories(root_.path() + "/usr"); }

  void Write(const std::string& path, std::string_view text) {
    fs::create_directories(fs::path(root_.path() + path).parent_path());
    std::ofstream(root_.path() + path) << text;
  }
  // Shows a process in the node's /proc.
  void Run(int pid, const std::string& name, const std::vector<std::string>& words,
           const std::string& status = "", int user = 0) {
    const std::string process = fmt::format("/proc/{}", pid);
    Write(process + "/comm", name + "\n");
    Write(process + "/status",
          fmt::format("Name:\t{0}\nUid:\t{1}\t{1}\t{1}\t{1}\n{2}", name, user, status));
    std::string line;
    for (const std::string& word : words) line += word + '\0';
    Write(process + "/cmdline", line);
  }
  void MakeFolder(const std::string& path) { fs::create_directories(root_.path() + path); }
  // Root may write everywhere, but not make a folder below a file.
  void MakeUsrUnwritable() {
    fs::create_directories(root_.path() + "/usr");
    std::ofstream(root_.path() + "/usr/libexec") << "";
  }
  std::string Found() const {
    const auto found = FindPluginFolder(root_.path());
    return found.ok() ? found->path : std::string(base::Message(found.status()));
  }

  platform::TempFolder root_;
};

TEST_F(PluginFolderTest, IsTheKubeletsDefault) {
  EXPECT_EQ(Found(), "/usr/libexec/kubernetes/kubelet-plugins/volume/exec");
  // k3s and microk8s leave it at that.
  MakeFolder("/var/lib/rancher/k3s/agent");
  Write("/var/snap/microk8s/current/args/kubelet",
        "--root-dir=${SNAP_COMMON}/var/lib/kubelet\n--fail-swap-on=false\n");
  EXPECT_EQ(Found(), "/usr/libexec/kubernetes/kubelet-plugins/volume/exec");
}

TEST_F(PluginFolderTest, IsWhatTheKubeletWasTold) {
  Write("/var/lib/kubelet/config.yaml",
        "kind: KubeletConfiguration\n# volumePluginDir: /old\nvolumePluginDir: \"/opt/flex/\"\n");
  EXPECT_EQ(Found(), "/opt/flex");
  Write("/etc/rancher/k3s/config.yaml",
        "kubelet-arg:\n  - \"v=2\"\n  - \"volume-plugin-dir=/var/lib/k3s-flex\"\n");
  EXPECT_EQ(Found(), "/var/lib/k3s-flex");
  Write("/var/snap/microk8s/current/args/kubelet",
        "--volume-plugin-dir=/var/snap/microk8s/common/flex\n");
  EXPECT_EQ(Found(), "/var/snap/microk8s/common/flex");
}

TEST_F(PluginFolderTest, IsWhatAFlagBetweenOthersSays) {
  Write("/var/lib/kubelet/kubeadm-flags.env",
        "KUBELET_KUBEADM_ARGS=\"--v=1 --volume-plugin-dir=/opt/a --node-ip=10.0.0.1\"\n");
  EXPECT_EQ(Found(), "/opt/a");
}

TEST_F(PluginFolderTest, IgnoresAValueThatIsNoPath) {
  Write("/var/lib/kubelet/config.yaml", "volumePluginDir: \"\"\n");
  EXPECT_EQ(Found(), "/usr/libexec/kubernetes/kubelet-plugins/volume/exec");
  Write("/etc/default/kubelet", "ARGS=--volume-plugin-dirs=/x\n");
  EXPECT_EQ(Found(), "/usr/libexec/kubernetes/kubelet-plugins/volume/exec");
}

TEST_F(PluginFolderTest, IsWhatTheRunningKubeletHas) {
  // The file is that of a kubelet that ran before.
  Write("/var/lib/kubelet/config.yaml", "volumePluginDir: /opt/old\n");
  Run(7, "kubelet", {"/usr/bin/kubelet", "--v=2", "--volume-plugin-dir=/opt/now/"});
  Run(8, "bash", {"bash", "--volume-plugin-dir=/opt/other"});
  EXPECT_EQ(Found(), "/opt/now");
  Run(7, "kubelet", {"/usr/bin/kubelet", "-volume-plugin-dir", "/opt/then"});
  EXPECT_EQ(Found(), "/opt/then");
}

TEST_F(PluginFolderTest, IsWhatTheConfigurationOfTheRunningKubeletSays) {
  Run(7, "kubelet", {"kubelet", "--config=/srv/kubelet.yaml", "--config-dir=/srv/conf.d"});
  EXPECT_THAT(Found(), HasSubstr("/usr/libexec/kubernetes")) << "nothing can be read yet";
  EXPECT_FALSE(FindPluginFolder(root_.path())->known);
  Write("/srv/kubelet.yaml", "kind: KubeletConfiguration\nvolumePluginDir: /opt/one\n");
  Write("/srv/conf.d/10-a.conf", "volumePluginDir: /opt/two\n");
  Write("/srv/conf.d/20-b.conf", "maxPods: 3\n");
  Write("/srv/conf.d/30-c.yaml", "volumePluginDir: /opt/three\n");
  EXPECT_EQ(Found(), "/opt/two");
  fs::remove(root_.path() + "/srv/conf.d/10-a.conf");
  EXPECT_EQ(Found(), "/opt/one");
}

TEST_F(PluginFolderTest, IsTheDefaultIfTheRunningKubeletNamesNone) {
  Write("/etc/default/kubelet", "ARGS=--volume-plugin-dir=/opt/unused\n");
  Run(7, "kubelet", {"kubelet", "--v=2"});
  EXPECT_EQ(Found(), "/usr/libexec/kubernetes/kubelet-plugins/volume/exec");
  EXPECT_TRUE(FindPluginFolder(root_.path())->known);
  MakeUsrUnwritable();
  EXPECT_THAT(Found(), HasSubstr("give the kubelet another one"));
}

TEST_F(PluginFolderTest, AKubeletInAContainerOfTheNodeDoesNotCount) {
  Run(7, "kubelet", {"kubelet", "--volume-plugin-dir=/opt/kind"}, "NSpid:\t7\t1\n");
  EXPECT_EQ(Found(), "/usr/libexec/kubernetes/kubelet-plugins/volume/exec");
  Run(9, "kubelet", {"kubelet", "--volume-plugin-dir=/opt/node"}, "NSpid:\t9\n");
  EXPECT_EQ(Found(), "/opt/node");
}

TEST_F(PluginFolderTest, AProcessOfAnotherUserIsNoKubelet) {
  Run(7, "kubelet", {"kubelet", "--volume-plugin-dir=/tmp/mine"}, "", 1000);
  EXPECT_EQ(Found(), "/usr/libexec/kubernetes/kubelet-plugins/volume/exec");
}

TEST_F(PluginFolderTest, AFileIsAGuessBesideAKubeletThatCannotBeRead) {
  Write("/var/lib/kubelet/config.yaml", "volumePluginDir: /opt/old\n");
  Run(7, "kubelet", {"kubelet", "--config=/srv/away.yaml"});
  const auto guessed = FindPluginFolder(root_.path());
  ASSERT_TRUE(guessed.ok()) << guessed.status();
  EXPECT_EQ(guessed->path, "/opt/old");
  EXPECT_FALSE(guessed->known);
  EXPECT_THAT(guessed->why, HasSubstr("/srv/away.yaml"));
}

TEST_F(PluginFolderTest, SaysThatItGuesses) {
  const auto guessed = FindPluginFolder(root_.path());
  ASSERT_TRUE(guessed.ok()) << guessed.status();
  EXPECT_FALSE(guessed->known);
  EXPECT_THAT(guessed->why, HasSubstr("no process 'kubelet' runs"));
  Run(7, "kubelet", {"kubelet", "--volume-plugin-dir=/opt/a"});
  Run(8, "kubelet", {"kubelet", "--volume-plugin-dir=/opt/b"});
  EXPECT_THAT(FindPluginFolder(root_.path())->why, HasSubstr("two kubelets run on this node"));
}

TEST_F(PluginFolderTest, KnowsK0s) {
  MakeFolder("/var/lib/k0s");
  EXPECT_EQ(Found(), "/usr/libexec/k0s/kubelet-plugins/volume/exec");
}

TEST_F(PluginFolderTest, FindsWhatIsThereWhereUsrCannotBeWritten) {
  MakeUsrUnwritable();
  EXPECT_EQ(Found(), "/var/lib/kubelet/volumeplugins");
  const auto found = FindPluginFolder(root_.path());
  EXPECT_THAT(found->why, HasSubstr("must be told"));
  MakeFolder("/etc/kubernetes/kubelet-plugins/volume/exec");
  EXPECT_EQ(Found(), "/etc/kubernetes/kubelet-plugins/volume/exec");
  MakeFolder("/var/lib/kubelet/volume-plugins");
  EXPECT_EQ(Found(), "/var/lib/kubelet/volume-plugins");
  MakeFolder("/var/lib/kubelet/volumeplugins");
  EXPECT_EQ(Found(), "/var/lib/kubelet/volumeplugins");
}

TEST_F(PluginFolderTest, SaysWhatWasTriedWhereNothingCanBeWritten) {
  MakeUsrUnwritable();
  std::ofstream(root_.path() + "/var") << "";
  EXPECT_THAT(Found(), HasSubstr("--volume-plugin-dir"));
}

}  // namespace
}  // namespace berth::volume
