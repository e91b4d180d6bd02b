#include "crust/requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/sysmacros.h>

namespace berth::crust {
namespace {

using base::StatusCode;

TEST(RequestsTest, ASandboxIdIsOnePartOfAPath) {
  EXPECT_TRUE(CheckSandboxId("5f3c0a").ok());
  EXPECT_TRUE(CheckSandboxId(std::string(128, 'a')).ok());
  for (const std::string& id :
       {std::string(), std::string("."), std::string(".."), std::string("../x"), std::string("a/b"),
        std::string("a\nb"), std::string("a\0b", 3), std::string("a b"), std::string(129, 'a')}) {
    EXPECT_EQ(CheckSandboxId(id).code(), StatusCode::kInvalidArgument) << id;
    EXPECT_EQ(CheckPodUid(api::PodUid(id)).code(), StatusCode::kInvalidArgument) << id;
  }
}

TEST(RequestsTest, ATargetIsAVolumeOfTheSandboxesPod) {
  const auto check = [](std::string_view target) {
    return CheckTarget(platform::TargetPath(target), "/var/lib/kubelet", api::PodUid("uid-1"))
        .code();
  };
  const std::string own = "/var/lib/kubelet/pods/uid-1/volumes/";
  EXPECT_EQ(check(own + "kubernetes.io~csi/pv/mount"), StatusCode::kOk);
  for (const char* elsewhere :
       {"/etc", "/var/lib/kubelet/pods/uid-2/volumes/kubernetes.io~csi/pv/mount",
        "/var/lib/kubelet/pods/uid-1/volumes", "/var/lib/kubelet/pods/uid-1/volumes/x",
        "/var/lib/kubelet/pods/uid-10/volumes/p/v"}) {
    EXPECT_EQ(check(elsewhere), StatusCode::kPermissionDenied) << elsewhere;
  }
  for (const std::string& odd :
       {std::string("relative/x"), own + "p/../../../uid-2/volumes/p/v", own + "p//v", own + "p/v/",
        own + "p/./v", own + "p/v\n", own + std::string("p/v\0", 4),
        own + "p/" + std::string(5000, 'a')}) {
    EXPECT_EQ(check(odd), StatusCode::kInvalidArgument) << odd;
  }
}

TEST(RequestsTest, ARequestNamesAPodOrASandbox) {
  const Offer none;
  const Offer pods{.capabilities = {wire::RuntimeCapability::RPC::POD_VOLUMES}};
  EXPECT_FALSE(*NamesPod("s1", api::PodUid(), none));
  EXPECT_TRUE(*NamesPod("", api::PodUid("uid-1"), pods));
  EXPECT_EQ(NamesPod("", api::PodUid("uid-1"), none).status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(NamesPod("s1", api::PodUid("uid-1"), pods).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(NamesPod("", api::PodUid("../uid"), pods).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(RequestsTest, ASubPathIsWhatComesBehindTheTarget) {
  std::string_view sub;
  EXPECT_TRUE(IsBelow("/t/v", "/t/v", sub));
  EXPECT_EQ(sub, "");
  EXPECT_TRUE(IsBelow("/t/v/a/b", "/t/v", sub));
  EXPECT_EQ(sub, "a/b");
  EXPECT_FALSE(IsBelow("/t/v2", "/t/v", sub));
  EXPECT_FALSE(IsBelow("/t", "/t/v", sub));
  EXPECT_FALSE(IsBelow("/t/v", "", sub));
  EXPECT_EQ(PlainPath("/a/./b//c/../d/"), "/a/b/d");
  EXPECT_EQ(PlainPath("/"), "/");
}

MountPlan PlanOf(dev_t number, std::vector<std::string> options) {
  return {.device = {.source = "/dev/x", .block = true, .number = number},
          .checks = {IsDevice{number}, IsNotMountedAt{"/t"}},
          .steps = {MountFileSystem{"ext4", std::move(options), "label"},
                    ApplyGroup{4294967294, true}, RelabelFiles{"u:r:t"}, PlaceInSandbox{"v0"}}};
}

wire::RuntimePublishVolumeRequest PublishOf(const std::string& label, bool relabel) {
  wire::RuntimePublishVolumeRequest request;
  request.set_host_volume_id("server:/export");
  request.set_host_target_path("/t");
  request.set_file_system("nfs4");
  request.set_selinux_label(label);
  request.set_selinux_relabel(relabel);
  return request;
}

// How the label of a request gets onto the files: by the mount, and by the step that sets it on
// each file ("none": there is no such step).
std::pair<std::string, std::string> LabelsOf(const base::StatusOr<MountPlan>& plan) {
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return {};
  const auto* relabel = plan->Find<RelabelFiles>();
  return {plan->Find<MountFileSystem>()->selinux_label,
          relabel == nullptr ? "none" : relabel->label};
}

TEST(RequestsTest, ALabelIsAnOptionOfTheMountOrOfEachFile) {
  const std::string label = "system_u:object_r:container_file_t:s0:c1,c2";
  const Offer selinux{.capabilities = {wire::RuntimeCapability::RPC::SELINUX_RELABEL},
                      .shares = {"nfs4"},
                      .selinux = true};
  EXPECT_THAT(LabelsOf(MakePlan(PublishOf(label, false), selinux)), testing::Pair(label, "none"));
  EXPECT_THAT(LabelsOf(MakePlan(PublishOf(label, true), selinux)), testing::Pair("", label));
  EXPECT_THAT(LabelsOf(MakePlan(PublishOf("", true), selinux)), testing::Pair("", ""));
  EXPECT_THAT(LabelsOf(MakePlan(PublishOf("", false), selinux)), testing::Pair("", "none"));
  Offer none = selinux;
  none.selinux = false;
  for (const bool relabel : {false, true}) {
    EXPECT_THAT(LabelsOf(MakePlan(PublishOf(label, relabel), none)), testing::Pair("", "none"));
  }
}

TEST(RequestsTest, ALabelForEachFileIsRefusedIfItIsNoneOrIsNotOffered) {
  for (const bool kernel : {false, true}) {
    SCOPED_TRACE(kernel);
    Offer offer{.capabilities = {wire::RuntimeCapability::RPC::SELINUX_RELABEL},
                .shares = {"nfs4"},
                .selinux = kernel};
    for (const std::string label : {"x", "u:r", "u:r:", ":r:t", "u::t", "u:r:t\n"}) {
      EXPECT_EQ(MakePlan(PublishOf(label, true), offer).status().code(),
                StatusCode::kInvalidArgument)
          << label;
    }
    EXPECT_TRUE(MakePlan(PublishOf("u:r:t", true), offer).ok());
    offer.capabilities.clear();
    EXPECT_EQ(MakePlan(PublishOf("u:r:t", true), offer).status().code(),
              StatusCode::kFailedPrecondition);
    EXPECT_TRUE(MakePlan(PublishOf("u:r:t", false), offer).ok());
  }
}

TEST(MountPlanTest, IsReadAsItIsWritten) {
  const MountPlan plan = PlanOf(makedev(4095, 1048575), {"noatime", "commit=5"});
  const auto again = DecodeMountPlan(*base::json::Parse(base::json::Dump(Encode(plan))));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, plan);
  EXPECT_FALSE(DecodeMountPlan(base::Json::object()).ok());
  EXPECT_FALSE(DecodeMountPlan(*base::json::Parse(R"({"source":"x","steps":[{"y":1}]})")).ok());
}

TEST(MountPlanTest, KnowsWhetherItIsReadOnly) {
  EXPECT_FALSE(PlanOf(1, {}).read_only());
  EXPECT_TRUE(PlanOf(1, {"noatime", "ro"}).read_only());
  EXPECT_FALSE(PlanOf(1, {"ro", "rw"}).read_only());
}

TEST(MountPlanTest, IsTheSameByWhatItDoesAndToWhichDevice) {
  MountPlan other = PlanOf(7, {"noatime"});
  other.device.source = "/dev/another-name";
  other.steps.back() = PlaceInSandbox{"v3"};
  EXPECT_TRUE(IsSame(PlanOf(7, {"noatime"}), other));
  EXPECT_FALSE(IsSame(PlanOf(8, {"noatime"}), other));
  EXPECT_FALSE(IsSame(PlanOf(7, {}), other));
  MountPlan labelled = PlanOf(7, {});
  labelled.steps[2] = RelabelFiles{"u:r:other"};
  EXPECT_FALSE(IsSame(PlanOf(7, {}), labelled));
  std::erase_if(other.steps, [](const Step& s) { return std::holds_alternative<ApplyGroup>(s); });
  EXPECT_FALSE(IsSame(PlanOf(7, {"noatime"}), other));
}

}  // namespace
}  // namespace berth::crust
