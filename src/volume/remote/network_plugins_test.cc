#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "platform/files/durable_file.h"
#include "platform/files/fake_temp_folder.h"
#include "volume/fake_host.h"
#include "volume/remote/remote_plugins.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class NetworkPluginsTest : public testing::Test {
 protected:
  NetworkPluginsTest() {
    host_.Put(api::kinds::kEndpoints, Json::parse(R"({
        "metadata": {"namespace": "shop", "name": "servers"}, "subsets": [
          {"addresses": [{"ip": "10.0.0.7"}, {"ip": "10.0.0.8"}],
           "notReadyAddresses": [{"ip": "10.0.0.66"}], "ports": [{"port": 1}]},
          {"addresses": [{"ip": "fd00::9"}, {"ip": "10.0.0.7"}]}]})"));
    host_.Put(api::kinds::kEndpoints, Json::parse(R"({
        "metadata": {"namespace": "stores", "name": "servers"},
        "subsets": [{"addresses": [{"ip": "fd00::7"}]}]})"));
    host_.Put(api::kinds::kEndpoints, Json::parse(R"({
        "metadata": {"namespace": "shop", "name": "unready"},
        "subsets": [{"notReadyAddresses": [{"ip": "10.0.0.66"}]}]})"));
    // "AQBzZWNyZXQ=" and a line's end, as echo leaves it.
    host_.Put(api::kinds::kSecret, Json::parse(R"({
        "metadata": {"namespace": "shop", "name": "ceph"},
        "data": {"key": "QVFCelpXTnlaWFE9Cg==", "user": "eA=="}})"));
    host_.Put(api::kinds::kSecret, Json::parse(R"({
        "metadata": {"namespace": "vault", "name": "ceph"}, "data": {"any": "QVFCdmF1bHQ9"}})"));
    host_.Put(api::kinds::kSecret, Json::parse(R"({
        "metadata": {"namespace": "shop", "name": "two"}, "data": {"a": "eA==", "b": "eA=="}})"));
    // "AA==\nkey = other"
    host_.Put(api::kinds::kSecret, Json::parse(R"({
        "metadata": {"namespace": "shop", "name": "lines"},
        "data": {"key": "QUE9PQprZXkgPSBvdGhlcg=="}})"));
  }
  VolumePlugin& PluginOf(const VolumeSpec& spec) {
    for (const auto& plugin : plugins_) {
      if (plugin->Supports(spec)) return *plugin;
    }
    ADD_FAILURE() << "no plugin for the volume";
    abort();
  }
  // Makes the spec of a pod's volume, or with `pv` that of a PersistentVolume.
  static VolumeSpec Spec(std::string_view source, bool pv = false) {
    Json json = Json::parse(source);
    if (!pv) {
      json["name"] = "vol";
      return {.name = "vol", .pod_volume = api::PodVolume(json)};
    }
    return {.name = "vol",
            .pod_volume = api::PodVolume(
                Json{{"name", "vol"}, {"persistentVolumeClaim", {{"claimName", "c"}}}}),
            .pv = std::make_shared<api::PersistentVolume>(
                Json{{"metadata", {{"name", "pv-1"}}}, {"spec", json}})};
  }
  PodVolumeRecord Record(const VolumeSpec& spec) {
    return {.plugin = std::string(PluginOf(spec).name()),
            .pod_uid = "u-1",
            .folder_name = spec.folder_name(),
            .state = Json::object()};
  }
  StatusOr<Published> Publish(const VolumeSpec& spec) {
    return PluginOf(spec).SetUp(pod_, spec, {});
  }
  std::string Target(const VolumeSpec& spec) {
    return host_.paths().PodVolume(api::PodUid("u-1"), PluginOf(spec).name(),
                                   api::VolumeName(spec.folder_name()));
  }
  // What is run for the last mount, with the target and the kubelet's folder as T and K.
  std::string LastCommand(const VolumeSpec& spec) {
    const auto argv = MakeHelperCommand(host_.fake_helper_mounts().mounts().back()).argv;
    std::string line = fmt::format("{}", fmt::join(argv, " "));
    for (const auto& [text, letter] : {std::pair(Target(spec), "T"), std::pair(kubelet_, "K")}) {
      for (size_t at; (at = line.find(text)) != std::string::npos;) {
        line.replace(at, text.size(), letter);
      }
    }
    return line;
  }

  const platform::TempFolder folder_;
  const std::string kubelet_ = folder_ / "kubelet";
  FakeHost host_{kubelet_};
  const std::vector<std::unique_ptr<VolumePlugin>> plugins_ = NewRemotePlugins(host_);
  api::Pod pod_{Json::parse(R"({
      "metadata": {"namespace": "shop", "name": "web", "uid": "u-1"},
      "spec": {"securityContext": {"fsGroup": 4242}}})")};
};

