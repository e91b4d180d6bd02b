#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "base/assert_ok.h"
#include "crust/handler_fixture.h"
#include "platform/processes/process_info.h"

namespace berth::crust {
namespace {

class HandlerTest : public HandlerFixture {
 protected:
  std::string Id(const std::string& name) const { return sandbox_ + "-" + name; }
};

// Looks all the time who sees a device in his mount table.
class Onlooker {
 public:
  Onlooker(dev_t device, std::string holders)
      : number_(fmt::format(" {}:{} ", major(device), minor(device))),
        holders_(std::move(holders)),
        thread_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) CheckProcesses();
        }) {}

  // By the names of the processes; those in a holder are not counted.
  std::set<std::string> End() {
    thread_.request_stop();
    thread_.join();
    EXPECT_GT(looks_, 10);
    return seen_;
  }

 private:
  static std::string Read(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  bool InHolder(const std::string& process) const {
    struct stat own{};
    if (stat((process + "/ns/mnt").c_str(), &own) != 0) return true;  // it is gone
    std::error_code error;
    for (const auto& pin : std::filesystem::directory_iterator(holders_, error)) {
      struct stat bound{};
      if (stat(pin.path().c_str(), &bound) == 0 && bound.st_ino == own.st_ino &&
          bound.st_dev == own.st_dev) {
        return true;
      }
    }
    return false;
  }
  void CheckProcesses() {
    for (const int pid : platform::ListNumbers("/proc")) {
      const std::string process = fmt::format("/proc/{}", pid);
      const std::string name = Read(process + "/comm");
      if (Read(process + "/mountinfo").find(number_) == std::string::npos) continue;
      if (!InHolder(process)) seen_.insert(name);
    }
    ++looks_;
  }

  const std::string number_;
  const std::string holders_;
  std::set<std::string> seen_;
  int looks_ = 0;
  std::jthread thread_;
};

TEST_F(HandlerTest, TwoContainersShareAVolumeThatTheHostNeverSees) {
  const auto device = MakeDevice("xfs");
  Onlooker onlooker(device.device, folder_ / "data/holders");
  Plan({"pv"});
  BeginSandbox();
  auto request = PublishRequest("pv", device, "xfs");
  ASSERT_TRUE(Publish(request).ok()) << Publish(request);
  EXPECT_TRUE(Publish(request).ok()) << "again";

  StartContainer(Id("one"), {{Target("pv"), "/data"}});
  EXPECT_EQ(Shell(Id("one"), "mkdir -p /data/a/b && echo hello > /data/a/b/file").exit_code, 0);
  StartContainer(Id("two"), {{Target("pv") + "/a/b", "/data", true}, {Target("pv"), "/more"}});
  EXPECT_EQ(Shell(Id("two"), "cat /data/file").out, "hello\n");
  EXPECT_EQ(Shell(Id("two"), "cat /more/a/b/file").out, "hello\n");
  EXPECT_NE(Shell(Id("two"), "touch /data/x").exit_code, 0) << "it is read-only";
  // containerd made the subPath's folders below the target on the host.
  EXPECT_TRUE(std::filesystem::exists(Target("pv") + "/a/b"));
  EXPECT_FALSE(std::filesystem::exists(Target("pv") + "/a/b/file"));

  // A handler that comes back finds all that it had, and a container starts again.
  Restart();
  EXPECT_EQ(Shell(Id("one"), "cat /data/a/b/file").out, "hello\n");
  Delete(Id("two"));
  StartContainer(Id("two"), {{Target("pv") + "/a", "/data"}});
  EXPECT_EQ(Shell(Id("two"), "cat /data/b/file").out, "hello\n");

  Delete(Id("one"));
  Delete(Id("two"));
  EXPECT_FALSE(IsFree(device)) << "the sandbox has it";
  Delete(sandbox_);
  EXPECT_TRUE(IsFree(device));
  EXPECT_EQ(CountIn("data/holders"), 0u);
  EXPECT_EQ(CountIn("run/records/sandboxes"), 0u);
  EXPECT_EQ(CountIn("run/sandboxes"), 0u);
  EXPECT_FALSE(std::filesystem::exists(Target("pv") + "/a")) << "empty leftovers are removed";
  EXPECT_TRUE(std::filesystem::exists(Target("pv")));

  // "exe" is runc once it runs from a copy of itself; sleep and sh are the containers'.
  const std::set<std::string> theirs = {
      "berth-oci\n", "runc\n", "exe\n", "runc:[0:PARENT]\n", "runc:[1:CHILD]\n", "runc:[2:INIT]\n",
      "sleep\n",     "sh\n",   "cat\n", "mkdir\n",           "touch\n"};
  for (const std::string& name : onlooker.End()) {
    EXPECT_TRUE(theirs.contains(name)) << "seen by " << name;
  }
}

