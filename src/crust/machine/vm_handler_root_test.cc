// The handler as a whole with sandboxes that are virtual machines, as a caller of the API and
// berth-oci see it.
#include <signal.h>

#include <thread>

#include "crust/handler_fixture.h"
#include "crust/machine/guest_fixture.h"

namespace berth::crust {
namespace {

class VmHandlerTest : public HandlerFixture {
 protected:
  void SetUp() override {
    const GuestKernel guest = FindGuestKernel();
    if (!guest.why.empty()) GTEST_SKIP() << guest.why;
    options_.sandbox = SandboxType::kVm;
    options_.guest = {.kernel = guest.kernel,
                      .modules = guest.modules,
                      .boot_within = std::chrono::minutes(4),
                      .answer_within = std::chrono::seconds(10)};
    HandlerFixture::SetUp();
  }

  base::StatusOr<wire::RuntimeGetVolumeStatsResponse> Stats(const platform::LoopDevice& device) {
    wire::RuntimeGetVolumeStatsRequest request;
    request.set_sandbox_id(sandbox_);
    request.set_host_volume_id(device.path);
    return client_->RuntimeGetVolumeStats(request, kCallTime);
  }
  size_t CountMachines() const { return CountIn("run/records/machines"); }
};

TEST_F(VmHandlerTest, ASandboxLivesAndEndsAndItsVolumeIsNoMountOfTheHost) {
  const platform::LoopDevice device = MakeDevice("ext4");
  Plan({"pv"});
  BeginSandbox();
  auto request = PublishRequest("pv", device, "ext4");
  request.set_fsgroup_gid(4242);
  ASSERT_OK(Publish(request));
  EXPECT_FALSE(IsFree(device));
  // A handler that starts anew goes on with the guest.
  Restart();
  ASSERT_OK(Publish(request));
  const auto stats = Stats(device);
  ASSERT_OK(stats);
  EXPECT_FALSE(stats->volume_condition().abnormal()) << stats->volume_condition().message();

  const Outcome refused = Create("c1", false, {{.source = Target("pv"), .path = "/data"}});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.out + refused.log, HasSubstr("guest of a virtual machine"));

  ASSERT_OK(Unpublish("pv", device));
  EXPECT_TRUE(IsFree(device));
  Delete(sandbox_);
  EXPECT_EQ(CountMachines(), 0u);
}

TEST_F(VmHandlerTest, ASandboxWhoseGuestHangsEndsAndItsDeviceIsFree) {
  const platform::LoopDevice device = MakeDevice("ext4");
  Plan({"pv"});
  BeginSandbox();
  ASSERT_OK(Publish(PublishRequest("pv", device, "ext4")));
  const auto records = MachineRecords::Open(options_.run_folder + "/records/machines");
  ASSERT_OK(records);
  const auto record = records->ReadRecord(sandbox_);
  ASSERT_OK(record);
  ASSERT_EQ(kill(record->daemon.pid, SIGSTOP), 0);
  Delete(sandbox_);
  // berth-oci does not wait for the guest, and the handler goes on alone.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(3);
  while (CountMachines() > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(CountMachines(), 0u);
  EXPECT_TRUE(IsFree(device));
  EXPECT_NE(kill(record->daemon.pid, 0), 0);
}

TEST_F(VmHandlerTest, WhatAGuestCannotDoIsRefusedWhenTheHandlerStarts) {
  handler_.reset();
  options_.shares = {"nfs4"};
  EXPECT_THAT(std::string(base::Message(CrustHandler::Start(options_).status())),
              HasSubstr("no network"));
  options_.shares = {};
  options_.guest.memory_mib = 1;
  EXPECT_EQ(CrustHandler::Start(options_).status().code(), StatusCode::kInvalidArgument);
  options_.guest.memory_mib = 256;
  options_.guest.modules = folder_ / "nothing";
  EXPECT_EQ(CrustHandler::Start(options_).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace berth::crust
