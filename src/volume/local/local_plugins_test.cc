#include "volume/local/local_plugins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "volume/fake_host.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class LocalPluginsTest : public testing::Test {
 protected:
  LocalPluginsTest() {
    host_.Put(api::kinds::kConfigMap, Json::parse(R"({
        "metadata": {"namespace": "shop", "name": "settings"}, "data": {"colour": "blue"}})"));
    host_.Put(api::kinds::kSecret, Json::parse(R"({
        "metadata": {"namespace": "shop", "name": "keys"}, "data": {"password": "aHVudGVyMg=="}})"));
  }
  static VolumeSpec Spec(const std::string& source) {
    Json volume = Json::parse(source);
    volume["name"] = "vol";
    return {.name = "vol", .pod_volume = api::PodVolume(volume)};
  }
  VolumePlugin& PluginFor(const VolumeSpec& spec) {
    VolumePlugin* found = nullptr;
    for (const auto& plugin : plugins_) {
      if (!plugin->Supports(spec)) continue;
      EXPECT_EQ(found, nullptr) << "two plugins for one volume";
      found = plugin.get();
    }
    EXPECT_NE(found, nullptr);
    return *found;
  }
  StatusOr<Published> Publish(const std::string& source) {
    const VolumeSpec spec = Spec(source);
    return PluginFor(spec).SetUp(pod_, spec, {});
  }
  Status Unpublish(const std::string& source) {
    const VolumeSpec spec = Spec(source);
    VolumePlugin& plugin = PluginFor(spec);
    return plugin.TearDown({.plugin = std::string(plugin.name()),
                            .pod_uid = pod_.uid(),
                            .folder_name = spec.folder_name(),
                            .state = *plugin.PodState(pod_, spec)});
  }
  std::string Error(const std::string& source) { return base::ToString(Publish(source).status()); }
  static std::string Content(const std::string& path) {
    std::string real(4096, '\0');
    if (realpath(path.c_str(), real.data()) == nullptr) return "(none)";
    const auto content = platform::ReadFile(real.c_str());
    return content.ok() ? *content : "(unreadable)";
  }

  const platform::TempFolder folder_;
  FakeHost host_{folder_ / "kubelet"};
  const std::vector<std::unique_ptr<VolumePlugin>> plugins_ = NewLocalPlugins(host_);
  api::Pod pod_{Json::parse(R"({
      "metadata": {"namespace": "shop", "name": "web", "uid": "u-1", "labels": {"app": "web"}},
      "spec": {"serviceAccountName": "seller", "containers": [{"name": "main"}]}})")};
};

TEST_F(LocalPluginsTest, NeedNeitherDeviceNorAttachment) {
  for (const auto& plugin : plugins_) {
    const VolumeSpec spec = Spec(R"({"emptyDir": {}})");
    EXPECT_EQ(*plugin->DeviceName(spec), std::nullopt);
    EXPECT_FALSE(*plugin->NeedsAttach(spec));
    EXPECT_EQ(plugin->Expand({}, spec, 1).code(), StatusCode::kUnimplemented);
  }
}

TEST_F(LocalPluginsTest, EmptyDirIsAFolderForEveryone) {
  const auto published = Publish(R"({"emptyDir": {}})");
  ASSERT_TRUE(published.ok()) << base::ToString(published.status());
  EXPECT_EQ(published->path, folder_ / "kubelet/pods/u-1/volumes/kubernetes.io~empty-dir/vol");
  EXPECT_FALSE(published->read_only);
  struct stat st;
  ASSERT_EQ(stat(published->path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0777u);
  EXPECT_THAT(host_.fake_mounter().requests(), IsEmpty());
}

TEST_F(LocalPluginsTest, EmptyDirKeepsItsContentWhenSetUpAgainAndLosesItAtTheEnd) {
  const auto published = Publish(R"({"emptyDir": {}})");
  ASSERT_TRUE(platform::WriteDurably<"test.file">(published->path + "/file", "x").ok());
  ASSERT_TRUE(Publish(R"({"emptyDir": {}})").ok());
  EXPECT_EQ(Content(published->path + "/file"), "x");
  ASSERT_TRUE(Unpublish(R"({"emptyDir": {}})").ok());
  EXPECT_NE(access(published->path.c_str(), F_OK), 0);
  EXPECT_TRUE(Unpublish(R"({"emptyDir": {}})").ok());
}

TEST_F(LocalPluginsTest, EmptyDirInMemoryIsATmpfsOfItsSize) {
  const std::string source = R"({"emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}})";
  ASSERT_TRUE(Publish(source).ok());
  ASSERT_TRUE(Publish(source).ok());
  ASSERT_THAT(host_.fake_mounter().requests(), SizeIs(1));
  const platform::MountRequest request = host_.fake_mounter().requests()[0];
  EXPECT_EQ(request.fs_type, "tmpfs");
  EXPECT_THAT(request.options, Contains("size=67108864"));
  ASSERT_TRUE(Unpublish(source).ok());
  EXPECT_FALSE(host_.fake_mounter().IsMounted(request.target));
}