TEST_F(HandlerTest, ASymlinkThatLeavesTheVolumeIsNoWayOut) {
  const auto device = MakeDevice("ext4", 64 * kMiB);
  Plan({"pv"});
  BeginSandbox();
  ASSERT_TRUE(Publish(PublishRequest("pv", device, "ext4")).ok());
  StartContainer(Id("one"), {{Target("pv"), "/data"}});
  ASSERT_EQ(Shell(Id("one"),
                  "ln -s / /data/root; ln -s ../../.. /data/up; mkdir /data/in; "
                  "ln -s in /data/inside; touch /data/in/x")
                .exit_code,
            0);
  const auto pid = platform::ReadFile(Bundle(Id("one")) + "/pid");
  ASSERT_EQ(
      mknod(fmt::format("/proc/{}/root/data/dev", *pid).c_str(), S_IFBLK | 0600, makedev(7, 0)), 0);
  for (const char* path : {"root", "up", "root/etc", "dev"}) {
    SCOPED_TRACE(path);
    // The kubelet hands the path on as it stands.
    MakeBundle(Id("two"), false, {});
    Json config = *base::json::Parse(*platform::ReadFile(Bundle(Id("two")) + "/config.json"));
    config["mounts"].push_back(
        {{"destination", "/data"}, {"source", Target("pv") + "/" + path}, {"options", {"rbind"}}});
    std::ofstream(Bundle(Id("two")) + "/config.json") << config;
    const Outcome created = Oci({"create", "--bundle", Bundle(Id("two")), Id("two")});
    EXPECT_EQ(created.exit_code, 1);
    EXPECT_THAT(created.log, HasSubstr("\"level\":\"error\""));
    EXPECT_THAT(created.log, HasSubstr(path));
  }
  StartContainer(Id("three"), {{Target("pv") + "/inside", "/data"}});
  EXPECT_EQ(Shell(Id("three"), "ls /data").out, "x\n");
  Delete(Id("three"));
  Delete(Id("one"));
  Delete(sandbox_);
  EXPECT_TRUE(IsFree(device));
}

TEST_F(HandlerTest, MoreMountsThanOneMessageHolds) {
  const auto device = MakeDevice("ext4", 64 * kMiB);
  Plan({"pv"});
  BeginSandbox();
  ASSERT_TRUE(Publish(PublishRequest("pv", device, "ext4")).ok());
  std::vector<TestMount> mounts;
  for (int i = 0; i < 40; ++i) {
    mounts.push_back({fmt::format("{}/d{}", Target("pv"), i), fmt::format("/data/m{}", i)});
  }
  StartContainer(Id("one"), mounts);
  EXPECT_EQ(Shell(Id("one"), "for i in 0 17 39; do echo $i > /data/m$i/x; done").exit_code, 0);
  StartContainer(Id("two"), {{Target("pv"), "/data"}, {Target("pv") + "/d39/x", "/more/file"}});
  EXPECT_EQ(Shell(Id("two"), "cat /data/d0/x /data/d17/x /more/file").out, "0\n17\n39\n");
  Delete(Id("one"));
  Delete(Id("two"));
  Delete(sandbox_);
  EXPECT_TRUE(IsFree(device));
}

