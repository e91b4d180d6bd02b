// A handler's process is killed at each fault point of a machine's life; the one that comes after
// it takes up the same calls, with the machine that it finds, and nothing is left at the end. Each
// point boots a guest or two, so a run takes every third of them; BERTH_CRASH_WALK=all takes all.
#include <sys/wait.h>

#include "base/fault.h"
#include "crust/containers/guest_containers.h"
#include "crust/machine/guest_fixture.h"

namespace berth::crust {
namespace {

class VmCrashTest : public GuestFixture {
 protected:
  // A sandbox's whole life; each call can be repeated.
  base::Status Work(const MountPlan& plan) {
    RETURN_IF_ERROR(OpenKind());
    ASSIGN_OR_RETURN(const std::unique_ptr<Sandbox> sandbox, kind_->OpenSandbox("s1"));
    RETURN_IF_ERROR(sandbox->containers()->Begin({.hostname = "web"}));
    RETURN_IF_ERROR(sandbox->PublishVolume(plan, {}));
    RETURN_IF_ERROR(sandbox->ExpandVolume(plan));
    RETURN_IF_ERROR(sandbox->UnpublishVolume(plan));
    return sandbox->RemoveSandbox();
  }

  int WorkInProcess(const MountPlan& plan, const std::string& faults, const std::string& log) {
    const pid_t pid = fork();
    if (pid == 0) {
      setenv("BERTH_FAULTS", faults.c_str(), 1);
      if (!log.empty()) setenv("BERTH_FAULT_LOG", log.c_str(), 1);
      base::Status done = base::InitFaultPoints();
      if (done.ok()) done = Work(plan);
      if (!done.ok()) fmt::print(stderr, "{}\n", base::ToString(done));
      _exit(done.ok() ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return status;
  }

  void ExpectNothingLeft(const platform::LoopDevice& device) {
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "records"));
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "machines"));
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "pins"));
    EXPECT_TRUE(IsFree(device));
  }
};

TEST_F(VmCrashTest, TheNextHandlerEndsWhatAKilledOneBegan) {
  const platform::LoopDevice device = MakeDevice("ext4");
  const MountPlan plan = Plan(device, "ext4");
  const std::string log = folder_ / "log";
  ASSERT_EQ(WorkInProcess(plan, "", log), 0);
  ExpectNothingLeft(device);
  std::ifstream lines(log);
  std::vector<std::string> points;
  for (std::string line; std::getline(lines, line);) points.push_back(line);
  EXPECT_THAT(points, testing::IsSupersetOf(
                          {"crust.guest.shared", "crust.machine.start", "crust.machine.started",
                           "crust.machine.passed", "crust.machine.opened", "crust.machine.plugged",
                           "crust.mount.after", "crust.machine.unmounted",
                           "crust.machine.unplugged", "crust.machine.end", "crust.machine.ended"}));
  const char* walk = std::getenv("BERTH_CRASH_WALK");
  const size_t step = walk != nullptr && std::string_view(walk) == "all" ? 1 : 3;
  for (size_t i = static_cast<size_t>(getpid()) % step; i < points.size(); i += step) {
    const std::string& point = points[i];
    SCOPED_TRACE(point);
    const int status = WorkInProcess(plan, point + "=crash", "");
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    base::Status again = Work(plan);
    // The sandbox was being removed, so a handler only goes on with that.
    if (again.code() == base::StatusCode::kUnavailable) {
      ASSERT_OK(Open()->RemoveSandbox());
      again = Work(plan);
    }
    ASSERT_OK(again);
    ExpectNothingLeft(device);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace berth::crust