TEST_F(LocalPluginsTest, EmptyDirRefusesBadInput) {
  EXPECT_THAT(Error(R"({"emptyDir": {"medium": "HugePages"}})"),
              HasSubstr("emptyDir.medium 'HugePages' is not supported"));
  EXPECT_THAT(Error(R"({"emptyDir": {"medium": "Memory", "sizeLimit": "much"}})"),
              HasSubstr("emptyDir.sizeLimit"));
}

TEST_F(LocalPluginsTest, EmptyDirRefusesAForeignMount) {
  host_.fake_mounter().Add(folder_ / "kubelet/pods/u-1/volumes/kubernetes.io~empty-dir/vol");
  EXPECT_THAT(Error(R"({"emptyDir": {}})"), HasSubstr("FAILED_PRECONDITION: ext4 from"));
}

TEST_F(LocalPluginsTest, HostPathIsUsedWhereItIs) {
  const auto published = Publish(R"({"hostPath": {"path": "/no/such/thing"}})");
  ASSERT_TRUE(published.ok());
  EXPECT_EQ(published->path, "/no/such/thing");
  EXPECT_THAT(host_.fake_mounter().requests(), IsEmpty());
}

TEST_F(LocalPluginsTest, HostPathChecksItsType) {
  ASSERT_TRUE(platform::MakeFolders(folder_ / "dir").ok());
  ASSERT_TRUE(platform::WriteDurably<"test.file">(folder_ / "file", "x").ok());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {.sun_family = AF_UNIX};
  (folder_ / "socket").copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  close(fd);
  const auto result = [&](const std::string& path, const std::string& type) {
    return Error(Json{{"hostPath", {{"path", path}, {"type", type}}}}.dump());
  };
  const auto refusal = [](const std::string& path, const std::string& what) {
    return "FAILED_PRECONDITION: hostPath type check failed: " + path + " is not a " + what;
  };
  const std::string dir = folder_ / "dir", file = folder_ / "file", sock = folder_ / "socket",
                    none = folder_ / "none";
  EXPECT_EQ(result(dir, "Directory"), "OK");
  EXPECT_EQ(result(dir, "DirectoryOrCreate"), "OK");
  EXPECT_EQ(result(file, "Directory"), refusal(file, "directory"));
  EXPECT_EQ(result(file, "DirectoryOrCreate"), refusal(file, "directory"));
  EXPECT_EQ(result(none, "Directory"), refusal(none, "directory"));
  EXPECT_EQ(result(file, "File"), "OK");
  EXPECT_EQ(result(file, "FileOrCreate"), "OK");
  EXPECT_EQ(result(dir, "File"), refusal(dir, "file"));
  EXPECT_EQ(result(none, "File"), refusal(none, "file"));
  EXPECT_EQ(result(sock, "Socket"), "OK");
  EXPECT_EQ(result(file, "Socket"), refusal(file, "socket file"));
  EXPECT_EQ(result("/dev/null", "CharDevice"), "OK");
  EXPECT_EQ(result(file, "CharDevice"), refusal(file, "character device"));
  EXPECT_EQ(result("/dev/null", "BlockDevice"), refusal("/dev/null", "block device"));
  EXPECT_EQ(result(dir, "Folder"), "INVALID_ARGUMENT: Folder is an invalid volume type");
}

