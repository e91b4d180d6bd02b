#include "volume/remote/rbd.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <map>

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

constexpr std::string_view kKey = "AQBzZWNyZXQ=";

class RbdTest : public DiskTest {
 protected:
  RbdTest() {
    host_.Put(api::kinds::kSecret, Json::parse(R"({
        "metadata": {"namespace": "shop", "name": "ceph"}, "data": {"key": "QVFCelpXTnlaWFE9"}})"));
    host_.fake_exec().SetAnswer([this](const platform::Command& command) { return Run(command); });
  }
  static Json Source(const Json& more = {}) {
    Json source = {{"rbd",
                    {{"monitors", {"10.0.0.7:6789", "10.0.0.5:6789"}},
                     {"image", "data"},
                     {"pool", "kube"},
                     {"user", "shop"},
                     {"secretRef", {{"name", "ceph"}}}}}};
    if (!more.is_null()) source.merge_patch(more);
    return source;
  }

  // The utilities' double: one kernel, whose devices are files of the test.
  StatusOr<platform::CommandResult> Run(const platform::Command& command) {
    const std::vector<std::string>& argv = command.argv;
    if (argv[0] == "modprobe") return platform::CommandResult();
    if (argv[0].starts_with("mkfs")) {
      formatted_.push_back(argv.back());
      return platform::CommandResult();
    }
    if (argv[0] != "rbd") return platform::CommandResult();
    if (!has_rbd_) return base::Error(StatusCode::kNotFound, "no program 'rbd'");
    const std::string what = argv[1] == "device" ? argv[2] : argv[1];
    if (what == "list") {
      Json list = Json::array();
      for (const auto& [device, image] : mapped_) {
        list.push_back({{"id", "0"},
                        {"pool", "kube"},
                        {"namespace", ""},
                        {"name", image},
                        {"snap", "-"},
                        {"device", device}});
      }
      return platform::CommandResult{.out = list.dump()};
    }
    if (what == "info") return platform::CommandResult{.out = info_};
    if (what == "status") {
      return platform::CommandResult{.out = mapped_.empty() ? status_ : status_when_mapped_};
    }
    if (what == "map") {
      const std::string device = "/dev/rbd7";
      mapped_[device] = "data";
      if (cut_off_) return base::Error(StatusCode::kUnavailable, "cut off");
      return platform::CommandResult{.out = device + "\n"};
    }
    if (what == "unmap") {
      if (mapped_.erase(argv.back()) == 0) return platform::CommandResult{.exit_code = 22};
      return platform::CommandResult();
    }
    return platform::CommandResult{.exit_code = 1, .err = "unknown"};
  }
  Status Mount(const VolumeSpec& spec) { return plugin_.MountDevice(pod_, spec, {}); }

  RbdPlugin plugin_{host_};
  std::map<std::string, std::string> mapped_;  // device → image
  std::vector<std::string> formatted_;
  std::string info_ = R"({"features": ["layering", "exclusive-lock"]})";
  std::string status_ = R"({"watchers": []})";
  std::string status_when_mapped_ = status_;
  bool has_rbd_ = true;
  bool cut_off_ = false;  // `map` maps, and its answer is lost
};

// /dev/rbd7 does not exist on this machine, so a raw volume's map ends at the wait for the device.
// The file system's steps are tested with real devices (disk_plugin_root_test.cc).
class MappedRbdTest : public RbdTest {
 protected:
  MappedRbdTest() { host_.End(); }  // so that nothing waits for a device
};

TEST_F(MappedRbdTest, MapsTheImageWithTheFieldsOfTheSource) {
  const VolumeSpec spec = Spec(Source());
  EXPECT_EQ(**plugin_.DeviceName(spec),
            "kubernetes.io/rbd/shop/10.0.0.5:6789,10.0.0.7:6789:kube/data");
  const Status mounted = Mount(spec);
  EXPECT_EQ(mounted.code(), StatusCode::kUnavailable);
  EXPECT_THAT(base::Message(mounted), HasSubstr("no such block device has appeared on the host"));
  constexpr std::string_view kUser =
      "--pool=kube --image=data -m 10.0.0.7:6789,10.0.0.5:6789 --id shop --keyring {keyring} "
      "--client_mount_timeout=9 --rados_osd_op_timeout=9";
  EXPECT_THAT(
      Lines(),
      ElementsAre("rbd device list --format json", fmt::format("rbd info --format json {}", kUser),
                  fmt::format("rbd status --format json {}", kUser), "modprobe rbd",
                  fmt::format("rbd device map --options noudev --exclusive {}", kUser)));
  for (const platform::Command& command : host_.fake_exec().commands()) {
    EXPECT_THAT(command.argv, Not(Contains(HasSubstr(kKey))));
    EXPECT_THAT(command.env, Not(Contains(HasSubstr(kKey))));
  }
  const platform::Command map = host_.fake_exec().commands().back();
  ASSERT_THAT(map.secrets, SizeIs(1));
  EXPECT_EQ(map.secrets[0].content, fmt::format("[client.shop]\nkey = {}\n", kKey));
}

