#include "node/containers/container_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "node/containers/cri_labels.h"
#include "node/containers/pod_sandbox_config.h"
#include "node/pods/pod_records.h"
#include "platform/files/durable_file.h"

namespace berth::node {
namespace {

using base::Json;
using base::StatusCode;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace cri = rpc::cri;

class ContainerConfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/berth-config-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    paths_ = std::make_unique<volume::Paths>(folder_);
    mounter_ = platform::NewMounter();
    ASSERT_TRUE(platform::MakeFolders(paths_->Pod("u")).ok());
    image_.set_id("sha256:1");
  }
  void TearDown() override { EXPECT_TRUE(platform::RemoveTree(folder_).ok()); }

  static api::Pod PodOf(Json container, Json spec = Json::object()) {
    container["name"] = "c";
    container["image"] = "i:1";
    spec["containers"] = Json::array({container});
    return api::Pod(
        {{"apiVersion", "v1"},
         {"kind", "Pod"},
         {"metadata",
          {{"name", "web"}, {"namespace", "n"}, {"uid", "u"}, {"labels", {{"app", "x"}}}}},
         {"spec", spec}});
  }
  base::StatusOr<cri::ContainerConfig> Make(const api::Pod& pod, std::string processes_of = "") {
    const ContainerConfigs configs(
        *paths_, *mounter_, [](const api::KindInfo&, std::string_view, std::string_view) {
          return base::StatusOr<Json>(base::Error(StatusCode::kNotFound, "none"));
        });
    return configs.MakeConfig({.pod = pod,
                               .container = pod.containers()[0],
                               .restart_count = 3,
                               .image = image_,
                               .facts = facts_,
                               .volumes = volumes_,
                               .processes_of = std::move(processes_of)});
  }

  std::string folder_;
  std::unique_ptr<volume::Paths> paths_;
  std::unique_ptr<platform::Mounter> mounter_;
  cri::Image image_;
  PodFacts facts_;
  std::map<std::string, volume::Published> volumes_;
};

TEST_F(ContainerConfigTest, NothingIsLookedAtInAVolumeOfTheSandbox) {
  volumes_["data"] = {.path = "/not/there",
                      .deferred = volume::DeferredMount{.source = "/dev/loop1", .fs_type = "xfs"}};
  const auto config = Make(
      PodOf({{"volumeMounts", {{{"name", "data"}, {"mountPath", "/d"}, {"subPath", "a/b"}}}}}));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->mounts(0).host_path(), "/not/there/a/b");
  for (const char* path : {"../a", "/a", "a/../../b"}) {
    const auto refused = Make(
        PodOf({{"volumeMounts", {{{"name", "data"}, {"mountPath", "/d"}, {"subPath", path}}}}}));
    EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument) << path;
  }
}

