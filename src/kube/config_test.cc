#include "kube/config.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace berth::kube {
namespace {

using base::StatusCode;

class ConfigTest : public testing::Test {
 protected:
  ConfigTest() {
    char folder[] = "/tmp/berth-config-XXXXXX";
    folder_ = mkdtemp(folder);
  }
  ~ConfigTest() override { std::filesystem::remove_all(folder_); }

  std::string Write(const std::string& name, std::string_view content) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << content;
    return path;
  }
  std::string WriteConfig(std::string_view cluster, std::string_view user) {
    return Write("config", fmt::format(R"(
apiVersion: v1
kind: Config
current-context: main
contexts:
- name: main
  context: {{cluster: c, user: u, namespace: shop}}
- name: bare
  context: {{cluster: c}}
- name: broken
  context: {{cluster: none, user: u}}
clusters:
- name: c
  cluster: {}
users:
- name: u
  user: {}
)",
                                       cluster, user));
  }

  std::string folder_;
};

TEST_F(ConfigTest, ReadsServerAndIdentityInlineAndFromFiles) {
  Write("ca.pem", "THE CA");
  Write("key.pem", "THE KEY");
  const std::string path =
      WriteConfig("{server: 'https://10.0.0.1:6443', certificate-authority: ca.pem}",
                  "{client-certificate-data: VEhFIENFUlQ=, client-key: key.pem, token: secret, "
                  "tokenFile: token}");
  const auto config = LoadKubeconfig(path);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server, "https://10.0.0.1:6443");
  EXPECT_EQ(config->certificate_authority, "THE CA");
  EXPECT_EQ(config->client_certificate, "THE CERT");
  EXPECT_EQ(config->client_key, "THE KEY");
  EXPECT_EQ(config->token, "secret");
  EXPECT_EQ(config->token_file, folder_ + "/token");
  EXPECT_EQ(config->ns, "shop");

  const auto bare = LoadKubeconfig(path, "bare");
  ASSERT_TRUE(bare.ok()) << bare.status();
  EXPECT_EQ(bare->token, "");
  EXPECT_EQ(bare->ns, "default");
}

TEST_F(ConfigTest, ReadsAUnixSocket) {
  const auto config = LoadKubeconfig(WriteConfig("{server: 'unix:///run/berth/api.sock'}", "{}"));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->socket, "/run/berth/api.sock");
  EXPECT_EQ(config->server, "");
}

TEST_F(ConfigTest, SaysWhatIsWrong) {
  const std::string good = "{server: 'https://h'}";
  EXPECT_EQ(LoadKubeconfig(folder_ + "/none").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(LoadKubeconfig(WriteConfig(good, "{}"), "nowhere").status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(LoadKubeconfig(WriteConfig(good, "{}"), "broken").status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(LoadKubeconfig(Write("config", "a: [")).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(LoadKubeconfig(Write("config", "[]")).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(LoadKubeconfig(Write("config", "a: 1")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(LoadKubeconfig(WriteConfig("{server: 'ftp://h'}", "{}")).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(LoadKubeconfig(WriteConfig("{server: 'unix://run/x'}", "{}")).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(LoadKubeconfig(WriteConfig(good, "{client-key-data: '***'}")).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(LoadKubeconfig(WriteConfig(good, "{client-key: none.pem}")).status().code(),
            StatusCode::kNotFound);
  const base::Status exec = LoadKubeconfig(WriteConfig(good, "{exec: {command: aws}}")).status();
  EXPECT_EQ(exec.code(), StatusCode::kUnimplemented);
  EXPECT_NE(base::Message(exec).find("exec"), std::string_view::npos);
}

TEST_F(ConfigTest, APodsServiceAccount) {
  unsetenv("KUBERNETES_SERVICE_HOST");
  EXPECT_EQ(LoadInClusterConfig(folder_).status().code(), StatusCode::kFailedPrecondition);
  setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
  setenv("KUBERNETES_SERVICE_PORT", "443", 1);
  EXPECT_EQ(LoadInClusterConfig(folder_).status().code(), StatusCode::kNotFound);
  Write("token", "t");
  Write("ca.crt", "CA");
  Write("namespace", "shop");
  const auto config = LoadInClusterConfig(folder_);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server, "https://[fd00::1]:443");
  EXPECT_EQ(config->token_file, folder_ + "/token");
  EXPECT_EQ(config->certificate_authority, "CA");
  EXPECT_EQ(config->ns, "shop");
  unsetenv("KUBERNETES_SERVICE_HOST");
  unsetenv("KUBERNETES_SERVICE_PORT");
}

TEST_F(ConfigTest, TheDefaultPathIsKubectls) {
  setenv("KUBECONFIG", "/a/b:/c", 1);
  EXPECT_EQ(FindKubeconfigPath(), "/a/b");
  EXPECT_EQ(FindKubeconfigPath("/x"), "/x");
  unsetenv("KUBECONFIG");
  setenv("HOME", "/home/me", 1);
  EXPECT_EQ(FindKubeconfigPath(), "/home/me/.kube/config");
}

}  // namespace
}  // namespace berth::kube
