#include "node/volumes/crust_decision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/kinds/runtime_mount.h"

namespace berth::node {
namespace {

using base::Json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Rpc = crust_api::RuntimeCapability::RPC;
using Deferral = volume::VolumePlugin::Deferral;

api::Pod PodWith(Json mount, Json security = Json::object()) {
  mount["name"] = "data";
  return api::Pod({{"spec",
                    {{"securityContext", std::move(security)},
                     {"containers", {{{"name", "c"}, {"volumeMounts", Json::array({mount})}}}}}}});
}

HandlerOffer All() {
  return {.capabilities = {Rpc::FS_GROUP_CHANGE_POLICY_ALWAYS,
                           Rpc::FS_GROUP_CHANGE_POLICY_ROOT_MISMATCH, Rpc::SUBPATH,
                           Rpc::SELINUX_RELABEL, Rpc::SELINUX_RELABEL_ON_MOUNT},
          .file_systems = {"xfs"}};
}

HandlerOffer Without(Rpc::Type capability) {
  HandlerOffer offer = All();
  std::erase(offer.capabilities, capability);
  return offer;
}

std::string WhyNot(const api::Pod& pod, const Deferral& volume, const HandlerOffer& offer,
                   bool secrets_allowed = false) {
  return FindReasonForHostMount(pod, NeedsOf(pod, {"data"}), volume, secrets_allowed, offer);
}

TEST(CrustDecision, ReadsWhatAnyContainerAsksFor) {
  const api::Pod pod(
      {{"spec",
        {{"initContainers",
          {{{"name", "i"},
            {"volumeMounts", {{{"name", "data"}, {"subPathExpr", "$(A)"}, {"readOnly", true}}}}}}},
         {"containers",
          {{{"name", "c"},
            {"volumeMounts",
             {{{"name", "other"}, {"mountPropagation", "Bidirectional"}},
              {{"name", "data"}, {"readOnly", true}}}}}}}}}});
  const PodNeeds needs = NeedsOf(pod, {"data"});
  EXPECT_TRUE(needs.sub_path);
  EXPECT_FALSE(needs.bidirectional);
  EXPECT_FALSE(needs.writes);
  const PodNeeds other = NeedsOf(pod, {"other"});
  EXPECT_TRUE(other.bidirectional);
  EXPECT_TRUE(other.writes);
}

TEST(CrustDecision, EachNeedHasItsCapability) {
  const api::Pod plain = PodWith(Json::object());
  const api::Pod part = PodWith({{"subPath", "a"}});
  const api::Pod on_mismatch =
      PodWith(Json::object(), {{"fsGroup", 1}, {"fsGroupChangePolicy", "OnRootMismatch"}});
  EXPECT_THAT(WhyNot(part, {.fs_group = true, .selinux_on_mount = true}, All()), IsEmpty());
  EXPECT_THAT(WhyNot(part, {}, Without(Rpc::SUBPATH)), HasSubstr("subPath"));
  EXPECT_THAT(WhyNot(plain, {}, Without(Rpc::SUBPATH)), IsEmpty());
  EXPECT_THAT(WhyNot(plain, {.fs_group = true}, Without(Rpc::FS_GROUP_CHANGE_POLICY_ALWAYS)),
              HasSubstr("policy Always"));
  EXPECT_THAT(WhyNot(on_mismatch, {.fs_group = true}, Without(Rpc::FS_GROUP_CHANGE_POLICY_ALWAYS)),
              IsEmpty());
  EXPECT_THAT(
      WhyNot(on_mismatch, {.fs_group = true}, Without(Rpc::FS_GROUP_CHANGE_POLICY_ROOT_MISMATCH)),
      HasSubstr("policy OnRootMismatch"));
  EXPECT_THAT(WhyNot(plain, {.selinux_on_mount = true}, Without(Rpc::SELINUX_RELABEL_ON_MOUNT)),
              HasSubstr("SELinux"));
  EXPECT_THAT(WhyNot(plain, {.selinux_relabel = true}, Without(Rpc::SELINUX_RELABEL)),
              HasSubstr("SELinux"));
  EXPECT_THAT(WhyNot(PodWith({{"mountPropagation", "Bidirectional"}}), {}, All()),
              HasSubstr("Bidirectional"));
  EXPECT_THAT(WhyNot(plain, {}, {}), HasSubstr("no file system"));
}

TEST(CrustDecision, TheDriverAndItsSecretsHaveAWord) {
  const api::Pod pod = PodWith(Json::object());
  EXPECT_EQ(WhyNot(pod, {.why_not = "the driver cannot"}, All()), "the driver cannot");
  EXPECT_THAT(WhyNot(pod, {.secrets = true}, All()),
              HasSubstr(std::string(api::kAllowSecretsAnnotation)));
  EXPECT_THAT(WhyNot(pod, {.secrets = true}, All(), /*secrets_allowed=*/true), IsEmpty());
}

TEST(ParallelMountsTest, AreThoseOfSharesByWhateverMountsThem) {
  for (const char* type : {"nfs4", "glusterfs", "fuse.glusterfs", "ceph"}) {
    EXPECT_TRUE(AllowsParallelMounts(type)) << type;
  }
  for (const char* type : {"ext4", "xfs", "btrfs", "fuse.", ""}) {
    EXPECT_FALSE(AllowsParallelMounts(type)) << type;
  }
}

}  // namespace
}  // namespace berth::node