struct Case {
  bool pv;
  std::string_view source;
  std::string_view text;  // the command, or what an error says
  StatusCode code = StatusCode::kOk;
};

TEST_F(NetworkPluginsTest, MountsWhatTheSourceSays) {
  const Case cases[] = {
      {false, R"({"nfs": {"server": "nas", "path": "/data"}})", "mount -t nfs nas:/data T"},
      {false, R"({"nfs": {"server": "nas", "path": "/a b", "readOnly": true}})",
       "mount -t nfs -o ro nas:/a b T"},
      {false, R"({"nfs": {"server": "fd00::7", "path": "/"}})", "mount -t nfs [fd00::7]:/ T"},
      {true, R"({"nfs": {"server": "[fd00::7]", "path": "/d", "readOnly": true},
                 "mountOptions": ["vers=4.2", "ro", "hard"]})",
       "mount -t nfs -o ro,vers=4.2,hard [fd00::7]:/d T"},

      {false, R"({"glusterfs": {"endpoints": "servers", "path": "scratch"}})",
       "mount -t glusterfs -o log-file=K/plugins/kubernetes.io/glusterfs/vol/u-1-glusterfs.log,"
       "log-level=ERROR,backup-volfile-servers=10.0.0.7:10.0.0.8:[fd00::9] 10.0.0.7:scratch T"},
      {true, R"({"glusterfs": {"endpoints": "servers", "path": "/scratch/sub", "readOnly": true},
                 "mountOptions": ["log-level=INFO", "log-file=/var/log/g"]})",
       "mount -t glusterfs -o ro,log-level=INFO,log-file=/var/log/g,"
       "backup-volfile-servers=10.0.0.7:10.0.0.8:[fd00::9] 10.0.0.7:/scratch/sub T"},
      {true, R"({"glusterfs": {"endpoints": "servers", "endpointsNamespace": "stores",
                               "path": "v"},
                 "mountOptions": ["backup-volfile-servers=spare"]})",
       "mount -t glusterfs -o backup-volfile-servers=spare,"
       "log-file=K/plugins/kubernetes.io/glusterfs/pv-1/u-1-glusterfs.log,log-level=ERROR "
       "fd00::7:v T"},

      {true, R"({"cephfs": {"monitors": ["10.0.0.7:6789", "[fd00::8]:6789"]}})",
       "ceph-fuse -m 10.0.0.7:6789,[fd00::8]:6789 --id admin -k /etc/ceph/admin.secret -r / -o "
       "fsname=admin@10.0.0.7:6789;[fd00::8]:6789:/,subtype=ceph-fuse T"},
      {true, R"({"cephfs": {"monitors": ["m"], "user": "shop", "path": "a/b", "readOnly": true,
                             "secretFile": "/etc/ceph/shop.keyring"}})",
       "ceph-fuse -m m --id shop -k /etc/ceph/shop.keyring -r /a/b -o "
       "ro,fsname=shop@m:/a/b,subtype=ceph-fuse T"},
      // The Secret comes before the file.
      {true, R"({"cephfs": {"monitors": ["m"], "secretFile": "/k", "secretRef": {"name": "ceph"}},
                 "mountOptions": ["nonempty"]})",
       "ceph-fuse -m m --id admin -k {keyring} -r / -o "
       "nonempty,fsname=admin@m:/,subtype=ceph-fuse T"},
  };
  for (const Case& one : cases) {
    const VolumeSpec spec = Spec(one.source, one.pv);
    const auto published = Publish(spec);
    ASSERT_TRUE(published.ok()) << one.source << base::ToString(published.status());
    EXPECT_EQ(LastCommand(spec), one.text);
    EXPECT_EQ(host_.fake_helper_mounts().mounts().back().plugin, PluginOf(spec).name());
    EXPECT_EQ(published->path, Target(spec));
    EXPECT_EQ(published->read_only, one.source.find("\"readOnly\": true") != std::string::npos);
    ASSERT_TRUE(PluginOf(spec).TearDown(Record(spec)).ok());
    EXPECT_FALSE(host_.fake_mounter().IsMounted(Target(spec)));
    EXPECT_NE(access(Target(spec).c_str(), F_OK), 0);
  }
}

