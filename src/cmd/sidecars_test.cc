#include "cmd/sidecars.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cmd/library_gates.h"

namespace berth::cmd {
namespace {

using roles::FindRole;
using roles::ProcessOptions;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Rows = std::vector<std::pair<std::string, std::string>>;  // flag, default

// The tables of the Go programs' flags, as they stand in their documentation.
Rows With(const Rows& a, const Rows& b) {
  Rows rows = a;
  rows.insert(rows.end(), b.begin(), b.end());
  return rows;
}
const Rows kCommon = {{"version", "false"},
                      {"kubeconfig", ""},
                      {"csi-address", "/run/csi/socket"},
                      {"leader-election", "false"},
                      {"leader-election-namespace", ""},
                      {"leader-election-lease-duration", "15s"},
                      {"leader-election-renew-deadline", "10s"},
                      {"leader-election-retry-period", "5s"},
                      {"leader-election-labels", ""},
                      {"kube-api-qps", "5"},
                      {"kube-api-burst", "10"},
                      {"http-endpoint", ""},
                      {"metrics-address", ""},
                      {"metrics-path", "/metrics"},
                      {"automaxprocs", "false"},
                      {"feature-gates", ""},
                      {"v", "0"}};
const std::map<std::string, Rows> kTables = {
    {"csi-attacher", With(kCommon, {{"resync", "10m"},
                                    {"timeout", "15s"},
                                    {"retry-interval-start", "1s"},
                                    {"retry-interval-max", "5m"},
                                    {"worker-threads", "10"},
                                    {"max-entries", "0"},
                                    {"default-fstype", ""},
                                    {"reconcile-sync", "1m"},
                                    {"max-grpc-log-length", "-1"}})},
    {"csi-provisioner", With(kCommon, {{"master", ""},
                                       {"volume-name-prefix", "pvc"},
                                       {"volume-name-uuid-length", "-1"},
                                       {"retry-interval-start", "1s"},
                                       {"retry-interval-max", "5m"},
                                       {"worker-threads", "100"},
                                       {"cloning-protection-threads", "1"},
                                       {"snapshot-orphan-sweep-interval", "5m"},
                                       {"capacity-threads", "1"},
                                       {"timeout", "10s"},
                                       {"strict-topology", "false"},
                                       {"immediate-topology", "true"},
                                       {"extra-create-metadata", "false"},
                                       {"enable-pprof", "false"},
                                       {"default-fstype", ""},
                                       {"kube-api-capacity-qps", "1"},
                                       {"kube-api-capacity-burst", "5"},
                                       {"enable-capacity", "false"},
                                       {"capacity-for-immediate-binding", "false"},
                                       {"capacity-poll-interval", "1m"},
                                       {"capacity-ownerref-level", "1"},
                                       {"node-deployment", "false"},
                                       {"node-deployment-immediate-binding", "true"},
                                       {"node-deployment-base-delay", "20s"},
                                       {"node-deployment-max-delay", "60s"},
                                       {"controller-publish-readonly", "false"},
                                       {"prevent-volume-mode-conversion", "true"}})},
    {"csi-resizer", With(kCommon, {{"master", ""},
                                   {"resync-period", "10m"},
                                   {"workers", "10"},
                                   {"extra-modify-metadata", "false"},
                                   {"timeout", "10s"},
                                   {"retry-interval-start", "1s"},
                                   {"retry-interval-max", "5m"},
                                   {"handle-volume-inuse-error", "true"}})},
    {"csi-snapshotter", With(kCommon, {{"resync-period", "15m"},
                                       {"snapshot-name-prefix", "snapshot"},
                                       {"snapshot-name-uuid-length", "-1"},
                                       {"groupsnapshot-name-prefix", "groupsnapshot"},
                                       {"groupsnapshot-name-uuid-length", "-1"},
                                       {"worker-threads", "10"},
                                       {"timeout", "1m"},
                                       {"extra-create-metadata", "false"},
                                       {"retry-interval-start", "1s"},
                                       {"retry-interval-max", "5m"},
                                       {"node-deployment", "false"}})},
    {"snapshot-controller",
     {{"resync-period", "15m"},
      {"worker-threads", "10"},
      {"retry-interval-start", "1s"},
      {"retry-interval-max", "5m"},
      {"retry-crd-interval-max", "30s"},
      {"enable-distributed-snapshotting", "false"},
      {"prevent-volume-mode-conversion", "true"},
      {"http-endpoint", ""},
      {"metrics-path", "/metrics"},
      {"kubeconfig", ""},
      {"kube-api-qps", "5"},
      {"kube-api-burst", "10"},
      {"leader-election", "false"},
      {"version", "false"},
      {"v", "0"}}},
    {"csi-node-driver-registrar",
     {{"timeout", "1s"},
      {"connection-timeout", "0"},
      {"csi-address", "/run/csi/socket"},
      {"plugin-registration-path", "/registration"},
      {"kubelet-registration-path", ""},
      {"http-endpoint", ""},
      {"health-port", "0"},
      {"mode", ""},
      {"enable-pprof", "false"},
      {"version", "false"},
      {"v", "0"}}},
    {"livenessprobe",
     {{"probe-timeout", "3s"},
      {"csi-address", "/run/csi/socket"},
      {"health-port", "9808"},
      {"http-endpoint", ""},
      {"metrics-address", ""},
      {"metrics-path", "/metrics"},
      {"version", "false"},
      {"v", "0"}}},
};

const GoFlag* Find(const std::vector<GoFlag>& flags, const std::string& name) {
  const auto found = std::find_if(flags.begin(), flags.end(),
                                  [&](const GoFlag& flag) { return flag.name == name; });
  return found == flags.end() ? nullptr : &*found;
}

// A value of the flag's type, other than its default where there is one.
std::string SomeValue(const GoFlag& flag) {
  switch (flag.type) {
    case GoFlag::Type::kBool:
      return "true";
    case GoFlag::Type::kDuration:
      return "2s";
    case GoFlag::Type::kString:
      break;
    default:
      return "3";
  }
  if (flag.name.ends_with("labels")) return "a:b";
  return flag.name.ends_with("gates") ? "ReleaseLeaderElectionOnExit=true" : "x";
}

ProcessOptions DefaultsOf(std::string_view program) {
  ProcessOptions options;
  std::vector<std::string> warnings;
  const auto parsed = ParseGoFlags(ListFlags(*FindSidecar(program)), {}, options, warnings);
  EXPECT_TRUE(parsed.ok()) << program << ": " << parsed;
  EXPECT_TRUE(warnings.empty()) << program;
  return options;
}

TEST(SidecarsTest, EveryFlagOfEveryTableIsTakenWithItsDefaultOrWarnedOf) {
  setenv("NODE_NAME", "node-a", 1);  // which --node-deployment asks for
  setenv("NAMESPACE", "driver", 1);  // which --enable-capacity asks for
  for (const auto& [program, rows] : kTables) {
    const Sidecar* sidecar = FindSidecar(program);
    ASSERT_NE(sidecar, nullptr) << program;
    const std::vector<GoFlag> flags = ListFlags(*sidecar);
    for (const auto& [name, fallback] : rows) {
      const std::string where = program + " --" + name;
      const GoFlag* flag = Find(flags, name);
      ASSERT_NE(flag, nullptr) << where;
      EXPECT_EQ(flag->fallback, fallback) << where;
      EXPECT_FALSE(flag->help.empty()) << where;
      EXPECT_EQ(flag->apply == nullptr, flag->use == GoFlag::Use::kNone) << where;
      // Given, it is either taken or warned of.
      ProcessOptions options;
      std::vector<std::string> warnings;
      const auto parsed =
          ParseGoFlags(flags, {fmt::format("--{}={}", name, SomeValue(*flag))}, options, warnings);
      EXPECT_TRUE(parsed.ok()) << where << ": " << parsed;
      EXPECT_EQ(warnings.size(), flag->use == GoFlag::Use::kNone ? 1u : 0u) << where;
    }
  }
}

TEST(SidecarsTest, EachProgramIsInATableAndNamesEachFlagOnce) {
  for (const Sidecar& sidecar : AllSidecars()) {
    if (sidecar.name != "node-driver-registrar") {
      EXPECT_TRUE(kTables.contains(std::string(sidecar.name))) << sidecar.name;
    }
    std::set<std::string> names;
    for (const GoFlag& flag : ListFlags(sidecar)) {
      EXPECT_TRUE(names.insert(flag.name).second) << sidecar.name << " --" << flag.name;
    }
    if (!sidecar.on_node) {
      EXPECT_NE(FindRole(sidecar.role), nullptr) << sidecar.name;
    }
  }
  for (const auto& flags : {ControllerFlags(), NodeFlags()}) {
    std::set<std::string> names;
    for (const GoFlag& flag : flags) EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
  }
}

TEST(SidecarsTest, DefaultsReachTheControllersOptions) {
  const ProcessOptions provisioner = DefaultsOf("csi-provisioner");
  EXPECT_EQ(provisioner.settings.provisioner.workers, 100);
  EXPECT_EQ(provisioner.settings.provisioner.timeout, seconds(10));
  EXPECT_EQ(provisioner.settings.provisioner.retry_max, minutes(5));
  EXPECT_EQ(provisioner.settings.provisioner.volume_name_prefix, "pvc");
  EXPECT_TRUE(provisioner.settings.provisioner.immediate_topology);
  EXPECT_EQ(provisioner.csi_addresses, std::vector<std::string>{"/run/csi/socket"});
  EXPECT_EQ(provisioner.queries_per_second, 0) << "no throttle unless asked for";
  EXPECT_FALSE(provisioner.election.on);
  EXPECT_EQ(DefaultsOf("csi-attacher").settings.attacher.timeout, seconds(15));
  EXPECT_EQ(DefaultsOf("csi-attacher").settings.attacher.workers, 10);
  EXPECT_TRUE(DefaultsOf("csi-resizer").settings.resizer.handle_volume_inuse_error);
  EXPECT_EQ(DefaultsOf("csi-snapshotter").settings.snapshotter.timeout, minutes(1));
  EXPECT_EQ(DefaultsOf("csi-snapshotter").settings.snapshotter.node_name, "");
  EXPECT_TRUE(DefaultsOf("snapshot-controller").csi_addresses.empty());
  EXPECT_EQ(DefaultsOf("livenessprobe").health_port, 9808);
  EXPECT_EQ(DefaultsOf("livenessprobe").probe_timeout, seconds(3));
  EXPECT_EQ(DefaultsOf("node-driver-registrar").registration_timeout, seconds(1));
  EXPECT_EQ(DefaultsOf("node-driver-registrar").registration_folder, "/registration");
}

TEST(SidecarsTest, WhatAVendorsManifestGives) {
  ProcessOptions options;
  std::vector<std::string> warnings;
  const auto parsed = ParseGoFlags(
      ListFlags(*FindSidecar("csi-provisioner")),
      {"--v=5", "--csi-address=/csi/csi.sock", "--feature-gates=Topology=true",
       "--extra-create-metadata", "--leader-election=true", "--leader-election-namespace=storage",
       "--timeout=120s", "--kube-api-qps=20", "--kube-api-burst=100", "--default-fstype=ext4",
       "--kube-api-capacity-qps=2", "--kube-api-capacity-burst=9", "--http-endpoint=:8080",
       "--strict-topology=true", "--worker-threads=7"},
      options, warnings);
  ASSERT_TRUE(parsed.ok()) << parsed;
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(options.csi_addresses, std::vector<std::string>{"/csi/csi.sock"});
  EXPECT_TRUE(options.election.on);
  EXPECT_EQ(options.election.ns, "storage");
  EXPECT_EQ(options.settings.provisioner.timeout, minutes(2));
  EXPECT_EQ(options.queries_per_second, 20);
  EXPECT_EQ(options.burst, 100);
  EXPECT_EQ(options.settings.capacity_writes_per_second, 2);
  EXPECT_EQ(options.settings.capacity_burst, 9);
  EXPECT_EQ(options.settings.provisioner.default_fs_type, "ext4");
  EXPECT_TRUE(options.settings.provisioner.extra_create_metadata);
  EXPECT_TRUE(options.settings.provisioner.strict_topology);
  EXPECT_EQ(options.settings.provisioner.workers, 7);
  EXPECT_EQ(options.http_address, ":8080");
}

TEST(SidecarsTest, CapacityAndTheNodesOwnProvisioner) {
  const auto parse = [](const std::vector<std::string>& given, ProcessOptions& options) {
    std::vector<std::string> warnings;
    const auto parsed =
        ParseGoFlags(ListFlags(*FindSidecar("csi-provisioner")), given, options, warnings);
    EXPECT_TRUE(parsed.ok() || parsed.code() == base::StatusCode::kFailedPrecondition) << parsed;
    return parsed.ok() && warnings.empty();
  };
  ProcessOptions options;
  unsetenv("NAMESPACE");
  EXPECT_FALSE(parse({"--enable-capacity"}, options)) << "where are the objects?";
  EXPECT_TRUE(parse({"--enable-capacity=false"}, options));
  setenv("NAMESPACE", "driver", 1);
  EXPECT_TRUE(
      parse({"--enable-capacity", "--capacity-ownerref-level=2", "--capacity-poll-interval=30s",
             "--capacity-for-immediate-binding=true", "--snapshot-orphan-sweep-interval=0"},
            options));
  EXPECT_TRUE(options.settings.enable_capacity);
  EXPECT_EQ(options.settings.capacity.owner_level, 2);
  EXPECT_EQ(options.settings.capacity.poll_interval, seconds(30));
  EXPECT_TRUE(options.settings.capacity.immediate_binding);
  EXPECT_EQ(options.settings.provisioner.snapshot_orphan_sweep_interval, seconds(0));
  EXPECT_FALSE(options.settings.provisioner.node_deployment.enabled());

  unsetenv("NODE_NAME");
  EXPECT_FALSE(parse({"--node-deployment"}, options)) << "a node's must know its node";
  setenv("NODE_NAME", "node-a", 1);
  EXPECT_TRUE(parse({"--node-deployment", "--node-deployment-base-delay=1s"}, options));
  EXPECT_EQ(options.settings.provisioner.node_deployment.node_name, "node-a");
  EXPECT_EQ(options.settings.provisioner.node_deployment.base_delay, seconds(1));
  unsetenv("NODE_NAME");
}

TEST(SidecarsTest, GatesAreThoseOfTheProgram) {
  const auto parse = [](std::string_view program, const std::string& gates) {
    ProcessOptions options;
    std::vector<std::string> warnings;
    const auto parsed = ParseGoFlags(ListFlags(*FindSidecar(program)), {"--feature-gates=" + gates},
                                     options, warnings);
    return std::pair(parsed.ok(), options.election.release);
  };
  EXPECT_EQ(parse("csi-attacher", "ReleaseLeaderElectionOnExit=false"), std::pair(true, false));
  EXPECT_EQ(parse("csi-attacher", "ReleaseLeaderElectionOnExit=true"), std::pair(true, true));
  EXPECT_TRUE(parse("csi-resizer", "RecoverVolumeExpansionFailure=true").first);
  EXPECT_FALSE(parse("csi-attacher", "Topology=true").first);
}

// A sidecar's container would not start without them.
TEST(SidecarsTest, TheGatesOfTheLibraryAreTakenByEachProgramAndWarnedOf) {
  std::string all;
  for (const LibraryGate& gate : LibraryGates()) {
    all += fmt::format("{}={},", gate.name, gate.lock != LibraryGate::Lock::kOff);
  }
  for (const char* program : {"csi-provisioner", "csi-attacher", "csi-resizer", "csi-snapshotter",
                              "snapshot-controller"}) {
    ProcessOptions options;
    std::vector<std::string> warnings;
    const auto parsed = ParseGoFlags(ListFlags(*FindSidecar(program)), {"--feature-gates=" + all},
                                     options, warnings);
    EXPECT_TRUE(parsed.ok()) << program << ": " << parsed;
    EXPECT_EQ(warnings.size(), LibraryGates().size()) << program;
    EXPECT_THAT(warnings, testing::Contains(
                              "flag -feature-gates: WatchList=true has no effect: it is for API "
                              "servers"));
  }
}

TEST(SidecarsTest, GatesThatTheGoProgramRefusesAreRefusedWithItsWords) {
  const auto parse = [](const std::string& gates) {
    ProcessOptions options;
    std::vector<std::string> warnings;
    const auto parsed = ParseGoFlags(ListFlags(*FindSidecar("csi-resizer")),
                                     {"--feature-gates=" + gates}, options, warnings);
    return base::ToString(parsed);
  };
  constexpr char kUnknown[] = "FAILED_PRECONDITION: flag -feature-gates: unrecognized feature gate";
  EXPECT_THAT(parse("Topology=true"), HasSubstr(kUnknown)) << "of another program";
  EXPECT_THAT(parse("WatchListClient=true"), HasSubstr(kUnknown)) << "of client-go";
  EXPECT_THAT(parse("ContextualLogging=true"), HasSubstr(kUnknown)) << "of component-base/logs";
  EXPECT_THAT(parse("BtreeWatchCache=false"),
              HasSubstr("FAILED_PRECONDITION: flag -feature-gates: cannot set feature gate "
                        "BtreeWatchCache to false, feature is locked to true"));
  EXPECT_THAT(parse("SeparateCacheWatchRPC=true"),
              HasSubstr("cannot set feature gate SeparateCacheWatchRPC to true, feature is locked "
                        "to false"));
  EXPECT_THAT(parse("AnnotateFsResize=maybe"), HasSubstr("INVALID_ARGUMENT"));
}

TEST(SidecarsTest, EachGateIsObeyedOrWarnedOf) {
  ProcessOptions options;
  const auto warnings_of = [&](std::string_view program, const std::string& gates) {
    std::vector<std::string> warnings;
    const auto parsed = ParseGoFlags(ListFlags(*FindSidecar(program)), {"--feature-gates=" + gates},
                                     options, warnings);
    EXPECT_TRUE(parsed.ok()) << parsed;
    return warnings;
  };
  EXPECT_THAT(warnings_of("csi-provisioner", "Topology=true,VolumeAttributesClass=true"),
              IsEmpty());
  EXPECT_TRUE(options.settings.topology);
  EXPECT_THAT(warnings_of("csi-provisioner", "Topology=false"), IsEmpty());
  EXPECT_FALSE(options.settings.topology);
  EXPECT_THAT(warnings_of("csi-provisioner", "VolumeAttributesClass=false"),
              ElementsAre(HasSubstr("VolumeAttributesClass=false has no effect")));
  EXPECT_THAT(warnings_of("csi-resizer", "AllBeta=false"),
              ElementsAre(HasSubstr("AnnotateFsResize=false has no effect")));
  EXPECT_THAT(warnings_of("csi-resizer", "AllBeta=false,AnnotateFsResize=true"), IsEmpty());
  EXPECT_THAT(warnings_of("snapshot-controller", "CSIVolumeGroupSnapshot=true"), IsEmpty());
  EXPECT_TRUE(options.settings.snapshot_controller.group_snapshots);
  EXPECT_THAT(warnings_of("csi-snapshotter", "CSIVolumeGroupSnapshot=false"), IsEmpty());
  EXPECT_FALSE(options.settings.snapshotter.group_snapshots);
  EXPECT_FALSE(options.settings.provisioner.cross_namespace_sources);
  EXPECT_THAT(warnings_of("csi-provisioner", "AllAlpha=true"), IsEmpty());
  EXPECT_TRUE(options.settings.provisioner.cross_namespace_sources);
  EXPECT_TRUE(options.election.release);
}

TEST(SidecarsTest, IsFoundByNameAndByPath) {
  ASSERT_NE(FindSidecar("/csi-attacher"), nullptr);
  EXPECT_EQ(FindSidecar("/csi-attacher")->role, "attacher");
  EXPECT_EQ(FindSidecar("./bin/node-driver-registrar")->role, "registrar");
  EXPECT_EQ(FindSidecar("berth"), nullptr);
  EXPECT_EQ(FindSidecar(""), nullptr);
  EXPECT_EQ(FindSidecar("csi-attacher/"), nullptr);
}

TEST(SidecarsTest, BerthsOwnCommandTakesEachRolesFlagsLedByItsName) {
  ProcessOptions options;
  std::vector<std::string> warnings;
  const auto parsed =
      ParseGoFlags(ControllerFlags(),
                   {"--roles", "provisioner,attacher", "--roles=resizer", "--csi-address=/a",
                    "--csi-address=/b", "--provisioner-worker-threads=3", "--attacher-timeout=1m"},
                   options, warnings);
  ASSERT_TRUE(parsed.ok()) << parsed;
  EXPECT_EQ(options.roles, (std::vector<std::string>{"provisioner", "attacher", "resizer"}));
  EXPECT_EQ(options.csi_addresses, (std::vector<std::string>{"/a", "/b"}));
  EXPECT_EQ(options.settings.provisioner.workers, 3);
  EXPECT_EQ(options.settings.attacher.timeout, minutes(1));
  EXPECT_TRUE(options.election.release);
}

TEST(RolesTest, LeasesAreTheGoPrograms) {
  const std::string driver = "a.csi.example.com";
  EXPECT_EQ(FindRole("provisioner")->lease(driver), "a-csi-example-com");
  EXPECT_EQ(FindRole("attacher")->lease(driver), "external-attacher-leader-a-csi-example-com");
  EXPECT_EQ(FindRole("resizer")->lease(driver), "external-resizer-a-csi-example-com");
  EXPECT_EQ(FindRole("snapshotter")->lease(driver),
            "external-snapshotter-leader-a-csi-example-com");
  EXPECT_EQ(FindRole("snapshot-controller")->lease(""), "snapshot-controller-leader");
  EXPECT_FALSE(FindRole("snapshot-controller")->of_driver);
}

}  // namespace
}  // namespace berth::cmd
