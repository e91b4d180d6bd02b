// The process of Kata's handler is killed at each of its fault points in turn, in the middle of a
// volume's life; the one that comes after it takes up the same calls, and ends with nothing left
// that Kata could read, nothing mounted, and no record.
#include <sys/mount.h>
#include <sys/wait.h>

#include <cstdlib>

#include "base/fault.h"
#include "crust/kata/fake_shim.h"
#include "crust/kata/kata_fixture.h"

namespace berth::crust::kata {
namespace {

constexpr int kWorkFailed = 3;

// Whose volume it is.
enum class Owner { kSandbox, kPod };

// A volume's whole life, each call such that it can be repeated from the start.
class Life {
 public:
  Life(Owner owner, const std::string& folder, std::string device)
      : owner_(owner), device_(std::move(device)), place_(folder) {}

  base::Status Start() {
    place_.options().offer.capabilities.push_back(wire::RuntimeCapability::RPC::VOLUME_RESIZE);
    place_.options().check_interval = std::chrono::hours(1);
    place_.MakeSandbox("s1", "u1");
    return place_.Start();
  }
  // `bytes`: the size to which the device has grown by now.
  base::Status Work(int64_t bytes) {
    RETURN_IF_ERROR(Publish());
    place_.NoteContainer(Target(), "s1");
    wire::RuntimeExpandVolumeRequest expand;
    NameOwner(expand);
    expand.set_host_volume_id(device_);
    expand.set_required_bytes(bytes);
    return place_.calls().RuntimeExpandVolume(expand).status();
  }
  base::Status Publish() {
    wire::RuntimePublishVolumeRequest publish;
    NameOwner(publish);
    publish.set_host_volume_id(device_);
    publish.set_host_target_path(Target());
    publish.set_file_system("ext4");
    return place_.calls().RuntimePublishVolume(publish).status();
  }
  base::Status End() {
    wire::RuntimeUnpublishVolumeRequest unpublish;
    NameOwner(unpublish);
    unpublish.set_host_volume_id(device_);
    unpublish.set_host_target_path(Target());
    return place_.calls().RuntimeUnpublishVolume(unpublish).status();
  }
  std::string Target() { return place_.Target("u1", "pv"); }
  KataPlace& place() { return place_; }

 private:
  template <typename Request>
  void NameOwner(Request& request) const {
    if (owner_ == Owner::kPod) {
      request.set_pod_uid("u1");
    } else {
      request.set_sandbox_id("s1");
    }
  }

  const Owner owner_;
  const std::string device_;
  KataPlace place_;
};

// A volume whose unpublishing has begun is not given out again.
bool IsBeingUnpublished(const base::Status& status) {
  return base::Message(status).find("is being unpublished") != std::string_view::npos;
}

class KataCrashTest : public testing::TestWithParam<Owner> {
 protected:
  static constexpr int64_t kGrown = 32 * kMiB;

  KataCrashTest() {
    const auto loop = platform::AttachLoop(folder_.SparseFile("image", 16 * kMiB), {});
    EXPECT_TRUE(loop.ok());
    loop_ = *loop;
    const auto exec = platform::NewHostExec();
    EXPECT_TRUE(platform::FindFileSystem("ext4")->Format(*exec, loop_.path, {}).ok());
  }
  ~KataCrashTest() override { EXPECT_TRUE(platform::DetachLoop(loop_).ok()); }

  void ResizeDevice(uint64_t bytes) {
    std::filesystem::resize_file(folder_ / "image", bytes);
    EXPECT_TRUE(platform::RefreshLoopSize(loop_).ok());
  }