TEST_F(HandlerTest, AContainerNeverGetsThePlainFolderOfTheHost) {
  const auto device = MakeDevice("ext4", 64 * kMiB);
  Plan({"pv"});
  BeginSandbox();
  // The volume is not published yet.
  Outcome created = Create(Id("one"), false, {{Target("pv"), "/data"}});
  EXPECT_EQ(created.exit_code, 1);
  EXPECT_THAT(created.log, HasSubstr("is not in sandbox"));
  ASSERT_TRUE(Publish(PublishRequest("pv", device, "ext4")).ok());
  // The path of the volume is spelled in another way.
  StartContainer(Id("one"), {{options_.kubelet_folder + "/./pods//" + uid_ +
                                  "/volumes/x/../kubernetes.io~csi/pv/mount/",
                              "/data"}});
  EXPECT_THAT(Shell(Id("one"), "ls /data").out, HasSubstr("lost+found"));
  // A config that was made ready for another create.
  std::filesystem::remove(Bundle(Id("one")) + "/config.json.berth-original");
  created = Oci({"create", "--bundle", Bundle(Id("one")), Id("again")});
  EXPECT_EQ(created.exit_code, 1);
  EXPECT_THAT(created.log, HasSubstr("made ready before"));
  Delete(Id("one"));
  // Nobody is there to ask.
  handler_.reset();
  created = Create(Id("two"), false, {{Target("pv"), "/data"}});
  EXPECT_EQ(created.exit_code, 1);
  EXPECT_THAT(created.log, HasSubstr("CRUST handler, which is not there"));
  // A pod without a plan needs nobody.
  std::filesystem::remove(base::ipc::crust::PlanPath(options_.run_folder, uid_));
  StartContainer(Id("three"), {});
  Delete(Id("three"));
  Restart();
  Delete(sandbox_);
  EXPECT_TRUE(IsFree(device));
}

TEST_F(HandlerTest, RefusesWhatIsForged) {
  const auto device = MakeDevice("ext4", 64 * kMiB);
  Plan({"pv"});
  BeginSandbox();
  const auto refused = [&](StatusCode code, auto change) {
    auto request = PublishRequest("pv", device, "ext4");
    change(request);
    const base::Status status = Publish(request);
    EXPECT_EQ(status.code(), code) << status << "\n" << request.ShortDebugString();
  };
  using Request = wire::RuntimePublishVolumeRequest;
  refused(StatusCode::kInvalidArgument, [](Request& r) { r.set_sandbox_id("../data"); });
  refused(StatusCode::kInvalidArgument, [](Request& r) { r.set_sandbox_id(""); });
  refused(StatusCode::kNotFound, [](Request& r) { r.set_sandbox_id("s0"); });
  refused(StatusCode::kPermissionDenied, [](Request& r) { r.set_host_target_path("/etc"); });
  refused(StatusCode::kInvalidArgument,
          [&](Request& r) { r.set_host_target_path(Target("pv") + "/../../x/mount"); });
  refused(StatusCode::kPermissionDenied, [&](Request& r) {
    std::string other = Target("pv");
    other.replace(other.find(uid_), uid_.size(), base::NewUuid());
    r.set_host_target_path(other);
  });
  refused(StatusCode::kFailedPrecondition,
          [&](Request& r) { r.set_host_target_path(Target("unplanned")); });
  refused(StatusCode::kInvalidArgument, [](Request& r) { r.set_host_volume_id("/etc/passwd"); });
  refused(StatusCode::kInvalidArgument, [](Request& r) { r.set_host_volume_id("loop0"); });
  refused(StatusCode::kNotFound, [](Request& r) { r.set_host_volume_id("/dev/no-such"); });
  refused(StatusCode::kFailedPrecondition, [](Request& r) { r.set_file_system("vfat"); });
  refused(StatusCode::kFailedPrecondition, [](Request& r) { r.set_file_system("tmpfs"); });
  refused(StatusCode::kInvalidArgument, [](Request& r) { r.add_mount_options("a\nb"); });
  refused(StatusCode::kInvalidArgument, [](Request& r) { r.add_mount_options("no-such-option"); });
  refused(StatusCode::kInvalidArgument, [](Request& r) { r.set_fsgroup_gid(-1); });
  refused(StatusCode::kInvalidArgument, [](Request& r) {
    r.set_fsgroup_gid(1);
    r.set_fsgroup_policy("Sometimes");
  });
  EXPECT_TRUE(IsFree(device)) << "nothing of all that was mounted";

  // What failed may be asked for in another way; what is done may not.
  ASSERT_TRUE(Publish(PublishRequest("pv", device, "ext4")).ok());
  refused(StatusCode::kFailedPrecondition, [](Request& r) { r.add_mount_options("ro"); });
  const auto other = MakeDevice("ext4", 64 * kMiB);
  refused(StatusCode::kFailedPrecondition, [&](Request& r) { r.set_host_volume_id(other.path); });
  EXPECT_TRUE(Unpublish("pv", device).ok());
  EXPECT_TRUE(Unpublish("pv", device).ok());
  EXPECT_TRUE(IsFree(device));
  Delete(sandbox_);
}