TEST_F(NetworkPluginsTest, SaysWhatIsWrongAndMountsNothing) {
  using enum StatusCode;
  const Case cases[] = {
      {false, R"({"nfs": {"server": "-oallow", "path": "/d"}})",
       "nfs.server '-oallow' is not a host's name or address", kInvalidArgument},
      {false, R"({"nfs": {"server": "a b", "path": "/d"}})", "nfs.server", kInvalidArgument},
      {false, R"({"nfs": {"server": "", "path": "/d"}})", "nfs.server", kInvalidArgument},
      {false, R"({"nfs": {"server": "a", "path": "d"}})", "nfs.path 'd' is not absolute",
       kInvalidArgument},

      {false, R"({"glusterfs": {"endpoints": "none", "path": "v"}})",
       "Endpoints 'shop/none', which list the servers of the volume, do not exist", kNotFound},
      {true, R"({"glusterfs": {"endpoints": "servers", "endpointsNamespace": "x", "path": "v"}})",
       "Endpoints 'x/servers'", kNotFound},
      {false, R"({"glusterfs": {"endpoints": "unready", "path": "v"}})",
       "Endpoints 'shop/unready' list no address that is ready", kFailedPrecondition},
      {false, R"({"glusterfs": {"endpoints": "servers", "path": "v --volfile=/x"}})",
       "glusterfs.path", kInvalidArgument},
      {false, R"({"glusterfs": {"endpoints": "servers", "path": "evil:v"}})", "glusterfs.path",
       kInvalidArgument},
      {false, R"({"glusterfs": {"endpoints": "servers", "path": "v*"}})", "glusterfs.path",
       kInvalidArgument},

      {false, R"({"cephfs": {"monitors": []}})", "cephfs.monitors is empty", kInvalidArgument},
      {false, R"({"cephfs": {"monitors": ["--conf=/x"]}})", "cephfs.monitors", kInvalidArgument},
      {false, R"({"cephfs": {"monitors": ["m"], "user": "a]\nkey = x"}})", "cephfs.user",
       kInvalidArgument},
      {false, R"({"cephfs": {"monitors": ["m"], "path": "/a,allow_root"}})", "cephfs.path",
       kInvalidArgument},
      {false, R"({"cephfs": {"monitors": ["m"], "secretRef": {"name": "none"}}})",
       "Secret 'shop/none', which has the key of Ceph user 'admin', does not exist", kNotFound},
      // An inline source has no namespace.
      {false,
       R"({"cephfs": {"monitors": ["m"], "secretRef": {"name": "v", "namespace": "vault"}}})",
       "Secret 'shop/v'", kNotFound},
      {false, R"({"cephfs": {"monitors": ["m"], "secretRef": {"name": "two"}}})",
       "Secret 'shop/two' needs an entry 'key' with the key of the Ceph user, or just one entry",
       kFailedPrecondition},
      // The node's own keys are only for whoever may make a PersistentVolume.
      {false, R"({"cephfs": {"monitors": ["m"]}})", "cephfs.secretRef", kInvalidArgument},
      {false,
       R"({"cephfs": {"monitors": ["m"], "secretFile": "/k", "secretRef": {"name": "ceph"}}})",
       "cephfs.secretFile", kInvalidArgument},
      {false, R"({"cephfs": {"monitors": ["m"], "secretRef": {"name": "lines"}}})",
       "the entry 'key' of Secret 'shop/lines' is no key of Ceph's", kFailedPrecondition},
  };
  for (const Case& one : cases) {
    const VolumeSpec spec = Spec(one.source, one.pv);
    const auto published = Publish(spec);
    EXPECT_EQ(published.status().code(), one.code) << one.source;
    EXPECT_THAT(base::Message(published.status()), HasSubstr(one.text)) << one.source;
    EXPECT_THAT(base::Message(published.status()),
                HasSubstr(fmt::format("mount volume '{}'", spec.folder_name())));
  }
  EXPECT_THAT(host_.fake_helper_mounts().mounts(), IsEmpty());
}