TEST_F(MappedRbdTest, APersistentVolumeMayUseTheKeyringOfTheNode) {
  const VolumeSpec spec = Spec(
      Source({{"rbd", {{"secretRef", nullptr}, {"keyring", "/etc/ceph/k"}, {"readOnly", true}}}}),
      "pv-1");
  EXPECT_FALSE(Mount(spec).ok());
  const platform::Command map = host_.fake_exec().commands().back();
  EXPECT_THAT(map.secrets, IsEmpty());
  EXPECT_THAT(Lines().back(), HasSubstr("rbd device map --options noudev --read-only"));
  EXPECT_THAT(Lines().back(), HasSubstr("--keyring /etc/ceph/k"));
}

TEST_F(MappedRbdTest, AnImageThatAnotherClientWatchesIsNotMapped) {
  status_ = R"({"watchers": [{"address": "10.0.0.9:0/77", "client": 4, "cookie": 1}]})";
  const Status refused = Mount(Spec(Source()));
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(refused),
              HasSubstr("image kube/data is still in use by the client at 10.0.0.9:0/77"));
  EXPECT_THAT(mapped_, IsEmpty());
  // Readers alone may share it.
  EXPECT_FALSE(
      Mount(
          Spec(Source({{"accessModes", {"ReadOnlyMany"}}, {"rbd", {{"readOnly", true}}}}), "pv-1"))
          .ok());
  EXPECT_THAT(mapped_, SizeIs(1));
}

TEST_F(MappedRbdTest, AMapWhoseAnswerWasLostIsUndoneAndMadeAgain) {
  const VolumeSpec spec = Spec(Source());
  cut_off_ = true;
  EXPECT_EQ(Mount(spec).code(), StatusCode::kUnavailable);
  EXPECT_THAT(mapped_, SizeIs(1));
  cut_off_ = false;
  EXPECT_FALSE(Mount(spec).ok());
  EXPECT_THAT(Lines(), Contains("rbd device unmap --options noudev /dev/rbd7"));
  EXPECT_THAT(mapped_, SizeIs(1));
  // From now on the mark knows the device.
  EXPECT_FALSE(Mount(spec).ok());
  EXPECT_THAT(Lines(), Contains("rbd device unmap --options noudev /dev/rbd7").Times(1));
  EXPECT_EQ(Lines().back(), "rbd device list --format json");
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, spec)));
  EXPECT_THAT(mapped_, IsEmpty());
  EXPECT_THAT(plugin_.FindOnNode()->devices, IsEmpty());
}

// Another driver on this node may have the image mapped, and a pod may name it without a key.
TEST_F(MappedRbdTest, ADeviceThatOthersMappedStays) {
  mapped_["/dev/rbd3"] = "data";
  info_ = "not JSON";
  const VolumeSpec spec = Spec(Source());
  EXPECT_FALSE(Mount(spec).ok());
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, spec)));
  EXPECT_THAT(mapped_, SizeIs(1));
  info_ = R"({"features": ["layering", "exclusive-lock"]})";
  cut_off_ = true;
  EXPECT_FALSE(Mount(spec).ok());
  EXPECT_THAT(mapped_, SizeIs(2));
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, spec)));
  EXPECT_THAT(mapped_, ElementsAre(std::pair<const std::string, std::string>("/dev/rbd3", "data")));
}

TEST_F(MappedRbdTest, AnImageWithoutTheLockThatTwoOpenAtOnceIsUnmapped) {
  info_ = R"({"features": ["layering"]})";
  status_when_mapped_ = R"({"watchers": [{"address": "10.0.0.9:0/77"}, {"address": "me"}]})";
  const VolumeSpec spec = Spec(Source());
  const Status refused = Mount(spec);
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(refused), HasSubstr("at the same time"));
  EXPECT_THAT(mapped_, IsEmpty());
}

