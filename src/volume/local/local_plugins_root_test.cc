#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "volume/fake_host.h"
#include "volume/local/local_plugins.h"

namespace berth::volume {
namespace {

using base::StatusCode;

class LocalPluginsRootTest : public testing::Test {
 protected:
  LocalPluginsRootTest() {
    host_.UseMounter(platform::NewMounter());
    host_.Put(api::kinds::kSecret, Json::parse(R"({
        "metadata": {"namespace": "shop", "name": "keys"}, "data": {"password": "aHVudGVyMg=="}})"));
  }
  ~LocalPluginsRootTest() override {
    const auto table = host_.mounter().List();
    for (const auto& entry : *table) {
      EXPECT_FALSE(entry.mount_point.starts_with(folder_.path())) << entry.mount_point;
    }
  }
  VolumePlugin& Plugin(std::string_view name) {
    for (const auto& plugin : plugins_) {
      if (plugin->name() == name) return *plugin;
    }
    abort();
  }
  static VolumeSpec Spec(const std::string& source) {
    Json volume = Json::parse(source);
    volume["name"] = "vol";
    return {.name = "vol", .pod_volume = api::PodVolume(volume)};
  }
  static PodVolumeRecord Record(VolumePlugin& plugin) {
    return {.plugin = std::string(plugin.name()), .pod_uid = "u-1", .folder_name = "vol"};
  }
  std::string FsType(const std::string& path) {
    const auto table = host_.mounter().List();
    const platform::MountEntry* entry = platform::FindMount(*table, path);
    return entry == nullptr ? "" : entry->fs_type;
  }
  static struct stat StatOf(const std::string& path) {
    struct stat st = {};
    EXPECT_EQ(stat(path.c_str(), &st), 0) << path;
    return st;
  }

  const platform::TempFolder folder_;
  FakeHost host_{folder_ / "kubelet"};
  const std::vector<std::unique_ptr<VolumePlugin>> plugins_ = NewLocalPlugins(host_);
  api::Pod pod_{Json::parse(R"({
      "metadata": {"namespace": "shop", "name": "web", "uid": "u-1"},
      "spec": {"securityContext": {"fsGroup": 4242},
               "containers": [{"name": "main", "securityContext": {"runAsUser": 1234}}]}})")};
};

TEST_F(LocalPluginsRootTest, MemoryIsLimitedAndGivenBack) {
  VolumePlugin& plugin = Plugin("kubernetes.io/empty-dir");
  const VolumeSpec spec = Spec(R"({"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}})");
  const auto published = plugin.SetUp(pod_, spec, {});
  ASSERT_TRUE(published.ok()) << base::ToString(published.status());
  EXPECT_EQ(FsType(published->path), "tmpfs");
  const struct stat st = StatOf(published->path);
  EXPECT_EQ(st.st_gid, 4242u);
  EXPECT_EQ(st.st_mode & 07777, 02777u);
  EXPECT_EQ(platform::WriteDurably<"test.file">(published->path + "/big", std::string(2 << 20, 'x'))
                .code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(plugin.GetStats(Record(plugin))->total_bytes, 1 << 20);
  // Again, as after a crash: the same mount, with what is in it.
  ASSERT_TRUE(platform::WriteDurably<"test.file">(published->path + "/small", "x").ok());
  ASSERT_TRUE(plugin.SetUp(pod_, spec, {}).ok());
  EXPECT_EQ(*platform::ReadFile(published->path + "/small"), "x");
  ASSERT_TRUE(plugin.TearDown(Record(plugin)).ok());
  EXPECT_EQ(FsType(published->path), "");
  EXPECT_NE(access(published->path.c_str(), F_OK), 0);
}

TEST_F(LocalPluginsRootTest, ASecretIsOnATmpfsForItsGroupAlone) {
  VolumePlugin& plugin = Plugin("kubernetes.io/secret");
  const auto published =
      plugin.SetUp(pod_, Spec(R"({"secret": {"secretName": "keys", "defaultMode": 256}})"), {});
  ASSERT_TRUE(published.ok()) << base::ToString(published.status());
  EXPECT_EQ(FsType(published->path), "tmpfs");
  const struct stat st = StatOf(published->path + "/password");
  EXPECT_EQ(st.st_gid, 4242u);
  EXPECT_EQ(st.st_mode & 07777, 0440u);
  ASSERT_TRUE(plugin.TearDown(Record(plugin)).ok());
  EXPECT_NE(access(published->path.c_str(), F_OK), 0);
}

TEST_F(LocalPluginsRootTest, ATokenBelongsToThePodsUser) {
  VolumePlugin& plugin = Plugin("kubernetes.io/projected");
  const auto published = plugin.SetUp(
      pod_, Spec(R"({"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}})"),
      {});
  ASSERT_TRUE(published.ok()) << base::ToString(published.status());
  const struct stat st = StatOf(published->path + "/token");
  EXPECT_EQ(st.st_uid, 1234u);
  EXPECT_EQ(st.st_gid, 4242u);
  EXPECT_EQ(st.st_mode & 07777, 0640u);
  ASSERT_TRUE(plugin.TearDown(Record(plugin)).ok());
}

// A container with Bidirectional propagation may leave a mount; what lies behind it is not the
// pod's.
TEST_F(LocalPluginsRootTest, TearDownRemovesNothingBehindAMountThatIsLeft) {
  VolumePlugin& plugin = Plugin("kubernetes.io/empty-dir");
  const auto published = plugin.SetUp(pod_, Spec(R"({"emptyDir": {}})"), {});
  ASSERT_TRUE(platform::MakeFolders(published->path + "/in").ok());
  ASSERT_TRUE(host_.mounter()
                  .Mount({.source = "tmpfs", .target = published->path + "/in", .fs_type = "tmpfs"})
                  .ok());
  ASSERT_TRUE(platform::WriteDurably<"test.file">(published->path + "/in/data", "x").ok());
  EXPECT_EQ(plugin.TearDown(Record(plugin)).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(*platform::ReadFile(published->path + "/in/data"), "x");
  ASSERT_TRUE(host_.mounter().Unmount(published->path + "/in").ok());
  EXPECT_TRUE(plugin.TearDown(Record(plugin)).ok());
}

}  // namespace
}  // namespace berth::volume