TEST_F(NetworkPluginsTest, SupportsWhatHasAFileSystem) {
  for (const auto& plugin : plugins_) {
    EXPECT_FALSE(plugin->Supports(Spec(R"({"emptyDir": {}})")));
    EXPECT_FALSE(plugin->Supports(Spec(R"({"csi": {"driver": "d"}})", true)));
    EXPECT_FALSE(plugin->Supports(
        Spec(R"({"nfs": {"server": "s", "path": "/"}, "volumeMode": "Block"})", true)));
  }
  // It is each pod's own mount: nothing to share, attach or grow.
  const VolumeSpec spec = Spec(R"({"nfs": {"server": "s", "path": "/"}})", true);
  EXPECT_EQ(*PluginOf(spec).DeviceName(spec), std::nullopt);
  EXPECT_FALSE(*PluginOf(spec).NeedsAttach(spec));
  EXPECT_EQ(PluginOf(spec).Expand(Record(spec), spec, 1).code(), StatusCode::kUnimplemented);
}

TEST_F(NetworkPluginsTest, AKeyIsInNoArgumentAndNoRecord) {
  constexpr std::string_view kKey = "AQBzZWNyZXQ=";
  const VolumeSpec inline_spec =
      Spec(R"({"cephfs": {"monitors": ["m"], "user": "shop", "secretRef": {"name": "ceph"}}})");
  ASSERT_TRUE(Publish(inline_spec).ok());
  const HelperMount mount = host_.fake_helper_mounts().mounts().back();
  ASSERT_THAT(mount.secrets, SizeIs(1));
  EXPECT_EQ(mount.secrets[0].content, fmt::format("[client.shop]\nkey = {}\n", kKey));
  EXPECT_THAT(MakeHelperCommand(mount).argv, Not(testing::Contains(HasSubstr(kKey))));
  EXPECT_THAT(PluginOf(inline_spec).PodState(pod_, inline_spec)->dump(), Not(HasSubstr(kKey)));

  const VolumeSpec pv = Spec(
      R"({"cephfs": {"monitors": ["m"], "secretRef": {"name": "ceph", "namespace": "vault"}}})",
      true);
  ASSERT_TRUE(Publish(pv).ok());
  EXPECT_EQ(host_.fake_helper_mounts().mounts().back().secrets[0].content,
            "[client.admin]\nkey = AQBvault=\n");
}

// After a restart, or a try that was cut off: by the mount table alone, whatever the API says now.
TEST_F(NetworkPluginsTest, WhatIsMountedAlreadyIsNotMountedAgain) {
  for (const std::string_view source :
       {R"({"nfs": {"server": "nas", "path": "/data/"}})",
        R"({"glusterfs": {"endpoints": "servers", "path": "scratch"}})",
        R"({"cephfs": {"monitors": ["m"], "secretRef": {"name": "ceph"}}})"}) {
    const VolumeSpec spec = Spec(source);
    ASSERT_TRUE(Publish(spec).ok());
    const size_t before = host_.fake_helper_mounts().mounts().size();
    host_.FailApi(base::Error(StatusCode::kUnavailable, "the API is away"));
    EXPECT_TRUE(Publish(spec).ok());
    EXPECT_THAT(host_.fake_helper_mounts().mounts(), SizeIs(before)) << source;
    host_.FailApi(base::OkStatus());
  }
}

