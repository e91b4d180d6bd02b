#include "node/utilities/utility_service.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <latch>

#include "base/ipc/connection.h"
#include "base/ipc/utility_call.h"
#include "node/utilities/utility_command.h"
#include "platform/files/fake_temp_folder.h"
#include "volume/fake_host.h"

namespace berth::node {
namespace {

namespace ipc = base::ipc;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

ipc::Message Request(const Words& argv, const Words& env = {}, const std::string& folder = "/") {
  return ipc::Message()
      .Set(ipc::kMethod, std::string(ipc::utility::kRun))
      .Set(ipc::utility::kPlugin, "kubernetes.io/glusterfs")
      .Set(ipc::utility::kArguments, argv)
      .Set(ipc::utility::kEnvironment, env)
      .Set(ipc::utility::kFolder, folder);
}

// The exec of a pod is one of this host, or a fake.
class UtilityServiceTest : public ::testing::Test {
 protected:
  void Start(platform::Exec& pod, std::function<void()> cancel = nullptr) {
    auto service =
        UtilityService::Start({.socket = folder_ / "run/utilities.sock",
                               .kubelet_folder = folder_ / "kubelet",
                               .in_pod = [this, &pod](std::string_view plugin) -> platform::Exec& {
                                 plugins_.emplace_back(plugin);
                                 return pod;
                               },
                               .cancel = std::move(cancel),
                               .peer = geteuid()},
                              mounter_);
    ASSERT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
  }
  ipc::Result<ipc::Message> CallService(const ipc::Message& request) {
    return ipc::Call(folder_ / "run/utilities.sock", request,
                     ipc::DeadlineIn(std::chrono::seconds(60)), geteuid());
  }
  // What the pod was asked to run, without what goes around it.
  static Words Ran(const platform::Command& command) {
    return {command.argv.begin() + 4, command.argv.end()};
  }

