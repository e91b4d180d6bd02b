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
  // A process that is executed in a container of the guest, as containerd's shim asks for it.
  Outcome Shell(const std::string& id, const std::string& script) {
    const std::string file = Bundle(id) + "/process.json";
    Json process = {{"cwd", "/"},
                    {"args", {"/bin/sh", "-c", script}},
                    {"env", {"PATH=/bin"}},
                    {"user", {{"uid", 0}, {"gid", 0}}}};
    std::ofstream(file) << process;
    return Oci({"exec", "--process", file, id});
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

  ASSERT_OK(Unpublish("pv", device));
  EXPECT_TRUE(IsFree(device));
  Delete(sandbox_);
  EXPECT_EQ(CountMachines(), 0u);
}

TEST_F(VmHandlerTest, ThePodsContainersRunInTheGuestWithItsVolumes) {
  const platform::LoopDevice device = MakeDevice("ext4");
  Plan({"pv"});
  std::filesystem::create_directories(folder_ / "emptydir");
  std::ofstream(folder_ / "emptydir/hello") << "from the host";
  BeginSandbox();
  ASSERT_OK(Publish(PublishRequest("pv", device, "ext4")));
  StartContainer("c1", {{.source = Target("pv"), .path = "/data"},
                        {.source = folder_ / "emptydir", .path = "/more"}});
  // It is the guest's kernel: the volume is the guest's disk, and the host does not know the mount.
  EXPECT_EQ(Shell("c1", "echo kept > /data/file; cat /more/hello").out, "from the host");
  EXPECT_THAT(Shell("c1", "cat /proc/self/mounts").out, HasSubstr("/dev/sda /data ext4"));
  const Outcome failed = Shell("c1", "echo words >&2; exit 7");
  EXPECT_EQ(failed.exit_code, 7);
  EXPECT_EQ(failed.out, "words\n");
  // Both ways: what a container writes to a folder of the host is there.
  EXPECT_EQ(Shell("c1", "echo back > /more/answer").exit_code, 0);
  EXPECT_EQ(*platform::ReadFile(folder_ / "emptydir/answer"), "back\n");

  // Another container of the pod, by another handler: a subPath, read-only.
  Restart();
  EXPECT_EQ(Shell("c1", "mkdir /data/sub; echo deep > /data/sub/file").exit_code, 0);
  StartContainer("c2", {{.source = Target("pv") + "/sub", .path = "/data", .read_only = true}});
  EXPECT_EQ(Shell("c2", "cat /data/file").out, "deep\n");
  EXPECT_NE(Shell("c2", "touch /data/new").exit_code, 0);
  EXPECT_THAT(Oci({"state", "c2"}).out, HasSubstr("running"));
  Delete("c2");
  EXPECT_EQ(Shell("c1", "cat /data/file").out, "kept\n");
  const Outcome gone = Shell("c2", "true");
  EXPECT_NE(gone.exit_code, 0);

  // A container that asks for what a guest does not have is refused when it is created.
  MakeBundle("c3", false, {});
  Json config = *base::json::Parse(*platform::ReadFile(Bundle("c3") + "/config.json"));
  config["linux"]["devices"] = {
      {{"path", "/dev/disk"}, {"type", "b"}, {"major", 7}, {"minor", 4242}}};
  std::ofstream(Bundle("c3") + "/config.json") << config;
  const Outcome refused =
      Oci({"create", "--bundle", Bundle("c3"), "--pid-file", Bundle("c3") + "/pid", "c3"});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.out + refused.log, HasSubstr("devices of the host"));

  Delete("c1");
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
