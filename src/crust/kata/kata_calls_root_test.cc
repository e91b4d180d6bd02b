#include <sys/mount.h>

#include <functional>
#include <thread>

#include "crust/kata/fake_shim.h"
#include "crust/kata/kata_calls.h"
#include "crust/kata/kata_fixture.h"

namespace berth::crust::kata {
namespace {

using base::Json;
using base::StatusCode;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using Capability = wire::RuntimeCapability::RPC;

#define EXPECT_REFUSED(expression, expected, text)                              \
  do {                                                                          \
    const base::Status refused = (expression);                                  \
    EXPECT_EQ(refused.code(), expected) << refused;                             \
    EXPECT_THAT(std::string(base::Message(refused)), testing::HasSubstr(text)); \
  } while (false)

class KataCallsTest : public KataFixture {
 protected:
  void WaitUntil(const char* what, const std::function<bool()>& is_so) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!is_so()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << what;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
};

TEST_F(KataCallsTest, KataIsToldOfAVolumeUntilItIsUnpublished) {
  const auto request = PublishRequest(MakeDevice());
  for (int i = 0; i < 2; ++i) ASSERT_OK(Publish(request));
  const Json info = place_.ReadMountInfo(request.host_target_path());
  EXPECT_EQ(info["device"], request.host_volume_id());
  EXPECT_EQ(info["fstype"], "ext4");
  EXPECT_EQ(info["volume-type"], "directvol");
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(Unpublish(request));
    EXPECT_FALSE(std::filesystem::exists(place_.VolumeFolder(request.host_target_path())));
  }
  EXPECT_TRUE(HasNoRecord());
}

TEST_F(KataCallsTest, OneKernelHasAVolume) {
  const std::string device = MakeDevice();
  ASSERT_OK(Publish(PublishRequest(device)));
  EXPECT_REFUSED(Publish(PublishRequest(device, "other")), StatusCode::kFailedPrecondition,
                 "only one virtual machine");
  EXPECT_TRUE(place_.ReadMountInfo(place_.Target("u1", "other")).is_null());
  ASSERT_OK(Unpublish(PublishRequest(device)));

  const std::string folder = folder_ / "mnt";
  std::filesystem::create_directories(folder);
  ASSERT_EQ(mount(device.c_str(), folder.c_str(), "ext4", 0, nullptr), 0);
  EXPECT_REFUSED(Publish(PublishRequest(device)), StatusCode::kFailedPrecondition, folder);
  ASSERT_EQ(umount(folder.c_str()), 0);
  {
    const base::UniqueFd machine = Open(device);
    EXPECT_REFUSED(Publish(PublishRequest(device)), StatusCode::kFailedPrecondition,
                   fmt::format("process {}", getpid()));
  }
  EXPECT_TRUE(HasNoRecord());
  ASSERT_OK(Publish(PublishRequest(device)));
  ASSERT_OK(Unpublish(PublishRequest(device)));
}

TEST_F(KataCallsTest, SandboxesThatOnlyReadShareADevice) {
  const std::string device = MakeDevice();
  auto one = PublishRequest(device, "one");
  auto two = PublishRequest(device, "two");
  for (auto* request : {&one, &two}) request->add_mount_options("ro");
  ASSERT_OK(Publish(one));
  const base::UniqueFd machine = Open(device);
  ASSERT_OK(Publish(two));
  ASSERT_OK(Unpublish(one));
  EXPECT_REFUSED(Unpublish(two), StatusCode::kFailedPrecondition, "still in use");
}

TEST_F(KataCallsTest, ADeviceIsFreeOnlyWhenNobodyHasItOpen) {
  const auto request = PublishRequest(MakeDevice());
  ASSERT_OK(Publish(request));
  {
    const base::UniqueFd machine = Open(request.host_volume_id());
    EXPECT_REFUSED(Unpublish(request), StatusCode::kFailedPrecondition,
                   fmt::format("process {}", getpid()));
    // No other container gets it, and it is not given out again.
    EXPECT_TRUE(place_.ReadMountInfo(request.host_target_path()).is_null());
    EXPECT_REFUSED(Publish(request), StatusCode::kFailedPrecondition, "is being unpublished");
  }
  EXPECT_TRUE(Unpublish(request).ok());
  EXPECT_TRUE(HasNoRecord());
}

TEST_F(KataCallsTest, OnlyADeviceWithThatFileSystemIsPublished) {
  EXPECT_REFUSED(Publish(PublishRequest(MakeDevice(""))), StatusCode::kFailedPrecondition,
                 "no file system");
  auto other = PublishRequest(MakeDevice());
  other.set_file_system("xfs");
  EXPECT_REFUSED(Publish(other), StatusCode::kFailedPrecondition, "ext4");
  EXPECT_TRUE(HasNoRecord());
}

TEST_F(KataCallsTest, WhatKataCannotDoIsRefusedInWords) {
  const std::string device = MakeDevice();
  auto labelled = PublishRequest(device);
  labelled.set_selinux_label("system_u:object_r:container_file_t:s0");
  EXPECT_REFUSED(Publish(labelled), StatusCode::kFailedPrecondition, "does not label");

  auto of_root = PublishRequest(device);
  of_root.set_fsgroup_gid(0);
  EXPECT_REFUSED(Publish(of_root), StatusCode::kFailedPrecondition, "fsGroup 0");

  const auto deep = PublishRequest(device, std::string(189, 'x'));
  EXPECT_REFUSED(Publish(deep), StatusCode::kFailedPrecondition, "longer than 189 bytes");

  place_.MakeSandbox("s2", "u1", KataRuntime::kRust);
  auto of_rust = PublishRequest(device);
  of_rust.set_sandbox_id("s2");
  of_rust.set_fsgroup_gid(4242);
  EXPECT_REFUSED(Publish(of_rust), StatusCode::kFailedPrecondition, "Rust runtime");

  auto missing = PublishRequest(device);
  missing.set_sandbox_id("s3");
  EXPECT_REFUSED(Publish(missing), StatusCode::kNotFound, "no sandbox");
  auto foreign = PublishRequest(device);
  foreign.set_host_target_path(place_.Target("u2", "pv"));
  EXPECT_REFUSED(Publish(foreign), StatusCode::kPermissionDenied, "does not belong");

  EXPECT_REFUSED(Expand(PublishRequest(device), 1).status(), StatusCode::kFailedPrecondition,
                 "does not let a mounted file system grow");
  EXPECT_TRUE(HasNoRecord());
}

TEST_F(KataCallsTest, TheRustRuntimeMountsVolumesAndGivesNoNumbers) {
  place_.MakeSandbox("s2", "u1", KataRuntime::kRust);
  auto request = PublishRequest(MakeDevice());
  request.set_sandbox_id("s2");
  ASSERT_OK(Publish(request));
  place_.NoteContainer(request.host_target_path(), "s2");
  EXPECT_REFUSED(AskStats(request).status(), StatusCode::kFailedPrecondition, "Rust runtime");
  ASSERT_OK(Unpublish(request));
}

TEST_F(KataCallsTest, WhatAnotherProgramToldKataIsLeftAlone) {
  const auto request = PublishRequest(MakeDevice());
  const std::string folder = place_.VolumeFolder(request.host_target_path());
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/mountInfo.json") << R"({"device":"/dev/other"})";
  EXPECT_REFUSED(Publish(request), StatusCode::kFailedPrecondition, "by another program");
  EXPECT_EQ(place_.ReadMountInfo(request.host_target_path())["device"], "/dev/other");
  EXPECT_TRUE(HasNoRecord());
}

TEST_F(KataCallsTest, AVolumeOfAPodHasAPlaceholderAndServesEachSandbox) {
  const auto request = PodRequest(MakeDevice());
  ASSERT_OK(Publish(request));
  const auto table = place_.mounter().List();
  ASSERT_OK(table);
  EXPECT_THAT(*table, Contains(testing::Field(&platform::MountEntry::mount_point,
                                              request.host_target_path())));
  EXPECT_FALSE(place_.ReadMountInfo(request.host_target_path()).is_null());
  EXPECT_REFUSED(AskStats(request).status(), StatusCode::kUnavailable, "no container");

  // The first sandbox has ended; the kubelet has made another one.
  FakeShim shim(place_.SandboxFolder("s1", KataRuntime::kGo) + "/shim-monitor.sock");
  shim.AnswerWith({FakeShim::Stats(1000, 10)});
  place_.NoteContainer(request.host_target_path(), "a-sandbox-that-ended");
  place_.NoteContainer(request.host_target_path(), "s1");
  const auto stats = AskStats(request);
  ASSERT_OK(stats);
  EXPECT_EQ(stats->usage(0).total(), 1000);

  EXPECT_REFUSED(Publish(PublishRequest(request.host_volume_id())), StatusCode::kFailedPrecondition,
                 "for each sandbox of the pod");
  ASSERT_OK(Unpublish(request));
  EXPECT_TRUE(HasNoRecord());
}

TEST_F(KataCallsTest, ARestartForgetsNothing) {
  const auto request = PublishRequest(MakeDevice());
  ASSERT_OK(Publish(request));
  ASSERT_OK(place_.Start());
  // The device is in use by now, and the call may be repeated nevertheless.
  {
    const base::UniqueFd machine = Open(request.host_volume_id());
    ASSERT_OK(Publish(request));
  }
  auto other = request;
  other.add_mount_options("noatime");
  EXPECT_REFUSED(Publish(other), StatusCode::kFailedPrecondition, "in another way");
  ASSERT_OK(Unpublish(request));
}

TEST_F(KataCallsTest, WhatASandboxThatEndedHadIsFreed) {
  const auto request = PublishRequest(MakeDevice());
  ASSERT_OK(Publish(request));
  place_.EndSandbox("s1");
  WaitUntil("the volume is unpublished", [&] { return HasNoRecord(); });
  EXPECT_FALSE(std::filesystem::exists(place_.VolumeFolder(request.host_target_path())));
  EXPECT_TRUE(Unpublish(request).ok());
}

TEST_F(KataCallsTest, WhatAPodHadThatLeftTheNodeIsFreed) {
  const auto request = PodRequest(MakeDevice());
  ASSERT_OK(Publish(request));
  ASSERT_EQ(umount(request.host_target_path().c_str()), 0);
  std::filesystem::remove_all(folder_ / "kubelet/pods/u1");
  WaitUntil("the volume is unpublished", [&] { return HasNoRecord(); });
  EXPECT_FALSE(std::filesystem::exists(place_.VolumeFolder(request.host_target_path())));
}

class KataShimTest : public KataCallsTest {
 protected:
  void SetUp() override {
    place_.options().offer.capabilities.push_back(Capability::VOLUME_RESIZE);
    KataCallsTest::SetUp();
    request_ = PublishRequest(MakeDevice());
    ASSERT_OK(Publish(request_));
    place_.NoteContainer(request_.host_target_path(), "s1");
    shim_ = std::make_unique<FakeShim>(place_.SandboxFolder("s1", KataRuntime::kGo) +
                                       "/shim-monitor.sock");
  }
  void TearDown() override {
    shim_.reset();
    EXPECT_TRUE(Unpublish(request_).ok());
    EXPECT_TRUE(HasNoRecord());
    KataCallsTest::TearDown();
  }
  void GrowDevice(uint64_t bytes) {
    std::filesystem::resize_file(folder_ / "image0", bytes);
    ASSERT_OK(platform::RefreshLoopSize(loops_.front()));
  }

