// Who mounts a volume, with the runtime handler's double: what is decided, and told. As root, whom
// alone the handler serves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "api/kinds/runtime_mount.h"
#include "base/assert_ok.h"
#include "node/volumes/crust_deferral.h"
#include "platform/files/fake_temp_folder.h"
#include "rpc/fake_crust.h"
#include "volume/fake_host.h"
#include "volume/fake_idle_plugin.h"

namespace berth::node {
namespace {

using base::Json;
using base::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Capability = rpc::FakeCrust::Capability;

class DeferringPlugin : public volume::IdlePlugin {
 public:
  std::string_view name() const override { return "kubernetes.io/csi"; }
  volume::StatusOr<Deferral> CanDefer(const api::Pod&, const volume::VolumeSpec&) override {
    return answer;
  }
  Deferral answer;
};

class CrustDeferralTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "skipped: a runtime handler is root's";
    auto handler = rpc::FakeCrust::Start();
    ASSERT_OK(handler);
    handler_ = *std::move(handler);
    PutRuntimeClass({{"fsMgmtSocket", handler_->socket()}});
    PutStorageClass({{"allowRuntimeAssistedMount", true}});
  }

  void PutRuntimeClass(Json object) {
    object["metadata"]["name"] = "sandboxed";
    host_.Put(api::kinds::kRuntimeClass, object);
  }
  void PutStorageClass(Json object) {
    object["metadata"]["name"] = "fast";
    host_.Put(api::kinds::kStorageClass, object);
  }

  static api::Pod Pod(const std::string& runtime_class = "sandboxed", Json mount = Json::object()) {
    mount["name"] = "data";
    Json spec = {{"containers", {{{"name", "c"}, {"volumeMounts", Json::array({mount})}}}}};
    if (!runtime_class.empty()) spec["runtimeClassName"] = runtime_class;
    return api::Pod({{"metadata", {{"name", "web"}, {"namespace", "shop"}, {"uid", "u"}}},
                     {"spec", std::move(spec)}});
  }
  static volume::VolumeSpec Spec(const std::string& mode = "ReadWriteOnce") {
    return {.name = "data",
            .pod_volume = api::PodVolume({{"name", "data"}}),
            .claim = std::make_shared<api::PersistentVolumeClaim>(
                Json{{"spec", {{"accessModes", {mode}}}}}),
            .pv = std::make_shared<api::PersistentVolume>(
                Json{{"metadata", {{"name", "pv-1"}}}, {"spec", {{"storageClassName", "fast"}}}})};
  }

  base::StatusOr<HandlerChoice> Choose(const api::Pod& pod = Pod()) {
    return deferral_.ChooseHandler(pod, {"data"}, Spec(),
                                   [this]() -> base::StatusOr<volume::VolumePlugin::Deferral> {
                                     return plugin_.CanDefer(Pod(), Spec());
                                   });
  }
  // That the host mounts, and why.
  void ExpectHostMounts(const std::string& why, const api::Pod& pod = Pod()) {
    SCOPED_TRACE(why);
    const size_t before = Told().size();
    const auto choice = Choose(pod);
    ASSERT_OK(choice);
    EXPECT_EQ(choice->socket, "");
    ASSERT_EQ(Told().size(), before + 1);
    EXPECT_THAT(Told().back(), HasSubstr("HostMount: volume 'data' is mounted by the host"));
    EXPECT_THAT(Told().back(), HasSubstr(why));
  }
  base::Status Chosen(CrustDeferral& deferral, const std::string& mode,
                      const std::string& fs_type = "xfs", const api::Pod& pod = Pod()) {
    const volume::DeferredMount mount{.source = "/dev/x", .fs_type = fs_type};
    return deferral.ReportChoice(pod, {"data"}, Spec(mode), {.socket = "/run/a.sock"}, &mount);
  }
  std::vector<std::string> Told() const {
    std::vector<std::string> told;
    for (const auto& event : host_.fake_events().events()) {
      told.push_back(event.reason + ": " + event.message);
    }
    return told;
  }

