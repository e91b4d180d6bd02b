// The plugins for disks of a network with this machine's kernel and real servers, by the very
// commands that they run. tests/vm/test_disks.py runs each test with its server: IscsiDiskTest with
// a target's portal and name in $PORTAL and $TARGET, and RbdDiskTest with $MONITOR, $POOL, $IMAGE
// and a key in $KEY.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
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
using testing::IsEmpty;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class DiskVmTest : public testing::Test {
 protected:
  void PutSecret(const std::string& name, const std::map<std::string, std::string>& entries) {
    Json data = Json::object();
    for (const auto& [key, value] : entries) data[key] = base::EncodeBase64(value);
    host_.Put(api::kinds::kSecret,
              {{"metadata", {{"namespace", "shop"}, {"name", name}}}, {"data", data}});
  }
  static VolumeSpec Spec(Json source) {
    source["name"] = "vol";
    return {.name = "vol", .pod_volume = api::PodVolume(std::move(source)), .pod_ns = "shop"};
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
    RETURN_IF_ERROR(PluginOf(spec).MountDevice(Pod(uid), spec, {}));
    ASSIGN_OR_RETURN(const Published published, PluginOf(spec).SetUp(Pod(uid), spec, {}));
    return published.path;
  }
  // Ends the uses of the pods, and then the disk's. A device may be busy for a moment.
  void End(const VolumeSpec& spec, std::initializer_list<const char*> uids) {
    VolumePlugin& plugin = PluginOf(spec);
    const std::string device_name = **plugin.DeviceName(spec);
    for (const char* uid : uids) {
      ASSERT_OK(plugin.TearDown({.plugin = std::string(plugin.name()),
                                 .device_name = device_name,
                                 .pod_uid = uid,
                                 .folder_name = "vol",
                                 .state = Json::object()}));
    }
    const DeviceRecord record{.plugin = std::string(plugin.name()),
                              .device_name = device_name,
                              .pv_name = "",
                              .state = *plugin.DeviceState(spec)};
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    Status done = plugin.UnmountDevice(record);
    while (!done.ok() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      done = plugin.UnmountDevice(record);
    }
    ASSERT_OK(done);
    EXPECT_THAT(plugin.FindOnNode()->devices, IsEmpty());
  }
  // Formats a blank disk, shares it between two pods, and finds the data again after all is undone.
  void UseTwice(const VolumeSpec& spec) {
    const auto first = UseVolume(spec, "one");
    ASSERT_OK(first.status());
    ASSERT_OK(platform::WriteDurably<"test.file">(*first + "/file", "precious"));
    const auto second = UseVolume(spec, "two");
    ASSERT_OK(second.status());
    EXPECT_EQ(*platform::ReadFile(*second + "/file"), "precious");
    End(spec, {"one", "two"});
    const auto third = UseVolume(spec, "three");
    ASSERT_OK(third.status());
    EXPECT_EQ(*platform::ReadFile(*third + "/file"), "precious");
    End(spec, {"three"});
  }
  static size_t Entries(const std::string& folder) {
    std::error_code error;
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      count += entry.exists() ? 1 : 0;
    }
    return count;
  }

  const platform::TempFolder folder_;
  RealHost host_{folder_ / "kubelet"};
  const std::vector<std::unique_ptr<VolumePlugin>> plugins_ = NewRemotePlugins(host_);
};

class IscsiDiskTest : public DiskVmTest {
 protected:
  static VolumeSpec Lun(int lun, const char* secret) {
    return Spec({{"iscsi",
                  {{"targetPortal", Environment("PORTAL")},
                   {"iqn", Environment("TARGET")},
                   {"lun", lun},
                   {"fsType", "ext4"},
                   {"chapAuthSession", true},
                   {"secretRef", {{"name", secret}}}}}});
  }
};

TEST_F(IscsiDiskTest, ALunIsAVolumeBehindChap) {
  PutSecret("chap", {{"node.session.auth.username", "me"},
                     {"node.session.auth.password", "correct-horse"}});
  UseTwice(Lun(1, "chap"));
  EXPECT_EQ(Entries("/sys/class/iscsi_session"), 0U);
  EXPECT_EQ(Entries("/etc/iscsi/nodes/" + Environment("TARGET")), 0U);  // no record has the secret
}

TEST_F(IscsiDiskTest, AWrongPasswordIsToldAndNothingIsLeft) {
  PutSecret("wrong", {{"node.session.auth.username", "me"},
                      {"node.session.auth.password", "battery-staple"}});
  const VolumeSpec spec = Lun(1, "wrong");
  const auto refused = UseVolume(spec, "one");
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(base::Message(refused.status()), HasSubstr("login to target"));
  const std::string records = "/etc/iscsi/nodes/" + Environment("TARGET");
  EXPECT_EQ(Entries(records), 0U);
  // An agent that is killed during a login leaves a record, too.
  ASSERT_EQ(std::system(("iscsiadm -m node -o new -p " + Environment("PORTAL") + " -T " +
                         Environment("TARGET"))
                            .c_str()),
            0);
  EXPECT_EQ(Entries(records), 1U);
  End(spec, {});
  EXPECT_EQ(Entries(records), 0U);
  EXPECT_EQ(Entries("/sys/class/iscsi_session"), 0U);
}

TEST_F(IscsiDiskTest, ALunThatTheTargetDoesNotHaveIsTold) {
  PutSecret("chap", {{"node.session.auth.username", "me"},
                     {"node.session.auth.password", "correct-horse"}});
  const VolumeSpec spec = Lun(9, "chap");
  const auto missing = UseVolume(spec, "one");
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(base::Message(missing.status()), HasSubstr("no disk with LUN 9"));
  End(spec, {});
  EXPECT_EQ(Entries("/sys/class/iscsi_session"), 0U);
}

class RbdDiskTest : public DiskVmTest {
 protected:
  RbdDiskTest() { PutSecret("ceph", {{"key", Environment("KEY")}}); }
  static VolumeSpec Image(const std::string& image) {
    return Spec({{"rbd",
                  {{"monitors", {Environment("MONITOR")}},
                   {"pool", Environment("POOL")},
                   {"image", image},
                   {"user", Environment("CEPH_USER")},
                   {"secretRef", {{"name", "ceph"}}}}}});
  }
};

TEST_F(RbdDiskTest, AnImageIsAVolume) {
  UseTwice(Image(Environment("IMAGE")));
  EXPECT_EQ(Entries("/sys/bus/rbd/devices"), 0U);
}

TEST_F(RbdDiskTest, AnImageThatIsMissingIsTold) {
  const VolumeSpec spec = Image("none");
  const auto missing = UseVolume(spec, "one");
  EXPECT_FALSE(missing.ok());
  EXPECT_THAT(base::Message(missing.status()), HasSubstr("none"));
  EXPECT_THAT(base::Message(missing.status()), HasSubstr("No such file or directory"));
  End(spec, {});
}

}  // namespace
}  // namespace berth::volume