TEST_F(HandlerTest, TellsUsageAndThatAFileSystemCanBeWrittenNoMore) {
  for (const char* type : {"ext4", "xfs"}) {
    SCOPED_TRACE(type);
    const auto device = MakeDevice(type);
    const std::string volume = std::string("pv-") + type;
    Plan({"pv-ext4", "pv-xfs"});
    if (containers_.empty()) BeginSandbox();
    ASSERT_TRUE(Publish(PublishRequest(volume, device, type)).ok());
    wire::RuntimeGetVolumeStatsRequest request;
    request.set_sandbox_id(sandbox_);
    request.set_host_volume_id(device.path);
    auto stats = client_->RuntimeGetVolumeStats(request, kCallTime);
    ASSERT_TRUE(stats.ok()) << stats.status();
    ASSERT_EQ(stats->usage_size(), 2);
    EXPECT_GT(stats->usage(0).total(), static_cast<int64_t>(200 * kMiB));
    EXPECT_EQ(stats->usage(0).unit(), wire::VolumeUsage::BYTES);
    EXPECT_EQ(stats->usage(1).unit(), wire::VolumeUsage::INODES);
    EXPECT_FALSE(stats->volume_condition().abnormal()) << stats->volume_condition().message();

    const std::string id = Id(type);
    StartContainer(id, {{Target(volume), "/data"}});
    // The file system is shut down (FS_IOC_SHUTDOWN) by the container's path of it.
    const auto pid = platform::ReadFile(Bundle(id) + "/pid");
    const base::UniqueFd root(
        open(fmt::format("/proc/{}/root/data", *pid).c_str(), O_RDONLY | O_DIRECTORY));
    ASSERT_TRUE(root.valid());
    uint32_t how = 2;  // without writing the log
    ASSERT_EQ(ioctl(root.get(), _IOR('X', 125, uint32_t), &how), 0) << strerror(errno);
    stats = client_->RuntimeGetVolumeStats(request, kCallTime);
    ASSERT_TRUE(stats.ok()) << stats.status();
    EXPECT_TRUE(stats->volume_condition().abnormal()) << stats->volume_condition().message();
  }
  for (const char* type : {"ext4", "xfs"}) Delete(Id(type));
  Delete(sandbox_);
  for (const auto& device : loops_) EXPECT_TRUE(IsFree(device));
}

