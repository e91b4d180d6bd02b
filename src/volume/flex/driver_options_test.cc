#include "volume/flex/driver_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/files/fake_temp_folder.h"
#include "volume/fake_host.h"

namespace berth::volume {
namespace {

using base::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

class DriverOptionsTest : public testing::Test {
 protected:
  static VolumeSpec Inline(Json source) {
    source["driver"] = "acme/nfs";
    return {.name = "data",
            .pod_volume = api::PodVolume({{"name", "data"}, {"flexVolume", std::move(source)}})};
  }
  static VolumeSpec Persistent(Json source) {
    source["driver"] = "acme/nfs";
    return {.name = "data",
            .pod_volume = api::PodVolume(Json{{"name", "data"}}),
            .pv = std::make_shared<api::PersistentVolume>(Json{
                {"metadata", {{"name", "pv-1"}}}, {"spec", {{"flexVolume", std::move(source)}}}})};
  }
  static api::Pod Pod(const Json& security = Json::object()) {
    return api::Pod({{"metadata", {{"name", "web"}, {"namespace", "shop"}, {"uid", "u-1"}}},
                     {"spec", {{"serviceAccountName", "clerk"}, {"securityContext", security}}}});
  }
  void PutSecret(const std::string& ns, const std::string& type,
                 const Json& data = {{"password", "aHVudGVyMg=="}}) {
    host_.Put(
        api::kinds::kSecret,
        {{"metadata", {{"namespace", ns}, {"name", "login"}}}, {"type", type}, {"data", data}});
  }
  std::string SecretOf(const VolumeSpec& spec) {
    const auto options = MountOptionsOf(host_, Pod(), spec);
    if (!options.ok()) return base::ToString(options.status());
    const auto found = options->values.find("kubernetes.io/secret/password");
    return found == options->values.end() ? "none" : found->second;
  }

  const platform::TempFolder folder_;
  FakeHost host_{folder_.path()};
};

TEST_F(DriverOptionsTest, SayOfAnInlineVolumeWhatThePodSays) {
  const auto options =
      OptionsOf(Inline({{"fsType", "ext4"}, {"readOnly", true}, {"options", {{"share", "a"}}}}));
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->values,
              ElementsAre(Pair("kubernetes.io/fsType", "ext4"),
                          Pair("kubernetes.io/pvOrVolumeName", "data"),
                          Pair("kubernetes.io/readwrite", "ro"), Pair("share", "a")));
  EXPECT_EQ(options->RenderJson(),
            R"({"kubernetes.io/fsType":"ext4","kubernetes.io/pvOrVolumeName":"data",)"
            R"("kubernetes.io/readwrite":"ro","share":"a"})");
}

TEST_F(DriverOptionsTest, OfAPersistentVolumeHaveItsNameAndTheUsesAccess) {
  VolumeSpec spec = Persistent({});
  EXPECT_THAT(OptionsOf(spec)->values, ElementsAre(Pair("kubernetes.io/fsType", ""),
                                                   Pair("kubernetes.io/pvOrVolumeName", "pv-1"),
                                                   Pair("kubernetes.io/readwrite", "rw")));
  spec.read_only = true;
  EXPECT_EQ(OptionsOf(spec)->values["kubernetes.io/readwrite"], "ro");
}

TEST_F(DriverOptionsTest, OfMountSayWhoUsesTheVolume) {
  const auto options = MountOptionsOf(host_, Pod({{"fsGroup", 2000}}), Inline({}));
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(
      options->values,
      ElementsAre(
          Pair("kubernetes.io/fsGroup", "2000"), Pair("kubernetes.io/fsType", ""),
          Pair("kubernetes.io/mounterArgs.FsGroup", "2000"), Pair("kubernetes.io/pod.name", "web"),
          Pair("kubernetes.io/pod.namespace", "shop"), Pair("kubernetes.io/pod.uid", "u-1"),
          Pair("kubernetes.io/pvOrVolumeName", "data"), Pair("kubernetes.io/readwrite", "rw"),
          Pair("kubernetes.io/serviceAccount.name", "clerk")));
}

TEST_F(DriverOptionsTest, HaveTheSecretForMountAlone) {
  PutSecret("shop", "acme/nfs");
  const VolumeSpec spec = Inline({{"secretRef", {{"name", "login"}}}});
  const auto options = MountOptionsOf(host_, Pod(), spec);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->values.at("kubernetes.io/secret/password"), "aHVudGVyMg==");
  EXPECT_THAT(options->secrets.Redact("hunter2 aHVudGVyMg=="), Not(HasSubstr("h")));
  EXPECT_FALSE(OptionsOf(spec)->values.contains("kubernetes.io/secret/password"));
}

TEST_F(DriverOptionsTest, TheSecretOfAPersistentVolumeMayBeInAnotherNamespace) {
  PutSecret("shop", "acme/nfs", {{"password", "c2hvcA=="}});
  PutSecret("storage", "acme/nfs", {{"password", "c3RvcmFnZQ=="}});
  const Json ref = {{"name", "login"}, {"namespace", "storage"}};
  EXPECT_EQ(SecretOf(Persistent({{"secretRef", ref}})), "c3RvcmFnZQ==");
  EXPECT_EQ(SecretOf(Persistent({{"secretRef", {{"name", "login"}}}})), "c2hvcA==");
  // A pod's own volume cannot reach into it.
  EXPECT_EQ(SecretOf(Inline({{"secretRef", ref}})), "c2hvcA==");
}

TEST_F(DriverOptionsTest, ASecretThatIsNotTheDriversIsRefused) {
  const VolumeSpec spec = Inline({{"secretRef", {{"name", "login"}}}});
  EXPECT_THAT(SecretOf(spec), HasSubstr("NOT_FOUND: read secret 'shop/login'"));
  PutSecret("shop", "Opaque");
  EXPECT_EQ(SecretOf(spec),
            "FAILED_PRECONDITION: secret 'shop/login' is of type 'Opaque': one for this driver has "
            "its name as type, 'acme/nfs'");
  PutSecret("shop", "acme/nfs", {{"password", "?"}});
  EXPECT_EQ(SecretOf(spec),
            "FAILED_PRECONDITION: entry 'password' of secret 'shop/login' is no "
            "base64");
}

TEST_F(DriverOptionsTest, WhatTheUserSaysComesLast) {
  PutSecret("shop", "acme/nfs");
  const VolumeSpec spec =
      Inline({{"secretRef", {{"name", "login"}}},
              {"fsType", "xfs"},
              {"options", {{"kubernetes.io/fsType", "ext4"}, {"kubernetes.io/pod.uid", "x"}}}});
  const auto options = MountOptionsOf(host_, Pod(), spec);
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->values.at("kubernetes.io/fsType"), "ext4");
  EXPECT_EQ(options->values.at("kubernetes.io/pod.uid"), "x");
}

TEST_F(DriverOptionsTest, AVolumeWithoutADriverIsNone) {
  const VolumeSpec other{.name = "data",
                         .pod_volume = api::PodVolume({{"name", "data"}, {"emptyDir", {}}})};
  EXPECT_FALSE(IsFlexVolume(other));
  EXPECT_EQ(OptionsOf(other).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace berth::volume