  wire::RuntimePublishVolumeRequest request_;
  std::unique_ptr<FakeShim> shim_;
};

TEST_F(KataShimTest, AShimThatHangsIsAConditionAndNoHang) {
  place_.options().stats_time = std::chrono::milliseconds(200);
  ASSERT_OK(place_.Start());
  shim_->AnswerWith({""});
  const auto stats = AskStats(request_);
  ASSERT_OK(stats);
  EXPECT_TRUE(stats->volume_condition().abnormal());
  EXPECT_EQ(stats->usage_size(), 0);
}

TEST_F(KataShimTest, AShimThatDiedIsNotAVolumeThatIsGone) {
  shim_.reset();
  EXPECT_EQ(AskStats(request_).status().code(), StatusCode::kUnavailable);
  auto unknown = request_;
  unknown.set_host_volume_id("/dev/none");
  EXPECT_EQ(AskStats(unknown).status().code(), StatusCode::kNotFound);
}

TEST_F(KataShimTest, AnAgentThatCannotGrowAVolumeIsAFinalAnswer) {
  EXPECT_EQ(Expand(request_, 64 * kMiB).status().code(), StatusCode::kUnavailable);
  const auto now = Expand(request_, 16 * kMiB);
  ASSERT_OK(now);  // it has that size
  EXPECT_EQ(now->capacity_bytes(), 16 * kMiB);
  EXPECT_THAT(shim_->requests(), IsEmpty());

  GrowDevice(32 * kMiB);
  shim_->AnswerWith({FakeShim::Stats(1000, 10),
                     FakeShim::Answer("500 Internal Server Error",
                                      "resize_volume is not implemented in kata-agent")});
  EXPECT_REFUSED(Expand(request_, 32 * kMiB).status(), StatusCode::kFailedPrecondition,
                 "grows when it is staged next");
}

TEST_F(KataShimTest, GrowthIsBelievedOnlyIfTheNumbersShowIt) {
  GrowDevice(32 * kMiB);
  shim_->AnswerWith({FakeShim::Stats(1000, 10), FakeShim::Ok(""), FakeShim::Stats(1000, 10)});
  EXPECT_REFUSED(Expand(request_, 32 * kMiB).status(), StatusCode::kFailedPrecondition,
                 "1000 bytes as before");
  // A repeated call compares with the size before the first one, also after a restart.
  ASSERT_OK(place_.Start());
  shim_->AnswerWith({FakeShim::Ok(""), FakeShim::Stats(2000, 10)});
  const auto grown = Expand(request_, 32 * kMiB);
  ASSERT_OK(grown);
  EXPECT_EQ(grown->capacity_bytes(), 32 * kMiB);
  const size_t asked = shim_->requests().size();
  EXPECT_TRUE(Expand(request_, 32 * kMiB).ok()) << "it has grown already";
  EXPECT_EQ(shim_->requests().size(), asked);
}

}  // namespace
}  // namespace berth::crust::kata