TEST_F(ContainerConfigTest, CarriesWhatTheSpecSays) {
  volumes_["data"] = {.path = "/published/data"};
  volumes_["raw"] = {.path = "/dev/loop9", .block = true};
  const auto config =
      Make(PodOf({{"command", {"run", "$(A)"}},
                  {"args", {"$(B)"}},
                  {"workingDir", "/w"},
                  {"env", {{{"name", "A"}, {"value", "1"}}}},
                  {"tty", true},
                  {"volumeMounts",
                   {{{"name", "data"},
                     {"mountPath", "/d"},
                     {"readOnly", true},
                     {"mountPropagation", "HostToContainer"}}}},
                  {"volumeDevices", {{{"name", "raw"}, {"devicePath", "/dev/xvda"}}}}}));
  ASSERT_TRUE(config.ok()) << base::ToString(config.status());
  EXPECT_THAT(config->command(), ElementsAre("run", "1"));
  EXPECT_THAT(config->args(), ElementsAre("$(B)"));
  EXPECT_EQ(config->working_dir(), "/w");
  EXPECT_TRUE(config->tty());
  EXPECT_EQ(config->image().image(), "sha256:1");
  EXPECT_EQ(config->image().user_specified_image(), "i:1");
  EXPECT_EQ(config->log_path(), "c/3.log");
  EXPECT_EQ(config->annotations().at(labels::kRestartCount), "3");
  EXPECT_EQ(config->labels().at(labels::kContainerName), "c");
  EXPECT_EQ(config->mounts(0).host_path(), "/published/data");
  EXPECT_TRUE(config->mounts(0).readonly());
  EXPECT_EQ(config->mounts(0).propagation(), cri::PROPAGATION_HOST_TO_CONTAINER);
  EXPECT_EQ(config->mounts(1).container_path(), "/etc/hosts");
  EXPECT_EQ(config->mounts(2).container_path(), "/dev/termination-log");
  struct stat info{};
  ASSERT_EQ(stat(config->mounts(2).host_path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0666u);
  EXPECT_EQ(config->devices(0).host_path(), "/dev/loop9");
  EXPECT_EQ(config->devices(0).permissions(), "rwm");
}

TEST_F(ContainerConfigTest, ArgumentsThatNoProcessCanTakeAreRefused) {
  const Json env = {{{"name", "A"}, {"value", std::string(100'000, 'x')}}};
  const Json many(std::vector<std::string>(100, "$(A)"));
  for (const char* field : {"command", "args"}) {
    const auto config = Make(PodOf({{"env", env}, {field, many}}));
    EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument) << field;
    EXPECT_TRUE(Make(PodOf({{"env", env}, {field, {"$(A)", "$(A)"}}})).ok()) << field;
  }
}

// The runtime lists this path with all containers of the node, in one answer of at most 16 MiB.
TEST_F(ContainerConfigTest, ATerminationMessagePathThatIsNoPathIsRefused) {
  const auto config = Make(PodOf({{"terminationMessagePath", "/" + std::string(5000, 'x')}}));
  EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument);
}

TEST_F(ContainerConfigTest, AVolumeIsRelabelledWhereItsPluginSaysSo) {
  volumes_["ours"] = {.path = "/published/ours", .selinux_relabel = true};
  volumes_["data"] = {.path = "/published/data"};
  const auto config = Make(PodOf(
      {{"volumeMounts",
        {{{"name", "ours"}, {"mountPath", "/a"}}, {{"name", "data"}, {"mountPath", "/b"}}}}}));
  ASSERT_TRUE(config.ok()) << base::ToString(config.status());
  EXPECT_TRUE(config->mounts(0).selinux_relabel());
  EXPECT_FALSE(config->mounts(1).selinux_relabel());
}

TEST_F(ContainerConfigTest, ADeviceThatIsReadOnlyCannotBeWritten) {
  volumes_["raw"] = {.path = "/dev/loop9", .block = true, .read_only = true};
  const auto config =
      Make(PodOf({{"volumeDevices", {{{"name", "raw"}, {"devicePath", "/dev/x"}}}}}));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->devices(0).permissions(), "r");
}

TEST_F(ContainerConfigTest, RefusesAVolumeOfTheOtherMode) {
  volumes_["raw"] = {.path = "/dev/loop9", .block = true};
  EXPECT_EQ(
      Make(PodOf({{"volumeMounts", {{{"name", "raw"}, {"mountPath", "/d"}}}}})).status().code(),
      StatusCode::kInvalidArgument);
  EXPECT_EQ(
      Make(PodOf({{"volumeMounts", {{{"name", "none"}, {"mountPath", "/d"}}}}})).status().code(),
      StatusCode::kNotFound);
}

TEST_F(ContainerConfigTest, LeavesAPodsOwnHostsFileAlone) {
  volumes_["h"] = {.path = "/published/hosts"};
  const auto config =
      Make(PodOf({{"volumeMounts", {{{"name", "h"}, {"mountPath", "/etc/hosts"}}}}}));
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->mounts_size(), 2);
  EXPECT_EQ(config->mounts(0).host_path(), "/published/hosts");
}

TEST_F(ContainerConfigTest, WritesTheHostsFile) {
  const ContainerConfigs configs(*paths_, *mounter_, nullptr);
  ASSERT_TRUE(
      configs
          .WriteHosts(PodOf(Json::object(),
                            {{"hostAliases", {{{"ip", "1.2.3.4"}, {"hostnames", {"a", "b"}}}}}}),
                      {"10.0.0.1"})
          .ok());
  const auto text = platform::ReadFile(paths_->PodEtcHosts("u"));
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, HasSubstr("10.0.0.1\tweb\n"));
  EXPECT_THAT(*text, HasSubstr("1.2.3.4\ta\tb\n"));
}

TEST_F(ContainerConfigTest, AppliesTheSecurityContext) {
  const auto config = Make(PodOf(
      {{"securityContext",
        {{"runAsUser", 7},
         {"allowPrivilegeEscalation", false},
         {"readOnlyRootFilesystem", true},
         {"capabilities", {{"add", {"NET_ADMIN"}}, {"drop", {"ALL"}}}}}}},
      {{"securityContext",
        {{"runAsUser", 5}, {"runAsGroup", 6}, {"fsGroup", 100}, {"supplementalGroups", {200}}}}}));
  ASSERT_TRUE(config.ok()) << base::ToString(config.status());
  const auto& security = config->linux().security_context();
  EXPECT_EQ(security.run_as_user().value(), 7);
  EXPECT_EQ(security.run_as_group().value(), 6);
  EXPECT_THAT(security.supplemental_groups(), ElementsAre(100, 200));
  EXPECT_TRUE(security.no_new_privs());
  EXPECT_TRUE(security.readonly_rootfs());
  EXPECT_THAT(security.capabilities().add_capabilities(), ElementsAre("NET_ADMIN"));
  EXPECT_THAT(security.masked_paths(), Contains("/proc/kcore"));
  EXPECT_EQ(security.namespace_options().pid(), cri::CONTAINER);
}