  platform::TempFolder folder_;
  mutable volume::FakeHost host_{folder_.path()};
  std::unique_ptr<rpc::FakeCrust> handler_;
  DeferringPlugin plugin_;
  CrustDeferral::GetObject get_object_ = [this](const api::KindInfo& kind, std::string_view ns,
                                                std::string_view name) {
    return host_.GetObject(kind, ns, name);
  };
  CrustDeferral deferral_{get_object_, host_.events(), {}};
};

TEST_F(CrustDeferralTest, TheHandlerMountsWhereClassHandlerAndDriverAgree) {
  const auto choice = Choose();
  ASSERT_OK(choice);
  EXPECT_EQ(choice->socket, handler_->socket());
  EXPECT_THAT(choice->file_systems, ElementsAre("ext4", "xfs"));
  EXPECT_THAT(Told(), IsEmpty());
}

TEST_F(CrustDeferralTest, AnnotationsSayTheSameAsTheFields) {
  PutRuntimeClass(
      {{"metadata", {{"annotations", {{api::kSocketAnnotation, handler_->socket()}}}}}});
  PutStorageClass({{"metadata", {{"annotations", {{api::kAllowAnnotation, "true"}}}}}});
  EXPECT_EQ(Choose()->socket, handler_->socket());
}

TEST_F(CrustDeferralTest, WhoAsksForNothingIsToldNothing) {
  EXPECT_EQ(Choose(Pod(""))->socket, "");
  PutRuntimeClass({{"handler", "runc"}});
  PutStorageClass({{"provisioner", "x"}});
  EXPECT_EQ(Choose()->socket, "");
  EXPECT_THAT(Told(), IsEmpty());
  EXPECT_THAT(handler_->script().Methods(), IsEmpty());
}

TEST_F(CrustDeferralTest, EachReasonForTheHostIsTold) {
  PutStorageClass({{"provisioner", "x"}});
  ExpectHostMounts("StorageClass 'fast' does not allow it");
  PutStorageClass({{"allowRuntimeAssistedMount", true}});
  PutRuntimeClass({{"handler", "runc"}});
  ExpectHostMounts("RuntimeClass 'sandboxed' names no socket");
  PutRuntimeClass({{"fsMgmtSocket", handler_->socket()}});
  plugin_.answer = {.why_not = "the driver cannot"};
  ExpectHostMounts("the driver cannot");
  plugin_.answer = {.fs_group = true};
  handler_->Lose(Capability::FS_GROUP_CHANGE_POLICY_ALWAYS);
  ExpectHostMounts("policy Always");
  plugin_.answer = {.secrets = true};
  ExpectHostMounts("secrets");
  PutStorageClass({{"allowRuntimeAssistedMount", true},
                   {"metadata", {{"annotations", {{api::kAllowSecretsAnnotation, "true"}}}}}});
  EXPECT_EQ(Choose()->socket, handler_->socket());
  plugin_.answer = {};
  handler_->Lose(Capability::SUBPATH);
  ExpectHostMounts("subPath", Pod("sandboxed", {{"subPath", "a"}}));
  EXPECT_EQ(Choose()->socket, handler_->socket());
  handler_->options().file_systems.clear();
  ExpectHostMounts("mounts no file system");
}

TEST_F(CrustDeferralTest, AHandlerThatCannotBeAskedIsNoReasonForTheHost) {
  handler_->script().Fail("RuntimeGetCapabilities",
                          base::Error(StatusCode::kResourceExhausted, "busy"));
  EXPECT_EQ(Choose().status().code(), StatusCode::kResourceExhausted);
  handler_->options().file_systems.assign(65, "ext4");
  EXPECT_EQ(Choose().status().code(), StatusCode::kFailedPrecondition);
  handler_.reset();
  EXPECT_EQ(Choose().status().code(), StatusCode::kUnavailable);
  PutRuntimeClass({{"fsMgmtSocket", "not/absolute"}});
  EXPECT_EQ(Choose().status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Told(), IsEmpty());
}

