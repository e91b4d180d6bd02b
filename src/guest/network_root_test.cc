// The network of a guest in a network namespace of its own, with one end of a pair of interfaces as
// its card.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert_ok.h"
#include "guest/network.h"
#include "platform/processes/exec.h"

namespace berth::guest {
namespace {

using base::ipc::Message;
using base::ipc::Strings;
using testing::HasSubstr;

std::string Ip(const std::string& words) {
  const auto out =
      platform::RunOk(*platform::NewHostExec(), {.argv = {"/bin/sh", "-c", "ip " + words}});
  EXPECT_TRUE(out.ok()) << words << ": " << out.status();
  return out.value_or("");
}

// In a child process, whose failures are told by its exit code.
void TakeOverANetworkTwice() {
  ASSERT_EQ(unshare(CLONE_NEWNET), 0);
  Ip("link add card type veth peer name other");
  Ip("link set card address 02:00:00:00:00:42");
  Ip("link set other up");
  const Message request =
      Message()
          .Set("name", std::string("eth0"))
          .Set("mac", std::string("02:00:00:00:00:42"))
          .Set("mtu", int64_t{1400})
          .Set("addresses", Strings{"10.1.2.3/24", "fd00::3/64"})
          .Set("routes", Strings{"0.0.0.0/0|169.254.1.1", "10.1.2.0/24|10.1.2.1", "10.1.2.1/32|",
                                 "::/0|fe80::1"})
          .Set("neighbors", Strings{"10.1.2.9|02:00:00:00:00:09"});
  for (int i = 0; i < 2; ++i) {
    const Message reply = ConfigureNetwork(request);
    const std::string* error = reply.FindText("error");
    ASSERT_EQ(error, nullptr) << *error;
  }
  EXPECT_THAT(Ip("link show lo"), HasSubstr("UP"));
  EXPECT_THAT(Ip("link show eth0"), testing::AllOf(HasSubstr("UP"), HasSubstr("mtu 1400")));
  EXPECT_THAT(Ip("addr show eth0"), testing::AllOf(HasSubstr("inet 10.1.2.3/24 brd 10.1.2.255"),
                                                   HasSubstr("inet6 fd00::3/64")));
  // The routes are those of the request alone.
  EXPECT_EQ(Ip("-4 route show table main | sed 's/ *$//' | sort"),
            "10.1.2.0/24 via 10.1.2.1 dev eth0 onlink\n"
            "10.1.2.1 dev eth0 scope link\n"
            "default via 169.254.1.1 dev eth0 onlink\n");
  EXPECT_THAT(Ip("-6 route show table main"), HasSubstr("default via fe80::1 dev eth0"));
  EXPECT_THAT(Ip("neigh show dev eth0"), HasSubstr("10.1.2.9 lladdr 02:00:00:00:00:09 PERMANENT"));
}

TEST(ConfigureNetworkRootTest, ACardGetsNameAddressesRoutesAndNeighborsAndTwiceIsTheSame) {
  const pid_t child = fork();
  if (child == 0) {
    TakeOverANetworkTwice();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "its output says why";
}

}  // namespace
}  // namespace berth::guest