TEST_F(LocalPluginsTest, HostPathMakesWhatItIsAskedTo) {
  const std::string dir = folder_ / "made/dir", file = folder_ / "made/file";
  ASSERT_TRUE(
      Publish(Json{{"hostPath", {{"path", dir}, {"type", "DirectoryOrCreate"}}}}.dump()).ok());
  ASSERT_TRUE(Publish(Json{{"hostPath", {{"path", file}, {"type", "FileOrCreate"}}}}.dump()).ok());
  struct stat st;
  ASSERT_EQ(stat(dir.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode, S_IFDIR | 0755u);
  ASSERT_EQ(stat(file.c_str(), &st), 0);
  EXPECT_TRUE(S_ISREG(st.st_mode));
  // They belong to the host and stay.
  ASSERT_TRUE(Unpublish(Json{{"hostPath", {{"path", dir}}}}.dump()).ok());
  EXPECT_EQ(access(dir.c_str(), F_OK), 0);
}

TEST_F(LocalPluginsTest, HostPathRefusesBackSteps) {
  EXPECT_THAT(Error(R"({"hostPath": {"path": "/var/../etc"}})"),
              HasSubstr("must not contain '..'"));
  EXPECT_THAT(Error(R"({"hostPath": {"path": "/var/.."}})"), HasSubstr("must not contain '..'"));
  EXPECT_THAT(Error(R"({"hostPath": {"path": "var"}})"), HasSubstr("is not absolute"));
}

TEST_F(LocalPluginsTest, HostPathServesPersistentVolumesToo) {
  VolumeSpec spec = Spec(R"({"persistentVolumeClaim": {"claimName": "c"}})");
  spec.pv = std::make_shared<api::PersistentVolume>(
      Json::parse(R"({"metadata": {"name": "pv"}, "spec": {"hostPath": {"path": "/srv/data"}}})"));
  EXPECT_EQ(PluginFor(spec).SetUp(pod_, spec, {})->path, "/srv/data");
}

TEST_F(LocalPluginsTest, ConfigMapFollowsItsObject) {
  const std::string source = R"({"configMap": {"name": "settings"}})";
  EXPECT_TRUE(PluginFor(Spec(source)).RefreshesContent());
  const auto published = Publish(source);
  ASSERT_TRUE(published.ok()) << base::ToString(published.status());
  EXPECT_EQ(published->path, folder_ / "kubelet/pods/u-1/volumes/kubernetes.io~configmap/vol");
  EXPECT_TRUE(published->read_only);
  EXPECT_EQ(Content(published->path + "/colour"), "blue");
  host_.Put(api::kinds::kConfigMap, Json::parse(R"({
      "metadata": {"namespace": "shop", "name": "settings"}, "data": {"colour": "red"}})"));
  ASSERT_TRUE(Publish(source).ok());
  EXPECT_EQ(Content(published->path + "/colour"), "red");
  host_.Remove(api::kinds::kConfigMap, "shop", "settings");
  EXPECT_EQ(Error(source), "NOT_FOUND: configmap \"settings\" not found");
  EXPECT_EQ(Content(published->path + "/colour"), "red");
  ASSERT_TRUE(Unpublish(source).ok());
  EXPECT_NE(access(published->path.c_str(), F_OK), 0);
}

TEST_F(LocalPluginsTest, ConfigMapThatIsMissingLeavesNoFolder) {
  EXPECT_FALSE(Publish(R"({"configMap": {"name": "none"}})").ok());
  EXPECT_NE(access((folder_ / "kubelet/pods/u-1").c_str(), F_OK), 0);
}

TEST_F(LocalPluginsTest, SecretStaysInMemory) {
  const auto published = Publish(R"({"secret": {"secretName": "keys", "defaultMode": 256}})");
  ASSERT_TRUE(published.ok()) << base::ToString(published.status());
  EXPECT_EQ(Content(published->path + "/password"), "hunter2");
  struct stat st;
  ASSERT_EQ(stat((published->path + "/password").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0400u);
  ASSERT_THAT(host_.fake_mounter().requests(), SizeIs(1));
  EXPECT_EQ(host_.fake_mounter().requests()[0].fs_type, "tmpfs");
  EXPECT_EQ(host_.fake_mounter().requests()[0].target, published->path);
  EXPECT_THAT(host_.fake_mounter().requests()[0].options, Contains("noswap"));
}

TEST_F(LocalPluginsTest, DownwardApiTellsAboutThePod) {
  const auto published = Publish(
      R"({"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                                    {"path": "who", "fieldRef": {"fieldPath": "metadata.name"}}]}})");
  ASSERT_TRUE(published.ok()) << base::ToString(published.status());
  EXPECT_EQ(Content(published->path + "/labels"), "app=\"web\"");
  EXPECT_EQ(Content(published->path + "/who"), "web");
}

constexpr const char* kProjected = R"({"projected": {"sources": [
    {"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 3600}},
    {"configMap": {"name": "settings", "items": [{"key": "colour", "path": "etc/colour"}]}},
    {"secret": {"name": "keys"}},
    {"downwardAPI": {"items": [{"path": "ns", "fieldRef": {"fieldPath": "metadata.namespace"}}]}}
  ]}})";

TEST_F(LocalPluginsTest, ProjectedJoinsItsSources) {
  const auto published = Publish(kProjected);
  ASSERT_TRUE(published.ok()) << base::ToString(published.status());
  EXPECT_EQ(Content(published->path + "/token"), "token-of-shop/seller-1");
  EXPECT_EQ(Content(published->path + "/etc/colour"), "blue");
  EXPECT_EQ(Content(published->path + "/password"), "hunter2");
  EXPECT_EQ(Content(published->path + "/ns"), "shop");
  ASSERT_THAT(host_.token_requests(), SizeIs(1));
  const Json spec = host_.token_requests()[0]["spec"];
  EXPECT_EQ(spec["audiences"], Json::array({"vault"}));
  EXPECT_EQ(spec["expirationSeconds"], 3600);
  EXPECT_EQ(spec["boundObjectRef"]["uid"], "u-1");
  EXPECT_EQ(spec["boundObjectRef"]["kind"], "Pod");
}