  platform::TempFolder folder_;
  volume::FakeMounter mounter_;
  volume::FakeExec fake_;
  const std::unique_ptr<platform::Exec> host_ = platform::NewHostExec();
  Words plugins_;
  std::unique_ptr<UtilityService> service_;
};

TEST_F(UtilityServiceTest, TheSocketGoesWithTheService) {
  Start(fake_);
  const std::string socket = folder_ / "run/utilities.sock";
  EXPECT_TRUE(std::filesystem::is_socket(socket));
  service_.reset();
  EXPECT_FALSE(std::filesystem::exists(socket));
}

TEST_F(UtilityServiceTest, RunsTheUtilityWithItsArgumentsEnvironmentAndFolder) {
  Start(*host_);
  const std::string below = folder_ / "kubelet/pods";
  ASSERT_TRUE(platform::RunOk(*host_, {.argv = {"mkdir", "-p", below}}).ok());
  const auto reply = CallService(
      Request({"sh", "-c", R"(echo "$1|$A|$B|$LD_X|${C-unset}"; pwd; echo wrong >&2; exit 7)", "x",
               "it's \"one\" $(word)\n"},
              {"A=b c", "B=it's\n$(x)", "LD_X=host's", "PATH=/nowhere", "not a name=1", "no value"},
              below));
  ASSERT_TRUE(reply.ok()) << reply.failure().text;
  EXPECT_EQ(reply->FindNumber(ipc::utility::kExit), 7);
  EXPECT_EQ(*reply->FindText(ipc::utility::kOut),
            "it's \"one\" $(word)\n|b c|it's\n$(x)||unset\n" + below + "\n");
  EXPECT_EQ(*reply->FindText(ipc::utility::kErr), "wrong\n");
  EXPECT_THAT(plugins_, ElementsAre("kubernetes.io/glusterfs"));
}

TEST_F(UtilityServiceTest, SaysThatThePodHasNoSuchUtility) {
  Start(*host_);
  const auto reply = CallService(Request({"mkfs.nowhere"}));
  EXPECT_EQ(reply.failure().text, "the pod of kubernetes.io/glusterfs has no 'mkfs.nowhere'");
}

TEST_F(UtilityServiceTest, SaysWhyThePodDidNotRunIt) {
  Start(fake_);
  fake_.SetAnswer([](const platform::Command&) {
    return base::Error(base::StatusCode::kFailedPrecondition, "no pod is registered");
  });
  const auto reply = CallService(Request({"mkfs.xfs", "/dev/loop7"}));
  EXPECT_EQ(reply.failure().problem, ipc::Problem::kRefused);
  EXPECT_EQ(reply.failure().text, "no pod is registered");
}

TEST_F(UtilityServiceTest, MountsWhereTheHostSeesIt) {
  Start(fake_);
  const std::string target = folder_ / "kubelet/pods/a/b";
  fake_.SetAnswer([&](const platform::Command& command) -> base::StatusOr<platform::CommandResult> {
    EXPECT_TRUE(command.leaves_daemon);
    mounter_.Add(target, "fuse.glusterfs", "10.0.0.7:/v");
    return platform::CommandResult{.out = "mounted"};
  });
  const auto reply = CallService(Request({"mount.glusterfs", "10.0.0.7:/v", target, "-o", "rw"}));
  ASSERT_TRUE(reply.ok()) << reply.failure().text;
  EXPECT_EQ(*reply->FindText(ipc::utility::kOut), "mounted");
  ASSERT_EQ(fake_.commands().size(), 1U);
  EXPECT_THAT(Ran(fake_.commands()[0]),
              ElementsAre("mount.glusterfs", "10.0.0.7:/v", target, "-o", "rw"));
}

TEST_F(UtilityServiceTest, TakesAMountAwayThatStaysInThePod) {
  Start(fake_);
  const std::string target = folder_ / "kubelet/pods/a/b";
  const auto reply = CallService(Request({"mount.glusterfs", "10.0.0.7:/v", target}));
  EXPECT_THAT(reply.failure().text, HasSubstr("Bidirectional"));
  ASSERT_EQ(fake_.commands().size(), 2U);
  EXPECT_THAT(fake_.commands()[1].argv, ElementsAre("umount", target));
}

TEST_F(UtilityServiceTest, RefusesAMountThatTheHostWouldNotSee) {
  Start(fake_);
  for (const std::string& target :
       {std::string("/mnt"), folder_ / "kubelet", folder_ / "kubelet/../x", folder_ / "kubelets"}) {
    const auto reply = CallService(Request({"mount.glusterfs", "10.0.0.7:/v", target}));
    EXPECT_THAT(reply.failure().text, HasSubstr("can mount only below")) << target;
  }
  EXPECT_THAT(fake_.commands(), IsEmpty());
}

TEST_F(UtilityServiceTest, RefusesWhatNoShimSends) {
  Start(fake_);
  for (const ipc::Message& request :
       {Request({}), Request({""}), Request({"../../bin/sh"}), Request({"-c"}), Request({"A=b"}),
        Request({"mkfs.xfs", std::string("a\0b", 3)}), Request({"x", std::string(200'000, 'x')}),
        Request({"x"}, {"A=" + std::string(200'000, 'x')}),
        Request({"x"}).Set(ipc::utility::kPlugin, ""),
        Request({"x"}).Set(ipc::utility::kFolder, int64_t{7})}) {
    EXPECT_EQ(CallService(request).failure().problem, ipc::Problem::kRefused);
  }
  EXPECT_THAT(fake_.commands(), IsEmpty());
}

TEST_F(UtilityServiceTest, CancelsWhatRunsWhenItEnds) {
  std::latch running(1), cancelled(1);
  Start(fake_, [&] { cancelled.count_down(); });
  fake_.SetAnswer([&](const platform::Command&) -> base::StatusOr<platform::CommandResult> {
    running.count_down();
    cancelled.wait();
    return base::Error(base::StatusCode::kCancelled, "the agent ends");
  });
  std::jthread asking(
      [&] { EXPECT_EQ(CallService(Request({"mkfs.xfs"})).failure().text, "the agent ends"); });
  running.wait();
  service_.reset();
}

TEST(UtilityCommandTest, KnowsWhereAUtilityMounts) {
  const auto targets = [](const Words& argv) {
    return FindMountTargets({.plugin = "p", .argv = argv}, "/k").value_or(Words{"refused"});
  };
  EXPECT_THAT(targets({"mount.nfs", "s:/x", "/k/a", "-o", "rw,a", "-v"}), ElementsAre("/k/a"));
  EXPECT_THAT(targets({"mount.nfs", "-o", "rw", "-N", "/proc/1/ns/mnt", "-sn", "s:/x", "/k/a"}),
              ElementsAre("/k/a"));
  EXPECT_THAT(targets({"mount.nfs", "-orf", "s:/x", "/k/a"}), ElementsAre("/k/a"));
  EXPECT_THAT(targets({"ceph-fuse", "-k", "/etc/key", "-m", "10.0.0.7", "/k/a", "-r", "/"}),
              ElementsAre("/k/a"));
  for (const char* target : {"/mnt", "/k", "/k/../x", "/k/..", "/ka"}) {
    EXPECT_THAT(targets({"mount.nfs", "s:/x", target}), ElementsAre("refused")) << target;
    EXPECT_THAT(targets({"ceph-fuse", "-r", "/", target}), ElementsAre("refused")) << target;
  }
  // Nothing is mounted.
  EXPECT_THAT(targets({"mount.nfs", "s:/x", "/k/a", "-f"}), IsEmpty());
  EXPECT_THAT(targets({"mount.nfs", "s:/x", "/k/a", "-sfv"}), IsEmpty());
  EXPECT_THAT(targets({"mount.nfs", "--help"}), IsEmpty());
  EXPECT_THAT(targets({"ceph-fuse", "--version"}), IsEmpty());
  EXPECT_THAT(targets({"mkfs.xfs", "/dev/a", "/dev/b"}), IsEmpty());
}

TEST(UtilityCommandTest, KeepsTheEnvironmentOutOfTheArguments) {
  const UtilityCall call{.plugin = "p",
                         .argv = {"mount.cifs", "//s/x", "/k/x"},
                         .env = {"PASSWD=secret", "PATH=/host"},
                         .folder = "/home"};
  const platform::Command command = CommandOf(call, "/k");
  for (const std::string& word : command.argv) EXPECT_THAT(word, Not(HasSubstr("secret")));
  EXPECT_THAT(command.env, IsEmpty());
  ASSERT_EQ(command.secrets.size(), 1U);
  EXPECT_EQ(command.secrets[0].content, "export PASSWD='secret'\n");
  EXPECT_EQ(command.timeout, ipc::utility::kMountTime);
}

}  // namespace
}  // namespace berth::node
