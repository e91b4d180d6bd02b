#include "guest/pod.h"

#include <gtest/gtest.h>

namespace berth::guest {
namespace {

TEST(SysctlPathTest, TheFirstSeparatorTellsWhatSeparatesTheParts) {
  EXPECT_EQ(SysctlPath("kernel.shm_rmid_forced"), "/proc/sys/kernel/shm_rmid_forced");
  EXPECT_EQ(SysctlPath("net/ipv4/ip_forward"), "/proc/sys/net/ipv4/ip_forward");
  EXPECT_EQ(SysctlPath("net.ipv4.conf.eth0/1.forwarding"),
            "/proc/sys/net/ipv4/conf/eth0.1/forwarding");
  EXPECT_EQ(SysctlPath("net/ipv4/conf/eth0.1/forwarding"),
            "/proc/sys/net/ipv4/conf/eth0.1/forwarding");
}

TEST(SysctlPathTest, ANameThatLeadsElsewhereIsNone) {
  for (const char* name : {"", ".", "..", "/etc/passwd", "../self/mem", "net/../../self/mem",
                           "net.//.//.self", "kernel.", "kernel//x", "kernel/./x", "a b", "a=b"}) {
    EXPECT_EQ(SysctlPath(name), "") << name;
  }
  EXPECT_EQ(SysctlPath("kernel." + std::string(300, 'x')), "");
}

}  // namespace
}  // namespace berth::guest