TEST_F(ContainerConfigTest, AnEphemeralContainerSeesItsTargetsProcesses) {
  const auto config = Make(PodOf({}), "target-id");
  ASSERT_TRUE(config.ok()) << base::ToString(config.status());
  const auto& namespaces = config->linux().security_context().namespace_options();
  EXPECT_EQ(namespaces.pid(), cri::TARGET);
  EXPECT_EQ(namespaces.target_id(), "target-id");
}

TEST_F(ContainerConfigTest, RefusesRootWhereRootIsForbidden) {
  const Json non_root = {{"securityContext", {{"runAsNonRoot", true}}}};
  image_.mutable_uid()->set_value(0);
  EXPECT_EQ(Make(PodOf(non_root)).status().code(), StatusCode::kFailedPrecondition);
  image_.mutable_uid()->set_value(1000);
  EXPECT_TRUE(Make(PodOf(non_root)).ok());
  image_.clear_uid();
  image_.set_username("app");
  EXPECT_EQ(Make(PodOf(non_root)).status().code(), StatusCode::kFailedPrecondition);
}

TEST(SandboxConfigTest, OfAPodWithItsOwnNetwork) {
  const api::Pod pod(
      {{"metadata", {{"name", "web"}, {"namespace", "n"}, {"uid", "u"}}},
       {"spec",
        {{"containers",
          {{{"name", "c"},
            {"securityContext", {{"privileged", true}}},
            {"ports", {{{"containerPort", 80}, {"hostPort", 8080}}, {{"containerPort", 81}}}}}}},
         {"dnsConfig", {{"options", {{{"name", "ndots"}, {"value", "2"}}}}}}}}});
  const auto config =
      MakeSandboxConfig(pod, {.attempt = 2,
                              .log_folder = "/logs",
                              .resolv_conf = "# c\nnameserver 1.1.1.1\nsearch a b\noptions edns0\n",
                              .agent = "/data"});
  EXPECT_EQ(config.hostname(), "web");
  EXPECT_EQ(config.metadata().attempt(), 2u);
  EXPECT_EQ(config.log_directory(), "/logs/n_web_u");
  EXPECT_THAT(config.dns_config().servers(), ElementsAre("1.1.1.1"));
  EXPECT_THAT(config.dns_config().searches(), ElementsAre("a", "b"));
  EXPECT_THAT(config.dns_config().options(), ElementsAre("edns0", "ndots:2"));
  ASSERT_EQ(config.port_mappings_size(), 1);
  EXPECT_EQ(config.port_mappings(0).host_port(), 8080);
  EXPECT_TRUE(config.linux().security_context().privileged());
  EXPECT_EQ(config.linux().security_context().namespace_options().network(), cri::POD);
  EXPECT_EQ(config.annotations().at(labels::kAgent), "/data");
}

TEST(SandboxConfigTest, OfAPodOnTheHostsNetwork) {
  const api::Pod pod({{"metadata", {{"name", "web"}}},
                      {"spec", {{"hostNetwork", true}, {"shareProcessNamespace", true}}}});
  const auto config = MakeSandboxConfig(pod, {});
  EXPECT_EQ(config.hostname(), "");
  EXPECT_EQ(config.linux().security_context().namespace_options().network(), cri::NODE);
  EXPECT_EQ(config.linux().security_context().namespace_options().pid(), cri::POD);
}

TEST_F(ContainerConfigTest, RecordsAPodWithoutItsSecrets) {
  auto records = PodRecords::Open(folder_ + "/records");
  ASSERT_TRUE(records.ok());
  const auto pod = std::make_shared<const api::Pod>(
      PodOf({{"env", {{{"name", "PASSWORD"}, {"value", "hush"}}}},
             {"lifecycle", {{"preStop", {{"exec", {{"command", {"x"}}}}}}}}}));
  ASSERT_TRUE(
      (*records)->Write({.pod = pod, .sandbox_possible = true, .ended_phase = "Failed"}).ok());
  EXPECT_THAT(*platform::ReadFile(folder_ + "/records/u.json"), ::testing::Not(HasSubstr("hush")));
  const auto loaded = (*records)->Load();
  ASSERT_TRUE(loaded.ok());
  ASSERT_TRUE(loaded->contains("u"));
  EXPECT_TRUE(loaded->at("u").sandbox_possible);
  EXPECT_EQ(loaded->at("u").ended_phase, "Failed");
  EXPECT_EQ(loaded->at("u").pod->containers()[0].String({"lifecycle", "preStop", "exec", "command"},
                                                        "list"),
            "list");
  EXPECT_TRUE(loaded->at("u").pod->containers()[0].Has({"lifecycle", "preStop"}));
  // A damaged record stops nobody.
  ASSERT_TRUE(platform::WriteDurably<"test.file">(folder_ + "/records/v.json", "{half").ok());
  EXPECT_EQ((*records)->Load()->size(), 1u);
  ASSERT_TRUE((*records)->Remove("u").ok());
  EXPECT_TRUE((*records)->Load()->empty());
}

}  // namespace
}  // namespace berth::node