TEST_F(NetworkPluginsTest, AnotherMountInItsPlaceIsRefused) {
  struct Other {
    std::string_view source;
    std::string type, shown;
  };
  const Other others[] = {
      {R"({"nfs": {"server": "nas", "path": "/data"}})", "nfs4", "nas:/other"},
      {R"({"nfs": {"server": "nas", "path": "/data"}})", "ext4", "nas:/data"},
      {R"({"glusterfs": {"endpoints": "servers", "path": "v"}})", "fuse.glusterfs", "10.0.0.7:w"},
      {R"({"cephfs": {"monitors": ["m"], "path": "/a"}})", "fuse.ceph-fuse", "admin@m:/b"},
  };
  for (const Other& other : others) {
    const VolumeSpec spec = Spec(other.source);
    host_.fake_mounter().Add(Target(spec), other.type, other.shown);
    const auto published = Publish(spec);
    EXPECT_EQ(published.status().code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(base::Message(published.status()),
                HasSubstr(fmt::format("another mount ({} from '{}')", other.type, other.shown)));
    ASSERT_TRUE(PluginOf(spec).TearDown(Record(spec)).ok());
  }
  EXPECT_THAT(host_.fake_helper_mounts().mounts(), IsEmpty());
}

// Whichever server it was mounted from.
TEST_F(NetworkPluginsTest, AGlusterVolumeIsKnownByItsNameAlone) {
  const VolumeSpec spec = Spec(R"({"glusterfs": {"endpoints": "servers", "path": "v/sub"}})");
  host_.fake_mounter().Add(Target(spec), "fuse.glusterfs", "10.9.9.9:/v/sub");
  EXPECT_TRUE(Publish(spec).ok());
}

TEST_F(NetworkPluginsTest, AMissingUtilityIsNamedWithWhatHelps) {
  const VolumeSpec spec = Spec(R"({"nfs": {"server": "nas", "path": "/data"}})");
  const base::Status failures[] = {
      base::Error(StatusCode::kInternal,
                  "mount exited with 32: mount: /x: bad option; for several filesystems (e.g. nfs, "
                  "cifs) you might need a /sbin/mount.<type> helper program."),
      base::Error(StatusCode::kInternal,
                  "mount exited with 32: mount: /x: unknown filesystem type 'nfs'."),
      base::Error(StatusCode::kNotFound, "no mount in the pod"),
  };
  for (const base::Status& failure : failures) {
    host_.fake_helper_mounts().FailMount(failure);
    const auto published = Publish(spec);
    EXPECT_EQ(published.status().code(), StatusCode::kNotFound);
    EXPECT_THAT(base::Message(published.status()),
                HasSubstr("no mount.nfs where it was run: install it on the node, or deploy a pod "
                          "that has it and registers for 'kubernetes.io/nfs' (" +
                          std::string(base::Message(failure)) + ")"));
  }
  host_.fake_helper_mounts().FailMount(
      base::Error(StatusCode::kInternal, "mount exited with 32: access denied by server"));
  EXPECT_THAT(base::ToString(Publish(spec).status()), Not(HasSubstr("install it")));
}

TEST_F(NetworkPluginsTest, AFailedGlusterMountShowsTheEndOfItsLogWhichTearDownRemoves) {
  const VolumeSpec spec = Spec(R"({"glusterfs": {"endpoints": "servers", "path": "v"}})");
  host_.fake_helper_mounts().FailMount(base::Error(StatusCode::kInternal, "mount exited with 1"));
  EXPECT_THAT(base::Message(Publish(spec).status()), Not(HasSubstr("its log")));
  const std::string folder = kubelet_ + "/plugins/kubernetes.io/glusterfs/vol";
  const std::string log = folder + "/u-1-glusterfs.log";
  ASSERT_TRUE(
      platform::WriteDurably<"test.file">(log, "old\nno such volume\nshutting down\n").ok());
  EXPECT_THAT(base::Message(Publish(spec).status()),
              HasSubstr("mount exited with 1: its log ends with: no such volume\nshutting down"));
  ASSERT_TRUE(PluginOf(spec).TearDown(Record(spec)).ok());
  EXPECT_NE(access(folder.c_str(), F_OK), 0);
}

TEST_F(NetworkPluginsTest, TearDownUnmountsAllAndKeepsWhatLiesBeneath) {
  const VolumeSpec spec = Spec(R"({"nfs": {"server": "nas", "path": "/data"}})");
  ASSERT_TRUE(Publish(spec).ok());
  host_.fake_mounter().Add(Target(spec), "nfs4", "nas:/data");
  host_.fake_mounter().Fail(Target(spec), base::Error(StatusCode::kFailedPrecondition, "busy"));
  EXPECT_EQ(PluginOf(spec).TearDown(Record(spec)).code(), StatusCode::kFailedPrecondition);
  host_.fake_mounter().Fail(Target(spec), base::OkStatus());
  ASSERT_TRUE(platform::WriteDurably<"test.file">(Target(spec) + "/mine", "x").ok());
  EXPECT_EQ(PluginOf(spec).TearDown(Record(spec)).code(), StatusCode::kFailedPrecondition);
  EXPECT_FALSE(host_.fake_mounter().IsMounted(Target(spec)));
  EXPECT_EQ(*platform::ReadFile(Target(spec) + "/mine"), "x");
  ASSERT_EQ(unlink((Target(spec) + "/mine").c_str()), 0);
  EXPECT_TRUE(PluginOf(spec).TearDown(Record(spec)).ok());
  EXPECT_TRUE(PluginOf(spec).TearDown(Record(spec)).ok());
}

// A mount that died was taken away, and the record of how it was made goes with its unmount alone.
TEST_F(NetworkPluginsTest, WhatIsMountedNoMoreIsUnmountedAllTheSame) {
  for (const std::string_view source : {R"({"nfs": {"server": "nas", "path": "/data"}})",
                                        R"({"glusterfs": {"endpoints": "servers", "path": "v"}})",
                                        R"({"cephfs": {"monitors": ["m"],
                                                       "secretRef": {"name": "ceph"}}})"}) {
    const VolumeSpec spec = Spec(source);
    ASSERT_TRUE(Publish(spec).ok());
    ASSERT_TRUE(host_.fake_mounter().UnmountLazy(Target(spec)).ok());
    // While its way cannot be gone nothing is torn down, so that it will be asked for again.
    host_.fake_mounter().Fail(Target(spec), base::Error(StatusCode::kUnavailable, "no runtime"));
    EXPECT_EQ(PluginOf(spec).TearDown(Record(spec)).code(), StatusCode::kUnavailable) << source;
    EXPECT_EQ(access(Target(spec).c_str(), F_OK), 0);
    host_.fake_mounter().Fail(Target(spec), base::OkStatus());
    EXPECT_TRUE(PluginOf(spec).TearDown(Record(spec)).ok());
    EXPECT_NE(access(Target(spec).c_str(), F_OK), 0);
  }
}