TEST_F(MappedRbdTest, TheDeviceOfAnotherVolumeStaysMapped) {
  const VolumeSpec mine = Spec(Source());
  const VolumeSpec other = Spec(Source({{"rbd", {{"monitors", {"10.9.9.9"}}}}}));
  EXPECT_FALSE(Mount(mine).ok());
  ASSERT_THAT(mapped_, SizeIs(1));
  // The other cluster has an image of the same name, and its map fails.
  info_ = "not JSON";
  EXPECT_FALSE(Mount(other).ok());
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, other)));
  EXPECT_THAT(mapped_, SizeIs(1));
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, mine)));
  EXPECT_THAT(mapped_, IsEmpty());
}

TEST_F(MappedRbdTest, WithoutTheUtilityTheErrorSaysWhatHelpsAndThePodCanGo) {
  has_rbd_ = false;
  const VolumeSpec spec = Spec(Source());
  const Status failed = Mount(spec);
  EXPECT_EQ(failed.code(), StatusCode::kNotFound);
  EXPECT_THAT(base::Message(failed),
              HasSubstr("no rbd where it was run: install it on the node, or deploy a pod that has "
                        "it and registers for 'kubernetes.io/rbd'"));
  ASSERT_OK(plugin_.UnmountDevice(DeviceOf(plugin_, spec)));
  EXPECT_THAT(plugin_.FindOnNode()->devices, IsEmpty());
}

TEST_F(MappedRbdTest, AMappedDiskThatLostItsUtilityStaysOnRecord) {
  const VolumeSpec spec = Spec(Source(), "pv-1");
  EXPECT_FALSE(Mount(spec).ok());
  has_rbd_ = false;
  EXPECT_EQ(plugin_.UnmountDevice(DeviceOf(plugin_, spec)).code(), StatusCode::kNotFound);
  const auto found = plugin_.FindOnNode();
  ASSERT_THAT(found->devices, SizeIs(1));
  EXPECT_EQ(found->devices[0].pv_name, "pv-1");
  has_rbd_ = true;
  ASSERT_OK(plugin_.UnmountDevice(found->devices[0]));
  EXPECT_THAT(mapped_, IsEmpty());
}

TEST_F(MappedRbdTest, SaysWhichFieldIsWrongAndRunsNothing) {
  struct Case {
    Json more;
    std::string_view text;
  };
  const Case cases[] = {
      {{{"rbd", {{"monitors", Json::array()}}}}, "rbd.monitors is empty"},
      {{{"rbd", {{"monitors", {"--conf=/x"}}}}}, "rbd.monitors"},
      {{{"rbd", {{"image", "-x"}}}}, "rbd.image '-x' is not a plain name"},
      {{{"rbd", {{"image", "data@snap"}}}}, "rbd.image"},
      {{{"rbd", {{"pool", "a/b"}}}}, "rbd.pool"},
      {{{"rbd", {{"user", "a b"}}}}, "rbd.user"},
      {{{"rbd", {{"secretRef", nullptr}}}}, "rbd.secretRef is missing"},
  };
  for (const Case& one : cases) {
    const Status refused = Mount(Spec(Source(one.more)));
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << one.text;
    EXPECT_THAT(base::Message(refused), HasSubstr(one.text));
  }
  EXPECT_THAT(Lines(), IsEmpty());
  const Status gone = Mount(Spec(Source({{"rbd", {{"secretRef", {{"name", "none"}}}}}})));
  EXPECT_EQ(gone.code(), StatusCode::kNotFound);
  EXPECT_THAT(base::Message(gone), HasSubstr("Secret 'shop/none'"));
  EXPECT_THAT(mapped_, IsEmpty());
}

// A pod must not use the key with which another tenant's pod has mapped the image.
TEST_F(MappedRbdTest, VolumesOfTwoNamespacesAreTwoDisks) {
  VolumeSpec theirs = Spec(Source());
  theirs.pod_ns = "other";
  EXPECT_NE(**plugin_.DeviceName(theirs), **plugin_.DeviceName(Spec(Source())));
  // What administrators made is known by the disk alone.
  EXPECT_EQ(**plugin_.DeviceName(Spec(Source(), "pv-1")),
            **plugin_.DeviceName(Spec(Source(), "pv-2")));
}

}  // namespace
}  // namespace berth::volume