  // Publishes the volume, has the device and then the file system grow, and unpublishes it, in a
  // process with these faults.
  int RunInProcess(const std::string& faults, const std::string& log) {
    ResizeDevice(16 * kMiB);
    const pid_t pid = fork();
    if (pid == 0) {
      setenv("BERTH_FAULTS", faults.c_str(), 1);
      if (!log.empty()) setenv("BERTH_FAULT_LOG", log.c_str(), 1);
      const base::Status lived = Live();
      if (!lived.ok()) fmt::print(stderr, "{}\n", base::ToString(lived));
      _exit(lived.ok() ? 0 : kWorkFailed);
    }
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return status;
  }
  base::Status Live() {
    RETURN_IF_ERROR(base::InitFaultPoints());
    Life life(GetParam(), Folder(), loop_.path);
    RETURN_IF_ERROR(life.Start());
    RETURN_IF_ERROR(life.Publish());
    FakeShim shim(ShimSocket(life));
    shim.AnswerWith({FakeShim::Stats(1000, 10), FakeShim::Ok(""), FakeShim::Stats(2000, 10)});
    ResizeDevice(kGrown);
    RETURN_IF_ERROR(life.Work(kGrown));
    return life.End();
  }
  // Takes up the calls after a process that failed somewhere.
  void Resume() {
    Life next(GetParam(), Folder(), loop_.path);
    ASSERT_OK(next.Start());
    ResizeDevice(kGrown);
    FakeShim shim(ShimSocket(next));
    // Each further answer has a higher total, as if the file system grew at each call.
    shim.AnswerWith({FakeShim::Stats(3000, 10), FakeShim::Ok(FakeShim::StatsBody(4000, 10)),
                     FakeShim::Stats(5000, 10)});
    const base::Status again = next.Work(kGrown);
    EXPECT_TRUE(again.ok() || IsBeingUnpublished(again)) << again;
    EXPECT_TRUE(next.End().ok());
    ExpectNothingLeft(next);
  }
  static std::string ShimSocket(Life& life) {
    return life.place().SandboxFolder("s1", KataRuntime::kGo) + "/shim-monitor.sock";
  }

  std::string Folder() const { return folder_ / "h"; }

  // The fault points that a life passes.
  std::vector<std::string> FaultPoints() {
    const std::string log = folder_ / "log";
    EXPECT_EQ(RunInProcess("", log), 0);
    std::filesystem::remove_all(Folder());
    std::ifstream lines(log);
    std::vector<std::string> names;
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("platform.loop_")) names.push_back(line);  // the test itself passes it
    }
    EXPECT_THAT(names,
                testing::IsSupersetOf(
                    {"crust.kata_record.write.before", "crust.kata_record.remove.after",
                     "crust.kata_mount_info.write.temp", "crust.kata_mount_info.remove.before",
                     "crust.kata_grow.before", "crust.kata_grow.after"}));
    return names;
  }

  void ExpectNothingLeft(Life& life) {
    const std::string volume = life.place().VolumeFolder(life.Target());
    EXPECT_FALSE(std::filesystem::exists(volume)) << volume;
    EXPECT_TRUE(std::filesystem::is_empty(Folder() + "/data/pods"));
    const auto table = life.place().mounter().List();
    ASSERT_OK(table);
    for (const auto& mount : *table) {
      EXPECT_FALSE(mount.mount_point.starts_with(Folder() + "/")) << mount.mount_point;
    }
    life.place().Stop();
    std::filesystem::remove_all(Folder());
  }

  const platform::TempFolder folder_;
  platform::LoopDevice loop_;
};

TEST_P(KataCrashTest, TheNextHandlerEndsWhatAKilledOneBegan) {
  for (const std::string& point : FaultPoints()) {
    SCOPED_TRACE(point);
    const int status = RunInProcess(point + "=crash", "");
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    Resume();
  }
}

TEST_P(KataCrashTest, ACallThatFailedAnywhereCanBeRepeated) {
  for (const std::string& point : FaultPoints()) {
    SCOPED_TRACE(point);
    ASSERT_TRUE(WIFEXITED(RunInProcess(point + "=error", "")));
    Resume();
  }
}

INSTANTIATE_TEST_SUITE_P(Owners, KataCrashTest, testing::Values(Owner::kSandbox, Owner::kPod),
                         [](const auto& test) {
                           return test.param == Owner::kPod ? "Pod" : "Sandbox";
                         });

}  // namespace
}  // namespace berth::crust::kata