TEST_F(HandlerTest, GrowsWhileContainersUseIt) {
  const auto device = MakeDevice("xfs");
  Plan({"pv"});
  BeginSandbox();
  ASSERT_TRUE(Publish(PublishRequest("pv", device, "xfs")).ok());
  StartContainer(Id("one"), {{Target("pv"), "/data"}});
  wire::RuntimeExpandVolumeRequest request;
  request.set_sandbox_id(sandbox_);
  request.set_host_volume_id(device.path);
  request.set_required_bytes(static_cast<int64_t>(640 * kMiB));
  auto grown = client_->RuntimeExpandVolume(request, kCallTime);
  EXPECT_EQ(grown.status().code(), StatusCode::kUnavailable) << "the device comes first";
  std::filesystem::resize_file(folder_ / "image0", 640 * kMiB);
  ASSERT_TRUE(platform::RefreshLoopSize(device).ok());
  grown = client_->RuntimeExpandVolume(request, kCallTime);
  ASSERT_TRUE(grown.ok()) << grown.status();
  EXPECT_GT(grown->capacity_bytes(), static_cast<int64_t>(500 * kMiB));
  EXPECT_THAT(Shell(Id("one"), "df -m /data").out, testing::ContainsRegex(" (5|6)[0-9][0-9] "));
  grown = client_->RuntimeExpandVolume(request, kCallTime);
  EXPECT_TRUE(grown.ok()) << "again: " << grown.status();
  Delete(Id("one"));
  Delete(sandbox_);
  EXPECT_TRUE(IsFree(device));
}

TEST_F(HandlerTest, GivesAVolumeToThePodsGroupBeforeAnybodyHasIt) {
  const auto device = MakeDevice("xfs");
  Plan({"pv"});
  BeginSandbox();
  auto request = PublishRequest("pv", device, "xfs");
  ASSERT_TRUE(Publish(request).ok());
  StartContainer(Id("one"), {{Target("pv"), "/data"}});
  ASSERT_EQ(Shell(Id("one"), "mkdir /data/d; touch /data/d/f; ln -s /bin/sh /data/l").exit_code, 0);
  Delete(Id("one"));
  ASSERT_TRUE(Unpublish("pv", device).ok());
  request.set_fsgroup_gid(4242);
  request.set_fsgroup_policy("OnRootMismatch");
  ASSERT_TRUE(Publish(request).ok());
  StartContainer(Id("one"), {{Target("pv"), "/data"}});
  EXPECT_EQ(
      Shell(Id("one"), "stat -c '%g %a' /data /data/d /data/d/f; stat -c %g /data/l /bin/sh").out,
      "4242 2775\n4242 2775\n4242 664\n4242\n0\n");
  Delete(Id("one"));
  Delete(sandbox_);
  EXPECT_TRUE(IsFree(device));
}