TEST_F(LocalPluginsTest, ATokenIsRenewedBeforeItEndsAndNotSooner) {
  const auto published = Publish(kProjected);
  const std::string path = published->path + "/token";
  host_.fake_clock().Advance(std::chrono::minutes(47));
  ASSERT_TRUE(Publish(kProjected).ok());
  EXPECT_EQ(Content(path), "token-of-shop/seller-1");
  host_.fake_clock().Advance(std::chrono::minutes(2));  // 49 of 60
  ASSERT_TRUE(Publish(kProjected).ok());
  EXPECT_EQ(Content(path), "token-of-shop/seller-2");
}

TEST_F(LocalPluginsTest, ATokenServesToItsEndWhileTheApiIsAway) {
  const std::string source =
      R"({"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}})";
  ASSERT_TRUE(Publish(source).ok());
  host_.FailApi(base::Error(StatusCode::kUnavailable, "connection refused"));
  host_.fake_clock().Advance(std::chrono::minutes(55));
  EXPECT_TRUE(Publish(source).ok());
  host_.fake_clock().Advance(std::chrono::minutes(6));
  EXPECT_THAT(Error(source), HasSubstr("UNAVAILABLE: projected volume: token: connection refused"));
}

TEST_F(LocalPluginsTest, AnotherPodOfTheNameGetsItsOwnToken) {
  ASSERT_TRUE(Publish(kProjected).ok());
  ASSERT_TRUE(Unpublish(kProjected).ok());
  pod_.Set({"metadata", "uid"}, "u-2");
  const auto published = Publish(kProjected);
  EXPECT_EQ(Content(published->path + "/token"), "token-of-shop/seller-2");
}

TEST_F(LocalPluginsTest, ProjectedNamesASourceItDoesNotKnow) {
  EXPECT_THAT(Error(R"({"projected": {"sources": [{"clusterTrustBundle": {"path": "x"}}]}})"),
              HasSubstr("INVALID_ARGUMENT: projected volume: a source is none of"));
}

// The agent holds a volume's files in memory, and a short pod spec can name one ConfigMap often.
TEST_F(LocalPluginsTest, AVolumeThatShowsOneConfigMapOverAndOverIsRefused) {
  host_.Put(api::kinds::kConfigMap, Json{{"metadata", {{"namespace", "shop"}, {"name", "big"}}},
                                         {"data", {{"k", std::string(1 << 20, 'x')}}}});
  Json items = Json::array();
  Json sources = Json::array();
  for (int i = 0; i < 17; ++i) {
    items.push_back({{"key", "k"}, {"path", fmt::format("f{}", i)}});
    sources.push_back({{"configMap", {{"name", "big"}, {"items", {items.back()}}}}});
  }
  for (const Json& volume : {Json{{"configMap", {{"name", "big"}, {"items", items}}}},
                             Json{{"projected", {{"sources", sources}}}}}) {
    EXPECT_THAT(Error(volume.dump()),
                AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("at most 16777216 bytes")));
  }
  sources.erase(0);
  EXPECT_TRUE(Publish(Json{{"projected", {{"sources", sources}}}}.dump()).ok());
}

TEST_F(LocalPluginsTest, AFileBelowAnotherFileIsRefused) {
  for (const char* items :
       {R"({"key": "colour", "path": "z"}, {"key": "colour", "path": "z/b"})",
        R"({"key": "colour", "path": "z/b"}, {"key": "colour", "path": "z"})"}) {
    EXPECT_THAT(
        Error(fmt::format(R"({{"configMap": {{"name": "settings", "items": [{}]}}}})", items)),
        HasSubstr("INVALID_ARGUMENT: path"));
  }
}

TEST_F(LocalPluginsTest, CountsWhatAVolumeTakes) {
  const VolumeSpec spec = Spec(R"({"emptyDir": {}})");
  const auto published = Publish(R"({"emptyDir": {}})");
  ASSERT_TRUE(
      platform::WriteDurably<"test.file">(published->path + "/file", std::string(1 << 20, 'x'))
          .ok());
  VolumePlugin& plugin = PluginFor(spec);
  const auto stats = plugin.GetStats({.pod_uid = "u-1", .folder_name = "vol"});
  ASSERT_TRUE(stats.ok()) << base::ToString(stats.status());
  EXPECT_GE(stats->used_bytes, 1 << 20);
  EXPECT_LT(stats->used_bytes, 2 << 20);
  EXPECT_EQ(stats->used_inodes, 2);
  EXPECT_GT(stats->total_bytes, stats->used_bytes);
}

}  // namespace
}  // namespace berth::volume
