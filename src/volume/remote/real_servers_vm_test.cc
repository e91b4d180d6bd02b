// The plugins against real servers, by the very commands that they run. Each test is run by one
// that serves: NfsTest by tests/vm, whose kernel serves 127.0.0.1:/; CephTest by
// tests/e2e/test_cephfs.py, with the monitor's address and the key of client.admin in its
// environment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/assert_ok.h"
#include "base/base64.h"
#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "volume/remote/fake_real_host.h"
#include "volume/remote/remote_plugins.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::HasSubstr;

class RealServerTest : public testing::Test {
 protected:
  void TearDown() override {
    const auto table = host_.mounter().List();
    ASSERT_TRUE(table.ok());
    for (const auto& entry : *table) {
      if (!entry.mount_point.starts_with(folder_.path())) continue;
      ADD_FAILURE() << entry.mount_point << " is left";
      host_.mounter().UnmountLazy(entry.mount_point).IgnoreError();
    }
  }
  static VolumeSpec Spec(Json source) {
    source["name"] = "vol";
    return {.name = "vol", .pod_volume = api::PodVolume(std::move(source))};
  }
  static api::Pod Pod(const std::string& uid) {
    return api::Pod(Json{{"metadata", {{"namespace", "shop"}, {"name", uid}, {"uid", uid}}},
                         {"spec", {{"securityContext", {{"fsGroup", 4242}}}}}});
  }
  VolumePlugin& PluginOf(const VolumeSpec& spec) {
    for (const auto& plugin : plugins_) {
      if (plugin->Supports(spec)) return *plugin;
    }
    abort();
  }
  StatusOr<std::string> UseVolume(const VolumeSpec& spec, const std::string& uid) {
    ASSIGN_OR_RETURN(const Published published, PluginOf(spec).SetUp(Pod(uid), spec, {}));
    return published.path;
  }
  PodVolumeRecord Record(const VolumeSpec& spec, const std::string& uid) {
    return {.plugin = std::string(PluginOf(spec).name()), .pod_uid = uid, .folder_name = "vol"};
  }
  // Once it has mounted, ceph-fuse has the mount changed by a mount(8), which keeps it busy: as the
  // agent does, the end is tried again.
  Status End(const VolumeSpec& spec, const std::string& uid) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (;;) {
      Status done = PluginOf(spec).TearDown(Record(spec, uid));
      const bool busy = done.code() == StatusCode::kFailedPrecondition;
      if (!busy || std::chrono::steady_clock::now() > deadline) return done;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  size_t Mounts() {
    const auto table = host_.mounter().List();
    return table.ok() ? table->size() : 0;
  }

  // Two pods share a volume, one of which may only read it.
  void ServesTwoPods(const Json& source) {
    const std::string type(source.begin().key());
    const VolumeSpec spec = Spec(source);
    Json read_only = source;
    read_only[type]["readOnly"] = true;
    const VolumeSpec reading = Spec(read_only);
    const size_t before = Mounts();
    const auto writer = UseVolume(spec, "u-1");
    ASSERT_OK(writer.status());
    ASSERT_OK(platform::WriteDurably<"test.file">(*writer + "/file", "data"));
    const auto reader = UseVolume(reading, "u-2");
    ASSERT_OK(reader.status());
    EXPECT_EQ(*platform::ReadFile(*reader + "/file"), "data");
    EXPECT_FALSE(platform::WriteDurably<"test.file">(*reader + "/no", "x").ok());
    EXPECT_EQ(Mounts(), before + 2);
    // Once more, as after a restart: known for what they are.
    ASSERT_OK(UseVolume(spec, "u-1").status());
    ASSERT_OK(UseVolume(reading, "u-2").status());
    EXPECT_EQ(Mounts(), before + 2);
    ASSERT_OK(PluginOf(spec).GetStats(Record(spec, "u-1")).status());
    ASSERT_OK(End(spec, "u-1"));
    EXPECT_EQ(*platform::ReadFile(*reader + "/file"), "data");
    ASSERT_OK(End(spec, "u-2"));
    EXPECT_EQ(Mounts(), before);
    EXPECT_NE(access(writer->c_str(), F_OK), 0);
    // What was written is the server's.
    const auto later = UseVolume(spec, "u-3");
    ASSERT_OK(later.status());
    EXPECT_EQ(*platform::ReadFile(*later + "/file"), "data");
    ASSERT_OK(End(spec, "u-3"));
  }
  // A mount that the server refuses leaves nothing.
  void Refuses(const VolumeSpec& spec, std::string_view why) {
    const size_t before = Mounts();
    const auto refused = UseVolume(spec, "u-9");
    EXPECT_FALSE(refused.ok());
    EXPECT_THAT(base::Message(refused.status()), HasSubstr(why));
    EXPECT_EQ(Mounts(), before);
    ASSERT_OK(End(spec, "u-9"));
  }

  const platform::TempFolder folder_;
  RealHost host_{folder_ / "kubelet"};
  const std::vector<std::unique_ptr<VolumePlugin>> plugins_ = NewRemotePlugins(host_);
};

class NfsTest : public RealServerTest {};

TEST_F(NfsTest, AnExportServesPods) {
  ServesTwoPods({{"nfs", {{"server", "127.0.0.1"}, {"path", "/"}}}});
}

TEST_F(NfsTest, AFolderThatIsNotExportedIsRefused) {
  Refuses(Spec({{"nfs", {{"server", "127.0.0.1"}, {"path", "/none"}}}}),
          "mount volume 'vol': mount exited with 32");
}

class CephTest : public RealServerTest {
 protected:
  CephTest() {
    PutKey("ceph", getenv("BERTH_CEPH_KEY"));
    PutKey("wrong", "AQBXcm9uZwAAABAAAAAAAAAAAAAAAAAAAAAAAA==");
  }
  void PutKey(const std::string& name, std::string_view key) {
    host_.Put(api::kinds::kSecret, {{"metadata", {{"namespace", "shop"}, {"name", name}}},
                                    {"data", {{"key", base::EncodeBase64(key)}}}});
  }
  static Json Source(const std::string& secret) {
    return {{"cephfs",
             {{"monitors", {getenv("BERTH_CEPH_MONITOR")}}, {"secretRef", {{"name", secret}}}}}};
  }
};

TEST_F(CephTest, AFileSystemServesPods) {
  ServesTwoPods(Source("ceph"));
  // A folder in it, as another volume.
  const VolumeSpec all = Spec(Source("ceph"));
  const auto root = UseVolume(all, "u-1");
  ASSERT_OK(root.status());
  ASSERT_OK(platform::MakeFolders(*root + "/sub"));
  ASSERT_OK(platform::WriteDurably<"test.file">(*root + "/sub/inner", "x"));
  Json below = Source("ceph");
  below["cephfs"]["path"] = "/sub";
  const VolumeSpec sub = Spec(below);
  // A mount at the place of another volume does not count as that volume.
  EXPECT_EQ(UseVolume(sub, "u-1").status().code(), StatusCode::kFailedPrecondition);
  const auto inner = UseVolume(sub, "u-2");
  ASSERT_OK(inner.status());
  EXPECT_EQ(*platform::ReadFile(*inner + "/inner"), "x");
  ASSERT_OK(End(sub, "u-2"));
  ASSERT_OK(End(all, "u-1"));
}

TEST_F(CephTest, AWrongKeyIsRefused) { Refuses(Spec(Source("wrong")), "ceph-fuse exited with"); }

}  // namespace
}  // namespace berth::volume