TEST_F(HandlerTest, ASandboxWhoseBundleIsGoneIsOver) {
  const auto device = MakeDevice("ext4", 64 * kMiB);
  Plan({"pv"});
  BeginSandbox();
  ASSERT_TRUE(Publish(PublishRequest("pv", device, "ext4")).ok());
  // Its end was told to nobody: the handler was away.
  handler_.reset();
  Delete(sandbox_);
  EXPECT_FALSE(IsFree(device));
  Restart();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (CountIn("run/records/sandboxes") > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(CountIn("run/records/sandboxes"), 0u);
  EXPECT_TRUE(IsFree(device));
}

TEST_F(HandlerTest, ADeviceThatAContainerStillHasIsNotGivenBack) {
  options_.free_within = std::chrono::milliseconds(100);
  Restart();
  const auto device = MakeDevice("ext4", 64 * kMiB);
  Plan({"pv"});
  BeginSandbox();
  ASSERT_TRUE(Publish(PublishRequest("pv", device, "ext4")).ok());
  StartContainer(Id("one"), {{Target("pv"), "/data"}});
  const base::Status busy = Unpublish("pv", device);
  EXPECT_EQ(busy.code(), StatusCode::kFailedPrecondition) << busy;
  EXPECT_THAT(std::string(base::Message(busy)), HasSubstr("'sleep'")) << busy;
  Restart();
  EXPECT_EQ(Unpublish("pv", device).code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(Create(Id("two"), false, {{Target("pv"), "/data"}}).exit_code, 0)
      << "what is being unpublished is given to nobody";
  Delete(Id("one"));
  EXPECT_TRUE(Unpublish("pv", device).ok());
  EXPECT_TRUE(IsFree(device));
  Delete(sandbox_);
}

TEST_F(HandlerTest, AReaderBesideAWriterHasAMountOfTheOneFileSystem) {
  const auto device = MakeDevice("ext4", 64 * kMiB);
  Plan({"pv"});
  BeginSandbox();
  ASSERT_OK(Publish(PublishRequest("pv", device, "ext4")));
  StartContainer(Id("one"), {{Target("pv"), "/data"}});
  ASSERT_EQ(Shell(Id("one"), "echo hello > /data/file").exit_code, 0);
  const auto writer = BeAnotherPod();
  Plan({"pv"});
  BeginSandbox();
  auto request = PublishRequest("pv", device, "ext4");
  request.add_mount_options("ro");
  ASSERT_OK(Publish(request));
  StartContainer(Id("one"), {{Target("pv"), "/data"}});
  EXPECT_EQ(Shell(Id("one"), "cat /data/file").out, "hello\n");
  EXPECT_NE(Shell(Id("one"), "touch /data/x").exit_code, 0);
  Delete(Id("one"));
  // It is not waited for a device that another sandbox has.
  ASSERT_OK(Unpublish("pv", device));
  Delete(sandbox_);
  EXPECT_FALSE(IsFree(device));
  std::tie(uid_, sandbox_) = writer;
  Delete(Id("one"));
  ASSERT_OK(Unpublish("pv", device));
  EXPECT_TRUE(IsFree(device));
  Delete(sandbox_);
}

TEST_F(HandlerTest, WhatTheHostHasMountedThereIsNotMountedInTheSandbox) {
  const auto device = MakeDevice("ext4", 64 * kMiB);
  Plan({"pv"});
  BeginSandbox();
  ASSERT_OK(mounter_->Mount({.source = device.path, .target = Target("pv"), .fs_type = "ext4"}));
  const base::Status refused = Publish(PublishRequest("pv", device, "ext4"));
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(base::Message(refused), HasSubstr("mounted on the host"));
  ASSERT_OK(mounter_->Unmount(Target("pv")));
  ASSERT_OK(Publish(PublishRequest("pv", device, "ext4")));
  Delete(sandbox_);
  EXPECT_TRUE(IsFree(device));
}

TEST_F(HandlerTest, ANameThatLeadsToAnotherDeviceIsNotBelieved) {
  const auto device = MakeDevice("ext4", 64 * kMiB);
  const auto other = MakeDevice("ext4", 64 * kMiB);
  const std::string link = folder_ / "disk";
  std::filesystem::create_symlink(device.path, link);
  Plan({"pv"});
  BeginSandbox();
  auto request = PublishRequest("pv", device, "ext4");
  request.set_host_volume_id(link);
  ASSERT_TRUE(Publish(request).ok());
  std::filesystem::remove(link);
  std::filesystem::create_symlink(other.path, link);
  EXPECT_EQ(Publish(request).code(), StatusCode::kFailedPrecondition);
  wire::RuntimeExpandVolumeRequest expand;
  expand.set_sandbox_id(sandbox_);
  expand.set_host_volume_id(link);
  const auto grown = client_->RuntimeExpandVolume(expand, kCallTime);
  EXPECT_EQ(grown.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(base::Message(grown.status())), HasSubstr("another device"));
  Delete(sandbox_);
  EXPECT_TRUE(IsFree(device));
}

// The kernel mounts a btrfs from all devices that have its UUID.
TEST_F(HandlerTest, AVolumeIsNeverAPartOfALargerBtrfs) {
  const auto one = MakeDevice("btrfs");
  const auto two = MakeDevice("btrfs");
  ASSERT_OK(platform::RunOk(*exec_, {.argv = {"mkfs.btrfs", "-q", "-f", one.path, two.path}}));
  ASSERT_OK(platform::RunOk(*exec_, {.argv = {"btrfs", "device", "scan", one.path, two.path}}));
  Plan({"pv"});
  BeginSandbox();
  const base::Status refused = Publish(PublishRequest("pv", one, "btrfs"));
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(std::string(base::Message(refused)), HasSubstr("consists of 2 devices"));
}

}  // namespace
}  // namespace berth::crust
