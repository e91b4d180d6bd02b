// Labels of volumes on a kernel with SELinux, enforcing or permissive, and the policy of
// tests/vm/selinux.cil.
#include <sys/wait.h>

#include <functional>

#include "crust/labelled_volume_fixture.h"
#include "platform/files/selinux.h"

namespace berth::crust {
namespace {

using base::StatusCode;
using testing::HasSubstr;

// Runs a container's process with these categories. Returns the errno that `work` returns, which is
// 0 if it succeeds.
int RunInContainer(const std::string& categories, const std::function<int()>& work) {
  const pid_t pid = fork();
  if (pid == 0) {
    const std::string label = "system_u:system_r:container_t:s0:" + categories;
    const int file = open("/proc/self/attr/current", O_WRONLY | O_CLOEXEC);
    if (write(file, label.data(), label.size()) < 0) _exit(255);
    _exit(work());
  }
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 254;
}

class SelinuxTest : public LabelledVolumeFixture {
 protected:
  void SetUp() override {
    ASSERT_TRUE(platform::KernelHasSelinux());
    std::ifstream("/sys/fs/selinux/enforce") >> enforcing_;
    LabelledVolumeFixture::SetUp();
  }

  // Has a container read a file of the volume.
  int Read(const MountPlan& plan, const std::string& categories) {
    const auto graft = sandbox_->MakeGraft(plan, "");
    EXPECT_TRUE(graft.ok()) << graft.status();
    return RunInContainer(categories, [&graft] {
      char byte;
      const int file = openat(graft->mount.get(), "folder/file", O_RDONLY | O_CLOEXEC);
      return file >= 0 && read(file, &byte, 1) == 1 ? 0 : errno;
    });
  }
  // Has a container with categories c1 and c2 make a file in the volume.
  int Make(const Graft& graft, const char* name) {
    return RunInContainer("c1,c2", [&] {
      const int file = openat(graft.mount.get(), name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
      return file >= 0 && write(file, "x", 1) == 1 ? 0 : errno;
    });
  }
  int IfEnforcing(int error) const { return enforcing_ == 1 ? error : 0; }

  int enforcing_ = -1;
};

TEST_F(SelinuxTest, EachFileGetsTheLabelAndSoDoNewOnes) {
  const auto as_it_was = PlanOf("", false);
  ASSERT_OK(as_it_was);
  ASSERT_OK(Publish(*as_it_was));
  ExpectLabels(*as_it_was, kOld);
  EXPECT_EQ(Read(*as_it_was, "c1,c2"), IfEnforcing(EACCES)) << "another type";
  ASSERT_OK(sandbox_->UnpublishVolume(*as_it_was));

  const auto plan = PlanOf(kNew, true);
  ASSERT_OK(plan);
  ASSERT_OK(Publish(*plan));
  ExpectLabels(*plan, kNew);
  EXPECT_EQ(Read(*plan, "c1,c2"), 0);
  EXPECT_EQ(Read(*plan, "c1,c3"), IfEnforcing(EACCES)) << "another pod's categories";
  {
    const auto graft = sandbox_->MakeGraft(*plan, "");
    ASSERT_OK(graft);
    EXPECT_EQ(Make(*graft, "folder/new"), 0);
    EXPECT_EQ(LabelOf(*graft, "folder/new"), kNew);
  }
  ASSERT_OK(sandbox_->UnpublishVolume(*plan));
}

TEST_F(SelinuxTest, AContextOfTheMountIsSeenOnEachFileAndWrittenToNone) {
  const auto plan = PlanOf(kNew, false);
  ASSERT_OK(plan);
  ASSERT_OK(Publish(*plan));
  ExpectLabels(*plan, kNew);
  EXPECT_EQ(Read(*plan, "c1,c2"), 0);
  EXPECT_EQ(Read(*plan, "c1,c3"), IfEnforcing(EACCES)) << "another pod's categories";
  {
    const auto graft = sandbox_->MakeGraft(*plan, "");
    ASSERT_OK(graft);
    EXPECT_EQ(Make(*graft, "folder/new"), 0);
    EXPECT_EQ(LabelOf(*graft, "folder/new"), kNew);
  }
  ASSERT_OK(sandbox_->UnpublishVolume(*plan));
  const auto as_it_is = PlanOf("", false);
  ASSERT_OK(as_it_is);
  ASSERT_OK(Publish(*as_it_is));
  ExpectLabels(*as_it_is, kOld);
  ASSERT_OK(sandbox_->UnpublishVolume(*as_it_is));
}

TEST_F(SelinuxTest, ALabelThatThePolicyDoesNotKnowIsRefused) {
  const auto plan = PlanOf("system_u:object_r:nothing_t:s0", true);
  EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(base::Message(plan.status()), HasSubstr("policy knows no label"));
}

TEST_F(SelinuxTest, FilesThatHaveTheLabelOfTheirMountCannotBeRelabelled) {
  const auto plan = PlanOf(kNew, true, {std::string("context=") + "system_u:object_r:secret_t:s0"});
  ASSERT_OK(plan);
  const base::Status refused = Publish(*plan);
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(base::Message(refused), HasSubstr("was mounted with one for all files"));
}

}  // namespace
}  // namespace berth::crust
