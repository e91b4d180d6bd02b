#include "controllers/provisioner/class_parameters.h"

#include <gmock/gmock.h>

#include "controllers/fake_cluster.h"

namespace berth::controllers::provisioner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

api::PersistentVolumeClaim TheClaim() {
  return api::PersistentVolumeClaim(
      MakeClaim("data", {{"metadata", {{"annotations", {{"team", "blue"}}}}}}));
}

TEST(ClassParametersTest, KeepsPrefixedKeysFromTheDriver) {
  const auto parsed =
      ClassParameters::Parse({{"csi.storage.k8s.io/fstype", "xfs"}, {"tier", "gold"}});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->fs_type(), "xfs");
  EXPECT_THAT(parsed->driver_parameters(), ElementsAre(Pair("tier", "gold")));
}

TEST(ClassParametersTest, ReadsTheOldFsTypeKeyInAnyCase) {
  const auto parsed = ClassParameters::Parse({{"fsType", "ext4"}});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->fs_type(), "ext4");
}

struct BadCase {
  api::Labels parameters;
  std::string message;
};

TEST(ClassParametersTest, RefusesWhatCannotBeMeant) {
  const std::string prefix = "csi.storage.k8s.io/";
  const std::vector<BadCase> cases = {
      {{{prefix + "fstype", "xfs"}, {"fstype", "ext4"}}, "2 times"},
      {{{prefix + "colour", "red"}}, "unknown class parameter 'csi.storage.k8s.io/colour'"},
      {{{prefix + "node-stage-secret-name", "s"}}, "needs"},
      {{{prefix + "node-stage-secret-name", "s"}, {prefix + "node-stage-secret-namespace", ""}},
       "is empty"},
      {{{prefix + "provisioner-secret-name", "s"},
        {prefix + "provisioner-secret-namespace", "n"},
        {"csiProvisionerSecretName", "s"},
        {"csiProvisionerSecretNamespace", "n"}},
       "exclude each other"},
  };
  for (const BadCase& bad : cases) {
    const auto parsed = ClassParameters::Parse(bad.parameters);
    ASSERT_EQ(parsed.status().code(), base::StatusCode::kInvalidArgument) << bad.message;
    EXPECT_THAT(std::string(base::Message(parsed.status())), HasSubstr(bad.message));
  }
}

TEST(ClassParametersTest, NameAndNamespaceOfASecretMayHaveKeysOfDifferentAge) {
  const auto parsed =
      ClassParameters::Parse({{"csiProvisionerSecretName", "s"},
                              {"csi.storage.k8s.io/provisioner-secret-namespace", "n"}});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const auto secret = parsed->Secret(SecretUse::kProvisioner, "pvc-1", TheClaim());
  ASSERT_TRUE(secret.ok()) << secret.status();
  EXPECT_EQ(secret->name, "s");
  EXPECT_EQ(secret->ns, "n");
}

TEST(ClassParametersTest, ASecretIsFoundInAClassThatIsWrongOtherwise) {
  const api::Labels parameters = {{"csi.storage.k8s.io/colour", "red"},
                                  {"csi.storage.k8s.io/node-stage-secret-name", "half"},
                                  {"csi.storage.k8s.io/provisioner-secret-name", "s"},
                                  {"csi.storage.k8s.io/provisioner-secret-namespace", "n"}};
  const auto parsed = ClassParameters::ParseSecret(parameters, SecretUse::kProvisioner);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->Secret(SecretUse::kProvisioner, "pvc-1", TheClaim())->name, "s");
  EXPECT_EQ(ClassParameters::ParseSecret(parameters, SecretUse::kNodeStage).status().code(),
            base::StatusCode::kInvalidArgument);
}

TEST(ClassParametersTest, FillsInTheTokensOfSecretNames) {
  const auto parsed = ClassParameters::Parse(
      {{"csi.storage.k8s.io/node-stage-secret-name",
        "${pvc.name}-${pvc.annotations['team']}-${pv.name}"},
       {"csi.storage.k8s.io/node-stage-secret-namespace", "${pvc.namespace}"},
       {"csi.storage.k8s.io/secret-name", "all"},
       {"csi.storage.k8s.io/secret-namespace", "kube-system"}});
  ASSERT_TRUE(parsed.ok());
  const auto stage = parsed->Secret(SecretUse::kNodeStage, "pvc-1", TheClaim());
  ASSERT_TRUE(stage.ok());
  EXPECT_EQ(stage->name, "data-blue-pvc-1");
  EXPECT_EQ(stage->ns, "default");
  const auto publish = parsed->Secret(SecretUse::kNodePublish, "pvc-1", TheClaim());
  ASSERT_TRUE(publish.ok());
  EXPECT_EQ(publish->name, "all");
  EXPECT_EQ(publish->ns, "kube-system");
}

TEST(ClassParametersTest, RefusesTokensItDoesNotKnow) {
  const auto secret = [](const std::string& name, const std::string& ns) {
    const auto parsed =
        ClassParameters::Parse({{"csi.storage.k8s.io/provisioner-secret-name", name},
                                {"csi.storage.k8s.io/provisioner-secret-namespace", ns}});
    EXPECT_TRUE(parsed.ok());
    return parsed->Secret(SecretUse::kProvisioner, "pvc-1", TheClaim()).status();
  };
  EXPECT_THAT(base::ToString(secret("${pvc.uid}", "n")), HasSubstr("unknown token '${pvc.uid}'"));
  EXPECT_THAT(base::ToString(secret("s", "${pvc.name}")), HasSubstr("unknown token '${pvc.name}'"));
  EXPECT_THAT(base::ToString(secret("${pvc.annotations['none']}", "n")),
              HasSubstr("unknown token"));
  EXPECT_THAT(base::ToString(secret("${pvc.name", "n")), HasSubstr("malformed token"));
  EXPECT_THAT(base::ToString(secret("Not_A_Name", "n")), HasSubstr("secret name 'Not_A_Name'"));
}

}  // namespace
}  // namespace berth::controllers::provisioner