TEST_F(CrustDeferralTest, AWriterWhoseClaimIsNotForOnePodIsWarnedOf) {
  ASSERT_OK(Chosen(deferral_, "ReadWriteOnce"));
  EXPECT_THAT(Told(), ElementsAre(HasSubstr("SandboxMountAccessMode: volume 'data': "),
                                  HasSubstr("RuntimeAssistedMount: volume 'data': its xfs")));
}

TEST_F(CrustDeferralTest, OrRefusedBySetting) {
  CrustDeferral strict(get_object_, host_.events(), {.refuse_shared_writers = true});
  EXPECT_EQ(Chosen(strict, "ReadWriteOnce").code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(Told(), IsEmpty());
  ASSERT_OK(Chosen(strict, "ReadWriteOncePod"));
  ASSERT_OK(Chosen(strict, "ReadWriteMany", "nfs4"));
  ASSERT_OK(Chosen(strict, "ReadWriteOnce", "xfs", Pod("sandboxed", {{"readOnly", true}})));
  EXPECT_EQ(Told().size(), 3u);
}

TEST_F(CrustDeferralTest, AHandlerThatNeedsTheSandboxFirstIsNotAskedBefore) {
  CrustDeferral early(get_object_, host_.events(), {.before_sandbox = true});
  const auto choose = [&] {
    return early.ChooseHandler(Pod(), {"data"}, Spec(),
                               [this]() -> base::StatusOr<volume::VolumePlugin::Deferral> {
                                 return plugin_.CanDefer(Pod(), Spec());
                               });
  };
  auto choice = choose();
  ASSERT_OK(choice);
  EXPECT_EQ(choice->socket, "");
  EXPECT_THAT(Told().back(), HasSubstr("POD_VOLUMES"));
  handler_->options().capabilities.push_back(Capability::POD_VOLUMES);
  choice = choose();
  ASSERT_OK(choice);
  EXPECT_EQ(choice->socket, handler_->socket());
}

TEST_F(CrustDeferralTest, TheAccessModesThatARuntimeClassAllowsAreASettingOfTheCluster) {
  ASSERT_OK(deferral_.CheckAccessModes(Pod(), Spec("ReadWriteOnce")));
  PutRuntimeClass(
      {{"metadata", {{"annotations", {{api::kAccessModesAnnotation, "ReadWriteOncePod"}}}}}});
  ASSERT_OK(deferral_.CheckAccessModes(Pod(), Spec("ReadWriteOncePod")));
  ASSERT_OK(deferral_.CheckAccessModes(Pod(""), Spec("ReadWriteOnce")));
  const base::Status refused = deferral_.CheckAccessModes(Pod(), Spec("ReadWriteOnce"));
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(refused), HasSubstr("has access mode ReadWriteOnce"));
  // A pod that only reads is refused as well: the setting is about the claim.
  EXPECT_EQ(
      deferral_.CheckAccessModes(Pod("sandboxed", {{"readOnly", true}}), Spec("ReadWriteOnce"))
          .code(),
      StatusCode::kFailedPrecondition);
  host_.Remove(api::kinds::kRuntimeClass, "", "sandboxed");
  EXPECT_EQ(deferral_.CheckAccessModes(Pod(), Spec("ReadWriteOncePod")).code(),
            StatusCode::kNotFound);
}

TEST_F(CrustDeferralTest, ADriverThatMountedAllTheSameIsTold) {
  ASSERT_OK(deferral_.ReportChoice(Pod(), {"data"}, Spec(),
                                   {.socket = "/run/a.sock", .file_systems = {"ext4"}}, nullptr));
  EXPECT_THAT(Told(), ElementsAre(HasSubstr("HostMount: volume 'data' is mounted by the host")));
}

}  // namespace
}  // namespace berth::node
