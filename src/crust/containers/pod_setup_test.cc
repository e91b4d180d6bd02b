#include "crust/containers/pod_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/assert_ok.h"

namespace berth::crust {
namespace {

using base::Json;
using testing::ElementsAre;
using testing::HasSubstr;

Json Config() {
  return {{"hostname", "web-0"},
          {"annotations",
           {{"io.kubernetes.cri.sandbox-memory", "536870912"},
            {"io.kubernetes.cri.sandbox-cpu-quota", "150000"},
            {"io.kubernetes.cri.sandbox-cpu-period", "100000"}}},
          {"linux",
           {{"sysctl", {{"net.ipv4.ip_unprivileged_port_start", "0"}}},
            {"namespaces",
             {{{"type", "pid"}}, {{"type", "network"}, {"path", "/var/run/netns/cni-1"}}}}}}};
}

TEST(PodSetupTest, TheConfigOfASandboxTellsWhatItsMachineNeeds) {
  const auto setup = ReadPodSetup(Config());
  ASSERT_OK(setup);
  EXPECT_EQ(setup->hostname, "web-0");
  EXPECT_THAT(setup->sysctls, ElementsAre("net.ipv4.ip_unprivileged_port_start=0"));
  EXPECT_EQ(setup->network, "/var/run/netns/cni-1");
  EXPECT_EQ(setup->memory_bytes, 536870912);
  EXPECT_EQ(setup->cpu_percent, 150);
}

TEST(PodSetupTest, WithoutLimitsThereAreNone) {
  Json config = Config();
  config["annotations"] = {{"io.kubernetes.cri.sandbox-memory", "-1"},
                           {"io.kubernetes.cri.sandbox-cpu-quota", "many"},
                           {"io.kubernetes.cri.sandbox-cpu-period", "100000"}};
  const auto setup = ReadPodSetup(config);
  ASSERT_OK(setup);
  EXPECT_EQ(setup->memory_bytes, 0);
  EXPECT_EQ(setup->cpu_percent, 0);
  EXPECT_TRUE(ReadPodSetup(Json::object()).ok());
}

TEST(PodSetupTest, ASandboxWithAUserNamespaceIsRefused) {
  Json config = Config();
  config["linux"]["namespaces"].push_back({{"type", "user"}});
  EXPECT_THAT(std::string(base::Message(ReadPodSetup(config).status())), HasSubstr("hostUsers"));
}

}  // namespace
}  // namespace berth::crust