TEST_F(NetworkPluginsTest, VolumesAreFoundByTheirFolders) {
  const VolumeSpec spec = Spec(R"({"nfs": {"server": "nas", "path": "/data"}})");
  ASSERT_TRUE(Publish(spec).ok());
  const auto found = PluginOf(spec).FindOnNode();
  ASSERT_TRUE(found.ok());
  EXPECT_THAT(found->devices, IsEmpty());
  ASSERT_THAT(found->pod_volumes, SizeIs(1));
  EXPECT_EQ(found->pod_volumes[0].pod_uid, "u-1");
  EXPECT_TRUE(PluginOf(spec).TearDown(found->pod_volumes[0]).ok());
  EXPECT_FALSE(host_.fake_mounter().IsMounted(Target(spec)));
}

// The node's own disk is not the volume's.
TEST_F(NetworkPluginsTest, WhatIsNotMountedHasNoUsage) {
  const VolumeSpec spec = Spec(R"({"nfs": {"server": "nas", "path": "/data"}})");
  ASSERT_TRUE(platform::MakeFolders(Target(spec)).ok());
  EXPECT_EQ(PluginOf(spec).GetStats(Record(spec)).status().code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(Publish(spec).ok());
  EXPECT_GT(PluginOf(spec).GetStats(Record(spec))->total_bytes, 0);
}

}  // namespace
}  // namespace berth::volume
